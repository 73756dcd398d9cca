"""Schedule one round: band shares and CPU frequencies."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, draw_if_asked, figure_target, out
from fedcell.cli.options import (
    AsJson,
    DataDir,
    own_policy,
    planned_world,
)
from fedcell.core.errors import BadInput
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import NAMED
from fedcell.network.schedule import is_round_file, load_round, schedule_round
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.scenario.load import SHIPPED
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json


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
