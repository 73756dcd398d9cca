"""The text of plan.selection: the name of a selector, with values of its parameters."""

import re
from collections.abc import Mapping
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.plugins import plugin_names
from fedcell.core.schema import suggestion

SIMPLE = ("uniform", "weighted")  # that need no round before them, and no gain of other clients
BUILT_IN = (
    *SIMPLE,
    *("by-data", "by-data-unbiased", "round-robin", "best-channel", "proportional-fair"),
    *("power-of-choice", "power-of-choice-reported", "power-of-choice-adaptive", "active", "oort"),
    *("best-norm", "best-norm-reported", "optimal-sampling", "fedcs", "tifl", "tifl-adaptive"),
    "battery-law",
)
SELECTOR_GROUP = "fedcell.selectors"  # entry points of other packages, looked up by name
TEXT = re.compile(r"(?P<name>[\w.:-]+)(\((?P<values>[^()]*)\))?")
VALUE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([^\s,=]+)\s*")


def split_selection(text: str) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a selector and the values of its parameters.

    >>> split_selection("power-of-choice(candidates=20)")
    ('power-of-choice', {'candidates': 20})
    """
    found = TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadInput(
            f"selection = {text!r}: expected a name, or one with values of its parameters, as "
            "power-of-choice(candidates=20)"
        )
    values: dict[str, Any] = {}
    for part in filter(str.strip, (found["values"] or "").split(",")):
        pair = VALUE.fullmatch(part)
        if pair is None or pair[1] in values:
            raise BadInput(f"selection = {text!r}: {part.strip()!r} is not one name = value")
        values[pair[1]] = _value(pair[2])
    return found["name"], values


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def selection_fault(text: str) -> str | None:
    """Return what is wrong with a plan.selection as far as a file says; None if nothing is."""
    try:
        name, _ = split_selection(text)
    except BadInput as error:
        return error.faults[0]
    if name in BUILT_IN or ":" in name or name in (known := plugin_names(SELECTOR_GROUP)):
        return None
    return f"selection = {name!r} is not a selector: {suggestion(name, [*BUILT_IN, *known])}"
