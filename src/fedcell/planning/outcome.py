"""A plan's predictions beside what a run took."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedcell.core.estimates import Estimate
from fedcell.core.showing import Showable
from fedcell.simulation.result import RunResult

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
