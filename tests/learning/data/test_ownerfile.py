"""Owners from files: a table of ranges, and a folder with a file for each client."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import FedcellWarning, load_scenario, save_scenario
from fedcell.core.errors import BadFile
from fedcell.learning import prepare_training
from fedcell.learning.data.dataset import NAMES, load_data
from fedcell.learning.data.ownerfile import read_owners
from fedcell.scenario.learning import DATASETS
from support.owned import CLOUDS, clouds, folder_of, npz, scenario_in

OWNER = np.array(["pump-2", "pump-10", "pump-1"])[np.arange(CLOUDS) % 3]


def table(folder: Path, *lines: str) -> Path:
    (folder / "who.csv").write_text("\n".join(lines) + "\n")
    return folder / "who.csv"


@pytest.mark.parametrize(
    ("lines", "names", "expected"),
    [
        (["client,first,last", "0,0,2", "1,3,3", "0,4,5"], None, [0, 0, 0, 1, 0, 0]),
        (["last , first, client", "5, 0, 7"], None, [7] * 6),
        (["client,first,last", "b,3,5", "a,0,2"], None, ["a"] * 3 + ["b"] * 3),
        (["client,first,last", "7,0,2", "8,3,5"], ["8", "7"], ["7"] * 3 + ["8"] * 3),
        (["client,first,last", "1,0,2", "0,3,5"], ["b", "a"], [1, 1, 1, 0, 0, 0]),
        (["client,first,last", "a,1,2"], ["b", "a"], ["", "a", "a", "", "", ""]),
        (["client,first,last", "2,1,1", "", "1,4,4"], None, [-1, 2, -1, -1, 1, -1]),
    ],
)
def test_a_table_of_ranges_says_whose_each_sample_is(tmp_path, lines, names, expected):
    assert read_owners(table(tmp_path, *lines), 6, names).tolist() == expected


HEAD = "client,first,last"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected a first line with the columns client, first, last, not nothing"),
        (["client,from,to", "a,0,1"], "the columns client, first, last, not client, from, to"),
        (["client;first;last", "a;0;1"], "not client;first;last"),
        (["client,first,last,first", "a,0,1,0"], "not client, first, last, first"),
        ([HEAD], "has no owners: give a line for each range"),
        ([HEAD, "a,0"], "line 2 has 2 values for 3 columns"),
        ([HEAD, "a,0,1,2"], "line 2 has 4 values for 3 columns"),
        ([HEAD, "a,0,x"], "line 2: last = 'x': expected a whole number from 0"),
        ([HEAD, "a,1.0,2"], "line 2: first = '1.0': expected a whole number"),
        ([HEAD, "a,-1,2"], "line 2: first = '-1': expected a whole number from 0"),
        ([HEAD, "a,nan,2"], "line 2: first = 'nan': expected a whole number"),
        ([HEAD, f"a,0,{'9' * 5000}"], "expected a whole number from 0"),
        ([HEAD, "a,\u0663,4"], "line 2: first = '\u0663': expected a whole number"),
        ([HEAD, ",0,2"], "line 2: client is empty: name one, or leave the line out"),
        ([HEAD, "a,4,2"], "line 2: first = 4 is after last = 2"),
        ([HEAD, "a,0,60"], "line 2: last = 60, and there are 60 training samples, counted from 0"),
        ([HEAD, "a,0,9", "b,9,20"], "sample 9 stands in line 2 and in line 3"),
        ([HEAD, "b,9,20", "a,0,9"], "sample 9 stands in line 2 and in line 3"),
        ([HEAD, "a,0,30", "b,40,50", "c,10,12"], "sample 10 stands in line 2 and in line 4"),
        ([HEAD, "a,0,9", "a,0,9"], "sample 0 stands in line 2 and in line 3"),
        ([HEAD, '"a\n"b,0,1'], r"line 3: client is 'a\nb': expected a name"),
        ([HEAD, '"' + "a" * 200_000], "line 2: field larger than field limit"),
        ([HEAD, f"{'a' * 101},0,1"], "expected a name of at most 100 characters"),
        ([HEAD, "a\u202eb,0,1"], "that can be printed"),
    ],
)
def test_a_table_that_cannot_be_is_refused_with_its_line(tmp_path, lines, message):
    table(tmp_path, *lines)
    npz(tmp_path / "mine.npz")
    learning = 'dataset = "mine.npz"\npartition.owners = "who.csv"'
    with pytest.raises(BadFile, match=re.escape(message)) as caught:
        prepare_training(scenario_in(tmp_path, learning))
    assert str(tmp_path / "who.csv") in str(caught.value)


def test_faults_of_a_table_are_reported_together(tmp_path):
    path = table(tmp_path, HEAD, "a,0,x", "b,9,8", *(f"c,{i},y" for i in range(50)))
    with pytest.raises(BadFile) as caught:
        read_owners(path, 60)
    assert len(caught.value.faults) == 20


def test_names_of_a_table_are_those_of_the_fleet(tmp_path):
    npz(tmp_path / "mine.npz")
    table(tmp_path, HEAD, "pump-a,0,29", "pump-b,30,59")
    (tmp_path / "fleet.csv").write_text("name,distance\npump-b,50\npump-c,60\npump-a,70\n")
    learning = 'dataset = "mine.npz"\npartition = { kind = "given", owners = "who.csv" }'
    scenario = scenario_in(tmp_path, learning, 'table = "fleet.csv"')
    with pytest.warns(FedcellWarning, match="1 client holds no samples .*: pump-c"):
        setup = prepare_training(scenario)
    assert setup.partition.sizes.tolist() == [30, 0, 30]
    assert_array_equal(setup.partition.of(0), np.arange(30, 60))
    table(tmp_path, HEAD, "pump-a,0,29", "pump-d,30,59")
    with pytest.raises(BadFile, match="line 3: no client has the name 'pump-d': did you mean"):
        prepare_training(scenario)


def test_a_table_stands_in_place_of_what_the_data_says(tmp_path):
    npz(tmp_path / "mine.npz", owner=np.arange(CLOUDS) % 3)
    table(tmp_path, HEAD, "0,0,39", "1,40,59")
    learning = 'dataset = "mine.npz"\npartition.owners = "who.csv"'
    setup = prepare_training(scenario_in(tmp_path, learning))
    assert setup.partition.sizes.tolist() == [40, 20]


def test_files_are_seen_from_the_scenario_and_kept_when_it_is_saved(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    folder_of(tmp_path / "a" / "pumps", OWNER)
    table(tmp_path / "a", HEAD, "0,0,29", "1,30,59")
    learning = 'dataset = "pumps"\npartition.owners = "who.csv"'
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    here = scenario_in(Path(), learning)
    monkeypatch.chdir(tmp_path / "elsewhere")
    first = prepare_training(load_scenario("../a/world.toml"))
    assert first.partition.count == 2
    monkeypatch.chdir(tmp_path / "a")
    for name in ("kept.toml", "kept.json"):
        save_scenario(here, tmp_path / "elsewhere" / name)
    monkeypatch.chdir(tmp_path)
    for name in ("kept.toml", "kept.json"):
        kept = load_scenario(f"elsewhere/{name}")
        assert prepare_training(kept).fingerprint == first.fingerprint


def test_a_folder_is_the_same_data_as_its_files_in_one(tmp_path):
    folder = load_data(folder_of(tmp_path / "pumps", OWNER))
    assert folder.name == "pumps"
    assert folder.owner is not None
    assert sorted(set(folder.owner.tolist())) == sorted(set(OWNER.tolist()))
    for name in set(OWNER.tolist()):
        for part in ("x_train", "y_train"):
            inside = getattr(folder, part)[folder.owner == name]
            assert_array_equal(inside.squeeze(), clouds()[part][name == OWNER])
    assert_array_equal(folder.y_test, clouds()["y_test"])
    setup = prepare_training(scenario_in(tmp_path, 'dataset = "pumps"'))
    assert setup.client_names == ("pump-1", "pump-2", "pump-10")
    assert setup.scenario.clients.sizes.values.tolist() == [20, 20, 20]


def test_other_files_may_lie_beside(tmp_path):
    path = folder_of(tmp_path / "pumps", OWNER)
    (path / "README.md").write_text("as measured")
    (path / ".pump-9.npz").write_text("half written")
    (path / "old.npz").mkdir()
    assert len(load_data(path).y_train) == CLOUDS


def a_client(path: Path, name: str = "pump-3.npz", **change) -> Path:
    parts = {"x": np.ones((4, 5), np.float32) * np.arange(5), "y": np.arange(4) % 3} | change
    np.savez(path / "made.npz", **{k: v for k, v in parts.items() if v is not None})
    (path / "made.npz").rename(path / name)
    return path / name


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda p: (p / "test.npz").unlink(), "pumps: has no test.npz, with x and y of the test"),
        (lambda p: a_client(p, "TEST.NPZ"), "pumps: TEST.NPZ and test.npz are both test data"),
        (lambda p: a_client(p, "pump-1.NPZ"), "pump-1.NPZ and pump-1.npz are both of client"),
        (lambda p: a_client(p, " pump-1.npz"), "are both of client 'pump-1'"),
        (lambda p: a_client(p, "a\x1bb.npz"), "characters that can be printed"),
        (lambda p: a_client(p, x=np.ones((4, 6))), "pump-3.npz: x has samples of shape (1, 6, 1)"),
        (lambda p: a_client(p, "test.npz", x=np.ones((4, 6))), "pumps: test.npz: x has samples of"),
        (lambda p: a_client(p, x=np.ones((4, 5), np.uint8)), "pump-3.npz: x is uint8, and that of"),
        (lambda p: a_client(p, y=np.arange(3)), "y has 3 labels for the 4 samples of x"),
        (lambda p: a_client(p, y=np.arange(4) - 1), "pump-3.npz: y: sample 0 has the label -1"),
        (lambda p: a_client(p, x=np.full((4, 5), np.nan)), "pump-3.npz: x: sample 0 has a value"),
        (lambda p: a_client(p, y=None), "pump-3.npz: has no y: it holds x"),
        (lambda p: a_client(p, x=None, x_train=np.ones(3)), "pump-3.npz: has no x: it holds"),
        (lambda p: a_client(p, y=np.array([0, 1, "a", 2], object)), "y holds object: expected"),
        (lambda p: a_client(p, x=np.ones((0, 5)), y=np.arange(0)), "expected at least one sample"),
        (lambda p: (p / "pump-3.npz").write_bytes(pickle.dumps([1])), "pump-3.npz: is not a sound"),
    ],
)
def test_a_folder_that_cannot_be_is_refused_with_the_file(tmp_path, break_it, message):
    break_it(folder_of(tmp_path / "pumps", OWNER))
    with pytest.raises(BadFile) as caught:
        load_data(tmp_path / "pumps")
    assert message.encode("unicode_escape").decode() in str(caught.value)


def test_a_folder_without_clients_is_refused(tmp_path):
    (tmp_path / "none").mkdir()
    a_client(tmp_path / "none", "test.npz")
    with pytest.raises(BadFile, match=r"none: has no \.npz files of clients"):
        load_data(tmp_path / "none")


def test_an_npz_says_whose_its_samples_are(tmp_path):
    data = load_data(npz(tmp_path / "mine.npz", owner=OWNER))
    assert data.owner is not None
    assert data.owner.tolist() == OWNER.tolist()
    assert data.fingerprint == load_data(npz(tmp_path / "other.npz")).fingerprint


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (OWNER.astype(object), "owner holds object: expected the number"),
        (np.arange(59), "owner has 59 entries for 60 training samples"),
        (np.ones((60, 2), int), "owner has shape (60, 2)"),
    ],
)
def test_owners_of_an_npz_are_checked_before_they_are_unpacked(tmp_path, owner, message):
    path = npz(tmp_path / "mine.npz", owner=owner)
    with pytest.raises(BadFile, match=re.escape(f"{path}: {message}")):
        load_data(path)


def test_unused_arrays_are_named(tmp_path):
    path = npz(tmp_path / "mine.npz", owners=OWNER, serial=np.arange(3))
    with pytest.warns(FedcellWarning, match=r"owners, serial: not used; did you mean owner\?"):
        assert load_data(path).owner is None


def test_unused_arrays_of_clients_are_named_once(tmp_path):
    path = folder_of(tmp_path / "pumps", OWNER)
    for name in ("pump-4.npz", "pump-5.npz"):
        a_client(path, name, xs=np.arange(3))
    with pytest.warns(FedcellWarning, match=r"pumps: xs: not used; did you mean x\?") as told:
        load_data(path)
    assert len(told) == 1


def test_names_of_datasets_are_known_to_scenarios():
    assert DATASETS == NAMES


def test_a_built_in_dataset_is_not_a_folder_of_the_same_name(tmp_path, monkeypatch):
    folder_of(tmp_path / "digits", OWNER)
    monkeypatch.chdir(tmp_path)
    assert len(prepare_training(scenario_in(tmp_path, 'dataset = "digits"')).data.y_train) == 1501


def test_owners_that_are_not_there(tmp_path):
    npz(tmp_path / "mine.npz")
    learning = 'dataset = "mine.npz"\npartition.owners = "none.csv"'
    with pytest.raises(BadFile, match=r"none\.csv: cannot be read: No such file"):
        prepare_training(scenario_in(tmp_path, learning))
    (tmp_path / "none.csv").mkdir()
    with pytest.raises(BadFile, match=r"none\.csv: cannot be read: Is a directory"):
        prepare_training(scenario_in(tmp_path, learning))


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"x_train": 255 * np.abs(clouds()["x_train"])}, "values from .* as they are: standardise"),
        ({"x_train": 99 + clouds()["x_train"]}, "which go into the network as they are"),
        ({"x_train": np.full((CLOUDS, 5), 3.5)}, "all values of x_train are 3.5: there is nothing"),
        (
            {"x_train": np.full((CLOUDS, 5), 7, np.uint8), "x_test": np.ones((20, 5), np.uint8)},
            "all values of x_train are 7",
        ),
        (
            {"y_train": clouds()["y_train"] + 1, "y_test": clouds()["y_test"] + 1},
            "no training sample has the label 0: labels count from 0, so subtract 1",
        ),
        (
            {"y_train": 2 * clouds()["y_train"]},
            "has the label 1, 3: the network .* up to 4; number",
        ),
        ({"y_test": clouds()["y_test"] + 1}, "no training sample has the label 3"),
        ({"y_train": 20 * clouds()["y_train"]}, "the label 1, 2, 3, 4, 5, ...: the network"),
    ],
)
def test_data_that_is_hard_to_learn_gets_one_warning(tmp_path, change, note):
    path = npz(tmp_path / "mine.npz", **change)
    with pytest.warns(FedcellWarning, match=f"^mine: .*{note}") as told:
        load_data(path)
    assert len(told) == 1
