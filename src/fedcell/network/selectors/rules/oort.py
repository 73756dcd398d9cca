"""Oort: clients with high losses that are fast enough, and some that were never called.

Source: Lai et al., "Oort: Efficient Federated Learning via Guided Participant Selection" (OSDI
2021), read in the authors' code (Oort 05a3aa1; FedScale 7ec441c, thirdparty/oort) and in Plato:
utility |B_j| sqrt(mean loss^2); score = utility between its bounds + sqrt(0.1 ln R / L_j), with L_j
the round in which the client was called last; the whole score times (T / t_j)^alpha where t_j > T.

| constant | oort (default) | fedscale | plato |
|---|---|---|---|
| exploration, its decay, its least | .9, .95, .2 | .9, .98, .3 | .9 (config) |
| alpha | 2 | 2 | 2 |
| clip, percentile of the utilities | 98 | 90 | none seen |
| cut-off | .7 | .05 | .95 |
| T, percentile of the durations, its step | 10, 5 | 30, 5 | 50 s, 50 s |
| pacer window | 20 rounds | 20 | 2 |

Here: the losses are those of the model that a client received, over all its samples; FedScale has
those of its last mini-batch only. Durations are those that the round priced under `policy`, and
before a client's first round an estimate. The authors' code fails where all clients are exploited,
and where there is one client; this one does not. Plato's pacer in seconds is left out.

Elsewhere: CSFL-simulator (8c37ce2) has loss / duration + .1 UCB under this name.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.network.selectors.base import Known, Race, check_positive, drawn_by, highest

SPARE, SPARE_UNSEEN = 10, 5  # clients that are drawn from, in multiples of those to draw
STEADY, LEAP = 0.1, 5.0  # changes of the exploited utility at which the pacer moves T


@dataclass(frozen=True)
class Oort:
    """Oort, with the constants of the authors' repository.

    Parameters
    ----------
    policy : str
        Allocation policy that the durations are of.
    exploration, decay, least_exploration : float
        Share of K that is drawn among clients that were never called: at first, its factor in each
        round, and its least.
    penalty : float
        alpha.
    clip : float
        Percentile of the utilities that caps them.
    cut : float
        Part of the score at the last exploited rank that a client must have.
    preferred, step : float
        Percentile of the durations that T is at first, and by which the pacer moves it.
    window : int
        Rounds that the pacer compares.
    """

    policy: str = "optimal"
    exploration: float = 0.9
    decay: float = 0.95
    least_exploration: float = 0.2
    penalty: float = 2.0
    clip: float = 98.0
    cut: float = 0.7
    preferred: float = 10.0
    step: float = 5.0
    window: int = 20

    reads: ClassVar[tuple[str, ...]] = ("samples", "rms_loss", "age", "duration")

    def __post_init__(self) -> None:
        check_positive(self, "window")

    def __call__(self, known: Known) -> Race:
        exploration, preferred, exploited = self._paced(known)
        seen = known.may & ~np.isnan(known.rms_loss)
        factor = self._factor(known, preferred)
        utility = known.samples * np.nan_to_num(known.rms_loss)
        wanted = ceil((1 - exploration) * known.size)
        first = self._exploit(known, seen, utility, factor, wanted)
        unseen = known.may & np.isnan(known.rms_loss)
        more = self._explore(known, unseen, factor, known.size - first.size)
        chosen = np.zeros(known.count)
        chosen[first], chosen[more] = np.inf, np.inf
        if first.size + more.size < known.size:  # too few unseen: fill up with the others
            rest = known.size - first.size - more.size
            chosen[highest(known, utility * factor, rest, chosen == 0)] = np.inf
        exploited = np.append(exploited, utility[first].sum())[-2 * self.window :]
        numbers = np.array([exploration, preferred])
        return Race(chosen, {"numbers": numbers, "exploited": exploited})

    def _paced(self, known: Known) -> tuple[float, float, Array]:
        """Return exploration and percentile of this round, and the utilities exploited so far."""
        exploration, preferred = known.memory.get("numbers", (self.exploration, self.preferred))
        exploited = known.memory.get("exploited", np.empty(0))
        exploration = max(float(exploration) * self.decay, self.least_exploration)
        preferred, w = float(preferred), self.window
        if exploited.size == 2 * w and known.round % w == 0:
            before, now = exploited[:w].sum(), exploited[w:].sum()
            if abs(now - before) <= STEADY * before:
                preferred = min(100.0, preferred + self.step)
            elif abs(now - before) >= LEAP * before:
                preferred = max(self.step, preferred - self.step)
        return exploration, preferred, exploited

    def _factor(self, known: Known, preferred: float) -> Array:
        """Return (T / t_j)^alpha for clients that take longer than T, else 1."""
        times = known.duration
        if not known.may.any():
            return np.ones(known.count)
        T = np.percentile(times[known.may], preferred)
        return np.asarray(np.where(times > T, (T / times) ** self.penalty, 1.0))

    def _exploit(
        self, known: Known, seen: Bools, utility: Array, factor: Array, wanted: int
    ) -> Ints:
        """Return clients with the highest scores among those that have reported."""
        wanted = min(wanted, int(np.count_nonzero(seen)))
        if wanted == 0:
            return np.empty(0, np.int64)
        own = utility[seen]
        most, least = own.max(), own.min()
        clipped = np.minimum(utility, np.percentile(own, self.clip)) - least
        share = clipped / (most - least) if most > least else np.zeros(known.count)
        last = np.maximum(known.round + 1 - known.age, 1)  # L_j, from 1
        fresh = np.sqrt(0.1 * np.log(known.round + 1) / last)
        score = np.where(seen, (share + fresh) * factor, -np.inf)
        order = highest(known, score, int(np.count_nonzero(seen)), seen)
        above = np.count_nonzero(score[order] >= self.cut * score[order[wanted - 1]])
        pool = order[: max(int(above), SPARE * wanted)]
        weight = np.zeros(known.count)
        weight[pool] = np.maximum(score[pool], 1e-12)
        return drawn_by(known, weight, wanted, 1)

    def _explore(self, known: Known, unseen: Bools, factor: Array, wanted: int) -> Ints:
        """Return clients that were never called, large and fast ones rather."""
        value = np.where(unseen, known.samples * factor, -np.inf)
        pool = highest(known, value, SPARE_UNSEEN * wanted, unseen)
        weight = np.zeros(known.count)
        weight[pool] = value[pool]
        return drawn_by(known, weight, wanted, 2)
