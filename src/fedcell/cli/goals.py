"""What is to be reached, as options say it: a loss or an accuracy, and for how long."""

from dataclasses import replace
from typing import Annotated

import typer

from fedcell.core.errors import BadInput
from fedcell.core.targets import Target
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.scenario import Scenario

TargetLoss = Annotated[
    float | None, typer.Option(help="Training loss to reach. Default: learning.target.")
]
LossOrNone = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|none",
        help="Training loss to reach; none: run on. Default: learning.target.",
    ),
]
TargetAccuracy = Annotated[
    float | None, typer.Option(help="Accuracy on test data to reach, instead of a loss.")
]
AccuracyOrNone = Annotated[
    str | None,
    typer.Option(metavar="NUMBER|none", help="Accuracy on test data to reach, instead of a loss."),
]
Hold = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10**6,
        help="Rounds whose mean is to be at the target; 1: first passage. Default: learning.hold.",
    ),
]


def target_of(
    scenario: Scenario,
    loss: float | None,
    accuracy: float | None,
    hold: int | None,
    own: Target | None = None,
) -> Target | None:
    """What is to be reached: what the options say, else one's own, else the scenario's."""
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
