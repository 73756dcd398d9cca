"""The command that measures the constants of the theory."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.quantities import loss
from fedcell.learning.setup import gather_material, wanted
from fedcell.planning.measure import measure_along
from fedcell.scenario.load import check_target, load_scenario, write_atomically
from fedcell.show.figures.plans import constants_figure
from fedcell.show.figures.rounds import FORMATS
from fedcell.show.tables.plans import print_constants
from fedcell.show.tables.rounds import print_json

from .app import AsJson, DataDir, ScenarioName, Seed, app, out
from .pilot import MostRounds, Target, Threads
from .progress import watching


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
    target_loss: Target = None,
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
    picture = check_target(figure, FORMATS) if figure else None
    world = load_scenario(scenario)
    target = wanted(world).target if target_loss is None else loss(target_loss)
    most = world.rounds if rounds is None else rounds
    with watching() as watch:
        material = gather_material(world, seed, data_dir, watch.download)
        found, said = measure_along(
            material, most, seed, target, every, clients, draws, threads, watch.compile
        )
    if picture:
        write_atomically(picture, lambda path: constants_figure(found, path))
    if as_json:
        print_json(said)
        return
    print_constants(out, scenario, found, said)
    if figure:
        out.print(f"figure: {figure}", soft_wrap=True)
