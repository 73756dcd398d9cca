"""The coefficients of a Bound from observed rounds to a loss, and how sure they are."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.network.draw import Purpose, stream
from fedcell.network.trace import Ints
from fedcell.scenario.arrays import Array

from .observations import Observed, features
from .theory import TERMS, Bound, LossKind

FORMS = {  # laws that are tried: which terms they have
    "paper": ("mixing", "drift", "start"),
    "dropped": ("mixing", "drift", "start", "dropped"),
    "floor": ("mixing", "drift", "start", "floor"),
}
PREFERENCE = {"paper": 1.0, "dropped": 1.1, "floor": 1.1}  # a tenth better, or the paper's
HEAVY = 4  # most degrees of freedom of an interval: some seeds are very slow
POOR = 0.2  # relative misfit from which a law is called bad
REPLICATES = 200
ITERATIONS = 40
LEAST = 1e-9  # rounds; a law of which nothing is left
LEVEL, NORMAL = 0.9, 1.645  # of intervals, and the normal quantile that goes with it


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A law, and what the runs that it was fitted to say of its errors (all relative)."""

    form: str
    bound: Bound
    replicates: Array  # (replicate, term): coefficients from resampled blocks
    luck: float  # how runs of different blocks differ, standard deviation
    noise: float  # how a run differs from what its block and setting make one expect
    misfit: float  # how settings differ from the law
    student: float  # what a standard deviation is multiplied by for an interval
    blocks: int
    settings: int
    runs: int
    censored: int
    kind: LossKind

    def coefficients(self) -> dict[str, dict[str, float]]:
        """Each coefficient with its bootstrap interval."""
        edges = np.quantile(self.widened, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return {
            name: {"value": getattr(self.bound, name), "low": float(low), "high": float(high)}
            for name, low, high in zip(TERMS, *edges, strict=True)
            if name in FORMS[self.form]
        }

    @property
    def few(self) -> float:
        """By how much more than few resampled blocks their law varies, as a variance."""
        return self.blocks / max(1, self.blocks - 1)

    @property
    def widened(self) -> Array:
        """The replicates as far apart as coefficients from so few blocks may be."""
        centre = self.bound.coefficients
        factor = np.sqrt(self.few) * self.student / NORMAL
        return np.asarray(np.maximum(centre + factor * (self.replicates - centre), 0))

    @property
    def notes(self) -> list[str]:
        """What whoever uses the law should know of it."""
        if self.misfit <= POOR:
            return []
        return [f"the law fits badly: settings are {self.misfit:.0%} off it, typically"]

    def predict(
        self,
        cohort: Any,
        steps: Any,
        loss_rate: float,
        runs: float = 1,
        kind: LossKind | None = None,
    ) -> tuple[Array, Array, Array]:
        """Mean rounds, and an interval in which the mean of `runs` runs falls nine times in
        ten or more often; infinitely many runs give the interval of the expectation."""
        x = features(cohort, steps, loss_rate, kind or self.kind)
        mean = x @ self.bound.coefficients
        spread = np.log(np.maximum(x @ self.replicates.T, LEAST)).std(-1)
        run = (self.luck**2 + self.noise**2) / runs
        sd = np.sqrt(spread**2 * self.few + self.misfit**2 + run)
        half = np.exp(self.student * sd)
        return mean, mean / half, mean * half


def fit(observed: Observed, form: str | None = None, seed: int = 0) -> Fit:
    """The law that fits best, of the given form or of that which predicts settings it has not
    seen best."""
    from scipy.special import stdtrit

    if not observed.rounds.size:
        raise BadInput("there are no runs yet: let the pilot go on")
    if observed.censored.all():
        raise BadInput(
            "no run reached the loss: take a higher target, or let the runs be longer (plan.rounds)"
        )
    there = np.unique(observed.settings).size
    if form is None:
        form = min(FORMS, key=lambda n: max(unseen_error(observed, n), 0.01) * PREFERENCE[n])
    if there < len(FORMS[form]):
        raise BadInput(
            f"there are runs of {there} settings, and {len(FORMS[form])} coefficients to tell "
            "apart: give the pilot a larger budget"
        )
    use = [TERMS.index(name) for name in FORMS[form]]
    blocks = _whole(observed, len(use)).size
    if blocks < 2:
        raise BadInput(
            "there are not all runs of two seeds yet, and one says nothing of how runs differ: "
            "let the pilot go on"
        )
    found, own = _solve(observed, use)
    luck, noise, misfit = _errors(observed, found, own, len(use))
    return Fit(
        form=form,
        bound=Bound(**dict(zip(TERMS, map(float, found), strict=True))),
        replicates=_bootstrap(observed, use, seed),
        luck=luck,
        noise=noise,
        misfit=misfit,
        student=float(stdtrit(min(max(1, blocks - 1), HEAVY), (1 + LEVEL) / 2)),
        blocks=blocks,
        settings=there,
        runs=observed.rounds.size,
        censored=int(observed.censored.sum()),
        kind=observed.kind,
    )


def unseen_error(observed: Observed, form: str) -> float:
    """How far a law of this form is from settings that were left out of its fit: the root of
    the mean squared logarithm; infinite where there are too few settings."""
    use, settings = [TERMS.index(name) for name in FORMS[form]], observed.settings
    errors = []
    for setting in np.unique(settings):
        rest = observed[settings != setting]
        if np.unique(rest.settings).size < len(use) or rest.censored.all():
            return float("inf")
        coefficients, luck = _solve(rest, use)
        here = observed[settings == setting]
        own = dict(zip(rest.block.tolist(), luck.tolist(), strict=True))
        expected = here.features @ coefficients
        expected = expected * [own.get(block, 1.0) for block in here.block.tolist()]
        y, _ = _complete(here, expected, 0.3)
        errors.append(np.log(max(expected.mean(), 1e-9) / y.mean()) ** 2)
    return float(np.sqrt(np.mean(errors)))


def _solve(observed: Observed, use: list[int]) -> tuple[Array, Array]:
    """Non-negative coefficients, and the luck of each run's block, 1 on average.

    Errors are relative to the law itself, so that lucky runs do not weigh more; a run that
    did not get there counts as what one expects of it, given that it took longer.
    """
    from scipy.optimize import nnls

    features, blocks = observed.features, np.unique(observed.block, return_inverse=True)[1]
    law, luck, spread = observed.rounds, np.ones(blocks.size), 0.3
    found, before = np.zeros(len(TERMS)), np.ones(len(TERMS))
    for _ in range(ITERATIONS):
        y, square = _complete(observed, law * luck, spread)
        own = np.bincount(blocks, y / law) / np.bincount(blocks)
        luck = (own / np.average(own, weights=np.bincount(blocks)))[blocks]
        found[use] = nnls((features / law[:, None])[:, use], y / (luck * law))[0]
        law = np.maximum(features @ found, LEAST)
        ratio = square / (luck * law) ** 2 - 2 * y / (luck * law) + 1  # (y / expected - 1)^2
        spread = float(np.sqrt(np.clip(ratio.mean(), 4e-4, 4.0)))
        if np.allclose(before, found, rtol=1e-4):
            break
        before = found.copy()
    return found, luck


def _complete(observed: Observed, expected: Array, spread: float) -> tuple[Array, Array]:
    """Rounds and their squares; for runs that were cut short, the means of a lognormal around
    what is expected, above where they were cut."""
    from scipy.special import log_ndtr

    cut, y = observed.censored, observed.rounds.copy()
    square = y**2
    s = np.sqrt(np.log1p(spread**2))
    m, c = np.log(expected[cut]) - s * s / 2, np.log(y[cut])
    tail = log_ndtr((m - c) / s)
    y[cut] = np.exp(m + s * s / 2 + log_ndtr((m + s * s - c) / s) - tail)
    square[cut] = np.exp(2 * m + 2 * s * s + log_ndtr((m + 2 * s * s - c) / s) - tail)
    return y, square


def _errors(observed: Observed, found: Array, luck: Array, used: int) -> tuple[float, float, float]:
    """The parts of the runs' distance from the law, in logarithms: between blocks, within
    them, and between settings."""
    law = observed.features @ found
    y, _ = _complete(observed, law * luck, 0.3)
    off = np.log(y / law)
    blocks, settings = np.unique(observed.block, return_inverse=True)[1], observed.settings
    own = np.log(luck)
    of_setting = np.bincount(settings, off - own) / np.bincount(settings)
    rest = off - own - of_setting[settings]
    many = observed.rounds.size - np.unique(blocks).size - np.unique(settings).size + 1
    noise = float(np.sqrt((rest**2).sum() / max(1, many)))
    free = max(1, np.unique(settings).size - used)
    chance = noise**2 * np.mean(1 / np.bincount(settings))
    misfit = float(np.sqrt(max(0.0, (of_setting**2).sum() / free - chance)))
    each = [own[observed.block == block][0] for block in _whole(observed, used)]
    return float(np.std(each, ddof=1)), noise, misfit


def _whole(observed: Observed, least: int) -> Ints:
    """Blocks of which there are runs of enough settings to say something alone."""
    pairs = np.unique(np.stack([observed.block, observed.settings]), axis=1)
    names, counts = np.unique(pairs[0], return_counts=True)
    return np.asarray(names[counts >= least])


def _bootstrap(observed: Observed, use: list[int], seed: int) -> Array:
    """Coefficients from blocks drawn anew, with replacement."""
    rng, names = stream(Purpose.BOOTSTRAP, seed), np.unique(observed.block)
    replicates = []
    for _ in range(REPLICATES):
        drawn = rng.choice(names, names.size)
        parts = [np.flatnonzero(observed.block == name) for name in drawn]
        again = observed[np.concatenate(parts)]
        renamed = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        again = replace(again, block=renamed)
        if not again.censored.all() and np.unique(again.settings).size >= len(use):
            replicates.append(_solve(again, use)[0])
    return np.array(replicates)
