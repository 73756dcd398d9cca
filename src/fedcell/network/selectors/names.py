"""Find selectors by name: built-in ones, those of installed packages, and `module:callable`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from importlib import import_module
from typing import Any

from fedcell.core.callables import blaming, load_callable
from fedcell.core.errors import BadInput
from fedcell.core.plugins import load_plugin, plugin_names
from fedcell.core.schema import suggestion
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.selection import SELECTOR_GROUP, SIMPLE, split_selection

from .base import FACTS, Selector, reads_policy

NAMED: Mapping[str, tuple[str, str]] = {  # module in `rules`, and class
    "by-data": ("by_data", "ByData"),
    "by-data-unbiased": ("by_data", "ByDataUnbiased"),
    "round-robin": ("round_robin", "RoundRobin"),
    "best-channel": ("channel", "BestChannel"),
    "proportional-fair": ("channel", "ProportionalFair"),
    "power-of-choice": ("power_of_choice", "PowerOfChoice"),
    "power-of-choice-reported": ("power_of_choice", "PowerOfChoiceReported"),
    "power-of-choice-adaptive": ("power_of_choice", "PowerOfChoiceAdaptive"),
    "active": ("active", "Active"),
    "oort": ("oort", "Oort"),
    "best-norm": ("update_norm", "BestNorm"),
    "best-norm-reported": ("update_norm", "BestNormReported"),
    "optimal-sampling": ("update_norm", "OptimalSampling"),
    "fedcs": ("fedcs", "FedCS"),
    "tifl": ("tifl", "TiFL"),
    "tifl-adaptive": ("tifl", "TiFLAdaptive"),
    "battery-law": ("battery", "BatteryLaw"),
}
SelectorLike = str | Selector | type[Any]  # a name, a callable, or a class that makes one
_GIVEN: dict[str, Any] = {}  # code that callers of this process have named, by its name
_POLICIES: set[str] = set()  # policies of theirs


def selecting(scenario: Scenario, select: SelectorLike | None) -> Scenario:
    """Return a scenario whose rounds call the clients that a selector chooses.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    select : str, Selector or class, optional
        A built-in name, with values of its parameters as in "power-of-choice(candidates=20)"; one
        that an installed package adds to the group "fedcell.selectors"; "module:callable"; or a
        callable. None: the scenario as it is.

    Returns
    -------
    Scenario
        The same with another plan.selection. Code is known by its name in this process only: a
        file never names code to run.

    Raises
    ------
    BadInput
        If there is no such selector, or it cannot be loaded.

    Examples
    --------
    >>> from fedcell import load_scenario
    >>> selecting(load_scenario("digits"), "best-channel").plan.selection
    'best-channel'
    """
    return scenario if select is None else scenario.using(plan={"selection": text_of(select)})


def text_of(select: SelectorLike) -> str:
    """Return the plan.selection of a selector, which may then be used in this process."""
    text = select if isinstance(select, str) else _name_of_code(select)
    allow(text)
    selector_by_name(text)
    return text


def allow(text: str) -> None:
    """Load the code that a plan.selection names, and let it be used in this process."""
    name, values = split_selection(text)
    if ":" in str(policy := values.get("policy", "")):
        _POLICIES.add(policy)
    if ":" in name and name not in _GIVEN:
        _GIVEN[name] = load_callable("selector", name)


def given_code(text: str) -> tuple[Any, str]:
    """Return the code that a plan.selection names, and its name; refuse code that only a file has
    named."""
    name, _ = split_selection(text)
    return _found(name), name


def selector_of(scenario: Scenario) -> Selector | None:
    """Return the rule of a scenario; None where rounds are drawn uniformly, or by weight with
    replacement."""
    text = scenario.plan.selection
    return None if text in SIMPLE else selector_by_name(text)


def selector_by_name(text: str) -> Selector | None:
    """Return the rule of a plan.selection; None for those that `draw_trace` itself knows.

    Parameters
    ----------
    text : str
        A name, with values of parameters in brackets.

    Returns
    -------
    Selector or None

    Raises
    ------
    BadInput
        If there is no such rule, if it cannot be loaded, or if it has no such parameter.
    """
    name, values = split_selection(text)
    if name in SIMPLE:
        if values:
            raise BadInput(f"the selector {name} has no parameters: leave the brackets out")
        return None
    return _as_rule(_found(name), name, values)


def _found(name: str) -> Any:
    """Return what a name stands for: a class or a callable."""
    if name in NAMED:
        module, attribute = NAMED[name]
        return getattr(import_module(f"{__package__}.rules.{module}"), attribute)
    if ":" in name:
        if name not in _GIVEN:
            raise BadInput(
                f"plan.selection = {name!r} names code, which a file cannot: give it as `select` "
                "if you trust it"
            )
        return _GIVEN[name]
    if name not in (known := plugin_names(SELECTOR_GROUP)):
        advice = suggestion(name, [*SIMPLE, *NAMED, *known])
        own = f"{'' if advice.endswith('?') else ';'} your own is module:callable"
        raise BadInput(f"{name} is not a selector: {advice}{own}")
    return load_plugin(SELECTOR_GROUP, name)


def _as_rule(found: Any, name: str, values: Mapping[str, Any]) -> Selector:
    """Return a rule with its parameters; refuse one that says not what it reads."""
    policy, given = str(values.get("policy", "optimal")), values
    if not _takes_policy(found) and _is_of_policy(found):
        values = {key: value for key, value in given.items() if key != "policy"}
    if isinstance(found, type):
        _check_parameters(found, name, values)
        with blaming(f"the selector {name} cannot be made"):
            found = found(**values)
    elif values:
        raise BadInput(f"the selector {name} is a function and has no parameters: make it a class")
    if not callable(found):
        raise BadInput(f"the selector {name} cannot be called: expected Known -> Race or Chances")
    asked = getattr(found, "reads", None)
    if not isinstance(asked, tuple | list) or not all(fact in FACTS for fact in asked):
        raise BadInput(
            f"the selector {name} does not say what it reads: give it an attribute reads, a tuple "
            f"of: {', '.join(FACTS)}"
        )
    if reads_policy(found) and not hasattr(found, "policy"):
        found = _under_policy(found, policy)
    _check_policy(found)
    return found  # type: ignore[no-any-return]


def _check_parameters(found: type, name: str, values: Mapping[str, Any]) -> None:
    known = _parameters(found)
    for key in values:
        if key not in known:
            advice = suggestion(key, known) if known else "it has none"
            raise BadInput(f"the selector {name} has no parameter {key}: {advice}")
    if not is_dataclass(found):
        return
    usual = {f.name: f.default for f in fields(found) if type(f.default) in (int, float, str)}
    for key, value in values.items():
        if key not in usual:
            continue
        number = isinstance(usual[key], int | float)
        if number != isinstance(value, int | float) or (
            isinstance(usual[key], int) and not isinstance(value, int)
        ):
            kind = type(usual[key]).__name__
            raise BadInput(f"the selector {name} has {key} = {value!r}: expected a value of {kind}")
        if number and not value >= 0:
            raise BadInput(f"the selector {name} has {key} = {value!r}: expected a number from 0")


def _is_of_policy(found: Any) -> bool:
    asked = getattr(found, "reads", ())
    return isinstance(asked, tuple | list) and any(FACTS.get(fact) == "policy" for fact in asked)


def _parameters(found: type) -> list[str]:
    if is_dataclass(found):
        return [f.name for f in fields(found) if f.init]
    return [p for p in inspect.signature(found).parameters if p not in ("args", "kwargs")]


def _takes_policy(found: Any) -> bool:
    """Return whether a class of rules has a parameter for its policy."""
    return isinstance(found, type) and "policy" in _parameters(found)


def _under_policy(rule: Any, policy: str) -> Any:
    """Return a rule that reads durations or energies with the policy that they are of."""
    wrapped = partial(rule)
    for name in ("reads", "aggregation", "keeps", "by_number"):
        if hasattr(rule, name):
            setattr(wrapped, name, getattr(rule, name))
    wrapped.policy = policy  # type: ignore[attr-defined]
    return wrapped


def _check_policy(rule: Any) -> None:
    """Refuse a custom policy that only a file has named."""
    policy = getattr(rule, "policy", "")
    if reads_policy(rule) and ":" in policy and policy not in _POLICIES:
        raise BadInput(
            f"plan.selection names the policy {policy!r}, which is code, and a file cannot name "
            "code: give the selection as `select` if you trust it"
        )


def _name_of_code(given: Any) -> str:
    """Return the name of a callable or a class, and keep it for `selector_by_name`."""
    named = given if hasattr(given, "__qualname__") else type(given)
    name = f"{named.__module__}:{named.__qualname__}"
    if "<" in name:
        raise BadInput(f"the selector {name} has no name of its own: define it in a module")
    if named is given or not is_dataclass(given):
        _GIVEN[name] = given
        return name
    _GIVEN[name] = named
    values = {f.name: getattr(given, f.name) for f in fields(given) if f.init}
    inside = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"{name}({inside})" if inside else name


def aggregation_of(scenario: Scenario) -> str | None:
    """Return the aggregation that a rule asks for; None where it leaves that open."""
    rule = selector_of(scenario)
    return None if rule is None else getattr(rule, "aggregation", None)
