"""Which setting is chosen, and when one is kept."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell.planning.adaptive.controller import Forecast
from fedcell.planning.adaptive.decision import (
    CLEAR_SD,
    MAX_RATIO,
    MIN_SAVING,
    near,
    remaining_run,
    remaining_with,
)
from fedcell.planning.adaptive.posterior import TrainingPosterior, training_posterior
from fedcell.planning.pilot.prior import GENERIC_LAW, RoundsPrior
from support.adaptive import changed, lattice, losses_of, place


def known(settings, log_rounds, stage=0.2, doubt=0.0):
    """A posterior without uncertainty, or with that of the prior only."""
    end = np.ones((4, settings.cohorts.size))
    return TrainingPosterior(
        stage=np.full((4, 1), stage),
        end=end,
        log_rounds=np.tile(log_rounds, (4, 1)),
        doubt=np.full(settings.cohorts.size, doubt),
        never=np.zeros(settings.cohorts.size, bool),
    )


def test_the_best_setting_is_kept():
    settings = lattice(lambda k, e: 1 + 0.1 * k + 0.02 * e)
    rounds = GENERIC_LAW.rounds(settings.cohorts, settings.steps)
    best = int((rounds * settings.costs).argmin())
    assert changed(known(settings, np.log(rounds)), settings, best, 5, 5) is None


def test_a_better_setting_is_gone_to_no_further_than_trusted():
    settings = lattice(lambda k, _: k * 1.0)
    now = place(settings, 16, 20)
    change = changed(known(settings, np.full(30, np.log(40.0))), settings, now, 5, 5)
    assert change is not None
    k = settings.cohorts[change.place]
    assert k == min(x for x in settings.cohorts if 16 / x <= MAX_RATIO)
    assert change.rounds == pytest.approx(32)  # 0.8 of the way, of 40
    assert change.saved == pytest.approx(1 - k / 16)


@pytest.mark.parametrize("stage", [0.2, 0.8])
def test_a_saving_is_to_be_clear_against_its_doubt(stage):
    """Early on as well, when much could still be learnt from it."""
    settings = lattice(lambda k, _: np.where(k == 8, 0.7, 1.0))
    now, logs = place(settings, 16, 20), np.full(30, np.log(40.0))
    rest = remaining_run(known(settings, logs, stage), settings, now, 5, 5, now)
    clear = (-rest.more.min() - MIN_SAVING) / CLEAR_SD
    assert clear > 0.1
    assert changed(known(settings, logs, stage, 0.9 * clear), settings, now, 5, 5) is not None
    assert changed(known(settings, logs, stage, 1.1 * clear), settings, now, 5, 5) is None


def test_failed_forecasts_make_a_change_need_more():
    settings = lattice(lambda k, _: np.where(k == 8, 0.75, 1.0))
    now, stands = place(settings, 16, 20), known(settings, np.full(30, np.log(40.0)))
    assert changed(stands, settings, now, 5, 5, reluctance=2) is not None  # 22 % against 20 %
    assert changed(stands, settings, now, 5, 5, reluctance=4) is None


def test_a_run_that_ends_before_the_next_look_is_left_alone():
    settings = lattice(lambda k, _: k * 1.0)
    now, logs = place(settings, 16, 20), np.full(30, np.log(40.0))
    assert changed(known(settings, logs, stage=0.86), settings, now, 5, 1) is not None
    assert changed(known(settings, logs, stage=0.89), settings, now, 5, 1) is None


def test_losses_above_their_curve_put_the_end_further_away():
    """What a run is off its curve now, it is expected to be later."""
    settings, here = lattice(), place(lattice(), 8, 20)
    prior, places = RoundsPrior.from_law(settings), np.full(40, here)
    losses, _ = losses_of(settings, prior.mean + 0.8, places, noise=0.01)
    stuck = np.where(np.arange(40) < 25, losses, losses[24])
    rest = [training_posterior(prior, seen, places, 2.0, 0.2) for seen in (losses, stuck)]
    shifts = [stands.shift[:, here].mean() / stands.end[:, here].mean() for stands in rest]
    assert abs(shifts[0]) < 0.03
    assert shifts[1] > 0.03


def test_the_way_back_to_the_start_is_open_from_anywhere_and_needs_no_clarity():
    settings = lattice(lambda k, _: np.where(k == 32, 0.8, 1.0))
    start, now = place(settings, 32, 80), place(settings, 2, 5)
    stands = known(settings, np.full(30, np.log(40.0)), doubt=1.0)
    change = changed(stands, settings, now, 5, 5, start)
    assert change is not None
    assert change.place == start
    assert changed(stands, settings, now, 5, 5) is None


def test_a_forecast_is_missed_by_cost_in_standard_deviations():
    forecast = Forecast(round=15, rounds=39.0, cost=100.0, sd=0.5, stay_cost=150.0)
    assert forecast.surprise(spent=60.0, left=40.0) == pytest.approx(0)
    assert forecast.surprise(spent=60.0, left=100 * np.e - 60) == pytest.approx(2)
    assert forecast.failed(spent=60.0, left=160.0)
    assert not forecast.failed(spent=60.0, left=140.0)  # by less than FAILED_SD
    assert not replace(forecast, stay_cost=250.0).failed(spent=60.0, left=160.0)


def test_a_run_may_be_finished_by_more_clients():
    """Cheap rounds with few, and a few dear ones at the end: less than either alone."""
    settings = lattice(lambda k, _: k * 1.0)
    one, two = place(settings, 1, 20), place(settings, 2, 20)
    stands = known(settings, np.full(30, np.log(100.0)), stage=0.0)
    end = stands.end.copy()
    end[:, settings.cohorts == 1] = 3.0  # noise: with one client the target is far
    stands = replace(stands, end=end, log_rounds=np.log(100 * end))  # as fast as the others
    rounds, cost = remaining_with(stands, settings, one, one, 5, 5)
    assert_allclose(rounds, 100)
    assert_allclose(cost, 95 * 1 + 5 * 2)
    assert_allclose(remaining_with(stands, settings, two, two, 5, 5)[1], 200)


def test_near_is_within_a_factor_of_both():
    settings = lattice()
    now = place(settings, 4, 20)
    found = near(settings, now)
    k, e = settings.cohorts / 4, settings.steps / 20
    assert_array_equal(
        found, (k <= MAX_RATIO) & (k >= 1 / MAX_RATIO) & (e <= MAX_RATIO) & (e >= 1 / MAX_RATIO)
    )
