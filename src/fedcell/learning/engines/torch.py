"""Train any PyTorch module (the extra `torch`).

The same seed gives the clients the same batches as in the compiled engine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import nan
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Floats, Ints
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.evaluation import subset_of_test, subset_of_training
from fedcell.learning.learner import LocalTraining, Scores, majority_of
from fedcell.learning.partition.make import Partition
from fedcell.scenario.target import USUAL, Direction

from .engine import available_threads

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.modules.batchnorm import _BatchNorm
except ImportError as error:  # pragma: no cover
    raise BadInput("TorchLearner needs PyTorch: pip install 'fedcell[torch]'") from error

from .torch_costs import (
    SMALL_STEP,
    Forecast,
    Probe,
    probe,
    seeded,
    state_bytes,
    threads_of,
    timed,
)
from .torch_local import LocalOptimizer, LocalSteps, Memory, as_optimizer, usual_optimizer
from .torch_parts import Travelling, load_weights, travelling
from .torch_tasks import (
    FAILURES,
    Loss,
    Samples,
    as_metrics,
    classifies,
    count_of,
    each_sample,
    hits,
    metric_of_all,
    metric_values,
    refused_batch,
    sample_losses,
    unreduced,
)

__all__ = ["TorchLearner", "load_weights", "tensors", "travelling", "without_single_samples"]
PROBED = 2  # samples of the pass that counts cycles
PIECE, SMALL_PIECE = 1000, 100  # samples that are evaluated at a time, of small and large modules
SMALL_MODULE = 2_000_000  # weights
# Multiply-adds of a round, and weights, below which no run is large (`Forecast.large`).
LITTLE_WORK, FEW_NUMBERS = 1e10, 10_000_000


def without_single_samples(sizes: Ints) -> Ints:
    """Return batch sizes in which a batch of one takes a sample of the batch before, if possible.

    The numbers of steps and samples do not change, so a round costs the same.

    >>> without_single_samples(np.array([10, 10, 1, 10, 10])).tolist()
    [10, 9, 2, 10, 10]
    """
    before = np.roll(sizes, 1)
    (single,) = np.nonzero((sizes == 1) & (before > 2) & (np.arange(sizes.size) > 0))
    evened = sizes.copy()
    evened[single] += 1
    evened[single - 1] -= 1
    return evened


def _refused_single_sample(client: int, error: Exception) -> BadInput:
    """Return what to do where a module cannot be trained on a batch of one."""
    return BadInput(
        f"client {client} trains on a batch of one sample, which the module refuses ({error}): "
        "leave clients with a single sample out (clients.min_samples = 2), and let "
        "task.batch_size be 3 at least"
    )


class TorchLearner:
    """Trains a PyTorch module on each client, one after the other.

    A model is the vector of the parameters that train and of the buffers that training changes;
    everything else stays on the devices. Parts of a module that are in evaluation mode stay in it;
    a module that is so as a whole is put into training mode. BatchNorm cannot train on a batch of
    one: with it, a last batch of one takes a sample of the batch before
    (`without_single_samples`). `learner_from_torch` makes one from a scenario.

    Parameters
    ----------
    module : torch.nn.Module
        The network; its weights are the first model.
    train, test : tuple of Tensor, or torch Dataset
        Samples and labels, a sample in each row (`TorchData`); `test` may be None.
    partition : Partition
        The training samples of each client.
    training : LocalTraining
        Batch size, steps or epochs, rate and optimiser.
    evaluate_samples : int
        Samples of each part on which models are evaluated.
    loss : callable
        From outputs and labels to a loss for each sample.
    metrics : mapping, optional
        Metrics on test data by name: `Metric`, or (function, "lower" or "higher").
    optimizer : callable or LocalOptimizer, optional
        Default: that of `training`.
    """

    def __init__(
        self,
        module: nn.Module,
        train: Any,
        test: Any,
        partition: Partition,
        training: LocalTraining,
        evaluate_samples: int = 5000,
        loss: Loss = sample_losses,
        metrics: Mapping[str, Any] | None = None,
        optimizer: LocalOptimizer | Callable[[list[Any]], Any] | None = None,
    ) -> None:
        if not isinstance(module, nn.Module):
            raise BadInput(f"the module is a {type(module).__name__}: expected a torch.nn.Module")
        self.train_data = Samples.of(train)
        self.test_data = None if test is None else Samples.of(test)
        if len(self.train_data) <= partition.index.max():
            raise BadInput(
                f"the partition deals {partition.index.size} of {len(self.train_data)} samples"
            )
        self.module, self.training, self.partition = module, training, partition
        self.loss, self.classifies = unreduced(loss), classifies(loss)
        self.metrics = as_metrics(metrics)
        self.optimizer = as_optimizer(optimizer, training)
        self.transform: Callable[[Any], Any] | None = None
        self.threads: int | None = None  # None: by the size of a step
        self._kept = [m for m in module.modules() if not m.training] if module.training else []
        samples, weights = subset_of_training(partition, evaluate_samples, training.seed)
        self._training_samples = torch.tensor(samples)
        self._weights = torch.from_numpy(weights)
        tested = 0 if self.test_data is None else len(self.test_data)
        self._test_samples = torch.from_numpy(
            subset_of_test(tested, evaluate_samples, training.seed)
        )
        self._majority = self._majority_class()
        self._needs_two = any(isinstance(m, _BatchNorm) for m in module.modules())
        self._probe = self._probed()
        self.parts = Travelling(module, self._probe.changed)
        self._first = self.parts.vector()
        self._memory: dict[int, Memory] = {}

    @property
    def sizes(self) -> Ints:
        return self.partition.sizes

    @property
    def trained(self) -> int:
        return self.parts.trained

    @property
    def better(self) -> dict[str, Direction]:
        measured = {"accuracy": USUAL["accuracy"]} if self.measures_accuracy else {}
        return measured | {name: metric.better for name, metric in self.metrics.items()}

    @property
    def measures_accuracy(self) -> bool:
        """Whether samples have one class each, and the loss is one of classification."""
        samples = self.train_data if self.test_data is None else self.test_data
        return self.classifies and samples.classes is not None and "accuracy" not in self.metrics

    @property
    def model_bits(self) -> float:
        """z_m: an upload of what trains, as 32-bit floats [bit]."""
        return 32.0 * self.parts.size

    @property
    def cycles_per_sample(self) -> float | None:
        """alpha_0: multiply-adds of a training step for one sample, at one a cycle; None if they
        could not be counted."""
        return self._probe.cycles

    @cached_property
    def frozen_digest(self) -> str | None:
        """Short checksum of the weights that stay on the devices; None if there are none."""
        return self.parts.frozen_digest()

    def start(self) -> Floats:
        return self._first.copy()

    @property
    def memory(self) -> Mapping[int, Memory]:
        """What clients remember of their rounds (`Stateful`)."""
        return self._memory

    def remember(self, memory: Mapping[int, Memory]) -> None:
        """Take over what clients remember."""
        self._memory = dict(memory)

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        for client in clients:
            seed = stream(Purpose.NOISE, self.training.seed, client, round).integers(2**63)
            # What the module draws, as in dropout, depends on client and round alone.
            with seeded(self.module, int(seed)), threads_of(self._threads()):
                upload = self._client(model, client, round)
            yield upload

    def _client(self, model: Floats, client: int, round: int) -> Floats:
        own = self.partition.of(client)
        order, sizes = self.training.batches(client, round, own.size)
        if self._needs_two:
            sizes = without_single_samples(sizes)
        rates = self.training.rates(round, sizes.size).tolist()
        self.parts.load(model)
        self._training_mode()
        steps = self._steps(self._memory.get(client))
        batches = self.train_data.batches(own[order], sizes)
        checked = False  # the shape of the loss, at the first batch
        for (x, y), size, rate in zip(batches, sizes.tolist(), rates, strict=True):
            steps.set_rate(rate)
            steps.zero()
            try:
                self._batch_loss(x, y, checked).backward()  # type: ignore[no-untyped-call]
            except FAILURES as error:
                if isinstance(error, BadInput):
                    raise
                if size == 1 and isinstance(error, ValueError):
                    raise _refused_single_sample(client, error) from error
                raise refused_batch(size, error) from error
            steps.step()  # (3)
            checked = True
        if self.optimizer is not None and self.optimizer.keep_state:
            self._memory = {**self._memory, client: steps.memory()}
        return self.parts.vector()

    def _steps(self, memory: Memory | None = None) -> LocalSteps:
        return LocalSteps(self.parts.parameters, self.training, self.optimizer, memory, self._usual)

    @cached_property
    def _usual(self) -> torch.optim.Optimizer | None:
        """The optimiser of [learning], which is made once and forgets in each round."""
        if self.optimizer is not None:
            return None
        return usual_optimizer(self.parts.parameters, self.training)

    def _batch_loss(self, x: Any, y: Any, checked: bool = False) -> Tensor:
        """Return the mean loss of a batch in training."""
        outputs = self.module(x if self.transform is None else self.transform(x))
        if checked and self.loss is sample_losses:
            return nn.functional.cross_entropy(outputs, y)  # the same mean in fewer operations
        losses = self.loss(outputs, y)
        # All samples have as many values, so the mean of all is that of their means.
        return (losses if checked else each_sample(losses, outputs, y)).mean()

    def _training_mode(self) -> None:
        self.module.train()
        for part in self._kept:
            part.eval()

    def _threads(self) -> int:
        if self.threads is not None:
            return self.threads
        cycles = self._probe.cycles
        small = cycles is not None and cycles * self.training.batch < SMALL_STEP
        return 1 if small else available_threads()

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        """Yield gradients in evaluation mode, without dropout; those of buffers are 0."""
        for client, places in batches:
            self.parts.load(model)
            self.module.eval()
            self.module.zero_grad()
            own = self.partition.of(client)
            x, y = self.train_data.read(torch.tensor(own if places is None else own[places]))
            outputs = self.module(x)
            loss = each_sample(self.loss(outputs, y), outputs, y).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            parameters = self.parts.parameters
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            gradients += [torch.zeros_like(b) for b in self.parts.buffers.values()]
            flat = [gradient.reshape(-1).float().cpu() for gradient in gradients]
            yield torch.cat(flat).numpy().copy()

    @torch.no_grad()
    def evaluate(self, model: Floats) -> Scores:
        self.parts.load(model)
        self.module.eval()
        with threads_of(self._threads()):
            losses = [self._losses(x, y)[0] for x, y in self._pieces(self.train_data, "train")]
            train_loss = float((self._weights * torch.cat(losses)).sum())
            return self._tested(train_loss)

    @torch.no_grad()
    def client_losses(self, model: Floats, clients: Sequence[int]) -> Iterator[tuple[float, float]]:
        for client in clients:
            self.parts.load(model)
            self.module.eval()
            own = torch.as_tensor(self.partition.of(client))
            with threads_of(self._threads()):
                pieces = (self.train_data.read(some) for some in own.split(SMALL_PIECE))
                losses = torch.cat([self._losses(x, y)[0] for x, y in pieces])
            yield float(losses.mean()), float(losses.square().mean().sqrt())

    def _tested(self, train_loss: float) -> Scores:
        """Return all scores of the module as it is, with a known training loss."""
        if self.test_data is None:
            return Scores(train_loss, metrics=dict.fromkeys(self._own_metrics, nan))
        losses, shares = [], []
        values: dict[str, list[Any]] = {name: [] for name in self.metrics}
        for x, y in self._pieces(self.test_data, "test"):
            each, outputs = self._losses(x, y)
            losses.append(each)
            if self.measures_accuracy:
                shares.append(hits(outputs, y).cpu())
            for name, metric in self.metrics.items():
                values[name].append(
                    (outputs, y) if metric.whole else metric_values(name, metric, outputs, y)
                )
        scores = {
            name: metric_of_all(name, self.metrics[name], parts) for name, parts in values.items()
        }
        accuracy = float(torch.cat(shares).mean()) if shares else scores.pop("accuracy", nan)
        return Scores(
            train_loss, float(torch.cat(losses).mean()), accuracy, self._majority, metrics=scores
        )

    @property
    def _own_metrics(self) -> list[str]:
        return [name for name in self.metrics if name != "accuracy"]

    def _pieces(self, samples: Samples, part: str) -> Iterator[tuple[Any, Any]]:
        """Yield the samples that models are evaluated on, some at a time."""
        index = self._training_samples if part == "train" else self._test_samples
        weights = sum(p.numel() for p in self.module.parameters())
        for some in index.split(PIECE if weights <= SMALL_MODULE else SMALL_PIECE):
            yield samples.read(some)

    def _losses(self, x: Any, y: Any) -> tuple[Tensor, Any]:
        """Return the loss of each sample, and the outputs."""
        try:
            outputs = self.module(x)
            return each_sample(self.loss(outputs, y), outputs, y).double().cpu(), outputs
        except FAILURES as error:
            if isinstance(error, BadInput):
                raise
            raise refused_batch(count_of(y), error) from error

    def _majority_class(self) -> float:
        """Return the share of the most common class; NaN without classes."""
        if self.test_data is None or not self.measures_accuracy or not len(self._test_samples):
            return nan
        classes = self.test_data.classes
        return nan if classes is None else majority_of(classes[self._test_samples.numpy()])

    def _probed(self) -> Probe:
        """Return what a pass over a few training samples shows."""
        some = torch.from_numpy(self.partition.index[:PROBED].copy())
        modes = [(part, part.training) for part in self.module.modules()]
        for last in (True, False):  # a module that views images as vectors refuses the first
            self._training_mode()
            for samples in filter(None, (self.train_data, self.test_data)):
                samples.channels_last = last
            x, y = self.train_data.read(some)
            found = probe(self.module, len(some), partial(self._batch_loss, x, y))
            if found.cycles is not None:
                break
        for part, mode in modes:
            part.training = mode
        if isinstance(found.failed, BadInput):
            raise found.failed
        # Of a single sample, which BatchNorm refuses, training says what is wrong with it.
        if found.failed is not None and len(some) == PROBED:
            raise refused_batch(PROBED, found.failed) from found.failed
        return found

    def forecast(self, cohort: int) -> Forecast:
        """Return what a run with this number of clients a round takes on this machine; one local
        step is measured."""
        client = int(np.argmax(self.sizes))
        own = self.partition.of(client)
        order, sizes = self.training.batches(client, 0, own.size)
        x, y = self.train_data.read(torch.from_numpy(own[order[: sizes[0]]]))
        self.parts.load(self._first)
        self._training_mode()
        steps = self._steps()

        def step() -> None:
            steps.zero()
            self._batch_loss(x, y).backward()  # type: ignore[no-untyped-call]
            steps.step()

        with torch.random.fork_rng(devices=[]), threads_of(self._threads()):
            seconds = timed(step)
        self.parts.load(self._first)
        self.module.zero_grad()
        numbers = sum(p.numel() for p in self.module.parameters())
        weights = sum(p.numel() * p.element_size() for p in self.module.parameters())
        keeps = self.optimizer is not None and self.optimizer.keep_state
        each = state_bytes(steps.optimiser)
        states = float(each * len(self.sizes)) if keeps else 0.0
        travels = 4.0 * self.parts.size
        return Forecast(
            seconds=seconds * sizes.size * cohort,
            memory=weights + each + 6 * travels + states,  # gradient, models, mean, uploads
            checkpoint=2 * travels,  # the last model and the average
            states=states,
            numbers=numbers,
        )

    def forecast_if_large(self, cohort: int) -> Forecast | None:
        """Return a forecast if a run is large; small ones are known by their work, and nothing is
        measured."""
        sizes = self.training.sizes(int(self.sizes.max()))
        work = (self.cycles_per_sample or 0.0) * float(sizes.sum()) * cohort
        numbers = sum(p.numel() for p in self.module.parameters())
        if work < LITTLE_WORK and numbers < FEW_NUMBERS:
            return None
        forecast = self.forecast(cohort)
        return forecast if forecast.large else None

    def full_state(self, model: Floats) -> dict[str, Tensor]:
        """Return the state_dict of the whole module with a model in it."""
        self.parts.load(model)
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}


def tensors(x: Any, y: Ints, data: Dataset) -> tuple[Tensor, Tensor]:
    """Return standardised images as (sample, channel, row, column), and their labels."""
    images = np.asarray(x, np.float32) * data.scale + data.shift
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.tensor(y)
