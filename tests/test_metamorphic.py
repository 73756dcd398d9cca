"""One input said in every way it can be said, and one quantity wherever it is shown: the answers
must agree."""

import csv
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import Command
from fedcell import (
    Clients,
    GivenLaw,
    Region,
    RoundPlan,
    Scenario,
    TrainingPlan,
    compare,
    load_run,
    load_scenario,
    plan_training,
    run,
    schedule_round,
)
from fedcell.cli.commands import COMMANDS
from fedcell.cli.main import load_command
from fedcell.core.estimates import Estimate
from fedcell.core.files.formats import as_json
from fedcell.core.showing import Showable
from fedcell.deploy.options import RunConfig
from fedcell.errors import BadInput
from fedcell.experiments.experiment import load_experiment
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.physics.hardware import COLUMNS as HARDWARE
from fedcell.network.physics.hardware import OF_RADIO
from fedcell.network.schedule import COLUMNS
from fedcell.planning.choice.limits import Limits
from fedcell.planning.whatif import COMPRESSED
from fedcell.scenario.arrays import NUMBERS
from fedcell.scenario.fleet_table import UNITS
from fedcell.scenario.identity import run_identity
from fedcell.show.tables.console import digits, plus_minus
from support.ways import Tables, put, scenario_keys, ways_to_say, write_toml

LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)
SMALL: Tables = {
    "clients": {"count": 6},
    "plan": {"cohort": 3, "local_steps": 2, "rounds": 4},
}
LEARN: Tables = {**SMALL, "learning": {"dataset": "digits"}}


def learning(**keys: Any) -> Tables:
    """Tables that train, with the keys that the checked key needs."""
    return {**SMALL, "learning": {"dataset": "digits", **keys}}


def dealt(**keys: Any) -> Tables:
    """The same with keys of its partition."""
    return learning(partition=keys)


def channel(**keys: Any) -> Tables:
    """Small tables with a channel, in clients at several distances."""
    return {**SMALL, "cell": {"distance": [20.0, 200.0], "channel": {"model": "umi", **keys}}}


def radio(**keys: Any) -> Tables:
    """Tables with the keys of [radio] that the checked key needs."""
    return {**SMALL, "radio": keys}


def device(**keys: Any) -> Tables:
    """The same with keys of [device]."""
    return {**SMALL, "device": keys}


MEASURED = {"file": "drive.csv", "rate_mbps": "up", "device": "phone"}
QUADRATIC = learning(model="quadratic-apart")
OPEN_LOOP = radio(power_law="open-loop", p0_dbm=-95.0)
STEPS = radio(rate_table="nr-64qam")
DOWN = radio(downlink="multicast", cell_power=10.0)
CASES: dict[str, tuple[Tables, Any]] = {  # key: tables before, another value
    "cell.bandwidth": (SMALL, 5e6),
    "cell.noise": (SMALL, 1e-19),
    "cell.reference_gain": (SMALL, 2e-4),
    "cell.reference_distance": (SMALL, 2.0),
    "cell.path_loss_exponent": (SMALL, 3.5),
    "cell.distance": (SMALL, [50.0, 200.0]),
    "cell.gain_threshold": (SMALL, 0.2),
    "cell.loss_rate": (SMALL, 0.3),
    "cell.loss_kind": (SMALL, "worst-case"),
    "cell.broadcast_time": (SMALL, 2.0),
    "cell.gains": (SMALL, "gains.npy"),
    "cell.channel.model": (SMALL, "umi"),
    "cell.channel.carrier": (channel(), 2e9),
    "cell.channel.station_height": (channel(), 8.0),
    "cell.channel.device_height": (channel(), 2.0),
    "cell.channel.line_of_sight": (channel(), "never"),
    "cell.channel.shadowing": (channel(), 2.0),
    "cell.channel.correlation_distance": (channel(move=5.0), 100.0),
    "cell.channel.building_height": (channel(model="rma", line_of_sight="never"), 10.0),
    "cell.channel.street_width": (channel(model="rma", line_of_sight="never"), 30.0),
    "cell.channel.clutter_density": (channel(model="inf-dl"), 0.1),
    "cell.channel.clutter_size": (channel(model="inf-dl"), 80.0),
    "cell.channel.clutter_height": (channel(model="inf-dh"), 1.6),
    "cell.channel.indoor_share": (channel(), 0.5),
    "cell.channel.building": (channel(indoor_share=0.5), "high"),
    "cell.channel.indoor_depth": (channel(indoor_share=0.5), 5.0),
    "cell.channel.fading": (channel(), "rician"),
    "cell.channel.diversity": (channel(), "auto"),
    "cell.channel.delay_spread": (channel(diversity="auto"), 1e-6),
    "cell.channel.rician_db": (channel(fading="rician", line_of_sight="always"), 3.0),
    "cell.channel.move": (channel(), 3.0),
    "cell.channel.measured": (SMALL, MEASURED),
    "clients.count": (SMALL, 7),
    "clients.samples": (SMALL, 300.0),
    "clients.kappa": (SMALL, 2e-27),
    "clients.power": (SMALL, 2e-7),
    "clients.spread": (SMALL, 0.4),
    "clients.freq_min": (SMALL, 2e7),
    "clients.freq_max": (SMALL, 1e9),
    "clients.min_samples": (SMALL, 480.0),
    "clients.table": ({"plan": SMALL["plan"]}, "fleet.csv"),
    "clients.sizes": (SMALL, [5.0, 6.0, 7.0, 8.0, 9.0, 10.0]),
    "task.model_bits": (SMALL, 1e6),
    "task.cycles_per_sample": (SMALL, 4e5),
    "task.samples_per_step": (SMALL, "batch"),
    "task.batch_size": (SMALL, 20),
    "task.energy_weight": (SMALL, 0.25),
    "plan.cohort": (SMALL, 2),
    "plan.local_steps": (SMALL, 5),
    "plan.local_epochs": (SMALL, 3),
    "plan.rounds": (SMALL, 3),
    "plan.selection": (SMALL, "weighted"),
    "plan.cohort_drawn": (SMALL, "after-training"),
    "radio.power_max": (SMALL, 0.2),
    "radio.power_law": (radio(power_max=0.2), "full"),
    "radio.p0_dbm": (OPEN_LOOP, -85.0),
    "radio.alpha": (OPEN_LOOP, 0.8),
    "radio.resource_block": (OPEN_LOOP, 360e3),
    "radio.efficiency": (SMALL, 0.4),
    "radio.circuit_power": (SMALL, 0.9),
    "radio.receive_power": (DOWN, 0.6),
    "radio.tail_energy": (SMALL, 1.5),
    "radio.usable_share": (SMALL, 0.83),
    "radio.uplink_share": (SMALL, 0.25),
    "radio.spectral_cap": (SMALL, 2.0),
    "radio.gap_db": (SMALL, 3.0),
    "radio.snr_min_db": (SMALL, 12.0),
    "radio.noise_figure_db": (SMALL, 5.0),
    "radio.noise_rise_db": (SMALL, 3.0),
    "radio.receive_gain_db": (SMALL, 15.0),
    "radio.rate_table": (SMALL, "nr-256qam"),
    "radio.target_bler": (STEPS, 0.01),
    "radio.margin_db": (STEPS, 2.0),
    "radio.block_bits": (STEPS, 1000.0),
    "radio.code_blocks": (STEPS, 10),
    "radio.harq": (STEPS, "repeat"),
    "radio.harq_tries": (STEPS, 1),
    "radio.harq_fade": (STEPS, "same"),
    "radio.harq_rtt": (STEPS, 0.01),
    "radio.arq": (STEPS, "none"),
    "radio.duty_cycle": (radio(power_max=0.2, access="time"), 0.01),
    "radio.access": (radio(power_max=0.2), "time"),
    "radio.downlink": (DOWN, "unicast"),
    "radio.cell_power": (DOWN, 20.0),
    "radio.downlink_share": (DOWN, 0.5),
    "radio.device_noise_figure_db": (DOWN, 9.0),
    "device.idle_power": (SMALL, 0.5),
    "device.busy_power": (SMALL, 0.8),
    "device.power_exponent": (SMALL, 2.5),
    "device.energy_per_cycle": (SMALL, 1.7e-10),
    "device.cycles_per_step": (SMALL, 1e8),
    "device.levels": (SMALL, [2e8, 9e8]),
    "device.memory_time": (SMALL, 1e-3),
    "device.when_done": (device(idle_power=0.5), "sleep"),
    "device.sleep_power": (device(idle_power=0.5, when_done="sleep"), 0.1),
    "device.count_energy": (SMALL, "sum"),
    "device.battery": (SMALL, 1e4),
    "device.rounds_per_day": (device(battery=1e4), 24.0),
    "device.between_rounds": (device(battery=1e4, rounds_per_day=24.0), "idle"),
    "device.carbon_intensity": (SMALL, 300.0),
    "learning.dataset": (LEARN, "mnist"),
    "learning.model": (LEARN, "logistic"),
    "learning.rate": (LEARN, 0.05),
    "learning.rate_decay": (LEARN, 0.01),
    "learning.optimiser": (LEARN, "adam"),
    "learning.momentum": (LEARN, 0.5),
    "learning.proximal": (LEARN, 0.1),
    "learning.aggregation": (LEARN, "unbiased"),
    "learning.server": (LEARN, "adam"),
    "learning.server_rate": (learning(server="momentum"), 0.5),
    "learning.server_momentum": (learning(server="momentum"), 0.5),
    "learning.server_beta2": (learning(server="yogi"), 0.9),
    "learning.server_tau": (learning(server="yogi"), 1e-2),
    "learning.target": (LEARN, 0.2),
    "learning.target_accuracy": (LEARN, 0.9),
    "learning.target_metric": (learning(target_metric="mae", target_level=0.3), "rmse"),
    "learning.target_level": (learning(target_metric="mae", target_level=0.3), 0.2),
    "learning.deliver": (LEARN, "last"),
    "learning.hold": (LEARN, 2),
    "learning.evaluate_every": (LEARN, 3),
    "learning.evaluate_samples": (LEARN, 100),
    "learning.partition.kind": (LEARN, "shards"),
    "learning.partition.owners": (LEARN, "owners.csv"),
    "learning.partition.num_shards_per_partition": (dealt(kind="shards"), 3),
    "learning.partition.num_classes_per_partition": (dealt(kind="pathological"), 3),
    "learning.partition.class_assignment_mode": (dealt(kind="pathological"), "deterministic"),
    "learning.partition.alpha": (dealt(kind="dirichlet"), 0.1),
    "learning.partition.min_partition_size": (dealt(kind="dirichlet"), 5),
    "learning.partition.self_balancing": (dealt(kind="dirichlet"), True),
    "learning.partition.sizes": (LEARN, "uniform"),
    "learning.partition.spread": (dealt(sizes="uniform"), 0.3),
    "learning.partition.sigma": (dealt(sizes="lognormal"), 0.3),
    "learning.partition.same_skew_as": (LEARN, 3),
    "learning.partition.seed": (LEARN, 7),
    "learning.quadratic.dimension": (QUADRATIC, 5),
    "learning.quadratic.curvature_min": (QUADRATIC, 0.4),
    "learning.quadratic.curvature_max": (QUADRATIC, 3.0),
    "learning.quadratic.distance": (QUADRATIC, 2.0),
    "learning.quadratic.noise": (QUADRATIC, 0.2),
    "learning.layers.hidden": (LEARN, [30, 20]),
    "learning.layers.convs": (LEARN, [{"channels": 4, "kernel": 3, "padding": 1}]),
}
OF_A_LAYER = {f"learning.layers.convs.{key}" for key in ("channels", "kernel", "padding")}


def test_every_key_of_a_scenario_has_a_case():
    assert set(CASES) == {*scenario_keys()} - OF_A_LAYER | {"learning.layers.convs"}


@pytest.mark.parametrize("key", CASES)
def test_a_key_means_the_same_however_it_is_said(key, tmp_path):
    np.save(tmp_path / "gains.npy", np.full((4, 6), 1e-12))
    (tmp_path / "fleet.csv").write_text("name,power_dbm,power\na,39,\nb,,2e-7\nc,,\n")
    drive = [f"p{j},{5 + j + t}" for j in range(6) for t in range(4)]
    (tmp_path / "drive.csv").write_text("\n".join(["phone,up", *drive]))
    (tmp_path / "owners.csv").write_text("client,first,last\n0,0,99\n1,100,1436\n")
    base, value = CASES[key]
    (_, edited), *others = ways_to_say(base, key, value, tmp_path)
    assert others
    for way, said in others:
        assert said == edited, way
        assert run_identity(said, None, 0) == run_identity(edited, None, 0), way


def test_the_rounds_of_an_experiment_are_those_of_its_scenarios(tmp_path):
    write_toml(tmp_path / "base.toml", SMALL)
    asked: Tables = {"scenario": "base.toml", "policy": ["even"]}

    def rounds(**more: Any) -> int:
        (tmp_path / "experiment.json").write_text(json.dumps(asked | more))
        return load_experiment(tmp_path / "experiment.json").rounds

    assert rounds() == SMALL["plan"]["rounds"]
    assert rounds(plan={"rounds": 3}) == rounds(rounds=3) == rounds(rounds=3, plan={"rounds": 5})
    variants = [{"name": str(n), "plan": {"rounds": n}} for n in (3, 5)]
    for several in ({"plan": {"rounds": [3, 5]}}, {"variant": variants}):
        with pytest.raises(BadInput, match="the scenarios have 3 to 5 rounds, and all runs of an"):
            rounds(**several)


# Columns of a fleet table, and the keys that they stand in for.

COUNT = 3
OF_DEVICE = (
    *("idle_power", "busy_power", "sleep_power", "power_exponent", "energy_per_cycle"),
    *("cycles_per_step", "memory_time", "battery"),
)
COLUMN_KEYS = {  # column: the key that says the same of all devices
    "samples": "clients.samples",
    "kappa": "clients.kappa",
    "power": "clients.power",
    "distance": "cell.distance",
    "freq_min": "clients.freq_min",
    "freq_max": "clients.freq_max",
    "cycles_per_sample": "task.cycles_per_sample",
    "loss_rate": "cell.loss_rate",
    **{c: f"radio.{c}" for c in (*OF_RADIO, "spectral_cap")},
    **{c: f"device.{c}" for c in OF_DEVICE},
}
COLUMN_VALUES = {
    **{"samples": 300.0, "kappa": 2e-27, "power": 2e-7, "distance": 150.0, "freq_min": 2e7},
    **{"freq_max": 3e8, "cycles_per_sample": 4e5, "loss_rate": 0.25},
    **{"power_max": 0.2, "efficiency": 0.4, "circuit_power": 0.9, "receive_power": 0.6},
    **{"tail_energy": 1.5, "spectral_cap": 2.0, "idle_power": 0.2, "busy_power": 0.8},
    **{"sleep_power": 0.0, "power_exponent": 2.9, "energy_per_cycle": 1.7e-10},
    **{"cycles_per_step": 1e8, "memory_time": 1e-3, "battery": 1e9},
}
WITHOUT_KEY = {"power_w", "gain", "rate"}  # what they say is compared with the columns above
DRAWN: Tables = {
    "clients": {"count": COUNT, "spread": 0.0},
    "plan": {"cohort": 2, "local_steps": 2, "rounds": 4},
}


def listed(columns: Mapping[str, float]) -> Scenario:
    """A scenario of devices that are all alike."""
    names = {"name": [f"device-{j}" for j in range(COUNT)]}
    alike = {"table": {**names, **{h: [value] * COUNT for h, value in columns.items()}}}
    return Scenario(clients=Clients(**alike), plan=RoundPlan(**DRAWN["plan"]))


def answers(scenario: Scenario) -> list[float]:
    """What rounds and a plan take in a scenario."""
    ledger = simulate_network(scenario, "optimal", rounds=4)
    plan = plan_training(scenario, LAW, region=Region(policy="even", steps=(1, 3)))
    choice = [plan.cohort_interval, plan.local_steps_interval]
    totals = [*choice, plan.rounds, plan.duration, plan.energy, plan.cost]
    rounds = np.concatenate([ledger.duration, ledger.energy, ledger.cost, ledger.received])
    return [*rounds.tolist(), *(x for e in totals for x in (e.value, e.low, e.high))]


def test_every_column_of_a_fleet_table_has_a_case():
    assert {*COLUMN_KEYS} | WITHOUT_KEY == set(NUMBERS)
    assert COLUMN_KEYS.keys() == COLUMN_VALUES.keys()


@pytest.mark.parametrize("column", COLUMN_KEYS)
def test_a_column_means_what_its_key_means(column):
    value = COLUMN_VALUES[column]
    table, key = COLUMN_KEYS[column].split(".")
    said = Scenario().using(**DRAWN).using(**{table: {key: value}})
    assert_allclose(answers(listed({column: value})), answers(said), rtol=1e-10)


def test_columns_without_a_key_mean_what_others_mean():
    power = listed({"power": 2e-7, "distance": 150.0})
    gain = float(power.cell.mean_gain(150.0))
    for other in (
        listed({"power_w": 2e-7 * power.cell.bandwidth, "distance": 150.0}),
        listed({"power": 2e-7, "gain": gain}),
        listed({"power": 2e-7, "distance": 150.0, "battery": 1e9}),
    ):
        assert_allclose(answers(other), answers(power), rtol=1e-10)


def test_batteries_limit_a_plan_as_a_budget_for_each_client_does():
    free = plan_training(listed({}), LAW, region=Region(policy="even", steps=(1, 3)))
    most = 0.9 * max(device.energy for device in free.devices)
    limited, budget = (
        plan_training(world, LAW, limits=limits, region=Region(policy="even", steps=(1, 3)))
        for world, limits in (
            (listed({"battery": most}), Limits()),
            (listed({}), Limits(energy_per_client=most)),
        )
    )
    assert limited.cost.value > free.cost.value
    for name in ("cohort", "local_steps", "rounds", "duration", "energy", "cost"):
        assert getattr(limited, name) == getattr(budget, name)


@pytest.mark.parametrize("key", [key for key in CASES if key.startswith("cell.channel.")])
def test_a_key_of_the_channel_changes_the_gains(key, tmp_path):
    drive = [f"p{j},{5 + j + t}" for j in range(6) for t in range(4)]
    (tmp_path / "drive.csv").write_text("\n".join(["phone,up", *drive]))
    base, value = CASES[key]
    gains = []
    for tables in (base, put(base, key, value)):
        scenario = load_scenario(write_toml(tmp_path / "mine.toml", tables))
        gains.append(draw_trace(scenario, draw_fleet(scenario), 4).gain)
    assert not np.array_equal(*gains)


HEADINGS = [(f"{column}_{unit}", unit) for unit, (of, _) in UNITS.items() for column in of]


@pytest.mark.parametrize(("heading", "unit"), HEADINGS)
def test_a_heading_with_a_unit_means_its_column(heading, unit):
    """The same quantity in SI, by the definition of the unit and not by our table of them."""
    to_si: dict[str, Callable[[float], float]] = {
        **{"hz": lambda x: x, "mhz": lambda x: x * 1e6, "ghz": lambda x: x * 1e9},
        **{"m": lambda x: x, "km": lambda x: x * 1e3, "db": lambda x: 10 ** (x / 10)},
        **{"w_per_hz": lambda x: x, "dbm_per_hz": lambda x: 10 ** (x / 10) / 1e3},
        **{"w": lambda x: x, "mw": lambda x: x / 1e3, "dbm": lambda x: 10 ** (x / 10) / 1e3},
        **{"j": lambda x: x, "kj": lambda x: x * 1e3, "wh": lambda x: x * 3600},
        **{"s": lambda x: x, "ms": lambda x: x / 1e3, "us": lambda x: x / 1e6},
        **{"mj": lambda x: x / 1e3, "nj": lambda x: x / 1e9, "pj": lambda x: x / 1e12},
        "percent": lambda x: x / 100,
        **{"kbps": lambda x: x * 1e3, "mbps": lambda x: x * 1e6},
    }
    values = {"db": -110.0, "dbm_per_hz": -35.0, "hz": 2e9, "mhz": 2000.0, "w_per_hz": 3e-7}
    value, column = values.get(unit, 2.0), heading.removesuffix(f"_{unit}")
    column = "power_w" if column == "power" and unit in ("w", "mw", "dbm") else column
    others = {"idle_power": 5.0} if column == "sleep_power" else {}  # asleep it draws no more
    units, si = (
        listed({h: v} | others) for h, v in ((heading, value), (column, to_si[unit](value)))
    )
    for name in ("power", "mean_gain", "freq_min", "freq_max", "loss_rate", "battery"):
        one, other = (getattr(draw_fleet(world), name) for world in (units, si))
        assert (one is None) == (other is None)
        if one is not None:
            assert_allclose(one, other, rtol=1e-12)
    if column in HARDWARE:
        one, other = (draw_fleet(world).hardware for world in (units, si))
        for field in fields(one):
            if field.name == "levels":  # of clocks; none here
                assert one.levels is other.levels is None
                continue
            assert_allclose(getattr(one, field.name), getattr(other, field.name), rtol=1e-12)


# What-ifs, and the file edited by hand.

FLEET = """\
name,power_dbm,power_w_per_hz,loss_rate_percent,freq_max_ghz,distance
pump,39,,4,1.2,80
gate,,2e-7,,2.0,200
roof,36,,9,2.5,120
"""
LOSSIER_FLEET = FLEET.replace(",4,1.2", ",8,1.2").replace(",9,2.5", ",18,2.5")
LOSSIER_FLEET = LOSSIER_FLEET.replace("2e-7,,2.0", "2e-7,10,2.0")  # the cell's own
OF_A_TABLE: Tables = {
    "cell": {"bandwidth": 4e6, "loss_rate": 0.05},
    "clients": {"table": "fleet.csv"},
    "task": {"model_bits": 2e6},
    "plan": {"cohort": 2, "local_steps": 2},
}
OF_KEYS: Tables = {
    "cell": {"bandwidth": 4e6, "loss_rate": 0.05},
    "clients": {"count": 4},
    "task": {"model_bits": 2e6},
    "plan": {"cohort": 2, "local_steps": 2},
}
Edit = Callable[[Tables, str], tuple[Tables, str]]
EDITS: dict[str, Edit] = {  # what-if, up to its colon: the scenario and its fleet edited by hand
    "as it is": lambda tables, fleet: (tables, fleet),
    "uploads lost": lambda tables, _: (put(tables, "cell.loss_rate", 0.1), LOSSIER_FLEET),
    "half the band": lambda tables, fleet: (put(tables, "cell.bandwidth", 2e6), fleet),
    COMPRESSED: lambda tables, fleet: (put(tables, "task.model_bits", 5e5), fleet),
}
LAW_WORDS = ("--mixing", 30, "--drift", 0.5, "--start", 40, "--steps", "1..3")
ASKED = {
    "a table": (OF_A_TABLE,),
    "a table, duration, limited": (OF_A_TABLE, "--minimise", "duration", "--deadline", "10min"),
    "keys, as given": (OF_KEYS, "--policy", "even"),
}


def planned(fedcell: Command, file: Path, *words: object) -> dict[str, Any]:
    """A plan as JSON."""
    said = fedcell("plan", file, *LAW_WORDS, *words, "--json")
    assert said.code == 0, said.err
    plan: dict[str, Any] = json.loads(said.out)
    return plan


def write_world(folder: Path, tables: Tables, fleet: str = FLEET) -> Path:
    """A scenario and its fleet as files."""
    folder.mkdir(exist_ok=True)
    (folder / "fleet.csv").write_text(fleet)
    return write_toml(folder / "mine.toml", tables)


@pytest.mark.parametrize("asked", ASKED)
def test_every_what_if_is_the_plan_of_the_edited_file(fedcell, tmp_path, asked):
    tables, *words = ASKED[asked]
    saved = ("--out", tmp_path / "plan.json")
    best = planned(fedcell, write_world(tmp_path, tables), *words, "--sensitivity", *saved)
    worlds = {row["change"].split(":")[0]: row for row in best["sensitivity"]}
    said = " ".join(TrainingPlan.load(tmp_path / "plan.json").summary().split())
    note = "the rounds are those of the uncompressed model"
    assert [change for change in worlds if worlds[change]["note"] == note] == [COMPRESSED]
    assert f"note: {COMPRESSED}: {note}" in said
    assert worlds.keys() == EDITS.keys(), "a what-if needs an edited file to be compared with"
    for change, row in worlds.items():
        file = write_world(tmp_path / "edited", *EDITS[change](tables, FLEET))
        there = planned(fedcell, file, *words)
        for measure in ("cohort", "local_steps", "rounds", "duration", "energy", "cost"):
            whole = isinstance(there[measure], int)
            value = there[measure] if whole else there[measure]["value"]
            assert row[measure] == pytest.approx(value, rel=1e-12), change
        kept = [str(best[name]) for name in ("cohort", "local_steps")]
        held = ("--clients", kept[0], "--steps", kept[1], "--policy", best["policy"])
        there = json.loads(fedcell("plan", file, *LAW_WORDS[:6], *held, "--json").out)
        assert row["kept_cost"] == pytest.approx(there["cost"]["value"], rel=1e-9), change


@pytest.mark.parametrize("budget", [None, 0.97])
def test_the_least_band_in_the_file_keeps_the_limits_and_a_percent_less_does_not(
    fedcell, tmp_path, budget
):
    """Where an energy budget is what needs the band: powers over the whole of it were declared, so
    uploads take less energy in a wider one."""
    file = write_world(tmp_path, OF_A_TABLE)
    own = planned(fedcell, file)
    words = ["--deadline", f"{1.1 * own['duration']['value']}s"]
    if budget is not None:
        words += ["--energy-budget", f"{budget * own['energy']['value']}J"]
    saved = tmp_path / "plan.json"
    found = planned(fedcell, file, *words, "--solve-for", "bandwidth", "--out", saved)
    shown = f"the least band for this: {found['bandwidth'] / 1e6:.4g} MHz"
    assert shown in TrainingPlan.load(saved).summary()
    assert float(f"{found['bandwidth']:.4g}") == found["bandwidth"]
    edited = write_world(tmp_path, put(OF_A_TABLE, "cell.bandwidth", found["bandwidth"]))
    there = planned(fedcell, edited, *words)
    for measure in ("cohort", "local_steps", "duration", "energy", "cost"):
        assert there[measure] == found[measure]
    assert there["scenario"] == found["scenario"]
    narrow = write_world(tmp_path, put(OF_A_TABLE, "cell.bandwidth", 0.99 * found["bandwidth"]))
    refused = fedcell("plan", narrow, *LAW_WORDS, *words, "--json")
    assert refused.code != 0
    assert "no plan keeps" in refused.err


# Options that say what a key says.

HELD = {"learning": {**QUADRATIC["learning"], "rate": 0.05, "target": 3.0, "hold": 2}}
TRAINED: Tables = {**SMALL, **HELD, "plan": {**SMALL["plan"], "rounds": 12}}
JUDGED: Tables = {**SMALL, "learning": {"model": "logistic", "evaluate_samples": 100, "hold": 2}}
SAYS_A_KEY: dict[tuple[str, str], tuple[Tables, str, Any]] = {  # tables before, key, value
    ("cost", "--rounds"): (SMALL, "plan.rounds", 3),
    ("cost", "--spread"): (SMALL, "clients.spread", 0.4),
    **{
        (command, option): case
        for command in ("run", "constants", "pilot", "deploy", "compare")
        for option, case in {
            "--rounds": (TRAINED, "plan.rounds", 3),
            "--target-loss": (TRAINED, "learning.target", 4.0),
            "--target-accuracy": (JUDGED, "learning.target_accuracy", 0.3),
            "--hold": (TRAINED, "learning.hold", 4),
        }.items()
        if (command, option) not in (("pilot", "--rounds"), ("compare", "--rounds"))
    },
    ("plan", "--target-loss"): (TRAINED, "learning.target", 4.0),
    ("plan", "--target-accuracy"): (JUDGED, "learning.target_accuracy", 0.3),
    ("plan", "--hold"): (TRAINED, "learning.hold", 4),
    ("plan", "--loss-rate"): (TRAINED, "cell.loss_rate", 0.2),
    **{
        (command, "--select"): (TRAINED, "plan.selection", "round-robin")
        for command in ("run", "plan", "pilot", "deploy", "schedule")
    },
    ("deploy", "--devices"): (TRAINED, "clients.count", 4),
    ("testbed", "--devices"): (TRAINED, "clients.count", 4),
    ("testbed", "--bandwidth"): (TRAINED, "cell.bandwidth", 5e6),
    ("testbed", "--rounds"): (TRAINED, "plan.rounds", 3),
}
SAYS_NO_KEY = {  # what is asked, where answers go, how they are computed
    *("--json", "--details", "--figure", "--out", "--report", "--track", "--all-keys"),
    *("--reference", "--file", "--columns", "--by", "--axis", "--which", "--app"),
    "--store",
    *("--seed", "--seeds", "--most-seeds", "--precision", "--fleets", "--round", "--policy"),
    *("--data-dir", "--threads", "--workers", "--cluster", "--budget", "--retry", "--resume"),
    *("--minimise", "--deadline", "--energy-budget", "--confidence", "--clients", "--steps"),
    *("--mixing", "--drift", "--start", "--floor", "--dropped", "--sensitivity", "--solve-for"),
    *("--pilot", "--plan", "--learner", "--adaptive", "--every", "--draws", "--quick"),
    *("--simulation", "--judged-by", "--screen", "--join-timeout", "--start-with"),
    *("--name", "--exponent"),  # of a fitted device
    *("--front", "--zoo", "--energy", "--only", "--regime", "--port", "--no-browser"),
    "--target",  # the same as --target-loss and others: tests/cli/test_named_targets.py
}
OTHER_DEFAULT = {  # rounds of a trial: plan.rounds, 1000 at the least
    *(("pilot", "--rounds"), ("validate", "--rounds")),
    *(("compare", "--select"), ("sweep", "--select")),  # several rules
    ("compare", "--rounds"),  # the answer has it as a setting of the experiment
}


def test_every_option_that_says_what_a_key_says_has_a_case():
    options = {
        (name, param.opts[-1])
        for name in COMMANDS
        for param in load_command(name).params
        if param.param_type_name == "option"
    }
    unknown = {pair for pair in options if pair[1] not in SAYS_NO_KEY}
    assert unknown == SAYS_A_KEY.keys() | OTHER_DEFAULT


class AskedError(Exception):
    """What a command asked of the library, where doing it takes long or a machine of its own."""


def ask(world: Scenario, *_: Any, **options: Any) -> None:
    """Stands in for a pilot and for a testbed."""
    goal = options.get("target") or world.learning.goal
    raise AskedError(run_identity(world, None, 0), goal, options.get("rounds") or world.rounds)


def ask_constants(setup: Any, rounds: int | None, target: Any, **_: Any) -> None:
    """Stands in for the constants of a network, whose gradients take a long compilation."""
    ask(setup.scenario, rounds=rounds, target=target)


STAND_INS: dict[str, tuple[str, Any]] = {
    "pilot": ("fedcell.cli.commands.pilot.run_pilot", ask),
    "testbed": ("fedcell.cli.commands.testbed.emulate", ask),
    "constants": ("fedcell.cli.commands.constants.measure_constants", ask_constants),
}


def asked_by(fedcell: Command, command: str, file: Path, words: list[Any], folder: Path) -> Any:
    """What a command asks of the library."""
    places = {"pilot": ["--out", folder.with_suffix(".json"), "--store", folder]}.get(command, [])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*STAND_INS[command])
        patch.setattr("fedcell.cli.commands.testbed.why_not", lambda: None)
        patch.setattr("fedcell.cli.commands.testbed.remove_leftovers", list)
        with pytest.raises(AskedError) as asked:
            fedcell(command, file, *words, *places)
    return asked.value.args


def app_of(fedcell: Command, file: Path, words: list[Any], folder: Path) -> Any:
    """What a federation is to run, as the app that `fedcell deploy` writes has it."""
    assert fedcell("deploy", file, *words, "--app", folder).code == 0
    written = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    config, world = RunConfig.of(written["config"]), load_scenario(folder / "scenario.json")
    return run_identity(world, None, 0), world.learning.goal, config.rounds or world.rounds


def answer_of(fedcell: Command, command: str, file: Path, words: list[Any], place: str) -> Any:
    """What a command answers, without the name of the file."""
    folder = file.parent / place
    if command == "deploy":
        return app_of(fedcell, file, words, folder)
    judged = load_scenario(file).learning is not None and "quadratic" not in file.read_text()
    if command in ("pilot", "testbed") or (command == "constants" and judged):
        return asked_by(fedcell, command, file, words, folder)
    more: dict[str, tuple[Any, ...]] = {
        "run": ("--policy", "even", "--out", folder),
        "plan": LAW_WORDS,
        "compare": (
            *("--select", "uniform", "--policy", "even", "--seeds", 2),
            *("--out", folder, "--store", folder / "runs"),
        ),
        "cost": ("--policy", "even", "--figure", folder.with_suffix(".png")),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Showable, "plot", lambda *_, **__: None)  # figures are not compared
        said = fedcell(command, file, *words, "--json", *more.get(command, ()))
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    return {key: value for key, value in answer.items() if key not in ("scenario", "name")}


@pytest.mark.parametrize(("command", "option"), SAYS_A_KEY)
def test_an_option_says_what_its_key_says(fedcell, tmp_path, monkeypatch, command, option):
    monkeypatch.chdir(tmp_path)
    tables, key, value = SAYS_A_KEY[command, option]
    file = write_toml(tmp_path / "base.toml", tables)
    edited = write_toml(tmp_path / "edited.toml", put(tables, key, value))
    said, by_key, without = (
        answer_of(fedcell, command, *words)
        for words in (
            (file, [option, value], "by-option"),
            (edited, [], "by-key"),
            (file, [], "without"),
        )
    )
    if option == "--spread":  # for the lines of the figure alone
        said, by_key, without = said["sweep"], by_key["sweep"], without["sweep"]
    assert repr(said) == repr(by_key)  # NaN is not equal to itself
    assert repr(said) != repr(without), "the option changes nothing here"


# Quantities that are shown in several places.

POLICIES = ("even", "optimal")
NAMED_POLICIES = [word for policy in POLICIES for word in ("--policy", policy)]
PRICED = put(OF_A_TABLE, "cell.broadcast_time", 1.5)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_costs_of_a_round_are_the_same_everywhere(fedcell, tmp_path, monkeypatch):
    """`fedcell cost` as table, JSON and rows; its figure; ledgers; a sweep, its CSV files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Showable, "plot", lambda *_, **__: None)
    file = write_world(tmp_path, put(PRICED, "plan.rounds", 4))
    priced = json.loads(fedcell("cost", file, *NAMED_POLICIES, "--figure", "f.png", "--json").out)
    table = fedcell("cost", file, *NAMED_POLICIES).out
    world = load_scenario(file)
    ledgers = {policy: simulate_network(world, policy) for policy in POLICIES}
    found = compare(world, POLICIES)
    here = next(p for p in priced["sweep"] if (p["axis"], p["value"]) == ("cohort", 2))
    assert here["policies"] == priced["policies"]
    for row in found.rows():
        shown = next(p for p in priced["policies"] if p["policy"] == row["policy"])
        estimate = Estimate(**shown[row["measure"]])
        assert estimate == Estimate(*(row[n] for n in ("value", "low", "high", "level")))
        mean = getattr(ledgers[row["policy"]], row["measure"]).mean()
        assert estimate.value == pytest.approx(mean, rel=1e-12)
        if row["measure"] != "cost":
            assert plus_minus(estimate) in table, row["measure"]
    asked = {"scenario": "mine.toml", "seeds": [0], "policy": [*POLICIES]}
    (tmp_path / "sweep.json").write_text(json.dumps(asked))
    said = fedcell("sweep", "sweep.json", "--out", "swept", "--workers", 1, "--json")
    runs, saved = json.loads(said.out)["runs"], read_csv(tmp_path / "swept/runs.csv")
    rounds = read_csv(tmp_path / "swept/ledgers.csv")
    for i, (done, row) in enumerate(zip(runs, saved, strict=True)):
        ledger = ledgers[done["policy"]]
        assert {name: str(value) for name, value in done.items()} == row
        for name in ("duration", "energy", "cost"):
            assert done[name] == pytest.approx(getattr(ledger, name).sum(), rel=1e-12)
            each = [float(line[name]) for line in rounds if line["run"] == str(i)]
            assert_allclose(each, getattr(ledger, name), rtol=1e-12)
        for name in ("upload_cost", "compute_cost", "staged_cost", "objective"):
            assert done[name] == pytest.approx(getattr(ledger, name).mean(), rel=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_scheduled_round_is_that_of_the_ledger(fedcell, tmp_path, policy):
    file = write_world(tmp_path, PRICED)
    world = load_scenario(file)
    ledger = simulate_network(world, policy, rounds=3, seed=5)
    words = ("schedule", file, "--policy", policy, "--round", 3, "--seed", 5)
    said, table = json.loads(fedcell(*words, "--json").out), fedcell(*words).out
    own = schedule_round(world, policy, round=3, seed=5)
    assert json.loads(json.dumps(own.to_dict())) == said
    for name in ("energy", "upload_cost", "compute_cost", "objective"):
        assert said[name] == pytest.approx(float(getattr(ledger, name)[2]), rel=1e-9), name
    broadcast = said["broadcast_time"]  # which comes before the round
    assert said["duration"] + broadcast == pytest.approx(float(ledger.duration[2]), rel=1e-9)
    lines = zip(own.rows(), *(said[name] for name in ("clients", *COLUMNS)), strict=True)
    for row, client, *values in lines:
        assert [row["client"], *(row[name] for name in COLUMNS)] == [client, *values]
        shown = (*values[:2], values[2] + values[3])  # names leave no room for both energies
        assert all(digits(value) in table for value in shown)
    times = np.add(said["upload_time"], said["compute_time"])
    assert said["duration"] == pytest.approx(times.max())
    energies = np.add(said["upload_energy"], said["compute_energy"])
    assert said["energy"] == pytest.approx(energies.sum())


def test_a_plan_is_rounds_times_what_a_round_takes_wherever_it_is_shown(fedcell, tmp_path):
    file = write_world(tmp_path, PRICED)
    plan = planned(fedcell, file, "--out", tmp_path / "plan.json")
    table = fedcell("plan", file, *LAW_WORDS).out
    totals = {name: plan[name] for name in ("rounds", "duration", "energy", "cost")}
    world = load_scenario(file).with_plan(plan["cohort"], plan["local_steps"])
    ledger = simulate_network(world, plan["policy"], rounds=200)
    for name in ("duration", "energy", "cost"):
        mean = float(getattr(ledger, name).mean())
        assert totals[name]["value"] == pytest.approx(totals["rounds"]["value"] * mean, rel=1e-9)
    assert plan["policies"][0] == {"policy": plan["policy"], **totals}
    own = plan_training(load_scenario(file), LAW, region=Region(steps=(1, 3))).named(str(file))
    saved = TrainingPlan.load(tmp_path / "plan.json")
    for shown in (own, saved):
        rows = {(r["policy"], r["measure"]): r for r in shown.rows()}
        for policy in plan["policies"]:
            for name in totals:
                row = rows[policy["policy"], name]
                assert {key: row[key] for key in policy[name]} == policy[name]
        assert json.loads(as_json(shown.to_dict())) == plan
    for policy in plan["policies"]:
        assert all(digits(policy[name]["value"]) in table for name in ("duration", "energy"))
    for estimate in totals.values():
        assert all(digits(estimate[key]) in table for key in ("value", "low", "high"))
    ledger = simulate_network(world, plan["policy"], rounds=20_000)  # as precise as devices are
    for name, mean in (("energy", ledger.energy.mean()), ("called", ledger.called.mean())):
        spent = sum(device[name] for device in plan["devices"])
        assert spent == pytest.approx(totals["rounds"]["value"] * mean, rel=0.01), name


def test_a_plan_is_scheduled_as_its_k_and_steps_in_the_file_are(fedcell, tmp_path):
    file = write_world(tmp_path, PRICED)
    plan = planned(fedcell, file, "--out", tmp_path / "plan.json")
    tables = PRICED
    for key in ("cohort", "local_steps"):
        tables = put(tables, f"plan.{key}", plan[key])
    edited = write_world(tmp_path / "edited", tables)
    by_hand = fedcell("schedule", edited, "--policy", plan["policy"], "--json")
    for words in ((), (file,)):
        said = fedcell("schedule", *words, "--plan", tmp_path / "plan.json", "--json")
        assert json.loads(said.out) == json.loads(by_hand.out)


TEXTS = ("policy", "checksum")  # columns of ledger.csv that are no numbers


def summary_in(folder: Path) -> dict[str, Any]:
    """What summary.json says of a run, without the checksums of files."""
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return {name: value for name, value in content.items() if name not in ("checksum", "files")}


def test_a_run_is_the_same_in_all_its_files(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Showable, "plot", lambda *_, **__: None)
    file = write_toml(tmp_path / "mine.toml", TRAINED)
    said = json.loads(fedcell("run", file, *NAMED_POLICIES, "--out", "run", "--json").out)
    assert summary_in(tmp_path / "run") == said
    result = load_run(tmp_path / "run")
    assert json.loads(as_json(result.to_dict())) == said
    fresh = run(load_scenario(file), POLICIES)
    ledgers, clients = read_csv(tmp_path / "run/ledger.csv"), read_csv(tmp_path / "run/clients.csv")
    history = read_csv(tmp_path / "run/history.csv")
    for outcome in said["policies"]:
        policy = outcome["policy"]
        lines = [line for line in ledgers if line["policy"] == policy]
        each = {n: [float(line[n]) for line in lines] for n in lines[0] if n not in TEXTS}
        assert len(lines) == outcome["rounds"] == len(history)
        assert each["train_loss"] == [float(line["train_loss"]) for line in history]
        assert outcome["train_loss"] == each["train_loss"][-1]
        for name in ("duration", "energy", "cost"):
            assert outcome[name] == pytest.approx(sum(each[name]), rel=1e-12)
            assert_allclose(each[name], getattr(fresh.ledgers[policy], name), rtol=1e-12)
        paid = [float(line["energy"]) for line in clients if line["policy"] == policy]
        assert sum(paid) == pytest.approx(outcome["energy"], rel=1e-12)
        assert outcome["energy_per_client"]["highest"] == pytest.approx(max(paid), rel=1e-12)
        called = sum(int(line["called"]) for line in clients if line["policy"] == policy)
        assert called == sum(each["called"])
        reached = outcome["to_target"]["rounds"]
        assert outcome["to_target"]["duration"] == pytest.approx(
            each["total_duration"][reached - 1]
        )
    (row,) = json.loads(fedcell("runs", tmp_path / "run", "--json", "--policy", "even").out)
    even = next(outcome for outcome in said["policies"] if outcome["policy"] == "even")
    assert {name: row[name] for name in even if name in row} == {
        name: even[name] for name in even if name in row
    }
    scheduled = json.loads(
        fedcell("schedule", file, "--policy", "even", "--round", 2, "--json").out
    )
    assert scheduled["energy"] == pytest.approx(float(ledgers[2]["energy"]), rel=1e-9)


def test_runs_of_seeds_sweeps_and_single_runs_agree(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Showable, "plot", lambda *_, **__: None)
    file = write_toml(tmp_path / "mine.toml", TRAINED)
    words = ("--policy", "even", "--json")
    single = json.loads(fedcell("run", file, *words, "--seed", 1, "--out", "single").out)
    fedcell("run", file, *words, "--seeds", 2, "--out", "seeds")
    assert summary_in(tmp_path / "seeds/seed1") == single
    asked = {"scenario": "mine.toml", "seeds": [0, 1], "policy": ["even"]}
    (tmp_path / "sweep.json").write_text(json.dumps(asked))
    said = fedcell("sweep", "sweep.json", "--out", "swept", "--workers", 1, "--json")
    swept = json.loads(said.out)["runs"][1]
    to_target = single["policies"][0]["to_target"]
    for name in ("duration", "energy", "cost"):
        assert swept[name] == pytest.approx(to_target[name], rel=1e-12)
    assert swept["train_loss"] == single["policies"][0]["train_loss"]
