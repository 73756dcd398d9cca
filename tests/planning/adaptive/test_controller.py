"""Runs that adapt: when they change, why, and when they go back."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import (
    Adaptation,
    Compute,
    Region,
    Target,
    load_scenario,
    plan_training,
    run,
    run_adaptive,
)
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.simulate import price_trace
from fedcell.planning.adaptive.controller import AdaptivePlan, Forecast
from fedcell.planning.adaptive.decision import RemainingRun, choose_change
from fedcell.planning.adaptive.posterior import training_posterior
from fedcell.planning.adaptive.run import adaptive
from fedcell.planning.pilot.prior import GENERIC_LAW
from fedcell.planning.setting import Setting
from fedcell.simulation.execution import execute
from fedcell.simulation.run import prepare_run
from support.adaptive import POLICY, changed, files, said, stop_after
from support.quadratics import MISLED, NARROW, QUADRATICS, SLOW, STEPS_ARE_WORTHLESS


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
