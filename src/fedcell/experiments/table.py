"""The runs of an experiment as rows of plain values: all that tables, figures and verdicts need.

A folder holds them as `runs.csv`, one row for each run, with `experiment.json` beside, which says
what was asked; so what is drawn can be drawn again without a simulation.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.files.formats import (
    as_json,
    check_stamp,
    csv_rows,
    naming,
    open_csv,
    read_tables,
    stamp,
    write_csv,
    write_text,
)
from fedcell.core.showing import Showable

from .statistics import RoundsEstimate, estimate_rounds, relative_change, values_of

RUNS, ABOUT, LEDGERS = "runs.csv", "experiment.json", "ledgers.csv"
FORMAT = 1
FIRST, HELD, MEAN = "rounds_to_target", "rounds_to_hold", "rounds_of_mean_curve"
TEXTS = ("key", "policy")
NUMBERS = {
    *(FIRST, HELD, MEAN, "seed", "rounds", "target", "train_loss", "test_loss", "accuracy"),
    *("duration", "energy", "cost", "upload_cost", "compute_cost", "staged_cost", "objective"),
}
FLAGS = ("diverged",)

Labels = tuple[tuple[str, Any], ...]  # of a point, by axis


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepTable(Showable):
    """What was asked, and a row for each run: its labels, seed and policy, and what came out."""

    title: str
    axes: Mapping[str, Sequence[Any]]  # values by name: "variant", "plan.cohort", ..., "policy"
    seeds: Sequence[int]
    rounds: int  # at most, in a run
    hold: int
    runs: Sequence[Mapping[str, Any]]
    about: Mapping[str, Any] = field(default_factory=dict)  # scenario, versions, panel, ...

    def rows(self) -> list[dict[str, Any]]:
        """One row for each run."""
        return [dict(run) for run in self.runs]

    @property
    def trained(self) -> bool:
        """Whether there are rounds to a target to be told of."""
        return any(run.get("target") is not None for run in self.runs)

    @property
    def failures(self) -> Mapping[str, str]:
        """Why trainings failed, by point and seed."""
        return dict(self.about.get("failures", {}))

    def points(self, *without: str) -> dict[Labels, list[Mapping[str, Any]]]:
        """The runs at each point, by its labels less those of some axes."""
        found: dict[Labels, list[Mapping[str, Any]]] = {}
        for run in self.runs:
            labels = tuple((a, run[a]) for a in self.axes if a in run and a not in without)
            found.setdefault(labels, []).append(run)
        return found

    def numbers(self) -> dict[str, Sequence[Any]]:
        """The axes along which a line can be drawn."""
        return {
            name: values
            for name, values in self.axes.items()
            if len(values) > 1 and all(type(v) in (int, float) for v in values)
        }

    def save(self, folder: Path) -> None:
        """Writes the rows, and what was asked."""
        folder.mkdir(parents=True, exist_ok=True)
        names = list(dict.fromkeys(name for run in self.runs for name in run))
        write_csv(folder / RUNS, names, ([run.get(n) for n in names] for run in self.runs))
        asked = {
            "title": self.title,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "seeds": list(self.seeds),
            "rounds": self.rounds,
            "hold": self.hold,
            "about": self.about,
        }
        write_text(folder / ABOUT, as_json(stamp("sweep", FORMAT) | asked))

    def __repr__(self) -> str:
        return f"<SweepTable: {len(self.runs)} runs at {len(self.points())} points>"


def once(runs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One row for each seed, of rows that differ in the policy only."""
    return list({run["seed"]: run for run in runs}.values())


def missed(runs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether some had a target and did not get there."""
    return any(run.get("target") is not None and run[FIRST] is None for run in runs)


def estimate_at(table: SweepTable, runs: Iterable[Mapping[str, Any]], by: str) -> RoundsEstimate:
    """Rounds to the target over the seeds of a point, by a column of theirs."""
    return estimate_rounds([run[by] for run in runs], table.rounds)


def paired_change(
    runs: Iterable[Mapping[str, Any]], first: Iterable[Mapping[str, Any]], by: str
) -> Estimate | None:
    """How much larger a measure is in some runs than in the first, seed by seed, in parts of the
    latter's mean; None where they have no seeds in common, or some is not known."""
    here, there = ({run["seed"]: run.get(by) for run in each} for each in (runs, first))
    seeds = [seed for seed in here if seed in there]
    if not seeds or any(x[seed] is None for x in (here, there) for seed in seeds):
        return None
    one, other = (np.array([x[seed] for seed in seeds], float) for x in (here, there))
    return mean_estimate(relative_change(one, other))


def widest_interval(table: SweepTable) -> float:
    """Half of the 95 % interval at the point where it is widest, in parts of the mean: of rounds to
    the target, or of a round's cost where nothing was trained; infinite with one run. Points with
    runs that did not get there are left out."""
    widths = []
    for runs in table.points().values():
        if not table.trained:
            mean = mean_estimate(values_of(runs, "staged_cost"))
        elif (rounds := estimate_at(table, runs, FIRST)).censored:
            continue  # what was cut says nothing of how sure it is
        else:
            mean = rounds.mean
        widths.append(math.inf if math.isnan(mean.low) else mean.half_width / mean.value)
    return max(widths, default=0.0)


def load_sweep(folder: str | Path) -> SweepTable:
    """The table of a folder that a sweep has written."""
    place = Path(folder)
    about = place / ABOUT
    if not about.exists():
        raise BadFile(f"{place}: holds no sweep, and no run: expected {ABOUT} and {RUNS} in it")
    asked = read_tables(about)
    with naming(about):
        check_stamp(asked, "sweep", [FORMAT], "run the sweep again: its trainings are kept")
        if not _sound(asked):
            raise BadInput("is damaged: run the sweep again, its trainings are kept")
    named = {
        name: tuple(tuple(v) if isinstance(v, list) else v for v in values)
        for name, values in asked["axes"].items()
    }
    path = place / RUNS
    try:
        with open_csv(path) as file, naming(path):
            lines = csv_rows(file)
            heads = next(lines, [])
            for name in (*named, "seed"):
                if name not in heads:
                    raise BadInput(f"lacks the column {name}: run the sweep again")
            runs = list(_read(heads, lines, named))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadFile(f"{path}: cannot be read: {error}: run the sweep again") from error
    return SweepTable(
        title=str(asked["title"]),
        axes=named,
        seeds=tuple(asked["seeds"]),
        rounds=asked["rounds"],
        hold=asked["hold"],
        runs=tuple(runs),
        about=asked["about"],
    )


def _sound(asked: Mapping[str, Any]) -> bool:
    """Whether what was asked can be read."""
    axes, seeds = asked.get("axes"), asked.get("seeds")
    return (
        isinstance(axes, dict)
        and all(isinstance(values, list) for values in axes.values())
        and isinstance(seeds, list)
        and all(type(seed) is int for seed in seeds)
        and all(type(asked.get(n)) is int and asked[n] >= 1 for n in ("rounds", "hold"))
        and isinstance(asked.get("about"), dict)
        and isinstance(asked["about"].get("panel", ""), str)
        and isinstance(asked["about"].get("asked", {}), dict)
        and isinstance(asked.get("title"), str)
    )


def _read(
    heads: Sequence[str], lines: Iterable[list[str]], axes: Mapping[str, Sequence[Any]]
) -> Iterator[dict[str, Any]]:
    """Rows with the values that they had: labels as they stand on their axis, else numbers."""
    known = {
        name: {"" if value is None else str(value): value for value in values}
        for name, values in axes.items()
    }
    for number, line in enumerate(filter(None, lines), 2):
        row: dict[str, Any] = {}
        if len(line) != len(heads):
            raise BadInput(f"line {number}: as many values as columns are expected")
        for name, text in zip(heads, line, strict=True):
            if name in known:
                if text not in known[name]:
                    raise BadInput(f"line {number}: {name} = {text!r} is not on its axis")
                row[name] = known[name][text]
            else:
                row[name] = _value(name, text, number)
        yield row


def _value(name: str, text: str, number: int) -> Any:
    if text == "":
        return None
    if name in TEXTS:
        return text
    if name in FLAGS:
        return text == "True"
    try:
        return int(text) if text.lstrip("-").isdigit() and len(text) < 18 else float(text)
    except ValueError:
        if name not in NUMBERS:  # somebody's own column
            return text
        raise BadInput(f"line {number}: {name} = {text!r}: expected a number") from None
