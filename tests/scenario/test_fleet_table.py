"""Tables of real clients: units, blank cells, labels, names, and every way to get them wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import Clients, ClientTable, load_scenario, save_scenario
from fedcell.errors import BadInput
from fedcell.network import draw_fleet, draw_trace
from fedcell.policies import make_problem
from fedcell.scenario import load
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
        ("power_w", 8, "power_w", 8),
        ("power_mw", 200, "power_w", 0.2),
        ("power_dbm", 20, "power_w", 0.1),
        ("power_dBm", 0, "power_w", 1e-3),
        ("power_dbm_per_hz", -34, "power", 10**-6.4),
        ("power_w_per_hz", 4e-7, "power", 4e-7),
        ("gain_db", -120, "gain", 1e-12),
        ("distance_m", 80, "distance", 80),
        ("freq_max_hz", 1e9, "freq_max", 1e9),
        ("battery_j", 7, "battery", 7),
        ("battery_kj", 7, "battery", 7000),
    ],
)
def test_each_unit_is_converted(fleet_of, heading, value, column, si):
    scenario = fleet_of(f"{heading}\n{value}\n", "[cell]\nbandwidth = 5e6\n[plan]\ncohort = 1")
    assert_allclose(getattr(scenario.clients.table, column), [si], rtol=1e-12)
    again = scenario.using(cell={"bandwidth": 1e6})
    assert again.clients.table == scenario.clients.table


# A power of the whole band, and a density.

MIXED = "name,power_dbm,power_mw,power\na,20,,\nb,,200,\nc,,,4e-7\nd,,,\n"


@pytest.mark.parametrize("band", [1e6, 5e6, 2e7])
def test_declared_powers_are_kept_in_every_band(fleet_of, tmp_path, band):
    """100 mW and 200 mW over whatever band there is; 4e-7 W/Hz, also the default, in each."""
    expected = [0.1 / band, 0.2 / band, 4e-7, 4e-7]
    plan = "[plan]\ncohort = 1"
    edited = fleet_of(MIXED, f"[cell]\nbandwidth = {band}\n{plan}")
    changed = fleet_of(MIXED, f"[cell]\nbandwidth = 3e6\n{plan}").using(cell={"bandwidth": band})
    save_scenario(changed, tmp_path / "saved.json")
    for scenario in (edited, changed, load_scenario(tmp_path / "saved.json")):
        assert_allclose(draw_fleet(scenario).power, expected, rtol=1e-14)
        assert scenario == edited
        assert run_identity(scenario, None, 0) == run_identity(edited, None, 0)


def test_a_run_does_not_depend_on_how_its_powers_were_declared():
    """The identity of docs/fleet.toml is that which runs were stored with when dBm became W/Hz on
    reading."""
    scenario = load_scenario(DOCS / "fleet.toml")
    known = "6f696f1c54d1e4112479aa54cb5771b36f09c4e1628d217bb79f307aaea0cb41"
    assert run_identity(scenario, None, 0)["scenario"]["clients"]["table"]["power"] == known
    density = scenario.clients.table.power_density(scenario.cell.bandwidth).tolist()
    columns = {"power": [None if np.isnan(p) else p for p in density], "power_w": None}
    declared = scenario.using(clients={"table": scenario.clients.table.having(**columns)})
    assert declared != scenario
    assert run_identity(declared, None, 0) == run_identity(scenario, None, 0)
    narrow = {"bandwidth": 1e7}
    assert run_identity(declared.using(cell=narrow), None, 0) != run_identity(
        scenario.using(cell=narrow), None, 0
    )


def test_a_fleet_of_another_band_is_refused():
    scenario = load_scenario(DOCS / "fleet.toml")
    narrow, fleet = scenario.using(cell={"bandwidth": 1e7}), draw_fleet(scenario)
    trace = draw_trace(narrow, fleet, rounds=1)
    assert make_problem(scenario, fleet, trace).band_time.shape == (1, 3)
    with pytest.raises(BadInput, match=r"drawn for another cell\.bandwidth"):
        make_problem(narrow, fleet, trace)


def test_a_power_that_is_no_density_in_the_band_is_refused(fleet_of):
    with pytest.raises(BadInput, match=r"power_w: pump has 10 W, in a band of 1e-60 Hz .* W/Hz"):
        fleet_of("name,power_w,power\npump,10,\n", "[cell]\nbandwidth = 1e-60")


# A quantity in several units.


def test_rows_may_have_their_units_each(fleet_of):
    scenario = fleet_of(
        "freq_max_ghz,freq_max_mhz,freq_max,battery_wh,battery_j\n1.5,,,2,\n,400,,,5\n,,3e9,,\n"
    )
    fleet = draw_fleet(scenario)
    assert_allclose(fleet.freq_max, [1.5e9, 4e8, 3e9])
    assert_allclose(fleet.battery, [7200.0, 5.0, np.inf])
    assert_allclose(
        Clients(table={"power_mw": [200.0, None], "power_dbm": [None, 20.0]}).table.power_w,
        [0.2, 0.1],
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"power_mw": [1, 2], "power_dbm": [None, 3]}, "gate has both 'power_mw' and 'power_dbm'"),
        ({"power_w_per_hz": [1, 2], "power_dbm": [3, None]}, "pump has both 'power_w_per_hz' and"),
        ({"battery_wh": [1, 2], "battery_j": [3, None]}, "pump has both 'battery_wh' and"),
        ({"battery_wh": [1, 2], "battery_j": [None]}, "'battery_j' have different lengths"),
    ],
)
def test_a_row_with_two_values_of_one_quantity_is_refused(columns, message):
    with pytest.raises(BadInput, match=message):
        Clients(table={"name": ["pump", "gate"], **columns})


def test_a_client_has_a_density_or_a_power_of_the_whole_band():
    with pytest.raises(BadInput, match="client 1 has both power and power_w: give one of them"):
        ClientTable(power=[None, 4e-7], power_w=[1.0, 1.0])


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


def test_labels_are_distinguished_from_misspellings(fleet_of):
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
        ("freq_max,freq_max_ghz\n1e9,1\n", "client 0 has both 'freq_max' and 'freq_max_ghz': give"),
        (
            "freq_max_ghz,freq_max_mhz\n,\n1,1000\n2,3\n",
            "0 has both 'freq_max_ghz' and 'freq_max_mhz'",
        ),
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
        ("power_dbm\n4000\n", "clients.table.power_w: client 0 has inf"),
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


def test_long_tables_are_read_in_parts(fleet_of, monkeypatch):
    """Cells, faults and their lines are those of the whole file."""
    rows = [f"d{j},{j + 1},{'roof' if j % 2 else ''},{5 * j or ''}" for j in range(7)]
    text = "\n".join(["name,samples,site,battery", *rows[:4], "", *rows[4:]])
    whole = fleet_of(text).clients.table
    monkeypatch.setattr(load, "ROWS_AT_A_TIME", 2)
    assert fleet_of(text).clients.table == whole
    assert whole.samples.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert whole.labels["site"] == ("", "roof") * 3 + ("",)
    assert np.isnan(whole.battery).tolist() == [True] + 6 * [False]
    with pytest.raises(BadInput, match="line 9: samples = 'x': expected a number"):
        fleet_of(text.replace("d6,7", "d6,x"))
    with pytest.raises(BadInput, match="line 8 has 3 values for 4 columns"):
        fleet_of(text.replace("d5,6,", "d5,6"))


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


def test_a_training_depends_on_channels_and_not_on_names_or_processors():
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
