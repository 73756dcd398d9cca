"""Commands that find out how many rounds training takes: a pilot, and its validation."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput
from fedcell.core.quantities import loss, seconds
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import prepare, wanted
from fedcell.planning.pilot import Conductor, Setting, conduct, design, seeds_of
from fedcell.planning.pilotfile import Pilot, load_pilot, pilot_row, save_pilot
from fedcell.planning.validate import against, failures, held_out, summary
from fedcell.scenario.identity import check_identity, pilot_identity
from fedcell.scenario.load import check_target, load_scenario, write_atomically
from fedcell.scenario.tables import Scenario
from fedcell.show.figures.plans import validation_figure
from fedcell.show.figures.rounds import FORMATS
from fedcell.show.tables.plans import print_notes, print_pilot, print_validation
from fedcell.show.tables.rounds import print_json

from .app import AsJson, DataDir, ScenarioName, Seed, app, out
from .progress import spending, watching

Budget = Annotated[
    str, typer.Option(help="Time to run for: 60s, 5min. Two seeds are run in any case.")
]
Target = Annotated[
    float | None, typer.Option(help="Training loss to reach. Default: learning.target.")
]
MostRounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", min=1, max=10**6, help="Rounds after which a run ends. Default: plan.rounds."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Default: all processors.")]


@app.command("pilot")
def pilot_command(
    scenario: ScenarioName,
    budget: Budget = "60s",
    written: Annotated[
        Path | None, typer.Option("--out", help="The pilot's file. Default: pilot-SCENARIO.json.")
    ] = None,
    target_loss: Target = None,
    rounds: MostRounds = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
) -> None:
    """Find out by short runs how many rounds training takes, as a law in K, E_l and gamma.

    Six settings around the scenario's plan are run, seed after seed, until the budget is used
    up. The file keeps the loss curves: fedcell plan fits other targets from them. The same
    command with a larger budget, or after an interrupt, goes on where it stopped.
    """
    limit = seconds(budget, "--budget")
    written = written or Path(f"pilot-{Path(scenario).stem}.json")
    file = check_target(written, ("json",))
    conductor, none, sized = _begin(scenario, target_loss, rounds, seed, data_dir, threads)
    settings = design(sized, seed)
    found = _runs(conductor, none, settings, seeds_of(seed), limit, file, settings[0])
    found = found.fitted()
    said = pilot_row(found)
    save_pilot(file, found, said)
    if as_json:
        print_json(said)
        return
    print_pilot(out, scenario, said)
    words = shlex.join([scenario, "--pilot", str(written)])
    out.print(f"written to {written}; next: fedcell plan {words}", soft_wrap=True)


@app.command()
def validate(
    scenario: ScenarioName,
    pilot: Annotated[Path, typer.Option(help="The pilot that is to be judged.")],
    budget: Budget = "60s",
    written: Annotated[
        Path | None,
        typer.Option("--out", help="File of the runs. Default: validation-SCENARIO.json."),
    ] = None,
    rounds: MostRounds = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw predicted against measured rounds to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
) -> None:
    """Judge a pilot by runs that it has not seen: other K, E_l and gamma, and other seeds."""
    limit = seconds(budget, "--budget")
    picture = check_target(figure, FORMATS) if figure else None
    written = written or Path(f"validation-{Path(scenario).stem}.json")
    file = check_target(written, ("json",))
    known = load_pilot(pilot)
    conductor, none, _ = _begin(scenario, known.target, rounds, known.seed, data_dir, threads)
    check_identity(known.identity, none.identity, pilot)
    law = known.fit()
    settings = held_out(list(dict.fromkeys(trial.setting for trial in known.trials)))
    seeds = seeds_of(known.seed, validation=True)
    found = _runs(conductor, replace(none, what="validation"), settings, seeds, limit, file)
    judges = [t for t in found.trials if t.setting in settings and t.serves(known.target)]
    rows = against(law, judges, known.target)
    said = summary(rows)
    if picture:
        title = f"{scenario}: {said['settings']} settings that the pilot has not seen"
        write_atomically(picture, lambda path: validation_figure(rows, title, path))
    if as_json:
        print_json(said | {"rows": rows, "failures": failures(rows)})
        return
    print_validation(out, scenario, rows, said)
    print_notes(out, failures(rows))
    out.print(f"runs written to {written}; more of them with a larger --budget", soft_wrap=True)
    if figure:
        out.print(f"figure: {figure}", soft_wrap=True)


def _begin(
    name: str,
    target: float | None,
    rounds: int | None,
    seed: int,
    data_dir: Path | None,
    threads: int | None,
) -> tuple[Conductor, Pilot, Scenario]:
    """Whoever runs the trials, with the engine warm, a pilot without any, and the
    scenario with its D_j."""
    world = load_scenario(name)
    target = wanted(world).target if target is None else loss(target)
    if target is None:
        raise BadInput(f"{name}: there is no loss to reach: set learning.target or --target-loss")
    most = world.rounds if rounds is None else rounds
    with watching() as watch:
        conductor = Conductor(
            scenario=world,
            target=target,
            rounds=most,
            data_dir=data_dir,
            threads=threads,
            download=watch.download,
        )
        material = conductor.material(conductor.planned, seed)
        with watch.compile():
            warm_up(prepare(material, seed, threads))
    identity = pilot_identity(material.scenario, material.data)
    none = Pilot(identity=identity, target=target, seed=seed, kind=world.cell.loss_kind)
    sized = world.using(clients={"sizes": material.scenario.clients.sizes})
    return conductor, none, sized


def _runs(
    conductor: Conductor,
    none: Pilot,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    budget: float,
    file: Path,
    watched: Setting | None = None,
) -> Pilot:
    """All runs that the budget allows, each saved as it ends."""
    found = none
    if file.exists():
        before = load_pilot(file, none.what)
        check_identity(before.identity, none.identity, file)
        for what in ("seed", "kind"):
            was, now = getattr(before, what), getattr(none, what)
            if was != now:
                name = {"seed": "--seed", "kind": "cell.loss_kind"}[what]
                raise BadInput(f"{file}: is of {name} {was}, not {now}: choose another --out")
        found = replace(none, trials=before.trials)
    save_pilot(file, found)  # what cannot be written is known before the runs
    try:
        with spending(budget, "runs") as spent:
            for trial in conduct(conductor, settings, seeds, budget, found.trials, watched):
                found = found.with_trial(trial)
                save_pilot(file, found)
                s, total = trial.setting, sum(t.seconds for t in found.trials)
                last = f"K = {s.cohort}, E_l = {s.local_steps}: {len(trial.losses)} rounds"
                spent(total, last)
                reached = (t.rounds_to(none.target) for t in found.trials)
                if len(found.trials) >= len(settings) and not any(reached):
                    break  # more of this would say no more
    except KeyboardInterrupt:
        print("fedcell: interrupted; to go on, give the same command again", file=sys.stderr)
        sys.exit(130)
    return found
