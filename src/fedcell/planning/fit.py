"""The coefficients of a law of rounds from runs to a loss."""

from dataclasses import replace

import numpy as np

from fedcell.core.dice import Purpose, stream
from fedcell.core.errors import BadInput, NotReached
from fedcell.core.types import Array, Ints

from .fitted import FORMS, LEAST, LEVEL, FittedLaw
from .law import TERMS, GivenLaw
from .observations import Observations

PREFERENCE = {"paper": 1.0, "dropped": 1.1, "floor": 1.1}  # a tenth better, or the paper's
HEAVY = 4  # most degrees of freedom of an interval: some seeds are very slow
REPLICATES = 200
ITERATIONS = 40


def fit_law(runs: Observations, form: str | None = None, seed: int = 0) -> FittedLaw:
    """The law that fits best, of the given form or of that which predicts settings it has not
    seen best."""
    from scipy.special import stdtrit

    if not runs.rounds.size:
        raise BadInput("there are no runs yet: let the pilot go on")
    if runs.censored.all():
        raise NotReached(
            "no run reached the loss: take a higher target, or let the runs be longer (plan.rounds)"
        )
    setting_count = np.unique(runs.settings).size
    if form is None:
        errors = {name: max(leave_one_setting_out_error(runs, name), 0.01) for name in FORMS}
        form = min(FORMS, key=lambda name: errors[name] * PREFERENCE[name])
    if setting_count < len(FORMS[form]):
        raise BadInput(
            f"there are runs of {setting_count} settings, and {len(FORMS[form])} coefficients to "
            "tell apart: give the pilot a larger `budget`"
        )
    use = [TERMS.index(name) for name in FORMS[form]]
    seeds = _complete_seeds(runs, len(use)).size
    if seeds < 2:
        raise BadInput(
            "there are not all runs of two seeds yet, and one says nothing of how runs differ: "
            "let the pilot go on"
        )
    coefficients, seed_factor = _solve(runs, use)
    seed_sd, run_sd, lack_of_fit_sd = _errors(runs, coefficients, seed_factor, len(use))
    return FittedLaw(
        form=form,
        law=GivenLaw.of(coefficients),
        bootstrap=_bootstrap(runs, use, seed),
        seed_sd=seed_sd,
        run_sd=run_sd,
        lack_of_fit_sd=lack_of_fit_sd,
        t_factor=float(stdtrit(min(max(1, seeds - 1), HEAVY), (1 + LEVEL) / 2)),
        seeds=seeds,
        settings=setting_count,
        runs=runs.rounds.size,
        censored=int(runs.censored.sum()),
        kind=runs.kind,
    )


def leave_one_setting_out_error(runs: Observations, form: str) -> float:
    """How far a law of this form is from settings that were left out of its fit: the root of
    the mean squared logarithm; infinite where there are too few settings."""
    use, settings = [TERMS.index(name) for name in FORMS[form]], runs.settings
    errors = []
    for setting in np.unique(settings):
        rest = runs[settings != setting]
        if np.unique(rest.settings).size < len(use) or rest.censored.all():
            return float("inf")
        coefficients, seed_factor = _solve(rest, use)
        here = runs[settings == setting]
        own = dict(zip(rest.seed.tolist(), seed_factor.tolist(), strict=True))
        expected = here.features @ coefficients
        expected = expected * [own.get(seed, 1.0) for seed in here.seed.tolist()]
        y, _ = _complete(here, expected, 0.3)
        errors.append(np.log(max(expected.mean(), 1e-9) / y.mean()) ** 2)
    return float(np.sqrt(np.mean(errors)))


def _solve(runs: Observations, use: list[int]) -> tuple[Array, Array]:
    """Non-negative coefficients, and how much longer runs of its seed take, 1 on average.

    Errors are relative to the law itself, so that lucky runs do not weigh more; a run that
    did not get there counts as what one expects of it, given that it took longer.
    """
    from scipy.optimize import nnls

    features, seed_index = runs.features, np.unique(runs.seed, return_inverse=True)[1]
    law, seed_factor, spread = runs.rounds, np.ones(seed_index.size), 0.3
    coefficients, last = np.zeros(len(TERMS)), np.ones(len(TERMS))
    for _ in range(ITERATIONS):
        y, square = _complete(runs, law * seed_factor, spread)
        runs_of_seed = np.bincount(seed_index)
        by_seed = np.bincount(seed_index, y / law) / runs_of_seed
        seed_factor = (by_seed / np.average(by_seed, weights=runs_of_seed))[seed_index]
        coefficients[use] = nnls((features / law[:, None])[:, use], y / (seed_factor * law))[0]
        law = np.maximum(features @ coefficients, LEAST)
        expected = seed_factor * law
        ratio = square / expected**2 - 2 * y / expected + 1  # (y / expected - 1)^2
        spread = float(np.sqrt(np.clip(ratio.mean(), 4e-4, 4.0)))
        if np.allclose(last, coefficients, rtol=1e-4):
            break
        last = coefficients.copy()
    return coefficients, seed_factor


def _complete(runs: Observations, expected: Array, spread: float) -> tuple[Array, Array]:
    """Rounds and their squares; for runs that were cut short, the means of a lognormal around
    what is expected, above where they were cut."""
    from scipy.special import log_ndtr

    cut, y = runs.censored, runs.rounds.copy()
    square = y**2
    s = np.sqrt(np.log1p(spread**2))
    m, c = np.log(expected[cut]) - s * s / 2, np.log(y[cut])
    tail = log_ndtr((m - c) / s)
    y[cut] = np.exp(m + s * s / 2 + log_ndtr((m + s * s - c) / s) - tail)
    square[cut] = np.exp(2 * m + 2 * s * s + log_ndtr((m + 2 * s * s - c) / s) - tail)
    return y, square


def _errors(
    runs: Observations, coefficients: Array, seed_factor: Array, used: int
) -> tuple[float, float, float]:
    """The parts of the runs' distance from the law, in logarithms: between seeds, within
    them, and between settings."""
    law = runs.features @ coefficients
    y, _ = _complete(runs, law * seed_factor, 0.3)
    log_ratio = np.log(y / law)
    seed_index, settings = np.unique(runs.seed, return_inverse=True)[1], runs.settings
    log_seed_factor = np.log(seed_factor)
    of_setting = np.bincount(settings, log_ratio - log_seed_factor) / np.bincount(settings)
    rest = log_ratio - log_seed_factor - of_setting[settings]
    many = runs.rounds.size - np.unique(seed_index).size - np.unique(settings).size + 1
    noise = float(np.sqrt((rest**2).sum() / max(1, many)))
    free = max(1, np.unique(settings).size - used)
    chance = noise**2 * np.mean(1 / np.bincount(settings))
    misfit = float(np.sqrt(max(0.0, (of_setting**2).sum() / free - chance)))
    each = [log_seed_factor[runs.seed == seed][0] for seed in _complete_seeds(runs, used)]
    return float(np.std(each, ddof=1)), noise, misfit


def _complete_seeds(runs: Observations, least: int) -> Ints:
    """Seeds of which there are runs of enough settings to say something alone."""
    pairs = np.unique(np.stack([runs.seed, runs.settings]), axis=1)
    names, counts = np.unique(pairs[0], return_counts=True)
    return np.asarray(names[counts >= least])


def _bootstrap(runs: Observations, use: list[int], seed: int) -> Array:
    """Coefficients from seeds drawn anew, with replacement."""
    rng, names = stream(Purpose.BOOTSTRAP, seed), np.unique(runs.seed)
    replicates = []
    for _ in range(REPLICATES):
        drawn = rng.choice(names, names.size)
        parts = [np.flatnonzero(runs.seed == name) for name in drawn]
        again = runs[np.concatenate(parts)]
        renamed = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        again = replace(again, seed=renamed)
        if not again.censored.all() and np.unique(again.settings).size >= len(use):
            replicates.append(_solve(again, use)[0])
    return np.array(replicates)
