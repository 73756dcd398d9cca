"""Targets: which is the harder, and what is said of a loss that swings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell.scenario.target import Target
from fedcell.simulation.summary import swing_of


@given(st.lists(st.floats(0, 2), min_size=12, max_size=40), st.sampled_from([1, 2, 4, 8]))
def test_reaching_the_harder_target_implies_the_easier(losses, hold):
    hard, easy = Target(loss=1.0, hold=8), Target(loss=1.1, hold=hold)
    assert hard.at_least_as_hard_as(easy)
    assert not easy.at_least_as_hard_as(hard)
    there, before = hard.reached(losses), easy.reached(losses)
    assert there is None or (before is not None and before <= there)


def test_targets_that_cannot_be_compared():
    assert not Target(loss=0.5, hold=5).at_least_as_hard_as(Target(loss=0.5, hold=3))
    assert not Target(loss=0.5).at_least_as_hard_as(Target(accuracy=0.5))
    assert Target(accuracy=0.9).at_least_as_hard_as(Target(accuracy=0.8))
    assert not Target(accuracy=0.8).at_least_as_hard_as(Target(accuracy=0.9))


def test_only_a_loss_that_climbs_and_falls_swings():
    rng = np.random.default_rng(0)
    falling = 2.3 * 0.6 ** np.arange(10)
    assert swing_of(falling) is None  # the first ten rounds of a training
    assert swing_of(falling * rng.uniform(0.9, 1.1, 10)) is None
    assert swing_of(falling[::-1]) is None  # it diverges
    assert swing_of(np.r_[2.3, 2.3, 2.3, 0.1 * np.ones(7)]) is None  # a step down
    for _ in range(50):
        assert swing_of(rng.normal(0.5, 0.05, 10)) is None
        assert swing_of(rng.normal(0.5, 0.05, 40) - 0.002 * np.arange(40)) is None
    t = np.arange(30)
    for period in (2, 3, 5, 8):
        assert swing_of(0.5 + 0.3 * np.cos(2 * np.pi * t / period)) is not None
        assert swing_of(2 * 0.97**t * (1 + 0.6 * np.cos(2 * np.pi * t / period))) is not None


def test_a_loss_that_swings_is_reported():
    steady = np.full(30, 0.5)
    assert swing_of(steady) is None
    swinging = steady + 0.3 * (-1.0) ** np.arange(30)
    told = swing_of(swinging)
    assert told is not None
    assert "from 0.2 to 0.8 in the last 10 rounds" in told
    assert swing_of(swinging[:5]) is None  # too few to tell
    assert swing_of(np.geomspace(2, 0.2, 30)) is None  # it falls
    assert swing_of(np.r_[swinging, steady]) is None  # it has calmed down
    assert swing_of(np.r_[steady, np.nan, np.nan]) is None


@pytest.mark.parametrize("hold", [1, 5])
def test_rounds_that_were_not_evaluated_are_passed_over(hold):
    values = [np.nan, 0.9] * 3 + [np.nan, 0.1] * 5
    assert Target(loss=0.2, hold=hold).reached(values) == 6 + 2 * hold
