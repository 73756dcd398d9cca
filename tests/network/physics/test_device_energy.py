"""Joules by state of declared devices, with one number worked out from each formula; timelines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario, schedule_round
from fedcell.core.schema import field_infos
from fedcell.errors import BadInput
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.physics.frequency import average_freq
from fedcell.network.physics.timeline import PARTS, Timeline
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import NAMED
from fedcell.network.round import Schedule, make_problem, price
from fedcell.network.simulate import pose, pose_each, price_trace
from fedcell.scenario.fleet_table import client_table
from fedcell.scenario.hardware.device import Device
from fedcell.scenario.hardware.radio import Radio
from fedcell.show.tables.rounds import energy_parts

SMALL = {
    "clients": {"count": 12, "spread": 0.5},
    "plan": {"cohort": 4},
    "task": {"model_bits": 3e6},
}
RADIO = {"power_max": 0.2, "efficiency": 0.4, "circuit_power": 0.9, "tail_energy": 1.5}
DEVICE = {"idle_power": 0.3, "busy_power": 0.8, "power_exponent": 2.5, "memory_time": 1e-4}
DOWN = {"downlink": "unicast", "cell_power": 10.0, "receive_power": 0.7}


def world(radio=None, device=None):
    return Scenario().using(**SMALL, radio=radio, device=device)


def rounds_of(scenario, count=3):
    fleet = draw_fleet(scenario)
    return make_problem(scenario, fleet, draw_trace(scenario, fleet, count))


def even(problem):
    share = np.full(problem.kappa.shape, 1 / problem.clients)
    return price(problem, Schedule(share=share, freq=problem.freq_max / 4))


def test_training_by_hand():
    """20 steps over 500 samples of 5e5 cycles and 1e6 a step: 5.02e9 cycles; memory 0.1 ms a
    sample: 1 s. At 5e8 cycle/s that is 11.04 s; 3 W beside 1e-21 f^2.5 = 5.59 W."""
    device = {"busy_power": 3.0, "power_exponent": 2.5, "memory_time": 1e-4}
    scenario = Scenario().using(
        device=device | {"cycles_per_step": 1e6}, clients={"spread": 0.0, "kappa": 1e-21}
    )
    problem = rounds_of(scenario)
    cost = price(problem, Schedule(np.full((3, 10), 0.1), np.full((3, 10), 5e8)))
    assert_allclose(problem.cycles, 5.02e9)
    assert_allclose(cost.compute_time, 1.0 + 10.04)
    assert_allclose(cost.compute_energy, 3.0 * 11.04 + 1e-21 * 5e8**2.5 * 10.04)


def test_cycles_of_a_step_with_epochs_are_those_of_its_batches():
    scenario = Scenario().using(
        device={"cycles_per_step": 1e6},
        plan={"local_epochs": 2},
        clients={"spread": 0.0, "samples": 501.0},
    )
    assert_allclose(rounds_of(scenario).cycles, 2 * (501 * 5e5 + 51 * 1e6))


def test_problems_that_differ_in_steps_only_are_those_posed_alone():
    scenario = world(RADIO, DEVICE | {"cycles_per_step": 1e6})
    fleet = draw_fleet(scenario)
    trace, worlds = draw_trace(scenario, fleet, 3), [scenario.with_plan(4, e) for e in (1, 7)]
    for other, each in zip(worlds, pose_each(worlds, fleet, trace), strict=True):
        alone = pose(other, fleet, trace)
        assert_array_equal(each.cycles, alone.cycles)
        for name in ("memory_time", "tail_energy", "receive_energy"):
            assert_array_equal(getattr(each.extras, name), getattr(alone.extras, name))


def test_constant_joules_a_cycle_do_not_depend_on_the_clock():
    problem = rounds_of(Scenario().using(device={"energy_per_cycle": 1.7e-10}))
    for freq in (1e8, 1e9):
        cost = price(problem, Schedule(np.full((3, 10), 0.1), np.full((3, 10), freq)))
        assert_allclose(cost.compute_energy, 1.7e-10 * problem.cycles)


def test_states_by_hand():
    cost = even(rounds_of(world(RADIO, DEVICE)))
    limit = cost.extras.limit
    share = np.full(cost.upload_time.shape, 0.25)
    sent = limit.upload_energy(share)
    assert_allclose(cost.upload_energy, sent + 0.9 * cost.upload_time)
    done = cost.compute_time + cost.upload_time
    assert_allclose(cost.wait_energy, 0.3 * (done.max(-1, keepdims=True) - done))
    asleep = even(rounds_of(world(RADIO, DEVICE | {"when_done": "sleep", "sleep_power": 0.01})))
    assert_allclose(asleep.wait_energy * 30, cost.wait_energy)
    assert_allclose(asleep.duration, cost.duration)
    assert_allclose(cost.radio_energy, cost.upload_energy + 1.5)


def test_the_objectives_by_hand():
    cost = even(rounds_of(world(RADIO | DOWN, DEVICE)))
    radio = cost.upload_energy + cost.extras.receive_energy + 1.5
    t, s, T_d = cost.compute_time, cost.upload_time, cost.extras.download_time[:, 0]
    H = (t + s).max(-1)
    waiting = 0.3 * (H[:, None] - t - s)
    assert_allclose(cost.duration, T_d + H)
    mean = (cost.compute_energy + waiting).mean(-1)
    assert_allclose(cost.objective, T_d + H + radio.sum(-1) + mean)
    late = 0.3 * (s.max(-1, keepdims=True) - s)
    assert_allclose(cost.upload_cost, T_d + s.max(-1) + radio.sum(-1) + late.mean(-1))
    early = 0.3 * (t.max(-1, keepdims=True) - t)
    assert_allclose(cost.compute_cost, t.max(-1) + (cost.compute_energy + early).mean(-1))
    summed = even(rounds_of(world(RADIO | DOWN, DEVICE | {"count_energy": "sum"})))
    assert_allclose(summed.objective, T_d + H + radio.sum(-1) + 4 * mean)


@pytest.mark.parametrize("policy", NAMED)
@pytest.mark.parametrize("tables", [(RADIO | DOWN, DEVICE), (None, DEVICE), (RADIO, None)])
def test_energies_by_part_sum_to_the_total_in_table_figure_and_ledger(policy, tables):
    scenario = world(*tables)
    ledger = simulate_network(scenario, policy, 4)
    parts = sum(getattr(ledger, f"{part}_energy") for part in PARTS)
    assert_allclose(parts, ledger.energy, rtol=1e-12)
    assert_allclose(sum(ledger.energy_by_part.values()), ledger.totals.energy.sum(), rtol=1e-12)
    for t in range(4):
        scheduled = schedule_round(scenario, policy, round=t + 1)
        line = scheduled.timeline
        assert_allclose(line.duration, ledger.duration[t], rtol=1e-12)
        for part in PARTS:
            assert_allclose(line.by_part[part], getattr(ledger, f"{part}_energy")[t], rtol=1e-9)
        rows = scheduled.rows()
        shown = sum(row[f"{p}_energy"] for row in rows for p in ("download", "wait", "tail"))
        shown += sum(row["compute_energy"] + row["upload_energy"] for row in rows)
        assert_allclose(shown, ledger.energy[t], rtol=1e-9)


@pytest.mark.parametrize("policy", NAMED)
@pytest.mark.parametrize("radio", [None, {"access": "time"}, DOWN])
def test_a_device_that_draws_the_same_in_all_states_spends_that_times_the_rounds(policy, radio):
    """3 W in every state, a constant time to send the model and a negligible amplifier included:
    joules are 3 W x K x seconds."""
    keys = {name: value for name, value in (radio or {}).items() if name != "receive_power"}
    scenario = Scenario().using(
        **SMALL,
        radio=keys | {"power_max": 1e-9},
        device={"idle_power": 3.0, "energy_per_cycle": 1e-30},
        cell={"broadcast_time": 0.0 if "downlink" in keys else 7.0, "noise": 1e-28},
    )
    ledger = simulate_network(scenario, policy, 4)
    assert_allclose(ledger.energy, 3.0 * 4 * ledger.duration, rtol=1e-6)
    line = schedule_round(scenario, policy).timeline
    assert_allclose(sum(line.by_part.values()), 3.0 * 4 * line.duration, rtol=1e-6)


def test_a_constant_download_draws_idle_power():
    timed = world(RADIO | {"receive_power": 0.7}, DEVICE).using(cell={"broadcast_time": 10.0})
    cost, free = even(rounds_of(timed)), even(rounds_of(world(RADIO, DEVICE)))
    assert_allclose(cost.extras.receive_energy, 3.0)  # 0.3 W
    assert_allclose(cost.energy, free.energy + 4 * 3.0)
    assert_allclose(cost.duration, free.duration)  # T_d is added by ledgers, as the paper's
    assert_allclose(cost.upload_cost, free.upload_cost + 4 * 3.0)
    assert_allclose(schedule_round(timed, "even").timeline.by_part["download"], 4 * 3.0)


def test_states_follow_one_another():
    line = Timeline.of(even(rounds_of(world(RADIO | DOWN, DEVICE))))
    assert (line.end["download"] <= line.begin["train"] * (1 + 1e-12)).all()
    assert (line.end["train"] == line.begin["upload"]).all()
    assert (line.end["upload"] == line.begin["wait"]).all()
    assert (line.end["wait"] == line.end["wait"].max(-1, keepdims=True)).all()
    assert all((seconds >= 0).all() for seconds in line.seconds.values())
    turns = line.begin["download"][:, 1:] - line.end["download"][:, :-1]
    assert_allclose(turns, 0, atol=1e-12)


def test_the_paper_has_a_timeline_too():
    scenario = Scenario().using(cell={"broadcast_time": 2.0})
    scheduled, ledger = schedule_round(scenario), simulate_network(scenario, "optimal", 1)
    line = scheduled.timeline
    assert_allclose(line.duration, ledger.duration[0])
    assert_allclose(sum(line.by_part.values()), ledger.energy[0])
    assert ledger.energy_by_part == {}
    assert "wait_energy" not in ledger.column_names()
    assert "train 1" not in repr(line)


def test_the_bars_of_the_figure_are_those_of_the_timeline():
    pytest.importorskip("matplotlib")
    from fedcell.show.figures.rounds import schedule_figure

    scheduled = schedule_round(world(RADIO | DOWN, DEVICE), "even")
    times = schedule_figure(scheduled).axes[0]
    widths = [[bar.get_width() for bar in bars] for bars in times.containers]
    line = scheduled.timeline
    for drawn, state in zip(widths, ("download", "train", "upload", "wait"), strict=True):
        assert_allclose(drawn, line.seconds[state])


def test_theorem_3_splits_by_the_watts_of_each_processor():
    """Shares as sqrt(watts u): kappa f^alpha = 4e-28 x 1e27 = 0.4 W, and 4e-9 x 1e9 = 4 W."""
    table = {"kappa": [4e-28, 1e-27], "energy_per_cycle": [None, 4e-9], "rate_mbps": [10, 10]}
    scenario = Scenario().using(
        clients={"table": table, "freq_min": 1e9, "freq_max": 1e9}, plan={"cohort": 2}
    )
    scheduled = schedule_round(scenario, "distributed")
    shares = np.take(scheduled.schedule.share, np.argsort(scheduled.of.clients))
    assert_allclose(shares[1] / shares[0], np.sqrt(10))


def test_trainings_in_vain_are_charged_what_the_device_draws():
    scenario = world(None, {"busy_power": 2.0, "idle_power": 0.5}).using(
        plan={"cohort_drawn": "after-training"}, cell={"broadcast_time": 30.0}
    )
    fleet = draw_fleet(scenario)
    ledger = price_trace(scenario, fleet, draw_trace(scenario, fleet, 2), "even", 0)
    freq = Broadcast.to(scenario, fleet).own_freq(fleet.samples, fleet.freq_min, fleet.freq_max)
    cycles = scenario.work * fleet.samples
    each = fleet.kappa * freq**2 * cycles + 2.0 * cycles / freq + 0.5 * 30
    others = [sorted({*range(12)} - {*row}) for row in ledger.spending.client.tolist()]
    for t in range(2):
        trained = [j for j in others[t] if ledger.spending.idle.trained[t, j]]
        called = ledger.spending.energy[t].sum()
        assert_allclose(ledger.energy[t], called + each[trained].sum())
    assert_allclose(sum(ledger.energy_by_part.values()), ledger.energy.sum())


def test_the_average_frequency_minimises_what_an_average_client_costs():
    kappa, alpha, busy = np.array([4e-21, 6e-21]), np.array([2.4, 2.4]), np.array([1.0, 2.0])

    def cost(f):
        return (1 + 0.7 * 1.5) / f + 0.7 * 5e-21 * f**1.4

    f = average_freq(kappa, alpha, busy, 0.7)
    assert cost(f) < min(cost(0.99 * f), cost(1.01 * f))
    mixed = average_freq(kappa, np.array([2.4, 2.4000001]), busy, 0.7)
    assert_allclose(mixed, f, rtol=1e-4)
    assert average_freq(kappa, np.ones(2), busy, 0.7) == np.inf  # race to idle


def test_columns_of_a_fleet_table_are_those_of_each_device():
    table = client_table(
        {
            "name": ["phone", "mote", "cam"],
            "power_max_dbm": [23, 14, None],
            "busy_power_mw": [800, 31.9, None],
            "energy_per_cycle_pj": [None, 165, None],
            "idle_power_w": [0.3, 0.01, None],
            "efficiency_percent": [40, None, None],
            "memory_time_ms": [None, 2, None],
            "tail_energy_mj": [None, 105, None],  # millijoules
        }
    )
    scenario = Scenario().using(
        clients={"table": table}, plan={"cohort": 3}, radio={"power_max": 0.1}
    )
    own = draw_fleet(scenario).hardware
    assert_allclose(own.power_max, [10**-0.7, 10**-1.6, 0.1])
    assert_allclose(own.busy_power, [0.8, 0.0319, 0.0])
    assert_allclose(own.power_exponent, [3, 1, 3])
    assert_allclose(draw_fleet(scenario).kappa, [5e-27, 165e-12, 5e-27])
    assert_allclose(own.efficiency, [0.4, 1, 1])
    assert_allclose(own.memory_time, [0, 2e-3, 0])
    assert_allclose(own.tail_energy, [0, 0.105, 0])
    assert table.power_max is not None
    assert table.power_w is None


@pytest.mark.parametrize(
    ("radio", "device", "message"),
    [
        (None, {"idle_power": 2.0, "busy_power": 1.0}, "busy_power = 1 is below idle_power = 2"),
        ({"circuit_power": 0.1}, {"idle_power": 2.0}, "circuit_power is below idle_power"),
        ({"receive_power": 0.1}, {"idle_power": 2.0}, "receive_power is below idle_power"),
        (None, {"sleep_power": 1.0}, "sleep_power = 1 is above idle_power = 0"),
        (None, {"energy_per_cycle": 1e-10, "power_exponent": 2.0}, "power_exponent has no effect"),
        (None, {"between_rounds": "idle"}, "needs rounds_per_day"),
        (None, {"power_exponent": 0.5}, "expected a number from 1 to 6"),
    ],
)
def test_devices_that_cannot_be_are_refused(radio, device, message):
    with pytest.raises(BadInput, match=message):
        draw_fleet(world(radio, device))


def test_the_device_of_a_table_that_draws_less_busy_than_idle_is_named():
    table = {"name": ["a", "b"], "busy_power": [3.0, 0.5], "idle_power": [1.0, 1.0]}
    scenario = Scenario().using(clients={"table": table}, plan={"cohort": 2})
    with pytest.raises(BadInput, match="busy_power is below idle_power: b"):
        draw_fleet(scenario)


def test_parts_of_nothing_are_not_printed():
    line = energy_parts({"train": 12.0, "upload": 3.0, "wait": 4e-14, "tail": 0.0})
    assert line == "of these joules: training 12, uploading 3"


STEPS = {"rate_table": "nr-64qam"}
EFFECTS = {  # each key, with the keys that it needs, and another value
    "radio": {
        "power_max": ({}, 0.2),
        "power_law": ({"power_max": 5.0}, "full"),
        "p0_dbm": ({"power_law": "open-loop", "p0_dbm": -120.0}, -115.0),
        "alpha": ({"power_law": "open-loop", "p0_dbm": -120.0}, 0.9),
        "resource_block": ({"power_law": "full", "power_max": 0.2, "snr_min_db": -12.0}, 3.6e6),
        "efficiency": ({}, 0.4),
        "circuit_power": ({}, 0.9),
        "receive_power": (DOWN, 0.9),
        "tail_energy": ({}, 1.5),
        "usable_share": ({}, 0.83),
        "uplink_share": ({}, 0.25),
        "spectral_cap": ({}, 0.5),
        "gap_db": ({}, 3.0),
        "snr_min_db": ({}, 2.0),
        "noise_figure_db": ({}, 5.0),
        "noise_rise_db": ({}, 3.0),
        "receive_gain_db": ({}, 15.0),
        "access": ({"power_max": 0.2}, "time"),
        "rate_table": ({}, "nr-256qam"),
        "target_bler": (STEPS, 0.01),
        "margin_db": (STEPS, 2.0),
        "block_bits": (STEPS, 1000.0),
        "code_blocks": (STEPS, 10),
        "harq": (STEPS, "repeat"),
        "harq_tries": (STEPS, 1),
        "harq_fade": (STEPS, "same"),
        "harq_rtt": (STEPS, 0.01),
        "arq": (STEPS, "none"),
        "duty_cycle": ({"power_max": 0.2, "access": "time"}, 0.01),
        "downlink": (DOWN, "multicast"),
        "cell_power": (DOWN, 20.0),
        "downlink_share": (DOWN, 0.5),
        "device_noise_figure_db": (DOWN, 9.0),
    },
    "device": {
        "idle_power": ({}, 0.5),
        "busy_power": ({}, 0.8),
        "power_exponent": ({}, 2.5),
        "energy_per_cycle": ({}, 1.7e-10),
        "cycles_per_step": ({}, 1e8),
        "levels": ({}, [2e8, 9e8]),
        "memory_time": ({}, 1e-3),
        "when_done": ({"idle_power": 0.5}, "sleep"),
        "sleep_power": ({"idle_power": 0.5, "when_done": "sleep"}, 0.1),
        "count_energy": ({}, "sum"),
    },
}
OF_LIVES_AND_CARBON = {"battery", "rounds_per_day", "between_rounds", "carbon_intensity"}


@pytest.mark.parametrize("table", EFFECTS)
def test_each_key_changes_what_rounds_cost(table):
    kind = {"radio": Radio, "device": Device}[table]
    names = {info.name for info in field_infos(kind)}
    assert names - OF_LIVES_AND_CARBON == EFFECTS[table].keys()
    for key, (needed, value) in EFFECTS[table].items():
        before = Scenario().using(**SMALL, **{table: needed})
        after = before.using(**{table: {key: value}})
        was, now = (
            np.concatenate([ledger.duration, ledger.energy, ledger.objective])
            for ledger in (simulate_network(s, "even", 3) for s in (before, after))
        )
        assert not np.allclose(was, now, rtol=1e-9), key
