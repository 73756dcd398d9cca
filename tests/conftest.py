"""What several tests use: problems of all kinds, and the command line in this process."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings

# What a terminal or a build server sets changes what the command line prints.
for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
    os.environ.pop(name, None)
os.environ |= {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}

from fedcell.cli.main import main  # noqa: E402

settings.register_profile(
    "fedcell", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("fedcell")


@dataclass
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def fedcell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The command line, without the cost of a new process."""

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
