"""The built-in learner: clients are trained by compiled kernels on several threads."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, check_count, stream
from fedcell.core.types import Array, Floats, Ints
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.evaluation import Part, Strata, subset_of_test, subset_of_training
from fedcell.learning.learner import BETA1, BETA2, EPSILON, LocalTraining, Scores, majority_of
from fedcell.learning.neural import NeuralNetwork, Workspace
from fedcell.learning.partition.make import Partition

EVALUATED = 64  # samples of a batch of evaluation
PIECE = 16 * EVALUATED  # samples that a thread evaluates at a time

T = TypeVar("T")
Item = TypeVar("Item")


def available_threads() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def vector_width() -> int:
    """Return the floats of a vector of this processor; it determines the rounding of sums."""
    from fedcell.learning.kernels.registers import LANES

    return LANES


class Engine:
    """Trains a network on partitioned data; results are the same with any number of threads.

    Parameters
    ----------
    network : NeuralNetwork
        The layers.
    data : Dataset
        Training and test samples.
    partition : Partition
        The training samples of each client.
    training : LocalTraining
        Batch size, steps or epochs, rate and optimiser.
    evaluate_samples : int
        Samples of each part on which models are evaluated.
    threads : int, optional
        Threads; all processors where left out.
    test : bool
        Whether models are evaluated on test data, too.
    """

    def __init__(
        self,
        network: NeuralNetwork,
        data: Dataset,
        partition: Partition,
        training: LocalTraining,
        evaluate_samples: int = 5000,
        threads: int | None = None,
        test: bool = True,
    ) -> None:
        _check_fit(network, data, partition)  # the kernels check nothing
        check_count(evaluate_samples, "learning.evaluate_samples")
        self.network, self.data, self.partition, self.training = network, data, partition, training
        self.threads = available_threads() if threads is None else check_count(threads, "`threads`")
        self._train = _flat(data.x_train), data.y_train  # with rows of pixels as the kernels read
        self._test = _flat(data.x_test), data.y_test
        width = data.image[1]
        self._standard = (
            _read_only(np.tile(data.scale, width)),
            _read_only(np.tile(data.shift, width)),
        )
        self._training_samples, self._weights = subset_of_training(
            partition, evaluate_samples, training.seed
        )
        chosen = subset_of_test(data.y_test.size, evaluate_samples, training.seed)
        self._test_samples = chosen if test else chosen[:0]
        self._majority = majority_of(data.y_test[self._test_samples])
        self._pool = ThreadPoolExecutor(self.threads, "fedcell")
        self._spaces: SimpleQueue[Workspace] = SimpleQueue()
        for _ in range(self.threads):
            largest = min(training.batch, int(partition.sizes.max()))
            self._spaces.put(Workspace(network, max(largest, EVALUATED)))

    @property
    def sizes(self) -> Ints:
        return self.partition.sizes

    def warm_up(self) -> None:
        """Compile the kernels, or load them if they were compiled on this machine before."""
        from fedcell.learning.kernels.sgd import evaluate

        none, floats = np.empty(0, np.int64), np.empty(0, np.float32)
        images, space = (*self._train, *self._standard), self._spaces.get()
        ends = space.layers, space.scratch
        try:
            self._steps(space, (*images, none, none), floats)
            evaluate(space.weights, *images, none, EVALUATED, floats, np.empty(0, np.bool_), *ends)
        except Exception as error:  # a cache that is damaged, settings that numba cannot use
            raise BadInput(
                f"the engine cannot be compiled or loaded ({type(error).__name__}: {error}): check "
                "the variables NUMBA_... of your environment, and delete NUMBA_CACHE_DIR or the "
                "__pycache__ of fedcell/learning/kernels"
            ) from error
        finally:
            self._spaces.put(space)

    def start(self) -> Floats:
        return self.network.start(stream(Purpose.MODEL, self.training.seed))

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        return self._in_order(lambda client: self._client(model, client, round), clients)

    def _client(self, model: Floats, client: int, round: int) -> Floats:
        """Train one client for a round: E_l steps on its samples from the global model (3)."""
        own = self.partition.of(client)
        order, sizes = self.training.batches(client, round, own.size)
        batches = *self._train, *self._standard, own[order], sizes
        space = self._spaces.get()
        try:
            space.weights[:] = model
            self._steps(space, batches, self.training.rates(round, sizes.size))
            return np.array(space.weights)
        finally:
            self._spaces.put(space)

    def _steps(self, space: Workspace, batches: tuple[Any, ...], rates: Floats) -> None:
        """Take the steps of a round with a new optimiser."""
        how, ends = self.training, (space.layers, space.scratch)
        space.velocity[:] = 0
        if how.optimiser == "sgd" and how.proximal == 0:
            from fedcell.learning.kernels.sgd import train

            train(space.weights, space.velocity, *batches, rates, np.float32(how.momentum), *ends)
            return
        from fedcell.learning.kernels.gradient import train as train_by_gradient

        adam = BETA1, BETA2, EPSILON if how.optimiser == "adam" else 0.0
        settings = tuple(map(np.float32, (how.proximal, how.momentum, *adam)))
        moments = np.zeros((3, space.weights.size), np.float32)
        moments[0] = space.weights
        begin = space.weights, space.velocity, moments
        train_by_gradient(*begin, *batches, rates, settings, *ends)

    def evaluate(self, model: Floats) -> Scores:
        scores = self.train_scores(model)
        return self.with_test_scores(model, scores) if self.test_samples else scores

    def train_scores(self, model: Floats) -> Scores:
        losses, _ = self._losses(model, *self._train, self._training_samples)
        return Scores(float((self._weights * losses).sum()))  # not @: BLAS sums by threads

    @property
    def test_samples(self) -> int:
        return self._test_samples.size

    def with_test_scores(self, model: Floats, scores: Scores) -> Scores:
        test, hits = self._losses(model, *self._test, self._test_samples)
        return Scores(scores.train_loss, float(test.mean()), float(hits.mean()), self._majority)

    @cached_property
    def _strata(self) -> dict[Part, Strata]:
        strata: dict[Part, Strata] = {}
        for number, (part, labels, places, weights) in enumerate(self._parts(), 2):
            rng = stream(Purpose.EVALUATION, self.training.seed, round=number)
            strata[part] = Strata.of(labels[places], weights, rng)
        return strata

    def _parts(self) -> Iterator[tuple[Part, Ints, Ints, Array]]:
        yield "train", self.data.y_train, self._training_samples, self._weights
        if count := self._test_samples.size:
            yield "test", self.data.y_test, self._test_samples, np.full(count, 1 / count)

    @property
    def parts(self) -> Sequence[Part]:
        return tuple(self._strata)

    def strata(self, part: Part) -> Strata:
        return self._strata[part]

    def judge(self, model: Floats, part: Part, places: Ints) -> tuple[Array, Array]:
        if part == "train":
            return self._losses(model, *self._train, self._training_samples[places])
        return self._losses(model, *self._test, self._test_samples[places])

    def client_losses(self, model: Floats, clients: Sequence[int]) -> Iterator[tuple[float, float]]:
        for client in clients:
            losses, _ = self._losses(model, *self._train, self.partition.of(client))
            yield float(losses.mean()), float(np.sqrt((losses * losses).mean()))

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        return self._in_order(lambda batch: self._gradient(model, *batch), batches)

    def _gradient(self, model: Floats, client: int, places: Ints | None) -> Floats:
        """Return a gradient: with momentum 1 and rate 0, training sums those of its batches."""
        from fedcell.learning.kernels.sgd import train

        own = self.partition.of(client)
        index = own if places is None else own[places]
        full = index.size // EVALUATED * EVALUATED
        images, rate, keep = (*self._train, *self._standard), np.zeros, np.float32(1)
        total = np.zeros(model.size)
        space = self._spaces.get()
        try:
            for part, size in ((index[:full], EVALUATED), (index[full:], index.size - full)):
                space.weights[:], space.velocity[:] = model, 0
                sizes = np.full(part.size // max(size, 1), size)
                start, ends = (space.weights, space.velocity), (space.layers, space.scratch)
                train(*start, *images, part, sizes, rate(sizes.size, np.float32), keep, *ends)
                total += size * space.velocity.astype(float)
        finally:
            self._spaces.put(space)
        return (total / index.size).astype(np.float32)

    def _losses(self, model: Floats, x: Any, y: Ints, index: Ints) -> tuple[Array, Array]:
        """Return each sample's loss, and 1 where it is classified correctly.

        The pieces do not depend on the number of threads; the caller sums them in order.
        """
        from fedcell.learning.kernels.sgd import evaluate

        losses, hits = np.empty(index.size, np.float32), np.empty(index.size, np.bool_)

        def piece(begin: int) -> None:
            some = slice(begin, begin + PIECE)
            space = self._spaces.get()
            try:
                space.weights[:] = model
                images = x, y, *self._standard
                results = losses[some], hits[some]
                ends = space.layers, space.scratch
                evaluate(space.weights, *images, index[some], EVALUATED, *results, *ends)
            finally:
                self._spaces.put(space)

        for _ in self._in_order(piece, range(0, index.size, PIECE)):
            pass
        return losses.astype(float), hits.astype(float)

    def _in_order(self, work: Callable[[Item], T], items: Iterable[Item]) -> Iterator[T]:
        """Yield results in the order of the items, with a bounded number in progress."""
        waiting: deque[Future[T]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > 2 * self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _check_fit(network: NeuralNetwork, data: Dataset, partition: Partition) -> None:
    index = partition.index
    if network.image != data.image:
        raise BadInput(f"the network is for images {network.image}, the data has {data.image}")
    if network.shapes[-1].outputs < data.classes:
        raise BadInput(
            f"the network tells {network.shapes[-1].outputs} classes apart, and there are "
            f"{data.classes}"
        )
    if index.size == 0 or index.max() >= data.y_train.size:
        raise BadInput("the partition is of other data, or deals none of it")


def _flat(images: Any) -> Any:
    """Return images as (sample, row, column * channel), a view."""
    return images.reshape(*images.shape[:2], -1)


def _read_only(values: Floats) -> Floats:
    values.flags.writeable = False  # as all data: the kernels are compiled for it
    return values
