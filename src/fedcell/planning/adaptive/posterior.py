"""How a run under way stands, and what its losses say of the settings that it was made with.

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
from fedcell.planning.pilot.prior import JITTER, Belief
from fedcell.simulation.state import AVERAGE_DECAY

# Usual values, and how far off they may be, of log p, log r and log nu: at a stage s the logarithm
# of the loss of all clients has gone log(1 + r s^p) / log(1 + r) of its way.
SHAPE, SHAPE_SD = np.log([2.5, 60.0, 3.0]), np.array([0.45, 2.0, 0.8])
WANDER = 0.03  # of the logarithm of a loss, in a round, off any such curve
NOISE, NOISE_ROUNDS = 0.1, 4  # of that logarithm around its neighbours: usual, and how sure
MOST_ROUNDS = 250  # that a curve is fitted to: of more, some are passed over
ITERATIONS = 60  # of a fit
DRAWS = 64  # curves that fit as well


@dataclass(frozen=True, eq=False)
class Standing:
    """Posterior draws of training progress given the losses so far: (draw, setting)."""

    stage: Array  # how far along the curve it is, (draw, 1)
    end: Array  # the stage at which a setting is at the target
    log_rounds: Array  # of a whole run with a setting
    doubt: Array  # standard deviation of these beyond that of the draws, (setting,)
    never: Bools  # settings that do not get there, (setting,)
    shift: Array | float = 0.0  # of that end, as the last losses lie off the curve

    @property
    def speed(self) -> Array:
        """How far along the curve a round goes."""
        return np.asarray(self.end * np.exp(-self.log_rounds))


def standing(
    belief: Belief,
    losses: Array,
    places: Ints,
    first_loss: float,
    target: float,
    *,
    averaged: bool = False,
    widening: float = 1.0,
) -> Standing:
    """Return the posterior of training progress given the losses, one after each round.

    `places` has the setting of each round; a loss is NaN where a round was not evaluated;
    `first_loss` was there before the first round. `averaged`: they are losses of the average of the
    last models. `widening` multiplies the standard deviations of the prior after forecasts that
    failed, so that settings may differ by more than was believed.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import least_squares

    known = np.flatnonzero(np.isfinite(losses) & (losses > 0))
    belief = replace(belief, covariance=widening**2 * belief.covariance)
    noise = noise_of(np.log(losses[known]))
    known = known[::-1][:: -(-known.size // MOST_ROUNDS)][::-1]
    seen, which = np.unique(places, return_inverse=True)
    way, gone = np.log(first_loss / target), np.log(first_loss / losses[known])
    rounds = known + 1.0
    wander = WANDER**2 * np.minimum.outer(rounds, rounds)
    spent, clients = progress_of(which, averaged), belief.effective[places]
    at_end = belief.effective
    if averaged:  # it leaves as much noise as more clients would
        clients = 1 / average_of(1 / clients, power=2)
        at_end = at_end * average_gain(np.maximum(np.exp(belief.mean), losses.size))
    errors = cholesky(wander + noise**2 * np.eye(known.size), lower=True)
    recent = solve_triangular(errors, wander[-1], lower=True)
    before = belief.mean[seen]
    doubts = belief.covariance[np.ix_(seen, seen)] + JITTER * np.eye(seen.size)
    doubts = cholesky(doubts, lower=True)

    def speeds(values: Array) -> Array:
        """Of the settings that were seen, from the shape of the curve and their log rounds."""
        return end_of(values[:3], at_end[seen], way) * np.exp(-values[3:])

    def stage_of(values: Array) -> float:
        """Of the last model."""
        return float(speeds(values)[which].sum())

    def off_curve(values: Array) -> Array:
        """How far losses lie below their curve, in logarithms."""
        curve = way * share_of_way(values[:3], spent[known] @ speeds(values))
        return np.asarray(gone - (curve - level_of(values[:3], clients[known], way)))

    def end_from_here(values: Array) -> Array:
        """Where the target is on the curve, for losses that go on as far off it as they are."""
        off = solve_triangular(errors, off_curve(values), lower=True)
        return end_of(values[:3], at_end, way, float(recent @ off))

    def surprise(values: Array) -> Array:
        return np.concatenate(
            [
                solve_triangular(errors, off_curve(values), lower=True),
                (values[:3] - SHAPE) / SHAPE_SD,
                solve_triangular(doubts, values[3:] - before, lower=True),
            ]
        )

    fit = least_squares(surprise, np.concatenate([SHAPE, before]), max_nfev=ITERATIONS)
    normal = stream(Purpose.BOOTSTRAP, 0).standard_normal((DRAWS // 2, fit.x.size))
    normal = np.concatenate([normal, -normal])  # so that they are the fit in the mean
    drawn = fit.x + np.linalg.solve(np.linalg.qr(fit.jac)[1], normal.T).T
    drawn[:, :3] = np.clip(drawn[:, :3], SHAPE - 4 * SHAPE_SD, SHAPE + 4 * SHAPE_SD)
    log_rounds, doubt = belief.given(seen, drawn[:, 3:])
    end = np.array([end_of(values[:3], at_end, way) for values in drawn])
    return Standing(
        stage=np.array([[stage_of(values)] for values in drawn]),
        end=end,
        shift=np.array([end_from_here(values) for values in drawn]) - end,
        log_rounds=log_rounds,
        doubt=doubt,
        never=belief.never,
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
    """Which part of its way the logarithm of a loss has gone: 0 at first, 1 at stage 1."""
    power, bend = np.exp(shape[:2])
    return np.asarray(np.log1p(bend * stage**power) / np.log1p(bend))


def level_of(shape: Array, effective: Array, way: float) -> Array:
    """How far the loss lies above that of all clients, in logarithms: less on a short way, at the
    beginning of which there is little to disagree on."""
    return np.asarray(np.log1p(np.exp(shape[2]) / effective) * way / (1 + way))


def end_of(shape: Array, effective: Array, way: float, below: float = 0.0) -> Array:
    """Return the stage at which a run with as many clients is at the target, for all its noise;
    `below`: how far its losses lie below the curve, in logarithms."""
    power, bend = np.exp(shape[:2])
    share = np.maximum(1 + (level_of(shape, effective, way) - below) / way, 0.0)
    return np.asarray((np.expm1(share * np.log1p(bend)) / bend) ** (1 / power))


def noise_of(values: Array) -> float:
    """The standard deviation of values around the line of their neighbours."""
    bends = values[2:] - 2 * values[1:-1] + values[:-2]
    squares = float(bends @ bends) / 6 + NOISE_ROUNDS * NOISE**2
    return float(np.sqrt(squares / (bends.size + NOISE_ROUNDS)))
