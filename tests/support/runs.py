"""Small scenarios, and what the folder of a run holds."""

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from fedcell import Scenario
from fedcell.core.files.formats import as_json
from fedcell.scenario.load import shipped
from fedcell.simulation.summary import RunResult

Tables = dict[str, Any]

QUADRATIC: Tables = {
    "cell": {"loss_rate": 0.2},
    "clients": {"count": 6},
    "plan": {"cohort": 3, "local_steps": 2, "rounds": 5},
    "learning": {"model": "quadratic-apart"},
}
DIGITS: Tables = tomllib.loads(shipped("digits"))
FILES = {"ledger.csv", "clients.csv", "scenario.json", "summary.json", "loss.png"}
KEPT = {"run.json", "checkpoint.npz", "history.csv"}


WORLD = {
    "cell": {"loss_rate": 0.2},
    "clients": {"count": 6},
    "plan": {"cohort": 3, "local_steps": 2, "rounds": 8},
    "learning": {"model": "quadratic-apart", "target": 1e-9},
}
SCENARIO = Scenario().using(**WORLD)


def rows_of(folder: Path) -> list[dict[str, str]]:
    """ledger.csv as any reader of CSV has it."""
    with (folder / "ledger.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def held(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def assert_same(found: RunResult, result: RunResult) -> None:
    """All values agree to the bit."""
    assert as_json(found.to_dict()) == as_json(result.to_dict())
    assert repr(found.outcome) == repr(result.outcome)
    assert list(found.ledgers) == list(result.ledgers)
    for name, ledger in result.ledgers.items():
        mine = found.ledgers[name]
        pairs = [(mine.columns()[n], column) for n, column in ledger.columns().items()]
        pairs += [(getattr(mine.totals, n), total) for n, total in vars(ledger.totals).items()]
        for one, other in pairs:
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()
    assert found.state.model.tobytes() == result.state.model.tobytes()
    assert found.state.average.tobytes() == result.state.average.tobytes()
    for name, column in result.state.history.columns().items():
        assert found.state.history.columns()[name].tobytes() == column.tobytes()


def changed(tables: Tables, **changes: Tables) -> Tables:
    """Tables with other values; None takes a key away."""
    merged = {name: dict(table) for name, table in tables.items()}
    for name, values in changes.items():
        merged[name] = {k: v for k, v in (merged.get(name, {}) | values).items() if v is not None}
    return merged


def write(path: Path, tables: Tables) -> Path:
    path.write_text(json.dumps(tables))
    return path


def results(folder: Path) -> list[bytes]:
    """What must agree to the last bit: the tables, and the model."""
    with np.load(folder / "checkpoint.npz") as saved:
        model = saved["model"].tobytes()
    tables = ("ledger.csv", "clients.csv", "history.csv")
    return [model, *((folder / name).read_bytes() for name in tables)]


def column(folder: Path, name: str) -> list[float]:
    with (folder / "ledger.csv").open(newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def strict_json(text: str) -> Any:
    def refuse(what: str) -> None:
        raise ValueError(f"{what} is not JSON")

    return json.loads(text, parse_constant=refuse)


def written_summary(folder: Path) -> Any:
    """What summary.json says of the run, without its checksums."""
    content = strict_json((folder / "summary.json").read_text())
    assert content.pop("checksum")
    assert set(content.pop("files")) == {"clients.csv"}
    return content


def rounds_done(folder: Path) -> int:
    if not (folder / "checkpoint.npz").exists():
        return 0
    with np.load(folder / "checkpoint.npz") as saved:
        return int(saved["rounds"])


def with_own_data(folder: Path) -> Tables:
    rng = np.random.default_rng(2)
    parts = {"x_train": rng.normal(size=(60, 5)), "y_train": rng.integers(0, 3, 60)}
    np.savez(folder / "mine.npz", **parts, x_test=parts["x_train"], y_test=parts["y_train"])
    learning = {"dataset": "mine.npz", "model": "logistic", "rate": 0.3, "evaluate_every": 2}
    return {"clients": {"count": 7}, "plan": {"cohort": 3, "rounds": 5}, "learning": learning}


def with_table(folder: Path) -> Tables:
    np.save(folder / "measured.npy", np.random.default_rng(1).uniform(1e-14, 1e-12, (5, 4)))
    table = [{"kappa": (4 + j) * 1e-27, "power": 4e-7, "freq_max": 1e9 + j} for j in range(4)]
    tables = changed(DIGITS, cell={"gains": "measured.npy"}, clients={"count": 4, "table": table})
    return changed(tables, plan={"cohort": 2})
