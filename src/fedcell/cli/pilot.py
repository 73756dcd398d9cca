"""Commands that find out how many rounds training takes: a pilot, and its validation."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.files import check_target
from fedcell.core.quantities import parse_duration
from fedcell.experiments.store import Store
from fedcell.learning.engine import available_threads
from fedcell.planning.pilotfile import load_pilot
from fedcell.planning.piloting import run_pilot, validate_pilot
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

from .app import (
    RUNS,
    AsJson,
    DataDir,
    MostRounds,
    ScenarioName,
    Seed,
    StoreFolder,
    Target,
    Threads,
    Workers,
    app,
    check_folder,
    draw_if_asked,
    figure_target,
    file_stem,
    out,
)
from .progress import progress_bars, trial_bar
from .signals import keeping_what_is_done

PAYS = 10.0  # [s] of budget from which processes are started
Budget = Annotated[
    str,
    typer.Option(
        help="Time to run for: 60s, 5min. Two seeds are run in any case, if the first gets there."
    ),
]


@app.command("pilot")
def pilot_command(
    scenario: ScenarioName,
    budget: Budget = "60s",
    out_path: Annotated[
        Path | None, typer.Option("--out", help="The pilot's file. Default: pilot-SCENARIO.json.")
    ] = None,
    target_loss: Target = None,
    rounds: MostRounds = None,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the law against the pilot's own runs to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Workers = None,
    store: StoreFolder = RUNS,
) -> None:
    """Find out by short runs how many rounds training takes, as a law in K, E_l and gamma.

    Six settings around the scenario's plan are run, seed after seed, until the budget is used
    up. The file keeps the loss curves: fedcell plan fits other targets from them. The same
    command with a larger budget, or after an interrupt, goes on where it stopped.
    """
    seconds, picture = parse_duration(budget, "--budget"), figure_target(figure)
    out_path = out_path or Path(f"pilot-{file_stem(scenario)}.json")
    file = check_target(out_path, ("json",))
    check_folder(store, "--store")
    with keeping_what_is_done(), progress_bars() as progress, trial_bar(seconds) as report:
        pilot = run_pilot(
            load_scenario(scenario),
            seconds,
            file,
            target=target_loss,
            rounds=rounds,
            seed=seed,
            name=scenario,
            data_dir=data_dir,
            threads=threads,
            workers=_workers(workers, threads, seconds),
            store=Store(store),
            progress=progress,
            report=report,
        )
    if as_json:
        print_json(pilot.report.to_dict())
    else:
        print_result(out, pilot)
        words = shlex.join([scenario, "--pilot", str(out_path)])
        out.print(f"written to {out_path}; next: fedcell plan {words}", soft_wrap=True)
    draw_if_asked(pilot, picture, figure, quiet=as_json)


def _workers(workers: int | None, threads: int | None, budget: float) -> int | None:
    """A process for each processor; one run at a time where threads are given, or where processes
    would take a good part of the budget to start."""
    if workers is None and threads is None and budget >= PAYS:
        return available_threads()
    return workers


@app.command()
def validate(
    scenario: ScenarioName,
    pilot: Annotated[Path, typer.Option(help="The pilot that is to be judged.")],
    budget: Budget = "60s",
    out_path: Annotated[
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
    workers: Workers = None,
    store: StoreFolder = RUNS,
) -> None:
    """Judge a pilot by runs that it has not seen: other K, E_l and gamma, and other seeds."""
    seconds, picture = parse_duration(budget, "--budget"), figure_target(figure)
    out_path = out_path or Path(f"validation-{file_stem(scenario)}.json")
    file = check_target(out_path, ("json",))
    check_folder(store, "--store")
    known = load_pilot(pilot)
    with keeping_what_is_done(), progress_bars() as progress, trial_bar(seconds) as report:
        validation = validate_pilot(
            load_scenario(scenario),
            known,
            seconds,
            file,
            rounds=rounds,
            name=scenario,
            data_dir=data_dir,
            threads=threads,
            workers=_workers(workers, threads, seconds),
            store=Store(store),
            progress=progress,
            report=report,
        )
    if as_json:
        print_json(validation.to_dict())
    else:
        print_result(out, validation)
        words = f"runs written to {out_path}; more of them with a larger --budget"
        out.print(words, soft_wrap=True)
    draw_if_asked(validation, picture, figure, quiet=as_json)
