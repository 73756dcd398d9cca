"""Check a schedule: whether it is feasible, and how close it is to the optimum of (22)."""

from __future__ import annotations

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array

from .physics.certificate import certify_devices
from .physics.discrete.link import DiscreteLink
from .physics.discrete.modes import Modes
from .physics.power.certificate import certify_power
from .physics.power.link import Link
from .physics.power.problem import FreePower
from .policies.joint.modes import certify_modes
from .policies.joint.solve import joint_split
from .round import Certificate, Problem, Schedule, price

ROUNDING_GAP = 1e-12  # a gap below it is rounding
BOUND_TOLERANCE = 1e-9  # relative distance at which a bound on a frequency is active
BISECTIONS = 100  # of a range of 2 * 100 powers of two


def certify(problem: Problem, schedule: Schedule) -> Certificate:
    """Compute residuals of the optimality conditions of (22), and a bound on the possible gain.

    Prices beta_j of (22a) that sum to one bound the optimum from below, wherever they come
    from: minimising the Lagrangian (23) over a, f and H leaves

        (sum_j sqrt(beta_j u_j))^2 + sum_j min_t (w_j / t^2 + beta_j t) + upload energy,

    with t = c_j / f_j within its bounds. So `gap` holds for the schedule of any policy. The
    prices follow from the shares by (89), or from the shares clipped to the frequencies by (90);
    the better bound counts, since rounding may spoil either. For a schedule with transmit powers
    the bound is that of `OptimalPower`'s prices.

    Parameters
    ----------
    problem : Problem
        Rounds of shape (..., client).
    schedule : Schedule
        A schedule of the same shape, of any policy.

    Returns
    -------
    Certificate
        Residuals `primal`, `dual` and `gap` of shape (...), relative, all 0 at the optimum.

    Examples
    --------
    >>> from fedcell.network import load_round
    >>> from fedcell.policies import Optimal
    >>> problem = load_round("docs/round.json")
    >>> bool(certify(problem, Optimal()(problem)).gap < 1e-12)
    True
    """
    limited = problem.extras is not None and isinstance(problem.extras.limit, Modes)
    free = schedule.power is not None
    if isinstance(problem.link, DiscreteLink) if free else limited:
        return certify_modes(problem, schedule)
    if free:
        power = FreePower.of(problem)
        found = joint_split(power)
        return certify_power(problem, power, schedule, (found.beta, found.R))
    if problem.extras is not None:
        return certify_devices(problem, schedule)
    a, f = schedule.share, schedule.freq
    low, high = problem.freq_min, problem.freq_max
    cost = price(problem, schedule)
    # (22) without the energy of uploading, which is the same for any schedule.
    reached = cost.duration + problem.energy_weight * cost.compute_energy.mean(-1)
    finish = (cost.upload_time + cost.compute_time) / cost.duration[..., None]

    by_share = a**2 / problem.band_time  # (89)
    gap, missed = _judge(problem, f, reached, finish, by_share)
    if (far := gap > ROUNDING_GAP).any():
        few, freq = problem[far], f[far]
        with np.errstate(all="ignore"):  # where energy is free, prices cannot be read off f
            prices = _prices_off_both(few, freq, by_share[far])
            other = _judge(few, freq, reached[far], finish[far], prices)
        gap[far], missed[far] = np.fmin(gap[far], other[0]), np.fmin(missed[far], other[1])
    spare = 1 - a.sum(-1)
    excess = np.maximum(1 - f / low, f / high - 1).max(-1)
    return Certificate(
        primal=np.maximum(0, np.maximum(excess, -spare)) + 0.0,  # no -0.0
        dual=np.maximum(missed, spare),  # (88): no band is left over
        gap=gap,
    )


def _judge(
    problem: Problem, freq: Array, reached: Array, finish: Array, prices: Array
) -> tuple[Array, Array]:
    """Return the gap that prices prove, and the distance of the schedule from their optimum."""
    beta = prices / prices.sum(-1, keepdims=True)  # the derivative of (23) by H is 0
    bound, best = dual(problem, beta)
    missed = np.maximum(np.abs(freq / best - 1), beta * (1 - finish))  # (87), and (22a) is tight
    return np.array((reached - bound) / reached), np.array(missed.max(-1))


def _prices_off_both(problem: Problem, freq: Array, by_share: Array) -> Array:
    """Return prices from the shares, clipped to those of the frequencies, with a sum of one.

    By (90) a price follows from its frequency; at the highest frequency it may be larger, and at
    the lowest smaller. If uploads are short, H - t has hardly a correct digit, and only the
    frequencies determine the prices.
    """
    price_of_freq = 2 * problem.energy_weight / problem.clients * problem.kappa * freq**3  # (90)
    least = np.where(freq <= problem.freq_min * (1 + BOUND_TOLERANCE), 0, price_of_freq)
    most = np.where(freq >= problem.freq_max * (1 - BOUND_TOLERANCE), np.inf, price_of_freq)
    shape = by_share.max(-1, keepdims=True)
    low, high = (np.full(shape.shape, power) for power in (-BISECTIONS, BISECTIONS))
    for _ in range(BISECTIONS):  # the sum grows with the scale
        middle = (low + high) / 2
        prices = np.clip(by_share * (np.exp2(middle) / shape), least, most)
        small = prices.sum(-1, keepdims=True) < 1
        low, high = np.where(small, middle, low), np.where(small, high, middle)
    return np.asarray(prices)


def check_schedule(problem: Problem, schedule: Schedule, name: str = "the policy") -> None:
    """Refuse a schedule that breaks (22b) or (22c), as a user's policy may."""
    a, f = schedule.share, schedule.freq
    shape, slack = problem.band_time.shape, 1 + 1e-9
    if a.shape != shape or f.shape != shape:
        raise BadInput(f"{name} answered with shapes {a.shape}, {f.shape}: expected {shape}")
    if not ((a > 0).all() and (a.sum(-1) <= slack).all()):
        raise BadInput(
            f"{name} breaks (22b): shares must be above 0 and sum to at most 1; the least is "
            f"{a.min():.4g}, the largest sum {a.sum(-1).max():.6g}"
        )
    wrong = ~((f * slack >= problem.freq_min) & (f <= problem.freq_max * slack))
    if wrong.any():
        low, high = problem.freq_min[wrong][0], problem.freq_max[wrong][0]
        raise BadInput(
            f"{name} breaks (22c): frequencies must be within their bounds; {f[wrong][0]:.4g} is "
            f"not from {low:.4g} to {high:.4g} cycle/s"
        )
    if schedule.power is not None:
        _check_power(problem, schedule.power, name)


def _check_power(problem: Problem, power: Array, name: str) -> None:
    """Refuse transmit powers that a device cannot send with."""
    if power.shape != problem.band_time.shape:
        shape = problem.band_time.shape
        raise BadInput(f"{name} answered with powers of shape {power.shape}: expected {shape}")
    most = Link.of(problem).power_max
    if (wrong := ~((power > 0) & (power <= most * (1 + 1e-9)))).any():
        raise BadInput(
            f"{name} gives a client {power[wrong][0]:.4g} W: transmit powers must be above 0 and "
            f"at most power_max, {most[wrong][0]:.4g} W"
        )


def dual(problem: Problem, beta: Array) -> tuple[Array, Array]:
    """Return the lower bound on (22) by prices, less upload energy, and its frequencies."""
    c, w = problem.cycles, problem.effort
    t = np.cbrt(2 * w / beta)  # (90)
    t = np.minimum(np.maximum(t, c / problem.freq_max), c / problem.freq_min)
    bound = np.sqrt(beta * problem.band_time).sum(-1) ** 2 + (w / t**2 + beta * t).sum(-1)
    return bound, c / t
