"""Commands that touch data: show a partition, run a scenario, the demo."""

import re
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.quantities import loss
from fedcell.learning.partition import summary
from fedcell.learning.setup import Material, gather_material, wanted
from fedcell.network.compare import Row
from fedcell.network.policies.names import NAMED
from fedcell.planning.planfile import Planned, load_plan, outcome_rows
from fedcell.scenario.load import SHIPPED, check_target, load_scenario, write_atomically
from fedcell.scenario.tables import Scenario
from fedcell.show.figures.partitions import partition_figure
from fedcell.show.figures.rounds import FORMATS
from fedcell.show.tables.plans import print_outcome
from fedcell.show.tables.rounds import print_json, print_partition, print_run
from fedcell.simulation.run import by_name, run

from .app import AsJson, DataDir, PolicyNames, Rounds, ScenarioName, Seed, app, out
from .progress import watching


@app.command()
def partition(
    scenario: ScenarioName,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw labels and sizes of all clients to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show how a scenario deals its training data to the clients."""
    target = check_target(figure, FORMATS) if figure else None
    with watching() as watch:
        material = gather_material(load_scenario(scenario), seed, data_dir, watch.download)
    said = _partition(scenario, material, seed, target)
    if as_json:
        print_json(said)
        return
    print_partition(out, scenario, said)
    if figure:
        out.print(f"figure: {figure}", soft_wrap=True)


def _partition(scenario: str, material: Material, seed: int, target: Path | None) -> Row:
    """A partition in numbers, and its picture if there is a place for it."""
    data, dealt = material.data, material.partition
    if data is None or dealt is None:
        raise BadInput(f"{scenario}: quadratics need no data: there is no partition to show")
    how = wanted(material.scenario).partition
    sizes = "drawn" if how.kind == "dirichlet" else how.sizes
    if target:
        counts = dealt.label_counts(data.y_train, data.classes)
        title = f"{data.name}, {how.kind}, {sizes} sizes, seed {seed}"
        write_atomically(target, lambda path: partition_figure(counts, title, path))
    said = {"dataset": data.name, "kind": how.kind, "sizes": sizes}
    return said | summary(dealt, data.y_train)


@app.command("run")
def run_command(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}. With --plan it may be "
            "left out: the plan's own."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Run with the K, E_l and target of what fedcell plan --out wrote."),
    ] = None,
    policy: PolicyNames = None,
    rounds: Rounds = None,
    target_loss: Annotated[
        float | None,
        typer.Option(help="Stop when the training loss is there. Default: learning.target."),
    ] = None,
    seed: Seed = 0,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the run. Default: run-SCENARIO-seedSEED."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Default: all processors.")
    ] = None,
) -> None:
    """Train a scenario's model over its cell: loss against rounds, seconds and joules.

    Training does not depend on the policy, so all policies are priced on one training. The
    folder gets ledger.csv (a line for each round), clients.csv (who pays), summary.json,
    scenario.json and loss.png. Ctrl-C, or even kill -9, loses at most the round under way:
    the same command with --resume goes on, to the same bits.
    """
    target_loss = loss(target_loss)
    planned = load_plan(plan) if plan else None
    name, world = _world(scenario, planned, plan)
    policies = policy or list(NAMED)
    if planned:
        target_loss = planned.target if target_loss is None else target_loss
        if not policy:  # the plan's own first
            policies = list(dict.fromkeys([planned.policy, *NAMED]))
    changed = [] if planned is None else planned.changed(world, target_loss)
    if changed:
        said = f"this is not what was planned ({', '.join(changed)}): predictions are not compared"
        warnings.warn(said, FedcellWarning, stacklevel=2)
    stem = re.sub(r"[^\w.-]", "_", Path(name).stem)
    folder = folder or Path(f"run-{stem}-seed{seed}")
    with watching() as watch:
        result = run(
            world,
            by_name(policies),
            rounds=rounds,
            target=target_loss,
            seed=seed,
            folder=folder,
            resume=resume,
            data_dir=data_dir,
            threads=threads,
            watch=watch,
        )
    beside = outcome_rows(planned, result.summary["policies"]) if planned and not changed else []
    if as_json:
        print_json(result.summary | ({"plan": beside} if planned else {}))
    elif result.ledgers:
        print_run(out, name, result.summary)
        if planned and not changed:
            print_outcome(out, beside)
        written = f"written to {folder}: ledger.csv, clients.csv, summary.json, loss.png"
        out.print(written, soft_wrap=True)
    if not result.complete:
        how = f"give the same command with --resume --out {shlex.quote(str(folder))}"
        _stop(f"interrupted; to go on, {how}")


def _world(name: str | None, planned: Planned | None, file: Path | None) -> tuple[str, Scenario]:
    """The scenario that is named, or the plan's, with the K and E_l of the plan."""
    if name is None:
        if planned is None:
            raise BadInput(f"which scenario? name a file, or one of: {', '.join(SHIPPED)}")
        if planned.world is None:
            raise BadInput(f"{file}: its scenario has measured gains: name its file as well")
        name, world = planned.name, planned.world
    else:
        world = load_scenario(name)
    return name, planned.of(world) if planned else world


def _stop(said: str) -> NoReturn:
    print(f"fedcell: {said}", file=sys.stderr)
    sys.exit(130)
