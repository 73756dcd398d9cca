"""Metrics of a learner by name: in ledgers, files, tables and targets."""

import json
from dataclasses import replace
from math import isnan, nan
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import Compute, Observer, Scenario, Target, load_run, run, run_seeds
from fedcell.errors import BadFile, BadInput
from fedcell.learning import Scores
from fedcell.learning.learner import RESERVED, evaluated
from fedcell.network.ledger import Ledger
from fedcell.scenario.target import Scored
from fedcell.show.figures.runs import run_figure
from fedcell.simulation import simulate
from fedcell.simulation.folder.checkpoint import Checkpoint
from fedcell.simulation.trackers import measures

WORLD = Scenario().using(
    clients={"count": 4},
    plan={"cohort": 2, "local_steps": 2, "rounds": 8},
    task={"model_bits": 1e4, "cycles_per_sample": 1e4},
)


class Falling:
    """One number that halves in each round: the loss is its square, and mae the number."""

    sizes = np.array([10, 20, 10, 20])
    better: ClassVar[dict[str, str]] = {"mae": "lower", "score": "higher"}

    def start(self):
        return np.ones(1, np.float32)

    def train(self, model, clients, round):  # noqa: ARG002
        for _ in clients:
            yield model / 2

    def evaluate(self, model):
        error = float(abs(model[0]))
        return Scores(error**2 + 1e-6, metrics={"mae": error, "score": -3 * error})


def falling(_scenario, _seed):
    return Falling()


CUSTOM = Compute(learner=falling)


@pytest.mark.parametrize(
    "target", [Target(metric="mae", level=0.3), Target(metric="score", level=-0.9, better="higher")]
)
def test_a_metric_is_a_target_in_its_direction(target, tmp_path):
    result = run(WORLD, ["even"], target=target, compute=CUSTOM, folder=tmp_path / "a")
    (row,), ledger = result.outcome.policies, result.ledgers["even"]
    mae = ledger.metrics["mae"]
    assert row.to_target.rounds == int(np.argmax(mae <= 0.3)) + 1 == ledger.rounds
    assert ledger.rounds_to(target) == ledger.rounds
    again = simulate(WORLD, "even", Falling(), target=target)
    assert_array_equal(again.metrics["mae"], mae)
    assert again.rows()[-1]["mae"] == mae[-1] == row.scores.metrics["mae"]
    assert isnan(row.scores.accuracy)


def test_a_folder_gives_the_metrics_back_and_resumes(tmp_path):
    whole = run(WORLD, ["even"], compute=CUSTOM, folder=tmp_path / "whole")

    def interrupt(report):
        if report.round == 3:
            raise KeyboardInterrupt

    run(
        WORLD,
        ["even"],
        compute=CUSTOM,
        folder=tmp_path / "half",
        observer=Observer(round=interrupt),
    )
    early = load_run(tmp_path / "half").ledgers["even"]
    assert_array_equal(early.metrics["score"], whole.ledgers["even"].metrics["score"][:3])
    again = run(WORLD, ["even"], compute=CUSTOM, folder=tmp_path / "half", resume=True)
    loaded = load_run(tmp_path / "half")
    for other in (again, loaded):
        assert other.outcome == whole.outcome
        assert other.ledgers["even"].better == {"mae": "lower", "score": "higher"}
        for name, values in whole.ledgers["even"].metrics.items():
            assert_array_equal(other.ledgers["even"].metrics[name], values)
    head, *lines = (tmp_path / "whole" / "ledger.csv").read_text().splitlines()
    row = dict(zip(head.split(","), lines[-1].split(","), strict=True))
    assert float(row["mae"]) == whole.ledgers["even"].metrics["mae"][-1]
    content = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert content["policies"][0]["metrics"] == whole.outcome.policies[0].scores.metrics


def test_a_run_does_not_resume_with_other_metrics(tmp_path):
    run(WORLD, ["even"], rounds=2, compute=CUSTOM, folder=tmp_path / "a")

    class Other(Falling):
        better: ClassVar[dict[str, str]] = {"mae": "lower"}

        def evaluate(self, model):
            return replace(super().evaluate(model), metrics={"mae": 1.0})

    def other(_scenario, _seed):
        return Other()

    other.__module__, other.__qualname__ = falling.__module__, falling.__qualname__
    with pytest.raises(BadFile, match="different run"):
        run(WORLD, ["even"], compute=Compute(learner=other), folder=tmp_path / "a", resume=True)


def test_tables_figures_seeds_and_trackers_have_the_names_and_no_accuracy():
    seen = []
    result = run(WORLD, ["even"], compute=CUSTOM, observer=Observer(round=seen.append))
    text = str(result.summary())
    assert "mae 0.006" in text
    assert "accuracy" not in text
    assert measures(seen[-1])["mae"] == result.ledgers["even"].metrics["mae"][-1]
    assert "accuracy" not in measures(seen[-1])
    seeds = run_seeds(WORLD, ["even"], seeds=2, compute=CUSTOM)
    assert seeds.scores()["mae"].value == result.ledgers["even"].metrics["mae"][-1]
    assert "mae at the end" in str(seeds.summary())
    panels = [panel.get_ylabel() for panel in run_figure(result.ledgers).axes]
    assert "mae on test data" in panels
    assert not any("accuracy" in label for label in panels)


def test_nothing_is_said_of_scores_that_a_learner_without_test_data_lacks(fedcell, tmp_path):
    class Untested(Falling):
        better: ClassVar[dict[str, str]] = {}

        def evaluate(self, model):
            return Scores(super().evaluate(model).train_loss)

    folder = tmp_path / "a"
    result = run(
        WORLD, ["even"], rounds=3, compute=Compute(learner=lambda *_: Untested()), folder=folder
    )
    for text in (str(result.summary()), fedcell("runs", folder).out):
        assert "loss" in text
        assert "accuracy" not in text
        assert "test loss" not in text


def test_a_metric_that_is_not_named_is_refused():
    class Silent(Falling):
        better: ClassVar[dict[str, str]] = {"mae": "lower"}

    with pytest.raises(BadInput, match=r"metrics mae, score: expected those .*\(mae\)"):
        evaluated(Silent(), np.ones(1, np.float32))
    for name in ("loss", "a b", ""):
        Silent.better = {name: "lower"}
        with pytest.raises(BadInput, match="give it another name"):
            run(WORLD, ["even"], compute=Compute(learner=lambda *_: Silent()))
    Silent.better = {"mae": "down"}
    with pytest.raises(BadInput, match="higher or lower"):
        run(WORLD, ["even"], compute=Compute(learner=lambda *_: Silent()))


def test_no_metric_may_be_called_as_a_column_of_a_ledger():
    assert set(Ledger.__dataclass_fields__) - {"accuracy"} <= RESERVED


def test_rounds_with_a_loss_that_is_not_finite_do_not_reach_a_metric():
    target = Target(metric="mae", level=0.5, better="lower")
    scored = Scored(train_loss=[1.0, nan, 1.0], metrics={"mae": [0.9, 0.1, 0.4]})
    assert target.reached_by(scored) == 3
    assert Target(metric="mae", level=0.5, better="higher").reached_by(scored) == 1


def test_targets_say_what_they_cannot_be():
    for words, sentence in (
        ({"metric": "mae"}, "give `metric` and `level`"),
        ({"metric": "mae", "level": nan}, "expected a finite number"),
        ({"metric": "accuracy", "level": 2}, "at most 1"),
        ({"metric": "loss", "level": 1, "better": "higher"}, "of loss, lower values are better"),
        ({"metric": "mae", "level": 1, "loss": 1}, "give one of them"),
    ):
        with pytest.raises(BadInput, match=sentence):
            Target(**words)
    with pytest.raises(BadInput, match="is known to a learner"):
        Target(metric="mae", level=1).reached([1.0])
    assert Target(metric="train_loss", level=1) == Target(loss=1)
    assert Target(**Target(metric="mae", level=1, better="lower").to_dict()).sign == 1


class Large(Falling):
    """The same with millions of numbers, so that saving them takes a while."""

    better: ClassVar[dict[str, str]] = {}

    def start(self):
        return np.ones(3_000_000, np.float32)

    def evaluate(self, model):
        return Scores(float(model[0]) ** 2 + 1e-6)


def test_large_states_are_saved_less_often(tmp_path, monkeypatch):
    saved, clock = [], [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def save(checkpoint, state):
        saved.append(state.rounds)
        clock[0] += 2.0
        return write(checkpoint, state)

    def tick(_report):
        clock[0] += 9.0
        if len(saved) == 2:
            raise KeyboardInterrupt

    write = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", save)
    large = Compute(learner=lambda *_: Large())
    whole = run(WORLD, ["even"], rounds=5, compute=large)
    half = run(
        *(WORLD, ["even"]), rounds=5, compute=large, folder=tmp_path / "a",
        observer=Observer(round=tick),
    )  # fmt: skip
    assert saved == [1, 4, 4]  # at most every 20 s, as a save takes 2 s; and at the end
    assert not half.complete
    again = run(WORLD, ["even"], rounds=5, compute=large, folder=tmp_path / "a", resume=True)
    assert_array_equal(again.ledgers["even"].train_loss, whole.ledgers["even"].train_loss)
