"""A small world and its pilot, made once."""

import json

import pytest

from fedcell.cli.commands.pilot import pilot_command
from support.pilots import WORLD


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world.json").write_text(json.dumps(WORLD))
    return tmp_path / "world.json"


@pytest.fixture(scope="session")
def first_pilot(tmp_path_factory):
    """The file of a pilot, made once."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "world.json").write_text(json.dumps(WORLD))
    files = {"out_path": folder / "pilot.json", "store": folder / "runs"}
    pilot_command(str(folder / "world.json"), budget="4s", steps="1..16", **files)
    return (folder / "pilot.json").read_bytes()


@pytest.fixture
def piloted(world, first_pilot):
    """A scenario with a pilot beside it."""
    (world.parent / "pilot.json").write_bytes(first_pilot)
    return world.parent / "pilot.json"
