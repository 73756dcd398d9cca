"""Numbers with their intervals."""

from dataclasses import dataclass

import numpy as np

from .types import Array

NAN = float("nan")


@dataclass(frozen=True)
class Estimate:
    """A number, and the interval in which it lies with probability `level`.

    Parameters
    ----------
    value : float
        The point estimate.
    low, high : float
        Ends of the interval; NaN if the spread is unknown (a single value), and equal to `value`
        if there is none.
    level : float
        Probability of the interval, from 0 to 1.

    Examples
    --------
    >>> rounds = Estimate(30.0, 21.0, 43.0, level=0.9)
    >>> rounds, int(rounds), f"{rounds:.2f}", 40 in rounds
    (30 (21 to 43), 30, '30.00', True)
    """

    value: float
    low: float = NAN
    high: float = NAN
    level: float = 0.9

    @property
    def half_width(self) -> float:
        """Return half the width of the interval, the number after a plus-minus sign."""
        return (self.high - self.low) / 2

    def times(self, factor: float) -> "Estimate":
        """Return the estimate of a quantity that is `factor` times as large."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.level)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __format__(self, form: str) -> str:
        return format(self.value, form) if form else repr(self)

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __repr__(self) -> str:
        if np.isnan(self.low) or self.low == self.high:
            return f"{self.value:.4g}"
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


def mean_estimate(values: Array, level: float = 0.95) -> Estimate:
    """Return the mean of independent values with Student's interval."""
    from scipy.special import stdtrit

    n, mean = values.size, float(values.mean())
    if n < 2:
        return Estimate(mean, level=level)
    half = float(stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - half, mean + half, level)
