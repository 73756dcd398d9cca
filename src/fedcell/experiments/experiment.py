"""An experiment as data: a scenario in which a list in place of a value is an axis."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import naming, read_tables
from fedcell.core.schema import suggestion
from fedcell.core.streams import check_count
from fedcell.network.policies.names import BUILT_IN, Policies, PolicyLike, policies_by_name
from fedcell.network.selectors.names import SelectorLike, text_of
from fedcell.scenario.load import SHIPPED, load_scenario
from fedcell.scenario.scenario import Scenario, check_scenario

from .axes import TABLES, Point, as_label, points_of, read_axes, read_variants

MAX_SEEDS = 10_000
MAX_ROUNDS = 1_000_000
OWN = ("title", "scenario", "seeds", "rounds", "hold", "policy", "precision", "variant")


@dataclass(frozen=True)
class Experiment:
    """Points, seeds, rounds and policies of a sweep.

    `load_experiment` reads one from a file, `Experiment.sweep` makes one in Python.

    Attributes
    ----------
    title
        For tables and figures.
    points
        Scenarios with their values on each axis.
    seeds
        Random seeds, the same at every point.
    rounds
        Rounds of a training at most.
    hold
        Rounds that a target is watched for, if longer than learning.hold.
    policies
        Policies that each run is priced under, by name.
    precision
        Half of a 95 % interval in parts of the mean, to which `run_until_precise` adds seeds.
    axes
        Values by dotted name.
    tested
        Whether models are evaluated on test data after each round, whatever the target.
    asked
        The content of the file.

    Examples
    --------
    >>> from fedcell import load_scenario
    >>> experiment = Experiment.sweep(load_scenario("digits"), {"plan.cohort": [5, 10]}, seeds=3)
    >>> [point.labels["plan.cohort"] for point in experiment.points]
    [5, 10]
    """

    title: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    rounds: int
    hold: int | None = None
    policies: Mapping[str, PolicyLike] = field(default_factory=dict)
    precision: float | None = None
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tested: bool = False
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def watched(self) -> int:
        """`hold` where it is longer than that of the targets; else 1."""
        own = max((p.target.hold for p in self.points if p.target is not None), default=1)
        return self.hold if self.hold is not None and self.hold > own else 1

    @property
    def aims(self) -> dict[str, str]:
        """Metrics of the targets, and when they count as reached, in words; empty without one."""
        targets = [point.target for point in self.points if point.target is not None]
        if not targets:
            return {}
        kinds = dict.fromkeys(t.metric for t in targets)
        definitions = dict.fromkeys(target.definition for target in targets)
        return {"target_of": " or ".join(kinds), "reached": " or ".join(definitions)}

    def with_seeds(self, count: int | None) -> "Experiment":
        """Return the experiment on `count` seeds, its own first; unchanged with None."""
        if count is None:
            return self
        fewer = self.seeds[: check_count(count, "`seeds`")]
        return replace(self, seeds=fewer).with_more_seeds(count)

    def with_more_seeds(self, count: int) -> "Experiment":
        """Return the experiment with seeds added up to `count`."""
        fresh = (seed for seed in itertools.count() if seed not in self.seeds)
        more = itertools.islice(fresh, max(0, count - len(self.seeds)))
        seeds = (*self.seeds, *more)
        return replace(self, seeds=seeds, asked={**self.asked, "seeds": list(seeds)})

    @classmethod
    def sweep(
        cls,
        scenario: Scenario,
        axes: Mapping[str, list[Any]],
        *,
        seeds: int | list[int] = 5,
        rounds: int | None = None,
        hold: int | None = None,
        policies: Policies | None = None,
        title: str = "a sweep",
    ) -> "Experiment":
        """Make an experiment from a scenario and axes.

        Parameters
        ----------
        scenario
            Scenario that all points share but for the axes.
        axes
            Lists of values by dotted name, such as "plan.cohort".
        seeds
            Number of seeds from 0 on, or a list of them.
        rounds
            Rounds of a training at most; default: plan.rounds.
        hold
            Rounds that a target is watched for, if longer than learning.hold.
        policies
            Names, or your own by name; default: none, so nothing is priced.
        title
            For tables and figures.
        """
        check_scenario(scenario)
        given: dict[str, Any] = {"title": title, "seeds": seeds}
        given |= {k: v for k, v in (("rounds", rounds), ("hold", hold)) if v is not None}
        for name, values in axes.items():
            if str(name).split(".")[0] not in TABLES or not isinstance(values, list | tuple):
                raise BadInput(f"{name!r}: expected lists by dotted name, as in plan.cohort")
            inside = given
            *tables, key = name.split(".")
            for table in tables:
                inside = inside.setdefault(table, {})
            inside[key] = list(values)
        return _experiment(given, scenario, Path(), policies)


def load_experiment(
    path: str | Path,
    policies: Policies | None = None,
    select: Sequence[SelectorLike] | None = None,
) -> Experiment:
    """Load an experiment from a TOML or JSON file (docs/how-to/sweeps.md).

    Parameters
    ----------
    path
        The file.
    policies
        Replace those of the file, which has names of built-in ones only: a file names no code.
    select
        Selectors: an axis of plan.selection, in place of that of the file.

    Returns
    -------
    Experiment

    Raises
    ------
    BadFile
        If the file cannot be read, or a key or value of it is wrong.

    Examples
    --------
    >>> from fedcell import load_experiment
    >>> len(load_experiment("experiments/paper/fig6a.toml").seeds)
    20
    """
    file = Path(path)
    given = read_tables(file)
    if select:
        given["plan"] = {**given.get("plan", {}), "selection": [text_of(each) for each in select]}
    with naming(file):
        return experiment_of(given, file.parent, policies)


def experiment_of(
    given: Mapping[str, Any], folder: Path, policies: Policies | None = None
) -> Experiment:
    """Return an experiment from plain tables; paths in them are relative to `folder`."""
    base = given.get("scenario")
    if base is None:
        raise BadInput(
            f"is no experiment: it lacks `scenario`, a file or one of: {', '.join(SHIPPED)}"
        )
    if not isinstance(base, str):
        raise BadInput(f"scenario = {base!r}: expected a file, or one of: {', '.join(SHIPPED)}")
    world = load_scenario(base if base in SHIPPED else folder / base)
    return _experiment(given, world, folder, policies)


def _experiment(
    given: Mapping[str, Any], base: Scenario, folder: Path, policies: Policies | None
) -> Experiment:
    faults = [
        f"{name}: is not a key; {suggestion(name, (*OWN, *TABLES))}"
        for name in given
        if name not in (*OWN, *TABLES)
    ]
    if faults:
        raise BadInput(*faults)
    if not isinstance(given.get("title", ""), str):
        raise BadInput(f"title = {given['title']!r}: expected text")
    axes = read_axes({name: given[name] for name in TABLES if name in given})
    variants = read_variants(given.get("variant"))
    points = tuple(points_of(base, axes, variants, folder))
    seeds = given.get("seeds", 5)
    if not isinstance(seeds, list):
        seeds = list(range(min(check_count(seeds, "seeds"), MAX_SEEDS + 1)))
    if len(seeds) > MAX_SEEDS:
        raise BadInput(f"seeds: {MAX_SEEDS} at most")
    if not seeds or not all(type(s) is int and 0 <= s < 2**63 for s in seeds):
        raise BadInput("seeds: expected how many, or a list of whole numbers from 0")
    priced = policies_by_name(policies) if policies else _named_policies(given)
    rounds = _rounds_of(given, points)
    if not priced and not all(point.trained for point in points):
        raise BadInput(
            "policy: the scenario has no [learning], so there is nothing to train: name policies, "
            "and rounds are priced under them"
        )
    return Experiment(
        title=str(given.get("title", "a sweep")),
        points=points,
        seeds=tuple(dict.fromkeys(seeds)),
        rounds=rounds,
        hold=check_count(given["hold"], "hold") if "hold" in given else None,
        policies=priced,
        precision=check_precision(given.get("precision"), "precision"),
        axes={
            name: tuple(map(as_label, values)) for name, values in axes.items() if len(values) > 1
        },
        asked={**given, **({"policy": list(priced)} if policies else {})},
    )


def _rounds_of(given: Mapping[str, Any], points: Sequence[Point]) -> int:
    """Return the rounds of all runs: those of the experiment, else of its scenarios."""
    own = sorted({point.scenario.rounds for point in points})
    planned = {point.scenario.plan.rounds for point in points}
    if len(planned) > 1 or (len(own) > 1 and "rounds" not in given):
        raise BadInput(
            f"plan.rounds: the scenarios have {own[0]} to {own[-1]} rounds, and all runs of an "
            "experiment end after as many: give rounds, and no axis of plan.rounds"
        )
    rounds = check_count(given.get("rounds", own[0]), "rounds")
    if rounds > MAX_ROUNDS:
        raise BadInput(f"rounds = {rounds}: {MAX_ROUNDS} at most")
    return rounds


def check_precision(value: Any, name: str) -> float | None:
    """Return half of an interval in parts of the mean; refuse values outside of 0 to 1."""
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < 1:
        raise BadInput(f"{name} = {value!r}: expected a number between 0 and 1, as 0.1")
    return float(value)


def _named_policies(given: Mapping[str, Any]) -> dict[str, PolicyLike]:
    """Return the policies of a file: a text, or a list of texts."""
    value = given.get("policy", [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadInput("policy: expected text, or a list of texts")
    for policy in texts:
        if policy not in BUILT_IN:
            own = " (a file names no code: give your own to the command)" if ":" in policy else ""
            known = suggestion(policy, BUILT_IN)
            raise BadInput(f"policy: {policy!r} is not a policy{own}; {known}")
    return {policy: policy for policy in texts}
