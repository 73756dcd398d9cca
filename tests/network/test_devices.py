"""Devices that differ in cycles, losses and channels; and the schedule of any round of a run."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario, load_scenario, schedule_round
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.participation import (
    chance_called,
    chance_heard,
    mean_loss_rate,
    rarely_heard,
)
from fedcell.network.policies.names import NAMED
from fedcell.network.simulate import price_trace
from fedcell.planning.law.base import effective_cohort
from fedcell.policies import Broadcast, Distributed, Even, Optimal, certify, make_problem, price
from support.sealing import rewrite

FLEET = Path(__file__).parents[2] / "docs" / "fleet.toml"
MIXED = load_scenario(FLEET)


def listed(cell=None, plan=None, task=None, **columns):
    count = len(next(iter(columns.values())))
    return Scenario().using(
        clients={"table": columns},
        cell=cell or {},
        plan={"cohort": min(3, count), **(plan or {})},
        task=task or {},
    )


# Cycles of a device.


def test_cycles_of_a_device_are_charged_as_by_hand():
    """E_l = 4 steps over 100 and 50 samples, at 1e6 and 3e6 cycles: 4e8 and 6e8 cycles."""
    world = listed(
        samples=[100, 50],
        cycles_per_sample=[1e6, 3e6],
        freq_min=[5e8, 5e8],
        freq_max=[5e8, 5e8],
        plan={"cohort": 2, "local_steps": 4},
        task={"cycles_per_sample": 7e5},
    )
    fleet = draw_fleet(world)
    trace = draw_trace(world, fleet, 3)
    problem = make_problem(world, fleet, trace)
    cycles = np.array([4e8, 6e8])[trace.cohort]
    assert_allclose(problem.cycles, cycles, rtol=1e-12)
    cost = price(problem, Even(Broadcast.to(world, fleet))(problem))
    assert_allclose(cost.compute_time, cycles / 5e8)
    assert_allclose(cost.compute_energy, 5e-27 * 5e8**2 * cycles)


def test_by_26_devices_with_other_cycles_train_equally_long():
    world = listed(samples=[100, 50, 70, 10], cycles_per_sample=[1e6, 3e6, None, 2e6])
    fleet = draw_fleet(world)
    problem = make_problem(world, fleet, draw_trace(world, fleet, 20))
    told = Broadcast.to(world, fleet)
    time = price(problem, Distributed(told)(problem)).compute_time
    assert_allclose(time, np.broadcast_to(time[0, 0], time.shape), rtol=1e-12)
    mean = np.mean([100 * 1e6, 50 * 3e6, 70 * 5e5, 10 * 2e6]) * world.plan.local_steps
    assert_allclose(time[0, 0], mean / told.freq, rtol=1e-12)


def test_the_optimum_of_a_mixed_fleet_is_certified():
    fleet = draw_fleet(MIXED)
    for trace in (part for _, part in draw_trace(MIXED, fleet, 60).by_size()):
        problem = make_problem(MIXED, fleet, trace)
        best = Optimal()(problem)
        assert (certify(problem, best).gap < 1e-9).all()
        told = Broadcast.to(MIXED, fleet)
        for policy in NAMED.values():
            other = price(problem, policy(told)(problem)).objective
            assert (other >= price(problem, best).objective * (1 - 1e-9)).all()


def test_columns_with_what_all_have_anyway_change_nothing():
    plain = listed(samples=[100, 50, 70, 10], cell={"loss_rate": 0.3})
    for kind in ("independent", "worst-case"):
        world = plain.using(cell={"loss_kind": kind})
        table = world.clients.table.having(loss_rate=[0.3] * 4, cycles_per_sample=[5e5] * 4)
        same = world.using(clients={"table": table})
        one, other = (simulate_network(w, "optimal", 50) for w in (world, same))
        for name in one.column_names():
            assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_all_that_train_are_charged_their_own_cycles():
    world = listed(
        samples=[100, 100, 100], cycles_per_sample=[5e5, 5e5, 2e6], cell={"gain_threshold": 0.0}
    ).using(plan={"cohort": 1, "cohort_drawn": "after-training"}, task={"model_bits": 1.0})
    energy = simulate_network(world, "even", 30).totals.energy
    # By (26) all train for equally long, so energy is kappa c^3 / T^2: 4^3 times as much.
    assert_allclose(energy[2] / energy[0], 64, rtol=1e-5)


# Losses of a device.


@pytest.mark.parametrize("kind", ["independent", "worst-case"])
def test_losses_of_devices_nest_and_have_their_rates(kind):
    rates, rounds = np.array([0.0, 0.1, 0.4, 0.8]), 4000

    def lost(factor):
        world = listed(
            loss_rate=(factor * rates).tolist(),
            cell={"loss_kind": kind, "gain_threshold": 0.0},
            plan={"cohort": 4},
        )
        trace = draw_trace(world, draw_fleet(world), rounds)
        order = trace.cohort.argsort(1)
        return np.take_along_axis(trace.lost, order, axis=1)

    few, many = lost(0.5), lost(1.0)
    assert not (few & ~many).any()  # higher rates lose the same uploads and more
    assert not many[:, 0].any()
    if kind == "independent":
        band = 4 * np.sqrt(rates * (1 - rates) / rounds)
        assert (np.abs(many.mean(0) - rates) <= band).all()
    else:
        assert (many.sum(1) == 1).all()  # floor(0 + 0.1 + 0.4 + 0.8)
        assert many.mean(0)[3] > many.mean(0)[2] > many.mean(0)[1] > 0


def test_the_mean_loss_rate_stands_for_mixed_ones():
    """DECISIONS.md, 56: the effective cohort of mixed rates, by many drawn rounds."""
    world = listed(loss_rate=[0.02, 0.5] * 10, cell={"gain_threshold": 0.0}, plan={"cohort": 10})
    assert mean_loss_rate(world) == pytest.approx(0.26)
    received = draw_trace(world, draw_fleet(world), 40_000).received
    drawn = 1 / np.mean(1 / received[received > 0])
    stands = float(effective_cohort(10, mean_loss_rate(world)))
    assert -0.009 < stands / drawn - 1 < -0.003  # below, by about 0.6 %


def test_clients_in_outage_barely_count_in_the_mean_loss_rate():
    near_and_far = {"distance": [100, 100, 100, 600], "loss_rate": [0.1, None, 0.1, 0.9]}
    world = listed(**near_and_far, cell={"loss_rate": 0.2})
    assert mean_loss_rate(world) == pytest.approx((0.1 + 0.2 + 0.1) / 3, rel=1e-3)
    assert mean_loss_rate(Scenario()) == 0.0
    assert mean_loss_rate(listed(samples=[3, 4, 5], cell={"loss_rate": 0.3})) == 0.3


# Who takes part.


@pytest.mark.parametrize("selection", ["uniform", "weighted"])
@pytest.mark.parametrize(
    ("threshold", "cohort", "count"), [(0.05, 5, 40), (3.0, 3, 60), (1.0, 2, 6), (0.5, 36, 40)]
)
def test_how_often_clients_are_called_is_known(selection, threshold, cohort, count):
    world = Scenario().using(
        cell={"gain_threshold": threshold, "distance": (150.0, 250.0)},
        clients={"count": count, "spread": 0.5},
        plan={"cohort": cohort, "selection": selection},
    )
    fleet, rounds = draw_fleet(world), 20_000
    trace = draw_trace(world, fleet, rounds)
    seen = np.bincount(trace.cohort[trace.cohort >= 0], minlength=count) / rounds
    known = chance_called(world, fleet)
    assert known.sum() == pytest.approx(seen.sum(), rel=0.02)
    assert (np.abs(known - seen) <= 0.02 * known + 4.5 * np.sqrt(known / rounds)).all()


@pytest.mark.parametrize("selection", ["uniform", "weighted"])
def test_how_often_clients_are_called_with_measured_gains(selection):
    gains = np.random.default_rng(3).exponential(1e-13, (500, 8))
    world = Scenario().using(
        cell={"gains": gains, "gain_threshold": 0.8},
        clients={"count": 8, "samples": 100},
        plan={"cohort": 3, "selection": selection},
    )
    fleet = draw_fleet(world)
    assert_allclose(chance_heard(world, fleet), (gains >= 0.8 * gains.mean()).mean(0))
    traces = [draw_trace(world, fleet, 500, seed) for seed in range(20)]
    called = np.concatenate([t.cohort[t.cohort >= 0] for t in traces])
    seen = np.bincount(called, minlength=8) / 10_000
    assert_allclose(chance_called(world, fleet), seen, rtol=0.05)


def test_clients_that_are_hardly_heard_are_named():
    """At three times the median distance: exp(-0.05 * 3^4) = 1.7 % of rounds."""
    names, far = [f"near-{i}" for i in range(9)] + ["gate-7"], [100.0] * 9 + [300.0]
    world = listed(name=names, distance=far, samples=[50] * 9 + [150])
    assert chance_heard(world, draw_fleet(world))[9] == pytest.approx(np.exp(-0.05 * 81))
    (told,) = rarely_heard(world, draw_fleet(world))
    words = (
        "gate-7 is in outage in 98 % of rounds: its 150 samples (25 %) barely influence the model"
    )
    assert told == words
    labels = np.zeros((10, 2), int)
    labels[:9, 0], labels[9, 1] = 50, 150
    held = rarely_heard(world, draw_fleet(world), labels)
    assert held[1] == "they hold 100 % of the samples of class 1: the model barely learns it"
    lossy = listed(name=["a", "b"], loss_rate=[0.0, 0.95])
    assert (
        "b is in outage in 4.9 % of rounds and loses 95 % of its uploads"
        in rarely_heard(lossy, draw_fleet(lossy))[0]
    )


def test_many_that_are_hardly_heard_are_counted_and_all_alike_are_not_named():
    world = listed(distance=[100.0] * 12 + [500.0] * 8, samples=[10] * 20)
    told = rarely_heard(world, draw_fleet(world))
    assert len(told) == 4
    assert told[0].startswith("client 12 is in outage in more than 99.99 % of rounds")
    assert told[3] == "5 more clients barely influence the model, with 25 % of all samples"
    harsh = Scenario().using(cell={"gain_threshold": 5.0})
    assert rarely_heard(harsh, draw_fleet(harsh)) == []


# The schedule of a round.


@pytest.mark.parametrize("policy", list(NAMED))
@pytest.mark.parametrize("drawn", ["before-training", "after-training"])
def test_the_schedule_of_a_round_is_what_the_ledger_of_the_run_has(policy, drawn):
    world = MIXED.using(
        plan={"cohort_drawn": drawn, "cohort": 5}, cell={"broadcast_time": 2.0, "loss_rate": 0.2}
    )
    for seed in (0, 3):
        fleet = draw_fleet(world, seed)
        trace = draw_trace(world, fleet, 9, seed)
        ledger, names = price_trace(world, fleet, trace, policy, seed), world.clients.names
        assert ledger.spending is not None
        assert names is not None
        for t in (1, 7, 9):
            one = schedule_round(world, policy, round=t, seed=seed)
            assert one.of is not None
            assert one.cost.duration + 2.0 == ledger.duration[t - 1]
            assert one.cost.objective == ledger.objective[t - 1]
            assert one.cost.upload_cost == ledger.upload_cost[t - 1]
            present = trace.cohort[t - 1] >= 0
            assert list(one.of.clients) == trace.cohort[t - 1][present].tolist()
            energy = one.cost.compute_energy + one.cost.upload_energy
            assert_array_equal(energy, ledger.spending.energy[t - 1][present])
            assert one.of.names == tuple(names[j] for j in one.of.clients)


def test_rows_and_json_of_a_round_have_numbers_and_names():
    one = schedule_round(MIXED, "even", round=2, seed=1)
    rows = one.rows()
    assert one.of is not None
    assert tuple(row["name"] for row in rows) == one.of.names
    assert [row["client"] for row in rows] == list(one.of.clients)
    assert list(rows[0])[:3] == ["client", "name", "share"]
    answer = one.to_dict()
    assert (answer["round"], answer["seed"], answer["names"]) == (2, 1, one.of.names)
    drawn = schedule_round(Scenario(), "even", round=2)
    assert drawn.of is not None
    assert drawn.to_dict()["names"] is None
    assert [row["client"] for row in drawn.rows()] == list(drawn.of.clients)


def test_rounds_that_cannot_be_scheduled_are_refused():
    with pytest.raises(BadInput, match="`round` = 0: expected a whole number above 0"):
        schedule_round(Scenario(), round=0)
    with pytest.raises(BadInput, match="`round` = 1: all clients sit it out"):
        schedule_round(Scenario().using(cell={"gain_threshold": 1e9}))
    with pytest.raises(BadInput, match="take the scenario of `prepare_training`"):
        schedule_round(load_scenario("digits"))
    fleet = draw_fleet(MIXED)
    problem = make_problem(MIXED, fleet, draw_trace(MIXED, fleet, 2))
    with pytest.raises(BadInput, match="`round` is for a scenario"):
        schedule_round(problem[0], round=2)
    gains = Scenario().using(
        cell={"gains": np.full((3, 2), 1e-13)}, clients={"count": 2}, plan={"cohort": 1}
    )
    with pytest.raises(BadInput, match="holds 3 rounds and 4 are needed"):
        schedule_round(gains, round=4)


def test_the_command_schedules_rounds_of_scenarios_and_plans(fedcell, tmp_path):
    said = fedcell("schedule", FLEET, "--round", 7, "--seed", 1)
    assert "Round 7, seed 1, policy optimal" in said.out
    assert "pump-2" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    answer = json.loads(fedcell("schedule", FLEET, "--round", 7, "--seed", 1, "--json").out)
    assert answer["names"] == ["pump-2", "camera-1", "pump-1"]
    plan, words = tmp_path / "plan.json", ["--mixing", 30, "--drift", 0.5, "--start", 40]
    assert fedcell("plan", "digits", *words, "--steps", "1..9", "--out", plan).code == 0
    planned = json.loads(fedcell("schedule", "--plan", plan, "--round", 3, "--json").out)
    content = json.loads(plan.read_text())
    assert planned["policy"] == content["policy"]
    assert len(planned["clients"]) == content["cohort"]
    world = prepare_training(load_scenario("digits")).scenario
    here = world.with_plan(content["cohort"], content["local_steps"])
    ledger = simulate_network(here, content["policy"], 3)
    assert planned["duration"] + planned["broadcast_time"] == ledger.duration[2]
    content["policies"][0]["policy"] = "mine:policy"
    # A file names no code, and --policy does not need it.
    rewrite(plan, policy="mine:policy", policies=content["policies"])
    assert "which is not built-in: give --policy" in fedcell("schedule", "--plan", plan).err
    assert fedcell("schedule", "--plan", plan, "--policy", "even").code == 0
    picture = tmp_path / "round.png"
    assert fedcell("schedule", FLEET, "--policy", "even", "--figure", picture).code == 0
    assert picture.stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([FLEET.parent / "round.json", "--round", 3], "--select are for scenarios"),
        (["nowhere"], "nowhere is no file and not a shipped scenario"),
        (["nowhere.json"], "nowhere.json: cannot be read"),
        ([], "which scenario? name a file, or one of"),
        ([FLEET, "--policy", "nope"], "nope is not a policy"),
        ([FLEET, "--plan", "none.json"], "none.json: cannot be read"),
    ],
)
def test_bad_words_of_schedule_are_refused_in_a_sentence(fedcell, words, message):
    said = fedcell("schedule", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_long_names_fit_the_table(fedcell, tmp_path):
    rows = [{"name": f"{i}-" + "very-long-name" * 6} for i in range(4)]
    (tmp_path / "mine.json").write_text(
        json.dumps({"clients": {"table": rows}, "plan": {"cohort": 3}})
    )
    said = fedcell("schedule", tmp_path / "mine.json")
    assert max(map(len, said.out.splitlines())) <= 80
