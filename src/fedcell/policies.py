"""Policies by the names that people type."""

from collections.abc import Callable, Mapping
from importlib import import_module

from .errors import BadInput
from .optimal import Optimal
from .policy import Broadcast, Distributed, EqualFinish, Even, OptimalStaged, Policy
from .round import Problem, Schedule

NAMED: Mapping[str, Callable[[Broadcast], Policy]] = {
    "even": Even,
    "distributed": Distributed,
    "equal-finish": EqualFinish,
    "optimal-staged": lambda _: OptimalStaged(),
    "optimal": lambda _: Optimal(),
}


def named(name: str, told: Broadcast) -> Policy:
    """The policy called `name`: one of ours, or `module:callable` for one's own."""
    if name in NAMED:
        return NAMED[name](told)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise BadInput(
            f"{name} is not a policy: choose {', '.join(NAMED)}, or module:callable for your own"
        )
    try:
        policy = getattr(import_module(module), attribute)
        policy = policy() if isinstance(policy, type) else policy
    except (Exception, SystemExit) as error:  # whatever their code raises
        raise BadInput(f"the policy {name} cannot be loaded: {_said(error)}") from error
    if not callable(policy):
        raise BadInput(f"the policy {name} cannot be called: expected Problem -> Schedule")

    def guarded(problem: Problem, /) -> Schedule:
        try:
            schedule = policy(problem)
        except (Exception, SystemExit) as error:  # whatever their code raises
            raise BadInput(f"the policy {name} failed: {_said(error)}") from error
        if not isinstance(schedule, Schedule):
            what = type(schedule).__name__
            raise BadInput(f"the policy {name} answered with a {what}: expected a Schedule")
        return schedule

    return guarded


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
