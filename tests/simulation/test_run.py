"""Runs: what they write, other commands that learn, and what goes wrong while a run learns."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from fedcell import Compute, Observer, load_scenario
from fedcell.errors import BadInput
from fedcell.learning.learner import Scores
from fedcell.learning.setup import prepare_training
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.policies.names import NAMED
from fedcell.show.results import summary
from fedcell.simulation import simulate
from fedcell.simulation.run import run
from support.runs import (
    DIGITS,
    FILES,
    KEPT,
    QUADRATIC,
    changed,
    column,
    held,
    results,
    strict_json,
    with_own_data,
    with_table,
    write,
    written_summary,
)
from support.sealing import rewrite

# What a run writes.


def test_a_run_leaves_its_files_and_answers_in_json(fedcell, tmp_path):
    out = tmp_path / "new" / "deep"  # is made
    words = ["--policy", "even", "--policy", "optimal", "--rounds", 4, "--seed", 3, "--out", out]
    said = fedcell("run", "digits", *words, "--json")
    assert (said.code, said.err) == (0, "")
    assert set(held(out)) == FILES | KEPT
    answer = strict_json(said.out)
    assert answer == written_summary(out)
    assert [row["policy"] for row in answer["policies"]] == ["even", "optimal"]
    assert (answer["complete"], answer["seed"]) == (True, 3)
    assert answer["samples_per_step"] == "batch"
    assert answer["partition"]["samples"] == 1501
    loss = column(out, "train_loss")
    assert loss[::2] == loss[1::2]  # one training, priced twice, round after round
    assert answer["policies"][0]["train_loss"] == loss[-1]
    assert len((out / "clients.csv").read_text().splitlines()) == 1 + 2 * 50
    assert b"\r" not in (out / "ledger.csv").read_bytes()
    assert imread(out / "loss.png").shape[2] == 4


def test_a_run_prints_a_table_and_names_its_folder(fedcell, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fedcell("run", world, "--seed", 2)
    assert (said.code, said.err) == (0, "")
    assert "written to run-world-seed2: ledger.csv" in said.out
    assert all(name in said.out for name in NAMED)
    assert set(held(tmp_path / "run-world-seed2")) == FILES | KEPT


WORLDS = {
    "digits": lambda _: changed(DIGITS, plan={"rounds": 4}),
    "epochs": lambda _: changed(DIGITS, plan={"rounds": 2, "local_epochs": 2}),
    "table and gains": with_table,
    "own data": with_own_data,
    "quadratic": lambda _: QUADRATIC,
    "quadratic with sizes": lambda _: changed(QUADRATIC, clients={"sizes": [9, 8, 7, 30, 5, 4]}),
    "weighted": lambda _: changed(
        QUADRATIC, plan={"selection": "weighted", "cohort_drawn": "after-training"}
    ),
    "a ring": lambda _: changed(QUADRATIC, cell={"distance": [50, 200]}),
}


@pytest.mark.usefixtures("no_figure")
@pytest.mark.parametrize("name", WORLDS)
def test_the_scenario_that_was_used_gives_the_same_run(fedcell, tmp_path, monkeypatch, name):
    """From elsewhere, and without the options that it was run with."""
    (tmp_path / "here").mkdir()
    write(tmp_path / "here" / "world.json", WORLDS[name](tmp_path / "here"))
    monkeypatch.chdir(tmp_path)
    options = ["--seed", 5, "--policy", "distributed"]
    ending = [] if "gains" in name else ["--rounds", 3, "--target-loss", 1e-9]
    first = ["here/world.json", *options, *ending, "--out", "first"]
    said = fedcell("run", *first)
    assert (said.code, said.err) == (0, "")
    assert load_scenario(tmp_path / "first" / "scenario.json").learning is not None
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    again = ["../first/scenario.json", *options, "--out", "second"]
    assert fedcell("run", *again).code == 0
    assert results(tmp_path / "first") == results(tmp_path / "there" / "second")
    before = held(tmp_path / "first")  # and it is the same run, wherever its files lie
    assert fedcell("run", *again[:-1], "../first", "--resume").code == 0
    assert held(tmp_path / "first") == before


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("tables", [QUADRATIC, changed(DIGITS, plan={"local_steps": 1})])
def test_figures_and_losses_where_few_rounds_are_evaluated(fedcell, tmp_path, tables, rounds):
    file = write(tmp_path / "world.json", changed(tables, learning={"evaluate_every": 3}))
    words = ["--rounds", rounds, "--policy", "even", "--json"]
    said = fedcell("run", file, *words, "--out", tmp_path / "o")
    assert (said.code, said.err) == (0, "")
    assert imread(tmp_path / "o" / "loss.png").size
    evaluated = np.flatnonzero(np.isfinite(column(tmp_path / "o", "train_loss"))) + 1
    assert evaluated.tolist() == {1: [1], 2: [2], 4: [3, 4]}[rounds]
    assert strict_json(said.out)["policies"][0]["train_loss"] > 0


@pytest.mark.usefixtures("no_figure")
def test_threads_change_nothing(fedcell, tmp_path):
    for threads in (1, 2, 5):
        words = ["--rounds", 3, "--policy", "even", "--threads", threads]
        assert fedcell("run", "digits", *words, "--out", tmp_path / str(threads)).code == 0
    assert results(tmp_path / "1") == results(tmp_path / "2") == results(tmp_path / "5")


@pytest.mark.usefixtures("no_figure")
def test_a_run_stops_at_its_target(fedcell, tmp_path):
    words = ["--policy", "even", "--json", "--target-loss"]
    row = strict_json(fedcell("run", "digits", *words, 1.5, "--out", tmp_path / "o").out)
    loss = column(tmp_path / "o", "train_loss")
    assert loss[-1] <= 1.5 < min(loss[:-1])
    assert row["policies"][0]["to_target"]["rounds"] == len(loss)
    more = [*words, 1.2, "--out", tmp_path / "o", "--resume"]
    assert strict_json(fedcell("run", "digits", *more).out)["policies"][0]["rounds"] > len(loss)
    fedcell("run", "digits", *words, 1.2, "--out", tmp_path / "straight")
    assert results(tmp_path / "o") == results(tmp_path / "straight")


# The other commands that learn, or price what is learnt.


def test_partition_shows_and_draws(fedcell, tmp_path):
    figure = tmp_path / "p.png"
    said = fedcell("partition", "digits", "--figure", figure, "--seed", 4, "--json")
    assert (said.code, said.err) == (0, "")
    answer = strict_json(said.out)
    assert (answer["dataset"], answer["kind"], answer["clients"]) == ("digits", "pathological", 50)
    assert answer["classes_per_client"] == 3
    assert imread(figure).size
    assert list(tmp_path.iterdir()) == [figure]
    said = fedcell("partition", "digits", "--seed", 4)
    assert "1501 samples of digits over 50 clients" in said.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper"], "the scenario has no [learning]"),
        (["digits", "--figure", "p.txt"], "p.txt: the name must end in one of: png"),
        (["digits", "--figure", "no/p.png"], "no/p.png: cannot be written: there is no folder"),
        (["digits", "--seed", "-1"], "--seed"),
    ],
)
def test_partition_refuses(fedcell, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    said = fedcell("partition", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert not list(tmp_path.iterdir())


def test_quadratics_have_no_partition(fedcell, world):
    said = fedcell("partition", world)
    assert said.code == 2
    assert "quadratics need no data: there is no partition to show" in said.err


def test_cost_is_that_of_what_is_trained(fedcell, tmp_path):
    said = fedcell("cost", "digits", "--rounds", 6, "--seed", 2, "--policy", "even", "--json")
    answer = strict_json(said.out)
    assert answer["samples_per_step"] == "batch"
    settled = prepare_training(load_scenario("digits"), 2).scenario
    assert settled.task.model_bits == 117056
    ledger = simulate_network(settled, "even", 6, 2)
    assert answer["policies"][0]["energy"]["value"] == pytest.approx(ledger.energy.mean())
    words = ["--rounds", 6, "--seed", 2, "--policy", "even", "--target-loss", 1e-9]
    assert fedcell("run", "digits", *words, "--out", tmp_path / "o").code == 0
    assert column(tmp_path / "o", "energy") == ledger.energy.tolist()


@pytest.mark.long
def test_the_demo_works_twice(fedcell, tmp_path):
    first = fedcell("demo", "--out", tmp_path / "d", "--budget", "8s")
    assert first.code == 0
    for part in (
        "Rounds to the target",
        "clients a round and let each train",
        "The plan's predictions against this run",
    ):
        assert part in first.out
    before = held(tmp_path / "d")
    own = {"partition.png", "pilot.json", "plan.json", "plan.png"}
    pilots = {name for name in before if name.startswith("runs/")}  # the pilot's trainings
    assert pilots
    assert set(before) - pilots == own | {f"run/{name}" for name in FILES | KEPT}
    second = fedcell("demo", "--out", tmp_path / "d", "--budget", "8s")
    # But for the seconds that training took, which the second did not do.
    said, again = (
        [line for line in o.splitlines() if "this machine took" not in line]
        for o in (first.out, second.out)
    )
    assert (second.code, again) == (0, said)
    assert held(tmp_path / "d") == before


# What goes wrong while it learns.


@pytest.mark.filterwarnings("default")
def test_uploads_that_are_not_finite_are_named_left_out_and_counted(fedcell, tmp_path):
    learning = {"rate": 1e38, "model": "logistic", "layers": None}
    file = write(tmp_path / "world.json", changed(DIGITS, learning=learning))
    words = ["--rounds", 3, "--policy", "even", "--out", tmp_path / "o"]
    said = fedcell("run", file, *words, "--json")
    assert said.code == 0
    answer = strict_json(said.out)
    assert answer == written_summary(tmp_path / "o")
    received = column(tmp_path / "o", "received")
    discarded = column(tmp_path / "o", "discarded_uploads")
    assert received == discarded
    notes = said.err.splitlines()
    assert sum(discarded) == answer["policies"][0]["discarded_uploads"] > 0
    assert [note[:22] for note in notes] == [f"fedcell: note: round {t}" for t in (1, 2, 3)]
    assert all("the uploads of clients" in note for note in notes)
    assert set(column(tmp_path / "o", "train_loss")) == {answer["initial"]["train_loss"]}
    assert imread(tmp_path / "o" / "loss.png").size


@pytest.mark.filterwarnings("default")
def test_losses_that_are_not_numbers_are_null(fedcell, tmp_path):
    """Weights are finite and what they make of an image is not."""
    learning = {"rate": 1e16, "model": "mlp", "layers": None}
    steps = {"local_steps": 1}
    file = write(tmp_path / "world.json", changed(DIGITS, learning=learning, plan=steps))
    words = ["--rounds", 3, "--policy", "even", "--out", tmp_path / "o"]
    said = fedcell("run", file, *words, "--json")
    assert said.code == 0
    answer = strict_json(said.out)
    assert answer["policies"][0]["train_loss"] is None
    assert answer["initial"]["train_loss"] == pytest.approx(2.3, abs=0.2)
    assert answer == written_summary(tmp_path / "o")
    assert np.isnan(column(tmp_path / "o", "train_loss")).all()
    again = fedcell("run", file, *words, "--resume")
    assert "the training loss is not a number: training diverged" in again.out
    assert imread(tmp_path / "o" / "loss.png").size


@pytest.mark.usefixtures("no_figure")
def test_the_model_stays_where_nothing_arrives(fedcell, tmp_path):
    file = write(
        tmp_path / "world.json",
        changed(DIGITS, cell={"loss_rate": 0.97}, learning={"deliver": "last"}),
    )
    words = ["--rounds", 12, "--policy", "even", "--out", tmp_path / "o", "--json"]
    answer = strict_json(fedcell("run", file, *words).out)
    received = column(tmp_path / "o", "received")
    loss = [answer["initial"]["train_loss"], *column(tmp_path / "o", "train_loss")]
    assert 0 < received.count(0) < 12
    for i, arrived in enumerate(received):
        assert (loss[i + 1] == loss[i]) == (arrived == 0)


def test_calls_that_are_refused_in_a_sentence(world):
    scenario = load_scenario(world)
    setup = prepare_training(scenario)
    calls: list[tuple[dict[str, Any], str]] = [
        ({"rounds": 0}, "`rounds` = 0: expected a whole number above 0"),
        ({"rounds": range(2, 4)}, "`rounds` = range"),
        ({"target": float("nan")}, "`target` = nan: expected a finite number above 0"),
        ({"target": "low"}, "`target` = low: expected a finite number above 0"),
        ({"learner": None}, "the learner is a NoneType: expected sizes, start, train and evaluate"),
        ({"seed": -1}, "`seed` = -1: expected a whole number"),
    ]
    for wrong, message in calls:
        call: dict[str, Any] = {"learner": setup.learner(), "rounds": 2} | wrong
        with pytest.raises(BadInput, match=message):
            simulate(setup.scenario, "even", **call)
    calls = [
        ({"policies": ["evn"]}, "evn is not a policy"),
        ({"resume": True}, "`resume` needs the folder of the run: give `folder`"),
        ({"rounds": 1.5}, "`rounds` = 1.5"),
    ]
    for wrong, message in calls:
        with pytest.raises(BadInput, match=message):
            run(scenario, **wrong)
    with pytest.raises(BadInput, match="`threads` = 0: expected a whole number above 0"):
        run(load_scenario("digits"), ["even"], rounds=1, compute=Compute(threads=0))
    with pytest.raises(BadInput, match="`data` is a str: expected a Dataset"):
        prepare_training(load_scenario("digits"), data="x")  # type: ignore[arg-type]


def test_a_custom_trace_is_trained_and_priced(world):
    """Measured channels as a trace: who is called, and whose upload is lost, is what it says."""
    setup = prepare_training(load_scenario(world))
    scenario, learner = setup.scenario, setup.learner()
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 4)
    silent = replace(trace, lost=np.ones_like(trace.lost))
    ledger = simulate(scenario, "even", learner, rounds=4, trace=silent)
    assert ledger.received.tolist() == [0, 0, 0, 0]
    first = learner.evaluate(learner.start()).train_loss
    assert ledger.train_loss.tolist() == [first] * 4
    same = simulate(scenario, "even", learner, rounds=4, trace=trace)
    assert same.train_loss.tolist() == simulate(scenario, "even", learner, 4).train_loss.tolist()


def test_a_trace_with_fewer_rounds_than_asked_for_is_refused(world):
    setup = prepare_training(load_scenario(world))
    scenario, learner = setup.scenario, setup.learner()
    trace = draw_trace(scenario, draw_fleet(scenario), 4)
    with pytest.raises(BadInput, match="the trace holds 4 rounds and `rounds` = 6: ask for fewer"):
        simulate(scenario, "even", learner, rounds=6, trace=trace)
    assert simulate(scenario, "even", learner, rounds=3, trace=trace).rounds == 3
    assert simulate(scenario, "even", learner, trace=trace).rounds == 4


@pytest.mark.parametrize("complete", [True, False])
def test_only_a_complete_run_is_reported_as_diverged(world, complete):
    """An interrupted one may only not have been evaluated after its last round."""
    result = run(load_scenario(world), ["even"], rounds=2)
    (outcome,) = result.outcome.policies
    unknown = replace(outcome, scores=Scores(float("nan")))
    cut = replace(result.outcome, complete=complete, policies=(unknown,))
    assert ("diverged" in summary(replace(result, outcome=cut))) == complete


def test_a_link_in_the_place_of_the_picture_is_not_followed(fedcell, world, tmp_path):
    words = ["run", world, "--out", tmp_path / "o", "--policy", "even"]
    assert fedcell(*words).code == 0
    (tmp_path / "holiday.png").write_text("sun")
    (tmp_path / "o" / "loss.png").unlink()
    (tmp_path / "o" / "loss.png").symlink_to(tmp_path / "holiday.png")
    assert fedcell(*words, "--resume").code == 0
    assert (tmp_path / "holiday.png").read_text() == "sun"
    assert (tmp_path / "o" / "loss.png").stat().st_size > 10_000


def test_what_a_listener_raises_is_not_taken_for_the_folder_s_fault(world, tmp_path):
    def broken(*_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        run(load_scenario(world), ["even"], folder=tmp_path / "o", observer=Observer(round=broken))


def test_policies_with_names_that_cannot_be_shown_are_refused_before_training(world):
    with pytest.raises(BadInput, match="is not a name that can be shown"):
        run(load_scenario(world), {"a\udcff": "even"})


def test_a_run_that_another_kind_of_processor_began_says_so(fedcell, tmp_path):
    words = ["run", write(tmp_path / "d.json", DIGITS), "--policy", "even", "--rounds", 2]
    words += ["--target-loss", 1e-9, "--out", tmp_path / "o"]
    assert fedcell(*words).code == 0
    file = tmp_path / "o" / "run.json"
    known = json.loads(file.read_text())
    assert known["vector_width"] in (4, 8, 16)
    rewrite(file, vector_width=2 * known["vector_width"])
    said = fedcell(*words, "--resume")
    assert said.code == 2
    assert f"takes {2 * known['vector_width']} numbers at a time, and this one takes" in said.err
    assert f"set FEDCELL_LANES={2 * known['vector_width']} to continue to the same bits" in said.err
