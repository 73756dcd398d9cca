"""Plans that adapt: what is believed, what losses say, what a change is worth, and whole runs."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import (
    Adaptation,
    Compute,
    GivenLaw,
    Observer,
    Region,
    Target,
    load_run,
    load_scenario,
    plan_training,
    run,
    run_adaptive,
)
from fedcell.core.files.formats import as_json
from fedcell.errors import BadFile, BadInput
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.simulate import price_trace
from fedcell.planning.adaptive.controller import AdaptivePlan, Forecast
from fedcell.planning.adaptive.decision import (
    CLEAR_SD,
    MAX_RATIO,
    MIN_SAVING,
    RemainingRun,
    choose_change,
    near,
    remaining_run,
    remaining_with,
)
from fedcell.planning.adaptive.posterior import (
    SHAPE,
    TrainingPosterior,
    average_gain,
    average_of,
    end_of,
    level_of,
    progress_of,
    share_of_way,
    training_posterior,
)
from fedcell.planning.adaptive.run import adaptive
from fedcell.planning.law.fit import fit_law
from fedcell.planning.pilot.candidates import CandidateSettings
from fedcell.planning.pilot.prior import GENERIC_LAW, RoundsPrior
from fedcell.planning.setting import Setting
from fedcell.simulation.execution import execute
from fedcell.simulation.run import prepare_run
from support.laws import FLOOR, observed
from support.quadratics import MISLED, NARROW, QUADRATICS, SLOW, STEPS_ARE_WORTHLESS

POLICY = ["optimal-staged"]


def lattice(costs=None, gamma=0.0):
    """K of 1, 2, 4, 8, 16, 32 with E_l of 5, 10, 20, 40, 80."""
    k, e = (x.ravel() for x in np.meshgrid(2 ** np.arange(6), 5 * 2 ** np.arange(5), indexing="ij"))
    found = np.ones(k.size) if costs is None else costs(k, e)
    return CandidateSettings(k, e, gamma, "independent", np.asarray(found, float))


def place(settings, cohort, steps):
    found = settings.index_of(Setting(cohort, steps, settings.loss_rate))
    assert found is not None
    return found


def losses_of(settings, log_rounds, places, shape=SHAPE, first=2.0, target=0.2, noise=0.0):
    """Losses as the model of a run has them, with noise of their logarithm."""
    way, effective = np.log(first / target), np.exp(settings.coordinates[:, 0])
    speed = end_of(shape, effective, way) * np.exp(-log_rounds)
    stage = speed[places].cumsum()
    luck = noise * np.random.default_rng(1).standard_normal(len(places))
    logs = way * share_of_way(shape, stage) - level_of(shape, effective[places], way)
    return first * np.exp(-logs + luck), stage


def changed(stands, settings, now, every, hold, start=None, reluctance=1.0):
    """The change that is chosen, from a run that began with `start`: with `now`, if left out."""
    start = now if start is None else start
    rest = remaining_run(stands, settings, now, every, hold, start)
    return choose_change(rest, now, start, every, reluctance)


# What is believed before a run.


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


# What losses say.


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


# When a change is worth it.


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


# Whole runs.


@pytest.mark.parametrize(("world", "fewer"), [(SLOW, False), (NARROW, True)])
def test_a_run_moves_to_the_better_setting_and_costs_less(world, fewer):
    """Where a round costs the same whatever is done, to more steps; where uploads are dear, to
    fewer clients."""
    stays = run(world, POLICY).outcome.policies[0].to_target
    result = run_adaptive(world, POLICY)
    adapts, last = result.outcome.policies[0].to_target, result.outcome.changes[-1]
    assert adapts.cost < 0.7 * stays.cost
    assert last.local_steps is not None
    assert last.local_steps > 2
    assert (last.cohort < 10) is fewer


@pytest.mark.long
def test_a_plan_that_is_best_already_is_hardly_changed():
    plan = plan_training(load_scenario("digits"), GENERIC_LAW)
    costs = []
    for seed in range(3):
        world = plan.apply_to()
        stays = run(world, POLICY, seed=seed).outcome.policies[0].to_target
        result = run_adaptive(world, POLICY, seed=seed)
        costs.append(result.outcome.policies[0].to_target.cost / stays.cost)
        assert not [change for change in result.outcome.changes if change.round < 11]
    assert np.median(costs) < 1.05


def test_a_run_costs_what_its_segments_cost_priced_one_by_one():
    result = run_adaptive(NARROW, ["even", *POLICY], seed=2)
    changes = result.outcome.changes
    assert len(changes) >= 2
    ends = [c.round - 1 for c in changes] + [result.state.rounds]
    plans = [(10, 2), *((c.cohort, c.local_steps) for c in changes)]
    prepared = prepare_run(NARROW, seed=2).first.scenario
    for policy, ledger in result.ledgers.items():
        parts, begin = [], 0
        for (k, e), end in zip(plans, ends, strict=True):
            world = prepared.with_plan(k, e)
            fleet = draw_fleet(world, 2)
            trace = draw_trace(world, fleet, range(begin, end), 2)
            parts.append(price_trace(world, fleet, trace, policy, 2))
            begin = end
        assert_array_equal(ledger.cost, np.concatenate([part.cost for part in parts]))
        assert_allclose(ledger.totals.energy, sum(part.totals.energy for part in parts))
        assert_array_equal(ledger.totals.called, sum(part.totals.called for part in parts))


def test_why_has_the_numbers_that_hold():
    result = run_adaptive(SLOW, POLICY)
    change, losses = result.outcome.changes[0], result.state.history.train_loss
    steering = adaptive(prepare_run(SLOW, POLICY)).controller
    now = steering.settings.index_of(Setting(10, 2, 0.0))
    first = steering.initial.train_loss
    here = np.full(5, now)
    stands = training_posterior(steering.prior, losses[:5], here, first, 0.6, averaged=True)
    found = changed(stands, steering.settings, now, 5, 1)
    assert (change.round, change.cohort) == (6, steering.settings.cohorts[found.place])
    numbers = re.fullmatch(
        r"loss (\S+) after (\d+) rounds: (\d+) more are expected with 10 clients a round, 2 steps "
        r"each, and (\d+) with (\d+) clients a round, (\d+) steps each: (\d+)% less cost",
        change.why,
    )
    assert numbers is not None, change.why
    loss, *whole = numbers.groups()
    assert float(loss) == pytest.approx(losses[4], rel=0.005)
    expected = [5, found.rounds_before, found.rounds, change.cohort, change.local_steps]
    assert list(map(int, whole)) == [round(x) for x in (*expected, 100 * found.saved)]


# When a forecast fails.

FAILURE = re.compile(
    r"forecast at round (\d+) failed: (\d+) more rounds were expected, (\d+) are done and (\d+) "
    r"more are expected: back to 10 clients a round, 16 steps each"
)


def misled(**options):
    return run_adaptive(
        MISLED,
        POLICY,
        **options,
        adaptation=Adaptation(start=STEPS_ARE_WORTHLESS, region=Region(clients=(10, 10))),
    )


def test_settings_of_a_failed_forecast_are_excluded_from_then_on(monkeypatch):
    seen = []

    def choose(*given):
        seen.append(set(given[5]))
        return choose_change(*given)

    monkeypatch.setattr("fedcell.planning.adaptive.controller.choose_change", choose)
    prepared = prepared_misled()
    result, settings = execute(prepared), prepared.controller.settings
    left = [
        settings.index_of(Setting(c.cohort, c.local_steps, 0.0)) for c in result.outcome.changes
    ]
    back = next(i for i, c in enumerate(result.outcome.changes) if FAILURE.fullmatch(c.why))
    assert seen[0] == set()
    assert left[back - 1] in seen[-1]  # what it left when it went back
    assert left[back] not in seen[-1]  # where it began


def test_an_excluded_setting_is_not_chosen():
    rest = RemainingRun(
        indices=np.array([0, 1, 2]),
        rounds=np.array([50.0, 40.0, 45.0]),
        costs=np.array([100.0, 40.0, 60.0]),
        more=np.log([1.0, 0.4, 0.6]),
        sd=np.array([0.0, 0.1, 0.1]),
        cost_sd=np.full(3, 0.1),
    )
    assert choose_change(rest, 0, 0, 5).place == 1
    assert choose_change(rest, 0, 0, 5, excluded={1}).place == 2
    assert choose_change(rest, 0, 0, 5, excluded={1, 2}) is None
    unsure = replace(rest, sd=np.array([0.0, 0.9, 0.6]))
    assert choose_change(unsure, 0, 0, 5) is None
    assert choose_change(replace(unsure, hopeless=True), 0, 0, 5).place == 1


def test_a_failed_forecast_takes_the_run_back_to_its_start():
    stays = run(MISLED, POLICY).outcome.policies[0].to_target
    result = misled()
    first, *_, last = result.outcome.changes
    assert first.local_steps < 16
    assert (last.cohort, last.local_steps) == (10, 16)
    failed = FAILURE.fullmatch(last.why)
    assert failed is not None, last.why
    made, expected, done, left = map(int, failed.groups())
    assert made == first.round - 1
    assert done == last.round - 1 - made
    assert done + left > 1.5 * expected
    assert int(first.why.split(", and ")[1].split()[0]) == expected
    assert result.outcome.policies[0].to_target.cost < 1.15 * stays.cost


def test_a_prior_that_is_not_widened_keeps_the_run_away_for_longer(monkeypatch):
    """It takes the whole world to be slow, and the first setting with it."""
    import fedcell.planning.adaptive.controller as module

    usual = misled().outcome
    monkeypatch.setattr(module, "MAX_WIDENING", 1.0)
    never = misled().outcome
    assert never.changes[-1].round > usual.changes[-1].round
    costs = [o.policies[0].to_target.cost for o in (usual, never)]
    assert costs[1] > 1.2 * costs[0]


def test_a_run_that_went_back_resumes_to_the_same_bits(tmp_path):
    straight = misled(folder=tmp_path / "straight")
    back = straight.outcome.changes[-1]
    assert FAILURE.fullmatch(back.why)
    for rounds in (7, back.round - 1, back.round, back.round + 6):
        folder = tmp_path / str(rounds)
        assert not misled(folder=folder, observer=stop_after(rounds)).complete
        assert said(misled(folder=folder, resume=True)) == said(straight)
        assert files(folder) == files(tmp_path / "straight")


def prepared_misled():
    return adaptive(
        prepare_run(MISLED, POLICY), STEPS_ARE_WORTHLESS, region=Region(clients=(10, 10))
    )


@pytest.mark.parametrize(
    ("rounds", "spent", "more", "back"),
    [
        (20, 50.0, 0.0, True),
        (15, 50.0, 0.0, False),  # two looks after the change, which an average may not show yet
        (20, 50.0, 2.0, False),  # the first setting is clearly dearer
        (20, 150.0, 2.0, True),  # and yet more is spent than it would have cost
        (20, 20.0, 0.0, False),  # less is expected than with the first setting
    ],
)
def test_when_a_run_goes_back(rounds, spent, more, back):
    steering = prepared_misled().controller
    start, now = (steering.settings.index_of(Setting(10, e, 0.0)) for e in (16, 6))
    places = np.repeat([start, now], [5, rounds - 5])
    costs = steering.settings.costs.copy()
    costs[now] = spent / (rounds - 5)
    steering.settings = replace(steering.settings, costs=costs)
    rest = RemainingRun(
        indices=np.array([start, now]),
        rounds=np.array([50.0, 50.0]),
        costs=np.array([70.0 * np.exp(more), 70.0]),
        more=np.array([more, 0.0]),
        sd=np.array([0.5, 0.0]),
        cost_sd=np.array([0.5, 0.5]),
    )
    forecast = Forecast(round=5, rounds=30.0, cost=40.0, sd=0.3, stay_cost=100.0)
    assert steering._gives_up(forecast, rest, rest, places) is back


def test_a_missed_forecast_widens_the_posterior_once_and_for_the_rest_of_the_run():
    prepared = prepared_misled()
    steering, result = prepared.controller, execute(prepared)
    assert steering._widening > 1
    assert steering._failed == 1
    widening = steering._widening
    assert [turn.change for turn in steering.replay(result.state)] == [*result.outcome.changes]
    assert (steering._widening, steering._failed) == (widening, 1)


def test_accuracies_are_steered_to_as_losses_are():
    world, goal = load_scenario("digits"), Target(accuracy=0.85, hold=2)
    adaptation, energies = Adaptation(region=Region(minimise="energy")), []
    for seed in (1, 2):
        result = run_adaptive(world, POLICY, adaptation, target=goal, seed=seed)
        change = result.outcome.changes[0]
        assert change.why.startswith("accuracy 0.")
        assert change.why.endswith("less energy")
        fixed = run(world, POLICY, target=goal, seed=seed)
        energies.append([r.outcome.policies[0].to_target.energy for r in (result, fixed)])
    adapted, stays = np.sum(energies, axis=0)
    assert adapted < stays


def test_changes_stay_within_the_region():
    result = run_adaptive(
        NARROW, POLICY, adaptation=Adaptation(every=3, region=Region(clients=(6, 20), steps=(1, 3)))
    )
    assert {(c.round - 1) % 3 for c in result.outcome.changes} == {0}
    assert all(c.cohort >= 6 and (c.local_steps or 9) <= 3 for c in result.outcome.changes)
    assert result.outcome.changes


def test_a_controller_accepts_custom_learners_and_fleets():
    """A real federation needs this: `learner_of` receives the scenario of the next segment."""
    prepared = adaptive(prepare_run(NARROW, POLICY))
    asked = []

    def learner_of(scenario):
        asked.append((scenario.plan.cohort, scenario.plan.local_steps))
        return prepared.learner_of(scenario)

    assert isinstance(prepared.controller, AdaptivePlan)
    steering = replace(prepared.controller, learner_of=learner_of)
    result = execute(replace(prepared, controller=steering))
    assert asked == [(c.cohort, c.local_steps) for c in result.outcome.changes]


def own_quadratics(scenario, seed):
    """A custom learner that reads E_l from the scenario."""
    world = QUADRATICS.using(plan={"local_steps": scenario.plan.local_steps})
    return prepare_run(world, POLICY, seed=seed).first.learner


def test_a_custom_learner_is_made_again_for_other_steps():
    world = SLOW.using(task={"model_bits": 640.0, "cycles_per_sample": 60.0})
    ours, theirs = (
        run_adaptive(world, POLICY, compute=Compute(learner=x)) for x in (None, own_quadratics)
    )
    assert_array_equal(ours.state.model, theirs.state.model)
    assert ours.outcome.changes == theirs.outcome.changes


# Going on.


def files(folder):
    names = ("ledger.csv", "clients.csv", "history.csv", "changes.csv", "summary.json")
    with np.load(folder / "checkpoint.npz") as saved:
        return [saved["model"].tobytes(), *((folder / name).read_bytes() for name in names)]


def said(result):
    """The outcome as JSON, in which a missing score equals another."""
    return as_json(result.to_dict())


def stop_after(rounds):
    def each(report):
        if report.round == rounds:
            raise KeyboardInterrupt

    return Observer(round=each)


@pytest.mark.parametrize("evaluate_every", [1, 3])
def test_interrupted_and_resumed_is_as_if_never_stopped(tmp_path, evaluate_every):
    world = NARROW.using(learning={"evaluate_every": evaluate_every})
    straight = run_adaptive(world, POLICY, folder=tmp_path / "straight")
    assert len(straight.outcome.changes) >= 2
    for rounds in (4, 5, 6, 10, 12):
        folder = tmp_path / str(rounds)
        cut = run_adaptive(world, POLICY, folder=folder, observer=stop_after(rounds))
        assert not cut.complete
        again = run_adaptive(world, POLICY, folder=folder, resume=True)
        assert said(again) == said(straight)
        assert files(folder) == files(tmp_path / "straight")


def test_more_rounds_are_as_if_never_stopped(tmp_path):
    world = NARROW.using(learning={"evaluate_every": 3})
    straight = run_adaptive(world, POLICY, folder=tmp_path / "straight")
    for rounds in (5, 10, 11):
        run_adaptive(
            world,
            POLICY,
            folder=tmp_path / str(rounds),
            adaptation=Adaptation(region=Region(rounds=rounds)),
        )
        run_adaptive(world, POLICY, folder=tmp_path / str(rounds), resume=True)
        assert files(tmp_path / str(rounds))[:5] == files(tmp_path / "straight")[:5]
    assert straight.outcome.changes


def test_a_change_that_a_kill_left_unwritten_is_written_when_it_goes_on(tmp_path):
    run_adaptive(NARROW, POLICY, folder=tmp_path / "straight")
    folder = tmp_path / "killed"
    run_adaptive(NARROW, POLICY, folder=folder, observer=stop_after(7))
    (folder / "changes.csv").unlink()
    run_adaptive(NARROW, POLICY, folder=folder, resume=True, observer=stop_after(8))
    assert (folder / "changes.csv").read_text().startswith("round,clients,steps,why\n6,")


def test_a_change_after_the_last_round_is_not_recorded_on_resume(tmp_path):
    """A controller may change the setting after any round; it cannot know that it was the last."""

    class Restless:
        def replay(self, state):
            return [replace(prepared.first, first_round=state.rounds)] if state.rounds else []

        def steer(self, state):
            return replace(prepared.first, first_round=state.rounds)

    prepared = prepare_run(NARROW, POLICY, rounds=1, target=None)
    steered = replace(prepared, controller=Restless())
    made = execute(steered, tmp_path / "run")
    again = execute(steered, tmp_path / "run", resume=True)
    assert made.outcome.changes == again.outcome.changes == ()
    assert_array_equal(made.state.model, again.state.model)


def test_the_folder_gives_the_changes_back(tmp_path):
    result = run_adaptive(NARROW, POLICY, folder=tmp_path / "run")
    assert said(load_run(tmp_path / "run")) == said(result)
    assert load_run(tmp_path / "run").outcome.changes == result.outcome.changes
    with (tmp_path / "run" / "changes.csv").open(newline="") as file:
        rows = [
            (int(r["round"]), int(r["clients"]), int(r["steps"]), r["why"])
            for r in csv.DictReader(file)
        ]
    assert rows == [(c.round, c.cohort, c.local_steps, c.why) for c in result.outcome.changes]


def test_a_run_is_not_resumed_with_other_adaptive_options(tmp_path):
    run_adaptive(NARROW, POLICY, folder=tmp_path / "run", observer=stop_after(4))
    often = {"adaptation": Adaptation(every=4)}
    for options, named in [(often, "adaptive.every"), ({"target": 0.5}, "adaptive.target")]:
        with pytest.raises(BadFile, match=named):
            run_adaptive(NARROW, POLICY, folder=tmp_path / "run", resume=True, **options)
    with pytest.raises(BadFile, match=r"adaptive\.every"):
        run(NARROW, POLICY, folder=tmp_path / "run", resume=True)
    run(NARROW, POLICY, folder=tmp_path / "plain", rounds=3)
    assert not (tmp_path / "plain" / "changes.csv").exists()
    with pytest.raises(BadFile, match=r"adaptive\.every"):
        run_adaptive(NARROW, POLICY, folder=tmp_path / "plain", resume=True)


@pytest.mark.parametrize(
    ("world", "options", "said"),
    [
        (QUADRATICS.using(learning={"target": None}), {}, "give a `target`, or learning.target"),
        (
            QUADRATICS.using(plan={"local_epochs": 2, "local_steps": 1}),
            {},
            "plan.local_epochs: an adaptive plan chooses plan.local_steps",
        ),
        (QUADRATICS, {"adaptation": Adaptation(every=0)}, "`every`"),
        (
            QUADRATICS,
            {"adaptation": Adaptation(start=5)},
            "`start` = 5: expected a pilot, a plan or",
        ),
        (QUADRATICS, {"resume": True}, "`resume` needs the folder"),
    ],
)
def test_what_cannot_adapt_is_refused(world, options, said):
    with pytest.raises(BadInput) as refused:
        run_adaptive(world, POLICY, **options)
    assert said in str(refused.value)
