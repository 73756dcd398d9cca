"""The target of a command, from its options, a plan or the scenario."""

from dataclasses import dataclass, replace

from fedcell.core.errors import BadInput
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

NONE = "none"  # of an option: run all rounds


@dataclass(frozen=True)
class TargetOptions:
    """The options of a command that say what is to be reached, as they were typed."""

    named: str | None  # METRIC=NUMBER
    loss: str | float | None
    accuracy: str | float | None
    hold: int | None

    @property
    def given(self) -> bool:
        """Return whether one of them was typed."""
        return (self.named, self.loss, self.accuracy, self.hold) != (None,) * 4

    @property
    def none(self) -> bool:
        """Return whether all rounds are to be run."""
        return NONE in (self.named, self.loss, self.accuracy)

    def target(self) -> Target | None:
        """Return the target that they name, without their hold; None if they name none."""
        options = {
            "--target": self.named,
            "--target-loss": self.loss,
            "--target-accuracy": self.accuracy,
        }
        typed = {name: text for name, text in options.items() if text not in (None, NONE)}
        if len(typed) > 1:
            raise BadInput(f"{' and '.join(typed)}: give one of them")
        for option, text in typed.items():
            if option != "--target":
                metric = "loss" if option == "--target-loss" else "accuracy"
                return Target(**{metric: _number(text, option)})  # type: ignore[arg-type]
            metric, equals, number = str(text).partition("=")
            if not equals:
                raise BadInput(f"--target = {text}: expected METRIC=NUMBER, as mae=0.2 or loss=0.5")
            return Target(metric=metric.strip(), level=_number(number, "--target"))
        return None


def target_of(
    scenario: Scenario, options: TargetOptions, own: Target | None = None
) -> Target | None:
    """Return the target of the options, else `own`, else the scenario's."""
    own = scenario.goal() if own is None else own
    usual = own.hold if own else scenario.hold
    named, hold = options.target(), options.hold
    if named is not None:
        return replace(named, hold=hold or usual)
    if own is None and hold is not None:
        raise BadInput("--hold: there is nothing to hold: give a `target`")
    return own if own is None or hold is None else replace(own, hold=hold)


def goal_of(
    world: Scenario, options: TargetOptions, own: Target | None = None
) -> tuple[Scenario, Target | None]:
    """Return the scenario and the target; with "none", a scenario without a target."""
    if options.none:
        own = None
        if world.learning is not None:
            world = world.using(learning=goal_keys(None))
    return world, target_of(world, options, own)


def _number(text: str | float, option: str) -> float:
    """Return the number that an option holds."""
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(f"{option} = {text}: expected a number, or none") from error
