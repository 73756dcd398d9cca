"""Policies by the names that people type."""

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.network.round import Problem, Schedule

from .base import Broadcast, Distributed, EqualFinish, Even, OptimalStaged, Policy
from .optimal import Optimal

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
            f"{name} is not a policy: {suggestion(name, NAMED)}; module:callable for your own"
        )
    if "/" in module or module.endswith(".py"):
        raise BadInput(f"the policy {name}: give the name of a module, as in mine:policy")
    try:
        policy = as_policy(getattr(import_module(module), attribute), told, name)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:  # whatever their code raises
        raise BadInput(f"the policy {name} cannot be loaded: {_said(error)}") from error

    def guarded(problem: Problem, /) -> Schedule:
        try:
            return policy(problem)
        except BadInput:
            raise
        except (Exception, SystemExit) as error:  # whatever their code raises
            raise BadInput(f"the policy {name} failed: {_said(error)}") from error

    return guarded


def chosen(policy: str | Policy, told: Broadcast) -> Policy:
    """A policy by its name, or one's own callable."""
    return named(policy, told) if isinstance(policy, str) else as_policy(policy, told)


def as_policy(given: Any, told: Broadcast, name: str | None = None) -> Policy:
    """A callable as a policy that answers with schedules; a class is made an object first.

    A class that takes an argument gets what the server tells all clients, as ours do.
    """
    name = name or getattr(given, "__name__", type(given).__name__)
    if isinstance(given, type):
        given = given(told) if signature(given).parameters else given()
    if not callable(given):
        raise BadInput(f"the policy {name} cannot be called: expected Problem -> Schedule")

    def checked(problem: Problem, /) -> Schedule:
        schedule = given(problem)
        if not isinstance(schedule, Schedule):
            what = type(schedule).__name__
            raise BadInput(f"the policy {name} answered with a {what}: expected a Schedule")
        return schedule

    return checked


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
