"""Damage in the folder of a run is found, wherever it is; older folders are read with a note."""

import json
import re
import shutil

import pytest

from fedcell import FedcellWarning, Scenario, load_model, load_run, run
from fedcell.core.files.formats import as_json
from fedcell.errors import BadFile
from fedcell.simulation.folder.ledger_file import read_ledgers
from fedcell.simulation.folder.listing import list_runs
from support.sealing import rewrite, unseal

WORLD = Scenario().using(
    clients={"count": 6},
    plan={"cohort": 2, "local_steps": 2, "rounds": 8},
    learning={"model": "quadratic-apart", "target": 1e-9},
)
NUMBER = re.compile(rb"\d")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "o"
    run(WORLD, ["even", "optimal"], folder=folder)
    return folder


@pytest.fixture
def copy(done, tmp_path):
    return shutil.copytree(done, tmp_path / "o")


@pytest.mark.parametrize("name", ["run.json", "history.csv", "ledger.csv", "clients.csv"])
def test_every_changed_digit_is_noticed(copy, name):
    file = copy / name
    raw = file.read_bytes()
    places = [match.start() for match in NUMBER.finditer(raw)]
    for place in places[:: max(1, len(places) // 60)]:
        digit = b"%d" % ((int(raw[place : place + 1]) + 1) % 10)
        file.write_bytes(raw[:place] + digit + raw[place + 1 :])
        if name == "history.csv" and raw.count(b"\n", 0, place) == 8:
            load_run(copy)  # the last round is in the checkpoint: this line is for people
            continue
        with pytest.raises(BadFile, match=r"is damaged|is a run of|is not of the rounds"):
            load_run(copy)
    assert len(places) > 30


def test_lines_of_a_ledger_that_changed_places_are_noticed(copy):
    file = copy / "ledger.csv"
    lines = file.read_text().splitlines(keepends=True)
    for changed in (lines[:3] + lines[5:], [*lines[:3], lines[4], lines[3], *lines[5:]]):
        file.write_text("".join(changed))
        with pytest.raises(BadFile, match=r"ledger\.csv: is damaged: delete it"):
            load_run(copy)
    file.write_text("".join(lines).replace("duration,energy", "energy,duration", 1))
    with pytest.raises(BadFile, match=r"ledger\.csv: is damaged: delete it"):
        load_run(copy)


def test_a_ledger_cut_at_any_byte_is_damaged_or_read_as_far_as_it_goes(copy):
    file = copy / "ledger.csv"
    raw, whole = file.read_bytes(), read_ledgers(copy)
    for end in range(raw.index(b"\n") + 1, len(raw), 17):
        file.write_bytes(raw[:end])
        for policy, columns in read_ledgers(copy).items():
            rounds = columns["duration"].size
            assert columns["energy"].tolist() == whole[policy]["energy"][:rounds].tolist()


def test_older_folders_are_read_with_one_note_and_resumed_with_checksums(copy):
    result = load_run(copy)
    for name in ("run.json", "summary.json", "ledger.csv"):
        unseal(copy / name)
    with pytest.warns(FedcellWarning, match=r"run\.json and 2 more files: have no checksum"):
        assert as_json(load_run(copy).to_dict()) == as_json(result.to_dict())
    shutil.copytree(copy, copy.parent / "other")
    with pytest.warns(FedcellWarning, match=r"run\.json and 5 more files: have no checksum"):
        assert len(list_runs([copy.parent])) == 2
    with pytest.warns(FedcellWarning, match=r"run\.json: has no checksum"):
        load_model(copy)
    with pytest.warns(FedcellWarning, match=r"run\.json: has no checksum"):
        run(WORLD, ["even"], rounds=9, folder=copy, resume=True)
    assert load_run(copy).state.rounds == 9  # without a note


def test_a_run_of_another_version_is_resumed_with_a_note(copy):
    rewrite(copy / "run.json", fedcell="0.1.9")
    with pytest.warns(FedcellWarning, match=r"o: was begun by fedcell 0\.1\.9, and this is"):
        run(WORLD, ["even"], rounds=9, folder=copy, resume=True)


def test_an_edited_run_is_not_resumed(copy):
    content = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(content | {"seed": 1}))
    with pytest.raises(BadFile, match=r"run\.json: is damaged: its values do not fit its checksum"):
        run(WORLD, ["even"], rounds=9, folder=copy, resume=True)
