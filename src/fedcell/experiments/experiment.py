"""Experiments are data: a scenario, and a list where a value is expected, which is an axis."""

import copy
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from fedcell.core.dice import check_count
from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files import naming, read_tables
from fedcell.core.quantities import check_target_loss
from fedcell.core.schema import suggestion
from fedcell.network.policies.names import NAMED
from fedcell.scenario.load import SHIPPED, load_scenario, scenario_of
from fedcell.scenario.save import to_tables
from fedcell.scenario.scenario import Scenario

from .training import Training, Until

OWN = ("title", "scenario", "seeds", "rounds", "hold", "policy", "claims", "variant")
TABLES = ("cell", "clients", "task", "plan", "learning")
MOST_POINTS = 10_000
KIND = "learning.partition.kind"


@dataclass(frozen=True)
class Point:
    """One setting of a sweep: where it lies on each axis, and the scenario there."""

    labels: Mapping[str, Any]  # by axis: "variant", "plan.cohort", ...
    scenario: Scenario

    def until(self, rounds: int, hold: int) -> Until:
        """When its trainings end."""
        learning = self.scenario.learning
        return Until(rounds, None if learning is None else learning.target, hold)

    def training(self, seed: int) -> Training:
        """Its training on one seed: the same dice at every point and for every policy."""
        return Training.of(self.scenario, seed)


@dataclass(frozen=True)
class Experiment:
    """What is to be found out: settings, seeds, and when a training ends.

    >>> from fedcell import load_scenario
    >>> experiment = Experiment.sweep(load_scenario("digits"), {"plan.cohort": [5, 10]}, seeds=3)
    >>> [point.labels["plan.cohort"] for point in experiment.points]
    [5, 10]
    """

    title: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    rounds: int  # after which a training ends
    hold: int = 1  # rounds whose mean must be at the target; 1: first passage
    policies: tuple[str, ...] = ()  # under which each training is priced
    claims: tuple[str, ...] = ()  # sentences that it is to judge, by name
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def with_seeds(self, count: int | None) -> "Experiment":
        """On so many seeds; as it is where None is given."""
        if count is None:
            return self
        return replace(self, seeds=tuple(range(check_count(count, "`seeds`"))))

    @classmethod
    def sweep(
        cls,
        scenario: Scenario,
        axes: Mapping[str, list[Any]],
        *,
        seeds: int | list[int] = 5,
        rounds: int | None = None,
        hold: int = 1,
        policies: tuple[str, ...] = (),
        title: str = "a sweep",
    ) -> "Experiment":
        """From Python: axes by dotted name, as "plan.cohort"."""
        given: dict[str, Any] = {"title": title, "seeds": seeds, "hold": hold}
        given |= {"policy": list(policies)} if policies else {}
        given |= {} if rounds is None else {"rounds": rounds}
        for name, values in axes.items():
            inside = given
            *tables, key = name.split(".")
            for table in tables:
                inside = inside.setdefault(table, {})
            inside[key] = list(values)
        return _experiment(given, scenario, Path())


def load_experiment(path: str | Path) -> Experiment:
    """An experiment from a TOML or JSON file (docs/experiments.md)."""
    file = Path(path)
    given = read_tables(file)
    with naming(file):
        return experiment_of(given, file.parent)


def experiment_of(given: Mapping[str, Any], folder: Path) -> Experiment:
    """An experiment from plain tables; files that they name are seen from `folder`."""
    base = given.get("scenario")
    if not isinstance(base, str):
        raise BadInput(f"scenario = {base!r}: expected a file, or one of: {', '.join(SHIPPED)}")
    world = load_scenario(base if base in SHIPPED else folder / base)
    return _experiment(given, world, folder)


def _experiment(given: Mapping[str, Any], base: Scenario, folder: Path) -> Experiment:
    faults = [
        f"{name}: is not a key; {suggestion(name, (*OWN, *TABLES))}"
        for name in given
        if name not in (*OWN, *TABLES)
    ]
    if faults:
        raise BadInput(*faults)
    axes = _axes({name: given[name] for name in TABLES if name in given})
    variants = _variants(given.get("variant"))
    points = tuple(_points(base, axes, variants, folder))
    seeds = given.get("seeds", 5)
    if not isinstance(seeds, list):
        seeds = list(range(check_count(seeds, "seeds")))
    if not seeds or not all(type(s) is int and 0 <= s < 2**63 for s in seeds):
        raise BadInput("seeds: expected how many, or a list of whole numbers from 0")
    policies = given.get("policy", [])
    policies = [policies] if isinstance(policies, str) else policies
    for policy in policies:
        if policy not in NAMED:
            raise BadInput(f"policy: {policy!r} is not a policy; {suggestion(str(policy), NAMED)}")
    rounds = check_count(given.get("rounds", base.rounds), "rounds")
    learning = base.learning
    check_target_loss(None if learning is None else learning.target, "learning.target")
    return Experiment(
        title=str(given.get("title", "a sweep")),
        points=points,
        seeds=tuple(dict.fromkeys(seeds)),
        rounds=rounds,
        hold=check_count(given.get("hold", 1), "hold"),
        policies=tuple(policies),
        claims=tuple(map(str, given.get("claims", ()))),
        axes={name: tuple(map(_label, values)) for name, values in axes.items() if len(values) > 1},
    )


def _axes(tables: Mapping[str, Any], above: str = "") -> dict[str, list[Any]]:
    """Every value by its dotted name, as the list of those that it takes."""
    found: dict[str, list[Any]] = {}
    for key, value in tables.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            found |= _axes(value, f"{name}.")
        elif isinstance(value, list) and not _is_value(name, value):
            if not value:
                raise BadInput(f"{name} = []: an axis needs at least one value")
            if any(value.count(item) > 1 for item in value):
                raise BadInput(f"{name}: a value stands twice on the axis")
            found[name] = value
        else:
            found[name] = [value]
    return found


def _is_value(name: str, value: list[Any]) -> bool:
    """Whether a list is what the key itself takes, as the ends of a ring or layers."""
    kind: Any = Scenario
    for part in name.split("."):
        hints = get_type_hints(kind) if isinstance(kind, type) else {}
        kind = _without_none(hints.get(part))
    takes_lists = any(get_origin(choice) in (tuple, list) for choice in (kind, *get_args(kind)))
    return takes_lists and not all(isinstance(item, list) for item in value)


def _without_none(kind: Any) -> Any:
    choices = [choice for choice in get_args(kind) if choice is not type(None)]
    return choices[0] if len(choices) == 1 and get_origin(kind) is not tuple else kind


def _variants(given: Any) -> list[tuple[str | None, dict[str, Any]]]:
    """Settings that go together, by name."""
    if given is None:
        return [(None, {})]
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
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


def _points(
    base: Scenario,
    axes: Mapping[str, list[Any]],
    variants: list[tuple[str | None, dict[str, Any]]],
    folder: Path,
) -> Iterator[Point]:
    count = len(variants)
    for values in axes.values():
        count *= len(values)
    if count > MOST_POINTS:
        raise BadInput(f"{count} points: {MOST_POINTS} at most")
    plain = to_tables(base)
    several = [name for name, values in axes.items() if len(values) > 1]
    for name, tables in variants:
        for choice in itertools.product(*axes.values()):
            here = dict(zip(axes, choice, strict=True))
            labels = {} if name is None else {"variant": name}
            labels |= {axis: _label(here[axis]) for axis in several}
            merged = copy.deepcopy(plain)
            if any(KIND in names for names in (here, dict(_flat(tables)))):
                merged.get("learning", {}).pop("partition", None)  # another kind has other keys
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


def _label(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
