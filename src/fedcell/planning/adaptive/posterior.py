"""The posterior of training progress in a run, given its losses and the settings of its rounds.

A loss is taken to be made of two parts. That of a model which all clients agree on falls along a
curve whose shape does not depend on K and E_l; these say how far along it a round goes. The loss of
the last model lies above it by a factor 1 + nu / K_gamma, the noise of few clients, which comes and
goes with K at once (DECISIONS.md, 63). So one run with several settings tells them apart. An
average of the last models (learning.deliver) damps that noise, and lags: each round counts with its
weight in the progress, and with the square of it in the noise.
"""

from dataclasses import dataclass, replace

import numpy as np

from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array, Bools, Ints
from fedcell.planning.pilot.prior import JITTER, RoundsPrior
from fedcell.simulation.state import AVERAGE_DECAY

# Usual values, and how far off they may be, of log p, log r and log nu: at a stage s the logarithm
# of the loss of all clients has gone log(1 + r s^p) / log(1 + r) of its way.
SHAPE, SHAPE_SD = np.log([2.5, 60.0, 3.0]), np.array([0.45, 2.0, 0.8])
WANDER = 0.03  # of the logarithm of a loss, in a round, off any such curve
NOISE, NOISE_ROUNDS = 0.1, 4  # of that logarithm around its neighbours: usual, and how sure
MAX_ROUNDS = 250  # that a curve is fitted to: of more, some are passed over
ITERATIONS = 60  # of a fit
DRAWS = 64  # curves that fit as well


@dataclass(frozen=True, eq=False)
class TrainingPosterior:
    """Posterior draws of training progress given the losses so far: (draw, setting)."""

    stage: Array  # how far along the curve it is, (draw, 1)
    end: Array  # the stage at which a setting is at the target
    log_rounds: Array  # of a whole run with a setting
    doubt: Array  # standard deviation of these beyond that of the draws, (setting,)
    never: Bools  # settings that do not reach the target, (setting,)
    shift: Array | float = 0.0  # of that end, as the last losses lie off the curve

    @property
    def speed(self) -> Array:
        """Return how far along the curve a round goes."""
        return np.asarray(self.end * np.exp(-self.log_rounds))


def training_posterior(
    prior: RoundsPrior,
    losses: Array,
    places: Ints,
    first_loss: float,
    target: float,
    *,
    averaged: bool = False,
    widening: float = 1.0,
) -> TrainingPosterior:
    """Return the posterior of training progress given the losses, one after each round.

    `places` has the setting of each round; a loss is NaN where a round was not evaluated;
    `first_loss` was there before the first round. `averaged`: they are losses of the average of the
    last models. `widening` multiplies the standard deviations of the prior after forecasts that
    failed, so that settings may differ by more than was assumed.
    """
    prior = replace(prior, covariance=widening**2 * prior.covariance)
    model = _LossModel.of(prior, losses, places, first_loss, target, averaged)
    drawn = model.draws()
    log_rounds, doubt = prior.conditional(model.seen, drawn[:, 3:])
    end = np.array([end_of(values[:3], model.at_end, model.way) for values in drawn])
    return TrainingPosterior(
        stage=np.array([[model.stage(values)] for values in drawn]),
        end=end,
        shift=np.array([model.end_from_here(values) for values in drawn]) - end,
        log_rounds=log_rounds,
        doubt=doubt,
        never=prior.never,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _LossModel:
    """The losses of a run, and how likely curves are that may have led to them.

    A curve is given by `values`: its shape (log p, log r, log nu), and the log rounds of the
    settings that the run has had.
    """

    seen: Ints  # settings that the run has had
    which: Ints  # of these, that of each round
    spent: Array  # rounds with each of them that an evaluated loss reflects, (loss, seen setting)
    clients: Array  # K_gamma behind each of these losses, (loss,)
    at_end: Array  # K_gamma behind the loss at the target, (setting,)
    way: float  # logarithm of the first loss over the target
    gone: Array  # of the first loss over each loss, (loss,)
    errors: Array  # Cholesky factor of the losses' covariance around a curve
    recent: Array  # covariance of the last deviation with the others, times the inverse of it
    mean: Array  # of the log rounds of the seen settings, before the run
    doubts: Array  # Cholesky factor of their covariance

    @classmethod
    def of(
        cls,
        prior: RoundsPrior,
        losses: Array,
        places: Ints,
        first_loss: float,
        target: float,
        averaged: bool,
    ) -> "_LossModel":
        """Return the model of some losses."""
        from scipy.linalg import cholesky, solve_triangular

        known = np.flatnonzero(np.isfinite(losses) & (losses > 0))
        noise = noise_of(np.log(losses[known]))
        known = known[::-1][:: -(-known.size // MAX_ROUNDS)][::-1]
        seen, which = np.unique(places, return_inverse=True)
        rounds = known + 1.0
        wander = WANDER**2 * np.minimum.outer(rounds, rounds)
        clients, at_end = prior.effective[places], prior.effective
        if averaged:  # it leaves as much noise as more clients would
            clients = 1 / average_of(1 / clients, power=2)
            at_end = at_end * average_gain(np.maximum(np.exp(prior.mean), losses.size))
        errors = cholesky(wander + noise**2 * np.eye(known.size), lower=True)
        doubts = prior.covariance[np.ix_(seen, seen)] + JITTER * np.eye(seen.size)
        return cls(
            seen=seen,
            which=which,
            spent=progress_of(which, averaged)[known],
            clients=clients[known],
            at_end=at_end,
            way=float(np.log(first_loss / target)),
            gone=np.log(first_loss / losses[known]),
            errors=errors,
            recent=solve_triangular(errors, wander[-1], lower=True),
            mean=prior.mean[seen],
            doubts=cholesky(doubts, lower=True),
        )

    def draws(self) -> Array:
        """Return values of curves that fit about as well as the best: (draw, value)."""
        from scipy.optimize import least_squares

        start = np.concatenate([SHAPE, self.mean])
        fit = least_squares(self.residuals, start, max_nfev=ITERATIONS)
        normal = stream(Purpose.BOOTSTRAP, 0).standard_normal((DRAWS // 2, fit.x.size))
        normal = np.concatenate([normal, -normal])  # so that they are the fit in the mean
        drawn = fit.x + np.linalg.solve(np.linalg.qr(fit.jac)[1], normal.T).T
        drawn[:, :3] = np.clip(drawn[:, :3], SHAPE - 4 * SHAPE_SD, SHAPE + 4 * SHAPE_SD)
        return np.asarray(drawn)

    def speeds(self, values: Array) -> Array:
        """Return how far along its curve a round goes, with each of the seen settings."""
        return end_of(values[:3], self.at_end[self.seen], self.way) * np.exp(-values[3:])

    def stage(self, values: Array) -> float:
        """Return how far along its curve the last model is."""
        return float(self.speeds(values)[self.which].sum())

    def off_curve(self, values: Array) -> Array:
        """Return how far losses lie below a curve, in standard deviations, uncorrelated."""
        from scipy.linalg import solve_triangular

        curve = self.way * share_of_way(values[:3], self.spent @ self.speeds(values))
        below = self.gone - (curve - level_of(values[:3], self.clients, self.way))
        return np.asarray(solve_triangular(self.errors, below, lower=True))

    def end_from_here(self, values: Array) -> Array:
        """Return where the target is on a curve, if losses stay as far off it as the last is."""
        below = float(self.recent @ self.off_curve(values))
        return end_of(values[:3], self.at_end, self.way, below)

    def residuals(self, values: Array) -> Array:
        """Return what a fit makes small: deviations from the curve, and from the prior."""
        from scipy.linalg import solve_triangular

        return np.concatenate(
            [
                self.off_curve(values),
                (values[:3] - SHAPE) / SHAPE_SD,
                solve_triangular(self.doubts, values[3:] - self.mean, lower=True),
            ]
        )


def average_of(values: Array, power: int = 1) -> Array:
    """Return the average of the last values after each round, as that of the last models has it;
    with power 2, the variance of such an average where these are variances. (round, ...)"""
    found = np.array(values, float)
    share = (AVERAGE_DECAY + 1) / (np.arange(1, len(found) + 1) + AVERAGE_DECAY)
    kept, added = (1 - share) ** power, share**power
    for t in range(1, len(found)):
        found[t] = kept[t] * found[t - 1] + added[t] * found[t]
    return found


def average_gain(rounds: Array) -> Array:
    """Return how many rounds the average counts: it divides the variance of their noise."""
    return np.asarray((2 * rounds + AVERAGE_DECAY - 1) / (AVERAGE_DECAY + 1))


def progress_of(which: Ints, averaged: bool) -> Array:
    """Return the rounds with each setting that a loss reflects: (round, setting).

    With one setting these are the rounds made, averaged or not, as laws of rounds count them; after
    a change an average lags.
    """
    made = np.cumsum(which[:, None] == np.arange(which.max() + 1), axis=0, dtype=float)
    if not averaged:
        return made
    counted = average_of(made)
    return np.asarray(counted * (made.sum(1) / counted.sum(1))[:, None])


def share_of_way(shape: Array, stage: Array) -> Array:
    """Return which part of its way the logarithm of a loss has gone: 0 at first, 1 at stage 1."""
    power, bend = np.exp(shape[:2])
    return np.asarray(np.log1p(bend * stage**power) / np.log1p(bend))


def level_of(shape: Array, effective: Array, way: float) -> Array:
    """Return how far the loss lies above that of all clients, in logarithms: less on a short way,
    at the beginning of which clients hardly differ."""
    return np.asarray(np.log1p(np.exp(shape[2]) / effective) * way / (1 + way))


def end_of(shape: Array, effective: Array, way: float, below: float = 0.0) -> Array:
    """Return the stage at which a run with as many clients is at the target, for all its noise;
    `below`: how far its losses lie below the curve, in logarithms."""
    power, bend = np.exp(shape[:2])
    share = np.maximum(1 + (level_of(shape, effective, way) - below) / way, 0.0)
    return np.asarray((np.expm1(share * np.log1p(bend)) / bend) ** (1 / power))


def noise_of(values: Array) -> float:
    """Return the standard deviation of values around the line of their neighbours."""
    bends = values[2:] - 2 * values[1:-1] + values[:-2]
    squares = float(bends @ bends) / 6 + NOISE_ROUNDS * NOISE**2
    return float(np.sqrt(squares / (bends.size + NOISE_ROUNDS)))
