"""The model that is judged is the one that is delivered: learning.deliver, in runs and files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import (
    Adaptation,
    Compute,
    Region,
    Scenario,
    load_model,
    load_run,
    load_scenario,
    run,
    run_adaptive,
    run_seeds,
)
from fedcell.core.files.checksums import CHECKSUM, sealed
from fedcell.core.files.formats import as_json
from fedcell.errors import BadFile, BadInput
from fedcell.experiments.jobs import TrainingJob, train, train_curve
from fedcell.experiments.training import Training, Until
from fedcell.learning import prepare_training
from fedcell.learning.learner import Scores
from fedcell.network import draw_fleet, draw_trace
from fedcell.scenario.identity import pilot_identity, run_identity, training_identity
from fedcell.scenario.target import Target
from fedcell.show.results import summary
from fedcell.simulation.state import AVERAGE_DECAY, moved_average
from fedcell.simulation.train import simulate, train_rounds

DIGITS = load_scenario("digits")
WORLD = Scenario().using(
    clients={"count": 8, "samples": 20},
    plan={"cohort": 2, "local_steps": 3, "rounds": 12},
    learning={"model": "quadratic-apart", "rate": 0.05},
)
LAST = WORLD.using(learning={"deliver": "last"})


def trained(scenario: Scenario, rounds: int, **options: Any) -> list[Any]:
    setup = prepare_training(scenario)
    fleet = draw_fleet(setup.scenario, 0)
    trace = draw_trace(setup.scenario, fleet, rounds, 0)
    return list(train_rounds(setup.scenario, setup.learner(), fleet, trace, **options))


def test_the_average_has_the_weights_of_polynomial_decay():
    rng, eta = np.random.default_rng(1), AVERAGE_DECAY
    models = rng.normal(size=(40, 3)).astype(np.float32)
    average = np.full(3, 7, np.float32)  # before the first round, which it forgets
    for t, model in enumerate(models, 1):
        average = moved_average(average, model, t)
        parts = [(eta + 1) / (s + eta) for s in range(1, t + 1)]
        kept = [parts[i] * np.prod([1 - p for p in parts[i + 1 :]]) for i in range(t)]
        assert_allclose(sum(kept), 1)
        assert_allclose(average, kept @ models[:t], atol=1e-5)
    ages = np.array(kept) @ np.arange(len(models))[::-1]
    assert_allclose(ages, (len(models) - 1) / (eta + 2), rtol=0.01)
    assert average.dtype == np.float32


def test_an_average_of_the_same_model_is_that_model():
    model = np.random.default_rng(0).normal(size=50).astype(np.float32)
    average = moved_average(np.zeros(50, np.float32), model, 1)
    assert average.tobytes() == model.tobytes()
    for t in range(2, 9):
        average = moved_average(average, model, t)
    assert average.tobytes() == model.tobytes()


@pytest.mark.parametrize("deliver", ["last", "average"])
def test_each_round_is_judged_by_the_model_that_is_delivered(deliver):
    scenario = WORLD.using(learning={"deliver": deliver})
    learner = prepare_training(scenario).learner()
    states = trained(scenario, 6)
    for state in states[1:]:
        model = state.model if deliver == "last" else state.average
        assert state.delivered is model
        assert state.other is (state.average if deliver == "last" else state.model)
        assert state.last_loss == learner.evaluate(model).train_loss
    assert states[-1].average.tobytes() != states[-1].model.tobytes()


def test_what_is_delivered_does_not_change_the_training():
    for one, other in zip(trained(WORLD, 6), trained(LAST, 6), strict=True):
        assert one.model.tobytes() == other.model.tobytes()
        assert one.average.tobytes() == other.average.tobytes()


def test_a_custom_evaluator_gets_the_delivered_model():
    given: list[Any] = []

    def evaluator(model: Any, round: int, last: bool) -> Scores:
        given.append((model, round, last))
        return Scores(float(len(given)))

    states = trained(WORLD.using(learning={"evaluate_every": 2}), 5, evaluator=evaluator)
    assert [s.rounds for s in states if np.isfinite(s.last_loss)] == [2, 4, 5]
    for (model, round, last), place in zip(given, (2, 4, 5), strict=True):
        assert model is states[place].average
        assert (round, last) == (place, place == 5)
    assert_array_equal(states[-1].history.train_loss[[1, 3, 4]], [1, 2, 3])


def test_average_is_the_default_with_one_evaluated_round_and_last_has_five():
    assert (WORLD.deliver, WORLD.hold, LAST.hold) == ("average", 1, 5)
    assert (Scenario().deliver, Scenario().hold) == ("average", 1)
    target = {"target": 0.5}
    assert WORLD.using(learning=target).goal() == Target(loss=0.5, hold=1)
    assert LAST.using(learning=target).goal() == Target(loss=0.5, hold=5)
    for scenario in (WORLD, LAST):
        assert scenario.using(learning=target | {"hold": 3}).goal() == Target(loss=0.5, hold=3)
        assert scenario.goal(0.4) == Target(loss=0.4, hold=scenario.hold)
        assert scenario.goal(Target(accuracy=0.4)) == Target(accuracy=0.4, hold=scenario.hold)
        assert scenario.goal(Target(loss=0.4, hold=1)) == Target(loss=0.4, hold=1)
    assert Scenario().goal(Target(loss=0.4)) == Target(loss=0.4) == Target(loss=0.4, hold=1)


def test_a_wrong_word_is_refused_with_those_that_there_are():
    with pytest.raises(BadInput, match=r"learning\.deliver = 'best': expected \"last\" or"):
        WORLD.using(learning={"deliver": "best"})


@pytest.mark.parametrize("deliver", ["last", "average"])
def test_a_run_stops_on_what_it_delivers(deliver):
    scenario = DIGITS.using(learning={"deliver": deliver, "hold": 1}, plan={"cohort": 2})
    ledger = run(scenario, ["even"], target=1.2).ledgers["even"]
    setup = prepare_training(scenario)
    assert (ledger.train_loss[:-1] > 1.2).all()
    assert ledger.train_loss[-1] <= 1.2
    again = simulate(setup.scenario, "even", setup.learner(), target=1.2)
    assert_array_equal(again.train_loss, ledger.train_loss)


def test_the_average_is_there_sooner_and_what_is_handed_over_is_at_the_target():
    few = DIGITS.using(plan={"cohort": 2})
    average, last = (
        run(few.using(learning={"deliver": which}), ["even"], target=0.5)
        for which in ("average", "last")
    )
    assert average.ledgers["even"].rounds < last.ledgers["even"].rounds
    assert average.outcome.policies[0].scores.train_loss <= 0.5


@pytest.mark.parametrize("deliver", ["last", "average"])
def test_the_folder_of_a_run_gives_back_what_was_judged(tmp_path, deliver):
    scenario = DIGITS.using(learning={"deliver": deliver})
    result = run(scenario, ["even"], rounds=4, folder=tmp_path / "o")
    model, row = load_model(tmp_path / "o"), result.outcome.policies[0]
    assert (model.which, model.evaluate().accuracy) == (deliver, row.scores.accuracy)
    loaded = load_run(tmp_path / "o")
    assert loaded.outcome == result.outcome
    assert loaded.state.deliver == result.outcome.deliver == deliver
    assert loaded.state.delivered.tobytes() == model.weights.tobytes()
    other = load_model(tmp_path / "o", "last" if deliver == "average" else "average")
    assert other.evaluate().accuracy == result.outcome.other.accuracy != row.scores.accuracy


def test_a_result_says_which_model_was_judged():
    words = {"last": "the last model", "average": "the average of the last models"}
    for deliver, other in (("last", "average"), ("average", "last")):
        scenario = DIGITS.using(learning={"deliver": deliver})
        result = run(scenario, ["even"], rounds=3)
        said = " ".join(summary(result).split())
        assert f"evaluated and delivered: {words[deliver]} after 3 rounds: training loss" in said
        assert f"{words[other]}: training loss {result.outcome.other.train_loss:.4g}" in said
        seeds = summary(run_seeds(scenario, ["even"], seeds=2, rounds=2))
        assert f"evaluated and delivered: {words[deliver]}\n" in seeds
        assert any(text.endswith(f", {deliver} model") for text in labels_of(result))
        assert result.outcome.to_dict()["deliver"] == deliver


def labels_of(result: Any) -> list[str]:
    """The names of the lines in the first panel of a figure."""
    panel = Figure().subplots()
    result.plot(ax=panel)
    labels: list[str] = panel.get_legend_handles_labels()[1]
    return labels


@pytest.mark.parametrize("deliver", ["last", "average"])
@pytest.mark.parametrize("every", [1, 3])
def test_a_resumed_run_has_the_same_bits(tmp_path, deliver, every):
    scenario = WORLD.using(learning={"deliver": deliver, "evaluate_every": every})
    run(scenario, ["even"], rounds=4, folder=tmp_path / "cut")
    run(scenario, ["even"], rounds=9, folder=tmp_path / "cut", resume=True)
    run(scenario, ["even"], rounds=9, folder=tmp_path / "whole")
    for name in ("ledger.csv", "history.csv", "summary.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    one, two = (dict(np.load(tmp_path / name / "checkpoint.npz")) for name in ("cut", "whole"))
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in two.items()
    }


def as_of_before(folder: Path) -> None:
    """Makes of a run with "last" what fedcell wrote before there was a choice."""
    with np.load(folder / "checkpoint.npz") as saved:
        arrays = {name: saved[name] for name in saved.files if name != "deliver"}
    np.savez(folder / "checkpoint.npz", **arrays)
    outcome = json.loads((folder / "summary.json").read_text())
    outcome["average"] = outcome.pop("other")
    del outcome["deliver"], outcome[CHECKSUM]
    (folder / "summary.json").write_text(as_json(sealed(outcome)))


@pytest.mark.parametrize("resume", [run, run_adaptive])
def test_a_run_that_was_begun_before_is_resumed_with_the_last_model(tmp_path, resume):
    goal = {"target": 1e-9}
    before, now = (world.using(learning=goal) for world in (LAST, WORLD))

    def go(scenario, rounds, **options):
        last = {"rounds": rounds}
        if resume is run_adaptive:
            last = {"adaptation": Adaptation(region=Region(rounds=rounds))}
        return resume(scenario, ["even"], **last, **options)

    go(before, 4, folder=tmp_path / "old")
    go(before, 9, folder=tmp_path / "whole")
    as_of_before(tmp_path / "old")
    loaded = load_run(tmp_path / "old")
    assert (loaded.outcome.deliver, loaded.state.deliver) == ("last", "last")
    assert load_model(tmp_path / "old").which == "last"
    result = go(now, 9, folder=tmp_path / "old", resume=True)
    assert (result.outcome.deliver, result.outcome.target) == ("last", Target(loss=1e-9, hold=5))
    for name in ("ledger.csv", "history.csv"):
        assert (tmp_path / "old" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_command_resumes_an_old_run_with_the_last_model(fedcell, tmp_path):
    words = ["--policy", "even", "--out", tmp_path / "o"]
    before = tmp_path / "before.toml"
    before.write_text('[learning]\nmodel = "quadratic-apart"\ntarget = 1e-9\ndeliver = "last"\n')
    assert fedcell("run", before, *words, "--rounds", 3).code == 0
    as_of_before(tmp_path / "o")
    before.write_text('[learning]\nmodel = "quadratic-apart"\ntarget = 1e-9\n')
    said = fedcell("run", before, *words, "--rounds", 5, "--resume")
    assert (said.code, said.err) == (0, "")
    assert "evaluated and delivered: the last model" in said.out
    assert "in the mean of 5 rounds was not reached" in said.out


def test_a_run_is_not_resumed_with_the_other_model(tmp_path):
    for one, other in ((WORLD, LAST), (LAST, WORLD)):
        folder = tmp_path / one.deliver
        run(one, ["even"], rounds=2, folder=folder)
        with pytest.raises(BadFile, match=r"learning\.deliver differs"):
            run(other, ["even"], rounds=3, folder=folder, resume=True)


def test_the_last_model_keeps_identities_and_the_average_has_its_own():
    for identity in (
        lambda s: run_identity(s, None, 0),
        lambda s: pilot_identity(s, None),
        lambda s: training_identity(s, None, 0),
    ):
        assert "deliver" not in identity(LAST)["scenario"]["learning"]
        assert identity(WORLD)["scenario"]["learning"]["deliver"] == "average"
        for scenario in (LAST, WORLD):
            assert identity(scenario.using(learning={"hold": 9})) == identity(scenario)


def test_trainings_of_sweeps_and_pilots_are_of_what_is_delivered():
    for scenario in (DIGITS, DIGITS.using(learning={"deliver": "last"})):
        curve = train(TrainingJob(Training.of(scenario, 0), Until(4))).curve
        result = run(scenario, ["even"], rounds=4)
        scores = result.outcome.policies[0].scores
        assert_array_equal(curve.train_loss, result.ledgers["even"].train_loss)
        assert (curve.accuracy, curve.test_loss) == (scores.accuracy, scores.test_loss)
        setup = prepare_training(scenario)
        found = train_curve(setup.scenario, setup.learner(), 0, Until(4))
        assert found.model.tobytes() == result.state.delivered.tobytes()


def test_a_training_whose_model_overflows_has_diverged():
    wild = WORLD.using(learning={"rate": 1e20})
    with np.errstate(all="ignore"):
        setup = prepare_training(wild)
        found = train_curve(setup.scenario, setup.learner(), 0, Until(12))
    assert found.diverged
    assert len(found.train_loss) < 12


def test_a_learner_without_learning_delivers_the_average(tmp_path):
    class Counting:
        sizes = np.full(8, 20)

        def start(self) -> Any:
            return np.zeros(2, np.float32)

        def train(self, model: Any, clients: Any, round: int) -> Any:  # noqa: ARG002
            return [model + np.float32(1) for _ in clients]

        def evaluate(self, model: Any) -> Scores:
            return Scores(1 / (1 + float(model[0])))

    task = {"model_bits": 1e4, "cycles_per_sample": 1e4}
    world = Scenario().using(clients={"count": 8, "samples": 20}, plan={"cohort": 8}, task=task)
    result = run(
        world,
        ["even"],
        rounds=6,
        target=1e-6,
        folder=tmp_path / "o",
        compute=Compute(learner=lambda *_: Counting()),
    )
    assert result.outcome.target == Target(loss=1e-6, hold=1)
    assert result.outcome.deliver == load_model(tmp_path / "o").which == "average"
    assert result.outcome.other.train_loss < result.ledgers["even"].train_loss[-1]
