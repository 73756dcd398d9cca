"""Plans and single devices: what each is expected to spend, limits of one, and batteries."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcell import Limits, Region, Scenario, TrainingPlan, load_scenario, plan_training, run_pilot
from fedcell.errors import BadFile, BadInput, NoPlan
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.participation import mean_loss_rate
from fedcell.network.simulate import price_trace
from fedcell.planning.choice.choose import choose_plan
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.choice.limits import bounds_of, chances
from fedcell.planning.costs.devices import device_energy, device_shares
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.setting import Setting
from fedcell.planning.whatif import nearby_worlds

MIXED = load_scenario(Path(__file__).parents[3] / "docs" / "fleet.toml")
LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)
WORDS = ("--mixing", 30, "--drift", 0.5, "--start", 40, "--steps", "1..12")


@pytest.mark.parametrize(
    "drawn", ["before-training", pytest.param("after-training", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("policy", ["even", "distributed", "optimal-staged", "optimal"])
def test_expected_joules_are_those_of_many_rounds(policy, drawn):
    """Joules a round, against a long simulation; far devices are called too seldom to compare."""
    world = MIXED.using(plan={"cohort_drawn": drawn})
    fleet, rounds = draw_fleet(world), 20_000
    known = device_energy(world, fleet, policy, 0)
    seen = simulate_network(world, policy, rounds).totals
    often = seen.called > 2000
    assert often.sum() == 5
    mean = seen.energy[often] / rounds
    assert known.mean[often] == pytest.approx(mean, rel=0.05)
    assert known.mean.argmax() == seen.energy.argmax()


@pytest.mark.long
def test_how_a_device_s_energy_varies_is_that_of_many_runs():
    """In runs of 40 rounds, mostly by how often it is called."""
    fleet = draw_fleet(MIXED)
    known = device_energy(MIXED, fleet, "even", 0)
    totals = [simulate_network(MIXED, "even", 40, seed).totals.energy for seed in range(300)]
    often = known.called > 0.1
    seen = (np.std(totals, axis=0) / np.mean(totals, axis=0))[often]
    assert known.relative_sd()[often] / np.sqrt(40) == pytest.approx(seen, rel=0.25)


def test_expected_joules_with_measured_gains():
    gains = np.random.default_rng(5).exponential(1e-12, (400, 6))
    world = MIXED.using(cell={"gains": gains, "gain_threshold": 0.3})
    known = device_energy(world, draw_fleet(world), "even", 0).mean
    runs = [simulate_network(world, "even", 400, seed).totals.energy for seed in range(30)]
    assert known == pytest.approx(np.mean(runs, axis=0) / 400, rel=0.07)


def test_a_plan_has_every_device_of_a_table_and_the_payer_of_drawn_clients():
    plan = plan_training(MIXED, LAW, region=Region(steps=(1, 12)))
    assert [device.name for device in plan.devices] == list(MIXED.clients.names)
    total = sum(device.energy for device in plan.devices)
    assert total == pytest.approx(plan.energy.value, rel=0.1)
    assert plan.devices[2].battery == 360.0
    assert plan.devices[0].battery is None
    calls = sum(device.called for device in plan.devices)
    assert calls == pytest.approx(plan.rounds.value * plan.cohort, rel=0.01)
    drawn = plan_training(Scenario(), LAW, region=Region(policy="even", steps=(1, 9)))
    (payer,) = drawn.devices
    world = Scenario().with_plan(drawn.cohort, drawn.local_steps)
    energy = device_energy(world, draw_fleet(world), "even", 0).mean
    assert (payer.client, payer.name) == (int(energy.argmax()), None)


def test_the_client_that_pays_most_keeps_a_limit_per_client():
    free = plan_training(MIXED, LAW, region=Region(steps=(1, 12), minimise="duration"))
    most = max(device.energy for device in free.devices)
    limit = 0.7 * most
    limits = Limits(energy_per_client=limit)
    spared = plan_training(
        MIXED, LAW, limits=limits, region=Region(steps=(1, 12), minimise="duration")
    )
    assert max(device.energy for device in spared.devices) <= limit
    assert spared.duration.value >= free.duration.value
    mean = sum(device.energy for device in free.devices) / 6
    assert mean < limit  # on average the free plan keeps it, and so the mean was no limit
    loose = Limits(mean_energy_per_client=limit)
    same = plan_training(
        MIXED, LAW, limits=loose, region=Region(steps=(1, 12), minimise="duration")
    )
    assert (same.cohort, same.local_steps) == (free.cohort, free.local_steps)
    assert "pays most: " in spared.summary()
    assert "keeps the energy budget per client of" in spared.summary()


def test_every_excluded_plan_exceeds_the_limit_of_some_client():
    """The grid's bound against each plan by itself: 6 K and 6 E_l are all priced."""
    grid = evaluate_plans(MIXED, LAW, "even", 6)
    bounds = bounds_of(grid, Limits(energy_per_client=1.0))
    for i, k in enumerate(grid.cohorts.tolist()):
        for j, e in enumerate(grid.steps.tolist()):
            devices = device_shares(MIXED.with_plan(k, e), "even", float(grid.rounds[i, j]))
            most = max(device.energy for device in devices)
            assert bounds["energy budget per client"].values[i, j] == pytest.approx(most)
            share = max(device.battery_share for device in devices)
            assert bounds["batteries"].values[i, j] == pytest.approx(share)


def test_no_plan_for_a_client_names_it_and_the_least():
    with pytest.raises(NoPlan) as told:
        plan_training(
            MIXED, LAW, limits=Limits(energy_per_client=1.0), region=Region(steps=(1, 12))
        )
    assert "no plan keeps the energy budget per client of 1 J: the least is" in str(told.value)
    assert " J of meter-" in str(told.value)


def with_battery(joules):
    batteries = [None, None, joules, joules, joules, None]
    return MIXED.using(clients={"table": MIXED.clients.table.having(battery=batteries)})


def test_batteries_are_limits_of_a_plan():
    free = plan_training(with_battery(None), LAW, region=Region(steps=(1, 12), minimise="duration"))
    most = max(free.devices[j].energy for j in (2, 3, 4))
    assert "batteries" not in free.chances
    kept = plan_training(
        with_battery(0.7 * most), LAW, region=Region(steps=(1, 12), minimise="duration")
    )
    assert max(device.battery_share for device in kept.devices) <= 1
    assert kept.duration.value > free.duration.value
    assert 0.5 < kept.chances["batteries"] <= 1
    said = " ".join(kept.summary().split())
    assert f"keeps the batteries with a chance of {kept.chances['batteries']:.0%}: meter-" in said
    words = (
        r"no plan keeps the batteries: the least is .* times what meter-4 has \(0.1 J\), with 1 "
    )
    with pytest.raises(NoPlan, match=words):
        plan_training(with_battery(0.1), LAW, region=Region(steps=(1, 12)))


def test_batteries_are_kept_with_confidence_and_by_uncalled_devices():
    free = plan_training(with_battery(None), LAW, region=Region(steps=(1, 12), minimise="duration"))
    joules = 1.6 * max(free.devices[j].energy for j in (2, 3, 4))
    sure = plan_training(
        *(with_battery(joules), LAW),
        limits=Limits(confidence=0.95),
        region=Region(steps=(1, 12), minimise="duration"),
    )
    assert sure.chances["batteries"] >= 0.95 - 1e-6
    with pytest.raises(BadInput, match="`confidence`: give a deadline or an energy to keep"):
        plan_training(with_battery(None), LAW, limits=Limits(confidence=0.95))
    table = MIXED.clients.table.having(battery=[None, None, 1e-3, None, None, None])
    unheard = MIXED.using(clients={"table": table, "min_samples": 341}, plan={"cohort": 1})
    plan = plan_training(unheard, LAW, region=Region(policy="even", steps=(1, 6)))
    assert "gate-7 spends most of its own, 0% of 0.001 J" in " ".join(plan.summary().split())


def test_shares_of_batteries_have_two_digits():
    table = MIXED.clients.table.having(battery=[None, None, 1e6, None, None, None])
    plan = plan_training(
        MIXED.using(clients={"table": table}), LAW, region=Region(policy="even", steps=(1, 6))
    )
    shown = {0.0: "0%", 0.00123: "0.12%", 0.0049: "0.49%", 0.056: "5.6%", 0.1: "10%", 2.51: "251%"}
    for share, words in shown.items():
        mine = tuple(
            device if device.battery is None else replace(device, energy=share * 1e6)
            for device in plan.devices
        )
        said = " ".join(replace(plan, devices=mine).summary().split())
        assert f"gate-7 spends most of its own, {words} of 1e+06 J" in said


@pytest.mark.long
def test_the_chance_of_a_device_is_that_of_many_runs():
    """The payer's joules in runs as long as planned: how often within the limit?"""
    world = MIXED.using(plan={"cohort": 2, "local_steps": 3})
    grid = evaluate_plans(world, LAW, "even", 6)
    i, j = grid.at(2, 3)
    rounds = float(grid.rounds[i, j])
    devices = device_shares(world, "even", rounds)
    who = max(devices, key=lambda d: d.energy)
    limit = 1.3 * who.energy
    chance = chances(grid.law, bounds_of(grid, Limits(energy_per_client=limit)))[
        "energy budget per client"
    ][i, j]
    spent = [
        simulate_network(world, "even", round(rounds), seed).totals.energy[who.client]
        for seed in range(400)
    ]
    assert chance == pytest.approx(np.mean(np.array(spent) <= limit), abs=0.08)


def test_confidence_leaves_room_for_the_luck_of_being_called():
    grid, name = evaluate_plans(MIXED, LAW, "even", 6), "energy budget per client"
    plain = choose_plan(grid, Limits(energy_per_client=80.0), minimise="duration")
    sure = choose_plan(grid, Limits(energy_per_client=80.0, confidence=0.95), minimise="duration")
    assert sure.chances[name] >= 0.95 - 1e-6 > plain.chances[name]
    assert max(d.energy for d in sure.devices) < max(d.energy for d in plain.devices) <= 80.0


def test_devices_come_back_from_a_plan_s_file(tmp_path):
    limits = Limits(energy_per_client=500.0, mean_energy_per_client="0.3kJ")
    plan = plan_training(MIXED, LAW, limits=limits, region=Region(steps=(1, 12))).named("fleet")
    plan.save(tmp_path / "plan.json")
    again = TrainingPlan.load(tmp_path / "plan.json")
    assert again.devices == plan.devices
    assert again.limits == limits
    assert again.to_dict() == plan.to_dict()
    assert again.scenario == MIXED
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["devices"][2]["name"] == "gate-7"
    content["devices"][2]["energy"] = -1
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(BadFile, match=r"devices\[2\].energy = -1: expected"):
        TrainingPlan.load(tmp_path / "plan.json")


def test_a_plan_names_clients_in_outage_and_the_client_that_pays_most(fedcell):
    said = fedcell("plan", Path(__file__).parents[3] / "docs" / "fleet.toml", *WORDS)
    words = " ".join(said.out.split())
    outage = f"{100 * (1 - np.exp(-0.05 * (510 / 175) ** 4)):.0f}"
    assert f"note: gate-7 is in outage in {outage} % of rounds: its 340 samples (19 %)" in words
    assert "meter-4 pays most: " in words
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize("budget", ["5J/device", "5J/", "5J/client-", "/client", "-5J/client"])
def test_budgets_in_other_words_are_refused(fedcell, budget):
    said = fedcell("plan", "paper", *WORDS, f"--energy-budget={budget}")
    assert said.code == 2
    assert "--energy-budget" in said.err


def test_limits_of_clients_are_checked():
    with pytest.raises(BadInput, match="mean_energy_per_client = -1: expected a number above 0"):
        Limits(mean_energy_per_client=-1)
    assert Limits(energy_per_client="2Wh").energy_per_client == 7200.0


def test_worlds_with_more_losses_have_more_of_every_device():
    worlds = nearby_worlds(MIXED)
    lossy = list(worlds.values())[1]
    assert lossy.clients.table.loss_rate.tolist() == pytest.approx([0, 0.04, 0.2, 0.1, 0.1, 0])
    assert list(worlds)[1].startswith("uploads lost: ")
    setting = Setting(2, 3, mean_loss_rate(MIXED))  # a pilot's: the rates stay the devices' own
    assert setting.apply_to(MIXED).clients.table == MIXED.clients.table
    assert setting.apply_to(MIXED).cell.loss_rate == 0.0


def test_a_plan_counts_with_the_mean_loss_rate():
    plan = plan_training(MIXED, LAW, region=Region(policy="even", steps=(1, 6)))
    k, e = plan.cohort, plan.local_steps
    assert plan.rounds.value == pytest.approx(float(LAW.rounds(k, e, mean_loss_rate(MIXED))))
    assert plan.rounds.value > float(LAW.rounds(k, e, 0.0))


def test_how_a_device_s_energy_varies_from_round_to_round_where_all_are_called():
    world = MIXED.using(plan={"cohort": 6})
    fleet, rounds = draw_fleet(world), 8000
    known = device_energy(world, fleet, "even", 0)
    spending = price_trace(world, fleet, draw_trace(world, fleet, rounds), "even").spending
    assert spending is not None
    near = [1, 3, 4, 5]  # of the others, one is never heard, and one has a heavy tail of fades
    for j in near:
        energy = np.where(spending.client == j, spending.energy, 0.0).sum(1)
        assert known.relative_sd()[j] == pytest.approx(energy.std() / energy.mean(), rel=0.1)


def test_a_plan_that_misses_a_client_s_limit_by_a_little_is_not_taken():
    """Between the K and E_l that are priced the grid is a little off; the plan itself decides."""
    world = Scenario().using(clients={"count": 60, "spread": 0.5})
    grid = evaluate_plans(world, LAW, "optimal-staged", 60)
    values = bounds_of(grid, Limits(energy_per_client=1.0))["energy budget per client"].values
    misses = {}
    for k, e in ((7, 20), (11, 33), (15, 50), (23, 9), (33, 20), (47, 40)):
        assert k not in grid.round_costs.cohorts
        (payer,) = device_shares(
            world.with_plan(k, e), "optimal-staged", float(grid.rounds[grid.at(k, e)])
        )
        misses[k, e] = payer.energy / values[grid.at(k, e)]
    assert all(0.9 < off < 1.1 for off in misses.values())
    worst = max(misses, key=lambda at: misses[at])
    assert misses[worst] > 1.001  # or the test says nothing
    only = np.zeros_like(grid.candidates)
    only[grid.at(*worst)] = True
    limits = Limits(energy_per_client=float(values[grid.at(*worst)]) * 1.0001)
    with pytest.raises(NoPlan, match="per client when priced exactly; relax it by a few percent"):
        choose_plan(replace(grid, candidates=only), limits)


@pytest.mark.long
def test_a_pilot_of_devices_with_losses_of_their_own_on_data_that_is_dealt(tmp_path):
    """What stands for their loss rates is known once the data is dealt, not before."""
    names = [f"meter-{i}" for i in range(8)]
    table = {"name": names, "loss_rate": [0.1, 0.3] * 4}
    scenario = load_scenario("digits").using(clients={"table": table}, plan={"cohort": 4})
    pilot = run_pilot(
        scenario,
        "6s",
        tmp_path / "p.json",
        target=1.5,
        region=Region(clients=(2, 6), steps=(5, 20)),
    )
    plan = plan_training(scenario, pilot)
    assert plan.cohort <= 6
    assert [device.name for device in plan.devices] == names
