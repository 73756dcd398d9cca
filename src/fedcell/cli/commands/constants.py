"""Measure the constants of the theory along a training."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fedcell.cli.app import command, draw_if_asked, figure_target, out
from fedcell.cli.options import (
    MAX_ROUNDS,
    AsJson,
    DataDir,
    Hold,
    LearnerName,
    NamedTarget,
    ScenarioName,
    Seed,
    TargetAccuracy,
    TargetLoss,
    Threads,
    figure_of,
    number,
)
from fedcell.cli.progress import progress_bars
from fedcell.cli.targets import TargetOptions, target_of
from fedcell.core.errors import printable
from fedcell.learning.custom import CustomLearner
from fedcell.learning.setup import prepare_training
from fedcell.planning.constants import measure_constants
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.checks import own_learner_setup

Rounds = Annotated[
    int | None,
    number("Rounds after which training stops. Default: plan.rounds.", most=MAX_ROUNDS),
]
Every = Annotated[
    int | None, number("Measure gradients every N rounds. Default: at rounds 1, 2, 4, 8, ...")
]
Clients = Annotated[int, number("Clients that draw batches, for C_1.", most=10_000)]
Draws = Annotated[int, number("Batches that each client draws.", least=2, most=10_000)]
Figure = Annotated[Path | None, figure_of("lambda and the P-L ratio")]


@command("fedcell constants digits", "fedcell constants mine.toml --rounds 200 --json")
def constants(
    scenario: ScenarioName,
    rounds: Rounds = None,
    every: Every = None,
    clients: Clients = 10,
    draws: Draws = 8,
    named_target: NamedTarget = None,
    target_loss: TargetLoss = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    figure: Figure = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
) -> None:
    """Measure Theorem 1's constants along a training: L, mu, lambda, C_1, ...

    Each comes with its formula and a 90 % interval, and with a note where the training
    contradicts its assumption.
    """
    picture = figure_target(figure)
    world = load_scenario(scenario)
    target = target_of(world, TargetOptions(named_target, target_loss, target_accuracy, hold))
    with progress_bars() as progress:
        own = CustomLearner.of(learner)
        mine = None if own is None else own(world, seed)
        if mine is None:
            setup = prepare_training(world, seed, data_dir, progress.download)
        else:
            setup = own_learner_setup(world, mine, seed)
        report = measure_constants(
            setup,
            rounds,
            target,
            every=every,
            clients=clients,
            draws=draws,
            threads=threads,
            learner=mine,
            observer=progress,
        )
    report = replace(report, name=printable(scenario))
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(out, report)
    draw_if_asked(report, picture, figure, quiet=as_json)
