"""Laws of rounds side by side: each is fitted to all settings but one, and asked for that one."""

from collections.abc import Callable, Mapping

import numpy as np

from fedcell.core.types import Array
from fedcell.experiments.statistics import cut_at
from fedcell.experiments.table import FIRST, Labels, SweepTable

Features = Callable[[Array, Array, float], Array]  # of K, E_l and N: (setting, coefficient)


def _paper(k: Array, e: Array, _: float) -> Array:
    """Theorem 1, (16): three coefficients."""
    return np.stack([1 / k, e, 1 / e], 1)


def _ours(k: Array, e: Array, _: float) -> Array:
    """The same with a floor (DECISIONS.md, 12): four."""
    return np.stack([1 / k, e, 1 / e, np.ones(k.size)], 1)


def _luo(k: Array, e: Array, n: float) -> Array:
    """Luo et al., "Cost-Effective Federated Learning Design" (INFOCOM 2021): two.

    The bound of Li et al. (ICLR 2020) that theirs rests on is (A + B E^2 + C E^2 (N - K) /
    (K (N - 1))) / (R E) after R rounds of E steps; they take B = C, so that
    R = A / E + B E (1 + (N - K) / (K (N - 1))).
    """
    return np.stack([1 / e, e * (1 + (n - k) / (k * (n - 1)))], 1)


LAWS: Mapping[str, Features] = {
    "the paper's": _paper,
    "with a floor": _ours,
    "Luo et al.'s": _luo,
}


def left_out_errors(table: SweepTable) -> dict[Labels, dict[str, Array]]:
    """By line (dataset): for each law its relative error at each setting, left out of the fit.

    Settings that some seed did not get through are left out: no law says what they take.
    """
    clients = float(table.about["asked"]["clients"]["count"])
    found: dict[Labels, dict[str, Array]] = {}
    settings: dict[Labels, list[tuple[float, float, float]]] = {}
    for labels, runs in table.points().items():
        here = dict(labels)
        rounds = [run[FIRST] for run in runs]
        if None not in rounds and len(runs) == len(table.seeds):
            others = tuple((n, v) for n, v in labels if not n.startswith("plan."))
            k, e = float(here["plan.cohort"]), float(here["plan.local_steps"])
            settings.setdefault(others, []).append((k, e, cut_at(table.rounds, rounds).mean()))
    for others, rows in settings.items():
        k, e, g = np.array(rows).T
        found[others] = {
            name: np.array([_left_out(law(k, e, clients), g, i) for i in range(g.size)])
            for name, law in LAWS.items()
            if g.size > 4
        }
    return {others: errors for others, errors in found.items() if errors}


def _left_out(features: Array, rounds: Array, place: int) -> float:
    """How far the law of all others is off at one setting, in parts of what it took."""
    from scipy.optimize import nnls

    rest = np.arange(rounds.size) != place
    coefficients, _ = nnls(features[rest] / rounds[rest, None], np.ones(rest.sum()))
    return float(features[place] @ coefficients / rounds[place] - 1)
