"""One way to write a file: whole or not at all, on the disk, and through no link."""

import csv
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedcell
from fedcell import Clients, Learning, RoundPlan, Scenario, run
from fedcell.core.files.formats import (
    append_text,
    check_stamp,
    csv_lines,
    csv_rows,
    naming,
    open_csv,
    stamp,
    write_csv,
    write_file,
    write_text,
)
from fedcell.errors import BadFile, BadInput
from fedcell.experiments.table import SweepTable, load_sweep
from fedcell.simulation.folder.load import load_run


def test_a_file_is_brought_to_the_disk_before_and_after_it_is_renamed(tmp_path, monkeypatch):
    happened = []
    fsync, replace = os.fsync, os.replace

    def synced(handle):
        kind = "folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file"
        happened.append(kind)
        fsync(handle)

    def renamed(source, target):
        happened.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_text(tmp_path / "a.json", "{}")
    assert (tmp_path / "a.json").read_text() == "{}"
    if os.path.isdir("/proc/self/fd"):
        assert happened == ["file", "rename", "folder"]
    assert len(happened) == 3


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def half(path: Path) -> None:
        path.write_text("ha")
        raise OSError(28, "No space left on device")

    with pytest.raises(BadFile, match=r"a\.txt: cannot be written: No space left on device"):
        write_file(target, half)

    def broken(_: Path) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        write_file(target, broken)
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_names_aside_cannot_be_foreseen(tmp_path):
    names = set()

    def write(path: Path) -> None:
        names.add(path.name)
        assert path.exists()  # newly created, so that no link in its place is followed

    for _ in range(3):
        write_file(tmp_path / "a", write)
    assert len(names) == 3


def test_files_are_made_with_the_users_own_rights(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadFile, match=r"none/a\.txt: cannot be written: No such file"):
        write_text(tmp_path / "none" / "a.txt", "x")


def test_faults_in_a_file_carry_its_name():
    both = r"^mine\.toml: this\nmine\.toml: and that$"
    with pytest.raises(BadFile, match=both), naming(Path("mine.toml")):
        raise BadInput("this", "and that")


def test_a_stamp_is_read_again():
    content = stamp("plan", 2)
    assert check_stamp(content, "plan", [2], "plan again") == 2
    assert content["what"] == "plan"
    old = {"fedcell": "0.1.0", "format": 1}
    with pytest.raises(BadInput, match=r"a plan of an older fedcell \(0\.1\.0, format 1; this one"):
        check_stamp(old, "plan", [2], "plan again")
    assert check_stamp(old, "pilot", [1, 2], "run it") == 1
    with pytest.raises(BadInput, match="holds a plan, not a pilot: name another file"):
        check_stamp(content, "pilot", [1, 2], "run it")
    for wrong in ({}, {"format": True, "fedcell": "1"}, {"format": "2", "fedcell": "1"}):
        with pytest.raises(BadInput, match="is not a run that fedcell wrote: choose another"):
            check_stamp(wrong, "run", [2], "choose another")


# Not a carriage return, which no name has and Python before 3.13 does not quote.
TEXTS = st.text(st.sampled_from("'=+-@\t\n,;\" a1")) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff")
)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.floats(allow_nan=False))
def test_no_text_of_a_table_is_a_formula_and_all_come_back(tmp_path_factory, texts, number):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    write_csv(path, texts, [[*texts, number]])
    append_text(path, csv_lines([[*texts, -1.5]]))
    with open_csv(path) as file:
        assert list(csv_rows(file)) == [texts, [*texts, str(number)], [*texts, "-1.5"]]
    with path.open(newline="") as file:
        for cells in csv.reader(file):
            assert not any(re.match(r"[=+\-@\t\r\n]", cell) for cell in cells[: len(texts)])


@pytest.mark.parametrize(
    ("text", "written"),
    [("=1+1", "'=1+1"), ("'=1+1", "''=1+1"), ("'quoted'", "'quoted'"), ("a=1", "a=1")],
)
def test_an_apostrophe_is_put_before_a_formula_and_nothing_else(tmp_path, text, written):
    write_csv(tmp_path / "a.csv", ["name"], [[text], [-1.5]])
    assert (tmp_path / "a.csv").read_text().splitlines() == ["name", written, "-1.5"]


def test_names_that_look_like_formulas_are_kept(tmp_path):
    names = ["=2+3", "'@home", "-pump"]
    scenario = Scenario(
        learning=Learning(model="quadratic-apart"),
        plan=RoundPlan(cohort=2, rounds=2),
        clients=Clients(table={"name": names, "+site": ["-roof", "=a", "cellar"]}),
    )
    made = run(scenario, ["even"], folder=tmp_path / "run")
    lines = (tmp_path / "run" / "clients.csv").read_text().splitlines()
    assert lines[0].startswith("policy,client,name,'+site,")
    starts = [",".join(line.split(",")[2:4]) for line in lines[1:]]
    assert starts == ["'=2+3,'-roof", "''@home,'=a", "'-pump,cellar"]
    again = load_run(tmp_path / "run").ledgers["even"].totals
    assert again.energy.tolist() == made.ledgers["even"].totals.energy.tolist()
    table = SweepTable(
        title="t",
        axes={"variant": ("=a", "'=a", "-b")},
        seeds=(0,),
        rounds=3,
        hold=1,
        runs=[{"variant": v, "seed": 0, "cost": -1.5} for v in ("=a", "'=a", "-b")],
    )
    table.save(tmp_path / "sweep")
    assert "'=a,0,-1.5" in (tmp_path / "sweep" / "runs.csv").read_text().splitlines()
    assert load_sweep(tmp_path / "sweep").rows() == table.rows()


def test_tables_are_written_in_one_place():
    root = Path(fedcell.__file__).parent
    writers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "csv.writer" in path.read_text() or "DictWriter" in path.read_text()
    }
    assert writers == {"core/files/formats.py"}
