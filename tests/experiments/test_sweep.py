"""Sweeps run every point once, write the same bytes with any executor and survive kills."""

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcell import load_scenario
from fedcell.core.estimates import mean_estimate
from fedcell.errors import BadInput
from fedcell.experiments.executors import Inline, LocalProcesses, WorkerDiedError
from fedcell.experiments.experiment import Experiment, load_experiment
from fedcell.experiments.statistics import estimate_rounds
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep
from fedcell.experiments.table import FIRST, HELD, estimate_at
from fedcell.experiments.training import Curve, Training, Until
from fedcell.learning import prepare_training
from fedcell.network import simulate_network
from fedcell.scenario.target import Target, rounds_to
from support.printed import is_plus_minus
from support.printed import tables as printed_tables
from support.signalled import CURVE, signalled

QUADRATIC: dict[str, Any] = {
    "clients": {"count": 8, "samples": 30, "spread": 0.0},
    "plan": {"cohort": 3, "local_steps": 4, "rounds": 40},
    "learning": {"model": "quadratic-apart", "target": 0.8, "rate": 0.02},
}


@pytest.fixture
def world(tmp_path):
    (tmp_path / "world.json").write_text(json.dumps(QUADRATIC))
    return tmp_path / "world.json"


def experiment(tmp_path: Path, **more) -> Path:
    content = {"title": "tiny", "scenario": "world.json", "seeds": 3, "plan": {"cohort": [2, 4]}}
    (tmp_path / "tiny.json").write_text(json.dumps(content | more))
    return tmp_path / "tiny.json"


def held(folder: Path) -> dict[str, bytes]:
    """The trainings in a store."""
    return {f.name: f.read_bytes() for f in folder.rglob("[0-9a-f]*.json")}


# What an experiment says.


def test_a_list_is_an_axis_and_all_points_have_their_labels(world):
    found = load_experiment(
        experiment(
            world.parent,
            plan={"cohort": [2, 4], "local_steps": [1, 5, 20]},
            variant=[
                {"name": "near", "learning": {"quadratic": {"distance": 0.5}}},
                {"name": "far", "learning": {"quadratic": {"distance": 2.0}}},
            ],
        )
    )
    assert len(found.points) == 12
    labels = [tuple(point.labels.values()) for point in found.points]
    assert labels[0] == ("near", 2, 1)
    assert labels[-1] == ("far", 4, 20)
    last = found.points[-1].scenario
    assert (last.plan.cohort, last.plan.local_steps) == (4, 20)
    assert last.learning is not None
    assert last.learning.quadratic.distance == 2.0
    assert found.axes == {"plan.cohort": (2, 4), "plan.local_steps": (1, 5, 20)}
    assert found.seeds == (0, 1, 2)


def test_a_list_that_a_key_takes_is_a_value_and_a_list_of_them_an_axis(world):
    ring = load_experiment(experiment(world.parent, cell={"distance": [50.0, 200.0]}))
    assert {point.scenario.cell.distance for point in ring.points} == {(50.0, 200.0)}
    several = [[50.0, 200.0], [1.0, 9.0]]
    rings = load_experiment(experiment(world.parent, plan={}, cell={"distance": several}))
    assert [p.labels["cell.distance"] for p in rings.points] == [(50.0, 200.0), (1.0, 9.0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"plan": {"cohrt": [2, 4]}},
            r"at plan\.cohrt = 2: plan\.cohrt is not a key; did",
        ),
        ({"plann": {"cohort": 2}}, "plann: is not a key; did you mean plan?"),
        ({"plan": {"cohort": []}}, r"plan\.cohort = \[\]: an axis needs at least one value"),
        ({"plan": {"cohort": [2, 2]}}, r"plan\.cohort: a value stands twice on the axis"),
        ({"plan": {"cohort": [2, 9]}}, r"at plan\.cohort = 9: plan\.cohort = 9 is more than the 8"),
        ({"plan": {"cohort": ["a", 2]}}, r"at plan\.cohort = a: plan\.cohort = 'a': expected"),
        ({"scenario": None}, r"is no experiment: it lacks `scenario`, a file or one of: paper, "),
        ({"seeds": 0}, "seeds = 0: expected a whole number above 0"),
        ({"seeds": [1, -2]}, "seeds: expected how many, or a list of whole numbers"),
        ({"hold": 0}, "hold = 0: expected a whole number above 0"),
        ({"policy": ["evn"]}, "policy: 'evn' is not a policy; did you mean even?"),
        ({"policy": "evil:p"}, "policy: 'evil:p' is not a policy"),
        ({"policy": 5}, "policy: expected text, or a list of texts"),
        ({"policy": [["even"]]}, "policy: expected text, or a list of texts"),
        ({"claims": 5}, "claims: is not a key; "),
        ({"seeds": 10**8}, "seeds: 10000 at most"),
        ({"seeds": 2**70}, "seeds: 10000 at most"),
        ({"rounds": 10**12}, "rounds = 1000000000000: 1000000 at most"),
        (
            {"plan": {"cohort": list(range(60_000))}},
            r"plan\.cohort: an axis of 60000 values: 10000",
        ),
        ({"scenario": 3}, "scenario = 3: expected a file, or one of: paper"),
        ({"variant": [{"plan": {}}]}, r"variant\[0\]\.name = None: expected text"),
        ({"variant": [{"name": "a", "pln": {}}]}, r"variant\[0\]\.pln: did you mean plan?"),
        ({"variant": [{"name": "a"}, {"name": "a"}]}, "variant: a name stands twice"),
        ({"plan": {"cohort": list(range(1, 9)), "rounds": list(range(1, 2000))}}, "15992 points: "),
    ],
)
def test_an_experiment_with_errors_is_refused_before_anything_runs(world, change, message):
    with pytest.raises(BadInput, match=message) as caught:
        load_experiment(experiment(world.parent, **change))
    assert "tiny.json: " in str(caught.value)


# Keys.


def test_a_training_is_known_by_what_it_depends_on():
    digits = load_scenario("digits")
    key = Training.of(digits, 0).key
    same = [
        {"cell": {"bandwidth": 1e6, "noise": 1e-19, "broadcast_time": 3.0}},
        {"clients": {"kappa": 1e-26, "power": 1e-7, "freq_max": 3e9, "spread": 0.5}},
        {"task": {"energy_weight": 7.0, "model_bits": 1e6}},
        {"plan": {"cohort_drawn": "after-training", "rounds": 9}},
        {"learning": {"target": 0.5, "evaluate_every": 7}},
    ]
    for change in same:
        assert Training.of(digits.using(**change), 0).key == key, change
    other = [
        {"plan": {"cohort": 3}},
        {"plan": {"local_steps": 3}},
        {"plan": {"selection": "weighted"}},
        {"cell": {"loss_rate": 0.25}},
        {"cell": {"gain_threshold": 0.3}},
        {"clients": {"count": 40}},
        {"task": {"batch_size": 3}},
        {"learning": {"rate": 0.05}},
        {"learning": {"evaluate_samples": 100}},
    ]
    keys = {Training.of(digits.using(**change), 0).key for change in other}
    assert len(keys) == len(other)
    assert key not in keys | {Training.of(digits, 1).key}


def test_rounds_to_a_target_that_holds():
    losses = [1.0, 0.4, 0.9, 0.5, 0.5, 0.4]
    assert rounds_to(losses, 0.5) == 2
    assert rounds_to(losses, 0.5, hold=3) == 6
    assert rounds_to(losses, 0.3) is None
    assert rounds_to(losses, 9.0, hold=7) is None
    assert rounds_to([1.0, math.nan, 0.4, math.nan, 0.6], 0.5, hold=2) == 5  # of those evaluated
    curve = Curve(key="", seed=0, train_loss=losses, accuracies=[0.1, 0.8, 0.7])
    assert curve.reached(Target(loss=0.5, hold=3)) == 6
    assert curve.reached(Target(accuracy=0.75, hold=2)) == 3
    assert curve.answers(Until(6, Target(accuracy=0.75, hold=2)))
    assert not curve.answers(Until(6, Target(accuracy=0.9)))  # only three rounds were judged
    assert curve.answers(Until(3, Target(accuracy=0.9)))
    assert curve.reached(None) is None


# Statistics.


def test_runs_that_missed_the_target_are_cut_and_counted():
    found = estimate_rounds([10, 20, None, 30], cap=100)
    assert (found.runs, found.reached, found.censored) == (4, 3, 1)
    assert found.mean.value == 40.0
    assert found.median == 25
    assert estimate_rounds([None, None, 5], cap=50).median == math.inf
    values = np.array([10, 20, 100, 30.0])
    half = 3.182446 * values.std(ddof=1) / 2  # Student's factor of 3 degrees of freedom
    assert found.mean.high == pytest.approx(40 + half, rel=1e-6)


# The store and the engines.


def test_both_engines_make_the_same_bytes(world):
    tiny = load_experiment(experiment(world.parent, policy=["even", "optimal"]))
    here, there = world.parent / "here", world.parent / "there"
    one = run_sweep(tiny, Store(here), Inline())
    other = run_sweep(tiny, Store(there), LocalProcesses(2))
    assert one.made == other.made == 6
    assert held(here) == held(there)
    assert one.rows() == other.rows()
    assert {row["policy"] for row in one.rows()} == {"even", "optimal"}


def mean_at(result, place: int, by: str = FIRST):
    runs = list(result.table.points("policy").values())[place]
    return estimate_at(result.table, runs, by).mean


def test_rows_and_cells_are_those_of_the_runs(world):
    """Rounds from the curve; seconds, joules and cost from the ledger, up to the target."""
    tiny = load_experiment(experiment(world.parent, policy=["even"], hold=8))
    result = run_sweep(tiny, Store(world.parent / "store"), Inline())
    for row in result.rows():
        curve = next(c for c in result.curves.values() if c.key == row["key"])
        setup = prepare_training(
            load_scenario(world).using(plan={"cohort": row["plan.cohort"]}), row["seed"]
        )
        g = row["rounds_to_target"]
        ledger = simulate_network(setup.scenario, "even", g, row["seed"])
        assert g == rounds_to(curve.train_loss, 0.8, 1)
        assert row["duration"] == pytest.approx(ledger.duration.sum())
        assert row["energy"] == pytest.approx(ledger.energy.sum())
        assert row["cost"] == pytest.approx(ledger.cost.sum())
        assert row["rounds_to_hold"] == curve.rounds >= g
    printed, priced = printed_tables(result.summary()).values()
    for i, k in enumerate((2, 4)):
        assert printed.columns["plan.cohort"][i] == str(k)
        assert printed.columns["runs"][i] == printed.columns["reached"][i] == "3"
        assert is_plus_minus(printed.columns["rounds"][i], vars(mean_at(result, i)))
        held_there = printed.columns["mean of 8 there"][i]
        assert is_plus_minus(held_there, vars(mean_at(result, i, HELD)))
        energies = [row["energy"] for row in result.rows() if row["plan.cohort"] == k]
        assert is_plus_minus(
            priced.columns["energy [J]"][i], vars(mean_estimate(np.array(energies)))
        )


def test_stored_runs_are_reused_and_shared_between_experiments(world):
    store = Store(world.parent / "store")
    first = load_experiment(experiment(world.parent))
    assert run_sweep(first, store, Inline()).made == 6
    assert run_sweep(first, store, Inline()).made == 0
    more = load_experiment(experiment(world.parent, seeds=5))  # seeds added later
    assert run_sweep(more, store, Inline()).made == 4
    wider = load_experiment(experiment(world.parent, seeds=5, plan={"cohort": [2, 3, 4]}))
    assert run_sweep(wider, store, Inline()).made == 5
    looser = {"learning": {"target": 1.5}}  # reached on the way
    assert run_sweep(load_experiment(experiment(world.parent, **looser)), store, Inline()).made == 0
    lower = load_experiment(experiment(world.parent, learning={"target": 0.7}))
    result = run_sweep(lower, store, Inline())
    assert result.made == 6  # they were stopped before
    assert run_sweep(first, store, Inline()).made == 0  # which answers for both


def test_a_run_ends_when_the_target_holds(world):
    passed = {"hold": 3, "seeds": 1, "learning": {"hold": 1}}
    tiny = load_experiment(experiment(world.parent, **passed))
    result = run_sweep(tiny, Store(world.parent / "store"), Inline())
    for i in range(2):
        (curve,) = result.curves_of(i)
        assert np.mean(curve.train_loss[-3:]) <= 0.8
        assert curve.rounds == rounds_to(curve.train_loss, 0.8, 3)
        assert mean_at(result, i).value <= mean_at(result, i, HELD).value


def fails_on(seed: int):
    """An engine that fails a seed."""

    class Failing(Inline):
        def run(self, work, jobs):
            def sometimes(job):
                if job.training.seed == seed:
                    raise ValueError("no luck")
                return work(job)

            return super().run(sometimes, jobs)

    return Failing()


def test_failures_are_kept_and_made_again_on_request(world):
    store = Store(world.parent / "store")
    tiny = load_experiment(experiment(world.parent))
    result = run_sweep(tiny, store, fails_on(1))
    assert set(result.failures.values()) == {"ValueError: no luck"}
    assert len(result.curves) == 4
    assert len(run_sweep(tiny, store, Inline()).failures) == 2  # not by itself
    again = run_sweep(tiny, store, Inline(), retry=True)
    assert (again.made, again.failures, len(again.curves)) == (2, {}, 6)


def test_what_is_not_the_training_s_fault_is_not_held_against_it(world):
    class Unlucky(Inline):
        def run(self, _, jobs):
            yield from ((job, WorkerDiedError("it died")) for job in jobs)

    store = Store(world.parent / "store")
    tiny = load_experiment(experiment(world.parent))
    with pytest.raises(BadInput, match=r"all 6 trainings failed, .*: it died: correct that"):
        run_sweep(tiny, store, Unlucky())
    assert run_sweep(tiny, store, Inline()).made == 6


def test_a_sweep_of_which_nothing_is_left_writes_nothing(fedcell, world, monkeypatch):
    """An earlier table stays, and one sentence says why there is no new one."""
    monkeypatch.chdir(world.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(world.parent / "cache"))
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    monkeypatch.setenv("FEDCELL_DATA", str(world.parent))
    Path("mine.toml").write_text('scenario = "mnist"\nseeds = 1\nplan.cohort = [2, 3]\n')
    Path("sweep-mine").mkdir()
    Path("sweep-mine/runs.csv").write_text("earlier\n")
    for words in (["sweep", "mine.toml"], ["reproduce", "fig3a", "--seeds", "1", "--out", "r"]):
        said = fedcell(*words, "--workers", "1")
        assert said.code == 2
        assert said.err.startswith("fedcell: all ")
        assert "; try again, or put train-images-idx3-ubyte" in said.err
        assert "run them again with --retry" in said.err
        assert len(said.err.splitlines()) == 1
    assert Path("sweep-mine/runs.csv").read_text() == "earlier\n"


def deadly(job: int) -> int:
    """Kills the process that it runs in, if it is three."""
    if job == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return job * job


@pytest.mark.long
def test_a_process_that_dies_costs_only_its_own_job():
    found = dict(LocalProcesses(2).run(deadly, range(8)))
    assert {job: found[job] for job in range(8) if job != 3} == {
        job: job * job for job in range(8) if job != 3
    }
    assert "died" in str(found[3])


def test_a_damaged_training_is_named_with_the_way_out(world):
    store = Store(world.parent / "store")
    tiny = load_experiment(experiment(world.parent, seeds=1))
    run_sweep(tiny, store, Inline())
    file = next(store.folder.rglob("*.json"))
    sound = json.loads(file.read_text())
    damaged = [sound | change for change in ({"train_loss": 5}, {"train_loss": []}, {"seed": 3})]
    damaged += [sound | {"train_loss": [2**1023]}, sound | {"train_loss": [-1.0]}]
    damaged += [sound | {"diverged": "no"}, sound | {"accuracy": "high"}]
    for content in ("{}", '{"fedcell": "1", "format": 1, "what": "training"}', "nonsense"):
        file.write_text(content)
        with pytest.raises(BadInput, match=file.name):
            run_sweep(tiny, store, Inline())
    for tables in damaged:
        file.write_text(json.dumps(tables))
        with pytest.raises(BadInput, match=file.name):
            run_sweep(tiny, store, Inline())


# The command.


def test_the_command_writes_a_table_and_reuses_trainings(fedcell, world, monkeypatch):
    monkeypatch.chdir(world.parent)
    experiment(world.parent, policy=["even"])
    said = fedcell("sweep", "tiny.json", "--workers", 2, "--figure", "g.png")
    assert said.code == 0, said.err
    assert "tiny: rounds to the target at the first passage, ± 95 % over seeds" in said.out
    assert "6 trainings made; written to sweep-tiny: runs.csv" in said.out
    lines = Path("sweep-tiny/runs.csv").read_text().splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("plan.cohort,seed,key,rounds,target,rounds_to_target")
    assert Path("g.png").stat().st_size > 10_000
    again = fedcell("sweep", "tiny.json", "--seeds", 4, "--json")
    answer = json.loads(again.out)
    assert (answer["made"], len(answer["runs"])) == (2, 8)
    assert fedcell("sweep", "nowhere.toml").code == 2


SLOW = {**QUADRATIC, "plan": {"cohort": 3, "local_steps": 40, "rounds": 200}}


@pytest.mark.long
def test_a_killed_sweep_continues_with_the_trainings_that_it_lacks(fedcell, world, monkeypatch):
    monkeypatch.chdir(world.parent)
    slow = {**SLOW, "learning": QUADRATIC["learning"] | {"target": 1e-9}}
    Path("world.json").write_text(json.dumps(slow))
    experiment(world.parent, seeds=12)
    with signalled("sweep", "tiny.json", place=CURVE, calls=3, sent=signal.SIGKILL) as process:
        process.communicate(timeout=300)
    before = held(Path("fedcell-runs"))
    assert len(before) == 3
    said = fedcell("sweep", "tiny.json", "--json")
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    assert len(answer["runs"]) == 24
    assert answer["made"] == 21
    after = held(Path("fedcell-runs"))
    assert {name: after[name] for name in before} == before


def test_from_python():
    digits = load_scenario("digits")
    found = Experiment.sweep(digits, {"plan.cohort": [5, 10]}, seeds=[3, 4], rounds=2)
    assert [point.scenario.plan.cohort for point in found.points] == [5, 10]
    assert (found.seeds, found.rounds) == ((3, 4), 2)
