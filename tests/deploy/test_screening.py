"""Updates far longer than the median, clipped or excluded."""

import numpy as np
from numpy.testing import assert_array_equal

from fedcell import Scenario
from fedcell.deploy.screening import screened
from fedcell.learning import prepare_training
from fedcell.learning.aggregate import aggregate
from fedcell.network import draw_fleet


def updates(*lengths):
    """Uploads with updates of these lengths, from a model of zeros."""
    return {j: np.array([x, 0, 0], np.float32) for j, x in enumerate(lengths)}


ZERO = np.zeros(3, np.float32)


def test_an_update_far_longer_than_the_median_is_shortened_or_left_out():
    sent = updates(1, 1, 1, 1000)
    assert screened(sent, ZERO, "none", 3.0) == (sent, {})
    kept, far = screened(sent, ZERO, "clip", 3.0)
    assert far == {3: 1000.0}
    assert_array_equal(kept[3], [3, 0, 0])
    assert kept[3].dtype == np.float32
    kept, far = screened(sent, ZERO, "exclude", 3.0)
    assert (sorted(kept), far) == ([0, 1, 2], {3: 1000.0})


def test_too_few_uploads_or_none_that_moves_have_no_median_to_judge_by():
    assert screened(updates(1, 1000), ZERO, "exclude", 3.0)[1] == {}
    assert screened(updates(0, 0, 0, 5), ZERO, "exclude", 3.0)[1] == {}


def test_what_is_not_finite_is_neither_a_measure_nor_measured():
    kept, far = screened(updates(1, 1, 1, np.inf, np.nan, 9), ZERO, "exclude", 3.0)
    assert far == {5: 9.0}
    assert sorted(kept) == [0, 1, 2, 3, 4]


def test_updates_beyond_what_floats_can_square_are_seen_nevertheless():
    assert screened(updates(1, 1, 1, 3e38), ZERO, "exclude", 3.0)[1].keys() == {3}


def loss_behind(screen, liars, rounds=25):
    """The loss of quadratics after some rounds in which liars send their update reversed and long,
    behind a screen."""
    scenario = Scenario().using(
        clients={"count": 8, "samples": 40.0},
        plan={"cohort": 8, "local_steps": 4},
        cell={"gain_threshold": 0.0},
        learning={"model": "quadratic-common", "rate": 0.05},
    )
    setup = prepare_training(scenario)
    learner, fleet = setup.learner(), draw_fleet(setup.scenario)
    model, shares = learner.start(), fleet.samples / fleet.samples.sum()
    for t in range(rounds):
        sent = dict(enumerate(learner.train(model, range(8), t)))
        sent |= {j: (model - 100 * (sent[j] - model)).astype(np.float32) for j in range(liars)}
        kept, _ = screened(sent, model, screen, 3.0)
        every = [kept.get(j) for j in range(8)]
        model, _ = aggregate("normalised", model, range(8), [1] * 8, every, shares, t, True)
    return learner.evaluate(model).train_loss


def test_excluding_a_liar_is_worth_more_than_clipping_it():
    with np.errstate(all="ignore"):
        honest = loss_behind("none", 0)
        for liars in (1, 2):
            exclude, clip = loss_behind("exclude", liars), loss_behind("clip", liars)
            assert exclude < clip
            assert not loss_behind("none", liars) < clip
            assert exclude < 4 * honest
