"""Progress lines where stderr is not a terminal: one every half minute, none with --json."""

import re
import time

import pytest

from fedcell import Observer
from fedcell.cli import progress as module
from fedcell.cli.main import load_command
from fedcell.cli.progress import ProgressLines, progress_bars
from fedcell.cli.words import command_words
from fedcell.scenario.load import load_scenario
from fedcell.simulation.run import run


class Clock:
    """A clock that advances by a step whenever it is read."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def monotonic(self):
        self.now += self.step
        return self.now


@pytest.fixture
def world(tmp_path):
    (tmp_path / "w.toml").write_text(
        "[plan]\ncohort = 3\nlocal_steps = 2\nrounds = 40\n[clients]\ncount = 6\n"
        '[learning]\nmodel = "quadratic-apart"\nevaluate_every = 2\n'
    )
    return load_scenario(tmp_path / "w.toml")


def test_rounds_have_a_line_every_half_minute_with_loss_and_time_left(world, monkeypatch, capsys):
    monkeypatch.setattr(module, "time", Clock(step=4.0))
    with progress_bars("seed 3: ") as progress:
        result = run(world, ["even"], observer=progress)
    lines = capsys.readouterr().err.splitlines()
    losses = result.ledgers["even"].train_loss
    assert 3 <= len(lines) <= 8
    for line in lines:
        found = re.fullmatch(r"seed 3: round (\d+)/40, loss (\S+), (\S+ \S+) left", line)
        assert found, line
        done = int(found[1])
        known = losses[done - 1] if done % 2 == 0 else losses[done - 2]  # the last evaluated
        assert found[2] == f"{known:.3g}"
    assert [int(re.findall(r"\d+", line)[1]) for line in lines] == sorted(
        int(re.findall(r"\d+", line)[1]) for line in lines
    )


def test_the_time_left_is_that_of_the_remaining_rounds(world, monkeypatch, capsys):
    clock = Clock(step=0.0)
    monkeypatch.setattr(module, "time", clock)
    with progress_bars() as progress:
        tell = progress.round
        assert tell

        def each(report):
            clock.now += 60.0
            tell(report)

        run(world, ["even"], observer=Observer(round=each))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("round 2/40, loss ")
    assert lines[0].endswith(", 38 min left")
    assert lines[-1].endswith(", 0 s left")


def test_there_is_no_line_before_half_a_minute_is_over(world, monkeypatch, capsys):
    monkeypatch.setattr(module, "time", Clock(step=0.0))
    with progress_bars() as progress:
        run(world, ["even"], observer=progress)
    assert capsys.readouterr().err == ""


def test_progress_lines_are_not_printed_with_json(monkeypatch, capsys):
    clock = Clock(step=0.0)
    monkeypatch.setattr(module, "time", clock)
    for as_json in (False, True):
        command = load_command("run")
        typed = ["digits", *(["--json"] if as_json else [])]
        with command_words(command.make_context("run", typed), pytest.fail):
            lines = ProgressLines()
            clock.now += 31
            assert lines.due() != as_json
            lines.print("round 1")
        assert capsys.readouterr().err == ("" if as_json else "round 1\n")


def test_downloads_and_compiling_have_a_line_too(monkeypatch, capsys):
    clock = Clock(step=0.0)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "PROGRESS_INTERVAL", 0.05)
    with progress_bars() as progress:
        assert progress.download
        progress.download("train\x1b.gz", 1_000_000, 9_900_000)
        clock.now += 31
        progress.download("train\x1b.gz", 5_000_000, 9_900_000)
        clock.now += 31
        progress.download("other", 7_000_000, None)
        with progress.compile():
            time.sleep(0.2)
        with progress.compile():
            pass
    assert capsys.readouterr().err.splitlines() == [
        r"downloading train\x1b.gz: 5 of 10 MB",
        "downloading other: 7 MB",
        module.COMPILING,
    ]
