"""Measure how many rounds training takes."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from fedcell.cli.app import (
    RUNS,
    app,
    check_folder,
    draw_if_asked,
    err,
    figure_target,
    file_stem,
    out,
)
from fedcell.cli.options import (
    AsJson,
    Clients,
    DataDir,
    Details,
    Hold,
    LearnerName,
    ScenarioName,
    Seed,
    Steps,
    StoreFolder,
    TargetAccuracy,
    TargetLoss,
    Threads,
    Workers,
    parse_range,
    target_of,
    worker_count,
)
from fedcell.cli.progress import progress_bars, trial_bar
from fedcell.cli.signals import keeping_what_is_done
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration
from fedcell.experiments.store import Store
from fedcell.planning.pilot.run import run_pilot
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Budget = Annotated[
    str,
    typer.Option(help="Time to run for, from the first moment to the last: 60s, 5min."),
]
RunRounds = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        min=1,
        max=10**6,
        help="Rounds after which a run ends. Default: plan.rounds, 1000 at the least.",
    ),
]


@app.command("pilot")
def pilot_command(
    scenario: ScenarioName,
    budget: Budget = "60s",
    out_path: Annotated[
        Path | None, typer.Option("--out", help="The pilot's file. Default: pilot-SCENARIO.json.")
    ] = None,
    target_loss: TargetLoss = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    rounds: RunRounds = None,
    minimise: Annotated[
        Literal["cost", "duration", "energy"],
        typer.Option(help="What the plan is to make least: it is looked for there."),
    ] = "cost",
    clients: Clients = None,
    steps: Steps = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the law against the pilot's own runs to this file.")
    ] = None,
    details: Details = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Workers = None,
    store: StoreFolder = RUNS,
) -> None:
    """Find out by short runs how many rounds training takes, where the plan is likely to be.

    What a round costs follows from the scenario, so the pilot looks where the cost to the target
    may be least: it runs, fits, and runs where that says most, until the budget is used up. Runs
    that cannot be of use are given up. The file keeps the loss curves: fedcell plan fits easier
    targets from them, also where the pilot's own was not reached. The same command with a larger
    budget, another target, or after an interrupt continues with the runs of the file. Runs with a
    --learner of your own are made one after the other, in this process.
    """
    seconds, picture = parse_duration(budget, "--budget"), figure_target(figure)
    out_path = out_path or Path(f"pilot-{file_stem(scenario)}.json")
    file = check_target(out_path, ("json",))
    check_folder(store, "--store")
    world = load_scenario(scenario)
    with keeping_what_is_done(), progress_bars() as progress, trial_bar(seconds) as report:
        pilot = run_pilot(
            world,
            seconds,
            file,
            target=target_of(world, target_loss, target_accuracy, hold),
            rounds=rounds,
            minimise=minimise,
            clients=parse_range(clients, "--clients"),
            steps=parse_range(steps, "--steps"),
            seed=seed,
            name=scenario,
            data_dir=data_dir,
            threads=threads,
            workers=workers if learner else worker_count(workers, threads, seconds),
            store=Store(store),
            learner=learner,
            progress=progress,
            report=report,
            tell=lambda words: err.print(words, highlight=False, soft_wrap=True),
        )
    if as_json:
        print_json(pilot.report.to_dict())
    else:
        print_result(out, pilot, details=details)
        words = shlex.join([scenario, "--pilot", str(out_path)])
        out.print(f"written to {out_path}; next: fedcell plan {words}", soft_wrap=True)
    draw_if_asked(pilot, picture, figure, quiet=as_json)
