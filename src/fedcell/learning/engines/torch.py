"""Train any PyTorch module (the extra `torch`).

The same seed gives the clients the same batches as in the compiled engine.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Floats, Ints
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.evaluation import subset_of_test, subset_of_training
from fedcell.learning.learner import BETA1, BETA2, EPSILON, LocalTraining, Scores, majority_of
from fedcell.learning.partition.make import Partition

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.modules.batchnorm import _BatchNorm
except ImportError as error:  # pragma: no cover
    raise BadInput("TorchLearner needs PyTorch: pip install 'fedcell[torch]'") from error

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, labels) -> loss of each sample


def sample_losses(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of each sample."""
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


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


@contextmanager
def _naming_single_samples(client: int, size: int) -> Iterator[None]:
    """Explain what to do where a module cannot be trained on a batch of one."""
    try:
        yield
    except ValueError as error:
        if size > 1:
            raise
        raise BadInput(
            f"client {client} trains on a batch of one sample, which the module refuses ({error}): "
            "leave clients with a single sample out (clients.min_samples = 2), and let "
            "task.batch_size be 3 at least"
        ) from error


class TorchLearner:
    """Trains a PyTorch module on each client, one after the other, with SGD or Adam.

    A model is the vector of the module's parameters and floating-point buffers. BatchNorm cannot
    train on a batch of one: with it, a last batch of one takes a sample of the batch before
    (`without_single_samples`).

    Parameters
    ----------
    module : torch.nn.Module
        The network; its weights are the first model.
    train, test : tuple of Tensor
        Samples and labels, a sample in each row; `tensors` makes them from a Dataset.
    partition : Partition
        The training samples of each client.
    training : LocalTraining
        Batch size, steps or epochs, rate and optimiser.
    evaluate_samples : int
        Samples of each part on which models are evaluated.
    loss : callable
        From outputs and labels to a loss for each sample.
    """

    def __init__(
        self,
        module: nn.Module,
        train: tuple[Tensor, Tensor],
        test: tuple[Tensor, Tensor],
        partition: Partition,
        training: LocalTraining,
        evaluate_samples: int = 5000,
        loss: Loss = sample_losses,
    ) -> None:
        if len(train[0]) != len(train[1]) or len(train[0]) <= partition.index.max():
            raise BadInput(f"the partition deals {partition.index.size} of {len(train[0])} samples")
        self.module, self.loss, self.training = module, loss, training
        self.train_data, self.test_data, self.partition = train, test, partition
        samples, weights = subset_of_training(partition, evaluate_samples, training.seed)
        self._training_samples = torch.tensor(samples)
        self._weights = torch.from_numpy(weights)
        self._test_samples = torch.from_numpy(
            subset_of_test(len(test[1]), evaluate_samples, training.seed)
        )
        self._majority = majority_of(test[1][self._test_samples].cpu().numpy())
        self._first = self._vector()
        self._needs_two = any(isinstance(m, _BatchNorm) for m in module.modules())
        self._counts = [b.clone() for b in module.buffers() if not b.is_floating_point()]

    @property
    def sizes(self) -> Ints:
        return self.partition.sizes

    @property
    def trained(self) -> int:
        return sum(p.numel() for p in self.module.parameters())

    def start(self) -> Floats:
        return self._first.copy()

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        for client in clients:
            seed = stream(Purpose.NOISE, self.training.seed, client, round).integers(2**63)
            with torch.random.fork_rng():  # what the module draws, as in dropout, depends on
                torch.manual_seed(int(seed))  # client and round alone
                yield self._client(model, client, round)

    def _client(self, model: Floats, client: int, round: int) -> Floats:
        x, y = self.train_data
        own = self.partition.of(client)
        order, sizes = self.training.batches(client, round, own.size)
        if self._needs_two:
            sizes = without_single_samples(sizes)
        rates = self.training.rates(round, sizes.size).tolist()
        self._load(model)
        self.module.train()
        parameters = list(self.module.parameters())
        first = [p.detach().clone() for p in parameters] if self.training.proximal else []
        optimiser = self._optimiser(parameters)
        for index, rate in zip(np.split(own[order], sizes.cumsum()[:-1]), rates, strict=True):
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            some = torch.from_numpy(index)
            with _naming_single_samples(client, index.size):
                outputs = self.module(x[some])
            self.loss(outputs, y[some]).mean().backward()  # type: ignore[no-untyped-call]
            for p, begun in zip(parameters, first, strict=bool(first)):
                if p.grad is not None:
                    p.grad.add_(p.detach() - begun, alpha=self.training.proximal)
            optimiser.step()  # (3)
        return self._vector()

    def _optimiser(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Return a new optimiser without state."""
        how = self.training
        if how.optimiser == "adam":
            return torch.optim.Adam(parameters, how.rate, (BETA1, BETA2), EPSILON)
        return torch.optim.SGD(parameters, how.rate, how.momentum)

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        """Yield gradients in evaluation mode, without dropout; those of buffers are 0."""
        x, y = self.train_data
        for client, places in batches:
            self._load(model)
            self.module.eval()
            self.module.zero_grad()
            own = self.partition.of(client)
            some = torch.tensor(own if places is None else own[places])
            self.loss(self.module(x[some]), y[some]).mean().backward()  # type: ignore[no-untyped-call]
            parameters = list(self.module.parameters())
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            gradients += [torch.zeros_like(b) for b in self._tensors()[len(parameters) :]]
            flat = [gradient.reshape(-1).float().cpu() for gradient in gradients]
            yield torch.cat(flat).numpy().copy()

    @torch.no_grad()
    def evaluate(self, model: Floats) -> Scores:
        self._load(model)
        self.module.eval()
        losses, _ = self._score(*self.train_data, self._training_samples)
        test, hits = self._score(*self.test_data, self._test_samples)
        train_loss = float((self._weights * losses).sum())
        return Scores(train_loss, float(test.mean()), float(hits.mean()), self._majority)

    def _score(self, x: Tensor, y: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        losses, hits = [], []
        for some in index.split(1000):
            outputs = self.module(x[some])
            each = self.loss(outputs, y[some]).double().cpu()
            if each.shape != some.shape:
                raise BadInput("the loss gives one number for many samples: give one for each")
            losses.append(each)
            hits.append((outputs.argmax(-1) == y[some]).double().cpu())
        return torch.cat(losses), torch.cat(hits)

    def _tensors(self) -> list[Tensor]:
        return travelling(self.module)

    def _vector(self) -> Floats:
        flat = [tensor.detach().reshape(-1).float().cpu() for tensor in self._tensors()]
        vector: Floats = torch.cat(flat).numpy().copy()
        return vector

    def _load(self, model: Floats) -> None:
        load_weights(self.module, model)
        counts = (b for b in self.module.buffers() if not b.is_floating_point())
        for count, first in zip(counts, self._counts, strict=True):
            count.copy_(first)


def travelling(module: nn.Module) -> list[Tensor]:
    """Return the tensors of a model: parameters, then floating-point buffers."""
    buffers = [b for b in module.buffers() if b.is_floating_point()]
    return [*(p.data for p in module.parameters()), *buffers]


def load_weights(module: nn.Module, weights: Floats) -> None:
    """Load a model, such as `load_model(folder).weights`, into its module."""
    into = travelling(module)
    sizes = [tensor.numel() for tensor in into]
    if np.shape(weights) != (sum(sizes),):
        raise BadInput(f"the module has {sum(sizes)} numbers, and the model {np.shape(weights)}")
    for tensor, part in zip(into, torch.tensor(weights).split(sizes), strict=True):
        tensor.copy_(part.reshape(tensor.shape))


def tensors(x: Any, y: Ints, data: Dataset) -> tuple[Tensor, Tensor]:
    """Return standardised images as (sample, channel, row, column), and their labels."""
    images = np.asarray(x, np.float32) * data.scale + data.shift
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.tensor(y)
