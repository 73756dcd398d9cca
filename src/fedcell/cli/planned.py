"""What commands share that take a plan: its scenario and its policy."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput
from fedcell.network.policies.names import NAMED
from fedcell.planning.plan import TrainingPlan
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario

PlannedScenario = Annotated[
    str | None,
    typer.Argument(
        help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}. With --plan it may be "
        "left out: the plan's own."
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(help="Run what fedcell plan --out wrote: its clients, steps and target."),
]


def planned_world(
    name: str | None, planned: TrainingPlan | None, file: Path | None
) -> tuple[str, Scenario]:
    """The scenario that is named, or the plan's, with the K and E_l of the plan."""
    if name is None:
        if planned is None:
            raise BadInput(f"which scenario? name a file, or one of: {', '.join(SHIPPED)}")
        if planned.scenario is None:
            raise BadInput(f"{file}: its scenario has measured gains: name its file as well")
        return planned.name, planned.apply_to()
    world = load_scenario(name)
    return name, planned.apply_to(world) if planned else world


def own_policy(planned: TrainingPlan, file: Path | None) -> str:
    """The policy of a plan, if it is one of ours: a file never names code to run."""
    if planned.policy not in NAMED:
        raise BadInput(
            f"{file}: was planned for the policy {planned.policy}, which is not one of ours: give "
            f"--policy {planned.policy} if you trust it"
        )
    return planned.policy
