"""fedcell compare: selectors and policies on the command line, and --select of other commands."""

import json

import pytest

WORLD = """
[clients]
count = 12
spread = 0.5
[plan]
cohort = 3
local_steps = 4
rounds = 60
[learning]
model = "quadratic-apart"
target = 1.5
rate = 0.02
"""
RULE = """
from fedcell.selectors import best, reads

@reads("gain")
def weakest(known):
    return best(known, -known.gain)
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "world.toml").write_text(WORLD)
    (tmp_path / "own_rules.py").write_text(RULE)
    return tmp_path


def test_a_league_is_printed_written_and_drawn(fedcell, world):
    words = ("--select", "uniform", "--select", "best-channel", "--policy", "even", "--seeds", 2)
    done = fedcell("compare", "world.toml", *words, "--workers", 1, "--report", "--figure", "f.png")
    assert done.code == 0, done.err
    assert "uniform" in done.out
    assert "best-channel" in done.out
    assert "time against the first" in done.out
    folder = world / "compare-world"
    assert {path.name for path in folder.iterdir()} == {"runs.csv", "league.json", "report.html"}
    assert (world / "f.png").stat().st_size > 10_000
    saved = json.loads((folder / "league.json").read_text())
    assert saved["sentence"] in (folder / "report.html").read_text()
    again = fedcell("compare", "world.toml", *words, "--workers", 1, "--json")
    shown = json.loads(again.out)
    assert shown["runs"] == saved["runs"]


@pytest.mark.usefixtures("world")
def test_a_selector_of_a_module_is_compared(fedcell):
    words = ("--select", "best-channel", "--select", "own_rules:weakest", "--policy", "even")
    done = fedcell("compare", "world.toml", *words, "--seeds", 3, "--workers", 1, "--json")
    found = json.loads(done.out)
    (difference,) = found["differences"]
    assert difference["name"] == "own_rules:weakest, even"
    assert difference["change"] > 0


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ((), "name some with --select"),
        (("--select", "best-chanel"), "did you mean best-channel"),
        (("--select", "uniform", "--deadline", "soon"), "--deadline"),
        (("--select", "uniform", "--energy", "5 bananas"), "--energy"),
        (("--select", "uniform", "--target-loss", "none"), "no target to reach"),
    ],
)
def test_bad_words_of_compare_get_a_sentence(fedcell, world, words, fault):
    refused = fedcell("compare", "world.toml", *words)
    assert refused.code == 2
    assert fault in refused.err
    assert not (world / "compare-world").exists()


def test_other_commands_take_a_selector(fedcell, world):
    done = fedcell(
        *("run", "world.toml", "--select", "own_rules:weakest", "--policy", "even"),
        *("--rounds", 2, "--out", "r"),
    )
    assert done.code == 0, done.err
    assert json.loads((world / "r" / "scenario.json").read_text())["plan"]["selection"] == (
        "own_rules:weakest"
    )
    assert fedcell("runs", "r").code == 0
    shown = fedcell("schedule", "world.toml", "--select", "round-robin", "--json")
    assert len(json.loads(shown.out)["clients"]) == 3
    planned = fedcell(
        *("plan", "world.toml", "--select", "oort", "--mixing", 30, "--drift", 0.1),
        *("--start", 10, "--target-loss", 1.5),
    )
    assert planned.code == 2
    assert "known only while a model is trained" in planned.err
    federation = fedcell("deploy", "world.toml", "--select", "power-of-choice")
    assert "choose another selector" in federation.err
    own = fedcell("deploy", "world.toml", "--select", "own_rules:weakest")
    assert "names no code" in own.err
