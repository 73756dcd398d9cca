"""Trainings report each round, resume from a state, and continue along a later trace."""

import json
import math

import numpy as np

from fedcell import Compute, Observer, Scenario, run
from fedcell.learning import prepare_training
from fedcell.network import draw_fleet, draw_trace
from fedcell.simulation import simulate
from fedcell.simulation.summary import RoundReport
from fedcell.simulation.train import train_rounds
from support.runs import SCENARIO, WORLD, rows_of


def test_a_report_of_each_round_says_what_the_ledgers_say_in_the_end():
    said: list[RoundReport] = []
    result = run(SCENARIO, ["even", "optimal"], observer=Observer(round=said.append))
    ledger = result.ledgers["even"]
    assert [report.round for report in said] == list(range(1, 9))
    assert {report.rounds for report in said} == {8}
    assert [report.train_loss for report in said] == ledger.train_loss.tolist()
    assert [report.received for report in said] == ledger.received.tolist()
    assert all(math.isnan(report.accuracy) for report in said)  # quadratics have no test data
    for name, each in result.ledgers.items():
        assert [report.total_duration[name] for report in said] == each.total_duration.tolist()
        assert [report.total_energy[name] for report in said] == each.total_energy.tolist()
    assert "state" not in repr(said[0])


def test_a_training_without_a_folder_reports_and_resumes():
    setup, said = prepare_training(SCENARIO), []
    whole = simulate(setup.scenario, "even", setup.learner(), report=said.append)
    assert list(said[2].total_energy) == ["even"]
    assert said[-1].total_duration["even"] == whole.total_duration[-1]
    again = simulate(setup.scenario, "even", setup.learner(), state=said[2].state)
    assert again.train_loss.tolist() == whole.train_loss.tolist()


def test_a_run_without_the_target_of_its_scenario(fedcell, tmp_path):
    world = WORLD | {"learning": {"model": "quadratic-apart", "target": 5.0, "hold": 1}}
    (tmp_path / "w.json").write_text(json.dumps(world))
    words = ["run", tmp_path / "w.json", "--policy", "even", "--json"]
    short = json.loads(fedcell(*words, "--out", tmp_path / "a").out)
    assert short["policies"][0]["rounds"] < 8
    for option in ("--target-loss", "--target-accuracy"):
        said = fedcell(*words, "--out", tmp_path / option, option, "none")
        answer = json.loads(said.out)
        assert (answer["target"], answer["policies"][0]["rounds"]) == (None, 8)
    more = json.loads(
        fedcell(*words, "--out", tmp_path / "a", "--resume", "--target-loss", "none").out
    )
    assert more["policies"] == answer["policies"]
    said = fedcell(*words, "--out", tmp_path / "b", "--target-loss", "none", "--hold", 3)
    assert (said.code, "--hold: there is nothing to hold" in said.err) == (2, True)
    said = fedcell(*words, "--out", tmp_path / "b", "--target-loss", "nothing")
    assert said.err == "fedcell: --target-loss = nothing: expected a number, or none\n"
    assert not (tmp_path / "b").exists()


def test_a_training_continues_along_a_trace_that_begins_later():
    setup = prepare_training(SCENARIO)
    world, learner = setup.scenario, setup.learner()
    fleet = draw_fleet(world)
    *_, whole = train_rounds(world, learner, fleet, draw_trace(world, fleet, 8))
    *_, half = train_rounds(world, learner, fleet, draw_trace(world, fleet, 3))
    for first in (3, 1):  # the trace may have rounds that are done already
        rest = draw_trace(world, fleet, range(first, 8))
        states = list(train_rounds(world, learner, fleet, rest, half))
        assert [state.rounds for state in states] == list(range(3, 9))
        np.testing.assert_array_equal(states[-1].model, whole.model)
        np.testing.assert_array_equal(states[-1].history.train_loss, whole.history.train_loss)


class Elsewhere:
    """Clients of which one does not answer in the second round."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.ours = prepare_training(SCENARIO.using(plan={"cohort": scenario.plan.cohort}), seed)
        self.learner = self.ours.learner()
        self.sizes, self.gone = self.learner.sizes, {}

    def start(self):
        return self.learner.start()

    def evaluate(self, model):
        return self.learner.evaluate(model)

    def train(self, model, clients, round):
        for client, upload in zip(clients, self.learner.train(model, clients, round), strict=True):
            self.gone[round] = list(clients[:1]) if round == 1 else []
            yield None if client in self.gone[round] else upload

    def missing(self, round):
        return self.gone.get(round, [])


def test_uploads_that_do_not_come_are_in_the_ledger_as_such(tmp_path):
    world = SCENARIO.using(task={"model_bits": 640.0, "cycles_per_sample": 60.0})
    ours = run(world, ["even"], rounds=4)
    theirs = run(
        world, ["even"], rounds=4, folder=tmp_path / "run", compute=Compute(learner=Elsewhere)
    )
    lost = ours.ledgers["even"].received - theirs.ledgers["even"].received
    assert lost.tolist() == [0, 1, 0, 0]
    np.testing.assert_array_equal(ours.ledgers["even"].cost, theirs.ledgers["even"].cost)
    assert [int(row["received"]) for row in rows_of(tmp_path / "run")] == theirs.ledgers[
        "even"
    ].received.tolist()
    assert theirs.ledgers["even"].totals.arrived.sum() == theirs.ledgers["even"].received.sum()
