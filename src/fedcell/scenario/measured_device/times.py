"""Seconds of a local step over clock f and batch b, by least squares:

    t = (c_s + c_n b) / f + t_mem b,

with cycles of a step c_s, cycles of a sample c_n, and seconds of a sample that no clock shortens.
Errors are taken to be in proportion to the seconds. The three are not negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import NAN, Estimate
from fedcell.core.types import Array

from .measurements import Measurements, distinct

KEYS = ("cycles_per_step", "cycles_per_sample", "memory_time")
LEVEL = 0.95
ROUNDS = 6  # of weights
RANK = 1e-6  # of columns, relative to the largest: below it they are collinear


@dataclass(frozen=True, kw_only=True, eq=False)
class TimeLaw:
    """The fitted seconds of a step.

    Attributes
    ----------
    estimates : mapping of str to Estimate
        Those of `KEYS` that the measurements tell; the others count as 0.
    unknown : mapping of str to str
        The others, and why.
    rms, r2 : float
        Root mean square of the relative residuals, and the explained part of the variance.
    """

    estimates: Mapping[str, Estimate]
    unknown: Mapping[str, str]
    rms: float
    r2: float

    def value(self, key: str) -> float:
        """Return a number of the law; 0 where it is unknown."""
        return float(self.estimates[key]) if key in self.estimates else 0.0

    def step_time(self, clock: Array, batch: Array) -> Array:
        """Return the seconds of a step."""
        return np.asarray(self.working(clock, batch) + self.value("memory_time") * batch)

    def working(self, clock: Array, batch: Array) -> Array:
        """Return the part of it that a higher clock shortens [s]."""
        cycles = self.value("cycles_per_step") + self.value("cycles_per_sample") * batch
        return np.asarray(cycles / clock)


def fit_times(measured: Measurements) -> TimeLaw | None:
    """Return the law of the rows with times; None if there are none."""
    rows = measured[measured.timed]
    if not rows.lines:
        return None
    columns = {
        "cycles_per_step": 1 / rows.clock,
        "cycles_per_sample": rows.batch / rows.clock,
        "memory_time": rows.batch,
    }
    unknown = _unknown(rows)
    kept = [key for key in KEYS if key not in unknown]
    X = np.stack([columns[key] for key in kept], axis=-1)
    if (rank := _rank(X)) < len(kept):
        unknown["memory_time"] = "clocks and batch sizes change together: vary one at a time"
        kept = [key for key in KEYS if key not in unknown]
        X = np.stack([columns[key] for key in kept], axis=-1)
        rank = _rank(X)
    if rank < len(kept):
        raise BadInput(
            "the measured clocks and batch sizes do not tell cycles of steps and samples"
        )
    y = rows.step_time
    best, low, high = _least_squares(X, y)
    fitted = X @ best
    spread = float(((y - y.mean()) ** 2).sum())
    return TimeLaw(
        estimates={
            key: Estimate(float(b), float(lo), float(hi), LEVEL)
            for key, b, lo, hi in zip(kept, best, low, high, strict=True)
        },
        unknown=unknown,
        rms=float(np.sqrt(np.mean((y / fitted - 1) ** 2))),
        r2=1 - float(((y - fitted) ** 2).sum()) / spread if spread > 0 else NAN,
    )


def _unknown(rows: Measurements) -> dict[str, str]:
    unknown = {}
    if np.unique(rows.batch).size < 2:
        unknown["cycles_per_step"] = (
            f"one batch size, {rows.batch[0]:g}: counted with the samples; measure another"
        )
    if distinct(rows.clock).size < 2:
        unknown["memory_time"] = (
            f"one clock, {rows.clock[0] / 1e9:.4g} GHz: counted as cycles; measure another"
        )
    return unknown


def _rank(X: Array) -> int:
    return int(np.linalg.matrix_rank(X / np.linalg.norm(X, axis=0), tol=RANK))


def _least_squares(X: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return the weighted estimates, not negative, and their intervals by Student's t."""
    from scipy.optimize import nnls
    from scipy.stats import t as student

    n, p = X.shape
    scale = np.linalg.norm(X, axis=0)
    fitted = y
    for _ in range(ROUNDS):
        weighted = X / scale / fitted[:, None]
        best = nnls(weighted, y / fitted)[0]
        fitted = np.maximum((X / scale) @ best, 1e-3 * y)
    free, *_ = np.linalg.lstsq(weighted, y / fitted)
    if n <= p:
        return best / scale, np.full(p, NAN), np.full(p, NAN)
    least, reached = (float(((weighted @ b - y / fitted) ** 2).sum()) for b in (free, best))
    # All values at which the sum of squares is below S (1 + t^2 / (n - p)), S that of the best.
    limit = reached * (1 + float(student.ppf((1 + LEVEL) / 2, n - p)) ** 2 / (n - p))
    half = np.sqrt(max(limit - least, 0.0) * np.diag(np.linalg.inv(weighted.T @ weighted)))
    low, high = np.maximum(free - half, 0.0), np.maximum(free + half, 0.0)
    return best / scale, low / scale, high / scale
