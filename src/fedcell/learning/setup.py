"""Prepare the training of a scenario: data, partition, network and learner."""

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

MAX_SAMPLES = 10**9  # of a client


@dataclass(frozen=True, eq=False)
class DealtData:
    """Data, its partition over the clients, and the network that is trained on it."""

    data: Dataset
    partition: Partition
    network: NeuralNetwork


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """A scenario that is ready to train. `prepare_training` makes one.

    Attributes
    ----------
    scenario : Scenario
        With D_j of the partition, and z_m and alpha_0 of the model.
    seed : int
        Seed of the partition and of the training.
    dealt : DealtData or None
        Data, partition and network; None for quadratics, which need no data.
    """

    scenario: Scenario
    seed: int
    dealt: DealtData | None = None

    def __post_init__(self) -> None:
        """Refuse D_j other than those of the partition: time, energy and weights follow them."""
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
        """The dataset."""
        return self._dealt().data

    @property
    def partition(self) -> Partition:
        """The samples of each client."""
        return self._dealt().partition

    @property
    def network(self) -> NeuralNetwork:
        """The network that is trained."""
        return self._dealt().network

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the data, and of a given partition; None without data.

        Runs with another fingerprint are other runs.
        """
        if self.dealt is None:
            return None
        kind = require_learning(self.scenario).partition.kind
        given = self.partition if kind == "given" else None
        return data_fingerprint(self.data.fingerprint, given, kind)

    @property
    def client_names(self) -> tuple[str, ...] | None:
        """Names of the clients, from the owners of the data or from clients.table."""
        own = None if self.dealt is None else self.dealt.partition.names
        return own or self.scenario.clients.names

    @property
    def label_counts(self) -> Ints | None:
        """Samples of each class of each client, (client, class); None without data."""
        if self.dealt is None:
            return None
        return self.partition.label_counts(self.data.y_train, self.data.classes)

    def _dealt(self) -> DealtData:
        if self.dealt is None:
            raise BadInput("quadratics need no data: there is no partition to show")
        return self.dealt

    @property
    def local_training(self) -> LocalTraining:
        """The local training of a client in one round."""
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
        """Return the built-in learner of the scenario: the compiled engine, or quadratics.

        Parameters
        ----------
        threads : int, optional
            Threads of the engine; all processors where left out.
        test : bool
            Whether models are evaluated on test data, too.
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
    """Load the data of a scenario, partition it and build its network.

    The model gives what the task leaves out, z_m and alpha_0; a local step is a batch
    (DECISIONS.md, 2).

    Parameters
    ----------
    scenario : Scenario
        With a [learning] table.
    seed : int
        Seed of the partition and of the training.
    data_dir : Path, optional
        The folder of published datasets; missing files are downloaded into it.
    report : callable, optional
        Called with file, bytes so far and bytes in total during downloads.
    data : Dataset, optional
        Your data, in place of learning.dataset.
    partition : Partition, optional
        Your partition (`Partition.of_owner`), in place of learning.partition.

    Returns
    -------
    TrainingSetup
        Its scenario has D_j, z_m and alpha_0.

    Raises
    ------
    BadInput
        If the scenario has no [learning], or data and partition do not fit it.
    DataUnavailable
        If a dataset cannot be downloaded.

    Examples
    --------
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
    """Return the [learning] table of a scenario; refuse a scenario without one."""
    learning = check_scenario(scenario).learning
    if learning is None:
        raise BadInput(
            "the scenario has no [learning]: say what is trained, see docs/how-to/data.md"
        )
    return learning


def _analytic_sizes(scenario: Scenario, seed: int) -> Array:
    """Return D_j of quadratics, given or drawn, rounded to whole numbers."""
    clients = scenario.clients
    if clients.sizes is not None:
        sizes = clients.sizes.values
    else:
        var = 0.0 if clients.table is not None else clients.spread
        sizes = spread_evenly(clients.samples, var, Purpose.SAMPLES, seed, clients.count)
    sizes = np.maximum(1, np.rint(sizes))
    if sizes.max() > MAX_SAMPLES:
        raise BadInput(f"clients.samples: a client can learn from {MAX_SAMPLES:g} at most")
    return np.asarray(sizes)


def _with_model_costs(scenario: Scenario, sizes: Array, bits: float, cycles: float) -> Scenario:
    of_model = {"model_bits": bits, "cycles_per_sample": cycles, "samples_per_step": "batch"}
    left_out = {k: v for k, v in of_model.items() if getattr(scenario.task, k) is None}
    return scenario.using(task=left_out, clients={"sizes": sizes})
