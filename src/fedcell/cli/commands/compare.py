"""Compare selectors and policies on the same seeds."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import (
    DEFAULT_STORE,
    check_folder,
    command,
    draw_if_asked,
    figure_target,
    file_stem,
    out,
)
from fedcell.cli.options import (
    MAX_SEEDS,
    SELECTOR,
    AccuracyText,
    AsJson,
    Cluster,
    DataDir,
    Hold,
    LossText,
    NamedText,
    Retry,
    ScenarioName,
    StoreFolder,
    TrainingRounds,
    Workers,
    figure_of,
    name_of,
    number,
    out_folder,
    policies_of,
)
from fedcell.cli.signals import keeping_finished_runs
from fedcell.cli.sweeps import engine_of, sweep_bars, sweep_reporter, write_page
from fedcell.cli.targets import TargetOptions, goal_of
from fedcell.core.errors import BadInput
from fedcell.core.quantities import parse_duration, parse_energy
from fedcell.experiments.league.league import Limit
from fedcell.experiments.league.run import ZOO, Contest, check_contest, compare_selectors
from fedcell.experiments.store import Store
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Selectors = Annotated[
    list[str] | None,
    name_of(f"{SELECTOR} Repeat it; the others are compared with the first.", "--select"),
]
Zoo = Annotated[
    bool,
    typer.Option("--zoo", help=f"Add all rules that need the network alone: {', '.join(ZOO)}."),
]
Policies = Annotated[list[str] | None, policies_of("optimal")]
Seeds = Annotated[int, number("Number of seeds.", most=MAX_SEEDS)]
Deadline = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Compare the accuracy at this simulated time, as 15min."),
]
Energy = Annotated[
    str | None,
    typer.Option(metavar="ENERGY", help="Compare the accuracy at this energy, as 500J."),
]
OutFolder = Annotated[Path | None, out_folder("Folder of the tables. Default: compare-SCENARIO.")]
Figure = Annotated[Path | None, figure_of("the metric over simulated time, and the differences")]
Report = Annotated[
    bool, typer.Option("--report", help="Write report.html, a page without other files.")
]


@command(
    "fedcell compare digits --select uniform --select best-channel --seeds 5",
    "fedcell compare digits --zoo --policy optimal --policy even --report",
)
def compare_command(
    scenario: ScenarioName,
    select: Selectors = None,
    zoo: Zoo = False,
    policy: Policies = None,
    seeds: Seeds = 10,
    rounds: TrainingRounds = None,
    named_target: NamedText = None,
    target_loss: LossText = None,
    target_accuracy: AccuracyText = None,
    hold: Hold = None,
    deadline: Deadline = None,
    energy: Energy = None,
    folder: OutFolder = None,
    store: StoreFolder = DEFAULT_STORE,
    workers: Workers = None,
    cluster: Cluster = None,
    retry: Retry = False,
    figure: Figure = None,
    report: Report = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Compare selectors and policies: rounds, seconds and joules to a target, and who wins.

    All have the same data, channels and losses. Finished trainings are stored: the same command
    resumes after an interrupt, and more --seeds or selectors are added. The folder gets runs.csv
    and league.json.
    """
    picture = figure_target(figure)
    rules = list(dict.fromkeys([*(select or []), *(ZOO if zoo else ())]))
    if not rules:
        raise BadInput("which selectors? name some with --select, or give --zoo")
    world, target = goal_of(
        load_scenario(scenario), TargetOptions(named_target, target_loss, target_accuracy, hold)
    )
    contest = Contest(seeds=seeds, rounds=rounds, target=target, limit=_limit(deadline, energy))
    policies = policy or ["optimal"]
    check_contest(world, rules, policies, contest)
    folder = folder or Path(f"compare-{file_stem(scenario)}")
    check_folder(folder, "--out")
    check_folder(store, "--store")
    with keeping_finished_runs(), sweep_bars() as bars:
        league = compare_selectors(
            *(world, rules, policies, contest),
            store=Store(store),
            executor=engine_of(workers, cluster),
            data_dir=data_dir,
            retry=retry,
            report=sweep_reporter(bars),
        )
    league.save(folder)
    if as_json:
        print_json(league.to_dict())
    else:
        print_result(out, league)
        out.print(f"written to {folder}: runs.csv, league.json", soft_wrap=True)
    draw_if_asked(league, picture, figure, quiet=as_json)
    if report:
        write_page(folder, league, quiet=as_json)


def _limit(deadline: str | None, energy: str | None) -> Limit:
    """Return the time or energy at which the accuracy is compared."""
    given = {}
    if deadline is not None:
        given["seconds"] = parse_duration(deadline, "--deadline")
    if energy is not None:
        given["joules"] = parse_energy(energy, "--energy")
    return Limit(**given)
