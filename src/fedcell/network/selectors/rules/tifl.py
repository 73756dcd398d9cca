"""TiFL: clients of one speed tier at a time.

Source: Chai et al. (HPDC 2020, arXiv 2001.09249), read in fltk (ba90a78) and FLGo (ea07f1d):
clients are sorted by their profiled latency into tiers of equal size; a round draws a tier, among
those with credits left, and K clients of it without replacement. `tifl-adaptive` changes the
probabilities every I rounds: tiers are ranked by their mean accuracy, and
p = (n - rank) / (n (n + 1) / 2), rank 0 the worst. That formula is fltk's, which FLGo copied.

Constants of FLGo: five tiers, I = 10. Credits are ceil(R / tiers) for a run of R rounds; here they
are a parameter, without a limit by default.

Here: the latency is profiled in the first round, training at the client's own frequency (26) plus
an upload with 1/K of the band. Tiers are ranked by mean loss of the model over the clients'
samples, which all of them evaluate every I rounds (charged), where fltk has accuracies on test
data. A tier with fewer than K candidates calls fewer.

Elsewhere: FLGo draws clients with replacement inside a tier; CSFL-simulator (8c37ce2) takes one of
each tier, which undoes the idea.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.network.selectors.base import Known, Memory, Race, check_positive, drawn_by, surely


@dataclass(frozen=True)
class TiFL:
    """Static tiers.

    Parameters
    ----------
    tiers : int
        How many.
    ratio : float
        Probability of a tier over that of the next faster one.
    credits : int
        Rounds that a tier may have; 0: no limit.
    """

    tiers: int = 5
    ratio: float = 1.0
    credits: int = 0

    reads: ClassVar[tuple[str, ...]] = ("compute_time", "upload_time")

    def __post_init__(self) -> None:
        check_positive(self, "tiers")

    def __call__(self, known: Known) -> Race:
        tier, left = _profiled(known, self.tiers, self.credits)
        p = float(self.ratio) ** np.arange(left.size)
        return _of_a_tier(known, tier, left, p, {})


@dataclass(frozen=True)
class TiFLAdaptive:
    """Tiers that are behind are drawn more often.

    Parameters
    ----------
    tiers : int
        How many.
    every : int
        I: rounds after which tiers are ranked again.
    credits : int
        Rounds that a tier may have; 0: no limit.
    """

    tiers: int = 5
    every: int = 10
    credits: int = 0

    reads: ClassVar[tuple[str, ...]] = ("compute_time", "upload_time", "evaluate")

    def __post_init__(self) -> None:
        check_positive(self, "tiers", "every")

    def __call__(self, known: Known) -> Race:
        tier, left = _profiled(known, self.tiers, self.credits)
        n = left.size
        p = known.memory.get("p", np.full(n, 1 / n))
        if known.round and known.round % self.every == 0 and known.may.any():
            clients = np.flatnonzero(known.may)
            loss = known.evaluate(clients)
            sums = np.bincount(tier[clients], loss, n)
            counts = np.bincount(tier[clients], minlength=n)
            mean = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
            rank = np.empty(n)
            rank[np.argsort(-mean, kind="stable")] = np.arange(n)  # 0: the highest loss
            p = (n - rank) / (n * (n + 1) / 2)
        return _of_a_tier(known, tier, left, p, {"p": p})


def _profiled(known: Known, tiers: int, credits: int) -> tuple[Ints, Array]:
    """Return the tier of each client, 0 the fastest, and the rounds that tiers have left."""
    if "tier" in known.memory:
        return np.asarray(known.memory["tier"], np.int64), known.memory["left"]
    count = max(1, min(tiers, known.count))
    latency = known.compute_time + known.cohort * known.upload_time
    order = np.lexsort((known.uniforms(0), latency))
    tier = np.empty(known.count, np.int64)
    for i, clients in enumerate(np.array_split(order, count)):
        tier[clients] = i
    return tier, np.full(count, credits if credits else np.inf)


def _of_a_tier(known: Known, tier: Ints, left: Array, p: Any, memory: Memory) -> Race:
    """Return a race that K clients of a tier win, drawn by p among those that can be called."""
    there = np.bincount(tier[known.may], minlength=left.size) > 0
    open_tiers = there & (left > 0) if (there & (left > 0)).any() else there
    weight = np.where(open_tiers, p, 0.0)
    clients, left = np.empty(0, np.int64), left.copy()
    if weight.any():
        reached = weight.cumsum()
        drawn = int(np.searchsorted(reached, known.numbers[1] * reached[-1], side="right"))
        drawn = min(drawn, int(np.flatnonzero(weight)[-1]))
        clients = drawn_by(known, (tier == drawn).astype(float), known.cohort, 1)
        left[drawn] -= 1
    kept: dict[str, Any] = {**memory, "tier": tier, "left": left}
    return Race(surely(clients, known.count), kept)
