"""Compare policies with common random numbers, for tables and figures of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.showing import Showable
from fedcell.core.streams import check_count, replicate_seeds
from fedcell.core.types import Array
from fedcell.scenario.scenario import Scenario, check_scenario

from .draw import draw_fleet
from .ledger import Ledger
from .physics.notes import power_notes, radio_notes
from .policies.names import NAMED, Policies, PolicyLike, policies_by_name
from .simulate import simulate_network

MEASURES = ("upload_cost", "compute_cost", "staged_cost", "objective", "duration", "energy")
COUNTED = ("called", "received", "excluded_by_channel", "excluded_by_data")
Track = Callable[[Sequence[Any]], Iterable[Any]]  # wraps an iterable, to show progress


@dataclass(frozen=True, kw_only=True)
class PolicyCosts:
    """Costs of a round under one policy: means by measure, and paired differences to the first."""

    policy: str
    mean: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Showable):
    """Policies with common random numbers. Estimates are means over rounds or fleets, at 95 %."""

    scenario: Scenario
    seed: int
    rounds: int  # of each fleet
    fleets: int
    policies: tuple[PolicyCosts, ...]  # differences are to the first
    called: float  # clients a round, on average, and so on: the same for every policy
    received: float
    excluded_by_channel: float
    excluded_by_data: float
    short_rounds: int  # in which fewer than K could be called
    empty_rounds: int  # without any client; the means leave them out
    notes: tuple[str, ...] = ()  # on powers, rates and shares

    @property
    def grams(self) -> dict[str, float]:
        """Return the CO2 of a round by policy [g]; empty where no intensity is declared."""
        if (device := self.scenario.device) is None or device.carbon_intensity is None:
            return {}
        means = {costs.policy: device.grams(costs.mean["energy"].value) for costs in self.policies}
        return {policy: grams for policy, grams in means.items() if grams is not None}

    def __getitem__(self, policy: str) -> PolicyCosts:
        for costs in self.policies:
            if costs.policy == policy:
                return costs
        raise KeyError(policy)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell cost --json` prints them."""
        plan = self.scenario.plan
        excluded = ("excluded_by_channel", "excluded_by_data")
        counts = ("called", "received", *excluded, "short_rounds", "empty_rounds")
        return {
            "seed": self.seed,
            "rounds": self.rounds,
            "fleets": self.fleets,
            "cohort": plan.cohort,
            "local_steps": None if plan.local_epochs else plan.local_steps,
            "local_epochs": plan.local_epochs,
            "samples_per_step": self.scenario.samples_per_step,
            "broadcast_time": self.scenario.cell.broadcast_time,
            **{name: getattr(self, name) for name in counts},
            "policies": [
                {"policy": costs.policy, **_plain(costs.mean)}
                | {"against": self.policies[0].policy, "difference": _plain(costs.difference)}
                for costs in self.policies
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row for each policy and measure."""
        return [
            {"policy": costs.policy, "measure": measure, **asdict(costs.mean[measure])}
            | {f"difference_{key}": x for key, x in asdict(costs.difference[measure]).items()}
            for costs in self.policies
            for measure in MEASURES
        ]

    def __repr__(self) -> str:
        each = ", ".join(f"{c.policy} {c.mean['objective'].value:.4g} s" for c in self.policies)
        return f"<Comparison over {self.rounds} rounds, joint cost (22): {each}>"


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepPoint:
    """The policies at one value of an axis, with one spread of the clients."""

    axis: str  # of the plan: cohort, local_steps or local_epochs
    value: int
    spread: float
    comparison: Comparison


@dataclass(frozen=True, eq=False)
class CostSweep(Showable):
    """The costs of a round over K and over E_l, the content of Fig. 6 a and b."""

    points: tuple[SweepPoint, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each point, policy and measure."""
        return [
            {"axis": p.axis, "value_of_axis": p.value, "spread": p.spread} | row
            for p in self.points
            for row in p.comparison.rows()
        ]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain values, as `fedcell cost --figure ... --json` prints them."""
        return [
            {"axis": p.axis, "value": p.value, "spread": p.spread, **p.comparison.to_dict()}
            for p in self.points
        ]

    def __repr__(self) -> str:
        axes = dict.fromkeys(point.axis for point in self.points)
        return f"<CostSweep: {len(self.points)} points over {' and '.join(axes)}>"


def compare(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    rounds: int | None = None,
    seed: int = 0,
    fleets: int = 1,
    track: Track = iter,
) -> Comparison:
    """Compare policies with common random numbers: means with intervals, and differences.

    Differences to the first policy are paired, so that random variation cancels. With one fleet,
    intervals are over its rounds and hold for these clients. With several independent fleets, they
    are over the means of the fleets and hold for similar clients. Rounds without any client are
    counted and left out.

    Parameters
    ----------
    scenario : Scenario
        The world; its plan has K and E_l.
    policies : sequence or mapping
        Names, callables or classes; a mapping gives names to them.
    rounds, seed, fleets : int
        Rounds of each fleet (default: those of the scenario), random seed, independent fleets.
    track : callable
        Wraps the list of policies, to show progress.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> costs = compare(Scenario(), ["even", "optimal"], rounds=100)
    >>> costs["optimal"].difference["objective"].high < 0
    True
    """
    check_scenario(scenario).require_sizes()
    known = policies_by_name(policies)
    first_policy = next(iter(known.values()))
    rounds = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    fleets = _check_fleets(scenario, fleets)
    costs: list[PolicyCosts] = []
    first: dict[str, Array] = {}
    seen: list[dict[str, float]] = []
    for name in track(list(known)):
        values, seen = _simulate_fleets(scenario, known[name], rounds, seed, fleets)
        first = first or values
        mean = {m: mean_estimate(values[m]) for m in MEASURES}
        difference = {m: mean_estimate(values[m] - first[m]) for m in MEASURES}
        costs.append(PolicyCosts(policy=name, mean=mean, difference=difference))
    fleet = draw_fleet(scenario, seed)
    return Comparison(
        scenario=scenario,
        seed=seed,
        rounds=rounds,
        fleets=fleets,
        policies=tuple(costs),
        notes=(
            *radio_notes(scenario, fleet, first_policy, seed),
            *power_notes(scenario, fleet, list(known.values()), seed),
        ),
        **{n: float(np.mean([counts[n] for counts in seen])) for n in COUNTED},
        short_rounds=sum(int(counts["short_rounds"]) for counts in seen),
        empty_rounds=sum(int(counts["empty_rounds"]) for counts in seen),
    )


def _simulate_fleets(
    scenario: Scenario, policy: PolicyLike, rounds: int, seed: int, fleets: int
) -> tuple[dict[str, Array], list[dict[str, float]]]:
    """Return the values of each measure, by round or by fleet, and the counts of each fleet."""
    counts, by_fleet = [], []
    for its_seed in replicate_seeds(seed, fleets):
        ledger = simulate_network(scenario, policy, rounds, its_seed)
        counts.append(_counts(scenario, ledger))
        by_fleet.append({m: getattr(ledger, m)[ledger.called > 0] for m in MEASURES})
        if fleets > 1:  # only the means of each are needed
            by_fleet[-1] = {m: values.mean() for m, values in by_fleet[-1].items()}
    return {m: np.ravel([of_fleet[m] for of_fleet in by_fleet]) for m in MEASURES}, counts


def _counts(scenario: Scenario, ledger: Ledger) -> dict[str, float]:
    """Return mean counts of clients over the rounds, and the numbers of short and empty rounds."""
    return {name: float(getattr(ledger, name).mean()) for name in COUNTED} | {
        "short_rounds": int((ledger.draws < scenario.plan.cohort).sum()),
        "empty_rounds": int((ledger.called == 0).sum()),
    }


def _plain(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {measure: asdict(estimate) for measure, estimate in estimates.items()}


def _check_fleets(scenario: Scenario, fleets: int) -> int:
    fleets = check_count(fleets, "`fleets`")
    if fleets > 1 and (scenario.clients.table is not None or scenario.cell.recorded is not None):
        raise BadInput(f"`fleets` = {fleets}: there is one fleet where clients or gains are listed")
    return fleets


def sweep_axes(scenario: Scenario) -> dict[str, list[int]]:
    """Return K and E_l as in Fig. 6: up to half of the clients, and around the planned steps."""
    count, plan = scenario.clients.count, scenario.plan
    work = "local_epochs" if plan.local_epochs else "local_steps"
    cohorts = {max(1, round(count * part)) for part in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)}
    times = {max(1, round(scenario.local_work * part)) for part in (0.25, 0.5, 1, 1.5, 2, 2.5)}
    return {"cohort": sorted(cohorts | {scenario.plan.cohort}), work: sorted(times)}


def sweep_costs(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    spreads: Sequence[float] | None = None,
    rounds: int | None = None,
    seed: int = 0,
    fleets: int = 1,
    track: Track = iter,
) -> CostSweep:
    """Compute the costs of a round over K and over E_l, for one or several spreads of the clients.

    `.plot("fig6.png")` draws what Fig. 6 of the paper shows.

    Parameters
    ----------
    scenario, policies, rounds, seed, fleets, track
        As for `compare`.
    spreads : sequence of float, optional
        Values of clients.spread (Var); default: that of the scenario.

    Returns
    -------
    CostSweep
        A comparison for each value of K or E_l and each spread.

    Examples
    --------
    >>> sweep_costs(Scenario(), ["even", "distributed"], spreads=[0.1, 0.5], rounds=5)
    <CostSweep: 24 points over cohort and local_steps>
    """
    check_scenario(scenario).require_sizes()
    points = [
        (axis, value, spread)
        for axis, values in sweep_axes(scenario).items()
        for value in values
        for spread in spreads or [scenario.clients.spread]
    ]
    swept = []
    for axis, value, spread in track(points):
        world = scenario.using(plan={axis: value}, clients={"spread": spread})
        comparison = compare(world, policies, rounds, seed, fleets)
        swept.append(SweepPoint(axis=axis, value=value, spread=spread, comparison=comparison))
    return CostSweep(tuple(swept))
