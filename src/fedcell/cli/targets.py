"""The target of a command, from its options, a plan or the scenario."""

from dataclasses import replace

from fedcell.core.errors import BadInput
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target


def target_of(
    scenario: Scenario,
    loss: float | None,
    accuracy: float | None,
    hold: int | None,
    own: Target | None = None,
) -> Target | None:
    """Return the target of the options, else `own`, else the scenario's."""
    if loss is not None and accuracy is not None:
        raise BadInput("--target-loss and --target-accuracy: give one of them")
    own = scenario.goal() if own is None else own
    usual = own.hold if own else scenario.hold
    if loss is not None or accuracy is not None:
        return Target(loss=loss, accuracy=accuracy, hold=hold or usual)
    if own is None and hold is not None:
        raise BadInput("--hold: there is nothing to hold: give a `target`")
    return own if own is None or hold is None else replace(own, hold=hold)


def goal_of(
    world: Scenario,
    loss: str | None,
    accuracy: str | None,
    hold: int | None,
    own: Target | None = None,
) -> tuple[Scenario, Target | None]:
    """Return the scenario and the target; with "none", a scenario without a target."""
    if "none" in (loss, accuracy):
        own = None
        if world.learning is not None:
            world = world.using(learning=goal_keys(None))
    numbers = _number(loss, "--target-loss"), _number(accuracy, "--target-accuracy")
    return world, target_of(world, numbers[0], numbers[1], hold, own)


def _number(text: str | None, option: str) -> float | None:
    """Return the number that an option holds; None for "none"."""
    if text is None or text == "none":
        return None
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(f"{option} = {text}: expected a number, or none") from error
