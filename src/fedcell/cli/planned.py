"""What a command that runs a scenario or a plan makes of its options."""

from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.core.targets import Target
from fedcell.network.policies.names import NAMED
from fedcell.planning.plan import TrainingPlan
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario

from .app import target_of


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


def goal_of(
    world: Scenario,
    loss: str | None,
    accuracy: str | None,
    hold: int | None,
    own: Target | None = None,
) -> tuple[Scenario, Target | None]:
    """What is to be reached, and the scenario, without a target of its own where that is none."""
    if "none" in (loss, accuracy):
        own = None
        if world.learning is not None:
            world = world.using(learning=goal_keys(None))
    numbers = _number(loss, "--target-loss"), _number(accuracy, "--target-accuracy")
    return world, target_of(world, numbers[0], numbers[1], hold, own)


def _number(text: str | None, option: str) -> float | None:
    if text is None or text == "none":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(f"{option} = {text}: expected a number, or none") from error
