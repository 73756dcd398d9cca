"""Drift of devices from the model, and runs that adapt to it."""

import json
import os
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Adaptation, Scenario
from fedcell.deploy.exchanges import Exchange, ExchangeFile, read_exchanges
from fedcell.deploy.server.drift import MIN_CHANGE, MIN_NET_SHARE, SMOOTHING, DeviceDrift
from fedcell.errors import BadInput
from fedcell.learning.learner import Scores
from fedcell.network import draw_fleet
from fedcell.network.channel import rate_per_hertz
from fedcell.simulation.prepared import Segment
from fedcell.simulation.state import History, State

flower = pytest.mark.flower
slow = pytest.mark.slow
WORLD = Scenario().using(
    clients={"count": 3}, plan={"cohort": 3, "local_steps": 4}, task={"cycles_per_sample": 1e5}
)
FLEET = draw_fleet(WORLD)


def row(round, client, training=1.0, upload=1.0, **more):
    """A line of exchanges.csv, of a device that took this many times as long as modelled."""
    values = {"outcome": "arrived", "modelled_training": 2.0, "modelled_upload": 5.0, **more}
    return Exchange(
        round=round,
        client=client,
        name=f"client-{client}",
        measured_training=None if training is None else 2.0 * training,
        measured_upload=None if upload is None else 5.0 * upload,
        **values,
    )


def met(client, upload):
    """What a device takes to answer without a model."""
    name = f"client-{client}"
    return Exchange(round=0, client=None, name=name, outcome="introduced", measured_upload=upload)


def factors(drift):
    """Factors by which cycles and mean rates are corrected, once the drift is adopted."""
    drift.adopt()
    fleet = drift.correct(FLEET, WORLD)
    noise = WORLD.cell.noise
    before = rate_per_hertz(FLEET.power, FLEET.mean_gain, noise)
    after = rate_per_hertz(fleet.power, fleet.mean_gain, noise)
    return fleet.cycles_per_sample / WORLD.cycles_per_sample, before / after


def test_the_first_measurement_is_taken_as_it_is_and_later_ones_by_their_weight():
    drift = DeviceDrift(3)
    drift.observe([row(1, 1, training=2.0, upload=3.0)])
    cycles, slower = factors(drift)
    assert_allclose(cycles, [1, 2, 1])
    assert_allclose(slower, [1, 3, 1], rtol=1e-6)
    drift = DeviceDrift(3)
    drift.observe([row(1, 1, training=2.0), row(2, 1, training=8.0)])
    cycles, _ = factors(drift)
    assert_allclose(cycles[1], 2 ** (1 - SMOOTHING) * 8**SMOOTHING)


def test_the_gain_is_that_with_which_5_has_the_measured_rate():
    drift = DeviceDrift(3)
    drift.observe([row(1, 2, upload=4.0)])
    drift.adopt()
    fleet, noise = drift.correct(FLEET, WORLD), WORLD.cell.noise
    then = rate_per_hertz(FLEET.power, FLEET.mean_gain, noise)
    now = rate_per_hertz(fleet.power, fleet.mean_gain, noise)
    assert_allclose(now[2], then[2] / 4, rtol=1e-9)
    assert_allclose(now[:2], then[:2], rtol=1e-9)


def test_what_every_answer_takes_is_no_upload():
    drift = DeviceDrift(3)
    drift.observe([met(0, 2.5), row(1, 0, upload=1.5)])  # 7.5 s, of which 2.5 s are the fixed part
    assert_allclose(factors(drift)[1][0], 1.0, rtol=1e-6)
    drift = DeviceDrift(3)
    fixed = 5.0 * (1 - MIN_NET_SHARE / 2)
    drift.observe([met(0, fixed), row(1, 0, upload=1.0)])  # what is left is too little to say
    assert_allclose(factors(drift)[1][0], 1.0, rtol=1e-6)
    assert drift.farthest is None


@pytest.mark.parametrize(
    "line",
    [
        row(1, 0, 9.0, 9.0, outcome="late"),
        row(1, 0, 9.0, 9.0, outcome="duplicate"),
        row(1, None, 9.0, 9.0),
        row(1, 0, None, None),
        row(1, 0, 0.0, 0.0),
        row(1, 0, 9.0, 9.0, modelled_training=None, modelled_upload=None),
    ],
)
def test_what_was_not_measured_teaches_nothing(line):
    drift = DeviceDrift(3)
    drift.observe([line])
    assert drift.farthest is None
    assert_allclose(factors(drift), 1.0, rtol=1e-6)


def test_lost_clipped_and_excluded_uploads_were_measured_too():
    for outcome in ("lost", "clipped", "excluded", "not finite"):
        drift = DeviceDrift(3)
        drift.observe([row(1, 0, 3.0, outcome=outcome)])
        assert drift.farthest == 0


def test_nothing_moves_below_the_threshold_and_the_farthest_is_named():
    drift = DeviceDrift(3)
    small = float(np.exp(0.9 * MIN_CHANGE))
    drift.observe([row(1, 0, training=small), row(1, 1, upload=1 / small)])
    assert drift.farthest is None
    drift.observe([row(1, 2, training=0.5, upload=1.3)])
    assert drift.farthest == 2
    said = drift.describe(2)
    assert said == "client-2 trains 0.5 times and uploads 1.3 times as long as was assumed"
    drift.adopt()
    assert drift.farthest is None


def test_drift_factors_are_bounded():
    drift = DeviceDrift(3)
    drift.observe([row(1, 0, training=1e30, upload=1e-30)])
    cycles, slower = factors(drift)
    assert cycles[0] == pytest.approx(1e4)
    assert np.isfinite(slower).all()


def test_a_device_twice_as_slow_ends_with_twice_the_cycles_and_its_times_agree():
    """Its modelled times follow what is adopted, and so its ratios come to one."""
    drift, assumed, ratios = DeviceDrift(3), 1.0, []
    for t in range(1, 30):
        ratios.append(2.0 / assumed)  # it takes twice as long as was assumed first
        line = row(t, 1, training=None, upload=None, outcome="arrived")
        drift.observe([replace(line, modelled_training=assumed, measured_training=2.0)])
        if t % 3 == 0 and drift.farthest is not None:
            drift.adopt()
            fleet = drift.correct(FLEET, WORLD)
            assumed = float(fleet.cycles_per_sample[1] / WORLD.cycles_per_sample)
    assert ratios[0] == 2.0
    assert ratios[-1] == pytest.approx(1.0)
    assert_allclose(factors(drift)[0], [1, 2, 1])


def test_ratios_are_relative_to_what_was_assumed_first():
    """One that gets slower after it was corrected is as slow as both say together."""
    drift = DeviceDrift(3)
    drift.observe([row(1, 0, training=2.0)])
    drift.adopt()
    drift.observe([row(2, 0, training=1.0)])  # as corrected: still twice
    assert_allclose(factors(drift)[0][0], 2.0)
    drift.observe([row(3, 0, training=2.0)])  # and now four times
    assert_allclose(factors(drift)[0][0], 2 ** (1 - SMOOTHING) * 4**SMOOTHING)


# Runs that follow it.


class Devices:
    """Stands for a federation."""

    def under(self, scenario, fleet):
        """The same with another plan."""
        return SimpleNamespace(scenario=scenario, fleet=fleet)


def state_after(rounds):
    """A state after this many rounds."""
    history = History.none()
    for t in range(rounds):
        history = history.with_round(0, Scores(1 / (t + 1), 0.0, 0.0))
    return State(np.zeros(1, np.float32), history, np.zeros(1, np.float32), deliver="average")


FIRST = Segment(scenario=WORLD, fleet=FLEET, learner=Devices())


def follower(seen=(), planned=None, every=2):
    """A controller."""
    pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")
    from fedcell.deploy.server.adaptive import AdaptiveFederation

    return AdaptiveFederation(
        federation=Devices(), first=FIRST, every=every, planned=planned, seen=list(seen)
    )


def measurements(rounds, seed=0):
    """What devices may have taken, with a device that becomes slower on its way."""
    rng = np.random.default_rng(seed)
    lines = [met(j, float(rng.uniform(0, 1))) for j in range(3)]
    for t in range(1, rounds + 1):
        for j in range(3):
            slower = 2.0 if j == 1 and t > rounds / 2 else 1.0
            training, upload = slower * rng.lognormal(0, 0.3), rng.lognormal(0, 0.5)
            lines.append(row(t, j, float(training), float(upload)))
    return lines


def lived(lines, rounds, planned=None, start=()):
    """The turns of a run as it goes."""
    watching = follower(start, planned)
    watching.replay(state_after(0))
    turns = []
    for t in range(1, rounds + 1):
        watching.observe([line for line in lines if line.round == t])
        turn = watching.steer(state_after(t))
        turns += [] if turn is None else [turn]
    return watching, turns


def same_turns(some, others):
    """Whether segments are the same to the last bit."""
    assert [t.first_round for t in some] == [t.first_round for t in others]
    for one, other in zip(some, others, strict=True):
        assert one.why == other.why
        assert one.scenario == other.scenario
        assert_array_equal(one.fleet.cycles_per_sample, other.fleet.cycles_per_sample)
        assert_array_equal(one.fleet.mean_gain, other.fleet.mean_gain)


def through_a_file(folder, lines):
    """Lines as they come back from exchanges.csv."""
    file = ExchangeFile(folder)
    file.begin(0)
    file.add(lines)
    return read_exchanges(folder)


@flower
def test_corrections_come_every_few_rounds_and_name_the_device():
    _, turns = lived(measurements(12), 12, start=measurements(0))
    assert {turn.first_round % 2 for turn in turns} == {0}
    assert 2 <= len(turns) <= 6
    assert all("client-" in turn.why for turn in turns)
    for turn in turns:
        assert turn.learner.fleet is turn.fleet
        assert turn.learner.scenario is turn.scenario
    assert turns[-1].fleet.cycles_per_sample[1] > 1.3 * turns[-1].fleet.cycles_per_sample[0]


@flower
def test_a_resumed_run_has_made_the_same_corrections(tmp_path):
    lines = measurements(12)
    _, turns = lived(lines, 12, start=lines[:3])
    replayed = follower(through_a_file(tmp_path, lines)).replay(state_after(12))
    same_turns(replayed, turns)


@flower
def test_a_resumed_run_with_new_introductions_has_made_the_same_corrections(tmp_path):
    """They reply in other times then; earlier corrections were made with the old ones."""
    lines, later = measurements(12), [met(j, 4.0 + j) for j in range(3)]
    watching, turns = lived(lines, 8, start=lines[:3])
    past = through_a_file(tmp_path, [line for line in lines if line.round <= 8])
    again = follower([*past, *later])
    same_turns(again.replay(state_after(8)), turns)
    watching.observe(later)  # from now on both know the same
    for t in range(9, 13):
        for one in (watching, again):
            one.observe([line for line in lines if line.round == t])
        some, others = watching.steer(state_after(t)), again.steer(state_after(t))
        same_turns([some] if some else [], [others] if others else [])
    # Killed once more: the file has the second introductions between rounds 8 and 9.
    third = follower([*past, *later, *(line for line in lines if line.round > 8)])
    kept = third.replay(state_after(12))
    assert [t.first_round for t in kept if t.first_round <= 8] == [t.first_round for t in turns]
    assert_array_equal(third._drift._upload, watching._drift._upload)
    assert_array_equal(third._drift._used_upload, watching._drift._used_upload)


@flower
def test_what_a_killed_run_had_begun_is_not_counted():
    lines = measurements(12)
    _, turns = lived(lines, 6, start=lines[:3])
    same_turns(follower(lines).replay(state_after(6)), turns)


class Planned:
    """Changes K after the third and the sixth round."""

    turns: ClassVar = {3: 2, 6: 1}

    def _turn(self, rounds):
        cohort = self.turns.get(rounds)
        if cohort is None:
            return None
        world = WORLD.with_plan(cohort, 4 * rounds)
        return Segment(
            scenario=world, fleet=FLEET, learner=Devices(), first_round=rounds, why=f"K {cohort}"
        )

    def steer(self, state):
        return self._turn(state.rounds)

    def replay(self, state):
        return [turn for t in range(1, state.rounds + 1) if (turn := self._turn(t))]


@flower
def test_plans_and_measurements_are_one_turn_where_they_meet(tmp_path):
    lines = measurements(12)
    _, turns = lived(lines, 12, Planned(), start=lines[:3])
    by_round = {turn.first_round: turn for turn in turns}
    assert {3, 6} <= set(by_round)
    assert by_round[3].why == "K 2"  # devices are not corrected after an odd round
    assert by_round[6].why.startswith("K 1; client-")
    plans = [(t.scenario.plan.cohort, t.scenario.plan.local_steps) for t in turns]
    assert {t.first_round for t in turns if t.scenario.plan.cohort == 1} == {
        t for t in by_round if t >= 6
    }
    assert (2, 12) in plans
    for turn in turns:  # a new plan keeps the drift of the devices
        assert_array_equal(turn.fleet.samples, FLEET.samples)
        if turn.first_round > 2:
            assert turn.fleet.cycles_per_sample[1] != WORLD.cycles_per_sample
    replayed = follower(through_a_file(tmp_path, lines), Planned()).replay(state_after(12))
    same_turns(replayed, turns)


# Devices with the ready and with a custom ClientApp, in this process.


@pytest.fixture
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


OWN = Scenario().using(
    cell={"gain_threshold": 0.0},
    clients={"count": 3},
    plan={"cohort": 3, "local_steps": 4},
    task={"cycles_per_sample": 1e6, "batch_size": 10, "samples_per_step": "batch"},
)
SAMPLES = (60, 20, 90)


def slow_fleet():
    """Three devices with a custom app; the second takes twice as long as it should; its
    uploads take no time."""
    from support.appgrids import AppGrid, places, stepping

    def seconds(place, config):
        cycles = config["local-steps"] * config["batch-size"] * 1e6
        return cycles / config["freq"] * (2 if place == 1 else 1)

    app = stepping(lambda place, w, _: w + 0.3 * (place - w), SAMPLES, seconds=seconds)
    return AppGrid(app, places(3), instant=True)


@flower
@pytest.mark.usefixtures("in_a_run")
def test_schedules_follow_a_device_that_trains_twice_as_long(tmp_path):
    from fedcell.deploy.flower import FederationOptions, run_federation

    result = run_federation(
        slow_fleet(),
        OWN,
        rounds=7,
        folder=tmp_path / "run",
        options=FederationOptions(
            policy="optimal", arrays={"w": np.zeros(5, np.float32)}, adaptation=Adaptation(every=3)
        ),
    )
    (change,) = result.outcome.changes
    assert (change.round, change.cohort) == (4, 3)
    assert change.why == "client-1 trains 2 times as long as was assumed"
    lines = [e for e in read_exchanges(tmp_path / "run") if e.round > 0]
    ratio = {(e.round, e.client): e.measured_training / e.modelled_training for e in lines}
    assert [ratio[t, 1] for t in range(1, 8)] == pytest.approx([2] * 3 + [1] * 4)
    assert [ratio[t, j] for t in range(1, 8) for j in (0, 2)] == pytest.approx([1] * 14)
    changes = (tmp_path / "run" / "changes.csv").read_text().splitlines()
    assert changes[0] == "round,clients,steps,why"
    assert changes[1].startswith("4,3,4,")


def times(folder):
    """What the devices did, without what clocks say."""
    names = ("round", "client", "outcome", "share", "freq", "modelled_training", "modelled_upload")
    lines = [e for e in read_exchanges(folder) if e.round > 0]
    return [tuple(getattr(line, name) for name in names) for line in lines]


@flower
@pytest.mark.usefixtures("in_a_run")
def test_an_adaptive_run_resumes_as_if_it_had_not_been_stopped(tmp_path):
    from fedcell.deploy.flower import FederationOptions, run_federation

    def part(folder, rounds, resume, every=2):
        return run_federation(
            slow_fleet(),
            OWN,
            rounds=rounds,
            folder=tmp_path / folder,
            resume=resume,
            options=FederationOptions(
                policy="optimal",
                arrays={"w": np.zeros(5, np.float32)},
                adaptation=Adaptation(every=every),
            ),
        )

    whole = part("whole", 7, False)
    part("parts", 3, False)
    mine = part("parts", 7, True)
    assert_array_equal(mine.state.model, whole.state.model)
    assert times(tmp_path / "parts") == times(tmp_path / "whole")
    changes = [(tmp_path / name / "changes.csv").read_text() for name in ("whole", "parts")]
    assert changes[0] == changes[1]
    with pytest.raises(Exception, match=r"different run \(adaptive.every differs\)"):
        part("parts", 9, True, every=3)


@flower
@pytest.mark.usefixtures("in_a_run")
def test_devices_get_the_steps_of_a_new_plan(tmp_path):
    """Ours read E_l in the scenario that is sent along, others in `local-steps`."""
    from fedcell.deploy.clientapp import app
    from fedcell.deploy.flower import FederationOptions
    from fedcell.deploy.server.join import join_devices
    from support.appgrids import AppGrid, places
    from support.federations import same, world

    scenario = world(tmp_path / "world.toml", count=3, cohort=3)
    grid = AppGrid(app, places(3))
    setup, federation = join_devices(grid, scenario).federation(FederationOptions(), 0)
    longer = federation.under(setup.scenario.with_plan(2, 9), federation.fleet)
    called = federation._round(0)[0]
    model = federation.start()
    uploads = list(longer.train(model, called[:1], 0))
    configs = grid.configs()
    assert len(configs) == 2
    for config in configs:
        assert config["local-steps"] == 9
        assert json.loads(config["scenario"])["plan"]["local_steps"] == 9
    from fedcell.learning import prepare_training

    by_hand = prepare_training(setup.scenario.with_plan(2, 9), 0).learner()
    first = [c["client"] for c in configs if c["client"] == called[0]]
    assert first == [called[0]]
    (expected,) = by_hand.train(model, called[:1], 0)
    assert same(np.asarray(uploads[0]), np.asarray(expected))


@flower
@slow
def test_a_killed_run_in_flower_s_simulation_keeps_the_changes_that_it_had_made(tmp_path):
    pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")
    from fedcell.deploy.local.federation import LocalFederation
    from fedcell.deploy.options import RunConfig
    from support.federations import ENOUGH, named, rounds_done, world

    world(tmp_path / "world.toml", count=3, cohort=3)
    folder = tmp_path / "run"
    config = RunConfig(
        scenario=str(tmp_path / "world.toml"),
        folder=str(folder),
        rounds=400,
        deadline=60.0,
        adaptive=True,
        every=2,
    )
    with LocalFederation(tmp_path / "federation") as federation:
        federation.start_superlink(simulation=True)
        status = federation.submit(config, 3)

        def kill():
            if (folder / "changes.csv").exists() and rounds_done(folder) >= 6:
                for pid in named("flwr-simulation"):
                    os.kill(pid, signal.SIGKILL)

        with pytest.raises(BadInput, match="ServerApp exited without writing its status"):
            federation.wait(status, ENOUGH, kill)
        done = rounds_done(folder)
        before = (folder / "changes.csv").read_text().splitlines()
        assert 6 <= done < 400
        assert len(before) > 1
        more = config.using(resume=True, rounds=done + 6)
        federation.wait(federation.submit(more, 3), ENOUGH)
    after = (folder / "changes.csv").read_text().splitlines()
    assert after[: len(before)] == before
    assert rounds_done(folder) == done + 6
    lines = [e for e in read_exchanges(folder) if e.share]
    assert [e.round for e in lines] == sorted(e.round for e in lines)
    assert {e.round for e in lines} == set(range(1, done + 7))
