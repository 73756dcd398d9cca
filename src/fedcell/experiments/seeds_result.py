"""What came out of a scenario on several seeds: means over them, and how sure those are."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.files import as_json, write_text
from fedcell.core.showing import Showable
from fedcell.core.targets import Target
from fedcell.simulation.folder import SUMMARY
from fedcell.simulation.result import RunResult
from fedcell.simulation.summary import shared_policies

from .statistics import RoundsEstimate, estimate_rounds

SUMS = ("rounds", "duration", "energy", "cost")


@dataclass(frozen=True, kw_only=True)
class SeedsEstimate:
    """What a policy takes over seeds: to the target, or in all where there is none.

    A seed that did not get there counts as all that it took, so means are then at least.
    """

    policy: str
    rounds: RoundsEstimate
    duration: Estimate  # [s]
    energy: Estimate  # of all clients [J]
    cost: Estimate  # (12) [s]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        rounds = asdict(self.rounds.mean) | {"median": self.rounds.median}
        rest = {name: asdict(getattr(self, name)) for name in ("duration", "energy", "cost")}
        return {"policy": self.policy, "rounds": rounds, **rest}


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedsResult(Showable):
    """The runs of one scenario on several seeds."""

    runs: Mapping[int, RunResult]  # by seed
    rounds: int  # after which each ends at the latest
    complete: bool  # False if one was interrupted

    @property
    def target(self) -> Target | None:
        """What is to be reached."""
        return next((result.outcome.target for result in self.runs.values()), None)

    @property
    def finished(self) -> list[RunResult]:
        """The runs that went to their end: an interrupted one says nothing of what it takes."""
        return [result for result in self.runs.values() if result.complete]

    @property
    def reached(self) -> int:
        """Seeds that got to the target."""
        return sum(result.outcome.policies[0].to_target is not None for result in self.finished)

    @property
    def policies(self) -> list[str]:
        """Those that every run is priced under."""
        return shared_policies([result.outcome for result in self.finished])

    def estimates(self) -> list[SeedsEstimate]:
        """Rounds, time, energy and cost for each policy, means with 95 % intervals."""
        return [self._estimate(policy) for policy in self.policies]

    def _estimate(self, policy: str) -> SeedsEstimate:
        every = [
            next(outcome for outcome in result.outcome.policies if outcome.policy == policy)
            for result in self.finished
        ]
        means = {
            name: mean_estimate(
                np.array([getattr(o.to_target or o.total, name) for o in every], float)
            )
            for name in ("duration", "energy", "cost")
        }
        if self.target is None:
            found: list[int | None] = [outcome.total.rounds for outcome in every]
        else:
            found = [o.to_target.rounds if o.to_target else None for o in every]
        return SeedsEstimate(policy=policy, rounds=estimate_rounds(found, self.rounds), **means)

    def scores(self) -> dict[str, Estimate]:
        """Losses and accuracy of the last models, means over seeds."""
        last = [asdict(result.outcome.policies[0].scores) for result in self.finished]
        return {name: mean_estimate(np.array([row[name] for row in last])) for name in last[0]}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each seed and policy: in all, and to the target."""
        return [
            {"seed": seed, "policy": outcome.policy}
            | asdict(outcome.total)
            | asdict(outcome.scores)
            | {f"{name}_to_target": getattr(outcome.to_target, name, None) for name in SUMS}
            for seed, result in self.runs.items()
            for outcome in result.outcome.policies
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        return {
            "complete": self.complete,
            "seeds": list(self.runs),
            "rounds": self.rounds,
            "target": None if self.target is None else asdict(self.target),
            "reached": self.reached,
            "policies": [estimate.to_dict() for estimate in self.estimates()],
            "runs": self.rows(),
        }

    def save(self, folder: Path) -> None:
        """Writes summary.json beside the folders of the seeds."""
        write_text(folder / SUMMARY, as_json(self.to_dict()))

    def __repr__(self) -> str:
        words = [f"{e.policy} {e.duration!r} s" for e in self.estimates()]
        return f"<SeedsResult, {len(self.runs)} seeds; {', '.join(words) or 'no round done'}>"
