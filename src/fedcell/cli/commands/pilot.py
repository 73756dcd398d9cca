"""Measure by trials how many rounds training takes."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import (
    DEFAULT_STORE,
    check_folder,
    command,
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
    NamedTarget,
    ScenarioName,
    Seed,
    Select,
    Steps,
    StoreFolder,
    TargetAccuracy,
    TargetLoss,
    Threads,
    TrialRounds,
    Workers,
    duration,
    figure_of,
    out_file,
    parse_range,
)
from fedcell.cli.progress import progress_bars, trial_bar
from fedcell.cli.signals import keeping_finished_runs
from fedcell.cli.targets import TargetOptions, target_of
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration
from fedcell.learning.engines.engine import available_threads
from fedcell.network.selectors.names import selecting
from fedcell.planning.pilot.run import run_pilot
from fedcell.planning.setting import Objective, Region
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.compute import Compute

Budget = Annotated[str, duration("Time of the whole command by the clock, as 60s or 5min.")]
OutFile = Annotated[Path | None, out_file("File of the pilot. Default: pilot-SCENARIO.json.")]
Minimise = Annotated[
    Objective, typer.Option(help="Objective of the plan; trials concentrate where it is low.")
]
Figure = Annotated[Path | None, figure_of("the fitted law against the trials")]

MIN_BUDGET_FOR_WORKERS = 10.0  # [s] below which starting processes takes too much of the budget


def trial_compute(
    budget: float,
    data_dir: Path | None,
    threads: int | None,
    workers: int | None,
    store: Path,
    learner: str | None,
) -> Compute:
    """Return where trials are computed: by a worker for each processor, and one by one where
    workers or threads are given, a learner is, or the budget [s] is short."""
    given = workers is not None or threads is not None or learner is not None
    if not given and budget >= MIN_BUDGET_FOR_WORKERS:
        workers = available_threads()
    return Compute(
        data_dir=data_dir, threads=threads, workers=workers, store=store, learner=learner
    )


def _print_message(message: str) -> None:
    err.print(message, highlight=False, soft_wrap=True)


@command(
    "fedcell pilot digits --budget 60s",
    "fedcell pilot mine.toml --target-accuracy 0.9 --clients 3..20",
)
def pilot_command(
    scenario: ScenarioName,
    budget: Budget = "60s",
    out_path: OutFile = None,
    named_target: NamedTarget = None,
    target_loss: TargetLoss = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    rounds: TrialRounds = None,
    minimise: Minimise = "cost",
    clients: Clients = None,
    steps: Steps = None,
    select: Select = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    figure: Figure = None,
    details: Details = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Workers = None,
    store: StoreFolder = DEFAULT_STORE,
) -> None:
    """Measure by short trials how many rounds training takes, near the likely plan.

    Trials are made where they tell most about the plan until the budget is used up. The file keeps
    the loss curves: fedcell plan can fit easier targets from them. The same command with a larger
    budget, or after an interrupt, adds to the file. With a --learner, trials run one by one.
    """
    seconds, picture = parse_duration(budget, "--budget"), figure_target(figure)
    out_path = out_path or Path(f"pilot-{file_stem(scenario)}.json")
    file = check_target(out_path, ("json",))
    check_folder(store, "--store")
    world = selecting(load_scenario(scenario), select)
    own = ["--select", select] if select else []
    wanted = TargetOptions(named_target, target_loss, target_accuracy, hold)
    with keeping_finished_runs(), progress_bars() as observer, trial_bar(seconds) as trial:
        pilot = run_pilot(
            world,
            seconds,
            file,
            target=target_of(world, wanted),
            region=Region(
                clients=parse_range(clients, "--clients"),
                steps=parse_range(steps, "--steps"),
                rounds=rounds,
                minimise=minimise,
            ),
            seed=seed,
            name=scenario,
            compute=trial_compute(seconds, data_dir, threads, workers, store, learner),
            observer=replace(observer, trial=trial, message=_print_message),
        )
    if as_json:
        print_json(pilot.report.to_dict())
    else:
        print_result(out, pilot, details=details)
        words = shlex.join([scenario, *own, "--pilot", str(out_path)])
        out.print(f"written to {out_path}; next: fedcell plan {words}", soft_wrap=True)
    draw_if_asked(pilot, picture, figure, quiet=as_json)
