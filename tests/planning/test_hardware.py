"""Plans with declared radios and devices: battery lives, least power, CO2 and notes."""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import GivenLaw, Region, Scenario, compare, load_plan, plan_training
from fedcell.errors import BadInput, NoPlan
from fedcell.network import draw_fleet, simulate_network
from fedcell.network.participation import chance_called
from fedcell.network.physics.discrete.blocks import whole_blocks
from fedcell.network.physics.notes import radio_notes
from fedcell.planning import battery_lives
from fedcell.planning.choice.limits import Limits
from fedcell.planning.costs.batteries import battery_notes
from fedcell.planning.whatif import nearby_worlds, with_power
from fedcell.scenario.channel.measured import Measured
from fedcell.scenario.identity import training_identity

LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)
REGION = Region(policy="even", steps=(1, 2), clients=(2, 4))
RADIO = {"power_max": 0.2, "circuit_power": 0.9, "tail_energy": 1.5}
DEVICE = {"idle_power": 0.3, "busy_power": 0.8, "battery": 5e4, "rounds_per_day": 24.0}
SMALL = {"clients": {"count": 6}, "plan": {"cohort": 3}, "task": {"model_bits": 3e6}}


def world(radio=RADIO, device=DEVICE):
    return Scenario().using(**SMALL, radio=radio, device=device)


def test_battery_lives_by_hand():
    scenario = world()
    lives = battery_lives(scenario, "even")
    assert [life.rounds for life in lives] == sorted(life.rounds for life in lives)
    ledger = simulate_network(scenario, "even", 400)
    for life in lives:
        j, each = life.client, sum(life.energy.values())
        called = ledger.totals.called[j] / 400  # the expected share, not that of these rounds
        expected = chance_called(scenario, draw_fleet(scenario))[j]
        assert_allclose(each, ledger.totals.energy[j] / 400 * expected / called, rtol=1e-9)
        assert_allclose(life.rounds, 5e4 / each)
        assert_allclose(life.days, life.rounds / 24)
    assert battery_lives(Scenario()) == ()


def test_what_a_device_draws_between_rounds_counts_as_declared():
    def days(**keys):
        return battery_lives(world(device=DEVICE | keys), "even")[-1].days

    off, asleep, idle = (
        days(between_rounds=state, sleep_power=0.01) for state in ("off", "sleep", "idle")
    )
    assert off > asleep > idle
    assert 0.8 * 5e4 / (0.3 * 86400) < idle < 5e4 / (0.3 * 86400)
    assert battery_lives(world(device={"battery": 5e4}), "even")[0].days is None


def test_seconds_of_a_constant_download_are_not_counted_as_between_rounds_too():
    """0.3 W in every state, day and night: 5e4 J last 5e4 / (0.3 x 86400) days."""
    scenario = world(
        {"power_max": 1e-9},
        {"idle_power": 0.3, "energy_per_cycle": 1e-30, "battery": 5e4, "rounds_per_day": 24.0}
        | {"between_rounds": "idle"},
    ).using(cell={"broadcast_time": 600.0, "noise": 1e-28})
    days = [life.days for life in battery_lives(scenario, "even")]
    assert_allclose(days, 5e4 / (0.3 * 86400), rtol=1e-3)


def test_lives_are_said_with_two_digits():
    (first, *_) = battery_notes(battery_lives(world(), "even"))
    assert "its battery of 50,000 J lasts" in first
    assert "0 %" not in first
    rounds = first.split("lasts ")[1].split(" rounds")[0].replace(",", "")
    assert rounds.rstrip("0") == rounds[:2].rstrip("0")


def test_a_battery_of_all_devices_limits_a_plan_as_a_column_does():
    free = plan_training(world(device=None), LAW, region=REGION)
    most = max(device.energy for device in free.devices)
    column = {"clients": {"table": {"battery": [None, *[2 * most] * 5]}}}
    for tables in ({"device": {"battery": 2 * most}}, column):
        plan = plan_training(world(device=None).using(**tables), LAW, region=REGION)
        assert "batteries" in plan.chances
        assert_allclose(plan.cost.value, free.cost.value, rtol=0.01)
    with pytest.raises(NoPlan, match="no plan keeps the batteries"):
        plan_training(world(device={"battery": most / 10}), LAW, region=REGION)


def test_the_least_power_keeps_the_deadline_and_a_percent_less_does_not():
    free = plan_training(world(), LAW, region=REGION)
    limits = Limits(deadline=0.9 * free.duration.value)
    plan = plan_training(world(), LAW, region=REGION, limits=limits, solve_for="power")
    assert plan.bandwidth is None
    assert plan.power > 1
    assert plan.duration.value <= limits.deadline
    assert_allclose(plan.scenario.radio.power_max, 0.2 * plan.power)
    again = plan_training(with_power(world(), plan.power), LAW, region=REGION, limits=limits)
    assert again.duration == plan.duration
    with pytest.raises(NoPlan):
        plan_training(with_power(world(), 0.99 * plan.power), LAW, region=REGION, limits=limits)
    with pytest.raises(BadInput, match="`solve_for` power: give the deadline"):
        plan_training(world(), LAW, solve_for="power")


@pytest.mark.parametrize(
    ("tables", "solve_for"),
    [
        ({"clients": {"table": {"rate": [1e6, 2e6]}}}, "power"),
        ({"clients": {"table": {"rate": [1e6, 2e6]}}}, "bandwidth"),
        ({"cell": {"channel": {"measured": Measured("snr", [[9.0, 4.0]] * 3)}}}, "power"),
    ],
)
def test_power_and_band_that_change_nothing_are_not_solved_for(tables, solve_for):
    scenario = Scenario().using(**({"clients": {"count": 2}} | tables), plan={"cohort": 2})
    with pytest.raises(BadInput, match=f"of each client is given, whatever the {solve_for}"):
        plan_training(scenario, LAW, limits=Limits(deadline=10.0), solve_for=solve_for)


def test_all_powers_are_scaled_as_they_are_declared():
    table = {"power_dbm": [23, None], "power": [None, 1e-8], "power_max_dbm": [23, None]}
    scenario = Scenario().using(
        clients={"table": table},
        plan={"cohort": 2},
        radio={"power_law": "open-loop", "p0_dbm": -90.0, "power_max": 0.5},
    )
    half = with_power(scenario, 0.5)
    assert_allclose(half.radio.p0_dbm, -90 - 10 * np.log10(2))
    fleet, halved = draw_fleet(scenario), draw_fleet(half)
    assert_allclose(halved.power, fleet.power / 2)
    assert_allclose(halved.hardware.power_max, fleet.hardware.power_max / 2)
    density = scenario.clients.table.power_density(1e6)
    assert_allclose(half.clients.table.power_density(1e6), density / 2)


def test_what_ifs_keep_what_was_declared():
    for other in nearby_worlds(world()).values():
        assert other.radio == world().radio
        assert other.device == world().device


def test_the_joules_of_a_plan_by_part_are_those_of_runs(tmp_path):
    plan = plan_training(world(), LAW, region=REGION)
    assert sum(plan.energy_by_part.values()) == pytest.approx(plan.energy.value)
    parts = simulate_network(plan.apply_to(), plan.policy, 400).energy_by_part
    for part, joules in plan.energy_by_part.items():
        assert_allclose(joules / plan.energy.value, parts[part] / sum(parts.values()), rtol=1e-9)
    plan.save(tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json").energy_by_part == plan.energy_by_part
    paper = plan_training(Scenario().using(**SMALL), LAW, region=REGION)
    assert paper.energy_by_part == {}
    assert "energy_by_part" not in paper.to_dict()


def test_grams_of_co2_are_joules_times_the_intensity(fedcell, tmp_path):
    file = tmp_path / "world.toml"
    file.write_text(
        "[clients]\ncount = 6\n[plan]\ncohort = 3\n[device]\ncarbon_intensity = 360.0\n"
    )
    scenario = world(device=DEVICE | {"carbon_intensity": 360.0})
    plan = plan_training(scenario, LAW, region=REGION)
    assert_allclose(plan.grams, plan.energy.value * 1e-4)
    costs = compare(scenario, ["even"], rounds=5)
    assert_allclose(costs.grams["even"], costs["even"].mean["energy"].value * 1e-4)
    assert "CO2 of a round [g]: even" in fedcell("cost", file, "--policy", "even").out
    shown = fedcell("plan", file, "--mixing", 30, "--drift", 0.5, "--start", 40).out
    assert "that energy is" in shown
    assert "g of CO2" in shown
    assert compare(Scenario(), ["even"], rounds=5).grams == {}


def test_watts_that_are_dbm_are_noticed():
    for scenario in (
        Scenario().using(radio={"power_max": 23.0}, clients={"power": 1e-3}),
        Scenario().using(clients={"table": {"power_w": [23.0, 0.2]}}, plan={"cohort": 2}),
        Scenario().using(radio={"power_max": 23.0}),  # clients.power is left out
        Scenario().using(radio={"power_max": 23.0, "power_law": "full"}),
        Scenario().using(radio={"power_max": 23.0, "power_law": "open-loop", "p0_dbm": -80.0}),
    ):
        (note,) = [n for n in radio_notes(scenario, draw_fleet(scenario)) if "23 W" in n]
        assert "if that is 23 dBm, give 0.2 W" in note
    wide = Scenario().using(clients={"spread": 0.5})  # the paper's 8 W, some above 10
    for quiet in (Scenario(), wide):
        assert radio_notes(quiet, draw_fleet(quiet)) == []


def test_rates_that_no_radio_has_are_noticed():
    fast = Scenario().using(radio={"receive_gain_db": 40.0})
    (note,) = radio_notes(fast, draw_fleet(fast))
    assert "above 8 bit/s/Hz" in note
    capped = fast.using(radio={"spectral_cap": 5.5})
    assert radio_notes(capped, draw_fleet(capped)) == []
    slow = Scenario().using(radio={"noise_rise_db": 20.0})
    (note,) = radio_notes(slow, draw_fleet(slow))
    assert "below 0.2 bit/s/Hz" in note
    assert note in compare(slow, ["even"], rounds=5).notes


def test_narrow_shares_and_the_loss_of_rounding_are_noticed():
    scenario = Scenario().using(
        cell={"bandwidth": 2e6}, radio={"resource_block": 180e3}, task={"model_bits": 3e6}
    )
    notes = radio_notes(scenario, draw_fleet(scenario), "optimal")
    assert any("of shares are narrower than a resource block (180 kHz" in note for note in notes)
    assert any("rounded to whole resource blocks of 180 kHz (11 in the" in note for note in notes)


@pytest.mark.parametrize("blocks", [4, 11, 50])
def test_whole_blocks_fill_the_band_with_one_for_each(blocks):
    share = np.exp(np.cos(np.arange(60.0).reshape(15, 4) * 7) * 3)
    share /= share.sum(-1, keepdims=True)
    count = whole_blocks(share, blocks) * blocks
    assert_allclose(count, np.rint(count))
    assert (count.min(-1) >= 1 - 1e-9).all()
    assert_allclose(count.sum(-1), blocks)


def test_losses_of_a_training_depend_on_radios_only_by_outage():
    plain = Scenario().using(learning={"dataset": "digits"}, clients={"sizes": np.full(100, 9.0)})

    def identity(**tables):
        return json.dumps(training_identity(plain.using(**tables), "data", 0), sort_keys=True)

    same = identity(radio={"gap_db": 3.0}, device={"idle_power": 1.0})
    assert same == identity()
    outage = {"snr_min_db": -5.0}
    assert identity(radio=outage) != identity()
    assert identity(radio=outage | {"noise_rise_db": 3.0}) != identity(radio=outage)


@pytest.mark.parametrize("quantity", ["gain", "rate"])
def test_notes_and_lives_take_as_many_rounds_as_are_measured(quantity):
    values = np.full((12, 6), 1e-11 if quantity == "gain" else 5e6)
    world = Scenario().using(
        cell={"channel": {"measured": Measured(quantity, values)}},
        radio={"power_max": 0.2},
        device={"battery": 1e5},
        clients={"count": 6},
        plan={"cohort": 3},
    )
    assert isinstance(radio_notes(world, draw_fleet(world)), list)
    assert len(battery_lives(world, "even")) == 6


def test_a_least_snr_that_nothing_reaches_is_named_without_warnings():
    world = Scenario().using(radio={"power_max": 0.2, "snr_min_db": 90.0})
    law = GivenLaw(mixing=200.0, drift=0.1, start=200.0, floor=20.0)
    with (
        warnings.catch_warnings(action="error"),
        pytest.raises(BadInput, match=r"lower .*radio\.snr_min_db"),
    ):
        plan_training(world, law)
