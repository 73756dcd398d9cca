"""Schedules of links with a rate table: the clients choose modes at the prices of time and band.

With the choice of each client fixed the problem (22) is convex, and `joint_split` solves it. Its
prices then let each client choose again, and prove a bound on all choices. The cheapest schedule
found is kept; the gap of its certificate is to the best bound found.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedcell.core.types import Array, Bools, Ints
from fedcell.network.physics.discrete.choices import Choices, choices_bound
from fedcell.network.physics.discrete.link import DiscreteLink
from fedcell.network.physics.discrete.modes import Modes
from fedcell.network.physics.power.problem import FreePower
from fedcell.network.physics.terms import Terms
from fedcell.network.round import Certificate, Problem, Schedule, price

from .solve import JointSplit, joint_split

STEPS = 4  # of choosing and solving
HARDLY = 1e-280  # joules: some, so that the price of band is searched for
CLOSE = 1e-9  # a gap that no step needs to narrow
PLACES = 2**20  # (client, choice) numbers in memory at once


def best_of_modes(problem: Problem, other: Schedule) -> Schedule:
    """Return the best schedule found at the powers of the power law, or the `other` one where it is
    cheaper, with the certificate."""
    assert problem.extras is not None
    modes = problem.extras.limit
    assert isinstance(modes, Modes)
    schedule, bound = _searched(problem, modes, None)
    return _certified(problem, schedule, other, bound)


def best_powers(problem: Problem, link: DiscreteLink, other: Schedule) -> Schedule:
    """Return the best schedule found where the power of each client is free, or the `other` one,
    of the power law, with less power where it is cheaper; and the certificate."""
    modes = link.free_modes()
    schedule, bound = _searched(problem, modes, link)
    cost = price(problem, other)
    latency = 0.0 if problem.extras is None else problem.extras.latency
    as_fast = modes.times(other.share) <= ((cost.upload_time - latency) * (1 + 1e-9))[..., None]
    mode = np.where(as_fast, modes.energy, np.inf).argmin(-1)
    lower = replace(other, power=link.mode_power(other.share, mode), certificate=None)
    return _certified(problem, schedule, lower, bound)


def improved(problem: Problem, found: Schedule, other: Schedule) -> Schedule:
    """Return the cheaper of a schedule with a certificate and another one, with the same bound."""
    assert found.certificate is not None
    bound = _value(problem, found) * (1 - found.certificate.gap)
    return _certified(problem, found, other, bound)


def filled(modes: Modes, share: Array) -> Array:
    """Return shares with which clients, one after the other, take up band that is left over: each
    as much as its next mode needs, those first that gain the most seconds."""
    for _ in range(2 * share.shape[-1]):
        spare = 1 - share.sum(-1, keepdims=True)
        time = modes.upload_time(share)
        with np.errstate(invalid="ignore"):
            at_widest = modes.band_time / modes.widest
        faster = at_widest < time[..., None] * (1 - 1e-9)
        wider = np.where(faster & (modes.widest > share[..., None]), modes.widest, np.inf).min(-1)
        fits = wider - share <= spare
        if not fits.any():
            break
        saved = np.where(fits, time - modes.upload_time(np.where(fits, wider, share)), -1.0)
        here = (np.arange(share.shape[-1]) == saved.argmax(-1)[..., None]) & fits
        share = np.where(here, wider, share)
    return share


def _certified(problem: Problem, one: Schedule, other: Schedule, bound: Array) -> Schedule:
    """Return the cheaper of two schedules in each round, with the certificate."""
    better = _value(problem, other) < _value(problem, one)
    names = ("share", "freq") if one.power is None else ("share", "freq", "power")
    best = Schedule(
        **{n: np.where(better[..., None], getattr(other, n), getattr(one, n)) for n in names}
    )
    return replace(best, certificate=_certificate(problem, best, bound))


def certify_modes(problem: Problem, schedule: Schedule) -> Certificate:
    """Return how far a schedule of any policy is at the most from the optimum over all modes."""
    if schedule.power is not None:
        assert isinstance(problem.link, DiscreteLink)
        _, bound = _searched(problem, problem.link.free_modes(), problem.link)
    else:
        assert problem.extras is not None
        assert isinstance(problem.extras.limit, Modes)
        _, bound = _searched(problem, problem.extras.limit, None)
    return _certificate(problem, schedule, bound)


def _certificate(problem: Problem, schedule: Schedule, bound: Array) -> Certificate:
    value = _value(problem, schedule)
    low, high, f = problem.freq_min, problem.freq_max, schedule.freq
    spare = 1 - schedule.share.sum(-1)
    excess = np.maximum(1 - f / low, f / high - 1).max(-1)
    gap = np.asarray((value - bound) / value)
    return Certificate(
        primal=np.maximum(0, np.maximum(excess, -spare)) + 0.0, dual=np.maximum(gap, 0.0), gap=gap
    )


def _value(problem: Problem, schedule: Schedule) -> Array:
    """Return the objective (22) of a schedule, less what no schedule can change."""
    terms, weight = Terms.of(problem), problem.energy_weight
    if schedule.power is not None:
        assert isinstance(problem.link, DiscreteLink)
        s, joules = problem.link.upload(schedule.share, schedule.power)
    else:
        modes = None if problem.extras is None else problem.extras.limit
        assert isinstance(modes, Modes)
        s, joules = modes.upload_time(schedule.share), modes.upload_energy(schedule.share)
    t = problem.cycles / schedule.freq
    H = (terms.m + t + s).max(-1)
    return np.asarray(terms.second * H + (terms.value(t) + terms.q * s + weight * joules).sum(-1))


def _searched(problem: Problem, modes: Modes, link: DiscreteLink | None) -> tuple[Schedule, Array]:
    """Return the best schedule found and the best bound, some rounds at a time."""
    shape = problem.cycles.shape
    if len(shape) == 1:
        found, bound = _searched(problem[None], modes[None], None if link is None else link[None])
        return _picked(found, 0), bound[0]
    count = max(1, PLACES // modes.band_time[0].size)
    parts = [
        _search(problem[part], modes[part], None if link is None else link[part])
        for part in (slice(i, i + count) for i in range(0, shape[0], count))
    ]
    schedules, bounds = zip(*parts, strict=True)
    power = None if link is None else np.concatenate([s.power for s in schedules])
    share, freq = (np.concatenate([getattr(s, n) for s in schedules]) for n in ("share", "freq"))
    return Schedule(share, freq, power=power), np.concatenate(bounds)


def _search(problem: Problem, modes: Modes, link: DiscreteLink | None) -> tuple[Schedule, Array]:
    """Return the best schedule found and the best bound of rounds on one axis."""
    terms, choices = Terms.of(problem), Choices.of(modes, problem.energy_weight)
    price = terms.second[..., None] / problem.clients
    R = _first_price(choices, terms, price)
    choice = choices.values(terms.q + price, R).argmin(-1)
    best, left = None, np.arange(len(choice))
    value, bound = np.full(len(choice), np.inf), np.full(len(choice), -np.inf)
    for step in range(STEPS):
        here, own = terms[left], choices[left]
        found = joint_split(fixed(here, own.at(choice)))
        schedule = _scheduled(
            problem[left], own, choice, found, None if link is None else link[left]
        )
        reached = _value(problem[left], schedule)
        beta = prices_of(here, own.at(choice), found)
        R = own.price_of_band(here.q + beta, found.R)
        proven, costs = choices_bound(here, own, beta, R)
        if best is None:
            best, before = schedule, (beta, R)
        part = 1 / (step + 1)  # prices of all steps so far, averaged
        mean = (before[0] + part * (beta - before[0]), before[1] + part * (R - before[1]))
        better = reached < value[left]
        best = _with(best, left[better], schedule, better)
        value[left], bound[left] = np.minimum(reached, value[left]), np.maximum(proven, bound[left])
        proven, at_mean = choices_bound(here, own, *mean)
        bound[left] = np.maximum(proven, bound[left])
        following: Ints = (at_mean if step % 2 else costs).argmin(-1)
        keep = (following != choice).any(-1) & (value[left] - bound[left] > CLOSE * value[left])
        if not keep.any():
            break
        before = (mean[0][keep], mean[1][keep])
        left, choice = left[keep], following[keep]
    assert best is not None
    return best, bound


def _with(whole: Schedule, rounds: Ints, part: Schedule, which: Bools) -> Schedule:
    """Return a schedule with some rounds replaced."""
    values = {name: getattr(whole, name).copy() for name in ("share", "freq")}
    values |= {} if whole.power is None else {"power": whole.power.copy()}
    for name, array in values.items():
        array[rounds] = getattr(part, name)[which]
    return Schedule(**values)


def fixed(terms: Terms, chosen: Choices) -> FreePower:
    """Return the problem with one choice of each client: x = 1, and s >= V."""
    nothing, ones = np.zeros(chosen.band_time.shape), np.ones(chosen.band_time.shape)
    return FreePower(
        terms=replace(terms, u=chosen.band_time, q=terms.q + chosen.watts),
        y=chosen.band_time,
        radiated=np.full(ones.shape, HARDLY),
        on_air=nothing,
        sending=nothing,
        airtime=chosen.shortest,
        least=ones,
        most=ones,
        floor=chosen.shortest,
    )


def _first_price(choices: Choices, terms: Terms, price: Array) -> Array:
    """Return the price of band at which even shares are the best for an average client."""
    count = price.shape[-1] if price.shape[-1] > 1 else choices.band_time.shape[-2]
    u = choices.band_time.min(-1)
    return np.asarray(((np.maximum(terms.q, 0) + price) * u).sum(-1) * count)


def prices_of(terms: Terms, chosen: Choices, found: JointSplit) -> Array:
    """Return prices that sum to A: where the round is as short as it can be, the client that makes
    it so pays the rest."""
    A, total = terms.second[..., None], found.beta.sum(-1, keepdims=True)
    shortest = terms.m + terms.shortest + chosen.shortest
    last = np.arange(found.beta.shape[-1]) == shortest.argmax(-1)[..., None]
    missing = np.where(total < A * (1 - 1e-9), A - total, 0.0)
    beta = np.where(last, found.beta + missing, found.beta)
    return np.asarray(beta * (A / beta.sum(-1, keepdims=True)))


def _scheduled(
    problem: Problem,
    choices: Choices,
    choice: Ints,
    found: JointSplit,
    link: DiscreteLink | None,
) -> Schedule:
    """Return the schedule of a split."""
    share = choices.at(choice).band_time / found.upload
    total = share.sum(-1, keepdims=True)
    share = np.where((total > 1) | (found.R[..., None] > 0), share / total, share)
    freq = np.clip(problem.cycles / found.train, problem.freq_min, problem.freq_max)
    power = None if link is None else link.mode_power(share, choice)
    return Schedule(share, freq, power=power)


def _picked(schedule: Schedule, where: int) -> Schedule:
    power = None if schedule.power is None else schedule.power[where]
    return Schedule(schedule.share[where], schedule.freq[where], power=power)
