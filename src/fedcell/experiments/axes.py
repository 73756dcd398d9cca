"""Expand tables with lists into points: each combination of values, with its labels."""

import copy
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.schema import suggestion
from fedcell.scenario.load import scenario_of
from fedcell.scenario.save import to_tables
from fedcell.scenario.scenario import TABLE_NAMES, Scenario
from fedcell.scenario.target import Target

from .training import Training, Until

TABLES = TABLE_NAMES
MAX_POINTS = 10_000
KIND = "learning.partition.kind"
ARRAYS = ("clients.table", "clients.sizes")  # keys that take a list, which their types hide


@dataclass(frozen=True)
class Point:
    """One setting of a sweep: its value on each axis, and its scenario."""

    labels: Mapping[str, Any]  # by axis: "variant", "plan.cohort", ...
    scenario: Scenario

    @property
    def trained(self) -> bool:
        """Whether its scenario trains; else only rounds are priced."""
        return self.scenario.learning is not None

    @property
    def target(self) -> Target | None:
        """Loss or accuracy that its trainings stop at."""
        return None if self.scenario.learning is None else self.scenario.learning.goal

    def until(self, rounds: int, hold: int | None = None) -> Until:
        """Return when its trainings end; its target holds for at least `hold` rounds."""
        target = self.target
        if target is not None and hold is not None:
            target = replace(target, hold=max(hold, target.hold))
        return Until(rounds, target)

    def training(self, seed: int) -> Training:
        """Return its training on one seed; all points and policies share its random numbers."""
        return Training.of(self.scenario, seed)


def read_axes(tables: Mapping[str, Any], above: str = "") -> dict[str, list[Any]]:
    """Return the list of values of each key, by dotted name."""
    axes: dict[str, list[Any]] = {}
    for key, value in tables.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            axes |= read_axes(value, f"{name}.")
        elif isinstance(value, list) and not _is_value(name, value):
            if len(value) > MAX_POINTS:
                raise BadInput(f"{name}: an axis of {len(value)} values: {MAX_POINTS} at most")
            if not value:
                raise BadInput(f"{name} = []: an axis needs at least one value")
            if any(item in value[:i] for i, item in enumerate(value)):
                raise BadInput(f"{name}: a value stands twice on the axis")
            axes[name] = value
        else:
            axes[name] = [value]
    return axes


def _is_value(name: str, value: list[Any]) -> bool:
    """Return whether a list is one value of its key, such as the ends of a ring."""
    kind: Any = Scenario
    for part in name.split("."):
        hints = get_type_hints(kind) if isinstance(kind, type) else {}
        kind = _without_none(hints.get(part))
    if name in ARRAYS:  # of which an axis has lists, or paths
        return not all(isinstance(item, list | str) for item in value)
    takes_lists = any(get_origin(choice) in (tuple, list) for choice in (kind, *get_args(kind)))
    return takes_lists and not all(isinstance(item, list) for item in value)


def _without_none(kind: Any) -> Any:
    choices = [choice for choice in get_args(kind) if choice is not type(None)]
    return choices[0] if len(choices) == 1 and get_origin(kind) is not tuple else kind


def read_variants(given: Any) -> list[tuple[str | None, dict[str, Any]]]:
    """Return variants, tables of settings that change together, by name."""
    if given is None:
        return [(None, {})]
    if not isinstance(given, list) or not given or not all(isinstance(o, dict) for o in given):
        raise BadInput("variant: expected a list of tables, each with a name")
    named: list[tuple[str | None, dict[str, Any]]] = []
    for i, one in enumerate(given):
        name = one.get("name")
        if not isinstance(name, str) or not name:
            raise BadInput(f"variant[{i}].name = {name!r}: expected text")
        tables = {key: value for key, value in one.items() if key != "name"}
        if unknown := [key for key in tables if key not in TABLES]:
            raise BadInput(f"variant[{i}].{unknown[0]}: {suggestion(unknown[0], TABLES)}")
        named.append((name, tables))
    if len({name for name, _ in named}) < len(named):
        raise BadInput("variant: a name stands twice")
    return named


def points_of(
    base: Scenario,
    axes: Mapping[str, list[Any]],
    variants: list[tuple[str | None, dict[str, Any]]],
    folder: Path,
) -> Iterator[Point]:
    """Yield the point of each variant and each combination of values."""
    count = len(variants)
    for values in axes.values():
        count *= len(values)
    if count > MAX_POINTS:
        raise BadInput(f"{count} points: {MAX_POINTS} at most")
    for name, tables in variants:
        if both := [dotted for dotted, _ in _flat(tables) if len(axes.get(dotted, ())) > 1]:
            raise BadInput(f"variant {name}: {both[0]} is an axis, too: take it out of one of them")
    plain = to_tables(base)
    several = [name for name, values in axes.items() if len(values) > 1]
    for name, tables in variants:
        for choice in itertools.product(*axes.values()):
            here = dict(zip(axes, choice, strict=True))
            labels = {} if name is None else {"variant": name}
            labels |= {axis: as_label(here[axis]) for axis in several}
            merged = copy.deepcopy(plain)
            if any("clients.table" in names for names in (here, dict(_flat(tables)))):
                merged["clients"].pop("count")  # it is that of the table
            if any(KIND in names for names in (here, dict(_flat(tables)))):
                before = merged.get("learning", {}).pop("partition", {})  # another kind, other keys
                if "given" in (here.get(KIND), dict(_flat(tables)).get(KIND)):
                    kept = {key: before[key] for key in ("owners",) if key in before}
                    merged["learning"]["partition"] = kept
            for dotted, value in here.items():
                _put(merged, dotted, value)
            for dotted, value in _flat(tables):
                _put(merged, dotted, value)
            try:
                yield Point(labels, scenario_of(merged, folder))
            except BadInput as error:
                where = ", ".join(f"{k} = {v}" for k, v in labels.items()) or "the scenario"
                raise BadInput(*(f"at {where}: {fault}" for fault in error.faults)) from error


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _put(tables: dict[str, Any], dotted: str, value: Any) -> None:
    *path, key = dotted.split(".")
    inside: Any = tables
    for part in path:
        inside = inside.setdefault(part, {})
        if not isinstance(inside, dict):
            raise BadFile(f"{dotted}: {part} is no table")
    inside[key] = copy.deepcopy(value)


def as_label(value: Any) -> Any:
    """Return a value that can be hashed."""
    return tuple(value) if isinstance(value, list) else value
