"""What is believed of rounds before a run and from its losses."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import GivenLaw
from fedcell.planning.adaptive.posterior import (
    SHAPE,
    average_gain,
    average_of,
    end_of,
    level_of,
    progress_of,
    share_of_way,
    training_posterior,
)
from fedcell.planning.law.fit import fit_law
from fedcell.planning.pilot.candidates import CandidateSettings
from fedcell.planning.pilot.prior import GENERIC_LAW, RoundsPrior
from fedcell.planning.setting import Setting
from support.adaptive import changed, lattice, losses_of, place
from support.laws import FLOOR, observed


def test_without_a_law_what_is_usual_is_believed_with_wide_doubt():
    settings = lattice()
    prior = RoundsPrior.from_law(settings)
    assert_allclose(np.exp(prior.mean), GENERIC_LAW.rounds(settings.cohorts, settings.steps))
    assert (np.sqrt(np.diag(prior.covariance)) > 1.0).all()
    assert np.linalg.eigvalsh(prior.covariance).min() > -1e-9


def test_conditioning_narrows_nearby_settings():
    settings, here = lattice(), place(lattice(), 8, 20)
    before = RoundsPrior.from_law(settings)
    after = before.conditioned_on(np.array([here]), before.mean[[here]] + 1.0, np.array([[0.01]]))
    moved = after.mean - before.mean
    alike, unlike = place(settings, 8, 40), place(settings, 1, 80)
    assert 0.97 < moved[here] < 1.0
    assert moved[here] > moved[alike] > moved[unlike] > 0
    assert after.covariance[here, here] == pytest.approx(0.01, rel=0.05)


def test_a_law_by_hand_is_heard_beside_what_is_usual():
    settings, law = lattice(), GivenLaw(mixing=0, drift=1.0, start=1.0, floor=5)
    usual, both = RoundsPrior.from_law(settings), RoundsPrior.from_law(settings, law)
    said = np.log(law.rounds(settings.cohorts, settings.steps))
    few, many = place(settings, 8, 5), place(settings, 8, 80)
    slopes = [mean[many] - mean[few] for mean in (usual.mean, both.mean, said)]
    assert slopes[0] < slopes[1] < slopes[2]


def test_a_pilot_is_believed_where_it_has_looked():
    law = fit_law(observed(FLOOR, seeds=8, seed_sd=0.05, run_sd=0.05))
    tried = CandidateSettings(
        np.array([10, 3, 40, 7]), np.array([20, 80, 5, 300]), 0.1, "independent", np.ones(4)
    )
    prior = RoundsPrior.from_law(tried, law)
    rounds = FLOOR.rounds(tried.cohorts, tried.steps, 0.1)
    assert_allclose(np.exp(prior.mean[:3]), rounds[:3], rtol=0.1)
    doubt = np.sqrt(np.diag(prior.covariance))
    assert doubt[3] > 1.5 * doubt[0]


def test_settings_that_never_reach_the_target_are_excluded():
    law = replace(fit_law(observed(FLOOR)), never=(Setting(4, 40, 0.1),))
    settings = lattice(gamma=0.1)
    prior = RoundsPrior.from_law(settings, law)
    hopeless = (settings.cohorts <= 4) & (settings.steps >= 40)
    assert_array_equal(prior.never, hopeless)
    now = place(settings, 8, 20)
    stands = training_posterior(
        prior, losses_of(settings, prior.mean, np.full(9, now))[0], np.full(9, now), 2.0, 0.2
    )
    cheap = replace(settings, costs=np.where(hopeless, 0.01, 1.0))  # however cheap they are
    change = changed(stands, cheap, now, 5, 5)
    assert change is None or not hopeless[change.place]
    # One that is there all the same may be left.
    there = np.full(9, place(settings, 4, 40))
    stands = training_posterior(prior, losses_of(settings, prior.mean, there)[0], there, 2.0, 0.2)
    assert changed(stands, settings, int(there[0]), 5, 5) is not None


@pytest.mark.parametrize("off", [-0.8, 0.8])
def test_a_run_that_is_made_with_two_settings_tells_them_apart(off):
    """Steps are worth more, or less, than was believed: the losses say so."""
    settings = lattice()
    prior = RoundsPrior.from_law(settings)
    few, many = place(settings, 8, 10), place(settings, 8, 40)
    truth = prior.mean + off * np.log(settings.steps / 10) / np.log(4)
    places = np.repeat([few, many, few, many], 8)
    losses, _ = losses_of(settings, truth, places, noise=0.02)
    found = training_posterior(prior, losses, places, 2.0, 0.2).log_rounds
    gap, true, before = (x[..., many] - x[..., few] for x in (found, truth, prior.mean))
    assert abs(gap.mean() - true) < 0.4 * abs(true - before)
    beyond = place(settings, 8, 80)  # and of a setting that was not run
    learnt = (found[:, beyond] - found[:, few]).mean() - (prior.mean[beyond] - prior.mean[few])
    assert learnt * off > 0


def test_the_stage_and_the_rest_of_a_run_are_those_it_was_made_with():
    settings = lattice()
    prior = RoundsPrior.from_law(settings)
    here = place(settings, 8, 20)
    truth = prior.mean + 0.5  # everything takes longer than is usual
    places = np.full(30, here)
    losses, stage = losses_of(settings, truth, places, noise=0.01)
    found = training_posterior(prior, losses, places, 2.0, 0.2)
    left = (found.end[:, here] - found.stage[:, 0]) / found.speed[:, here]
    end = end_of(SHAPE, np.array([8.0]), np.log(10))
    true = (end - stage[-1]) / (stage[-1] / 30)
    assert np.median(left) == pytest.approx(float(true[0]), rel=0.25)
    assert losses[-1] > 0.2  # it is not there yet


def test_more_clients_lower_the_loss_at_once():
    """What comes with them is put down to noise, not to speed."""
    settings = lattice()
    prior = RoundsPrior.from_law(settings)
    one, many = place(settings, 1, 20), place(settings, 32, 20)
    places = np.repeat([one, many], [20, 6])
    shape = SHAPE + np.array([0.0, 0.0, 0.7])
    losses, _ = losses_of(settings, prior.mean, places, shape, noise=0.02)
    assert losses[20] < 0.5 * losses[19]
    found = training_posterior(prior, losses, places, 2.0, 0.2).log_rounds
    gap = (found[:, many] - found[:, one]).mean()
    assert gap == pytest.approx(prior.mean[many] - prior.mean[one], abs=0.15)


def test_posterior_handles_unevaluated_rounds_and_long_runs():
    settings = lattice()
    prior, here = RoundsPrior.from_law(settings), place(lattice(), 8, 20)
    places = np.full(400, here)
    losses, stage = losses_of(settings, prior.mean + 3, places, noise=0.02)
    assert 0.5 < stage[-1] < 1
    sparse = np.where(np.arange(1, 401) % 7, np.nan, losses)
    for seen in (losses, sparse):
        found = training_posterior(prior, seen, places, 2.0, 0.2)
        assert np.median(found.stage) == pytest.approx(stage[-1], rel=0.4)  # usual: 10 times it


@pytest.mark.parametrize("rounds", [1, 7, 40])
def test_the_average_counts_rounds_as_the_delivered_model_does(rounds):
    """Its weights sum to 1, and their squares say how far it damps noise."""
    weights = average_of(np.eye(rounds))[-1]
    assert weights.sum() == pytest.approx(1)
    damped = average_of(np.ones(rounds), power=2)[-1]
    assert damped == pytest.approx(weights @ weights)
    assert 1 / damped == pytest.approx(float(average_gain(np.array(float(rounds)))), rel=0.06)


def test_progress_lags_after_a_change_of_setting_with_the_average_only():
    which = np.repeat([0, 1], [30, 10])
    last, average = progress_of(which, False), progress_of(which, True)
    assert_array_equal(last[-1], [30, 10])
    assert_allclose(average[:30], last[:30])
    assert_allclose(average.sum(1), last.sum(1))
    assert 7 < average[-1, 1] < 9.5


def test_losses_of_an_average_are_fitted_with_less_noise_of_few_clients():
    """Where damped noise is mistaken for that of one model, the gap of two settings is wrong."""
    settings = lattice()
    prior = RoundsPrior.from_law(settings)
    one, many = place(settings, 1, 20), place(settings, 16, 20)
    places = np.repeat([many, one], [20, 20])
    way, effective = np.log(10), np.exp(settings.coordinates[:, 0])
    shape = SHAPE + np.array([0.0, 0.0, 0.5])
    total = average_gain(np.maximum(np.exp(prior.mean), places.size))
    speed = end_of(shape, effective * total, way) * np.exp(-prior.mean)
    stage = average_of(speed[places].cumsum())
    noise = level_of(shape, 1 / average_of(1 / effective[places], power=2), way)
    losses = 2.0 * np.exp(noise - way * share_of_way(shape, stage))
    gaps = [
        (found[:, one] - found[:, many]).mean() - (prior.mean[one] - prior.mean[many])
        for averaged in (True, False)
        for draws in [training_posterior(prior, losses, places, 2.0, 0.2, averaged=averaged)]
        for found in [draws.log_rounds]
    ]
    assert abs(gaps[0]) < 0.1
    assert abs(gaps[1]) > 2 * abs(gaps[0])


def test_a_widened_prior_is_less_sure_and_learns_more():
    settings = lattice()
    prior = RoundsPrior.from_law(settings)
    few, many = place(settings, 8, 10), place(settings, 8, 40)
    truth = prior.mean + 1.5 * np.log(settings.steps / 10) / np.log(4)
    places = np.repeat([few, many], 8)
    losses, _ = losses_of(settings, truth, places, noise=0.02)
    usual, wide = (
        training_posterior(prior, losses, places, 2.0, 0.2, widening=w) for w in (1.0, 3.0)
    )
    assert_allclose(wide.doubt, 3 * usual.doubt, rtol=0.01, atol=1e-3)
    gaps = [(x.log_rounds[:, many] - x.log_rounds[:, few]).mean() for x in (usual, wide)]
    assert gaps[0] + 0.1 < gaps[1] < truth[many] - truth[few] + 0.1
