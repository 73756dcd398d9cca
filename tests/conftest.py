"""What several tests use: problems of all kinds, and the command line in this process."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# What a terminal or a build server sets changes what the command line prints.
for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
    os.environ.pop(name, None)
os.environ |= {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}

from fedcell import Problem  # noqa: E402
from fedcell.cli import main  # noqa: E402

settings.register_profile(
    "fedcell", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("fedcell")


@st.composite
def problems(draw: st.DrawFn, max_clients: int = 8, rounds: int = 2, bounds: str = "any"):
    """Rounds with clients alike or very different, free or held by their frequency bounds."""
    k = draw(st.integers(1, max_clients))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    apart = draw(st.sampled_from([0.0, 0.5, 6.0]))  # orders of magnitude around the middle
    width = draw(st.sampled_from([0.0, 0.1, 1.0, 4.0] if bounds == "any" else [6.0]))

    def around(middle: float, orders: float) -> np.ndarray:
        return middle * 10 ** rng.uniform(-orders, orders, (rounds, k))

    freq = around(3e8, 0.7 if bounds == "any" else 0.0)
    return Problem(
        band_time=around(draw(st.sampled_from([1e-6, 1e-3, 1.0, 50.0])), apart),
        upload_energy=around(1.0, 1.0),
        samples=around(500, 0.5),
        kappa=around(5e-27, 0.5),
        freq_min=freq / 10**width,
        freq_max=freq * 10**width,
        work=1e7,
        energy_weight=draw(st.sampled_from([0.0, 0.01, 1.0, 30.0] if bounds == "any" else [1.0])),
    )


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
