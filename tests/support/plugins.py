"""Installed packages that exist only in a folder on sys.path: a module and its entry points."""

import sys
from pathlib import Path

import pytest


def install_package(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    code: str,
    points: dict[str, dict[str, str]],
) -> None:
    """Make a package with a module of the same name and entry points by group importable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, items in points.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in items.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
