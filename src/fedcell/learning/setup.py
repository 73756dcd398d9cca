"""From a scenario to what is trained: data, partition, model, learner."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadInput, FedcellError, FedcellWarning
from fedcell.core.streams import Purpose, spread_evenly, stream
from fedcell.core.types import Array, Ints
from fedcell.learning.partition.given import settle_owners
from fedcell.learning.partition.make import Partition, make_partition
from fedcell.learning.partition.plugins import plugin_fingerprint
from fedcell.scenario.learning import Learning
from fedcell.scenario.scenario import Scenario, check_scenario

from .data.dataset import Dataset, load_data
from .data.download import Report
from .learner import Differentiable, LocalTraining
from .neural import NeuralNetwork

MOST_SAMPLES = 10**9


@dataclass(frozen=True, eq=False)
class DealtData:
    """Data, who holds it, and the network that learns from it."""

    data: Dataset
    partition: Partition
    network: NeuralNetwork


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """What a scenario learns from."""

    scenario: Scenario  # with D_j of the partition, z_m and alpha_0 of the model
    seed: int
    dealt: DealtData | None = None  # None for quadratics, which need no data

    def __post_init__(self) -> None:
        """D_j drive time, energy and weight: they are those of who really holds the data."""
        sizes = self.scenario.clients.sizes
        if self.dealt is None or sizes is None:
            return
        if not np.array_equal(sizes.values, self.dealt.partition.sizes):
            raise BadInput(
                "the scenario has other D_j than the partition: give the `partition` to "
                "`prepare_training`"
            )

    @property
    def data(self) -> Dataset:
        """What is learnt from."""
        return self._dealt().data

    @property
    def partition(self) -> Partition:
        """Who holds which samples."""
        return self._dealt().partition

    @property
    def network(self) -> NeuralNetwork:
        """What is trained."""
        return self._dealt().network

    @property
    def fingerprint(self) -> str | None:
        """That of the data, and of who holds it where that is given: by which runs tell other
        data. None where there is none."""
        if self.dealt is None:
            return None
        kind = require_learning(self.scenario).partition.kind
        given = self.partition if kind == "given" else None
        return data_fingerprint(self.data.fingerprint, given, kind)

    @property
    def client_names(self) -> tuple[str, ...] | None:
        """What the clients are called, where the owners of the data or a table say so."""
        own = None if self.dealt is None else self.dealt.partition.names
        return own or self.scenario.clients.names

    @property
    def label_counts(self) -> Ints | None:
        """Samples of each class that each client holds, (client, class); None without data."""
        if self.dealt is None:
            return None
        return self.partition.label_counts(self.data.y_train, self.data.classes)

    def _dealt(self) -> DealtData:
        if self.dealt is None:
            raise BadInput("quadratics need no data: there is no partition to show")
        return self.dealt

    @property
    def local_training(self) -> LocalTraining:
        """How the clients learn in a round."""
        learning, plan = require_learning(self.scenario), self.scenario.plan
        return LocalTraining(
            batch=self.scenario.task.batch_size,
            steps=None if plan.local_epochs else plan.local_steps,
            epochs=plan.local_epochs,
            rate=learning.rate,
            rate_decay=learning.rate_decay,
            momentum=learning.momentum,
            seed=self.seed,
            optimiser=learning.optimiser,
            proximal=learning.proximal,
        )

    def learner(self, threads: int | None = None, test: bool = True) -> Differentiable:
        """The learner of the scenario, ours: the compiled engine, or quadratics.

        `threads` are all processors where left out; without `test` it does not judge models on
        test data.
        """
        learning, training = require_learning(self.scenario), self.local_training
        if self.dealt is None:
            from fedcell.learning.engines.quadratic import Quadratics

            sizes = self.scenario.clients.sizes.values.astype(np.int64)
            apart = learning.model == "quadratic-apart"
            return Quadratics.draw(learning.quadratic, apart, sizes, training)
        from fedcell.learning.engines.engine import Engine

        return Engine(
            *(self.dealt.network, self.dealt.data, self.dealt.partition, training),
            *(learning.evaluate_samples, threads, test),
        )

    def __repr__(self) -> str:
        if self.dealt is None:
            count, model = self.scenario.clients.count, require_learning(self.scenario).model
            return f"<TrainingSetup: {model} of {count} clients, seed {self.seed}>"
        parts = "".join(f"\n  {part}" for part in (self.data, self.partition, self.network))
        return f"<TrainingSetup, seed {self.seed}:{parts}\n>"


def prepare_training(
    scenario: Scenario,
    seed: int = 0,
    data_dir: Path | None = None,
    report: Report | None = None,
    data: Dataset | None = None,
    partition: Partition | None = None,
) -> TrainingSetup:
    """Data, its partition and the network, and the scenario that follows from them.

    What the task leaves out comes from the model; a local step is a batch (DECISIONS.md, 2).
    Published datasets lie in, or go to, `data_dir`; `report` hears of downloads; `data` of
    your own stands in place of learning.dataset, and a `partition` of your own
    (`Partition.of_owner`) in that of learning.partition.

    >>> from fedcell import load_scenario
    >>> setup = prepare_training(load_scenario("digits"))
    >>> int(setup.scenario.clients.sizes.values.sum()), setup.scenario.model_bits
    (1501, 117056.0)
    """
    learning = require_learning(scenario)
    if data is not None and not isinstance(data, Dataset):
        raise BadInput(f"`data` is a {type(data).__name__}: expected a Dataset")
    if partition is not None and not isinstance(partition, Partition):
        raise BadInput(f"`partition` is a {type(partition).__name__}: expected a Partition")
    if learning.analytic:
        sizes = _analytic_sizes(scenario, seed)
        bits, cycles = 32.0 * learning.quadratic.dimension, 3.0 * learning.quadratic.dimension
        return TrainingSetup(_with_model_costs(scenario, sizes, bits, cycles), seed)
    if data is None:
        try:
            data = load_data(learning.dataset, data_dir, report=report)
        except FedcellError as error:
            raise error.within("learning.dataset") from error
    network = NeuralNetwork.of(learning.architecture, data.image, data.classes)
    known = scenario.clients.sizes
    scenario, partition = settle_owners(
        scenario, learning, data.owner, len(data.y_train), partition
    )
    if partition is None:
        spec = learning.partition
        rng = stream(Purpose.PARTITION, seed if spec.seed is None else spec.seed)
        partition = make_partition(data.y_train, scenario.clients.count, spec, rng)
    else:
        for note in partition.notes:
            warnings.warn(note, FedcellWarning, stacklevel=2)
    if known is not None and not np.array_equal(known.values, partition.sizes):
        raise BadInput("clients.sizes are those of learning.partition: leave them out")
    sizes = np.asarray(partition.sizes, float)
    settled = _with_model_costs(scenario, sizes, network.bits, network.cycles)
    return TrainingSetup(settled, seed, DealtData(data, partition, network))


def data_fingerprint(of_data: str, given: Partition | None, kind: str | None = None) -> str:
    """Return the fingerprint of data, with that of a given partition or of a plugin's rule."""
    more = plugin_fingerprint(kind) if given is None else given.fingerprint
    return of_data if more is None else f"{of_data}-{more}"


def require_learning(scenario: Scenario) -> Learning:
    """The learning of a scenario that must have one."""
    learning = check_scenario(scenario).learning
    if learning is None:
        raise BadInput("the scenario has no [learning]: say what is trained, see docs/training.md")
    return learning


def _analytic_sizes(scenario: Scenario, seed: int) -> Array:
    """D_j of quadratics: those that are given, or drawn, in whole numbers."""
    clients = scenario.clients
    if clients.sizes is not None:
        sizes = clients.sizes.values
    else:
        var = 0.0 if clients.table is not None else clients.spread
        sizes = spread_evenly(clients.samples, var, Purpose.SAMPLES, seed, clients.count)
    sizes = np.maximum(1, np.rint(sizes))
    if sizes.max() > MOST_SAMPLES:
        raise BadInput(f"clients.samples: a client can learn from {MOST_SAMPLES:g} at most")
    return np.asarray(sizes)


def _with_model_costs(scenario: Scenario, sizes: Array, bits: float, cycles: float) -> Scenario:
    of_model = {"model_bits": bits, "cycles_per_sample": cycles, "samples_per_step": "batch"}
    left_out = {k: v for k, v in of_model.items() if getattr(scenario.task, k) is None}
    return scenario.using(task=left_out, clients={"sizes": sizes})
