"""Sweeps as tables: what a folder holds is what came out, and is drawn without a simulation."""

import csv
import json

import numpy as np
import pytest

from fedcell import Scenario
from fedcell.core.estimates import mean_estimate
from fedcell.errors import BadInput
from fedcell.experiments import result as result_module
from fedcell.experiments import sweep as sweep_module
from fedcell.experiments.executors import Inline
from fedcell.experiments.experiment import Experiment, load_experiment
from fedcell.experiments.statistics import rounds_of_mean_curve, values_of
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep, run_until_precise
from fedcell.experiments.table import (
    FIRST,
    HELD,
    MEAN,
    SweepTable,
    load_sweep,
    paired_change,
    widest_interval,
)
from fedcell.experiments.training import Curve
from fedcell.network import simulate_network
from fedcell.policies import Even
from fedcell.scenario.target import Target
from fedcell.show.html import report_page
from fedcell.show.tables.console import plus_minus
from fedcell.show.tables.sweeps import point_columns

WORLD = Scenario().using(
    clients={"count": 12, "samples": 40, "spread": 0.0},
    plan={"cohort": 4, "local_steps": 4, "rounds": 300},
    learning={"model": "quadratic-apart", "rate": 0.02, "target": 1.5, "hold": 1},
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    experiment = Experiment.sweep(
        WORLD, {"plan.cohort": [2, 6]}, seeds=3, rounds=80, hold=3, policies=("even", "optimal")
    )
    return run_sweep(experiment, Store(tmp_path_factory.mktemp("store")), Inline())


def test_a_folder_gives_back_what_was_written(swept, tmp_path):
    swept.save(tmp_path)
    found = load_sweep(tmp_path)
    assert found.rows() == swept.rows()
    assert (found.axes, found.seeds) == (swept.table.axes, swept.table.seeds)
    assert (found.rounds, found.hold, found.title) == (80, 3, "a sweep")
    assert found.about["versions"]["fedcell"]


def test_ledgers_stand_beside_with_a_row_for_each_round(swept, tmp_path):
    swept.save(tmp_path)
    with (tmp_path / "ledgers.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    for number, row in enumerate(swept.rows()):
        own = [line for line in lines if int(line["run"]) == number]
        assert [int(line["round"]) for line in own] == list(range(1, row["rounds"] + 1))
        assert float(own[-1]["train_loss"]) == row["train_loss"]
        to_target = own[: row[FIRST]]
        assert sum(float(line["energy"]) for line in to_target) == pytest.approx(row["energy"])


def test_the_mean_curve_is_that_over_seeds():
    runs = [[3.0, 2.0, 1.0, 0.5], [3.0, 1.0]]  # the second ended: its last two have the mean 2
    to = lambda loss: Target(loss=loss, hold=2)
    assert rounds_of_mean_curve(runs, to(1.5)) == 2  # (2 + 1) / 2
    assert rounds_of_mean_curve(runs, to(1.4)) == 4  # (0.5 + 2) / 2; before (1 + 2) / 2
    assert rounds_of_mean_curve(runs, to(1.0)) is None
    assert rounds_of_mean_curve([], to(1.0)) is None


def test_rows_have_the_three_kinds_of_rounds(swept):
    for runs in swept.table.points("policy").values():
        assert len({run[MEAN] for run in runs}) == 1
        for run in runs:
            assert run[FIRST] <= run[HELD]


def test_rounds_are_priced_alone_where_nothing_is_trained(tmp_path):
    experiment = Experiment.sweep(
        Scenario(), {"clients.spread": [0.1, 0.5]}, seeds=2, rounds=7, policies=("even", "optimal")
    )
    result = run_sweep(experiment, Store(tmp_path / "store"), Inline())
    assert result.made == 0
    assert not result.curves
    assert len(result.rows()) == 2 * 2 * 2
    for row in result.rows():
        world = Scenario().using(clients={"spread": row["clients.spread"]})
        ledger = simulate_network(world, row["policy"], 7, row["seed"])
        assert row["staged_cost"] == pytest.approx(ledger.staged_cost.mean())
        assert row["upload_cost"] == pytest.approx(ledger.upload_cost.mean())
        assert row["compute_cost"] == pytest.approx(ledger.compute_cost.mean())
        assert row["energy"] == pytest.approx(ledger.energy.sum())
    columns, _ = point_columns(result.table)
    for title, name in (("C_u", "upload_cost"), ("C_n", "compute_cost")):
        means = [mean_estimate(values_of(runs, name)) for runs in result.table.points().values()]
        assert columns[f"{title} [s]"] == [plus_minus(mean) for mean in means]


def test_without_learning_and_policies_there_is_nothing_to_do(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text('scenario = "paper"\n[plan]\ncohort = [5, 10]\n')
    with pytest.raises(BadInput, match=r"policy: the scenario has no \[learning\]"):
        load_experiment(file)


def test_a_folder_is_drawn_without_a_simulation(swept, tmp_path, fedcell, monkeypatch):
    swept.save(tmp_path)

    def fail(*_, **__):
        raise AssertionError("simulated")

    monkeypatch.setattr(sweep_module, "run_sweep", fail)
    monkeypatch.setattr(result_module, "price_trace", fail)
    said = fedcell("figure", tmp_path)
    assert said.code == 0, said.err
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    narrow = fedcell(
        "figure", tmp_path, "--by", "energy", "--columns", 1, "--out", tmp_path / "energy.svg"
    )
    assert narrow.code == 0, narrow.err


def test_journals_take_the_fonts_and_columns_have_their_width(swept, tmp_path):
    swept.table.plot(tmp_path / "one.pdf", columns=1)
    content = (tmp_path / "one.pdf").read_bytes()
    assert b"/Type3" not in content
    for columns, width in ((1, 3.5), (2, 7.16)):
        assert swept.table.plot(columns=columns).get_size_inches()[0] == pytest.approx(width)


def test_runs_that_were_cut_are_marked(tmp_path):
    experiment = Experiment.sweep(WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=3)
    result = run_sweep(experiment, Store(tmp_path), Inline())
    assert result.rows()[0][FIRST] is None
    (panel,) = result.plot().axes
    assert "at least: runs were cut" in panel.get_legend_handles_labels()[1]


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("runs.csv", lambda t: t.replace("\n2,", "\n7,", 1), "line 2: plan.cohort = '7' is not on"),
        ("runs.csv", lambda t: t.replace("1.5", "x", 1), "line 2: target = 'x': expected a number"),
        ("runs.csv", lambda t: t + "2\n", "as many values as columns"),
        ("experiment.json", lambda t: t.replace('"rounds": 80', '"rounds": "x"'), "is damaged"),
        ("experiment.json", lambda _: "{}", "is not a sweep that fedcell wrote"),
        ("experiment.json", lambda _: "{", "experiment.json"),
    ],
)
def test_damaged_folders_are_named(swept, tmp_path, fedcell, file, change, words):
    swept.save(tmp_path)
    path = tmp_path / file
    path.write_text(change(path.read_text()))
    said = fedcell("figure", tmp_path)
    assert said.code == 2
    assert words in said.err
    assert file in said.err
    assert not (tmp_path / "figure.png").exists()


def test_a_folder_without_a_sweep_and_wrong_names_are_refused(swept, tmp_path, fedcell):
    assert "holds no sweep" in fedcell("figure", tmp_path).err
    swept.save(tmp_path)
    assert "there is no height to draw" in fedcell("figure", tmp_path, "--by", "height").err
    assert "size is no axis of numbers" in fedcell("figure", tmp_path, "--axis", "size").err
    assert "must end in one of" in fedcell("figure", tmp_path, "--out", "x.doc").err


def test_labels_that_are_lists_come_back(tmp_path):
    table = SweepTable(
        title="rings",
        axes={"cell.distance": ((50.0, 200.0), (10.0, 20.0)), "policy": ("even",)},
        seeds=(0,),
        rounds=5,
        hold=1,
        runs=({"cell.distance": (10.0, 20.0), "policy": "even", "seed": 0, "energy": np.pi},),
    )
    table.save(tmp_path)
    assert load_sweep(tmp_path).rows() == table.rows()
    assert json.loads((tmp_path / "experiment.json").read_text())["what"] == "sweep"


def test_seeds_are_added_until_intervals_are_narrow(tmp_path):
    experiment = Experiment.sweep(WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=80)
    store = Store(tmp_path)
    first = run_sweep(experiment, store, Inline())
    wide = widest_interval(first.table)
    result = run_until_precise(experiment, store, Inline(), precision=wide / 3)
    assert len(result.experiment.seeds) > 2
    assert widest_interval(result.table) <= wide / 3
    assert {len(runs) for runs in result.table.points().values()} == {len(result.experiment.seeds)}
    few = run_until_precise(experiment, store, Inline(), precision=1e-6, max_seeds=4)
    assert few.experiment.seeds == (0, 1, 2, 3)
    alone = run_until_precise(experiment, store, Inline())
    assert alone.experiment.seeds == (0, 1)
    assert experiment.with_seeds(1).with_more_seeds(3).seeds == (0, 1, 2)


def test_precision_is_asked_for_in_files_and_commands(tmp_path, fedcell, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "x.toml"
    text = 'scenario = "paper"\npolicy = "even"\nrounds = 3\nseeds = 2\n[plan]\ncohort = [5, 9]\n'
    file.write_text(f"precision = 0.01\n{text}")
    said = fedcell("sweep", file)
    assert said.code == 0, said.err
    assert len(load_sweep(tmp_path / "sweep-x").seeds) > 2
    assert (
        "--precision = 2.0: expected a number between 0 and 1"
        in fedcell("sweep", file, "--precision", 2).err
    )
    file.write_text(f"precision = 5\n{text}")
    assert "precision = 5: expected a number between 0 and 1" in fedcell("sweep", file).err


def test_custom_policies_are_priced_with_common_random_numbers(tmp_path, fedcell, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from fedcell.policies import Optimal\n\n\n"
        "def policy(problem):\n    return Optimal()(problem)\n"
    )
    file = tmp_path / "x.toml"
    file.write_text('scenario = "paper"\nrounds = 3\nseeds = 2\n[plan]\ncohort = [5, 9]\n')
    said = fedcell("sweep", file, "--policy", "mine:policy", "--policy", "optimal")
    assert said.code == 0, said.err
    rows = load_sweep(tmp_path / "sweep-x").rows()
    mine, ours = ([r for r in rows if r["policy"] == p] for p in ("mine:policy", "optimal"))
    assert len(mine) == len(ours) == 4
    assert [r["objective"] for r in mine] == [r["objective"] for r in ours]
    own = {"half": Even, "ours": "optimal"}
    named = Experiment.sweep(Scenario(), {"plan.cohort": [5]}, seeds=1, rounds=2, policies=own)
    table = run_sweep(named, Store(tmp_path / "s"), Inline()).table
    assert [row["policy"] for row in table.rows()] == ["half", "ours"]
    file.write_text('policy = "mine:policy"\n' + file.read_text())  # a file names no code
    assert "'mine:policy' is not a policy" in fedcell("sweep", file).err


def test_results_do_not_depend_on_what_else_the_store_holds(tmp_path):
    """A longer curve answers for a shorter one, and is cut to it."""
    asked = Experiment.sweep(WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=10)
    longer = Experiment.sweep(WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=80)
    fresh = run_sweep(asked, Store(tmp_path / "a"), Inline())
    run_sweep(longer, Store(tmp_path / "b"), Inline())
    after = run_sweep(asked, Store(tmp_path / "b"), Inline())
    assert after.made == 0
    unknown = {"test_loss": None, "accuracy": None}  # of a model that was not the last
    assert [row | unknown for row in after.rows()] == [row | unknown for row in fresh.rows()]
    run_sweep(longer, Store(tmp_path / "a"), Inline())  # what was known of the shorter stays
    assert run_sweep(asked, Store(tmp_path / "a"), Inline()).rows() == fresh.rows()


def test_a_failed_training_is_not_reported_as_one_that_missed_its_target(tmp_path):
    class Failing(Inline):
        def run(self, work, jobs):  # noqa: ARG002
            for job in jobs:
                yield job, RuntimeError("no")

    easy = Experiment.sweep(WORLD, {"learning.target": [3.0]}, seeds=2, rounds=80)
    both = Experiment.sweep(WORLD, {"learning.target": [3.0, 1.0]}, seeds=2, rounds=80)
    run_sweep(easy, Store(tmp_path), Inline())
    result = run_sweep(both, Store(tmp_path), Failing())
    assert {row["learning.target"] for row in result.rows()} == {3.0}
    assert len(result.failures) == 2


def test_a_store_keeps_the_longer_of_two_and_what_either_knows(tmp_path):
    store = Store(tmp_path)
    short = Curve(key="k" * 32, seed=0, train_loss=(2.0, 1.0), accuracies=(0.1, 0.6))
    store.put(Curve(key="k" * 32, seed=0, train_loss=(2.0, 1.0, 0.5), accuracy=0.9))
    store.put(short)
    found = store.get("k" * 32, 0)
    assert found is not None
    assert found.train_loss == (2.0, 1.0, 0.5)
    assert (found.accuracy, found.accuracies) == (0.9, (0.1, 0.6))


def test_a_variant_does_not_override_an_axis(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(
        'scenario = "paper"\npolicy = "even"\n[plan]\ncohort = [2, 4]\n'
        '[[variant]]\nname = "a"\nplan.cohort = 3\n'
    )
    with pytest.raises(BadInput, match=r"variant a: plan.cohort is an axis, too"):
        load_experiment(file)


def test_sweeps_without_a_target_show_the_loss(tmp_path):
    world = WORLD.using(learning={"target": None})
    experiment = Experiment.sweep(world, {"plan.cohort": [2, 6]}, seeds=2, rounds=5)
    result = run_sweep(experiment, Store(tmp_path), Inline())
    assert "training loss" in result.summary()
    assert result.plot().axes[0].get_ylabel() == "training loss of the last model"
    with pytest.raises(BadInput, match="precision: there is no loss to reach"):
        run_until_precise(experiment, Store(tmp_path), Inline(), precision=0.1)


def test_none_and_numbers_that_are_not_finite_come_back(tmp_path):
    rows = [{"learning.target": t, "seed": 0, "train_loss": 1.0} for t in (None, 0.8)]
    rows[0]["train_loss"] = float("nan")
    about = {"title": "x", "seeds": (0,), "rounds": 5, "hold": 1}
    SweepTable(axes={"learning.target": (None, 0.8)}, runs=rows, **about).save(tmp_path)
    first, second = load_sweep(tmp_path).rows()
    assert first["learning.target"] is None
    assert np.isnan(first["train_loss"])
    assert second == rows[1]


def test_equal_numbers_stand_once_on_an_axis():
    with pytest.raises(BadInput, match="a value stands twice"):
        Experiment.sweep(Scenario(), {"cell.loss_rate": [0, 0.0]}, policies=["even"])


def test_costs_until_a_target_that_was_not_reached_are_marked(tmp_path):
    experiment = Experiment.sweep(
        WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=3, policies=["even", "optimal"]
    )
    table = run_sweep(experiment, Store(tmp_path), Inline()).table
    (panel,) = table.plot(by="energy").axes
    labels = panel.get_legend_handles_labels()[1]
    assert labels == ["even", "optimal", "at least: runs were cut"]
    (rounds,) = table.plot().axes  # which do not depend on the policy
    assert len(rounds.get_lines()) == 2


def test_policies_are_compared_seed_by_seed(swept):
    rows = [row for row in swept.rows() if row["plan.cohort"] == 2]
    under = {p: [row for row in rows if row["policy"] == p] for p in ("even", "optimal")}
    change = paired_change(under["optimal"], under["even"], "energy")
    even, best = (
        np.array([row["energy"] for row in rows if row["policy"] == p]) for p in ("even", "optimal")
    )
    assert change is not None
    assert change.value == pytest.approx((best - even).mean() / even.mean())
    assert "energy vs even" in swept.summary()


def test_more_seeds_continue_those_of_the_file():
    listed = Experiment.sweep(Scenario(), {}, seeds=[100, 101], policies=["even"])
    assert listed.with_seeds(4).seeds == (100, 101, 0, 1)
    assert listed.with_seeds(1).seeds == (100,)
    assert listed.with_seeds(4).asked["seeds"] == [100, 101, 0, 1]


def test_runs_that_diverged_or_missed_their_target_have_no_price(tmp_path):
    """Else the setting that ends first looks cheapest."""
    wild = Experiment.sweep(
        WORLD, {"learning.rate": [0.02, 1e9]}, seeds=2, rounds=80, policies=["even", "optimal"]
    )
    result = run_sweep(wild, Store(tmp_path), Inline())
    assert any(row["diverged"] for row in result.rows())
    said = result.summary()
    assert said.count("diverged") == 2 * 3 + 1  # policies times prices, and a note
    assert (
        len(result.plot(by="energy", axis="learning.rate").axes[0].get_lines()[0].get_xdata()) == 1
    )
    short = Experiment.sweep(WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=3, policies=["even"])
    assert "> " in run_sweep(short, Store(tmp_path), Inline()).summary()


def test_failures_are_named_in_the_table_and_its_folder(tmp_path):
    class Failing(Inline):
        def run(self, work, jobs):
            for job in jobs:
                yield job, ValueError("no luck") if job.training.seed else work(job)

    experiment = Experiment.sweep(WORLD, {"plan.cohort": [2, 6]}, seeds=2, rounds=5)
    result = run_sweep(experiment, Store(tmp_path / "s"), Failing())
    assert (
        "2 trainings failed, the first at plan.cohort = 2, seed 1: ValueError" in result.summary()
    )
    result.save(tmp_path)
    assert (
        load_sweep(tmp_path).about["failures"]["plan.cohort = 6, seed 1"] == "ValueError: no luck"
    )
    assert "plan.cohort = 6, seed 1" in report_page(load_sweep(tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('scenario = "paper"\npolicy = "even"\nvariant = []\n', "variant: expected a list of"),
        ('title = 1979-05-27\nscenario = "paper"\npolicy = "even"\n', "expected text"),
        ('scenario = "paper"\npolicy = "m:p"\n', "a file names no code: give your own to the"),
    ],
)
def test_experiments_that_cannot_be_are_refused_before_any_work(tmp_path, fedcell, text, words):
    (tmp_path / "x.toml").write_text(text)
    said = fedcell("sweep", tmp_path / "x.toml", "--out", tmp_path / "o", "--store", tmp_path / "s")
    assert said.code == 2
    assert words in said.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("option", ["--out", "--store"])
def test_places_that_cannot_be_written_to_are_named_before_any_work(tmp_path, fedcell, option):
    (tmp_path / "x.toml").write_text('scenario = "paper"\npolicy = "even"\n')
    (tmp_path / "file").write_text("")
    places = {"--out": tmp_path / "o", "--store": tmp_path / "s"}
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        words = [w for pair in (places | {option: place}).items() for w in pair]
        said = fedcell("sweep", tmp_path / "x.toml", *words)
        assert said.code == 2
        assert f"is not a folder: choose another {option}" in said.err


def test_a_precision_that_was_not_reached_is_reported(tmp_path, fedcell):
    (tmp_path / "x.toml").write_text(
        'scenario = "paper"\npolicy = "even"\nrounds = 3\n[plan]\ncohort = [5, 9]\n'
    )
    places = ["--out", tmp_path / "o", "--store", tmp_path / "s", "--seeds", 2]
    said = fedcell("sweep", tmp_path / "x.toml", *places, "--precision", 1e-4, "--most-seeds", 3)
    assert "note: --precision 0.0001 was not reached: the widest is 0." in said.out


def test_tables_of_spreadsheets_are_read(swept, tmp_path, fedcell):
    swept.save(tmp_path)
    path = tmp_path / "runs.csv"
    head, *lines = path.read_text().splitlines()
    path.write_text("\ufeff" + "\n".join([f"{head},mine", *(f"{line},a word" for line in lines)]))
    assert load_sweep(tmp_path).rows()[0]["mine"] == "a word"
    path.write_text("\n".join([head.replace("plan.cohort", "k"), *lines]))
    assert "lacks the column plan.cohort: run the sweep again" in fedcell("figure", tmp_path).err
    path.unlink()
    said = fedcell("figure", tmp_path)
    assert "runs.csv: cannot be read" in said.err
    swept.save(tmp_path)
    said = fedcell("figure", tmp_path, "--by", "time")
    assert said.err.count("there is no time to draw: choose of rounds_to_target,") == 1


def test_a_damaged_file_of_the_store_says_the_way_out(tmp_path):
    experiment = Experiment.sweep(WORLD, {"plan.cohort": [2]}, seeds=1, rounds=3)
    run_sweep(experiment, Store(tmp_path), Inline())
    (file,) = tmp_path.glob("??/*.json")
    file.write_text(file.read_text()[:100])
    with pytest.raises(BadInput, match="delete it, and it is trained again"):
        run_sweep(experiment, Store(tmp_path), Inline())


def test_points_with_cut_runs_say_nothing_of_precision():
    def rows(k, rounds):
        return [
            {"plan.cohort": k, "seed": s, "target": 1.0, FIRST: g} for s, g in enumerate(rounds)
        ]

    about = {"title": "x", "seeds": (0, 1, 2), "rounds": 90, "hold": 1}
    runs = [*rows(5, [10, 11, 12]), *rows(9, [10, 60, None])]
    table = SweepTable(axes={"plan.cohort": (5, 9)}, runs=runs, **about)
    assert widest_interval(table) == pytest.approx(2.484 / 11, rel=1e-3)  # Student's, of the first
