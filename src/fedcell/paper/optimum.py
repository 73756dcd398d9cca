"""The best K over the cost ratio E_l C_n0 / C_u0 (Fig. 5): measured, and by Theorem 2."""

from dataclasses import dataclass

import numpy as np

from fedcell.core.estimates import Estimate
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array
from fedcell.experiments.table import Labels, SweepTable
from fedcell.planning.law.given import GivenLaw, UnitCosts
from fedcell.planning.law.theory import Constants

from .measurements import measured_at
from .verdicts import Series, asked_number, series

RATIOS = np.geomspace(5, 500, 13)  # two decades
RESAMPLED = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class BestClients:
    """The best K for each ratio and one N; real numbers except `tried`, and possibly above N."""

    ratios: Array
    tried: Array  # the K that was run with the least G (K + ratio)
    by_law: Array  # of a + b / K, fitted to the same runs
    tried_again: Array  # (resample of seeds, ratio)
    law_again: Array
    known: bool  # nearly all runs reached the target
    printed: Array | None  # (21) with measured constants
    exact: Array | None  # the minimum of (19) with them

    def band(self, again: Array) -> list[Estimate]:
        """Return 95 % intervals over seeds."""
        low, high = np.quantile(again, [0.025, 0.975], axis=0)
        middle = np.median(again, axis=0)
        lines = zip(middle.tolist(), low.tolist(), high.tolist(), strict=True)
        return [Estimate(value, least, most, 0.95) for value, least, most in lines]


def best_clients(table: SweepTable, ratios: Array = RATIOS) -> dict[Labels, BestClients]:
    """Return the best K by the labels of each curve of Fig. 3(a)."""
    steps = asked_number(table, "plan", "local_steps")
    best = {}
    for labels, runs in series(table, "plan.cohort").items():
        rng = stream(Purpose.BOOTSTRAP, 5)
        seeds = runs.each.shape[1]
        drawn = rng.integers(seeds, size=(RESAMPLED, seeds))
        means = np.stack([runs.each[:, some].mean(1) for some in drawn])
        printed, exact = _theorem_2(table, labels, ratios, steps)
        best[labels] = BestClients(
            ratios=ratios,
            tried=_tried(runs, runs.means, ratios),
            by_law=_by_law(runs, runs.means, ratios),
            tried_again=np.stack([_tried(runs, mean, ratios) for mean in means]),
            law_again=np.stack([_by_law(runs, mean, ratios) for mean in means]),
            known=runs.known(),
            printed=printed,
            exact=exact,
        )
    return best


def _tried(runs: Series, means: Array, ratios: Array) -> Array:
    """Return the argmin of G (K C_u0 + E_l C_n0), in units of C_u0, over the K that were run."""
    k = np.array(runs.x)
    return np.asarray(k[(means * (k + ratios[:, None])).argmin(1)])  # (19)


def one_over_k(runs: Series, means: Array) -> tuple[float, float]:
    """Return a and b of G = a + b / K, by relative least squares, neither below 0."""
    from scipy.optimize import nnls

    columns = np.stack([np.ones(len(runs.x)), 1 / np.array(runs.x)], 1)
    (a, b), _ = nnls(columns / means[:, None], np.ones(means.size))
    return float(a), float(b)


def _by_law(runs: Series, means: Array, ratios: Array) -> Array:
    a, b = one_over_k(runs, means)
    law = GivenLaw(mixing=max(b, 1e-9), drift=0.0, start=0.0, floor=max(a, 1e-9))
    return np.array([law.best_cohort(1.0, 0.0, _costs(r, 1.0)) for r in ratios])


def _costs(ratio: float, steps: float) -> UnitCosts:
    return UnitCosts(upload=1.0, compute=float(ratio) / steps)


def _theorem_2(
    table: SweepTable, labels: Labels, ratios: Array, steps: float
) -> tuple[Array | None, Array | None]:
    """Return (21) as printed and the exact minimum of (19), with measured constants.

    Both are medians over the seeds of the measurements.
    """
    rows = [row for row in measured_at(table.about, dict(labels)) if row.get("target") is not None]
    if not rows:
        return None, None
    printed, exact = [], []
    for row in rows:
        constants, target = Constants(**row["constants"]), float(row["target"])
        as_printed, corrected = constants.law(target, printed=True), constants.law(target)
        printed.append([as_printed.printed_cohort(steps, 0, _costs(r, steps)) for r in ratios])
        exact.append([corrected.best_cohort(steps, 0, _costs(r, steps)) for r in ratios])
    return np.median(printed, axis=0), np.median(exact, axis=0)
