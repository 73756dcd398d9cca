"""Compare laws of rounds: each is fitted to all settings but one, and predicts that one."""

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


def _with_floor(k: Array, e: Array, _: float) -> Array:
    """Theorem 1 with a floor (DECISIONS.md, 12): four coefficients."""
    return np.stack([1 / k, e, 1 / e, np.ones(k.size)], 1)


def _luo(k: Array, e: Array, n: float) -> Array:
    """Luo et al., "Cost-Effective Federated Learning Design" (INFOCOM 2021): two coefficients.

    Their bound, of Li et al. (ICLR 2020), is (A + B E^2 + C E^2 (N - K) /
    (K (N - 1))) / (R E) after R rounds of E steps; they take B = C, so that
    R = A / E + B E (1 + (N - K) / (K (N - 1))).
    """
    return np.stack([1 / e, e * (1 + (n - k) / (k * (n - 1)))], 1)


PAPER, FLOOR, LUO = "the paper's", "with a floor", "Luo et al.'s"
LAWS: Mapping[str, Features] = {PAPER: _paper, FLOOR: _with_floor, LUO: _luo}
MIN_SETTINGS = 5  # one more than the coefficients of a law
RESAMPLED = 200


@dataclass(frozen=True, eq=False)
class Settings:
    """Rounds at settings of one dataset at which all runs reached the target."""

    cohort: Array
    steps: Array
    rounds: Array  # (setting, seed)


def left_out_errors(table: SweepTable) -> dict[Labels, dict[str, Array]]:
    """Return the relative error of each law at each left-out setting, by dataset."""
    clients = asked_number(table, "clients", "count")
    return {
        labels: {
            name: _errors(law, settings, settings.rounds.mean(1), clients)
            for name, law in LAWS.items()
        }
        for labels, settings in _settings(table).items()
    }


def resampled_errors(table: SweepTable) -> dict[Labels, dict[str, Array]]:
    """Return the median absolute error of each law for each resample of the seeds, by dataset."""
    clients = asked_number(table, "clients", "count")
    result: dict[Labels, dict[str, Array]] = {}
    for labels, settings in _settings(table).items():
        rng, seeds = stream(Purpose.BOOTSTRAP, 6), settings.rounds.shape[1]
        drawn = rng.integers(seeds, size=(RESAMPLED, seeds))
        means = [settings.rounds[:, some].mean(1) for some in drawn]
        for name, law in LAWS.items():
            errors = np.array([_errors(law, settings, mean, clients) for mean in means])
            result.setdefault(labels, {})[name] = np.median(np.abs(errors), axis=1)
    return result


def _settings(table: SweepTable) -> dict[Labels, Settings]:
    """Return the settings by dataset, without those at which a run missed the target."""
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
        if len(each) >= MIN_SETTINGS
    }


def _errors(law: Features, settings: Settings, rounds: Array, clients: float) -> Array:
    """Return the relative error at each setting of the law fitted to all others."""
    features = law(settings.cohort, settings.steps, clients)
    return np.array([_left_out(features, rounds, place) for place in range(rounds.size)])


def _left_out(features: Array, rounds: Array, place: int) -> float:
    """Return the relative error at one setting of the law fitted to all others."""
    from scipy.optimize import nnls

    rest = np.arange(rounds.size) != place
    coefficients, _ = nnls(features[rest] / rounds[rest, None], np.ones(rest.sum()))
    return float(features[place] @ coefficients / rounds[place] - 1)
