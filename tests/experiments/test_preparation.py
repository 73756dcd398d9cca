"""Sweeps prepare each training once: its data and partition also serve the prices."""

import pytest

from fedcell import load_scenario
from fedcell.experiments import jobs as preparation
from fedcell.experiments.executors import Inline, LocalProcesses
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import run_sweep, run_until_precise
from fedcell.learning import prepare_training

POLICIES = ["even", "optimal"]


@pytest.fixture
def prepared(monkeypatch):
    """The scenarios and seeds that this process prepares."""
    calls = []

    def count(scenario, seed, *more, **named):
        calls.append((scenario.plan.cohort, seed))
        return prepare_training(scenario, seed, *more, **named)

    monkeypatch.setattr(preparation, "prepare_training", count)
    return calls


def experiment(seeds=2):
    axes = {"plan.cohort": [3, 5]}
    return Experiment.sweep(load_scenario("digits"), axes, seeds=seeds, rounds=3, policies=POLICIES)


def test_a_sweep_prepares_each_scenario_and_seed_once(tmp_path, prepared):
    result = run_sweep(experiment(), Store(tmp_path / "store"), Inline())
    result.save(tmp_path / "sweep")
    assert sorted(prepared) == [(3, 0), (3, 1), (5, 0), (5, 1)]
    assert len(result.table.runs) == 8


def test_prices_of_a_stored_curve_prepare_its_training_once(tmp_path, prepared):
    store = Store(tmp_path / "store")
    trained = run_sweep(experiment(), store, Inline()).rows()
    prepared.clear()
    result = run_sweep(experiment(), store, Inline())
    result.save(tmp_path / "sweep")
    assert result.made == 0
    assert result.rows() == trained
    assert sorted(prepared) == [(3, 0), (3, 1), (5, 0), (5, 1)]


def test_seeds_that_are_added_do_not_prepare_the_first_ones_again(tmp_path, prepared):
    scenario = load_scenario("digits").using(learning={"target": 1.0})
    axes = {"plan.cohort": [3, 5]}
    begun = Experiment.sweep(scenario, axes, seeds=2, rounds=40, policies=POLICIES)
    store = Store(tmp_path / "store")
    result = run_until_precise(begun, store, Inline(), precision=1e-6, max_seeds=4)
    result.save(tmp_path / "sweep")
    assert sorted(prepared) == sorted((k, seed) for k in (3, 5) for seed in range(4))


@pytest.mark.long
def test_prices_take_what_the_workers_have_prepared(tmp_path, prepared):
    result = run_sweep(experiment(), Store(tmp_path / "store"), LocalProcesses(2))
    rows = result.rows()
    assert prepared == []
    assert rows == run_sweep(experiment(), Store(tmp_path / "other"), Inline()).rows()


def test_prices_are_those_of_the_scenario_as_it_was_declared():
    """A training knows its scenario as text; reading it back changes no price."""
    declared = load_scenario("digits").using(
        cell={"distance": (37.1, 211.3)}, task={"model_bits": 1e5}
    )
    given = Experiment.sweep(declared, {"plan.cohort": [4]}, seeds=1, rounds=3)
    (point,) = given.points
    direct = prepare_training(point.scenario, 0).scenario
    read = preparation.prepare(point.training(0)).scenario
    for table in ("cell", "clients", "plan", "task"):
        assert getattr(read, table) == getattr(direct, table)
