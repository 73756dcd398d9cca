"""Check that the parts of a scenario fit: selection, aggregation, learner, target."""

from collections.abc import Mapping
from math import isnan
from typing import Any, Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.learning.aggregate import Rule
from fedcell.learning.custom import CustomLearner, costs_of
from fedcell.learning.learner import Learner, Scores, first_model, measured_by
from fedcell.learning.setup import TrainingSetup
from fedcell.network.physics.discrete.steps import loses_uploads
from fedcell.network.selectors.names import aggregation_of
from fedcell.scenario.learning import Learning
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.scenario.selection import SIMPLE
from fedcell.scenario.target import Target

UNBIASED = {("uniform", "unbiased"), ("weighted", "mean"), ("uniform", "normalised")}


def aggregation_rule(scenario: Scenario) -> Rule | Literal["selector"]:
    """Return the aggregation of a scenario; default: the usual one for its selection.

    "selector": by 1 / p_j where the rule gives probabilities, else normalised.
    """
    if scenario.learning is not None and scenario.learning.aggregation is not None:
        return scenario.learning.aggregation
    if scenario.plan.selection in SIMPLE:
        return "normalised" if scenario.plan.selection == "uniform" else "mean"
    return "mean" if aggregation_of(scenario) == "mean" else "selector"


def aggregation_doubts(scenario: Scenario) -> list[str]:
    """Return why the mean of the aggregate differs from that of all clients (DECISIONS.md, 13)."""
    rule, selection = aggregation_rule(scenario), scenario.plan.selection
    if selection not in SIMPLE:
        return []  # a rule is biased on purpose, or counts by its own probabilities
    if (selection, rule) not in UNBIASED:
        return [
            f'learning.aggregation = "{rule}" does not go with plan.selection = "{selection}": '
            'take "normalised" or "unbiased" (4) with uniform, "mean" (28) with weighted selection'
        ]
    if rule != "normalised" and _heard_unequally(scenario):
        return [
            f'learning.aggregation = "{rule}" is unbiased only where all clients are heard equally '
            "often, and their mean channels differ, or their loss rates: some count less often"
        ]
    return []


def _heard_unequally(scenario: Scenario) -> bool:
    cell, table = scenario.cell, scenario.clients.table
    if loses_uploads(scenario):
        return True
    if table is not None and np.ptp(table.filled("loss_rate", cell.loss_rate)) > 0:
        return True
    placed = table is not None and (table.gain is not None or table.distance is not None)
    apart = placed or cell.recorded is not None or cell.ring[0] != cell.ring[1]
    return apart and cell.gain_threshold > 0


def with_learner_sizes(scenario: Scenario, learner: Learner) -> Scenario:
    """Return the scenario with the learner's D_j, which drive time, energy and weights."""
    if not isinstance(learner, Learner):
        raise BadInput(
            f"the learner is a {type(learner).__name__}: expected sizes, start, train and evaluate"
        )
    task = scenario.task
    try:
        sizes = np.asarray(learner.sizes, float)
    except (TypeError, ValueError) as error:
        raise BadInput("the learner's sizes are not numbers: give D_j of each client") from error
    if not (np.isfinite(sizes) & (sizes >= 0)).all() or not sizes.any():
        raise BadInput(
            "the learner's sizes are samples that clients hold: expected 0 or more, and not all 0"
        )
    if sizes.shape != (scenario.clients.count,):
        raise BadInput(
            f"the learner has {sizes.size} clients and the scenario {scenario.clients.count}: set "
            f"clients.count = {sizes.size}, or give the learner as many"
        )
    if scenario.learning is not None and None in (task.model_bits, task.cycles_per_sample):
        raise BadInput(
            "task.model_bits and task.cycles_per_sample are left out: take the scenario of "
            "`prepare_training`, which has those of the model, or give them"
        )
    return scenario.using(clients={"sizes": sizes})


def learning_of(scenario: Scenario, own: CustomLearner | None) -> Learning | None:
    """Return the [learning] of a scenario; a scenario with a custom learner needs none."""
    if own is None and check_scenario(scenario).learning is None:
        raise BadInput(
            "the scenario has no [learning]: say what is trained, see docs/how-to/data.md, or "
            "give a `learner` of your own"
        )
    return scenario.learning


def with_costs(scenario: Scenario, known: Mapping[str, float]) -> Scenario:
    """Return the scenario with z_m and alpha_0 of a learner, where it leaves them out; a local step
    is then a batch, as that of the built-in learners (DECISIONS.md, 2)."""
    task = scenario.task
    left_out: dict[str, Any] = {k: v for k, v in known.items() if getattr(task, k) is None}
    if left_out and task.samples_per_step is None:
        left_out["samples_per_step"] = "batch"
    return scenario.using(task=left_out) if left_out else scenario


def own_learner_setup(scenario: Scenario, learner: Learner, seed: int) -> TrainingSetup:
    """Return the setup of a custom learner: the scenario with its D_j, and with z_m and alpha_0
    where the learner knows them; else the scenario must give them."""
    scenario = with_costs(scenario, costs_of(learner))
    task = scenario.task
    names = ("model_bits", "cycles_per_sample")
    if missing := [f"task.{name}" for name in names if getattr(task, name) is None]:
        size = first_model(learner).size
        raise BadInput(
            f"{' and '.join(missing)}: give what a learner of your own costs (its model is {size} "
            f"numbers, {32 * size} bits as 32-bit floats; cycles of a training step per sample)"
        )
    return TrainingSetup(with_learner_sizes(scenario, learner), seed)


def check_scored(target: Target | None, scores: Scores) -> None:
    """Refuse a first model without a loss, and a target that needs test data without them."""
    if isnan(scores.train_loss):
        raise BadInput(
            "the training loss of the first model is not a number: check the data, or the learner"
        )
    if target is not None and target.needs_test and isnan(scores.of(target.column)):
        if not isnan(scores.test_loss):
            raise BadInput(
                f"the target is {target}, and {target.metric} of the first model is not a number: "
                "let the metric give one, or take another target"
            )
        raise BadInput(
            f"the target is {target}, but there is no test data to measure it on: give a training "
            "loss as the target"
        )


def goal_of(target: Target | None, learner: Learner) -> Target | None:
    """Return a target with the direction of its metric; refuse one that the learner does not
    measure."""
    return None if target is None else target.with_directions(measured_by(learner))
