"""Scores that devices report for a model: a false report moves the mean no further than the range
of the other reports (DECISIONS.md, 72).

A score is the mean of the reports, weighted by the samples that each device was introduced with.
Each report is first clipped to the range of the others, which takes three of them: of two it is
unknown which is wrong, so one or two are taken as they are. An accuracy counts only where devices
with more than half of all samples report one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.learning.learner import Scores

from .round_tables import RoundTable, columns_of, number_in

SCORES = "scores.csv"
MIN_REPORTS = 3  # that are clipped to the range of the others
MAJORITY = 0.5  # share of all samples that devices with an accuracy must exceed


@dataclass(frozen=True, kw_only=True)
class RoundScores:
    """Scores of the model after a round; None where no device reported one."""

    round: int  # counted from 1; 0: the first model
    devices: int  # that reported a training loss
    samples: float  # share of all samples that these hold
    train_loss: float | None  # used by the run: of clipped reports
    test_loss: float | None
    accuracy: float | None
    plain_train_loss: float | None  # of reports as they came
    plain_test_loss: float | None
    plain_accuracy: float | None
    # Other metrics that devices with more than half of all samples report, of clipped reports.
    metrics: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def counted(self) -> Scores:
        """Scores that the run uses."""
        train_loss, test_loss, accuracy = (
            nan if value is None else value
            for value in (self.train_loss, self.test_loss, self.accuracy)
        )
        metrics = {name: nan if value is None else value for name, value in self.metrics.items()}
        return Scores(train_loss, test_loss, accuracy, metrics=metrics)


def aggregate_scores(
    reports: Mapping[int, Scores], samples: Array, round: int = 0, metrics: Sequence[str] = ()
) -> RoundScores:
    """Return the scores of a round from the reports by client, NaN where a client reports none.
    `samples` are the D_j of all clients, of shape (clients,); `metrics` are names of others."""
    known = {j: report for j, report in reports.items() if samples[j] > 0}
    total = float(samples.sum())

    def column(name: str) -> tuple[float | None, float | None, float, int]:
        given = {j: report.of(name) for j, report in known.items()}
        given = {j: value for j, value in given.items() if not isnan(value)}
        if not given:
            return None, None, 0.0, 0
        values, weights = np.array(list(given.values())), samples[list(given)]
        part = weights / weights.sum()
        held = min(1.0, float(weights.sum()) / total)
        return float(clipped(values) @ part), float(values @ part), held, len(given)

    train_loss, plain_train_loss, held, devices = column("train_loss")
    test_loss, plain_test_loss, *_ = column("test_loss")
    accuracy, plain_accuracy, measured, _ = column("accuracy")
    others = {name: (value, part) for name in metrics for value, _, part, _ in [column(name)]}
    return RoundScores(
        round=round,
        devices=devices,
        samples=held,
        train_loss=train_loss,
        test_loss=test_loss,
        accuracy=accuracy if measured > MAJORITY else None,
        plain_train_loss=plain_train_loss,
        plain_test_loss=plain_test_loss,
        plain_accuracy=plain_accuracy,
        metrics={
            name: value if part > MAJORITY else None for name, (value, part) in others.items()
        },
    )


def clipped(reports: Array) -> Array:
    """Clip each report to the range of the others: the lowest becomes the second lowest, the
    highest the second highest."""
    if reports.size < MIN_REPORTS:
        return reports
    ascending = np.sort(reports)
    return np.asarray(np.clip(reports, ascending[1], ascending[-2]))


class ScoreFile(RoundTable[RoundScores]):
    """scores.csv in the folder of a run: a row for each round that devices evaluated."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / SCORES, RoundScores, _parse, leave=("metrics",))


def read_scores(folder: Path) -> list[RoundScores]:
    """Read the scores that the devices of a run reported."""
    return ScoreFile(folder).read()


def _parse(cells: dict[str, str]) -> RoundScores:
    values: dict[str, Any] = {
        name: number_in(cells[name], name in ("round", "devices")) for name in COLUMNS
    }
    if None in (values["round"], values["devices"], values["samples"]) or values["samples"] > 1:
        raise ValueError
    return RoundScores(**values)


COLUMNS = columns_of(RoundScores, leave=("metrics",))
