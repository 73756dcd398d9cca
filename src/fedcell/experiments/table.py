"""The runs of a sweep as rows of plain values, for tables, figures and verdicts.

A folder has them in `runs.csv`, a row for each run, and the experiment in `experiment.json`, so
that figures are drawn again without a simulation.
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
    """The runs of a sweep: a row for each point, seed and policy. `load_sweep` reads one.

    Attributes
    ----------
    title
        Title of the experiment.
    axes
        Values by name: "variant", "plan.cohort", ..., "policy".
    seeds
        Random seeds.
    rounds
        Rounds of a run at most.
    hold
        Rounds that a target is watched for; 1: not longer than learning.hold.
    runs
        Rows: labels, seed and policy, rounds to the target, scores, time [s] and energy [J].
    about
        The experiment, versions, failures.
    """

    title: str
    axes: Mapping[str, Sequence[Any]]
    seeds: Sequence[int]
    rounds: int
    hold: int
    runs: Sequence[Mapping[str, Any]]
    about: Mapping[str, Any] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each run."""
        return [dict(run) for run in self.runs]

    @property
    def trained(self) -> bool:
        """Whether the runs have a target."""
        return any(run.get("target") is not None for run in self.runs)

    @property
    def failures(self) -> Mapping[str, str]:
        """Error messages of failed trainings, by point and seed."""
        return dict(self.about.get("failures", {}))

    def points(self, *without: str) -> dict[Labels, list[Mapping[str, Any]]]:
        """Return the runs at each point, by its labels except those of some axes."""
        points: dict[Labels, list[Mapping[str, Any]]] = {}
        for run in self.runs:
            labels = tuple((a, run[a]) for a in self.axes if a in run and a not in without)
            points.setdefault(labels, []).append(run)
        return points

    def numbers(self) -> dict[str, Sequence[Any]]:
        """Return the axes of numbers, along which a line can be drawn."""
        return {
            name: values
            for name, values in self.axes.items()
            if len(values) > 1 and all(type(v) in (int, float) for v in values)
        }

    def save(self, folder: Path) -> None:
        """Write runs.csv and experiment.json."""
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
    """Return one row for each seed, of rows that differ in the policy only."""
    return list({run["seed"]: run for run in runs}.values())


def missed(runs: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a run missed its target."""
    return any(run.get("target") is not None and run[FIRST] is None for run in runs)


def estimate_at(table: SweepTable, runs: Iterable[Mapping[str, Any]], by: str) -> RoundsEstimate:
    """Estimate rounds to the target over the seeds of a point, from a column."""
    return estimate_rounds([run[by] for run in runs], table.rounds)


def paired_change(
    runs: Iterable[Mapping[str, Any]], first: Iterable[Mapping[str, Any]], by: str
) -> Estimate | None:
    """Estimate the difference of a measure between runs and the first ones by seed, in parts of
    the latter's mean; None without common seeds, or with unknown values."""
    here, there = ({run["seed"]: run.get(by) for run in each} for each in (runs, first))
    seeds = [seed for seed in here if seed in there]
    if not seeds or any(x[seed] is None for x in (here, there) for seed in seeds):
        return None
    one, other = (np.array([x[seed] for seed in seeds], float) for x in (here, there))
    return mean_estimate(relative_change(one, other))


def widest_interval(table: SweepTable) -> float:
    """Return half of the widest 95 % interval of a point, in parts of the mean: of rounds to the
    target, or of a round's cost where nothing was trained; infinite with one run. Points with
    censored runs are left out."""
    widths = []
    for runs in table.points().values():
        if not table.trained:
            mean = mean_estimate(values_of(runs, "staged_cost"))
        elif (rounds := estimate_at(table, runs, FIRST)).censored:
            continue  # the interval of a restricted mean is too narrow
        else:
            mean = rounds.mean
        widths.append(math.inf if math.isnan(mean.low) else mean.half_width / mean.value)
    return max(widths, default=0.0)


def load_sweep(folder: str | Path) -> SweepTable:
    """Load the table of a sweep from its folder.

    Parameters
    ----------
    folder
        Folder that `SweepResult.save`, or `fedcell sweep`, has written.

    Returns
    -------
    SweepTable

    Raises
    ------
    BadFile
        If the folder holds no sweep, or a damaged one.

    Examples
    --------
    >>> from fedcell import load_sweep
    >>> load_sweep("experiments/results/laws").axes["plan.cohort"]
    (5, 10, 20)
    """
    place = Path(folder)
    about = place / ABOUT
    if not about.exists():
        raise BadFile(f"{place}: holds no sweep, and no run: expected {ABOUT} and {RUNS} in it")
    content = read_tables(about)
    with naming(about):
        check_stamp(content, "sweep", [FORMAT], "run the sweep again: its trainings are stored")
        if not _is_sound(content):
            raise BadInput("is damaged: run the sweep again, its trainings are stored")
    named = {
        name: tuple(tuple(v) if isinstance(v, list) else v for v in values)
        for name, values in content["axes"].items()
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
        title=str(content["title"]),
        axes=named,
        seeds=tuple(content["seeds"]),
        rounds=content["rounds"],
        hold=content["hold"],
        runs=tuple(runs),
        about=content["about"],
    )


def _is_sound(asked: Mapping[str, Any]) -> bool:
    """Return whether experiment.json has all keys, with values of their types."""
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
    """Yield rows with labels as on their axes, and numbers."""
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
        if name not in NUMBERS:  # a column of the user
            return text
        raise BadInput(f"line {number}: {name} = {text!r}: expected a number") from None
