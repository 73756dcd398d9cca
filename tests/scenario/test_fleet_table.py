"""Tables of real clients: units, blank cells, labels, names, and every way to get them wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import BadInput, Clients, ClientTable, draw_fleet, load_scenario, save_scenario
from fedcell.scenario.fleet_table import client_table
from fedcell.scenario.identity import run_identity, training_identity

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def fleet_of(tmp_path):
    """The scenario of a CSV, with other tables beside it."""

    def load(csv, more="[plan]\ncohort = 1"):
        (tmp_path / "fleet.csv").write_text(csv)
        (tmp_path / "mine.toml").write_text(f"[clients]\ntable = 'fleet.csv'\n{more}")
        return load_scenario(tmp_path / "mine.toml")

    return load


# Units.


def test_units_by_hand(fleet_of):
    """39 dBm is 10^(39/10) mW = 7.943 W; over 20 MHz that is 3.972e-7 W/Hz."""
    scenario = fleet_of(
        "power_dbm,freq_min_mhz,freq_max_GHz,distance_km,battery_wh,loss_rate_percent\n"
        "39,20,1.5,0.15,2,5\n"
        "30,10,0.4,0.08,0.5,12.5\n"
    )
    fleet = draw_fleet(scenario)
    assert_allclose(fleet.power, [7.943282347 / 20e6, 1.0 / 20e6])
    assert_allclose(fleet.freq_min, [20e6, 10e6])
    assert_allclose(fleet.freq_max, [1.5e9, 4e8])
    assert_allclose(fleet.mean_gain, [1e-4 / 150**4, 1e-4 / 80**4])
    assert_allclose(fleet.battery, [7200.0, 1800.0])
    assert_allclose(fleet.loss_rate, [0.05, 0.125])


@pytest.mark.parametrize(
    ("heading", "value", "column", "si"),
    [
        ("power_w", 8, "power", 8 / 5e6),
        ("power_mw", 200, "power", 0.2 / 5e6),
        ("power_dbm", 20, "power", 0.1 / 5e6),
        ("power_dBm", 0, "power", 1e-3 / 5e6),
        ("power_dbm_per_hz", -34, "power", 10**-6.4),
        ("power_w_per_hz", 4e-7, "power", 4e-7),
        ("gain_db", -120, "gain", 1e-12),
        ("distance_m", 80, "distance", 80),
        ("freq_max_hz", 1e9, "freq_max", 1e9),
        ("battery_j", 7, "battery", 7),
        ("battery_kj", 7, "battery", 7000),
    ],
)
def test_each_unit_is_converted_with_the_band_of_the_file(fleet_of, heading, value, column, si):
    scenario = fleet_of(f"{heading}\n{value}\n", "[cell]\nbandwidth = 5e6\n[plan]\ncohort = 1")
    assert_allclose(getattr(scenario.clients.table, column), [si], rtol=1e-12)
    again = scenario.using(cell={"bandwidth": 1e6})  # a density stays what it is
    assert again.clients.table == scenario.clients.table


def test_powers_of_the_whole_band_need_the_band():
    with pytest.raises(BadInput, match="of the whole band, which is not known here"):
        Clients(table={"power_dbm": [20.0]})
    assert_allclose(client_table({"power_dbm": [20.0]}, bandwidth=1e6).power, [1e-7])
    assert Clients(table={"freq_max_ghz": [1.5, None]}).table.filled("freq_max", 7.0)[1] == 7.0


# Blank cells.


def test_blank_cells_take_the_defaults(fleet_of):
    columns = ["samples", "kappa", "power", "distance", "gain", "freq_min", "freq_max"]
    columns += ["cycles_per_sample", "loss_rate", "battery"]
    given = dict.fromkeys(columns, "") | {"samples": "7"}
    other = dict.fromkeys(columns, "") | {"loss_rate": "0.25", "gain": "1e-11"}
    lines = [",".join(columns), ",".join(given.values()), ",".join(other.values())]
    scenario = fleet_of(
        "\n".join(lines),
        "samples = 33\nkappa = 2e-27\npower = 3e-7\nfreq_min = 2e7\nfreq_max = 3e9\n"
        "[cell]\ndistance = 100\nloss_rate = 0.1\n[task]\ncycles_per_sample = 4e5\n"
        "[plan]\ncohort = 1",
    )
    fleet = draw_fleet(scenario)
    assert fleet.samples.tolist() == [7, 33]
    assert fleet.kappa.tolist() == [2e-27, 2e-27]
    assert fleet.power.tolist() == [3e-7, 3e-7]
    assert_allclose(fleet.mean_gain, [1e-12, 1e-11])
    assert fleet.freq_min.tolist() == [2e7, 2e7]
    assert fleet.freq_max.tolist() == [3e9, 3e9]
    assert np.asarray(fleet.cycles_per_sample).tolist() == [4e5, 4e5]
    assert np.asarray(fleet.loss_rate).tolist() == [0.1, 0.25]
    assert np.asarray(fleet.battery).tolist() == [np.inf, np.inf]
    assert_allclose(scenario.min_gain, 0.05 * (1e-12 + 1e-11) / 2)


def test_lines_of_nothing_but_commas_are_no_devices(fleet_of):
    assert fleet_of("samples,kappa\n5,\n,\n , \n,1e-27\n\n").clients.count == 2


def test_rows_of_a_scenario_may_have_other_keys_than_the_first(tmp_path):
    text = (
        "[[clients.table]]\nname = 'a'\nsamples = 3\n[[clients.table]]\nname = 'b'\nkappa = 1e-27"
    )
    (tmp_path / "mine.toml").write_text(f"[plan]\ncohort = 2\n{text}")
    fleet = draw_fleet(load_scenario(tmp_path / "mine.toml"))
    assert fleet.samples.tolist() == [3, 500]
    assert fleet.kappa.tolist() == [5e-27, 1e-27]


def test_distances_and_gains_may_stand_beside_each_other_but_not_for_one_client(fleet_of):
    fleet = draw_fleet(fleet_of("distance,gain\n100,\n,1e-11\n"))
    assert_allclose(fleet.mean_gain, [1e-12, 1e-11])
    with pytest.raises(BadInput, match="gate has both distance and gain: give one of them"):
        fleet_of("name,distance,gain\npump,100,\ngate,90,1e-11\n")


# Labels.


def test_labels_are_told_from_misspellings(fleet_of):
    scenario = fleet_of("site,owner,serial,samples\nroof,Ann,12A,5\n,Bob,77,6\n")
    labels = {"site": ("roof", ""), "owner": ("Ann", "Bob"), "serial": ("12A", "77")}
    assert scenario.clients.table.labels == labels
    for heading, meant in [
        ("sampels", "samples"),
        ("distanse", "distance"),
        ("freq_max_mzh", "freq_max_mhz"),
        ("batery_wh", "battery_wh"),
    ]:
        for cell in ("80", "80 m"):  # of numbers or of text
            with pytest.raises(
                BadInput, match=f"{heading!r} is not a column; did you mean {meant}"
            ):
                fleet_of(f"{heading},kappa\n{cell},1e-27\n")
    with pytest.raises(BadInput, match="'latitude' is not a column; known: name, samples"):
        fleet_of("latitude,samples\n52.1,5\n52.2,6\n")


@pytest.mark.parametrize("name", ["copy.toml", "copy.json"])
def test_tables_come_back_from_files(fleet_of, tmp_path, name):
    for scenario in (
        load_scenario(DOCS / "fleet.toml"),
        fleet_of("name,site,samples,loss_rate\na,x,5,\nb,,,0.2\n"),
    ):
        save_scenario(scenario, tmp_path / name)
        assert load_scenario(tmp_path / name) == scenario
    numbers = load_scenario("paper").using(
        clients={"table": ClientTable(samples=[1, 2], labels={"id": ["1", "2"]})},
        plan={"cohort": 1},
    )
    save_scenario(numbers, tmp_path / name)  # text that looks like numbers stays text
    assert load_scenario(tmp_path / name) == numbers


def test_the_fleet_of_the_page():
    scenario = load_scenario(DOCS / "fleet.toml")
    fleet, names = draw_fleet(scenario), ["pump-1", "pump-2", "gate-7", "meter-3", "meter-4"]
    assert scenario.clients.names == (*names, "camera-1")
    assert scenario.clients.table.labels["site"][2] == "yard"
    assert fleet.samples.tolist() == [120, 300, 340, 90, 150, 800]
    assert_allclose(fleet.power[[0, 2, 4]], [7.943282e0 / 20e6, 3.981072 / 20e6, 4e-7], rtol=1e-6)
    assert_allclose(fleet.mean_gain[3], 1e-4 / 200**4)
    assert np.asarray(fleet.cycles_per_sample).tolist() == [5e5, 5e5, 5e5, 1e6, 1e6, 2.5e5]
    assert_allclose(fleet.loss_rate, [0, 0.02, 0.1, 0.05, 0.05, 0])
    assert np.asarray(fleet.battery).tolist() == [np.inf, np.inf, 360, 360, 720, np.inf]


# What is refused.


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("samples,\n5,\n", "a column has no name: give it one, or take it out"),
        ("samples,si\x1bte\n5,x\n", "characters that can be printed"),
        ("samples,,kappa\n5,6,7\n", "a column has no name"),
        ("name,samples\npump,5\npump,6\n", "clients 0 and 1 are both called 'pump'"),
        ("distance_db\n5\n", "distance has no such unit; known: distance, distance_m, distance_km"),
        ("gain_mhz\n5\n", "gain has no such unit; known: gain, gain_db"),
        ("samples_km\n5\n", "samples has no such unit; known: samples$"),
        ("freq_max,freq_max_ghz\n1e9,1\n", "'freq_max' and 'freq_max_ghz' are one column"),
        ("freq_max_ghz,freq_max_mhz\n1,1000\n", "'freq_max_ghz' and 'freq_max_mhz' are one"),
        ("distance_km\nfar\n", "line 2: distance_km = 'far': expected a number, or nothing for"),
        ("samples\n1e400\n", "line 2: samples = '1e400': expected a number"),
        ("samples\ninf\n", "line 2: samples = 'inf': expected a number"),
        ("samples\nnan\n", "line 2: samples = 'nan': expected a number"),
        ("samples\n1e61\n", "client 0 has 1e.61: expected above 0, to 1e.60"),
        ("gain_db\n120\n", r"client 0 has 1000000000000.0: .* a path loss of 90 dB is -90 in gain"),
        (
            "loss_rate_percent\n100\n",
            "clients.table.loss_rate: client 0 has 1.0: expected 0 to bel",
        ),
        ("loss_rate\n-0.1\n", "clients.table.loss_rate: client 0 has -0.1"),
        ("name,battery\npump,0\n", "clients.table.battery: pump has 0.0: expected above 0"),
        ("name,freq_min\npump,4e9\n", "clients.table: pump has freq_min above freq_max"),
        ("power_dbm\n4000\n", "clients.table.power: client 0 has inf"),
        ("site,samples\na\x1b[2Jb,5\n", "clients.table.site: client 0 has .* that can be printed"),
        (f"site,samples\n{'x' * 101},5\n", "expected at most 100 characters"),
        ("samples\n1;5\n", "line 2: samples = '1;5'"),
        ("samples;kappa\n1;5\n", "are its columns separated by commas"),
        ("samples,distance\n1,5,6\n", "line 2 has 3 values for 2 columns"),
    ],
)
def test_bad_fleet_tables(fleet_of, csv, message):
    with pytest.raises(BadInput, match=message) as told:
        fleet_of(csv)
    assert all(fault.isprintable() for fault in told.value.faults)


def test_a_fleet_with_many_faults_names_the_first_of_them(fleet_of):
    with pytest.raises(BadInput) as told:
        fleet_of("samples\n" + "x\n" * 100)
    assert len(told.value.faults) == 20


def test_nan_in_python_is_no_blank_and_text_is_no_number():
    with pytest.raises(BadInput, match="samples: client 1 has nan: expected above 0"):
        ClientTable(samples=[1.0, float("nan")])
    with pytest.raises(BadInput, match="samples is not an array of numbers"):
        ClientTable(samples=[1.0, None, "many"])
    with pytest.raises(BadInput, match="'freq_max_ghz' is not a column of numbers"):
        Clients(table={"freq_max_ghz": ["fast"]})
    with pytest.raises(BadInput, match="columns of different lengths"):
        ClientTable(samples=[1.0], labels={"site": ["a", "b"]})
    with pytest.raises(BadInput, match="'kapa' is not a column; did you mean kappa"):
        Clients(table={"kapa": [1.0]})


def test_tables_with_blanks_are_equal_when_all_their_cells_are():
    one, other = (ClientTable(samples=[1.0, None], labels={"a": ["x", ""]}) for _ in range(2))
    assert one == other
    assert one != ClientTable(samples=[1.0, 2.0], labels={"a": ["x", ""]})
    assert one != ClientTable(samples=[1.0, None], labels={"a": ["x", "y"]})
    assert one.having(samples=[1.0, 2.0]).filled("samples", 9.0).tolist() == [1.0, 2.0]
    assert one.having(kappa=[1.0, 2.0]).filled("samples", 9.0).tolist() == [1.0, 9.0]


# Which run it is.


def test_a_training_depends_on_who_is_heard_and_not_on_names_or_processors():
    def identities(**columns):
        table = {"name": ["a", "b"], "distance": [80, 90], "freq_max": [1e9, None]} | columns
        world = load_scenario("digits").using(clients={"table": table}, plan={"cohort": 1})
        return training_identity(world, None, 0), run_identity(world, None, 0)

    training, run = identities()
    assert identities() == (training, run)
    json.dumps(run)  # plain values, the same in every process
    for change in ({"name": ["a", "c"]}, {"freq_max": [1e9, 2e9]}, {"battery": [5.0, None]}):
        other = identities(**change)
        assert other[0] == training, change
        assert other[1] != run, change
    assert identities(distance=[80, 91])[0] != training
    assert identities(loss_rate=[0.1, None])[0] != training
