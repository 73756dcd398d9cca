"""One way to write a file: whole or not at all, on the disk, and through no link."""

import os
from pathlib import Path

import pytest

from fedcell import BadFile, BadInput
from fedcell.core.files import check_stamp, naming, stamp, write_file, write_text


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
        assert path.exists()  # made anew, so that no link in its place is followed

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
