"""What commands share that take a plan: its scenario and its policy."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.targets import Target
from fedcell.network.policies.names import NAMED
from fedcell.planning.plan import TrainingPlan
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario

from .progress import progress_bars

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


def note_differences(
    planned: TrainingPlan | None,
    world: Scenario,
    target: Target | None,
    learner: str | None,
    seed: int,
    data_dir: Path | None,
    quiet: bool = False,
) -> list[str]:
    """In what a run is not the one that was planned; a note says it before the run begins."""
    if planned is None:
        return []
    with progress_bars() as progress:
        changed = planned.differences(
            world, target, learner, seed=seed, data_dir=data_dir, report=progress.download
        )
    if changed and not quiet:
        note = f"this is not what was planned ({', '.join(changed)}): predictions are not compared"
        warnings.warn(note, FedcellWarning, stacklevel=2)
    return changed


def own_policy(planned: TrainingPlan, file: Path | None) -> str:
    """The policy of a plan, if it is one of ours: a file never names code to run."""
    if planned.policy not in NAMED:
        raise BadInput(
            f"{file}: was planned for the policy {planned.policy}, which is not one of ours: give "
            f"--policy {planned.policy} if you trust it"
        )
    return planned.policy
