"""The exact minimiser of (22), with a certificate.

Given the length of the round H and the price of band R, every client decides alone:
it trains for the time t at which a second more of training saves as much energy as the
band costs that makes up for it,

    2 w / t^3 = R u / (H - t)^2,      w = (l_0 / K) kappa c^3,                     (86), (87)

within the times that its frequency bounds allow. Two sums are left to meet: the shares
a_j = u_j / (H - t_j) fill the band, and the prices beta_j = R a_j^2 / u_j of being done
by H add up to one (the derivative by H, which Appendix G leaves out).

Both sums fall as H grows; as R grows, the first falls and the second rises. So in the
plane of (H, R) the first is met along a falling curve and the second along a rising one,
and the signs at a point tell on which side of the crossing it lies. Newton's method
finds the crossing in two or three steps; the box that those signs leave holds it in check
where a bound switches on or off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcell.core.types import Array
from fedcell.network.certificate import ROUNDING_GAP, certify
from fedcell.network.round import Problem, Schedule

from .exact import OptimalStaged, equal_finish
from .limited import best_schedule

BLOCK = 2**16  # clients solved at a time: small enough to stay in the processor's cache
TOLERANCE = 1e-9  # of the two sums; the error of the objective is about its square
FREE_STEPS = 3  # Newton steps without the box; most rounds need no more
MAX_NEWTON_STEPS = 40  # then the box is halved, which always ends at rounding
MAX_STEPS = MAX_NEWTON_STEPS + 2 * 64
LAST_DIGIT = 1e-16  # of a double, relative


class Optimal:
    """The schedule that minimises (22), whatever bounds are active, with its certificate.

    >>> from fedcell.network import load_round
    >>> best = Optimal()(load_round("docs/round.json"))
    >>> best.share.round(3).tolist(), bool(best.certificate.gap < 1e-12)
    ([0.225, 0.151, 0.624], True)
    """

    def __call__(self, problem: Problem, /) -> Schedule:
        if problem.extras is not None:
            return best_schedule(problem)
        shortest = problem.cycles / problem.freq_max
        f = frequencies(problem, shortest.max(-1))
        best = finish_together(problem, f)
        proof = certify(problem, best)
        if (proof.gap > ROUNDING_GAP).any():
            # Some upload is so short that H is hardly more than a training time. Solve again from
            # a floor at which they differ; or choose f without the uploads.
            bounded = np.where(f == problem.freq_min, problem.cycles / f, shortest).max(-1)
            for other in (frequencies(problem, bounded), OptimalStaged()(problem).freq):
                better = certify(problem, finish_together(problem, other)).gap < proof.gap
                f = np.where(better[..., None], other, f)
                best = finish_together(problem, f)
                proof = certify(problem, best)
        return Schedule(best.share, best.freq, proof)


def finish_together(problem: Problem, freq: Array) -> Schedule:
    """Return the schedule that ends soonest with these frequencies."""
    return Schedule(equal_finish(problem.band_time, problem.cycles / freq), freq)


def frequencies(problem: Problem, floor: Array) -> Array:
    """Return the frequencies of the optimum of (22), with rounds longer than `floor` [s]."""
    u, c = problem.band_time, problem.cycles
    vectors = (u, problem.effort, c / problem.freq_max, c / problem.freq_min)
    flat = [values.reshape(-1, u.shape[-1]) for values in vectors]
    rounds = max(1, BLOCK // u.shape[-1])
    t = np.empty_like(flat[0])
    for first in range(0, len(t), rounds):
        part = slice(first, first + rounds)
        t[part] = compute_times(*(values[part] for values in (*flat, floor.reshape(-1))))
    return within(c / t.reshape(u.shape), problem.freq_min, problem.freq_max)


def compute_times(u: Array, w: Array, shortest: Array, longest: Array, floor: Array) -> Array:
    """Return the time that each client trains at the optimum of (22), (round, client) [s].

    The search is for x = (log (H - floor), log R).
    """
    times = np.empty_like(u)
    rounds = np.arange(len(u))  # those not yet solved
    x, low, high = start(u, w, shortest, longest, floor)
    last, least = x, np.full(len(u), np.inf)  # the point before, and its error
    root = np.cbrt(2 * w / u)
    for step in range(MAX_STEPS):
        e, R = np.exp(x)
        t, left, free = respond(e, R, root, shortest, longest, floor)
        v = 1 / left
        a = u * v
        shares, prices = np.vecdot(u, v), np.vecdot(a, v)  # sum a, sum beta / R
        miss = np.log((shares, R * prices))
        error = np.abs(miss).max(0)
        done = error <= TOLERANCE
        if done.any() or step == MAX_STEPS - 1:
            times[rounds] = t
            if done.all():
                break
        # The derivatives of `miss` by x; their determinant is negative. z_j says how 1/left_j
        # shrinks per second of H: a client free of bounds gives a part of it to training.
        z = np.where(free, 3 / (3 * left + 2 * t), v)
        az = a * z
        sum_az = az.sum(-1)
        ee, eR = -e * sum_az / shares, (np.vecdot(u, z) / shares - 1) / 2
        Re, RR = -2 * e * np.vecdot(az, v) / prices, sum_az / prices
        newton = np.stack((RR * miss[0] - eR * miss[1], ee * miss[1] - Re * miss[0]))
        newton = x - newton / (ee * RR - eR * Re)
        if step < FREE_STEPS:
            x, last, least = within(newton, low, high), x, error
        else:
            low, high = narrow(x, miss, low, high)
            stuck = error > least / 2  # a step across a kink: go back half of it
            x, last = np.where(stuck, (x + last) / 2, newton), x
            least = np.where(stuck, np.inf, error)
            outside = (x < low) | (x > high) | (step % 8 == 7) | (step >= MAX_NEWTON_STEPS)
            x = np.where(outside, (low + high) / 2, x)
        if done.any():
            keep = ~done
            rounds, least, floor = rounds[keep], least[keep], floor[keep]
            x, last, low, high = x[:, keep], last[:, keep], low[:, keep], high[:, keep]
            u, root, shortest, longest = u[keep], root[keep], shortest[keep], longest[keep]
    return times


def respond(
    e: Array, R: Array, root: Array, shortest: Array, longest: Array, floor: Array
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Return the time to train, the time left to upload, and which clients are free of bounds.

    With H - t = H y^3 and k = (2 w / (u H R))^(1/3), (86) and (87) read y^3 + k y^2 = 1.
    """
    H = (floor + e)[:, None]
    k = root / np.cbrt(H * R[:, None])
    y = 1 / np.sqrt(1 + k)  # within 7 % of the root, so three steps of Newton's reach 1e-10
    for _ in range(3):
        y = (y * y * (2 * y + k) + 1) / (y * (3 * y + 2 * k))
    wish = H * (k * y * y)
    t = within(wish, shortest, longest)
    free = t == wish
    left = e[:, None] + (floor[:, None] - t)
    left = np.where(t > floor[:, None], np.maximum(left, LAST_DIGIT * H), left)  # not 0 by rounding
    return t, np.where(free, H * y**3, left), free


def start(
    u: Array, w: Array, shortest: Array, longest: Array, floor: Array
) -> tuple[Array, Array, Array]:
    """Return the logs of the start (e, R), and of two corners of a box around the optimum."""
    total = u.sum(-1)
    t = within(np.maximum(np.cbrt(2 * w.sum(-1)), floor)[:, None], shortest, longest)
    top = t.max(-1)
    e = (top - floor) + total  # H - floor, when all upload in turns after the last has trained
    R = 1 / (u / ((top[:, None] - t) + total[:, None]) ** 2).sum(-1)
    least = (u - (floor[:, None] - shortest)).max(-1)  # with all the band, and no bound but f_max
    least = np.where(least > 0, least, u.min(-1))  # the floor may be one that the optimum is below
    reached = e + (w / t**2).sum(-1)  # H* is below what any schedule reaches
    low, high = np.log((least, u.min(-1))), np.log((reached, total))
    return within(np.log((e, R)), low, high), low, high


def narrow(x: Array, miss: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the smaller box after evaluating x, by the signs of the two sums."""
    same = (miss[0] >= 0) == (miss[1] >= 0)  # then x tells of H, else of R
    beyond = np.stack((same, ~same))
    return np.where(beyond & (miss[0] >= 0), x, low), np.where(beyond & (miss[0] < 0), x, high)


def within(values: Array, low: Array, high: Array) -> Array:
    """Return np.clip, without its overhead on small arrays."""
    return np.asarray(np.minimum(np.maximum(values, low), high))
