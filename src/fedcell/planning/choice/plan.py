"""A training plan: the best K and E_l, what a run with them takes, and how sure that is."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from fedcell.core.errors import BadInput, FedcellWarning, printable
from fedcell.core.estimates import Estimate
from fedcell.core.schema import Count, NotNegative, Positive, Text
from fedcell.core.showing import Showable
from fedcell.core.types import Bools
from fedcell.learning.data.download import Report
from fedcell.learning.setup import prepare_training
from fedcell.planning.costs.devices import DeviceShare
from fedcell.planning.costs.units import UnitCostEstimate
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.law.given import UnitCosts
from fedcell.planning.records import (
    NotNegativeOrInfinite,
    PositiveOrInfinite,
    Record,
    Seed,
    Share,
    Stored,
    record,
)
from fedcell.planning.setting import Objective
from fedcell.scenario.identity import differences, run_identity
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.checks import with_costs
from fedcell.simulation.summary import RunResult

from .grid import PlanGrid
from .limits import Limits

if TYPE_CHECKING:
    from .front import FrontPlan

TOLERANCE = 0.05  # plans that cost so little more are as good

# A total below 1e15, and a share, with their intervals as a file holds them.
Total = Annotated[float, Meta(gt=0, lt=1e15, description="a number above 0 and below 1e15")]


def _check_interval(row: Any) -> list[str]:
    """Return a fault where a value is not in its interval."""
    if row.low <= row.value <= row.high:
        return []
    edges = f"low = {row.low:g} and high = {row.high:g}"
    return [f"value = {row.value:g} is not between {edges}"]


def _estimate(kind: Any) -> Record[Estimate]:
    """Return how an estimate of a kind of number stands in a file."""
    return record(Estimate, check=_check_interval, value=kind, low=kind, high=kind, level=Share)


TotalEstimate = Annotated[Estimate, _estimate(Total)]
CountEstimate = Annotated[Estimate, _estimate(Count)]
PlanTotals = Mapping[str, Estimate]  # rounds, duration, energy and cost


@dataclass(frozen=True, kw_only=True)
class PaperChoice:
    """What the paper's closed forms choose, clipped to possible values, and what that would
    take."""

    cohort: Count  # K* of (21)
    local_steps: Count  # E_l* of Section IV-B-2
    rounds: PositiveOrInfinite
    duration: NotNegativeOrInfinite
    energy: NotNegativeOrInfinite
    cost: NotNegativeOrInfinite
    exact_cohort: Count  # the K that minimises (19) at this E_l
    unclipped_cohort: NotNegativeOrInfinite  # K* at the E_l that is clipped
    unclipped_local_steps: NotNegativeOrInfinite
    unit_costs: UnitCosts  # of Section IV-D


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The best plan in a nearby scenario, and what keeping the old plan would cost there."""

    change: Text
    kept_cost: NotNegativeOrInfinite  # (12) [s]
    cohort: Count | None = None  # None, as all that follows, where no plan keeps the limits
    local_steps: Count | None = None
    rounds: Positive | None = None
    duration: NotNegative | None = None
    energy: NotNegative | None = None
    cost: NotNegative | None = None
    why_no_plan: str = ""
    note: str = ""  # what the numbers leave out


def planned_identity(
    scenario: Scenario, settled: Scenario, fingerprint: str | None
) -> dict[str, Any]:
    """Return what identifies the run that was planned, apart from its seed and target.

    `settled` is the scenario with what follows from its data, whose `fingerprint` is given.
    """
    known = run_identity(settled.using(clients={"sizes": scenario.clients.sizes}), fingerprint, 0)
    return {name: known[name] for name in ("scenario", "data")}


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingPlan(Showable):
    """How many clients a round, how many local steps, and what one run to the target takes.

    `plan_training` makes one; `save`, `load`, `apply_to` a scenario, and `compare` with a run.

    Attributes
    ----------
    cohort, local_steps : int
        K and E_l.
    cohort_interval, local_steps_interval : Estimate
        The same, each with the interval in which the best value lies.
    rounds, duration, energy, cost : Estimate
        Of one run to the target: rounds, time [s], energy of all clients [J], cost (12) [s].
    policy : str
        The policy that schedules the rounds.
    policies : mapping of str to mapping of str to Estimate
        The same totals at this K and E_l under each policy, by policy and name.
    target : Target or None
        What the run reaches.
    minimised : {"cost", "duration", "energy"}
        The objective.
    limits : Limits
        What the plan keeps, each with the chance `chances[name]`.
    law : RoundsLaw
        The law of rounds; from a file its coefficients only, without the spread of runs.
    paper : PaperChoice
        What the closed forms of the paper choose.
    devices : tuple of DeviceShare
        What clients spend: all of a table; else the client that pays most.
    sensitivity : tuple of WhatIf
        The best plans in nearby scenarios, where these were computed.
    energy_by_part : mapping of str to float
        The joules of `energy` by part ("download", "train", "upload", "wait", "tail"); empty unless
        radios or devices are declared.

    Examples
    --------
    >>> from fedcell import GivenLaw, Region, Scenario, plan_training
    >>> law = GivenLaw(mixing=30, drift=0.5, start=40)
    >>> plan = plan_training(Scenario(), law, region=Region(policy="even", steps=(1, 20)))
    >>> plan.cohort, plan.local_steps, plan.apply_to().plan.cohort
    (3, 1, 3)
    """

    name: Text  # of the scenario
    scenario: Scenario | None  # as declared; None in a file, where gains were measured
    policy: Text
    target: Target | None
    minimised: Objective
    limits: Limits
    law: RoundsLaw
    law_form: Literal["paper", "floor"] | None = None  # terms that were fitted; None: a given law
    seed: Seed
    cohort: Count  # K
    cohort_interval: CountEstimate  # K, and where the best K lies
    local_steps: Count  # E_l
    local_steps_interval: CountEstimate
    rounds: TotalEstimate
    duration: TotalEstimate  # [s]
    energy: TotalEstimate  # of all clients [J]
    cost: TotalEstimate  # (12) [s]
    paper: PaperChoice
    policies: Mapping[str, PlanTotals]  # the same K and E_l under each policy
    unit_costs: tuple[UnitCostEstimate, ...] = ()
    sensitivity: tuple[WhatIf, ...] = ()
    # Joules of `energy` by part, with declared radios or devices; they sum to it.
    energy_by_part: Annotated[Mapping[str, float], Stored(dict[str, NotNegative])] = field(
        default_factory=dict
    )
    bandwidth: Positive | None = None  # the least for these limits, where it was asked for [Hz]
    power: Positive | None = None  # least factor on transmit powers, where it was asked for
    # Chance to keep each limit, by its name.
    chances: Annotated[Mapping[str, float], Stored(dict[str, Share])] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    devices: tuple[DeviceShare, ...] = ()  # of a table all; else the client that pays most
    learner: Text | None = None  # name of the user's learner that the pilot was run with, and
    server: Text | None = None  # of a server; neither is loaded
    identity: Mapping[str, Any] | None = None  # of the run that is planned; None: it is not known
    grid: PlanGrid | None = None  # what it was chosen from; not in a file
    allowed: Bools | None = None  # plans of the grid within the limits

    @property
    def grams(self) -> float | None:
        """Return the CO2 of the expected energy [g]; None where no intensity is declared."""
        device = None if self.scenario is None else self.scenario.device
        return None if device is None else device.grams(self.energy.value)

    @property
    def most_rounds(self) -> int:
        """Return the rounds after which a run ends: 1.5 times the high end of its interval, or
        three times the low end, which is that of a given law."""
        return min(10**7, ceil(max(1.5 * self.rounds.high, 3 * self.rounds.low)))

    def apply_to(self, scenario: Scenario | None = None) -> Scenario:
        """Return a scenario, default: that of the plan, with its K, E_l and target, and evaluated
        in every round, as the law counts them."""
        scenario = self.scenario if scenario is None else scenario
        if scenario is None:
            raise BadInput(
                f"the plan for {self.name} has measured gains, which its file does not hold: give "
                "its `scenario` as well"
            )
        world = scenario.with_plan(self.cohort, self.local_steps)
        if scenario.learning is not None:
            world = world.using(learning={"evaluate_every": 1})
            if self.target is not None:
                world = world.using(learning=goal_keys(self.target))
        return world.using(plan={"rounds": self.most_rounds})

    def differences(
        self,
        scenario: Scenario,
        target: Target | None,
        learner: str | None = None,
        *,
        seed: int = 0,
        data_dir: Path | None = None,
        report: Report | None = None,
    ) -> list[str]:
        """Return in what a run of a scenario differs from the plan: target, learner, scenario, and
        the content of data, owners, fleet and gains.

        Reads the data of the scenario in `data_dir`; `report` is called with downloads.
        """
        settled, fingerprint = scenario, None
        if learner is None and scenario.learning is not None:
            with warnings.catch_warnings(action="ignore", category=FedcellWarning):
                setup = prepare_training(scenario, seed, data_dir, report)
            settled, fingerprint = setup.scenario, setup.fingerprint
        elif learner is not None and self.identity is not None:
            # z_m and alpha_0 that only the learner knows are compared when it has run.
            task = self.identity["scenario"]["task"]
            names = ("model_bits", "cycles_per_sample")
            settled = with_costs(scenario, {name: task[name] for name in names if name in task})
        known_by = None if learner is None else {"name": learner}
        identity = planned_identity(scenario, settled, fingerprint) | {"learner": known_by}
        return self.differences_from(identity, target)

    def differences_from(self, identity: Mapping[str, Any], target: Target | None) -> list[str]:
        """Return the same for a run that is known by its identity (`RunResult.identity`)."""
        known_by = identity.get("learner")
        learner = known_by.get("name") if isinstance(known_by, Mapping) else None
        differing = [] if target == self.target else ["another target"]
        differing += [] if learner == self.learner else ["another learner"]
        if self.identity is not None:
            named = {name: identity.get(name) for name in self.identity}
            differing += filter(None, [differences(self.identity, named)])
        return differing

    def named(self, name: str) -> "TrainingPlan":
        """Return the plan with the name of its scenario, for tables and files."""
        return replace(self, name=printable(name))

    def compare(self, result: RunResult) -> "PlanOutcome":
        """Return what a run took beside the predictions; `differing` names in what the run is not
        the planned one."""
        if not result.identity:
            return plan_outcome(self.policies, result)
        differing = self.differences_from(result.identity, result.outcome.target)
        return plan_outcome(self.policies, result, tuple(differing))

    def front(self) -> "tuple[FrontPlan, ...]":
        """Return the plans within the limits that no other plan beats in both time and energy.

        Expected totals under the policy of the plan, the fastest first. The plan itself may be
        beside the front: the cost (12) counts the longest training and the longest upload of a
        round, which may be of two clients, and all joules of uploads.

        Returns
        -------
        tuple of FrontPlan

        Raises
        ------
        BadInput
            If the plan was read from a file, which does not hold the other plans.

        Examples
        --------
        >>> from fedcell import GivenLaw, Region, Scenario, plan_training
        >>> law = GivenLaw(mixing=30, drift=0.5, start=40)
        >>> plan = plan_training(Scenario(), law, region=Region(policy="even", steps=(1, 20)))
        >>> [(each.cohort, each.local_steps) for each in plan.front()][-1]
        (1, 1)
        """
        from .front import pareto_front

        grid, allowed = self._chosen_from()
        return pareto_front(grid, allowed)

    def _chosen_from(self) -> tuple[PlanGrid, Bools]:
        """Return the grid, and which of its plans keep the limits."""
        if self.grid is None or self.allowed is None:
            raise BadInput(
                "a plan from a file does not hold the other plans: plan again with `plan_training`"
            )
        return self.grid, self.allowed

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each policy and measure."""
        return [
            {"policy": policy, "measure": measure, **asdict(totals[measure])}
            for policy, totals in self.policies.items()
            for measure in TOTALS
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `fedcell plan --json` prints them and a file holds them."""
        from .planfile import plan_tables

        return plan_tables(self)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, for `TrainingPlan.load` and `fedcell run --plan`."""
        from .planfile import save_plan

        save_plan(Path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> "TrainingPlan":
        """Read a plan from its file. Its law has the coefficients, without the spread of runs."""
        from .planfile import load_plan

        return load_plan(Path(path))

    def __repr__(self) -> str:
        return (
            f"<TrainingPlan for {self.name}: K = {self.cohort}, E_l = "
            f"{self.local_steps}, {self.rounds} rounds, {self.duration} s, "
            f"{self.energy} J>"
        )


TOTALS = ("rounds", "duration", "energy", "cost")  # of a run to the target


@dataclass(frozen=True, kw_only=True)
class PredictionCheck:
    """One quantity of a run under one policy: predicted, and taken."""

    policy: str
    measure: str
    predicted: Estimate
    taken: float

    @property
    def inside(self) -> bool | None:
        """Whether it is in the interval; None where the plan was made without a pilot."""
        exact = self.predicted.low == self.predicted.high
        return None if exact else self.taken in self.predicted


@dataclass(frozen=True)
class PlanOutcome(Showable):
    """A plan's predictions beside what a run took, for each policy that reached the target.

    Where the run is not the one that was planned, `differing` names in what, and nothing is said
    of the plan's intervals.
    """

    measured: tuple[PredictionCheck, ...]
    differing: tuple[str, ...] = ()  # in what the run is not the one that was planned

    def inside(self, check: PredictionCheck) -> bool | None:
        """Whether a quantity is in its interval; None where there is none, or the run is another
        than was planned."""
        return None if self.differing else check.inside

    def rows(self) -> list[dict[str, Any]]:
        """One row for each policy and measure."""
        return [
            {"policy": m.policy, "measure": m.measure, **asdict(m.predicted)}
            | {"taken": m.taken, "inside": self.inside(m)}
            for m in self.measured
        ]

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain values by policy, as `fedcell run --plan --json` prints them."""
        by_policy: dict[str, dict[str, Any]] = {}
        for m in self.measured:
            row = by_policy.setdefault(m.policy, {"policy": m.policy})
            row[m.measure] = {**asdict(m.predicted), "taken": m.taken, "inside": self.inside(m)}
        return list(by_policy.values())

    def __repr__(self) -> str:
        if self.differing:
            return f"<PlanOutcome: not the run that was planned ({', '.join(self.differing)})>"
        inside = [m.inside for m in self.measured]
        return f"<PlanOutcome: {inside.count(True)} of {len(inside)} inside their intervals>"


def plan_outcome(
    predicted: Mapping[str, Mapping[str, Estimate]],
    result: RunResult,
    differing: tuple[str, ...] = (),
) -> PlanOutcome:
    """What was predicted by policy and measure, beside what a run took to the target."""
    return PlanOutcome(
        tuple(
            PredictionCheck(
                policy=outcome.policy,
                measure=measure,
                predicted=predicted[outcome.policy][measure],
                taken=float(getattr(outcome.to_target, measure)),
            )
            for outcome in result.outcome.policies
            if outcome.to_target is not None and outcome.policy in predicted
            for measure in TOTALS
        ),
        differing,
    )
