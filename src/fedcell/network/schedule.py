"""One round scheduled: who gets which share of the band and which CPU frequency."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable, rows_from

from .certificate import certify
from .policies.base import Broadcast
from .policies.names import PolicyLike, policy_name, resolve_policy
from .round import Certificate, Cost, Problem, Schedule, price

COLUMNS = ("upload_time", "compute_time", "upload_energy", "compute_energy")
TOTALS = ("duration", "energy", "objective", "upload_cost", "compute_cost")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScheduledRound(Showable):
    """One round with its schedule and what it costs."""

    policy: str
    schedule: Schedule
    cost: Cost
    certificate: Certificate | None  # where the policy claims the optimum, judged by us

    def columns(self) -> dict[str, list[float]]:
        """What each client is given, and what that takes, by name."""
        share = self.schedule.share
        given = {"share": share, "freq": self.schedule.freq}
        given |= {name: getattr(self.cost, name) for name in COLUMNS}
        return {name: np.broadcast_to(v, share.shape).tolist() for name, v in given.items()}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each client."""
        return rows_from(self.columns(), "client", first=0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell schedule --json` prints them."""
        answer: dict[str, Any] = {"policy": self.policy, **self.columns()}
        answer |= {name: float(getattr(self.cost, name)) for name in TOTALS}
        if self.certificate is not None:
            answer["certificate"] = {n: float(v) for n, v in asdict(self.certificate).items()}
        return answer

    def __repr__(self) -> str:
        cost, clients = self.cost, self.schedule.share.size
        words = f"{clients} clients, {float(cost.duration):.4g} s, {float(cost.energy):.4g} J"
        return f"<ScheduledRound, {self.policy}: {words}>"


def schedule_round(problem: Problem, policy: PolicyLike = "optimal") -> ScheduledRound:
    """One round under a policy, checked and priced.

    >>> from fedcell import load_round
    >>> schedule_round(load_round("docs/round.json"), "optimal")
    <ScheduledRound, optimal: 3 clients, 27.9 s, 105.1 J>
    """
    if problem.band_time.ndim != 1:
        raise BadInput("`problem` holds many rounds: take one, as problem[0]")
    name = policy_name(policy)
    answer = resolve_policy(policy, Broadcast.among(problem))(problem)
    cost = price(problem, answer)
    values = [answer.share, answer.freq, *(getattr(cost, n) for n in (*COLUMNS, *TOTALS))]
    if not all(np.isfinite(value).all() for value in values):
        raise BadInput("the numbers are too far apart to be computed with: check the units (SI)")
    proof = None if answer.certificate is None else certify(problem, answer)
    return ScheduledRound(policy=name, schedule=answer, cost=cost, certificate=proof)
