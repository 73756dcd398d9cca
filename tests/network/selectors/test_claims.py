"""What papers claim of their rules, on the authors' own problems."""

import numpy as np
import pytest

from fedcell.core.streams import Purpose, uniform
from fedcell.network.selectors.resolve import resolved
from fedcell.network.selectors.rules.power_of_choice import PowerOfChoice
from fedcell.selectors import Known

pytestmark = pytest.mark.long

N, K, STEPS, RATE, ROUNDS = 30, 3, 2, 2e-5, 15000


def quadratics():
    """The authors' quadratic: H_k = h_k I, h ~ U(0, 9), e ~ U(0, 100)^5, p ~ power(3)."""
    rng = np.random.default_rng(2)
    h = rng.uniform(0, 9, N)
    e = rng.uniform(0, 100, (N, 5))
    p = rng.power(3, N)
    return h, e, p / p.sum()


def excess(candidates, seed=1):
    """The loss above its minimum after each round, with plain means of K local models."""
    h, e, p = quadratics()
    best = (p @ e) / (p @ h)
    factor = (1 - RATE * h) ** STEPS  # two steps of gradient descent: w - e/h shrinks by this
    home = e / h[:, None]
    least = (p * h / 2) @ ((best - home) ** 2).sum(1)
    streams = (Purpose.RACE, Purpose.SECOND_RACE, Purpose.THIRD_RACE)
    drawn = [uniform(purpose, seed, range(ROUNDS), N) for purpose in streams]
    w, rule, losses = np.zeros(5), PowerOfChoice(candidates=candidates), np.empty(ROUNDS)
    for t in range(ROUNDS):
        each = h / 2 * ((w - home) ** 2).sum(1)
        losses[t] = p @ each - least
        known = Known(
            round=t,
            cohort=K,
            may=np.ones(N, bool),
            uniforms=lambda which, t=t: drawn[which][t],
            numbers=np.zeros(4),
            facts={"samples": p, "evaluate": lambda clients, each=each: each[clients]},
            memory={},
        )
        clients, _ = resolved(rule(known), known, "")
        w = (home[clients] + factor[clients, None] * (w - home[clients])).mean(0)
    return losses


def test_power_of_choice_is_faster_at_first_and_ends_higher():
    """Cho, Wang, Joshi 2022: on their quadratic, more candidates are faster and end higher."""
    curves = {d: excess(d) for d in (3, 15, 30)}
    half = {d: int(np.argmax(c < c[0] / 2)) for d, c in curves.items()}
    assert half[3] > 1.2 * half[15]  # 2021 and 1561 rounds
    assert curves[15][5000] < 0.5 * curves[3][5000]
    floor = {d: curves[d][-500:].mean() for d in curves}
    assert floor[15] > 5 * floor[3]  # 134 and 10
    assert floor[30] > 3 * floor[15]


def test_one_candidate_a_place_is_the_random_draw():
    """d = K asks for losses and does not use them: another die, the same curve."""
    one, other = excess(3, seed=1), excess(3, seed=5)
    assert np.abs(np.log(one[500:8000] / other[500:8000])).max() < 0.25
