"""Active federated learning: draw by the summed loss that a client reported last.

Source: Goetz et al., "Active Federated Learning" (2019), read in FLSim by its co-authors (an older
version): v_j = n_j^-b times the sum of losses over the samples, b = 1/2, so sqrt(n_j) times the
mean. The alpha_1 N lowest are left out, K - floor(alpha_3 K) clients are drawn without replacement
by exp(alpha_2 v_j), and the others uniformly. Clients that were never called count as lowest, as in
the code of the authors of power-of-choice; FLSim evaluates all before the first round.

Constants: alpha_1 = .75, alpha_2 = .01, alpha_3 = .1, in all codes that we read. With
alpha_2 = .01 the draw is nearly uniform among the top quarter.

Elsewhere: Plato (60d6779) and SelecEval (a606770) take the mean loss over sqrt(n_j), which turns
the dependence on n_j around; Plato also overwrites the values that it leaves out, and SelecEval
draws with replacement.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import ClassVar

import numpy as np

from fedcell.network.selectors.base import Known, Race, drawn_by, highest, surely

TINY = 1e-300


@dataclass(frozen=True)
class Active:
    """Active FL.

    Parameters
    ----------
    left_out : float
        alpha_1, share of the clients with the lowest values, which are not drawn by value.
    sharpness : float
        alpha_2, factor of a value in the exponent.
    uniform : float
        alpha_3, share of K that is drawn uniformly.
    """

    left_out: float = 0.75
    sharpness: float = 0.01
    uniform: float = 0.1

    reads: ClassVar[tuple[str, ...]] = ("samples", "loss")

    def __call__(self, known: Known) -> Race:
        value = np.where(np.isnan(known.loss), -np.inf, np.sqrt(known.samples) * known.loss)
        value[~known.may] = -np.inf
        order = np.lexsort((known.uniforms(0), value))
        value[order[: floor(self.left_out * known.count)]] = -np.inf
        # The race by exp(alpha_2 v_j) in logarithms, as these weights overflow.
        race = -np.log(-np.log1p(-known.uniforms(1)) + TINY)
        most = known.cohort - floor(self.uniform * known.cohort)
        seen = value > -np.inf
        first = highest(known, self.sharpness * np.where(seen, value, 0.0) + race, most, seen)
        others = np.ones(known.count)
        others[first] = 0.0
        more = drawn_by(known, others, known.cohort - first.size, 2)
        return Race(surely(np.concatenate([first, more]), known.count))
