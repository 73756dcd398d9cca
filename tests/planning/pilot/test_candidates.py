"""Where a pilot looks: towards what costs least, in time, and never beyond what it tried."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import Scenario, load_scenario, plan_training, run_pilot
from fedcell.learning import prepare_training
from fedcell.network import simulate_network
from fedcell.planning.pilot.candidates import CandidateSettings, lattice, search_space
from fedcell.planning.pilot.loop import PilotLoop
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.runner import PilotRunner, TrialJob
from fedcell.planning.pilot.trial import Trial
from fedcell.planning.setting import Region, Setting
from fedcell.scenario.target import Target
from fedcell.simulation.extrapolation import has_settled, least_rounds, likely_rounds

TARGET = Target(loss=0.5, hold=1)


# What curves say before they are there.


def falling(rounds, rate=0.02, level=0.0):
    return level + (2.3 - level) * np.exp(-rate * np.arange(1, rounds + 1))


@pytest.mark.parametrize("rate", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_forecast_is_never_too_late_on_curves_that_level_off(rate, noise):
    whole = falling(1000, rate)
    noisy = whole + noise * np.random.default_rng(0).standard_normal(1000)
    there = int(np.argmax(whole <= 0.5)) + 1
    for seen in range(20, there, 5):
        assert seen <= least_rounds(noisy[:seen], TARGET) <= 1.05 * there, seen


@pytest.mark.long
def test_a_curve_whose_luck_lasts_is_not_given_up_for_it():
    """Where one round is off the next is too: a stretch of bad ones looks like a curve at rest."""
    late = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        luck = np.zeros(400)
        for t in range(1, 400):
            luck[t] = 0.9 * luck[t - 1] + 0.05 * rng.standard_normal()
        curve = falling(400, 0.01) + luck
        there = TARGET.reached(curve)
        assert there is not None
        late += max(least_rounds(curve[:n], TARGET) for n in range(20, there)) > 1.05 * there
    assert late <= 10


def test_a_forecast_says_nothing_of_a_beginning():
    assert least_rounds(falling(10), TARGET) == 10
    plateau = np.r_[np.full(15, 2.3), 2.3 * np.exp(-np.arange(60) / 10)]
    assert least_rounds(plateau[:19], TARGET) == 19


def test_a_settled_curve_is_distinguished_from_a_falling_one():
    noise = 0.15 * np.random.default_rng(1).standard_normal(300)
    assert has_settled(falling(300, 0.1, level=0.9) + noise, TARGET)
    assert not has_settled(falling(100, 0.005), TARGET)
    assert not has_settled(falling(300, 0.1, level=0.49) + noise, TARGET)
    accurate = Target(accuracy=0.9, hold=5)
    assert has_settled(0.7 + 0.02 * np.random.default_rng(2).standard_normal(200), accurate)
    assert not has_settled(np.linspace(0.1, 0.85, 200), accurate)
    assert least_rounds(np.linspace(0.1, 0.5, 41), accurate) == pytest.approx(81 / 1.5, abs=1)


# The lattice.


@given(st.integers(1, 50), st.integers(0, 2000), st.floats(1.1, 3))
def test_a_lattice_has_its_ends_and_no_gaps(low, more, ratio):
    values = lattice(low, low + more, ratio)
    assert (values[0], values[-1]) == (low, low + more)
    assert (np.diff(values) > 0).all()
    assert (values[1:] <= np.maximum(values[:-1] + 1, np.rint(values[:-1] * ratio))).all()


def test_a_space_is_what_rounds_cost_under_the_best_policy():
    scenario = load_scenario("paper").using(plan={"cohort": 5})
    space = search_space(scenario, Region(clients=(3, 20), steps=(5, 80)))
    assert (space.cohorts.min(), space.cohorts.max()) == (3, 20)
    assert (space.steps.min(), space.steps.max()) == (5, 80)
    place = space.index_of(Setting(3, 5, scenario.cell.loss_rate))
    assert space.costs[place] == space.costs.min()  # the least of both
    energy = search_space(scenario, Region((3, 20), (5, 80), minimise="energy"))
    assert not np.allclose(space.costs / energy.costs, space.costs[0] / energy.costs[0], rtol=0.01)


# A search with a clock of its own.


class Clock:
    """Time that passes only while trials run."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@dataclass(kw_only=True)
class Made(PilotRunner):
    """Runs whose rounds follow a law, on a clock."""

    law: Any
    seconds: Any
    clock: Clock

    def run(self, ask):
        rng = np.random.default_rng([ask.seed % 2**32, ask.setting.cohort, ask.setting.local_steps])
        k, e = ask.setting.cohort, ask.setting.local_steps
        luck = np.exp(0.1 * rng.standard_normal() + 0.05 * np.sin(ask.seed))
        needed = max(1, round(self.law(k, e) * luck))
        left = min(ask.deadline, 1e9) - self.clock.now
        made = min(needed, ask.rounds, int(left / self.seconds(k, e)) + 1)
        seconds = made * self.seconds(k, e)
        self.clock.now += seconds
        losses = (0.5 + 2 * (1 - np.arange(1, made + 1) / needed)).tolist()
        if made == needed:
            losses[-1] = 0.4
        return Trial(
            setting=ask.setting,
            seed=ask.seed,
            losses=tuple(losses),
            target=TARGET,
            wall_seconds=seconds,
        )


def look(law, costs, budget, seconds, count=60, monkeypatch=None, kind=Made, engine=None):
    clock = Clock()
    monkeypatch.setattr("fedcell.planning.pilot.loop.time", clock)
    given = {"law": law, "seconds": seconds, "clock": clock}
    runner = kind(scenario=Scenario(), target=TARGET, engine=engine, **given)
    k, e = (
        x.ravel() for x in np.meshgrid(lattice(1, count, 1.4), lattice(1, 300, 1.5), indexing="ij")
    )
    space = CandidateSettings(k, e, 0.0, "independent", np.asarray(costs(k, e), float))
    empty = Pilot(identity={}, target=TARGET, seed=0, kind="independent")
    search = PilotLoop(runner, empty, space, list(range(100)), 1000, budget, budget)
    *_, (_, pilot) = search.trials()
    law_found = pilot.fit()
    best = space.setting(space.best(law_found, pilot.reached(TARGET)))
    truth = law(k, e) * space.costs
    regret = float(
        law(best.cohort, best.local_steps) * space.costs[space.index_of(best)] / truth.min()
    )
    return pilot, best, regret - 1, clock.now


def factory(k, e):
    """Rounds of a fleet whose few clients never get there: the loss of one settles above."""
    k, e = np.asarray(k, float), np.asarray(e, float)
    rounds = 8 + 40 / k + 300 / e + 0.03 * e / np.sqrt(k)
    steady = 1 - 0.25 * np.sqrt(e / 40) / k**1.5
    return np.where(steady > 0.02, rounds / np.maximum(steady, 0.02), 1e6)


@pytest.mark.parametrize(
    ("upload", "compute", "broadcast"),
    [
        (0.02, 0.02, 20.0),
        *(
            pytest.param(*costs, marks=pytest.mark.long)
            for costs in [(3.0, 0.05, 0.0), (0.1, 0.3, 1.0), (20.0, 0.01, 0.5), (1.0, 2.0, 0.0)]
        ),
    ],
)
def test_a_plan_is_near_the_best_wherever_costs_put_it(upload, compute, broadcast, monkeypatch):
    """Dear uploads want few clients and many steps, dear steps the contrary."""
    costs = lambda k, e: upload * k + compute * e + broadcast
    seconds = lambda k, e: 1e-3 + 1e-4 * k * e
    pilot, best, regret, _ = look(factory, costs, 120.0, seconds, monkeypatch=monkeypatch)
    assert best in pilot.tried
    assert regret < 0.12, (best, regret)


@pytest.mark.parametrize(
    "slowness", [*(pytest.param(each, marks=pytest.mark.long) for each in (1e-5, 1e-3)), 3e-2]
)
def test_a_budget_is_kept_by_fast_and_by_slow_jobs(slowness, monkeypatch):
    costs = lambda k, e: 1.0 * k + 0.1 * e + 1
    seconds = lambda k, e: 0.01 + slowness * k * e
    pilot, _, _, spent = look(factory, costs, 300.0, seconds, monkeypatch=monkeypatch)
    assert len(pilot.trials) >= 5
    assert spent <= 1.1 * 300


@pytest.mark.long
def test_hopeless_runs_take_a_small_part_of_the_time(monkeypatch):
    costs = lambda k, e: 3.0 * k + 0.05 * e
    seconds = lambda k, e: 1e-3 + 1e-4 * k * e
    pilot, *_ = look(factory, costs, 120.0, seconds, monkeypatch=monkeypatch)
    cut = [t for t in pilot.trials if t.rounds_to(TARGET) is None]
    assert sum(t.wall_seconds for t in cut) < 0.3 * sum(t.wall_seconds for t in pilot.trials)


CHEAP = {"costs": lambda k, e: k + 0.1 * e + 1, "seconds": lambda k, e: 1e-3 + 1e-4 * k * e}


@pytest.mark.long
def test_many_workers_are_given_something_to_do(monkeypatch):
    """All ask at once, before anything is known: that is no end."""

    class Many(Made):
        @property
        def workers(self):
            return 8

        def run_all(self, asked):
            asked, running = iter(asked), []
            while True:
                running += [ask for ask, _ in zip(asked, range(8 - len(running)), strict=False)]
                if not running:
                    return
                yield self.run(running.pop(0))

    pilot, *_ = look(factory, budget=200.0, kind=Many, monkeypatch=monkeypatch, **CHEAP)
    assert len(pilot.trials) > 40
    assert len({(t.setting, t.seed) for t in pilot.trials}) == len(pilot.trials)


@pytest.mark.long
def test_settings_that_diverge_are_run_only_once(monkeypatch):
    class Wild(Made):
        def run(self, ask):
            made = super().run(ask)
            diverged = ask.setting.local_steps >= 15
            return replace(made, losses=(2.0, np.inf)) if diverged else made

    pilot, best, *_ = look(factory, budget=100.0, kind=Wild, monkeypatch=monkeypatch, **CHEAP)
    diverged = [t for t in pilot.trials if t.diverged]
    assert len({t.setting for t in diverged}) == len(diverged)
    assert best.local_steps < 15


@pytest.mark.long
def test_a_setting_that_diverged_once_is_not_the_best(monkeypatch):
    """It reached the target before and may look best, but a plan must not use it."""

    class Once(Made):
        def run(self, ask):
            made = super().run(ask)
            diverged = ask.setting.local_steps >= 15 and ask.seed == 1
            return replace(made, losses=(2.0, np.inf)) if diverged else made

    pilot, best, *_ = look(factory, budget=100.0, kind=Once, monkeypatch=monkeypatch, **CHEAP)
    wild = {trial.setting for trial in pilot.trials if trial.diverged}
    assert best not in wild
    assert max(sum(t.setting == s for t in pilot.trials) for s in wild) <= 2


def test_an_interrupt_leaves_no_gap_that_is_run_for_ever(monkeypatch):
    """The second seed was done and the first was not: the first comes next."""
    search = looking(monkeypatch)
    here = search.settings.first()[0]
    done = Trial(setting=here, seed=1, losses=(0.4,), target=TARGET, wall_seconds=1.0)
    search.pilot = search.pilot.with_trial(done)
    asks = [search._job(here, 50)]
    search.in_flight.add((here, asks[0].seed))
    asks.append(search._job(here, 50))
    assert [ask.seed for ask in asks] == [0, 2]


def looking(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("fedcell.planning.pilot.loop.time", clock)
    given = {"law": factory, "seconds": lambda *_: 1.0, "clock": clock}
    runner = Made(scenario=Scenario(), target=TARGET, **given)
    k, e = (x.ravel() for x in np.meshgrid(lattice(1, 20, 1.4), lattice(1, 50, 1.5)))
    space = CandidateSettings(k, e, 0.0, "independent", np.ones(k.size))
    empty = Pilot(identity={}, target=TARGET, seed=0, kind="independent")
    return PilotLoop(runner, empty, space, list(range(10)), 100, 100.0, 100.0)


def test_a_pilot_tries_fewer_steps_if_its_first_trials_diverge(monkeypatch):
    search = looking(monkeypatch)
    for setting in search.settings.first():
        wild = Trial(setting=setting, seed=0, losses=(np.inf,), target=TARGET, wall_seconds=1.0)
        search.pilot = search.pilot.with_trial(wild)
    ask = search._next(search._runs())
    tried = search.pilot.tried
    assert ask.setting.local_steps < min(s.local_steps for s in tried)
    assert ask.setting.cohort >= max(s.cohort for s in tried)


# The factory, for real: on digits.


@pytest.mark.long
def test_a_plan_for_an_arbitrary_fleet_is_near_the_best_of_a_grid(tmp_path):
    """Mixed devices, three classes a client, log-normal sizes, a tenth lost. The measured cost of
    the plan, against that of settings around it on seeds that the pilot has not seen."""
    world = load_scenario("digits").using(
        clients={"count": 40},
        cell={"bandwidth": 2e6, "distance": (10.0, 300.0), "broadcast_time": 0.0},
        learning={"target": 0.5, "partition": {"kind": "pathological", **LOGNORMAL}},
    )
    pilot = run_pilot(
        world, budget=20.0, path=tmp_path / "pilot.json", region=Region(steps=(2, 160))
    )
    plan = plan_training(world, pilot)
    here = Setting(plan.cohort, plan.local_steps, world.cell.loss_rate)
    assert here in pilot.reached(pilot.target)
    space = search_space(prepare_training(world).scenario, Region(steps=(2, 160)))
    costs = np.exp(space.log_costs(pilot.fit())[0])
    assert costs[space.index_of(here)] <= 1.1 * costs[np.isfinite(costs)].min()
    assert plan.rounds.low < plan.rounds.value < plan.rounds.high < 3 * plan.rounds.low
    runner = PilotRunner(scenario=world, target=pilot.target)
    measured = {}
    for k in {max(1, here.cohort // 2), here.cohort, 2 * here.cohort, 4 * here.cohort}:
        for e in {here.local_steps // 3, here.local_steps, 3 * here.local_steps}:
            setting = Setting(k, e, here.loss_rate)
            runs = [runner.run(TrialJob(setting, seed, 150)) for seed in (1, 2, 3)]
            rounds = [r.rounds_to(pilot.target) or 300 for r in runs]
            ledger = simulate_network(
                prepare_training(setting.apply_to(world)).scenario, plan.policy, 100
            )
            measured[k, e] = np.mean(rounds) * ledger.cost.mean()
    regret = measured[here.cohort, here.local_steps] / min(measured.values()) - 1
    assert regret < 0.25, measured


LOGNORMAL = {
    "num_classes_per_partition": 3,
    "sizes": "lognormal",
    "sigma": 0.5,
}


# A search that cannot starve.


def test_a_pilot_begins_with_settings_that_are_likely_to_reach_the_target():
    scenario = load_scenario("paper").using(plan={"cohort": 7, "local_steps": 30})
    own, many = search_space(scenario).first()
    assert abs(np.log(own.cohort / 7)) < 0.35
    assert abs(np.log(own.local_steps / 30)) < 0.35
    assert many.cohort >= 14
    assert many.local_steps == own.local_steps
    few = search_space(scenario, Region((1, 3), (1, 2)))
    assert {(s.cohort, s.local_steps) for s in few.first()} == {(3, 2)}


def test_cheap_settings_that_miss_the_target_do_not_use_up_the_budget(monkeypatch):
    """One client with few steps is cheapest by far, and takes a thousand rounds and more."""

    def rounds(k, e):
        k, e = np.asarray(k, float), np.asarray(e, float)
        return np.where((k >= 10) & (e >= 8), 20 + 200 / k + 300 / e, 1e6)

    costs = lambda k, e: 0.01 * k + 0.02 * e
    seconds = lambda k, e: 2e-3 + 1e-4 * k * e
    pilot, best, regret, _ = look(rounds, costs, 60.0, seconds, monkeypatch=monkeypatch)
    assert pilot.reached(TARGET)
    assert regret < 0.3, (best, regret)


def test_a_search_moves_outward_where_small_settings_rest_short_of_the_target(monkeypatch):
    search = looking(monkeypatch)
    rest = 0.9 + 0.01 * np.random.default_rng(0).standard_normal(200)
    for setting in search.settings.first():
        trial = Trial(setting=setting, seed=0, losses=tuple(rest), target=TARGET, wall_seconds=1.0)
        search.pilot = search.pilot.with_trial(trial)
    ask = search._next(search._runs())
    tried = search.pilot.tried
    assert ask.setting not in tried
    assert all(ask.setting.cohort * ask.setting.local_steps > 0 for _ in tried)
    assert ask.setting.cohort > max(s.cohort for s in tried) or ask.setting.local_steps > max(
        s.local_steps for s in tried
    )


def test_runs_beyond_the_ranges_or_of_another_measure_do_not_stop_a_search(monkeypatch):
    search = looking(monkeypatch)
    beyond = Setting(400, 1000, 0.0)
    far = Trial(setting=beyond, seed=0, losses=(1.0, 0.4), target=TARGET, wall_seconds=1.0)
    search.pilot = search.pilot.with_trial(far)
    assert search.pilot.reached(TARGET) == (beyond,)
    assert search._next(search._runs()) is not None
    search = looking(monkeypatch)
    goal = Target(accuracy=0.9, hold=1)
    search.pilot = replace(search.pilot, target=goal)
    own = search.settings.first()[0]
    blind = Trial(setting=own, seed=0, losses=(1.0, 0.4), target=TARGET, wall_seconds=1.0)
    search.pilot = search.pilot.with_trial(blind)
    assert search._next(search._runs()) is not None


def test_a_search_moves_inward_where_time_ran_out_before_curves_said_anything(monkeypatch):
    search = looking(monkeypatch)
    for setting in search.settings.first():
        trial = Trial(setting=setting, seed=0, losses=(2.3, 2.2), target=TARGET, wall_seconds=12.0)
        search.pilot = search.pilot.with_trial(trial)
    ask = search._next(search._runs())
    least = min(s.cohort * s.local_steps for s in search.pilot.tried)
    assert ask.setting.cohort * ask.setting.local_steps < least


def test_a_trial_that_would_reach_the_target_gets_the_time(monkeypatch):
    search = looking(monkeypatch)
    own, many = search.settings.first()[0], search.settings.nearest(20, 50)
    falls = tuple((2.3 * np.arange(1, 61) ** -0.3).tolist())  # at the target after 162 rounds
    for setting, losses in ((own, falls), (many, (2.3, 2.2))):
        trial = Trial(setting=setting, seed=0, losses=losses, target=TARGET, wall_seconds=6.0)
        search.pilot = search.pilot.with_trial(trial)
    search.rounds = 1000
    ask = search._next(search._runs())
    assert ask.setting == own
    assert ask.deadline == pytest.approx(1.5 * 0.1 * 162, rel=0.05)


def test_running_trials_read_the_cost_of_finished_ones(monkeypatch):
    search = looking(monkeypatch)
    search.rounds, search.runner.seconds = 1000, lambda *_: 0.01
    states = search.trials()
    trial = next(trial for trial, _ in states if trial.rounds_to(TARGET))
    cost = trial.rounds_to(TARGET) * search.settings.costs[search.settings.index_of(trial.setting)]
    assert float(search._race.read_text()) == pytest.approx(cost)
    ask = search._job(trial.setting, 50)
    assert ask.race.file == search._race
    folder = search._race.parent
    states.close()
    assert not folder.exists()


@given(st.floats(0.1, 1.5), st.integers(60, 300))
def test_a_likely_end_of_a_power_law_is_found(power, seen):
    curve = 3.0 * np.arange(1, seen + 1.0) ** -power
    there = (3.0 / 0.05) ** (1 / power)
    found = likely_rounds(curve, Target(loss=0.05, hold=1))
    assert found == pytest.approx(max(seen, min(there, np.exp(50))), rel=1e-3)


def test_a_likely_end_is_unknown_where_a_curve_does_not_fall_or_is_short():
    assert likely_rounds(falling(20), TARGET) == np.inf
    assert likely_rounds(np.full(100, 0.9), TARGET) == np.inf
    rising = Target(accuracy=0.9, hold=1)
    curve = 1 - 0.8 * np.arange(1, 101.0) ** -0.25  # 0.9 after 4096 rounds
    assert likely_rounds(curve, rising) == pytest.approx(4096, rel=1e-3)
    assert likely_rounds(curve, Target(accuracy=1.0, hold=1)) == np.inf
