"""Tasks of PyTorch modules: samples, losses and metrics of any kind (the extra `torch`)."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Ints
from fedcell.scenario.target import Direction

try:
    import torch
    from torch import Tensor, nn
    from torch.utils._pytree import tree_map
    from torch.utils.data import default_collate
except ImportError as error:  # pragma: no cover
    raise BadInput("TorchLearner needs PyTorch: pip install 'fedcell[torch]'") from error

Loss = Callable[[Any, Any], Tensor]  # (outputs, labels) -> loss of each sample
GATHERED = 2**26  # [byte] of samples that are put in the order of a round at once


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric on test data.

    Parameters
    ----------
    fn : callable
        From outputs and labels to a value for each sample; further dimensions are averaged.
    better : {"higher", "lower"}
        Which values are better.
    whole : bool
        The function gives one number for all test samples at once, which is no mean over samples,
        such as an F1 score: it is called with all of their outputs.

    Examples
    --------
    >>> Metric(lambda outputs, y: (outputs - y).abs(), "lower").better
    'lower'
    """

    fn: Callable[[Any, Any], Any]
    better: Direction
    whole: bool = False


@dataclass(frozen=True, eq=False)
class TorchData:
    """Training and test samples of a PyTorch module.

    Parameters
    ----------
    train : tuple of samples and labels, or torch Dataset
        Tensors or arrays with a sample in each row; samples may also be a tuple or a dictionary of
        them. Or any object with a length whose items are (sample, label), or a batch of them for a
        list of places by `__getitems__`, already collated if `collate` is None.
    test : the same, optional
        Test samples; without them only the training loss is known.
    owners : sequence of str or int, optional
        The client of each training sample, by name or by number; -1 or "" for none. Where left
        out, learning.partition deals the samples.
    transform : callable, optional
        From the samples of a training batch to others, such as a random crop. What it draws from
        torch depends on client and round alone.
    collate : callable, optional
        From a list of items of a torch Dataset to a batch.

    Examples
    --------
    >>> x, y = np.zeros((4, 2)), np.zeros((4, 1))
    >>> TorchData((x, y), owners=["ann", "bob", "ann", "bob"])
    <TorchData: 4 training samples, 0 test samples>
    """

    train: Any
    test: Any = None
    owners: Sequence[Any] | None = None
    transform: Callable[[Any], Any] | None = None
    collate: Callable[[list[Any]], Any] | None = default_collate

    def __repr__(self) -> str:
        counts = [
            0 if part is None else len(self.samples(part)) for part in (self.train, self.test)
        ]
        return f"<TorchData: {counts[0]} training samples, {counts[1]} test samples>"

    def samples(self, part: Any) -> "Samples":
        """Return samples that can be read by their places."""
        made: Samples = Samples.of(part, self.collate)
        return made


class Samples:
    """Samples and labels that are read by their places."""

    def __init__(self, count: int, read: Callable[[Tensor], tuple[Any, Any]], labels: Any) -> None:
        self._count, self._read, self.labels = count, read, labels
        self.channels_last = False  # of images, which convolutions on a processor are faster with
        self.gathers = False  # whether reading many samples at once is cheap

    def __len__(self) -> int:
        return self._count

    @classmethod
    def of(cls, given: Any, collate: Callable[[list[Any]], Any] | None = default_collate) -> Any:
        """Return samples of a pair (samples, labels) or of a torch Dataset."""
        if isinstance(given, Samples):
            return given
        if isinstance(given, tuple | list) and len(given) == 2:
            return cls._of_pair(tree_map(_tensor, given[0]), tree_map(_tensor, given[1]))
        if not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
            raise BadInput(
                f"the data is a {type(given).__name__}: expected (samples, labels), or a torch "
                "Dataset with a length (of a DataLoader its dataset)"
            )

        def read(places: Tensor) -> tuple[Any, Any]:
            wanted = places.tolist()
            if hasattr(given, "__getitems__"):
                items = given.__getitems__(wanted)
            else:
                items = [given[place] for place in wanted]
            x, y = items if collate is None else collate(items)
            return x, y

        return cls(len(given), read, getattr(given, "targets", None))

    @classmethod
    def _of_pair(cls, x: Any, y: Any) -> "Samples":
        counts = {len(leaf) for leaf in _leaves((x, y))}
        if len(counts) != 1:
            raise BadInput(f"samples and labels differ in number: {sorted(counts)}")

        def read(places: Tensor) -> tuple[Any, Any]:
            picked: tuple[Any, Any] = tree_map(lambda values: values[places], (x, y))
            return picked

        samples = cls(counts.pop(), read, y if isinstance(y, Tensor) else None)
        each = sum(leaf[:1].numel() * leaf.element_size() for leaf in _leaves((x, y)))
        samples.gathers, samples.bytes = True, each
        return samples

    bytes = 0  # of a sample with its label

    def read(self, places: Tensor) -> tuple[Any, Any]:
        """Return the samples at these places, and their labels."""
        x, y = self._read(places)
        images = isinstance(x, Tensor) and x.ndim == 4 and x.is_floating_point()
        if self.channels_last and images:
            x = _channels_last(x)
        return x, y

    @property
    def classes(self) -> Ints | None:
        """The labels as classes; None where they are not one whole number for each sample."""
        if self.labels is None:
            return None
        labels = np.asarray(self.labels)
        return labels if labels.ndim == 1 and labels.dtype.kind in "iu" else None

    def batches(self, order: Ints, sizes: Ints) -> Any:
        """Yield the batches of a round: `order` has their places, one batch after the other."""
        ends = np.r_[0, sizes.cumsum()].tolist()
        if self.gathers and order.size * self.bytes <= GATHERED:
            every = self.read(torch.from_numpy(order))
            if isinstance(every[0], Tensor) and isinstance(every[1], Tensor):
                lengths = sizes.tolist()
                parts = (torch.split(values, lengths) for values in every)
                yield from zip(*parts, strict=True)
                return
            for first, last in pairwise(ends):
                yield tree_map(lambda values, a=first, b=last: values[a:b], every)
            return
        for first, last in pairwise(ends):
            yield self.read(torch.from_numpy(order[first:last]))


def _tensor(values: Any) -> Tensor:
    """Return values as a tensor; 64-bit floats as 32-bit ones, which modules compute with."""
    tensor = torch.as_tensor(values)
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _channels_last(x: Tensor) -> Tensor:
    """Return images with the strides of channels last, also where there is one channel."""
    channels, height, width = x.shape[1:]
    strides = (height * width * channels, 1, width * channels, channels)
    return x.contiguous(memory_format=torch.channels_last).as_strided(x.shape, strides)


def _leaves(tree: Any) -> list[Tensor]:
    found: list[Tensor] = []
    tree_map(found.append, tree)
    return found


def count_of(labels: Any) -> int:
    """Return the number of samples of a batch."""
    return len(labels) if isinstance(labels, Tensor) else len(_leaves(labels)[0])


def sample_losses(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of each sample."""
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def hits(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return 1 for each sample that is classified correctly, else 0."""
    return (outputs.argmax(-1) == labels).double()


def unreduced(loss: Loss) -> Loss:
    """Return a loss module of torch.nn as one that gives a value for each sample."""
    if isinstance(loss, type) or not callable(loss):
        raise BadInput(
            f"a loss or metric is {loss!r}: expected a function of outputs and labels, or a loss "
            "module, as nn.MSELoss()"
        )
    if isinstance(loss, nn.Module) and hasattr(loss, "reduction"):
        if getattr(loss, "weight", None) is not None:
            raise BadInput(
                "a loss with weights of classes is no mean over samples: give a function of "
                "outputs and labels to a loss for each sample"
            )
        each = copy.copy(loss)
        setattr(each, "reduction", "none")  # noqa: B010
        return each
    return loss


def each_sample(values: Any, outputs: Any, labels: Any, what: str = "the loss") -> Tensor:
    """Return a value for each sample of a batch, the mean over further dimensions; refuse values
    that are none."""
    count = count_of(labels)
    if not isinstance(values, Tensor) or values.ndim == 0 or values.shape[0] != count:
        given = "one number" if isinstance(values, float) else type(values).__name__
        if isinstance(values, Tensor):
            given = f"shape {tuple(values.shape)}" if values.ndim else "one number"
        raise BadInput(f"{what} gives {given} for {count} samples: give one for each")
    shapes = [t.shape for t in (outputs, labels) if isinstance(t, Tensor)]
    if shapes and values.numel() > max(shape.numel() for shape in shapes) and values.ndim > 1:
        raise BadInput(
            f"{what} has shape {tuple(values.shape)} for "
            f"{' and '.join(str(tuple(shape)) for shape in shapes)}: outputs and labels were "
            "broadcast; give labels the shape of the outputs (y[:, None])"
        )
    return values.flatten(1).mean(1) if values.ndim > 1 else values


# What a module, a loss or a metric raises where it does not fit the samples.
FAILURES = (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError)


def refused_batch(count: int, error: Exception) -> BadInput:
    """Return what is wrong with a module or a loss that fails on a batch."""
    reason = str(error).partition("\n")[0] or type(error).__name__
    return BadInput(
        f"the module or its loss fails on {count} samples ({reason}): check what the module takes, "
        "what it returns and the shape of the labels"
    )


def metric_values(name: str, metric: Metric, outputs: Any, y: Any) -> Tensor:
    """Return a metric of each sample of a batch."""
    values = metric.fn(outputs, y)
    return each_sample(values, outputs, y, f"the metric {name}").double().cpu()


def metric_of_all(name: str, metric: Metric, parts: list[Any]) -> float:
    """Return a metric on all test samples from its batches."""
    if not metric.whole:
        return float(torch.cat(parts).mean())
    outputs, labels = (
        tree_map(lambda *each: torch.cat(each), *column) for column in zip(*parts, strict=True)
    )
    value = metric.fn(outputs, labels)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        what = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
        raise BadInput(
            f"the metric {name} is one of all samples at once, and gives {what}: give one number"
        ) from error


def as_metrics(given: Mapping[str, Any] | None) -> dict[str, Metric]:
    """Return metrics by name, of `Metric` or (fn, direction)."""
    metrics = {}
    for name, value in (given or {}).items():
        metric = Metric(*value) if isinstance(value, tuple) and len(value) in (2, 3) else value
        if not isinstance(metric, Metric) or not callable(metric.fn):
            raise BadInput(
                f'the metric {name} is {value!r}: expected (function, "lower"), or a Metric'
            )
        metrics[name] = metric if metric.whole else replace(metric, fn=unreduced(metric.fn))
    return metrics


def classifies(loss: Loss) -> bool:
    """Return whether a loss is one of classification, so that there is an accuracy."""
    return loss is sample_losses or isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss)
