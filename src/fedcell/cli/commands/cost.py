"""Price many rounds of a scenario under each policy."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, draw_if_asked, figure_target, out, track_pricing
from fedcell.cli.options import (
    MAX_DRAWN_ROUNDS,
    AsJson,
    DataDir,
    ScenarioName,
    Seed,
    figure_of,
    number,
    policies_of,
)
from fedcell.core.errors import BadInput, FedcellError, printable
from fedcell.learning.setup import prepare_training
from fedcell.network.compare import compare, sweep_costs
from fedcell.network.policies.names import NAMED
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Policies = Annotated[list[str] | None, policies_of("all built-in ones")]
Rounds = Annotated[
    int | None,
    number("Rounds to draw. Default: plan.rounds, or all measured rounds.", most=MAX_DRAWN_ROUNDS),
]
Fleets = Annotated[
    int,
    number("Fleets to draw: with several, intervals are over fleets, not rounds.", most=10**4),
]
Figure = Annotated[Path | None, figure_of("the cost over K and over E_l (Fig. 6)")]
Spread = Annotated[
    list[float] | None,
    typer.Option(
        metavar="X",
        help="How much clients differ, as 0.5: one line of the figure. Repeat it for several. "
        "Default: clients.spread.",
    ),
]


@command(
    "fedcell cost cnn --rounds 500",
    "fedcell cost paper --policy even --policy optimal --figure cost.png",
)
def cost(
    scenario: ScenarioName,
    policy: Policies = None,
    rounds: Rounds = None,
    seed: Seed = 0,
    fleets: Fleets = 1,
    as_json: AsJson = False,
    figure: Figure = None,
    spread: Spread = None,
    data_dir: DataDir = None,
) -> None:
    """Price rounds by Monte Carlo: policies side by side, with common random numbers."""
    policies, target = policy or list(NAMED), figure_target(figure)
    if spread and not figure:
        raise BadInput("--spread is for the lines of a figure: give --figure too")
    world = load_scenario(scenario)
    if world.learning is not None:  # D_j, z_m and alpha_0 are those of the training
        world = prepare_training(world, seed, data_dir).scenario
    if spread and world.clients.table is not None:
        raise BadInput("--spread is for drawn clients: this scenario lists its own")
    for value in spread or ():
        world.using(clients={"spread": value})  # refused before any work
    comparison = compare(world, policies, rounds, seed, fleets, track_pricing)
    if not as_json:
        print_result(out, comparison, name=printable(scenario))
    sweep = None
    try:
        if target:
            sweep = sweep_costs(world, policies, spread, rounds, seed, fleets, track_pricing)
    except FedcellError:
        if as_json:  # a figure that fails does not take the answer with it
            print_json({"scenario": scenario} | comparison.to_dict())
        raise
    if as_json:
        swept = {"sweep": sweep.to_dict()} if sweep else {}
        print_json({"scenario": scenario} | comparison.to_dict() | swept)
    if sweep:
        draw_if_asked(sweep, target, figure, quiet=as_json)
