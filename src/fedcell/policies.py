"""Policies by the names that people type."""

from collections.abc import Callable, Mapping
from importlib import import_module

from .errors import BadInput
from .optimal import Optimal
from .policy import Broadcast, Distributed, EqualFinish, Even, OptimalStaged, Policy

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
    except (ImportError, AttributeError, ValueError) as error:
        raise BadInput(f"the policy {name} cannot be loaded: {error}") from error
    policy = policy() if isinstance(policy, type) else policy
    if not callable(policy):
        raise BadInput(
            f"the policy {name} is not callable: expected a callable from Problem to Schedule"
        )
    return policy  # type: ignore[no-any-return]
