"""Battery law: clients with more charge left are called more often.

Source: fl-framework, read in its code: weight battery^alpha with alpha = 2, and no call below a
threshold. Weights are of a race without replacement.

Here: the battery is its share of the first round, so that large and small ones count alike; one
without a limit counts as full. The threshold is the user's, 0 by default. Joules are those that
rounds cost under `policy`, so a training is for one policy. Test: alpha = 0 and no threshold is a
uniform draw, and no client is called below its threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcell.network.selectors.base import Known, Race


@dataclass(frozen=True)
class BatteryLaw:
    """Weights by the share of the battery that is left.

    Parameters
    ----------
    policy : str
        Allocation policy that the joules are of.
    alpha : float
        Power of the share.
    reserve : float
        Share below which a client is not called.
    """

    policy: str = "optimal"
    alpha: float = 2.0
    reserve: float = 0.0

    reads: ClassVar[tuple[str, ...]] = ("battery",)

    def __call__(self, known: Known) -> Race:
        full = known.memory.get("full", known.battery)
        limited = np.isfinite(full) & (full > 0)
        left = np.ones(known.count)
        left[limited] = np.maximum(known.battery[limited] / full[limited], 0.0)
        left[full <= 0] = 0.0
        weight = np.where((left > 0) & (left >= self.reserve), left**self.alpha, 0.0)
        return Race(weight, {"full": full})
