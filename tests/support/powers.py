"""Random rounds whose transmit powers are chosen, over all kinds of limits and scales."""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from fedcell.network.physics.extras import Extras
from fedcell.network.physics.power.functions import phi
from fedcell.network.physics.power.link import Link
from fedcell.network.physics.power.problem import FreePower
from fedcell.policies import Problem

SIZES = (1, 2, 3, 5, 8, 12, 30)


def random_problem(seed: int, rounds: int = 8, scales: float = 0.3, cohort: int = 0) -> Problem:
    """Return rounds of one random regime; magnitudes differ by 10^(6 scales) or so."""
    rng = np.random.default_rng(seed)
    shape = rounds, cohort or int(rng.choice(SIZES))

    def between(low: float, high: float) -> np.ndarray:
        return np.exp(rng.uniform(np.log(low), np.log(high), shape))

    def maybe(part: float, values: np.ndarray, other: float) -> np.ndarray:
        return values if rng.random() < part else np.full(shape, other)

    time = 10 ** rng.uniform(-3 * scales, 3 * scales)
    in_turn = bool(rng.random() < 0.2)
    noise = between(1e-4, 1e2) * 10 ** rng.uniform(-2 * scales, 2 * scales)
    weight = 0.0 if rng.random() < 0.1 else 10 ** rng.uniform(-3 * scales, 3 * scales)
    power_max = maybe(0.8, between(1e-2, 1), np.inf)
    least = maybe(0.5, np.log1p(between(1e-3, 3)), 0.0)
    most = maybe(0.7, np.log(2) * rng.uniform(2, 8, shape), np.inf if weight else 5.0)
    if rng.random() < 0.1:
        most = np.maximum(least, 0.3)  # hardly any choice
    if in_turn:
        least = np.minimum(least, np.log1p(power_max / noise))
    link = Link(
        scale=between(1e-2, 1) * time * 10 ** rng.uniform(-2 * scales, 2 * scales),
        noise=noise,
        draw=rng.uniform(1, 5, shape),
        power_max=power_max,
        least=least,
        most=np.maximum(most, least),
        on_air=rng.uniform(0, 1, shape) if in_turn else np.zeros(shape),
        widest=maybe(0.25, between(0.01, 1), np.inf),
        in_turn=in_turn,
    )
    fastest = between(5e8, 3e9)
    extras = random_extras(rng, shape, time) if rng.random() < 0.6 else None
    exponent = 3.0 if extras is None else extras.exponent
    return Problem(
        band_time=np.ones(shape),  # at the powers of a power law, which are not used
        upload_energy=np.ones(shape),
        samples=rng.integers(50, 1000, shape),
        kappa=between(1e-29, 1e-26) * 1e9 ** (3 - exponent),
        freq_min=fastest * maybe(0.8, between(1e-3, 1), 1.0),
        freq_max=fastest,
        work=1e7 * time,
        energy_weight=weight,
        extras=extras,
        link=link,
    )


def random_extras(rng: np.random.Generator, shape: tuple[int, int], time: float) -> Extras:
    nothing = np.zeros(shape)

    def maybe(part: float, most: float) -> np.ndarray:
        return rng.uniform(0, most, shape) if rng.random() < part else nothing

    done = maybe(0.5, 1)
    names = (
        "latency",
        "tail_energy",
        "receive_energy",
        "receive_begin",
        "receive_end",
        "download_time",
    )
    return Extras(
        exponent=rng.uniform(1, 3.5, shape) if rng.random() < 0.5 else np.full(shape, 3.0),
        busy_power=done + maybe(0.7, 3),
        send_power=done + maybe(0.7, 2),
        idle_power=done,
        done_power=done,
        memory_time=maybe(0.4, 1) * time,
        summed=bool(rng.random() < 0.5),
        **dict.fromkeys(names, nothing),
    )


def slsqp(problem: Problem, length: float, starts: int = 4) -> float:
    """Return the least value of one round, (client,), that SLSQP finds over H, t, s and x."""
    power, terms, K = FreePower.of(problem), FreePower.of(problem).terms, problem.clients
    rng = np.random.default_rng(0)
    low_t, high_t = terms.shortest / length, terms.longest / length
    high_x = np.minimum(power.most, 30.0)

    def parts(z: np.ndarray) -> tuple[Any, ...]:
        return z[0] * length, z[1 : K + 1] * length, z[K + 1 : 2 * K + 1] * length, z[2 * K + 1 :]

    def cost(z: np.ndarray) -> float:
        H, t, s, x = parts(z)
        upload = power.radiated * phi(x) + power.on_air / x + terms.q * s
        return float(terms.second * H + (terms.value(t) + upload).sum())

    def room(z: np.ndarray) -> np.ndarray:
        H, t, s, x = parts(z)
        limits = (H - terms.m - t - s, s - power.sending * phi(x), s - power.airtime / x)
        return np.concatenate((*(v / length for v in limits), [1 - (power.y / (x * s)).sum()]))

    bounds = [(1e-6, None), *zip(low_t, high_t, strict=True)]
    bounds += [(1e-9, None)] * K
    bounds += list(zip(np.maximum(power.least, 1e-6), high_x, strict=True))
    best = np.inf
    for _ in range(starts):
        x = np.clip(rng.uniform(0.2, 3, K), np.maximum(power.least, 1e-3), high_x)
        s = np.maximum(K * power.y / x, power.floor * 1.2) * rng.uniform(1, 2)
        t = np.clip(rng.uniform(1, 3, K) * terms.shortest, terms.shortest, terms.longest)
        first = np.concatenate(([(terms.m + t + s).max() / length], t / length, s / length, x))
        scale = cost(first)
        found = minimize(
            lambda z, scale=scale: cost(z) / scale,
            first,
            method="SLSQP",
            bounds=bounds,
            constraints={"type": "ineq", "fun": room},
            options={"maxiter": 1000, "ftol": 1e-15},
        )
        if room(found.x).min() > -1e-9:
            best = min(best, cost(found.x))
    return best
