"""A training plan: the K and E_l that make (12) least, what they will take, and how sure."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Literal

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.estimates import Estimate
from fedcell.core.showing import Showable
from fedcell.core.targets import Target
from fedcell.core.types import Bools
from fedcell.learning.data.download import Report
from fedcell.learning.setup import prepare_training
from fedcell.scenario.identity import differences, run_identity
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.result import RunResult

from .devices import DeviceShare
from .grid import PlanGrid
from .law import UnitCosts
from .limits import Limits
from .outcome import TOTALS, PlanOutcome, plan_outcome
from .rounds_law import RoundsLaw
from .unit_costs import UnitCostEstimate

Aim = Literal["cost", "duration", "energy"]
TOLERANCE = 0.05  # plans that cost so little more are as good

PlanTotals = Mapping[str, Estimate]  # rounds, duration, energy and cost


@dataclass(frozen=True, kw_only=True)
class PaperChoice:
    """What the paper's closed forms choose, clipped to what there is, and what that would take."""

    cohort: int  # K* of (21)
    local_steps: int  # E_l* of Section IV-B-2
    rounds: float
    duration: float
    energy: float
    cost: float
    exact_cohort: int  # the K that minimises (19) at this E_l
    unclipped_cohort: float  # K* at the E_l that is clipped
    unclipped_local_steps: float
    unit_costs: UnitCosts  # of Section IV-D


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The best plan in a world near this one, and what keeping the old plan would cost there."""

    change: str
    kept_cost: float  # (12) [s]
    cohort: int | None = None  # None, as all that follows, where no plan keeps the limits
    local_steps: int | None = None
    rounds: float | None = None
    duration: float | None = None
    energy: float | None = None
    cost: float | None = None
    why_no_plan: str = ""
    note: str = ""  # what the numbers leave out


def planned_identity(
    scenario: Scenario, settled: Scenario, fingerprint: str | None
) -> dict[str, Any]:
    """What makes a run of a scenario the one that was planned, its seed and target apart.

    `settled` is the scenario with what follows from its data, whose `fingerprint` is given.
    """
    known = run_identity(settled.using(clients={"sizes": scenario.clients.sizes}), fingerprint, 0)
    return {name: known[name] for name in ("scenario", "data")}


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingPlan(Showable):
    """How many clients a round, how many local steps, and what one run to the target takes.

    `plan_training` makes one; `save`, `load`, `apply_to` a scenario, and `compare` with a run.

    >>> from fedcell import GivenLaw, Scenario, plan_training
    >>> law = GivenLaw(mixing=30, drift=0.5, start=40)
    >>> plan = plan_training(Scenario(), law=law, policy="even", steps=(1, 20))
    >>> plan.cohort, plan.local_steps, plan.apply_to().plan.cohort
    (3, 1, 3)
    """

    name: str  # of the scenario
    scenario: Scenario | None  # as declared; None in a file, where gains were measured
    policy: str
    target: Target | None
    minimised: Aim
    limits: Limits
    law: RoundsLaw
    law_form: str | None = None  # which terms were fitted; None for a law by hand
    seed: int
    cohort: Estimate  # K
    local_steps: Estimate  # E_l
    rounds: Estimate
    duration: Estimate  # [s]
    energy: Estimate  # of all clients [J]
    cost: Estimate  # (12) [s]
    paper: PaperChoice
    policies: Mapping[str, PlanTotals]  # the same K and E_l under each policy
    unit_costs: tuple[UnitCostEstimate, ...] = ()
    sensitivity: tuple[WhatIf, ...] = ()
    bandwidth: float | None = None  # the least for these limits, where it was asked for [Hz]
    chances: Mapping[str, float] = field(default_factory=dict)  # to keep each limit
    notes: tuple[str, ...] = ()
    devices: tuple[DeviceShare, ...] = ()  # of a table all; else the client that pays most
    learner: str | None = None  # the names of one's own that the pilot was run with,
    server: str | None = None  # which are not loaded
    identity: Mapping[str, Any] | None = None  # of the run that is planned; None: it is not known
    grid: PlanGrid | None = None  # what it was chosen from; not in a file
    allowed: Bools | None = None  # plans of the grid within the limits

    @property
    def most_rounds(self) -> int:
        """Rounds after which a run gives up: half as many again as it may take, or thrice what a
        law by hand says."""
        return min(10**7, ceil(max(1.5 * self.rounds.high, 3 * self.rounds.low)))

    def apply_to(self, scenario: Scenario | None = None) -> Scenario:
        """A scenario, or the plan's own, run as planned: with its K, E_l and target, and
        evaluated in every round, as the law counts them."""
        scenario = self.scenario if scenario is None else scenario
        if scenario is None:
            raise BadInput(
                f"the plan for {self.name} has measured gains, which its file does not hold: give "
                "its `scenario` as well"
            )
        world = scenario.with_plan(int(self.cohort.value), int(self.local_steps.value))
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
        """In what a run of a scenario is not the one that was planned: its target, its learner,
        what the scenario says, and the content of data, owners, fleet and gains.

        Looks at the data of the scenario, which lies in `data_dir`; `report` hears of downloads.
        """
        settled, fingerprint = scenario, None
        if learner is None and scenario.learning is not None:
            with warnings.catch_warnings(action="ignore", category=FedcellWarning):
                setup = prepare_training(scenario, seed, data_dir, report)
            settled, fingerprint = setup.scenario, setup.fingerprint
        known_by = None if learner is None else {"name": learner}
        identity = planned_identity(scenario, settled, fingerprint) | {"learner": known_by}
        return self.differences_from(identity, target)

    def differences_from(self, identity: Mapping[str, Any], target: Target | None) -> list[str]:
        """The same of a run that is known by its identity (`RunResult.identity`)."""
        known_by = identity.get("learner")
        learner = known_by.get("name") if isinstance(known_by, Mapping) else None
        differing = [] if target == self.target else ["another target"]
        differing += [] if learner == self.learner else ["another learner"]
        if self.identity is not None:
            named = {name: identity.get(name) for name in self.identity}
            differing += filter(None, [differences(self.identity, named)])
        return differing

    def compare(self, result: RunResult) -> PlanOutcome:
        """What a run took beside what was predicted; `differing` says in what it is not the run
        that was planned, where it is not."""
        if not result.identity:
            return plan_outcome(self.policies, result)
        differing = self.differences_from(result.identity, result.outcome.target)
        return plan_outcome(self.policies, result, tuple(differing))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each policy and measure."""
        return [
            {"policy": policy, "measure": measure, **asdict(totals[measure])}
            for policy, totals in self.policies.items()
            for measure in TOTALS
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell plan --json` prints them and a file holds them."""
        from .planfile import plan_tables

        return plan_tables(self)

    def save(self, path: str | Path) -> None:
        """Writes the plan as JSON, for `TrainingPlan.load` and `fedcell run --plan`."""
        from .planfile import save_plan

        save_plan(Path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> "TrainingPlan":
        """A plan from its file. Its law has the coefficients, and no longer the runs' spread."""
        from .planfile import load_plan

        return load_plan(Path(path))

    def __repr__(self) -> str:
        return (
            f"<TrainingPlan for {self.name}: K = {int(self.cohort.value)}, E_l = "
            f"{int(self.local_steps.value)}, {self.rounds} rounds, {self.duration} s, "
            f"{self.energy} J>"
        )
