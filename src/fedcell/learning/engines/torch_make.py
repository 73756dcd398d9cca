"""Make a learner of a PyTorch module from a scenario (the extra `torch`)."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.streams import Purpose, stream
from fedcell.learning.data.dataset import Dataset, load_data
from fedcell.learning.data.owners import as_owner
from fedcell.learning.learner import LocalTraining
from fedcell.learning.partition.given import settle_owners
from fedcell.learning.partition.make import Partition, make_partition
from fedcell.scenario.learning import Learning
from fedcell.scenario.scenario import Scenario, check_scenario

from .torch import TorchLearner, tensors
from .torch_local import LocalOptimizer
from .torch_tasks import Loss, Samples, TorchData, sample_losses


def learner_from_torch(
    module: Any,
    data: Any,
    scenario: Scenario,
    seed: int = 0,
    *,
    loss: Loss = sample_losses,
    metrics: Mapping[str, Any] | None = None,
    optimizer: LocalOptimizer | Callable[[list[Any]], Any] | None = None,
    threads: int | None = None,
) -> TorchLearner:
    """Return a learner that trains a PyTorch module as a scenario declares.

    Clients, batch size, steps or epochs, rate, FedProx and the samples of evaluations come from the
    scenario. What trains travels: parameters with requires_grad, and buffers that training changes.

    Parameters
    ----------
    module : torch.nn.Module
        The network; its weights are the first model.
    data : TorchData, Dataset, tuple or None
        Samples, labels and owners. Also a pair (samples, labels) for training alone, a pair of such
        pairs for training and test, or a Dataset of fedcell; None: learning.dataset.
    scenario : Scenario
        The scenario; without [learning] its defaults are used.
    seed : int, optional
        Seed of the partition and of the batches.
    loss : callable, optional
        From outputs and labels to a loss for each sample, or a loss module of torch.nn. Default:
        cross-entropy.
    metrics : mapping, optional
        Metrics on test data by name: (function, "lower" or "higher"), or `Metric`.
    optimizer : callable or LocalOptimizer, optional
        From the parameters to an optimiser of torch; `LocalOptimizer` also has a scheduler,
        clipping, and memory that clients keep. Default: learning.optimiser and learning.rate.
    threads : int, optional
        Threads; default: one for small steps, else all processors.

    Returns
    -------
    TorchLearner

    Raises
    ------
    BadInput
        If module, data and scenario do not fit each other.

    Examples
    --------
    >>> import torch
    >>> from fedcell import Scenario
    >>> scenario = Scenario().using(clients={"count": 2}, plan={"cohort": 1})
    >>> x = torch.arange(20.0).reshape(10, 2)
    >>> learner = learner_from_torch(
    ...     torch.nn.Linear(2, 1), TorchData((x, x.sum(1, keepdim=True)), owners=["a", "b"] * 5),
    ...     scenario, loss=torch.nn.MSELoss(), metrics={"mae": (torch.nn.L1Loss(), "lower")},
    ... )
    >>> learner.sizes.tolist(), learner.model_bits
    ([5, 5], 96.0)
    """
    learning = check_scenario(scenario).learning or Learning()
    given = _torch_data(data, learning)
    train = given.samples(given.train)
    if not len(train):
        raise BadInput("there are no training samples: give at least one for each client")
    owner = None if given.owners is None else as_owner(given.owners, len(train))
    settled, partition = settle_owners(scenario, learning, owner, len(train))
    if partition is None:
        partition = _dealt(train, settled, learning, seed)
    for note in partition.notes:
        warnings.warn(note, FedcellWarning, stacklevel=2)
    plan = scenario.plan
    learner = TorchLearner(
        module,
        train,
        None if given.test is None else given.samples(given.test),
        partition,
        LocalTraining(
            batch=scenario.task.batch_size,
            steps=None if plan.local_epochs else plan.local_steps,
            epochs=plan.local_epochs,
            rate=learning.rate,
            rate_decay=learning.rate_decay,
            momentum=learning.momentum,
            seed=seed,
            optimiser=learning.optimiser,
            proximal=learning.proximal,
        ),
        learning.evaluate_samples,
        loss,
        metrics,
        optimizer,
    )
    learner.transform, learner.threads = given.transform, threads
    return learner


def _torch_data(data: Any, learning: Learning) -> TorchData:
    """Return data in any form as TorchData."""
    if isinstance(data, TorchData):
        return data
    if data is None:
        data = load_data(learning.dataset)
    if isinstance(data, Dataset):
        train = tensors(data.x_train, data.y_train, data)
        test = tensors(data.x_test, data.y_test, data) if len(data.y_test) else None
        owners: Any = data.owner
        return TorchData(train, test, owners)
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], tuple | list):
        return TorchData(data[0], data[1])
    return TorchData(data)


def _dealt(train: Samples, scenario: Scenario, learning: Learning, seed: int) -> Partition:
    """Return the partition of learning.partition; samples without classes are dealt as of one."""
    spec, classes = learning.partition, train.classes
    if classes is None:
        if spec.kind not in (None, "iid"):
            raise BadInput(
                f"learning.partition.kind = {spec.kind!r} deals by classes, and the labels are not "
                'one whole number for each sample: give owners, or take kind = "iid"'
            )
        classes = np.zeros(len(train), np.int64)
    rng = stream(Purpose.PARTITION, seed if spec.seed is None else spec.seed)
    return make_partition(classes, scenario.clients.count, spec, rng)
