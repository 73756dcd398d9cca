"""Laws of rounds side by side: each is fitted to all settings but one, and asked for that one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array
from fedcell.experiments.table import FIRST, Labels, SweepTable

from .verdicts import asked_number

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


PAPER, FLOOR, LUO = "the paper's", "with a floor", "Luo et al.'s"
LAWS: Mapping[str, Features] = {PAPER: _paper, FLOOR: _ours, LUO: _luo}
LEAST_SETTINGS = 5  # as many coefficients as a law has, and one more
RESAMPLED = 200


@dataclass(frozen=True, eq=False)
class Settings:
    """Rounds at settings of one dataset, of which all runs got there."""

    cohort: Array
    steps: Array
    rounds: Array  # (setting, seed)


def left_out_errors(table: SweepTable) -> dict[Labels, dict[str, Array]]:
    """By line (dataset): for each law its relative error at each setting, left out of the fit."""
    clients = asked_number(table, "clients", "count")
    return {
        labels: {
            name: _errors(law, found, found.rounds.mean(1), clients) for name, law in LAWS.items()
        }
        for labels, found in _settings(table).items()
    }


def resampled_errors(table: SweepTable) -> dict[Labels, dict[str, Array]]:
    """By line: for each law the median of its absolute errors, for each resample of the seeds."""
    clients = asked_number(table, "clients", "count")
    result: dict[Labels, dict[str, Array]] = {}
    for labels, found in _settings(table).items():
        rng, seeds = stream(Purpose.BOOTSTRAP, 6), found.rounds.shape[1]
        drawn = rng.integers(seeds, size=(RESAMPLED, seeds))
        means = [found.rounds[:, some].mean(1) for some in drawn]
        for name, law in LAWS.items():
            errors = np.array([_errors(law, found, mean, clients) for mean in means])
            result.setdefault(labels, {})[name] = np.median(np.abs(errors), axis=1)
    return result


def _settings(table: SweepTable) -> dict[Labels, Settings]:
    """By line. Settings that some seed did not get through are left out: no law says what they
    take."""
    rows: dict[Labels, list[tuple[float, float, list[float]]]] = {}
    for labels, runs in table.points().items():
        here, rounds = dict(labels), [run[FIRST] for run in runs]
        if None not in rounds and len(runs) == len(table.seeds):
            others = tuple((n, v) for n, v in labels if not n.startswith("plan."))
            k, e = float(here["plan.cohort"]), float(here["plan.local_steps"])
            rows.setdefault(others, []).append((k, e, [float(g) for g in rounds]))
    return {
        others: Settings(*(np.array(column) for column in zip(*each, strict=True)))
        for others, each in rows.items()
        if len(each) >= LEAST_SETTINGS
    }


def _errors(law: Features, found: Settings, rounds: Array, clients: float) -> Array:
    """Relative, at each setting, of the law that all others come to."""
    features = law(found.cohort, found.steps, clients)
    return np.array([_left_out(features, rounds, place) for place in range(rounds.size)])


def _left_out(features: Array, rounds: Array, place: int) -> float:
    """How far the law of all others is off at one setting, in parts of what it took."""
    from scipy.optimize import nnls

    rest = np.arange(rounds.size) != place
    coefficients, _ = nnls(features[rest] / rounds[rest, None], np.ones(rest.sum()))
    return float(features[place] @ coefficients / rounds[place] - 1)
