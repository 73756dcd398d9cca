"""Small data with owners: clouds of points, as arrays and as the files that people have."""

from pathlib import Path
from typing import Any

import numpy as np

from fedcell import Scenario, load_scenario
from fedcell.learning import Dataset

CLOUDS = 60  # samples to train with
MINE = 'dataset = "mine.npz"'


def clouds(seed: int = 0, count: int = CLOUDS + 20) -> dict[str, Any]:
    """Three clouds that a logistic model tells apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 3
    x = (rng.normal(size=(count, 5)) + 2 * np.eye(3, 5)[y]).astype(np.float32)
    return {
        "x_train": x[:CLOUDS],
        "y_train": y[:CLOUDS],
        "x_test": x[CLOUDS:],
        "y_test": y[CLOUDS:],
    }


def owned(owner: Any) -> Dataset:
    return Dataset.of(**clouds(), owner=owner)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **clouds() | arrays)
    return path


def folder_of(path: Path, owner: Any) -> Path:
    """The same samples as one file a client, and test.npz."""
    parts, owner = clouds(), np.asarray(owner)
    path.mkdir()
    for name in np.unique(owner).tolist():
        where = owner == name
        np.savez(path / f"{name}.npz", x=parts["x_train"][where], y=parts["y_train"][where])
    np.savez(path / "test.npz", x=parts["x_test"], y=parts["y_test"])
    return path


def world(folder: Path, learning: str = "", clients: str = "", plan: str = "") -> Path:
    """A scenario file that trains on mine.npz in its folder."""
    (folder / "world.toml").write_text(
        f"[clients]\n{clients}\n[plan]\ncohort = 2\nlocal_steps = 3\nrounds = 4\n{plan}\n"
        f'[learning]\nmodel = "logistic"\n{learning or MINE}\n'
    )
    return folder / "world.toml"


def scenario_in(folder: Path, *tables: str) -> Scenario:
    return load_scenario(world(folder, *tables))
