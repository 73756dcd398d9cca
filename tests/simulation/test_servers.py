"""Runs whose server takes steps of its own: what they remember, and resuming to the same bits."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Compute, Observer, Region, Scenario, plan_training, run, run_pilot
from fedcell.errors import BadFile, BadInput
from fedcell.experiments.training import Training
from fedcell.learning import prepare_training
from fedcell.scenario.identity import run_identity
from fedcell.simulation import simulate
from support.training import quadratics_of, states

SERVERS: dict[str, Any] = {
    "average": {},
    "momentum": {"server": "momentum", "server_momentum": 0.5},
    "adam": {"server": "adam", "server_rate": 0.1},
    "yogi": {"server": "yogi", "server_rate": 0.1, "server_tau": 0.01},
}
OPTIMISERS = {"sgd": {}, "adam": {"optimiser": "adam", "rate": 0.01, "proximal": 0.1}}


def world(**learning):
    return Scenario().using(
        cell={"loss_rate": 0.2},
        clients={"count": 6},
        plan={"cohort": 3, "local_steps": 2, "rounds": 12},
        learning={"model": "quadratic-apart"} | learning,
    )


def digits(**learning):
    return Scenario().using(
        clients={"count": 20},
        plan={"cohort": 4, "local_steps": 3, "rounds": 6},
        learning={"model": "logistic", "partition": {"kind": "shards"}} | learning,
    )


def checkpoint(folder):
    with np.load(folder / "checkpoint.npz") as saved:
        return {name: saved[name].tobytes() for name in saved.files}


KILLED = """
import os, signal, sys
from pathlib import Path
from fedcell import Observer, load_scenario, run
def at(report):
    if report.round == 4:
        os.kill(os.getpid(), signal.SIGKILL)
run(load_scenario(sys.argv[1]), ["even"], folder=sys.argv[2], observer=Observer(round=at))
"""


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_killed_and_resumed_to_the_same_bits(tmp_path, server, optimiser):
    scenario = digits(**SERVERS[server], **OPTIMISERS[optimiser])
    run(scenario, ["even"], folder=tmp_path / "straight")
    words = [sys.executable, "-c", KILLED, tmp_path / "straight/scenario.json", tmp_path / "cut"]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert int(np.load(tmp_path / "cut/checkpoint.npz")["rounds"]) == 4
    run(scenario, ["even"], folder=tmp_path / "cut", resume=True)
    assert checkpoint(tmp_path / "cut") == checkpoint(tmp_path / "straight")
    kept = "server" in checkpoint(tmp_path / "cut")
    assert kept == (server != "average")  # as older runs have it
    for name in ("ledger.csv", "history.csv", "summary.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


@pytest.mark.parametrize("server", ["momentum", "adam", "yogi"])
def test_a_server_that_remembers_nothing_would_be_noticed(server):
    """A state without its memory goes on otherwise."""
    scenario = world(**SERVERS[server])
    learner = quadratics_of(scenario)
    scenario = prepare_training(scenario).scenario
    whole = list(states(scenario, learner, 8))
    assert whole[4].server is not None
    on = list(states(scenario, learner, 8, state=whole[4]))
    assert_array_equal(on[-1].model, whole[8].model)
    forgetful = list(states(scenario, learner, 8, state=replace(whole[4], server=None)))
    assert (forgetful[-1].model != whole[8].model).any()


def test_momentum_of_nothing_gives_the_run_of_averaging():
    """And a run goes as (28) says, with steps of the server by hand."""
    plain, still = (
        prepare_training(world(**keys)).scenario
        for keys in ({}, {"server": "momentum", "server_momentum": 0.0})
    )
    models = [[s.model for s in states(x, quadratics_of(x), 10)] for x in (plain, still)]
    assert_allclose(models[0], models[1], rtol=1e-6, atol=1e-7)


def test_one_round_of_each_server_from_the_mean_by_hand():
    for name, keys in SERVERS.items():
        scenario = prepare_training(world(**keys)).scenario
        start, after = list(states(scenario, quadratics_of(scenario), 1))
        mean = list(states(prepare_training(world()).scenario, quadratics_of(world()), 1))[1].model
        delta = mean.astype(float) - start.model
        tau = keys.get("server_tau", 1e-3)
        if name == "adam":
            step = 0.1 * 0.1 * delta / (np.sqrt(0.99 * tau**2 + 0.01 * delta**2) + tau)
        elif name == "yogi":
            v = tau**2 - 0.01 * delta**2 * np.sign(tau**2 - delta**2)
            step = 0.1 * 0.1 * delta / (np.sqrt(v) + tau)
        else:
            step = delta
        assert_allclose(after.model, start.model + step, rtol=1e-5, atol=1e-7)


def test_where_nothing_arrives_the_server_stays_as_it_is():
    scenario = prepare_training(world(**SERVERS["momentum"])).scenario
    scenario = scenario.using(cell={"loss_rate": 0.95}, plan={"cohort": 1})
    seen = list(states(scenario, quadratics_of(scenario), 30))
    assert {a.model is b.model for a, b in pairwise(seen)} == {True, False}
    for a, b in pairwise(seen):
        assert (a.server is b.server) == (a.model is b.model)


def test_servers_learn():
    """On digits all of them get below where they began, Adam within a few rounds."""
    for keys in SERVERS.values():
        setup = prepare_training(digits(**keys), seed=1)
        ledger = simulate(setup.scenario, "even", setup.learner(), rounds=15, seed=1)
        assert ledger.train_loss[-1] < 0.8 * ledger.train_loss[0]


def halfway(old, mean):
    return old + (mean - old) / 2


def test_a_custom_server_in_runs_and_pilots(tmp_path, fedcell):
    scenario = world()
    momentum = prepare_training(world(server="momentum", server_momentum=0.0, server_rate=0.5))
    ledgers = [
        run(scenario, ["even"], rounds=8, compute=Compute(server=halfway)).ledgers["even"],
        simulate(momentum.scenario, "even", momentum.learner(), rounds=8),
    ]
    assert_allclose(ledgers[0].train_loss, ledgers[1].train_loss, rtol=1e-5)
    result = run(
        scenario, ["even"], rounds=8, folder=tmp_path / "run", compute=Compute(server=halfway)
    )
    assert_array_equal(result.ledgers["even"].train_loss, ledgers[0].train_loss)
    again = run(
        scenario,
        ["even"],
        rounds=10,
        folder=tmp_path / "run",
        resume=True,
        compute=Compute(server=halfway),
    )
    assert_array_equal(again.ledgers["even"].train_loss[:8], ledgers[0].train_loss)
    with pytest.raises(BadFile, match=r"different run \(server differs\)"):
        run(scenario, ["even"], rounds=10, folder=tmp_path / "run", resume=True)
    pilot = run_pilot(
        scenario,
        "2s",
        target=2.0,
        region=Region(clients=(3, 6), steps=(1, 8)),
        compute=Compute(server=halfway),
    )
    assert pilot.server is not None
    assert pilot.server.endswith("test_servers:halfway")
    trial = pilot.trials[0]
    world_of_trial = trial.setting.apply_to(scenario)
    compute = Compute(server=halfway)
    options = {"rounds": len(trial.losses), "seed": trial.seed, "compute": compute}
    ledger = run(world_of_trial, ["even"], **options).ledgers["even"]
    assert_array_equal(ledger.train_loss, trial.losses)
    plan_training(scenario, pilot).save(tmp_path / "plan.json")
    said = fedcell("run", "--plan", tmp_path / "plan.json")
    assert said.code == 2
    assert "test_servers:halfway: run it from Python" in said.err


def test_a_server_that_fails_says_so_and_loses_nothing(tmp_path):
    def bad(old, mean):
        return mean if abs(old).sum() > 0 and not (tmp_path / "broken").exists() else mean[:1]

    def breaks(report):
        if report.round == 3:
            (tmp_path / "broken").touch()

    progress = Observer(round=breaks)
    with pytest.raises(BadInput, match="the server gave an array of shape"):
        run(
            world(),
            ["even"],
            folder=tmp_path / "run",
            compute=Compute(server=bad),
            observer=progress,
        )
    (tmp_path / "broken").unlink()
    done = run(world(), ["even"], folder=tmp_path / "run", resume=True, compute=Compute(server=bad))
    assert done.ledgers["even"].rounds == 12


def test_a_training_is_known_by_its_optimiser_and_server():
    plain = Training.of(world(), 0).key
    same = world(optimiser="sgd", server="average", proximal=0.0, server_momentum=0.9)
    assert Training.of(same, 0).key == plain
    others = [*(keys for name, keys in SERVERS.items() if name != "average")]
    others += [{"optimiser": "adam"}, {"proximal": 0.1}, {"server": "adam", "server_tau": 0.5}]
    keys = {Training.of(world(**other), 0).key for other in others}
    assert len(keys | {plain}) == len(others) + 1


def test_identities_of_before_are_those_of_today():
    """Keys that came later stand in none, where they change nothing."""
    learning = run_identity(world(), None, 0)["scenario"]["learning"]
    assert not [name for name in learning if name.startswith(("server", "optimiser", "proximal"))]
    assert "momentum" in learning
    adam = run_identity(world(server="adam"), None, 0)["scenario"]["learning"]
    assert adam["server"] == "adam"


def test_a_checkpoint_of_another_server_does_not_fit(tmp_path):
    run(world(**SERVERS["adam"]), ["even"], rounds=3, folder=tmp_path / "run")
    with np.load(tmp_path / "run" / "checkpoint.npz") as saved:
        arrays = {name: saved[name] for name in saved.files}
    for change in ({"server": arrays["server"][:1]}, {"server": arrays["server"] * np.nan}):
        np.savez(tmp_path / "run" / "checkpoint.npz", **(arrays | change))
        with pytest.raises(BadFile, match=r"does not fit this run|is damaged"):
            run(world(**SERVERS["adam"]), ["even"], folder=tmp_path / "run", resume=True)
    os.remove(tmp_path / "run" / "checkpoint.npz")
    arrays.pop("server")
    np.savez(tmp_path / "run" / "checkpoint.npz", **arrays)
    with pytest.raises(BadFile, match="is damaged"):
        run(world(**SERVERS["adam"]), ["even"], folder=tmp_path / "run", resume=True)
