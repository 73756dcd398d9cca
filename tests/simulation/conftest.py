"""Fixtures of runs: a scenario in a file, and figures that are not drawn."""

from pathlib import Path
from typing import Any

import pytest

from fedcell.show.figures import runs as figures
from support.runs import QUADRATIC, write


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return write(tmp_path / "world.json", QUADRATIC)


class Drawn:
    """Stands for a figure of a run."""

    def __init__(self, ledgers: Any, target: Any, **_: Any) -> None:
        self.text = f"{list(ledgers)} {target}"

    def savefig(self, path: Path, **_: Any) -> None:
        path.write_text(self.text)


@pytest.fixture
def no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take most of the time of a short run."""
    monkeypatch.setattr(figures, "run_figure", Drawn)
