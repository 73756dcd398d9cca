"""Schedule one round: band shares and CPU frequencies."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, draw_if_asked, figure_target, out
from fedcell.cli.options import BY_PLAN, AsJson, DataDir, Select, figure_of, file, number, policy_of
from fedcell.cli.plans import own_policy, planned_world
from fedcell.core.errors import BadInput
from fedcell.learning.setup import prepare_training
from fedcell.network.schedule import is_round_file, load_round, schedule_round
from fedcell.network.selectors.names import selecting
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.scenario.load import SHIPPED
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

RoundOrScenario = Annotated[
    str | None,
    typer.Argument(
        help="One round as TOML or JSON (docs/reference/files.md), a scenario file, or a shipped "
        f"one: {', '.join(SHIPPED)}. {BY_PLAN}",
    ),
]
PlanFile = Annotated[
    Path | None, file("Take K, E_l and policy from a plan that fedcell plan --out wrote.")
]
Policy = Annotated[str | None, policy_of("the plan's, else optimal")]
Round = Annotated[
    int | None, number("Round of the scenario. Default: the first.", "--round", most=10**9)
]
RunSeed = Annotated[int | None, number("Random seed of the scenario. Default: 0.", least=0)]
Figure = Annotated[Path | None, figure_of("when each client trains and uploads")]


@command(
    "fedcell schedule digits --round 7", "fedcell schedule --plan plan.json --figure round.png"
)
def schedule(
    file: RoundOrScenario = None,
    plan: PlanFile = None,
    policy: Policy = None,
    select: Select = None,
    round_: Round = None,
    seed: RunSeed = None,
    as_json: AsJson = False,
    figure: Figure = None,
    data_dir: DataDir = None,
) -> None:
    """Schedule one round: band share and CPU frequency of each client.

    With a scenario, --round 7 --seed 0 is the seventh round of fedcell run --seed 0.
    """
    target = figure_target(figure)
    planned = TrainingPlan.load(plan) if plan else None
    if file is not None and planned is None and is_round_file(Path(file)):
        if round_ is not None or seed is not None or select is not None:
            raise BadInput(f"--round, --seed and --select are for scenarios: {file} is one round")
        scheduled = schedule_round(load_round(file), policy or "optimal")
    else:
        _, world = planned_world(file, planned, plan)
        world = selecting(world, select)
        if policy is None:
            policy = "optimal" if planned is None else own_policy(planned, plan)
        if world.learning is not None:  # D_j, z_m and alpha_0 are those of the training
            world = prepare_training(world, seed or 0, data_dir).scenario
        scheduled = schedule_round(world, policy, round=round_ or 1, seed=seed or 0)
    if as_json:
        print_json(scheduled.to_dict())
    else:
        print_result(out, scheduled)
    draw_if_asked(scheduled, target, figure, quiet=as_json)
