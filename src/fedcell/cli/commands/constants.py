"""The command that measures the constants of the theory."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, draw_if_asked, figure_target, out
from fedcell.cli.options import (
    AsJson,
    DataDir,
    Hold,
    LearnerName,
    MostRounds,
    ScenarioName,
    Seed,
    TargetAccuracy,
    TargetLoss,
    Threads,
    target_of,
)
from fedcell.cli.progress import progress_bars
from fedcell.learning.custom import OwnLearner
from fedcell.learning.setup import prepare_training
from fedcell.planning.constants import measure_constants
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.checks import own_learner_setup


@app.command()
def constants(
    scenario: ScenarioName,
    rounds: MostRounds = None,
    every: Annotated[
        int | None,
        typer.Option(min=1, help="Take gradients every so many rounds. Default: 1, 2, 4, 8, ..."),
    ] = None,
    clients: Annotated[
        int, typer.Option(min=1, max=10_000, help="Clients that draw batches, for C_1.")
    ] = 10,
    draws: Annotated[int, typer.Option(min=2, max=10_000, help="Batches that each draws.")] = 8,
    target_loss: TargetLoss = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    learner: LearnerName = None,
    seed: Seed = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw lambda and the P-L ratio to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
) -> None:
    """Measure Theorem 1's constants along a training: L, mu, lambda, C_1, sigma^2, G^2, ...

    Each comes with its formula and a 90 % interval, and with a note where the assumption that
    it belongs to is seen to fail.
    """
    picture = figure_target(figure)
    world = load_scenario(scenario)
    target = target_of(world, target_loss, target_accuracy, hold)
    with progress_bars() as progress:
        own = OwnLearner.of(learner)
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
            name=scenario,
            progress=progress,
        )
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(out, report)
    draw_if_asked(report, picture, figure, quiet=as_json)
