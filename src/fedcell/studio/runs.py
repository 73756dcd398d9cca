"""The runs view: runs, seeds, sweeps and federations in the given folders, only read."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput, FedcellError, printable
from fedcell.deploy.exchanges import EXCHANGES, load_exchanges
from fedcell.experiments.seeds import load_seeds
from fedcell.experiments.statistics import mean_band
from fedcell.experiments.table import ABOUT, SweepTable, load_sweep
from fedcell.network.ledger import Ledger
from fedcell.paper.catalogue import PANELS
from fedcell.paper.reproduce import load_reproduction
from fedcell.show.figures.curves import RunsDrawing
from fedcell.show.figures.sweeps import (
    TITLES,
    default_axis,
    default_measure,
    lines_along,
    measures,
)
from fedcell.simulation.folder.ledger_file import LEDGER
from fedcell.simulation.folder.listing import list_runs
from fedcell.simulation.folder.load import load_run
from fedcell.simulation.folder.run_folder import IDENTITY, LOCK, SUMMARY
from fedcell.simulation.summary import RunResult

from .takeaway import drawn

MAX_DEPTH = 3  # levels of folders that are searched
MAX_FOUND = 500
MAX_POINTS = 1000  # of a curve
FINE = 300  # points of a mean over seconds or joules
MAX_KEPT = 16  # results in memory
WATCHED = (LEDGER, SUMMARY, IDENTITY, LOCK, EXCHANGES, ABOUT, "runs.csv")  # files that change


class RunsView:
    """What the given folders hold. A page names what it found there, never a path."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = tuple(folders)
        self._kept: dict[tuple[str, Path], tuple[Any, dict[str, Any]]] = {}

    def found(self) -> dict[str, tuple[str, Path]]:
        """Return kind and folder of all that is there, by its name on the page."""
        every: dict[str, tuple[str, Path]] = {}
        for folder in self._folders:
            for kind, path in _inside(folder, MAX_DEPTH):
                name = str(path.relative_to(folder)) if path != folder else folder.resolve().name
                every.setdefault(printable(name), (kind, path))
                if len(every) >= MAX_FOUND:
                    return every
        return every

    def listing(self, body: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return a row for each run, group of seeds and sweep."""
        found = self.found().items()
        rows = [{"name": n} | self._entry(kind, path) for n, (kind, path) in found]
        return {"runs": rows, "folders": [printable(str(f)) for f in self._folders]}

    def one(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the curves of one of them: {"name", "by", "axis"}."""
        kind, path = self._named(body)
        options = {key: body.get(key) for key in ("by", "axis")}
        readers: dict[str, Callable[[Path], dict[str, Any]]] = {
            "run": _run,
            "seeds": _seeds,
            "sweep": lambda folder: _sweep(folder, **options),
        }
        key = f"{kind} {sorted(options.items(), key=str)}"
        shown = self._remembered(key, path, lambda: readers[kind](path))
        return {"name": body["name"], "kind": kind} | shown

    def figure(self, body: dict[str, Any]) -> bytes:
        """Return the figure of a sweep or a reproduced panel as SVG."""
        kind, path = self._named(body)
        if kind != "sweep":
            raise BadInput("only a sweep has a figure here")
        table = load_sweep(path)
        return drawn(load_reproduction(path) if _is_panel(table) else table, "svg")

    def _named(self, body: dict[str, Any]) -> tuple[str, Path]:
        found = self.found()
        if (name := body.get("name")) not in found:
            raise BadInput("there is no such run in the folders of this page")
        return found[str(name)]

    def _entry(self, kind: str, path: Path) -> dict[str, Any]:
        readers = {"run": _run_entry, "seeds": _seeds_entry, "sweep": _sweep_entry}
        shown = self._remembered(f"{kind} entry", path, lambda: readers[kind](path))
        return {"kind": kind} | shown

    def _remembered(
        self, what: str, path: Path, read: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return what was read, again where a file has changed; a fault is part of the answer."""
        stamp = _stamp(path)
        known = self._kept.get((what, path))
        if known is not None and known[0] == stamp and "entry" not in what:
            return known[1]
        if known is not None and known[0] == stamp and known[1].get("status") != "running":
            return known[1]
        try:
            shown = read()
        except FedcellError as error:
            return {"fault": printable(str(error)), "status": "unreadable"}
        kept = [key for key in self._kept if ("entry" in key[0]) == ("entry" in what)]
        most = MAX_FOUND if "entry" in what else MAX_KEPT
        for key in kept[: max(0, len(kept) - most)]:
            self._kept.pop(key, None)
        self._kept[what, path] = stamp, shown
        return shown


def _inside(folder: Path, depth: int) -> Iterator[tuple[str, Path]]:
    """Yield runs, seeds and sweeps in a folder; nothing behind links."""
    if (folder / ABOUT).is_file():
        yield "sweep", folder
        return
    if (folder / IDENTITY).is_file():
        yield "run", folder
        return
    try:
        with os.scandir(folder) as entries:
            inside = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return
    seeds = [n for n in inside if n.removeprefix("seed").isdecimal()]
    if any((folder / name / IDENTITY).is_file() for name in seeds):
        yield "seeds", folder
    for name in inside if depth else ():
        yield from _inside(folder / name, depth - 1)


def _stamp(path: Path) -> list[tuple[float, int]]:
    """Return times and sizes of the files that change while a run goes on."""
    folders = [path, *sorted(path.glob("seed*"))]
    found = []
    for file in (folder / name for folder in folders for name in WATCHED):
        try:
            known = file.stat()
        except OSError:
            continue
        found.append((known.st_mtime, known.st_size))
    return found


def _run_entry(path: Path) -> dict[str, Any]:
    (entry,) = list_runs([path])
    return entry.to_dict() | {"folder": printable(str(path))}


def _seeds_entry(path: Path) -> dict[str, Any]:
    result = load_seeds(path)
    return {"status": "complete" if result.complete else "stopped", "seeds": list(result.runs)}


def _sweep_entry(path: Path) -> dict[str, Any]:
    table = load_sweep(path)
    return {"status": "complete", "title": table.title, "runs": len(table.runs)}


def _thin(values: Any) -> list[Any]:
    """Return at most MAX_POINTS of some values, evenly, with the last one."""
    every = np.asarray(values)
    if every.size <= MAX_POINTS:
        return list(every.tolist())
    places = np.unique(np.rint(np.linspace(0, every.size - 1, MAX_POINTS)).astype(int))
    return list(every[places].tolist())


def _run(path: Path) -> dict[str, Any]:
    """Return the curves of a run, what its clients spent, and what its devices did."""
    result = load_run(path)
    first: Ledger = next(iter(result.ledgers.values()))
    scores = {n: first.column(n) for n in ("train_loss", "test_loss", "accuracy")}
    scores |= {name: np.asarray(values) for name, values in first.metrics.items()}
    entry = _run_entry(path)
    shown: dict[str, Any] = {
        "status": entry["status"],
        "rounds": first.rounds,
        "most_rounds": entry["most_rounds"],
        "trained": entry["trained"],
        "target": entry["target"],
        "round": _thin(np.arange(1, first.rounds + 1)),
        "scores": {n: _thin(v) for n, v in scores.items() if np.isfinite(v).any()},
        "policies": {
            name: {
                "duration": _thin(ledger.total_duration),
                "energy": _thin(ledger.total_energy),
                "received": _thin(ledger.received),
            }
            for name, ledger in result.ledgers.items()
        },
        "to_target": {
            row.policy: asdict(row.to_target) if row.to_target else None
            for row in result.outcome.policies
        },
        "changes": [change.round for change in result.outcome.changes],
        "clients": _clients(result),
    }
    if (path / EXCHANGES).is_file():
        shown["exchanges"] = load_exchanges(path).to_dict()
    return shown


def _clients(result: RunResult) -> dict[str, Any] | None:
    """Return what each client did in a run that has ended; None before."""
    totals = {n: ledger.totals for n, ledger in result.ledgers.items() if ledger.totals.called.size}
    if not totals:
        return None
    return {
        name: {
            "called": _most(own.called),
            "arrived": _most(own.arrived),
            "energy": _most(own.energy),
            "duration": _most(own.duration),
        }
        for name, own in totals.items()
    }


def _most(values: Any) -> list[Any]:
    return list(values[:MAX_POINTS].tolist())


def _seeds(path: Path) -> dict[str, Any]:
    """Return the mean over seeds with its 95 % band, over rounds, seconds and joules."""
    result = load_seeds(path)
    drawing = RunsDrawing([each.ledgers for each in result.finished], result.target)
    curves = drawing.curves(drawing.measure)
    bands: dict[str, Any] = {"rounds": {"": _band([c.seen + 1.0 for c in curves], curves)}}
    for what in ("duration", "energy"):
        bands[what] = {}
        for policy in drawing.policies:
            totals = [getattr(run[policy], f"total_{what}") for run in drawing.runs]
            xs = [total[c.seen] for total, c in zip(totals, curves, strict=True)]
            bands[what][policy] = _band(xs, curves)
    return {
        "status": "complete" if result.complete else "stopped",
        "seeds": list(result.runs),
        "measure": drawing.measure,
        "target": None if result.target is None else result.target.to_dict(),
        "bands": bands,
        "rows": result.rows(),
    }


def _band(xs: Sequence[Any], curves: Sequence[Any]) -> dict[str, list[Any]]:
    x, mean, low, high = mean_band(xs, [curve.held for curve in curves], FINE)
    return {"x": _thin(x), "mean": _thin(mean), "low": _thin(low), "high": _thin(high)}


def _is_panel(table: SweepTable) -> bool:
    return table.about.get("panel") in PANELS


def _sweep(path: Path, by: Any = None, axis: Any = None) -> dict[str, Any]:
    """Return a measure of a sweep over an axis, with bands over seeds, and its verdicts."""
    table = load_sweep(path)
    numbers, known = list(table.numbers()), measures(table)
    shown: dict[str, Any] = {
        "title": table.title,
        "status": "complete",
        "measures": known,
        "axes": numbers,
        "seeds": len(table.seeds),
        "runs": len(table.runs),
        "failures": dict(table.failures),
        "lines": [],
    }
    if numbers and known:
        by = by if by in known else default_measure(table)
        axis = axis if axis in numbers else default_axis(table)
        shown |= {"by": by, "by_title": _title(by), "axis": axis, "axis_title": _title(axis)}
        shown |= {"lines": _lines(table, axis, by)}
    if _is_panel(table):
        made = load_reproduction(path)
        shown["verdicts"] = [v.row() | {"words": v.words} for v in made.verdicts]
        shown["panel"] = made.panel
    return shown


def _title(name: str) -> str:
    """Return the title of an axis as plain text, which figures write as mathematics."""
    return re.sub(r"[$\\]", "", TITLES.get(name, name))


def _lines(table: SweepTable, axis: str, by: str) -> list[dict[str, Any]]:
    """Return the lines of a sweep; the first label or the policy leads, and has the colour."""

    def words(labels: Iterable[tuple[str, Any]]) -> str:
        return ", ".join(str(v) if n in ("policy", "variant") else f"{n} = {v}" for n, v in labels)

    return [
        {
            "label": words(labels) or by,
            "policy": (policy := dict(labels).get("policy")),
            "leading": words(labels[:1]),
            "others": words(
                [each for each in labels if each[0] != "policy"] if policy else labels[1:]
            ),
            "x": line.x,
            "mean": [e.value for e in line.estimates],
            "low": [e.low for e in line.estimates],
            "high": [e.high for e in line.estimates],
            "least": line.least,
        }
        for labels, line in lines_along(table, axis, by).items()
    ]
