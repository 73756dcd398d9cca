"""Commands that touch data: show a partition, run a scenario, the demo."""

import re
import shlex
import sys
from math import inf
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from .command import AsJson, DataDir, PolicyNames, Rounds, ScenarioName, Seed, app, out
from .errors import BadInput
from .figures import FORMATS
from .files import check_target, load_scenario, shipped_scenario, write_atomically
from .learning.partition import summary
from .learning.pictures import partition_figure
from .learning.prepare import Material, gather_material, wanted
from .policies import NAMED
from .progress import watching
from .runs import by_name, run
from .survey import Row
from .tables import print_json, print_partition, print_run


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
    scenario: ScenarioName,
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
    if target_loss is not None and not 0 < target_loss < inf:
        raise BadInput(f"--target-loss = {target_loss}: expected a finite number above 0")
    world = load_scenario(scenario)
    stem = re.sub(r"[^\w.-]", "_", Path(scenario).stem)
    folder = folder or Path(f"run-{stem}-seed{seed}")
    with watching() as watch:
        result = run(
            world,
            by_name(policy or list(NAMED)),
            rounds=rounds,
            target=target_loss,
            seed=seed,
            folder=folder,
            resume=resume,
            data_dir=data_dir,
            threads=threads,
            watch=watch,
        )
    if as_json:
        print_json(result.summary)
    elif result.ledgers:
        print_run(out, scenario, result.summary)
        written = f"written to {folder}: ledger.csv, clients.csv, summary.json, loss.png"
        out.print(written, soft_wrap=True)
    if not result.complete:
        how = f"give the same command with --resume --out {shlex.quote(str(folder))}"
        _stop(f"interrupted; to go on, {how}")


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Where results go; made if it is not there.")
    ] = Path("fedcell-demo"),
) -> None:
    """The whole job on what comes with the package, in about a minute."""
    world = shipped_scenario("digits")
    folder.mkdir(parents=True, exist_ok=True)
    picture = check_target(folder / "partition.png", FORMATS)
    print_partition(out, "digits", _partition("digits", gather_material(world), 0, picture))
    home = folder / "run"
    with watching() as watch:
        done = (home / "run.json").exists()
        result = run(world, by_name(list(NAMED)), folder=home, resume=done, watch=watch)
    if not result.complete:
        _stop("interrupted; to go on, give the same command again")
    print_run(out, "digits", result.summary)
    out.print(f"pictures: {folder / 'partition.png'}, {home / 'loss.png'}\n", soft_wrap=True)
    out.print("Next: `fedcell scenario digits > mine.toml`, edit it, `fedcell run mine.toml`.")


def _stop(said: str) -> NoReturn:
    print(f"fedcell: {said}", file=sys.stderr)
    sys.exit(130)
