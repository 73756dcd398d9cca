"""Forecasts that a run was changed for, and whether they hold."""

from dataclasses import dataclass

import numpy as np

FAILED = 1.5  # standard deviations by which a forecast is missed clearly
WIDEST = 4.0  # times that a prior is widened at most


@dataclass(frozen=True)
class Forecast:
    """What the rest of a run was expected to take when its setting was changed."""

    round: int  # after which it was made
    rounds: float  # expected, geometric mean
    cost: float  # as well
    sd: float  # of the logarithm of that cost
    stay_cost: float  # that was expected with the setting that the run began with

    def surprise(self, spent: float, left: float) -> float:
        """Return by how many standard deviations the cost since the forecast, with what is expected
        now, is above the cost that was forecast."""
        return float(np.log((spent + left) / self.cost)) / self.sd

    def failed(self, spent: float, left: float) -> bool:
        """Tell whether the forecast is clearly missed, and nothing is left of the saving."""
        return self.surprise(spent, left) > FAILED and spent + left > self.stay_cost
