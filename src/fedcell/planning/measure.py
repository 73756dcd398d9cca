"""Theorem 1's constants along a real training, beside the rounds that it really took."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np

from fedcell.learning.gradients import Probe, probe
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import Material, prepare
from fedcell.network.compare import Row
from fedcell.simulation.train import State, advance

from .constants import Measured, measure_constants
from .pilot import PROBED, local_steps

LATER = (64, 128, 256, 512, 1024)


def measure_along(
    material: Material,
    rounds: int,
    seed: int = 0,
    target: float | None = None,
    every: int | None = None,
    clients: int = 10,
    draws: int = 8,
    threads: int | None = None,
    warm: Callable[[], Any] = nullcontext,
) -> tuple[Measured, Row]:
    """The constants, and in plain values what they come to.

    Gradients of all clients are taken before training, after 1, 2, 4, 8, ... rounds or `every`
    so many, and at the end; `clients` of them draw `draws` batches each, for C_1 and sigma^2.
    """
    scenario = material.scenario
    learner = prepare(material, seed, threads, test=False)
    with warm():
        warm_up(learner)
    probes: list[Probe] = []

    def take(state: State) -> Probe:
        batch = scenario.task.batch_size
        return probe(learner, state.model, state.rounds, batch, clients, draws)

    def look(state: State) -> None:
        if state.rounds % every == 0 if every else state.rounds in (0, *PROBED, *LATER):
            probes.append(take(state))

    first = State.start(learner)
    look(first)
    last = advance(scenario, learner, rounds, seed, first, target, look)
    if probes[-1].round < last.rounds:
        probes.append(take(last))
    least = float(getattr(learner, "least_loss", 0.0))  # known for quadratics
    found = measure_constants(probes, np.asarray(learner.sizes, float), least)
    return found, _said(material, found, last, target, least)


def _said(
    material: Material, found: Measured, last: State, target: float | None, least: float
) -> Row:
    lambdas = np.array(found.diversities)
    said: Row = {
        "constants": asdict(found.constants),
        "estimates": [asdict(estimate) for estimate in found.estimates],
        "rounds": list(found.rounds),
        "losses": list(found.losses),
        "lambdas": lambdas.tolist(),
        "pl_ratios": list(found.pl_ratios),
        "lambda": {
            "max": float(lambdas.max()),
            "p90": float(np.quantile(lambdas, 0.9)),
            "median": float(np.median(lambdas)),
        },
        "doubts": found.doubts,
        "target": target,
    }
    if target is not None and target > least:
        plan, cell = material.scenario.plan, material.scenario.cell
        said["theorem_1"] = {
            name: float(
                found.constants.bound(target - least, printed=name == "printed").rounds(
                    plan.cohort, local_steps(material.scenario), cell.loss_rate, cell.loss_kind
                )
            )
            for name in ("corrected", "printed")
        }
        there = last.records[:, 1] <= target
        said["measured"] = int(np.argmax(there)) + 1 if there.any() else None
    return said
