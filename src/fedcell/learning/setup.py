"""From a scenario to what is trained: data, partition, model, learner."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.learning.data.dataset import Dataset, load_data
from fedcell.learning.data.download import Report
from fedcell.network.draw import Purpose, draw_fleet, stream
from fedcell.scenario.learning import Learning
from fedcell.scenario.tables import Scenario

from .learner import Course, Differentiable
from .neural import Network
from .partition import Partition, split

MOST_SAMPLES = 10**9


@dataclass(frozen=True, eq=False)
class Material:
    """What a scenario learns from. Quadratics have neither data nor network."""

    scenario: Scenario  # with D_j of the partition, z_m and alpha_0 of the model
    data: Dataset | None = None
    partition: Partition | None = None
    network: Network | None = None


def gather_material(
    scenario: Scenario,
    seed: int = 0,
    folder: Path | None = None,
    report: Report | None = None,
    data: Dataset | None = None,
) -> Material:
    """Data, its partition and the network, and the scenario that follows from them.

    What the task leaves out comes from the model; a local step is a batch (DECISIONS.md, 2).
    `data` of your own stands in place of learning.dataset.
    """
    learning = wanted(scenario)
    if learning.analytic:
        sizes = np.maximum(1, np.rint(draw_fleet(scenario, seed).samples))
        if sizes.max() > MOST_SAMPLES:
            raise BadInput(f"clients.samples: a client can learn from {MOST_SAMPLES:g} at most")
        bits, cycles = 32.0 * learning.quadratic.dimension, 3.0 * learning.quadratic.dimension
        return Material(_settled(scenario, sizes, bits, cycles))
    if data is None:
        try:
            data = load_data(learning.dataset, folder, report=report)
        except BadInput as error:
            raise BadInput(*(f"learning.dataset: {fault}" for fault in error.faults)) from error
    network = Network.of(learning.architecture, data.image, data.classes)
    how = learning.partition
    rng = stream(Purpose.PARTITION, seed if how.seed is None else how.seed)
    partition = split(data.y_train, scenario.clients.count, how, rng)
    given = scenario.clients.sizes
    if given is not None and not np.array_equal(given.values, partition.sizes):
        raise BadInput("clients.sizes are those of learning.partition: leave them out")
    settled = _settled(scenario, partition.sizes, network.bits, network.cycles)
    return Material(settled, data, partition, network)


def prepare(
    material: Material, seed: int = 0, threads: int | None = None, test: bool = True
) -> Differentiable:
    """The learner of a scenario, ours: the compiled engine, or quadratics. Without `test` it
    does not judge models on test data."""
    scenario = material.scenario
    learning, course = wanted(scenario), course_of(scenario, seed)
    if material.data is None or material.partition is None or material.network is None:
        from .quadratic import Quadratics

        sizes = scenario.clients.sizes.values.astype(np.int64)
        apart = learning.model == "quadratic-apart"
        return Quadratics.draw(learning.quadratic, apart, sizes, course)
    from .engine import Engine

    return Engine(
        *(material.network, material.data, material.partition, course),
        *(learning.evaluate_samples, threads, test),
    )


def course_of(scenario: Scenario, seed: int = 0) -> Course:
    """How the clients of a scenario learn in a round."""
    learning, plan = wanted(scenario), scenario.plan
    return Course(
        batch=scenario.task.batch_size,
        steps=None if plan.local_epochs else plan.local_steps,
        epochs=plan.local_epochs,
        rate=learning.rate,
        rate_decay=learning.rate_decay,
        momentum=learning.momentum,
        seed=seed,
    )


def wanted(scenario: Scenario) -> Learning:
    """The learning of a scenario that must have one."""
    if scenario.learning is None:
        raise BadInput("the scenario has no [learning]: say what is trained, see docs/training.md")
    return scenario.learning


def _settled(scenario: Scenario, sizes: np.ndarray, bits: float, cycles: float) -> Scenario:
    of_model = {"model_bits": bits, "cycles_per_sample": cycles, "samples_per_step": "batch"}
    left_out = {k: v for k, v in of_model.items() if getattr(scenario.task, k) is None}
    return scenario.using(task=left_out, clients={"sizes": np.asarray(sizes, float)})
