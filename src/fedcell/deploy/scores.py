"""What devices say that a model is worth: one that lies moves the score no further than the others
reach (DECISIONS.md, 72).

A score is a mean of what the devices report, weighted by the samples that each was introduced with.
Each report is first clipped to the range of the others' reports, which takes three of them: of two
it is unknown which is wrong, so one or two are taken as they are. An accuracy counts only where
devices with more than half of all samples report one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.learning.learner import Scores

from .round_tables import LineFile, columns_of, number_in

SCORES = "scores.csv"
LEAST = 3  # reports of which the range of the others is one
MAJORITY = 0.5  # of all samples, that devices which report an accuracy must hold more than


@dataclass(frozen=True, kw_only=True)
class RoundScores:
    """What the devices made of the model after a round; None where none of them said anything."""

    round: int  # counted from 1; 0: the first model
    devices: int  # that reported a training loss
    samples: float  # part of all samples that these hold
    train_loss: float | None  # what the run is judged on: reports clipped,
    test_loss: float | None
    accuracy: float | None
    plain_train_loss: float | None  # and as they came
    plain_test_loss: float | None
    plain_accuracy: float | None

    @property
    def counted(self) -> Scores:
        """What the run is judged on."""
        found = (self.train_loss, self.test_loss, self.accuracy)
        return Scores(*(nan if value is None else value for value in found))


def judged(reports: Mapping[int, Scores], samples: Array, round: int = 0) -> RoundScores:
    """The scores of a round from what each client reports, NaN where it does not; `samples` are
    the D_j of all clients."""
    known = {j: report for j, report in reports.items() if samples[j] > 0}
    total = float(samples.sum())

    def column(name: str) -> tuple[float | None, float | None, float, int]:
        said = {j: getattr(report, name) for j, report in known.items()}
        said = {j: value for j, value in said.items() if not isnan(value)}
        if not said:
            return None, None, 0.0, 0
        values, weights = np.array(list(said.values())), samples[list(said)]
        part = weights / weights.sum()
        held = min(1.0, float(weights.sum()) / total)
        return float(clipped(values) @ part), float(values @ part), held, len(said)

    train_loss, plain_train_loss, held, devices = column("train_loss")
    test_loss, plain_test_loss, *_ = column("test_loss")
    accuracy, plain_accuracy, measured, _ = column("accuracy")
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
    )


def clipped(reports: Array) -> Array:
    """Reports, each within the range of the others: the least becomes the second least, and the
    most the second most."""
    if reports.size < LEAST:
        return reports
    ascending = np.sort(reports)
    return np.asarray(np.clip(reports, ascending[1], ascending[-2]))


class ScoreFile(LineFile[RoundScores]):
    """scores.csv in the folder of a run that its devices judge, a line for each evaluated round."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / SCORES, RoundScores, _parse)


def read_scores(folder: Path) -> list[RoundScores]:
    """What the devices of a run made of its models."""
    return ScoreFile(folder).read()


def _parse(cells: dict[str, str]) -> RoundScores:
    values: dict[str, Any] = {
        name: number_in(cells[name], name in ("round", "devices")) for name in COLUMNS
    }
    if None in (values["round"], values["devices"], values["samples"]) or values["samples"] > 1:
        raise ValueError
    return RoundScores(**values)


COLUMNS = columns_of(RoundScores)
