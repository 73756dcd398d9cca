"""Commands of the network side: schedule a round, price many, print a scenario."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput, FedcellError, printable
from fedcell.learning.setup import prepare_training
from fedcell.network.compare import compare, sweep_costs
from fedcell.network.policies.names import NAMED
from fedcell.network.roundfile import is_round_file, load_round
from fedcell.network.schedule import schedule_round
from fedcell.planning.plan import TrainingPlan
from fedcell.scenario.load import SHIPPED, load_scenario, shipped
from fedcell.scenario.save import commented
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.show.tables.reference import scenario_reference

from .app import (
    AsJson,
    DataDir,
    Fleets,
    PolicyNames,
    Rounds,
    ScenarioName,
    Seed,
    app,
    draw_if_asked,
    figure_target,
    out,
    track_pricing,
)
from .planned import own_policy, planned_world


@app.command()
def schedule(
    file: Annotated[
        str | None,
        typer.Argument(
            help="One round as TOML or JSON (docs/files.md), a scenario file, or a shipped one: "
            f"{', '.join(SHIPPED)}. With --plan it may be left out: the plan's own."
        ),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="A round as planned: K, E_l and policy of what fedcell plan wrote."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(NAMED)}; or module:callable for your own. Default: the plan's, else "
            "optimal."
        ),
    ] = None,
    round_: Annotated[
        int | None,
        typer.Option(
            "--round", min=1, max=10**9, help="Which round of the scenario. Default: the first."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the run that it is a round of. Default: 0."),
    ] = None,
    as_json: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw who trains and uploads when to this file.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Schedule one round: who gets which share of the band and which CPU frequency.

    Of a scenario, --round 7 --seed 0 is what fedcell run --seed 0 meets in its seventh round.
    """
    target = figure_target(figure)
    planned = TrainingPlan.load(plan) if plan else None
    if file is not None and planned is None and is_round_file(Path(file)):
        if round_ is not None or seed is not None:
            raise BadInput(f"--round and --seed are for scenarios: {file} is one round")
        scheduled = schedule_round(load_round(file), policy or "optimal")
    else:
        _, world = planned_world(file, planned, plan)
        if policy is None:
            policy = "optimal" if planned is None else own_policy(planned, plan)
        if world.learning is not None:  # D_j, z_m and alpha_0 are those of what is trained
            world = prepare_training(world, seed or 0, data_dir).scenario
        scheduled = schedule_round(world, policy, round=round_ or 1, seed=seed or 0)
    if as_json:
        print_json(scheduled.to_dict())
    else:
        print_result(out, scheduled)
    draw_if_asked(scheduled, target, figure, quiet=as_json)


@app.command()
def cost(
    scenario: ScenarioName,
    policy: PolicyNames = None,
    rounds: Rounds = None,
    seed: Seed = 0,
    fleets: Fleets = 1,
    as_json: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the cost over K and over E_l (Fig. 6) to this file.")
    ] = None,
    spread: Annotated[
        list[float] | None,
        typer.Option(
            help="How much clients differ, as 0.5: a line of the figure for each; repeat it. "
            "Default: clients.spread."
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Price rounds by Monte Carlo: policies side by side on the same dice."""
    policies, target = policy or list(NAMED), figure_target(figure)
    if spread and not figure:
        raise BadInput("--spread is for the lines of a figure: give --figure too")
    world = load_scenario(scenario)
    if world.learning is not None:  # D_j, z_m and alpha_0 are those of what is trained
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
        if as_json:  # the answer does not go with the figure
            print_json({"scenario": scenario} | comparison.to_dict())
        raise
    if as_json:
        swept = {"sweep": sweep.to_dict()} if sweep else {}
        print_json({"scenario": scenario} | comparison.to_dict() | swept)
    if sweep:
        draw_if_asked(sweep, target, figure, quiet=as_json)


@app.command("scenario")
def print_scenario(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(SHIPPED)}.")] = "paper",
    all_keys: Annotated[
        bool, typer.Option("--all-keys", help="Print every key that is there, with its meaning.")
    ] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print what all keys mean and take, as Markdown.")
    ] = False,
) -> None:
    """Print a shipped scenario file, commented, to start your own from.

    A shipped file states only what differs from the defaults; --all-keys states all.
    """
    if reference:
        print(scenario_reference(), end="")
    else:
        print(commented(load_scenario(name)) if all_keys else shipped(name), end="")
