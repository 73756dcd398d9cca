"""Scenario files: the paper's numbers, strictness, real fleets and measured channels."""

import bz2
import gzip
import json
import lzma
import tomllib

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import (
    Cell,
    Clients,
    ClientTable,
    Gains,
    RoundPlan,
    Scenario,
    load_scenario,
    save_scenario,
)
from fedcell.core.schema import Table
from fedcell.errors import BadInput
from fedcell.network import draw_fleet
from fedcell.scenario.load import SHIPPED, shipped
from fedcell.scenario.save import plain_tables
from fedcell.scenario.tables import PAPER_TASK

FLEET = """samples, kappa, power, distance, freq_min, freq_max
120, 4e-27, 3e-7, 80, 1e7, 1e9
300, 5e-27, 4e-7, 150, 2e7, 2e9
500, 6e-27, 5e-7, 200, 1e7, 1e9
"""


def test_the_defaults_are_the_paper_s():
    """Sec. V-A and V-C."""
    s = Scenario()
    cell, clients, task, plan = s.cell, s.clients, s.task, s.plan
    assert (cell.bandwidth, cell.noise, cell.reference_gain) == (20e6, 5e-20, 1e-4)
    assert (cell.path_loss_exponent, cell.reference_distance, cell.distance) == (4, 1, 200)
    assert (s.model_bits, s.cycles_per_sample) == (3e4, 5e5)
    assert task.energy_weight == 1
    assert (clients.kappa, clients.power, clients.samples) == (5e-27, 4e-7, 500)
    assert (plan.local_steps, plan.cohort, plan.rounds) == (20, 10, 50)
    # What the paper leaves open, as DECISIONS.md, 21 says.
    assert (clients.count, clients.spread, cell.loss_rate, cell.broadcast_time) == (100, 0.1, 0, 0)
    assert (clients.freq_min, clients.freq_max, cell.gain_threshold) == (1e7, 2e9, 0.05)
    assert s.samples_per_step == "dataset"


def test_the_shipped_paper_file_states_every_default():
    assert load_scenario("paper") == Scenario(task=PAPER_TASK)
    stated = tomllib.loads(shipped("paper"))
    paper = Scenario(task=PAPER_TASK)
    for name in ("cell", "clients", "task", "plan"):
        for field, value in msgspec.structs.asdict(getattr(paper, name)).items():
            if field in ("gains", "table", "sizes", "local_epochs"):
                assert f"# {field} = " in shipped("paper")
            else:
                assert stated[name][field] == plain_tables(value), field


def test_the_shipped_cnn_is_mcmahan_s():
    task = load_scenario("cnn").task
    layers = [(1, 32, 25), (32, 64, 25), (7 * 7 * 64, 512, 1), (512, 10, 1)]
    parameters = sum(inputs * outputs * kernel + outputs for inputs, outputs, kernel in layers)
    assert task.model_bits == 32 * parameters == 32 * 1_663_370
    positions = [28 * 28, 14 * 14, 1, 1]
    forward = sum(
        at * inputs * outputs * kernel
        for at, (inputs, outputs, kernel) in zip(positions, layers, strict=True)
    )
    assert_allclose(task.cycles_per_sample, 3 * forward, rtol=0.01)


def test_every_fault_is_named_at_once(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("""
        [cell]
        bandwith = 1e6
        noise = -1.0
        loss_rate = 1.0
        loss_kind = "sometimes"
        [clients]
        count = 2.5
        samples = "many"
        kappa = nan
        power = inf
        [task]
        energy_weight = true
        [plans]
        cohort = 3
    """)
    with pytest.raises(BadInput) as caught:
        load_scenario(file)
    faults = "\n".join(caught.value.faults)
    for words in (
        "cell.bandwith is not a key; did you mean cell.bandwidth?",
        "cell.noise = -1.0: expected a number above 0",
        "cell.loss_rate = 1.0: expected a number from 0 to below 1",
        'cell.loss_kind = \'sometimes\': expected "independent" or "worst-case"',
        "clients.count = 2.5: expected a whole number from 1 to 1e7",
        "clients.samples = 'many': expected a number above 0",
        "clients.kappa = nan: expected a number above 0",
        "clients.power = inf: expected a number above 0",
        "task.energy_weight = True: expected a number from 0 to 1e60",
        "plans is not a key; did you mean plan?",
    ):
        assert words in faults
    assert len(caught.value.faults) == 10
    assert all(fault.startswith(str(file)) for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[clients]\nfreq_min = 3e9", r"clients.freq_min = 3e\+09 is above clients.freq_max = 2e"),
        ("[plan]\ncohort = 101", "plan.cohort = 101 is more than the 100 clients.*choose 1 to 100"),
        ("[plan]\ncohort = 0", "plan.cohort = 0: expected a whole number from 1"),
        ("[clients]\ncount = 0", "clients.count = 0: expected a whole number from 1"),
        ("[cell]\ndistance = [300, 200]", "cell.distance = .300, 200.: the nearest comes first"),
        ("[cell]\ndistance = 0", "cell.distance = 0: expected a number above 0"),
        ("[cell]\ndistance = [1, 2, 3]", "cell.distance = .*or two of them"),
        ("[cell]\ndistance = [nan, 2]", "cell.distance = .*or two of them"),
        ("cell = 3", "cell = 3: expected a table"),
        ("[cell]\nbandwidth = 1e6\nbandwidth = 2e6\n", "syntax is wrong.*line 3"),
        ("[cell\nbandwidth = 1", "syntax is wrong.*line 1"),
        ("[cell]\ngains = 4", "cell.gains: expected the path"),
        ("[cell]\ngains = 'none.npy'", "cell.gains: .*none.npy cannot be read: No such file"),
        ("[clients]\ntable = 'none.csv'", "none.csv: cannot be read: No such file"),
        ("[clients]\ntable = []", "clients.table: expected the path"),
        ("[[clients.table]]\nsamples = true", r"samples = True: expected a number"),
        ("[[clients.table]]\nsample = 3", "'sample' is not a column; did you mean samples"),
        ("[[clients.table]]\nsamples = -3", "clients.table.samples: client 0 has -3"),
        (
            "[[clients.table]]\nfreq_min = 4e9",
            "clients.table: client 0 has freq_min above freq_max",
        ),
        ("[[clients.table]]\ndistance = 4.0\ngain = 1e-9", "both distance and gain"),
    ],
)
def test_invalid_scenario_files_get_one_clear_sentence(tmp_path, text, message):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match=message):
        load_scenario(file)


def test_files_that_are_not_there_or_not_text(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere.toml: cannot be read: No such file"):
        load_scenario(tmp_path / "nowhere.toml")
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        load_scenario(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not a text file in UTF-8"):
        load_scenario(tmp_path / "binary.toml")
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(BadInput, match="expected tables with keys, not a list"):
        load_scenario(tmp_path / "list.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(BadInput, match="nested too deeply"):
        load_scenario(tmp_path / "deep.json")
    (tmp_path / "twice.json").write_text('{"cell": {}, "cell": {}}')
    with pytest.raises(BadInput, match="a key stands twice"):
        load_scenario(tmp_path / "twice.json")
    with pytest.raises(BadInput, match="choose paper or cnn"):
        shipped("papr")


def test_python_is_as_strict_as_files():
    with pytest.raises(BadInput, match=r"cell.bandwidth = -1: expected a number above 0"):
        Cell(bandwidth=-1)
    with pytest.raises(BadInput, match=r"clients.freq_min = 1e\+07 is above"):
        Clients(freq_max=1e6)
    with pytest.raises(BadInput, match=r"plan.cohrt is not a key; did you mean plan.cohort\?"):
        Scenario().using(plan={"cohrt": 3})
    with pytest.raises(BadInput, match=r"pln is not a key; did you mean plan\?"):
        Scenario().using(pln={"cohort": 3})
    with pytest.raises(AttributeError):
        Scenario().cell.bandwidth = 3.0  # type: ignore[misc]


def test_using_changes_what_is_named_and_nothing_else():
    base = Scenario()
    other = base.using(plan={"cohort": 20}, cell={"loss_rate": 0.1})
    assert (other.plan.cohort, other.cell.loss_rate) == (20, 0.1)
    assert other.clients == base.clients
    assert other.using(plan={"cohort": 10}, cell={"loss_rate": 0.0}) == base


def test_using_reads_only_the_values_that_change(monkeypatch):
    scenario, read, decoded = load_scenario("digits"), [], []
    convert, check = msgspec.convert, Table.__post_init__

    def counted_convert(value, kind, **options):
        read.append(value)
        return convert(value, kind, **options)

    def counted_check(table):
        decoded.append(type(table))
        check(table)

    monkeypatch.setattr(msgspec, "convert", counted_convert)
    monkeypatch.setattr(Table, "__post_init__", counted_check)
    changed = scenario.using(task={"batch_size": 3}).with_plan(4, 7)
    assert read == [3, 4, 7]
    assert decoded == []
    assert (changed.task.batch_size, changed.plan.cohort, changed.plan.local_steps) == (3, 4, 7)
    for name in ("cell", "clients", "learning"):
        assert getattr(changed, name) is getattr(scenario, name)
    assert scenario == load_scenario("digits")


def test_using_reuses_the_tables_inside_a_table():
    scenario = load_scenario("digits")
    changed = scenario.using(learning={"rate": 0.3})
    assert changed.learning.rate == 0.3
    assert changed.learning.partition is scenario.learning.partition
    assert changed.plan is scenario.plan


def test_using_is_as_strict_as_a_file():
    scenario = load_scenario("digits")
    with pytest.raises(BadInput) as caught:
        scenario.using(
            plan={"cohort": 0, "selektion": "uniform"},
            cell={"bandwidth": -1},
            learning={"partition": {"alpha": -2}},
            clinets={"count": 3},
        )
    places = [fault.split(" ")[0] for fault in caught.value.faults]
    expected = ["plan.selektion", "plan.cohort", "cell.bandwidth", "learning.partition.alpha"]
    assert places == [*expected, "clinets"]
    with pytest.raises(BadInput, match=r"plan\.cohort = 101 is more than the 100 clients"):
        Scenario().using(plan={"cohort": 101})  # checks between tables
    with pytest.raises(BadInput, match=r"clients\.freq_min = 3e\+09 is above"):
        Scenario().using(clients={"freq_min": 3e9})  # checks within a table
    with pytest.raises(BadInput, match="has 2 columns for 100 clients"):
        Scenario().using(cell={"gains": [[1e-13, 1e-13]]})


def test_using_a_table_of_clients_takes_its_count():
    three = Scenario().using(clients={"table": {"samples": [1, 2, 3]}}, plan={"cohort": 2})
    assert three.clients.count == 3
    assert three.using(clients={"table": {"samples": [1, 2]}}).clients.count == 2
    with pytest.raises(BadInput, match=r"count = 5 and clients\.table lists 3"):
        three.using(clients={"count": 5})


def test_json_is_read_too(tmp_path):
    (tmp_path / "a.json").write_text('{"plan": {"cohort": 7}, "cell": {"distance": [10, 90.5]}}')
    scenario = load_scenario(tmp_path / "a.json")
    assert scenario.plan.cohort == 7
    assert scenario.cell.distance == (10.0, 90.5)


def test_real_clients_from_a_csv_beside_the_file(tmp_path):
    (tmp_path / "fleet.csv").write_text(FLEET)
    (tmp_path / "mine.toml").write_text("[clients]\ntable = 'fleet.csv'\n[plan]\ncohort = 2")
    scenario = load_scenario(tmp_path / "mine.toml")
    assert scenario.clients.count == 3
    fleet = draw_fleet(scenario)
    assert fleet.samples.tolist() == [120, 300, 500]
    assert fleet.freq_min.tolist() == [1e7, 2e7, 1e7]
    assert_allclose(fleet.mean_gain, 1e-4 / np.array([80.0, 150, 200]) ** 4)


def test_real_clients_from_a_table_in_the_file(tmp_path):
    rows = "".join(f"[[clients.table]]\nsamples = {n}\ngain = 1e-13\n" for n in (5, 6))
    (tmp_path / "mine.toml").write_text(f"[plan]\ncohort = 2\n{rows}")
    fleet = draw_fleet(load_scenario(tmp_path / "mine.toml"))
    assert fleet.samples.tolist() == [5, 6]
    assert fleet.mean_gain.tolist() == [1e-13, 1e-13]
    assert fleet.kappa.tolist() == [5e-27, 5e-27]  # a column left out: the value of [clients]


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        ("", "needs a line of column names"),
        ("samples\n", "needs a line of column names"),
        ("samples,kapa\n1,2\n", "'kapa' is not a column; did you mean kappa"),
        ("samples,kappa\n1,2\n1\n", "line 3 has 1 values for 2 columns"),
        ("samples\nfour\n", "line 2: samples = 'four': expected a number"),
        ("samples\n5\nnan\n", "line 3: samples = 'nan': expected a number, or nothing for"),
        ("samples\n5\n0\n", "clients.table.samples: client 1 has 0.0"),
        ("samples,samples\n5,6\n", "'samples' stands twice"),
        ("samples\n\n5\n\nx\n", "line 5: samples = 'x'"),
        ("gain\n-120\n", "clients.table.gain: client 0 has -120.0: expected above 0, to 1"),
        ("name,samples\npump,5\npump,6\n", "clients 0 and 1 are both called 'pump'"),
        ("name,samples\npump,5\n ,6\n", "client 1 has no name: give each client a name, or none"),
        ("name,samples\na\x07b,5\n", "characters that can be printed"),
    ],
)
def test_bad_client_tables(tmp_path, csv, message):
    (tmp_path / "fleet.csv").write_text(csv)
    (tmp_path / "mine.toml").write_text("[clients]\ntable = 'fleet.csv'\n[plan]\ncohort = 1")
    with pytest.raises(BadInput, match=message):
        load_scenario(tmp_path / "mine.toml")


def test_clients_have_names_that_are_kept(tmp_path):
    (tmp_path / "fleet.csv").write_text("name,samples\npump 1,5\n gate ,6\n")
    (tmp_path / "mine.toml").write_text("[clients]\ntable = 'fleet.csv'\n[plan]\ncohort = 1")
    scenario = load_scenario(tmp_path / "mine.toml")
    assert scenario.clients.names == ("pump 1", "gate")
    for name in ("copy.toml", "copy.json"):
        save_scenario(scenario, tmp_path / name)
        assert load_scenario(tmp_path / name) == scenario
    assert Scenario().clients.names is None


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_measured_gains_from_a_file(tmp_path, suffix):
    values = np.array([[1e-13, 2e-13, 3e-13], [4e-13, 5e-13, 0.0]])
    if suffix == "npy":
        np.save(tmp_path / "h.npy", values)
    else:
        np.savetxt(tmp_path / "h.csv", values, delimiter=",")
    text = f"[cell]\ngains = 'h.{suffix}'\n[clients]\ncount = 3\n[plan]\ncohort = 2"
    (tmp_path / "mine.toml").write_text(text)
    scenario = load_scenario(tmp_path / "mine.toml")
    assert scenario.cell.gains == Gains(values)
    assert scenario.cell.gains != Gains(values * 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), "shape .3,.: expected .rounds, clients."),
        (np.ones((2, 4)), "cell.gains has 4 columns for 3 clients: give one column per client"),
        (np.array([[1.0, -1.0, 1.0]]), r"cell.gains\[0, 1\] = -1.0"),
        (np.array([[1.0, 1.0, np.nan]]), r"cell.gains\[0, 2\] = nan"),
        (np.array([["a", "b", "c"]]), "is not an array of numbers"),
        (np.array([[1j, 1, 1]]), "complex numbers: give real ones .power gains"),
        (np.array([[None, {}, 1]]), "is not a table of numbers"),
        (np.array([[True, False, True]]), "its type is bool"),
        (np.array([[-130.0, -120.0, -110.0]]), "linear, not dB"),
        (np.array([[130.0, 120.0, 110.0]]), "linear, not dB"),
        (np.empty((0, 3)), "shape .0, 3."),
    ],
)
def test_bad_gains(tmp_path, values, message):
    np.save(tmp_path / "h.npy", values)
    text = "[cell]\ngains = 'h.npy'\n[clients]\ncount = 3\n[plan]\ncohort = 2"
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(BadInput, match=message):
        load_scenario(tmp_path / "mine.toml")


def test_odd_files_are_read_for_what_they_are(tmp_path):
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf[plan]\r\ncohort = 3\r\n")
    assert load_scenario(tmp_path / "bom.toml").plan.cohort == 3
    (tmp_path / "json.txt").write_text('{"plan": {"cohort": 4}}')
    assert load_scenario(tmp_path / "json.txt").plan.cohort == 4
    (tmp_path / "null.json").write_text('{"cell": {"gains": null}, "clients": {"table": null}}')
    assert load_scenario(tmp_path / "null.json") == Scenario()
    (tmp_path / "h.npy").write_bytes(b"")
    (tmp_path / "h.csv").write_bytes(b"")
    for name, message in [("h.npy", "not a table of numbers"), ("h.csv", "shape .0, 1.")]:
        (tmp_path / "mine.toml").write_text(f"[cell]\ngains = '{name}'")
        with pytest.raises(BadInput, match=message):
            load_scenario(tmp_path / "mine.toml")


def test_faults_of_a_table_come_with_all_others(tmp_path):
    (tmp_path / "fleet.csv").write_text("samples,kapa,powr\n1,2,3\n")
    text = "[clients]\ntable = 'fleet.csv'\nspred = 1\n[cell]\nnoise = -1\n[plan]\ncohort = 300"
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_scenario(tmp_path / "mine.toml")
    said = str(caught.value)
    for words in ("'kapa'", "'powr'", "clients.spred", "cell.noise = -1"):
        assert words in said
    assert "plan.cohort" not in said  # how many clients there are is not known yet


def test_a_count_beside_a_table_must_agree(tmp_path):
    (tmp_path / "mine.toml").write_text("[clients]\ncount = 100\ntable = [{samples = 3}]")
    with pytest.raises(BadInput, match=r"clients.count differs from clients.table"):
        load_scenario(tmp_path / "mine.toml")


def test_a_broken_csv_is_named(tmp_path):
    (tmp_path / "fleet.csv").write_text('samples\n"' + "5 " * 100_000)
    (tmp_path / "mine.toml").write_text("[clients]\ntable = 'fleet.csv'")
    with pytest.raises(BadInput, match=r"fleet.csv line \d+"):
        load_scenario(tmp_path / "mine.toml")


def test_an_unknown_column_is_named_once(tmp_path):
    (tmp_path / "mine.toml").write_text("[clients]\ntable = 'fleet.csv'\n[plan]\ncohort = 1")
    (tmp_path / "fleet.csv").write_text("colour,distance\n" + "7,80\n" * 20)
    with pytest.raises(BadInput, match=r"'colour' is not a column; known: name, samples") as caught:
        load_scenario(tmp_path / "mine.toml")
    assert len(caught.value.faults) == 1
    (tmp_path / "fleet.csv").write_text("samples;distance\n" + "3;80\n" * 20)
    with pytest.raises(BadInput, match="are its columns separated by commas") as caught:
        load_scenario(tmp_path / "mine.toml")
    assert len(caught.value.faults) == 1


def test_a_folder_does_not_hide_a_shipped_scenario(tmp_path, monkeypatch):
    (tmp_path / "paper").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_scenario("paper") == Scenario(task=PAPER_TASK)


def test_numbers_of_numpy_lists_and_dicts_are_taken():
    scenario = Scenario(
        plan={"cohort": np.int64(2)},
        cell=Cell(bandwidth=np.float32(5e6), distance=[50, 200]),
        clients=Clients(table={"samples": [1.0, 2.0, 3.0]}),
    )
    assert scenario.plan.cohort == 2
    assert scenario.cell.distance == (50.0, 200.0)
    assert scenario.clients.count == 3
    assert scenario.using(plan=RoundPlan(cohort=1)).plan.cohort == 1
    assert Scenario().using(clients=Clients(count=50)).clients.count == 50
    measured = Cell(gains=np.full((2, 3), 1e-12))
    assert measured.gains == Gains(np.full((2, 3), 1e-12))
    for wrong in ({"plan": None}, {"plan": 3}, {"cell": []}):
        with pytest.raises(BadInput, match="expected a table"):
            Scenario().using(**wrong)
    with pytest.raises(BadInput, match=r"clients.table is a str"):
        Clients(table="fleet.csv")
    with pytest.raises(BadInput, match="'kapa' is not a column; did you mean kappa"):
        Clients(table={"kapa": [1.0]})
    wider = scenario.using(clients={"table": {"samples": [1.0, 2.0, 3.0, 4.0]}})
    assert wider.clients.count == 4
    assert wider.using(clients={"table": None}).clients.count == 100
    with pytest.raises(ValueError, match="read-only"):
        measured.gains.values[0, 0] = 7.0
    with pytest.raises(BadInput, match=r"count = 40 and clients.table lists 3: leave count out"):
        Clients(count=40, table={"samples": [1.0, 2.0, 3.0]})


def test_bad_gains_in_a_csv(tmp_path):
    (tmp_path / "h.csv").write_text("1,2,3\n4,x,6\n")
    (tmp_path / "mine.toml").write_text("[cell]\ngains = 'h.csv'")
    with pytest.raises(BadInput, match=r"h.csv is not a table of numbers.*'x'"):
        load_scenario(tmp_path / "mine.toml")


def test_tables_of_arrays_are_checked():
    with pytest.raises(BadInput, match=r"clients.table is empty"):
        ClientTable()
    with pytest.raises(BadInput, match="columns of different lengths"):
        ClientTable(samples=np.ones(3), kappa=np.ones(2))
    with pytest.raises(BadInput, match="samples has 2 axes"):
        ClientTable(samples=np.ones((3, 2)))
    assert ClientTable(samples=np.ones(3)) != ClientTable(samples=np.zeros(3) + 2)


def test_all_shipped_scenarios_load():
    for name in SHIPPED:
        assert isinstance(load_scenario(name), Scenario)


@pytest.mark.parametrize("pack", [None, gzip, bz2, lzma])
def test_gains_are_read_packed_or_not_and_no_further_than_texts_go(tmp_path, monkeypatch, pack):
    ending = "" if pack is None else {gzip: ".gz", bz2: ".bz2", lzma: ".xz"}[pack]
    file = tmp_path / f"gains.csv{ending}"
    text = b"1e-13,2e-13\n3e-13,4e-13\n" * 1000
    file.write_bytes(text if pack is None else pack.compress(text))
    world = {"clients": {"count": 2}, "plan": {"cohort": 1}, "cell": {"gains": file.name}}
    (tmp_path / "world.json").write_text(json.dumps(world))
    assert load_scenario(tmp_path / "world.json").cell.gains.values.shape == (2000, 2)
    monkeypatch.setattr("fedcell.scenario.load.MAX_TEXT_BYTES", 20_000)
    with pytest.raises(BadInput, match="is not a table of numbers: it is longer than a gigabyte"):
        load_scenario(tmp_path / "world.json")
