"""Prepare each scenario and seed of a sweep once, for its training and its prices."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from fedcell.core.errors import FedcellError
from fedcell.learning.data.dataset import Dataset, file_stamp, load_data
from fedcell.learning.setup import TrainingSetup, prepare_training
from fedcell.scenario.scenario import Scenario

from .training import Training


def prepare(training: Training, data_dir: Path | None = None) -> TrainingSetup:
    """Return the data, partition and network of a training; a dataset is read once a process."""
    scenario, data = training.scenario, None
    learning = scenario.learning
    if learning is not None and not learning.analytic:
        try:
            data = _load_once(learning.dataset, data_dir, file_stamp(learning.dataset))
        except FedcellError as error:
            raise error.within("learning.dataset") from error
    return prepare_training(scenario, training.seed, data_dir, data=data)


@dataclass(frozen=True)
class PreparedScenarios:
    """The scenarios of trainings with D_j of the partition, z_m and alpha_0 of the model."""

    data_dir: Path | None = None
    _scenarios: dict[Training, Scenario] = field(default_factory=dict, repr=False, compare=False)

    def add(self, training: Training, scenario: Scenario) -> None:
        """Keep the scenario that the worker of a training has prepared."""
        self._scenarios[training] = scenario

    def get(self, training: Training) -> Scenario:
        """Return the scenario of a training; prepare it here where no worker has."""
        if training not in self._scenarios:
            self._scenarios[training] = prepare(training, self.data_dir).scenario
        return self._scenarios[training]


@lru_cache(maxsize=2)
def _load_once(dataset: str, data_dir: Path | None, stamp: Hashable) -> Dataset:  # noqa: ARG001
    """Read a dataset once in a process, and again when `stamp` says that its files have changed."""
    return load_data(dataset, data_dir)
