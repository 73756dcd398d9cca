"""Schedules with declared radios and devices: the optimum, or the best of some candidates where
power limits act.

With a density that is cut at power_max the problem is not convex: it may have several local
minima. Candidates are priced exactly, and the cheapest is taken. It carries no certificate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcell.core.types import Array
from fedcell.network.physics.certificate import certify_devices
from fedcell.network.physics.discrete.modes import Modes
from fedcell.network.physics.extras import Extras
from fedcell.network.physics.terms import Terms
from fedcell.network.round import Problem, Schedule, price

from .general import Split, linear_at, split, training_times
from .joint.modes import best_of_modes, filled, improved

REFINEMENTS = 3  # times that uploads are made linear at the shares found before


def best_schedule(problem: Problem) -> Schedule:
    """Return the minimiser of (22), with a certificate where no power limit acts."""
    extras = problem.extras
    assert extras is not None
    if extras.limit is None:
        found = split(problem)
        schedule = _schedule(problem, found)
        proof = certify_devices(problem, schedule, found.price)
        if (far := proof.gap > 1e-12).any():
            other = certify_devices(problem, schedule)
            better = far & (other.gap < proof.gap)
            proof = replace(
                proof,
                gap=np.where(better, other.gap, proof.gap),
                dual=np.where(better, other.dual, proof.dual),
            )
        return replace(schedule, certificate=proof)
    if isinstance(extras.limit, Modes):
        schedule = best_of_modes(problem, _cheapest(problem, extras))
        shares = filled(extras.limit, schedule.share)
        return improved(problem, schedule, _with_best_times(problem, shares))
    return _cheapest(problem, extras)


def _cheapest(problem: Problem, extras: Extras) -> Schedule:
    """Return the cheapest of some schedules: from even shares and from the optimum without limits,
    optima of the problem made linear at the shares before, and these shares themselves; at last
    with the best training times for its shares, or even shares with theirs."""
    even = np.full(problem.band_time.shape, 1 / problem.clients)
    best, cost = Schedule(even, problem.freq_max), np.full(even.shape[:-1], np.inf)
    free = replace(problem, extras=replace(extras, limit=None))
    for share in (even, _schedule(free, split(free)).share):
        for _ in range(REFINEMENTS):
            other = _schedule(problem, split(linear_at(problem, share)))
            for candidate in (other, Schedule(share, other.freq)):
                its_cost = price(problem, candidate).objective
                better = (its_cost < cost)[..., None]
                best = Schedule(
                    np.where(better, candidate.share, best.share),
                    np.where(better, candidate.freq, best.freq),
                )
                cost = np.minimum(cost, its_cost)
            share = np.sqrt(share * other.share)  # half of the way, in logarithms
            share = share / share.sum(-1, keepdims=True)
    last, fair = _with_best_times(problem, best.share), _with_best_times(problem, even)
    better = price(problem, fair).objective < price(problem, last).objective
    share, freq = (
        np.where(better[..., None], getattr(fair, name), getattr(last, name))
        for name in ("share", "freq")
    )
    return Schedule(share, freq)


def _with_best_times(problem: Problem, share: Array) -> Schedule:
    """Return shares with the best training times for them."""
    extras = problem.extras
    assert extras is not None
    assert extras.limit is not None
    train = training_times(Terms.of(linear_at(problem, share)), extras.limit.upload_time(share))
    return Schedule(share, np.clip(problem.cycles / train, problem.freq_min, problem.freq_max))


def _schedule(problem: Problem, found: Split) -> Schedule:
    freq = np.clip(problem.cycles / found.train, problem.freq_min, problem.freq_max)
    share = found.share
    return Schedule(share / share.sum(-1, keepdims=True), freq)
