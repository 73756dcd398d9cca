"""How a run under way stands, and what its losses say of the settings that it was made with.

A loss is taken to be made of two parts. That of a model which all clients agree on falls along a
curve whose shape does not depend on K and E_l; these say how far along it a round goes. The loss of
the model that there is lies above it by a factor 1 + nu / K_gamma, the noise of few clients, which
comes and goes with K at once (DECISIONS.md, 63). So one run with several settings tells them apart.
"""

from dataclasses import dataclass

import numpy as np

from fedcell.core.dice import Purpose, stream
from fedcell.core.types import Array, Bools, Ints

from .belief import JITTER, Belief

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
    """How things may stand, in several ways that fit the losses as well: (draw, setting)."""

    stage: Array  # how far along the curve it is, (draw, 1)
    end: Array  # the stage at which a setting is at the target
    log_rounds: Array  # of a whole run with a setting
    doubt: Array  # standard deviation of these beyond that of the draws, (setting,)
    never: Bools  # settings that do not get there, (setting,)
    pace: float  # by how much a round moves the logarithm of the loss just now
    noise: float  # of that logarithm in a round

    @property
    def speed(self) -> Array:
        """How far along the curve a round goes."""
        return np.asarray(self.end * np.exp(-self.log_rounds))

    def error(self, rounds: int) -> float:
        """Of the logarithm of a speed that is seen in so many rounds more."""
        off = np.hypot(WANDER * np.sqrt(rounds), self.noise)
        return float(off / max(rounds * self.pace, JITTER))


def standing(
    belief: Belief, losses: Array, places: Ints, first_loss: float, target: float
) -> Standing:
    """What the losses of a run say, one after each round; `places` has the setting of each. NaN
    where a round was not evaluated; `first_loss` was there before the first round."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import least_squares

    known = np.flatnonzero(np.isfinite(losses) & (losses > 0))
    noise = noise_of(np.log(losses[known]))
    known = known[::-1][:: -(-known.size // MOST_ROUNDS)][::-1]
    seen, which = np.unique(places, return_inverse=True)
    way, gone = np.log(first_loss / target), np.log(first_loss / losses[known])
    rounds = known + 1.0
    wander = WANDER**2 * np.minimum.outer(rounds, rounds)
    errors = cholesky(wander + noise**2 * np.eye(known.size), lower=True)
    before = belief.mean[seen]
    doubts = belief.covariance[np.ix_(seen, seen)] + JITTER * np.eye(seen.size)
    doubts = cholesky(doubts, lower=True)

    def speeds(values: Array) -> Array:
        """Of the settings that were seen, from the shape of the curve and their log rounds."""
        return end_of(values[:3], belief.effective[seen], way) * np.exp(-values[3:])

    def stages(values: Array) -> Array:
        """After each round."""
        return np.asarray(speeds(values)[which].cumsum())

    def surprise(values: Array) -> Array:
        curve = way * share_of_way(values[:3], stages(values)[known])
        off = gone - (curve - level_of(values[:3], belief.effective[places[known]], way))
        return np.concatenate(
            [
                solve_triangular(errors, off, lower=True),
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
    here = stages(fit.x)[-1]
    ahead = np.array([here, here + speeds(fit.x)[which[-1]]])
    return Standing(
        stage=np.array([stages(values)[-1:] for values in drawn]),
        end=np.array([end_of(values[:3], belief.effective, way) for values in drawn]),
        log_rounds=log_rounds,
        doubt=doubt,
        never=belief.never,
        pace=float(way * np.diff(share_of_way(fit.x[:3], ahead))[0]),
        noise=noise,
    )


def share_of_way(shape: Array, stage: Array) -> Array:
    """Which part of its way the logarithm of a loss has gone: 0 at first, 1 at stage 1."""
    power, bend = np.exp(shape[:2])
    return np.asarray(np.log1p(bend * stage**power) / np.log1p(bend))


def level_of(shape: Array, effective: Array, way: float) -> Array:
    """How far the loss lies above that of all clients, in logarithms: less on a short way, at the
    beginning of which there is little to disagree on."""
    return np.asarray(np.log1p(np.exp(shape[2]) / effective) * way / (1 + way))


def end_of(shape: Array, effective: Array, way: float) -> Array:
    """The stage at which a run with so many clients is at the target, for all its noise."""
    power, bend = np.exp(shape[:2])
    share = 1 + level_of(shape, effective, way) / way
    return np.asarray((np.expm1(share * np.log1p(bend)) / bend) ** (1 / power))


def noise_of(values: Array) -> float:
    """The standard deviation of values around the line of their neighbours."""
    bends = values[2:] - 2 * values[1:-1] + values[:-2]
    squares = float(bends @ bends) / 6 + NOISE_ROUNDS * NOISE**2
    return float(np.sqrt(squares / (bends.size + NOISE_ROUNDS)))
