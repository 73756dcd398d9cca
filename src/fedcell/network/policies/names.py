"""Find policies by name: built-in ones, those of installed packages, and `module:callable`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from fedcell.core.callables import blaming, load_callable
from fedcell.core.errors import UNPRINTABLE, BadInput
from fedcell.core.plugins import load_plugin, plugin_names
from fedcell.core.schema import suggestion
from fedcell.network.certificate import check_schedule
from fedcell.network.round import Problem, Schedule

from .base import Broadcast, Policy
from .exact import EqualFinish, OptimalStaged
from .optimal import Optimal
from .optimal_power import OptimalPower
from .paper import Distributed, Even

# Those that send as the power law of the scenario says; they are compared by default.
NAMED: Mapping[str, Callable[[Broadcast], Policy]] = {
    "even": Even,
    "distributed": Distributed,
    "equal-finish": EqualFinish,
    "optimal-staged": lambda _: OptimalStaged(),
    "optimal": lambda _: Optimal(),
}
BUILT_IN: Mapping[str, Callable[[Broadcast], Policy]] = {
    **NAMED,
    "optimal-power": lambda _: OptimalPower(),
}
POLICY_GROUP = "fedcell.policies"  # entry points of other packages, looked up by name
PolicyLike = str | Policy | type[Any]  # a name, a callable, or a class that makes one
Policies = Sequence[PolicyLike] | Mapping[str, PolicyLike]  # a mapping names them


def policy_by_name(name: str, broadcast: Broadcast) -> Policy:
    """Return the policy with a name.

    Parameters
    ----------
    name : str
        A built-in policy ("even", "distributed", "equal-finish", "optimal-staged", "optimal",
        "optimal-power"), one that an installed package adds to the entry-point group
        "fedcell.policies", or "module:callable" for your own. A plugin cannot replace a built-in
        policy.
    broadcast : Broadcast
        The two numbers that the server sends to all clients. Some policies use them.

    Returns
    -------
    Policy
        A callable from a Problem to a Schedule.

    Raises
    ------
    BadInput
        If there is no policy with this name, or if it cannot be loaded.

    Examples
    --------
    >>> from fedcell.network import load_round
    >>> from fedcell.network.policies.base import Broadcast
    >>> problem = load_round("docs/round.json")
    >>> even = policy_by_name("even", Broadcast.among(problem))
    >>> even(problem).share.round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    if not isinstance(name, str):
        raise BadInput(f"{name!r} is not the name of a policy: {', '.join(BUILT_IN)}")
    if name in BUILT_IN:
        return BUILT_IN[name](broadcast)
    _check_name(name)
    given = load_callable("policy", name) if ":" in name else load_plugin(POLICY_GROUP, name)
    with blaming(f"the policy {name} cannot be loaded"):
        policy = as_policy(given, broadcast, name)

    def guarded(problem: Problem, /) -> Schedule:
        with blaming(f"the policy {name} failed"):
            return policy(problem)

    return guarded


def _check_name(name: str) -> None:
    """Refuse a name that is neither built in nor added by a package; load nothing."""
    if name in BUILT_IN or ":" in name:
        return
    names = list(dict.fromkeys([*BUILT_IN, *plugin_names(POLICY_GROUP)]))
    if name not in names:
        known = suggestion(name, names)
        own = f"{'' if known.endswith('?') else ';'} your own is module:callable"
        raise BadInput(f"{name} is not a policy: {known}{own}")


def resolve_policy(policy: PolicyLike, broadcast: Broadcast) -> Policy:
    """Return a policy from a name or a callable; its schedules are checked."""
    named = policy_by_name(policy, broadcast) if isinstance(policy, str) else policy
    return as_policy(named, broadcast, policy_name(policy))


def as_policy(given: Any, broadcast: Broadcast, name: str | None = None) -> Policy:
    """Return a callable as a policy with checked schedules; a class is instantiated first.

    A class with a parameter gets the broadcast of the server, as built-in classes do.
    """
    name = name or getattr(given, "__name__", type(given).__name__)
    if isinstance(given, type):
        given = given(broadcast) if signature(given).parameters else given()
    if not callable(given):
        raise BadInput(f"the policy {name} cannot be called: expected Problem -> Schedule")

    def checked(problem: Problem, /) -> Schedule:
        schedule = given(problem)
        if not isinstance(schedule, Schedule):
            what = type(schedule).__name__
            raise BadInput(f"the policy {name} answered with a {what}: expected a Schedule")
        check_schedule(problem, schedule, f"the policy {name}")
        return schedule

    return checked


def policies_by_name(policies: Policies | PolicyLike) -> dict[str, PolicyLike]:
    """Return policies from a list or a mapping, each under the name that tables show."""
    named: dict[str, PolicyLike]
    if isinstance(policies, Mapping):
        named = dict(policies)
    else:
        several = isinstance(policies, Sequence) and not isinstance(policies, str)
        listed: Any = policies if several else [policies]
        named = {policy_name(policy): policy for policy in listed}
        if len(named) < len(listed):
            raise BadInput("`policies`: give each once; a mapping gives names to those alike")
    if not named:
        raise BadInput("`policies`: give at least one")
    for name, policy in named.items():
        if not isinstance(name, str) or UNPRINTABLE.search(name):
            raise BadInput(f"`policies`: {name!r} is not a name that can be shown")
        if isinstance(policy, str):
            _check_name(policy)
        elif not callable(policy):
            raise BadInput(f"`policies`: {policy!r} is neither a name nor can it be called")
    return named


def policy_name(policy: PolicyLike) -> str:
    """Return the name of a policy in tables: its name, or that of its function or class."""
    if isinstance(policy, str):
        return policy
    return str(getattr(policy, "__name__", type(policy).__name__))
