"""Devices and radios by name: complete, with sources, in scenarios and tables of clients."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedcell import Clients, Scenario, compare, load_scenario, save_scenario
from fedcell.errors import BadInput
from fedcell.network import draw_fleet
from fedcell.network.physics.discrete.standards import lora
from fedcell.network.physics.hardware import Hardware
from fedcell.scenario.catalogue.entries import MARKS, Catalogue, find_entry
from fedcell.scenario.fleet_table import client_table
from fedcell.scenario.hardware.radio import FIXED_BANDS
from fedcell.scenario.load import scenario_of

DEVICES = ["rpi4", "rpi3", "rpi-zero-2w", "rpi5", "jetson-orin-nano", "jetson-nano", "phone-sd855"]
DEVICES += ["esp32-s2", "stm32f7", "n100", "esp32", "nrf52840", "nrf9160", "sara-n211", "sam-r34"]
RADIOS = ["nr-mid", "nr-redcap", "lte", "lte-m", "nb-iot", "wifi", "802.15.4", "lora"]
RATIOS = ("efficiency", "usable_share", "uplink_share", "duty_cycle", "target_bler")
WORLDS = ["phones-5g", "factory", "meters", "pis-wifi"]
ENTRIES = [pytest.param(entry, id=entry.name) for entry in Catalogue.load().entries]


def band_of(radio):
    """The [cell] of a radio with a rate table in bit/s: of one bandwidth."""
    keys = find_entry("radio", radio).keys
    return {"bandwidth": FIXED_BANDS.get(keys.get("rate_table"), 20e6)}


def test_the_catalogue_holds_what_it_should():
    catalogue = Catalogue.load()
    assert [entry.name for entry in catalogue.of("device")] == DEVICES
    assert [entry.name for entry in catalogue.of("radio")] == RADIOS


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_number_has_a_mark_a_source_and_fits_a_scenario(entry, tmp_path):
    for fact in entry.facts:
        assert fact.mark in MARKS
        assert fact.source
        assert fact.unit or fact.key in RATIOS or (isinstance(fact.value, str))
        assert fact.note or fact.mark != "derived", fact.key
    cell = band_of(entry.name) if entry.kind == "radio" else {}
    world = scenario_of({entry.kind: entry.name, "cell": cell}, tmp_path)
    for table, keys in entry.tables().items():
        for key, value in keys.items():
            assert getattr(getattr(world, table), key) == value
    assert draw_fleet(world).count == 100


def test_derived_numbers_follow_from_their_notes():
    """The arithmetic of the notes, by hand."""

    def value(kind, name, key):
        return next(f.value for f in find_entry(kind, name).facts if f.key == key)

    # Two clocks of a Pi 4: 24.5 / 4 and 33 / 4 W at 1.5 and 2.0 GHz.
    kappa = (33 / 4 - 24.5 / 4) / (8e27 - 3.375e27)
    assert value("device", "rpi4", "kappa") == pytest.approx(kappa, rel=0.01)
    busy = 24.5 / 4 - kappa * 3.375e27
    assert value("device", "rpi4", "busy_power") == pytest.approx(busy, rel=0.01)
    assert value("device", "rpi5", "energy_per_cycle") == pytest.approx(11 / 2.4e9, rel=0.01)
    assert value("device", "phone-sd855", "kappa") == pytest.approx(1.97 / 1.7088e9**3, rel=0.02)
    batch = np.tile([1, 2, 4, 8, 16], 2)
    ms = [8.8, 11.1, 11.8, 14.9, 20.8, 9.7, 12.3, 13.8, 16.3, 19.1]
    slope, start = np.polyfit(batch, ms, 1)
    for key, time in (("cycles_per_step", start), ("cycles_per_sample", slope)):
        assert value("device", "phone-sd855", key) == pytest.approx(time * 1.7088e6, rel=0.03)
    clock = np.array([240, 160, 80]) * 1e6
    joules, watts = np.polyfit(clock, 3.3 * np.array([22, 17, 14]) / 1e3, 1)
    assert value("device", "esp32-s2", "energy_per_cycle") == pytest.approx(joules, rel=0.01)
    assert value("device", "esp32-s2", "busy_power") == pytest.approx(watts, rel=0.01)
    inference = 0.95e-3 / 3.2e-3 / 2.16e8
    assert value("device", "stm32f7", "energy_per_cycle") == pytest.approx(inference, rel=0.03)
    assert value("device", "n100", "energy_per_cycle") == pytest.approx(20.5 / 3.4e9, rel=0.01)
    assert value("device", "rpi3", "energy_per_cycle") == pytest.approx(2.5 / 1.4e9, rel=0.01)
    assert value("device", "rpi-zero-2w", "energy_per_cycle") == pytest.approx(2.1 / 1e9)
    own = (3.3 * 20e-3 - 3.3 * 0.8e-3) / 240e6
    assert value("device", "esp32", "energy_per_cycle") == pytest.approx(own, rel=0.01)
    assert value("device", "esp32", "circuit_power") == pytest.approx(3.3 * 0.248, rel=0.01)
    assert value("device", "esp32", "receive_power") == pytest.approx(3.3 * 0.11, rel=0.02)
    assert value("device", "esp32", "connection_energy") == pytest.approx(5 * 0.341, rel=0.01)
    assert value("device", "nrf52840", "energy_per_cycle") == pytest.approx(9.6e-3 / 64e6)
    assert value("device", "nrf52840", "circuit_power") == pytest.approx(3 * 4.8e-3 - 1e-3)
    assert value("device", "nrf52840", "goodput") == pytest.approx(116 * 8 / 6.88e-3, rel=0.01)
    assert value("device", "nrf9160", "send_power") == pytest.approx(3.7 * 0.1075, rel=0.01)
    lte_m = value("radio", "lte-m", "circuit_power")
    assert value("device", "nrf9160", "circuit_power") == lte_m
    assert value("device", "sara-n211", "circuit_power") == pytest.approx(
        value("radio", "nb-iot", "circuit_power")
    )
    radiated = 10**1.5 / 1e3
    send = 3.3 * 39.95e-3
    assert value("device", "sam-r34", "circuit_power") == pytest.approx(send - radiated, rel=0.01)
    assert value("device", "sam-r34", "send_power_20_dbm") == pytest.approx(3.3 * 0.1147, rel=0.01)
    levels = value("device", "phone-sd855", "levels")
    assert (levels[0], levels[-1], len(levels)) == (
        value("device", "phone-sd855", "freq_min"),
        value("device", "phone-sd855", "freq_max"),
        18,
    )
    pilots = 14 / 15 * 13 / 14
    assert value("radio", "nr-mid", "usable_share") == pytest.approx(0.9828 * pilots, abs=0.005)
    assert value("radio", "nr-redcap", "usable_share") == pytest.approx(0.918 * pilots, abs=0.005)
    assert value("radio", "nr-mid", "spectral_cap") == pytest.approx(6 * 948 / 1024, abs=0.005)
    assert value("radio", "lte", "spectral_cap") == pytest.approx(np.log2(1 + 10**2.2), abs=0.05)
    assert value("radio", "lte-m", "spectral_cap") == pytest.approx(375e3 / 1.08e6, rel=0.01)
    # NB-IoT: 0.279 W + 2.58 p, a quarter of the time on air; 62.5 kbit/s.
    amps = np.array([74, 75, 78, 100, 220]) / 1e3
    sent = 10 ** (np.array([-40, -7, 3, 13, 23]) / 10) / 1e3
    per_watt, circuit = np.polyfit(sent, 3.6 * amps, 1)
    assert value("radio", "nb-iot", "efficiency") == pytest.approx(1 / per_watt, rel=0.02)
    assert value("radio", "nb-iot", "circuit_power") == pytest.approx(circuit, rel=0.02)
    assert value("radio", "nb-iot", "receive_power") == pytest.approx(3.6 * 46e-3, rel=0.01)
    assert value("radio", "nb-iot", "sustained_rate") == 1000 / 16e-3
    coupling = 23 - 164 - (10 * np.log10(4e-21 * 1e3 * 15e3) + 5)
    assert value("radio", "nb-iot", "snr_min_db") == pytest.approx(coupling, abs=0.1)
    assert value("radio", "802.15.4", "usable_share") == pytest.approx(119 / 135, abs=0.005)
    assert value("radio", "802.15.4", "best_rate") == pytest.approx(8 * 116 / 6.88e-3, rel=0.01)
    assert value("radio", "802.15.4", "circuit_power") == pytest.approx(3 * 4.8e-3 - 1e-3)
    # LoRa: 25.2 and 38.4 mA at 3.3 V with 7 and 15 dBm; frames as in the table of the time on air.
    sent = 10 ** (np.array([7, 15]) / 10) / 1e3
    per_watt, circuit = np.polyfit(sent, 3.3 * np.array([25.2, 38.4]) / 1e3, 1)
    assert value("radio", "lora", "circuit_power") == pytest.approx(circuit, rel=0.01)
    assert value("radio", "lora", "efficiency") == pytest.approx(1 / per_watt, rel=0.01)
    assert value("radio", "lora", "receive_power") == pytest.approx(3.3 * 12.6e-3, rel=0.01)
    frames = {7: 368.9, 8: 655.9, 9: 676.9, 10: 698.4, 11: 1560.6, 12: 2793.5}  # ms
    for factor, length in frames.items():
        on_air = 8e3 * lora.PAYLOAD[factor] / length
        assert value("radio", "lora", f"rate_sf{factor}") == pytest.approx(on_air, rel=0.003)


def test_own_values_go_before_those_of_the_catalogue(tmp_path):
    world = scenario_of(
        {
            "device": {"like": "rpi4", "idle_power": 3.0},
            "radio": {"like": "wifi"},
            "clients": {"freq_max": 1.8e9},
        },
        tmp_path,
    )
    assert (world.device.idle_power, world.device.busy_power) == (3.0, 4.6)
    assert (world.clients.freq_max, world.clients.kappa) == (1.8e9, 4.6e-28)
    assert (world.radio.access, world.radio.circuit_power) == ("time", 3.94)  # of the whole board
    save_scenario(world, tmp_path / "mine.toml")
    assert load_scenario(tmp_path / "mine.toml") == world


def test_clients_of_a_table_are_named_devices(tmp_path):
    (tmp_path / "fleet.csv").write_text(
        "name,device,radio,idle_power,freq_max_ghz\na,rpi4,wifi,3.0,\nb,esp32-s2,,,\nc,,,,0.5\n"
    )
    (tmp_path / "mine.toml").write_text('[clients]\ntable = "fleet.csv"\n[plan]\ncohort = 2\n')
    table = load_scenario(tmp_path / "mine.toml").clients.table
    np.testing.assert_array_equal(table.idle_power, [3.0, 0.0018, np.nan])
    np.testing.assert_array_equal(table.freq_max, [1.5e9, 2.4e8, 0.5e9])
    np.testing.assert_array_equal(table.power_max, [0.05, np.nan, np.nan])
    np.testing.assert_array_equal(table.circuit_power, [3.94, 0.66, np.nan])
    assert table.labels["device"] == ("rpi4", "esp32-s2", "")
    assert Clients(table={"device": ["rpi5", "rpi5"]}).table.freq_max.tolist() == [2.4e9, 2.4e9]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("radio", RADIOS)
def test_any_device_goes_with_any_radio(device, radio):
    in_tables = scenario_of({"device": device, "radio": radio, "cell": band_of(radio)}, Path())
    columns = {"device": [device], "radio": [radio]}
    in_columns = Scenario().using(
        clients={"table": client_table(columns)},
        plan={"cohort": 1},
        radio={"power_max": 0.2, "power_law": "full"},
    )
    one, other = Hardware.of(in_tables), Hardware.of(in_columns)
    for name in ("idle_power", "circuit_power", "receive_power"):
        assert getattr(one, name)[0] == getattr(other, name)[0]


def test_a_modem_draws_beside_the_idle_device():
    cell = band_of("nb-iot")
    own = {"device": "rpi4", "radio": {"like": "nb-iot", "receive_power": 5.0}, "cell": cell}
    assert scenario_of(own, Path()).radio.receive_power == 5.0
    named = scenario_of({"device": "rpi4", "radio": "nb-iot", "cell": cell}, Path())
    assert named.radio.receive_power == pytest.approx(2.7 + 0.166)
    assert named.radio.circuit_power == 3.94  # the board's own, while sending
    idle = {"device": {"idle_power": 0.05}, "radio": "nb-iot", "cell": cell}
    assert scenario_of(idle, Path()).radio.receive_power == 0.166


def test_own_devices_come_from_a_file(tmp_path, fedcell):
    (tmp_path / "mine-devices.toml").write_text(
        '[device.camera]\ntitle = "Camera"\n[device.camera.keys]\nidle_power = 1.5\n'
        'busy_power = { value = 4.0, unit = "W", mark = "measured", source = "our meter" }\n'
    )
    (tmp_path / "mine.toml").write_text('catalogue = "mine-devices.toml"\ndevice = "camera"\n')
    assert load_scenario(tmp_path / "mine.toml").device.busy_power == 4.0
    said = fedcell("devices", "camera", "--file", tmp_path / "mine-devices.toml").out
    assert "idle_power = 1.5, assumed: set your own" in said
    assert "our meter" in said
    listed = json.loads(fedcell("devices", "--file", tmp_path / "mine-devices.toml", "--json").out)
    assert [entry["name"] for entry in listed["entries"]] == ["camera", *DEVICES, *RADIOS]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[gadget.a.keys]\nidle_power = 1", "gadget: expected .device.NAME.keys"),
        ("[device.a]\nidle_power = 1", "device.a has no table device.a.keys"),
        ("[device.a.keys]\nidle_powr = 1", "idle_powr is not a key of a device; did you mean"),
        ("[radio.a.keys]\nkappa = 1", "radio.a.keys.kappa is not a key of a radio"),
        ("[device.a.keys]\nidle_power = true", "idle_power = True: expected a number"),
        ('[device.a.keys]\nidle_power = { value = 1, mark = "seen" }', "mark = 'seen': expected"),
        (
            '[device.a.keys]\nidle_power = { value = 1, mark = "measured" }',
            'that is "measured" needs a source',
        ),
    ],
)
def test_bad_files_of_devices_are_refused(text, sentence, tmp_path):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(BadInput, match=sentence):
        Catalogue.load(tmp_path / "own.toml")


def test_unknown_names_are_refused_with_the_close_one(tmp_path, fedcell):
    with pytest.raises(BadInput, match="no such device in the catalogue; did you mean rpi4"):
        scenario_of({"device": "rpi-4"}, tmp_path)
    with pytest.raises(BadInput, match=r"clients\.table: radio = 'wify'.*did you mean wifi"):
        Clients(table={"radio": ["wify"], "samples": [3]})
    refused = fedcell("devices", "rpi44")
    assert refused.code == 2
    assert "did you mean rpi4?" in refused.err
    with pytest.raises(BadInput, match="catalogue = 3: expected the path"):
        scenario_of({"catalogue": 3}, tmp_path)


def test_a_listed_entry_is_explained_with_all_its_sources(fedcell):
    listed = fedcell("devices").out
    assert all(name in listed for name in (*DEVICES, *RADIOS))
    for name in ("rpi4", "nb-iot"):
        said = " ".join(fedcell("devices", name).out.split())
        entry = find_entry("device" if name == "rpi4" else "radio", name)
        for fact in entry.facts:
            assert f"{fact.key} = " in said
            assert fact.source in said
        row = json.loads(fedcell("devices", name, "--json").out)
        assert row == entry.to_dict()


@pytest.mark.parametrize("name", WORLDS)
def test_shipped_worlds_are_priced(name):
    world = load_scenario(name).using(learning=None)
    even, optimal = compare(world, ["even", "optimal"], rounds=8).policies
    assert 0 < optimal.mean["objective"].value <= 1.001 * even.mean["objective"].value


@pytest.mark.long
@pytest.mark.parametrize("name", WORLDS)
def test_shipped_worlds_are_planned_run_and_swept(name, fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    law = ("--mixing", 30, "--drift", 0.02, "--start", 400, "--steps", "1..60")
    plan = json.loads(fedcell("plan", name, *law, "--out", "plan.json", "--json").out)
    assert plan["duration"]["value"] > 0
    run = json.loads(fedcell("run", "--plan", "plan.json", "--rounds", 3, "--json").out)
    assert run["policies"][0]["rounds"] == 3
    (tmp_path / "sweep.json").write_text(
        json.dumps(
            {
                "scenario": name,
                "policy": ["even"],
                "rounds": 2,
                "seeds": [0],
                "cell": {"channel": {"shadowing": [0.0, 6.0]}},
            }
        )
    )
    swept = json.loads(fedcell("sweep", "sweep.json", "--out", "o", "--workers", 1, "--json").out)
    assert [row["cell.channel.shadowing"] for row in swept["runs"]] == [0.0, 6.0]
    assert len({row["key"] for row in swept["runs"]}) == 2  # other uploads may arrive
    assert all(row["duration"] > 0 for row in swept["runs"])


@pytest.mark.long
def test_a_model_of_53_megabit_is_hopeless_over_nb_iot(fedcell, tmp_path):
    text = fedcell("scenario", "meters").out
    (tmp_path / "big.toml").write_text(
        text.replace("energy_weight = 1.0", "energy_weight = 1.0\nmodel_bits = 53227840")
    )
    law = ("--mixing", 30, "--drift", 0.02, "--start", 400, "--steps", "1..60")
    refused = fedcell("plan", tmp_path / "big.toml", *law, "--deadline", "1h")
    assert refused.code != 0
    assert "deadline" in refused.err
    small = fedcell("plan", "meters", *law, "--deadline", "1h", "--json")
    assert small.code == 0


def test_levels_of_a_named_device_reach_scenarios_and_tables(tmp_path, fedcell):
    (tmp_path / "own.toml").write_text(
        "[device.board.keys]\nlevels = [6e8, 1e9, 1.5e9]\nidle_power = 1.0\n"
    )
    (tmp_path / "a.toml").write_text('catalogue = "own.toml"\ndevice = "board"\n')
    world = load_scenario(tmp_path / "a.toml")
    assert world.device.levels == (6e8, 1e9, 1.5e9)
    assert set(draw_fleet(world).freq_max) == {1.5e9}
    (tmp_path / "fleet.csv").write_text("name,device,freq_max_ghz\na,board,1.2\nb,,0.4\n")
    (tmp_path / "b.toml").write_text(
        'catalogue = "own.toml"\n[clients]\ntable = "fleet.csv"\n[plan]\ncohort = 2\n'
    )
    table = load_scenario(tmp_path / "b.toml").clients.table
    assert table.levels == ((6e8, 1e9, 1.5e9), None)
    assert draw_fleet(load_scenario(tmp_path / "b.toml")).freq_max.tolist() == [1e9, 4e8]
    said = fedcell("devices", "board", "--file", tmp_path / "own.toml").out
    assert "levels = 6e+08, 1e+09, 1.5e+09" in said
    (tmp_path / "own.toml").write_text("[device.board.keys]\nlevels = [2e9, 1e9]\n")
    with pytest.raises(BadInput, match="expected clocks that rise"):
        Catalogue.load(tmp_path / "own.toml")
