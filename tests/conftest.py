"""Settings and fixtures of all tests: Hypothesis profiles, and the command line in this process."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# Variables of a terminal or a build server change the output of the command line.
for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
    os.environ.pop(name, None)
os.environ |= {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command sets it: tests run side by side

from fedcell.cli.main import main  # noqa: E402

# On a build server (CI is set) every run tries the same examples: a change is judged, not luck.
# Elsewhere, and in `make fuzz`, each run tries new ones, stores failures, and prints how to
# reproduce them.
SAME = bool(os.environ.get("CI"))
for profile, examples in (("quick", 20), ("default", 100), ("deep", 5000)):
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=SAME,
        database=None
        if SAME
        else DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis/examples"),
        print_blob=True,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
settings.load_profile("default")


@dataclass
class Said:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def fedcell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The command line, without the cost of a new process, and without progress lines, which come
    when the machine is slow."""
    monkeypatch.setattr("fedcell.cli.progress.PROGRESS_INTERVAL", 1e6)

    def run(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["fedcell", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run


Command = Callable[..., Said]
