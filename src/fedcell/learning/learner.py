"""What a learner is: all that a run asks of whatever is trained. It knows nothing of radios.

Bring your own framework by writing these three methods; models travel as flat vectors of
32-bit floats. A learner keeps no state between rounds: what it does follows from its
arguments and its seed, so that a run can be cut and resumed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf, nan
from numbers import Real
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Floats, Ints

FLAT = "expected a flat vector of finite 32-bit floats"
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # of Adam, as Kingma and Ba (2015) and PyTorch have them


@dataclass(frozen=True)
class Scores:
    """What is measured on a model; NaN where there is nothing to measure."""

    train_loss: float  # (2): sum_j q_j f_j(w), what targets are judged on (DECISIONS.md, 3)
    test_loss: float = float("nan")
    accuracy: float = float("nan")  # share of the test samples whose class is found
    majority: float = float("nan")  # share of these samples that are of the most common class

    @property
    def guesses(self) -> bool:
        """Whether a model finds no more classes than one that always answers with the most
        common."""
        return self.accuracy <= self.majority


@runtime_checkable
class Learner(Protocol):
    """Trains models for the clients of a round. examples/4_own_learner.py writes one."""

    @property
    def sizes(self) -> Ints:
        """D_j of every client."""
        ...

    def start(self) -> Floats:
        """The model before the first round."""
        ...

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        """What each of the clients makes of the model, in the order given."""
        ...

    def evaluate(self, model: Floats) -> Scores:
        """What the model is worth: losses, and accuracy if there are classes."""
        ...


@runtime_checkable
class Compiled(Learner, Protocol):
    """A learner that has something to do before its first round, as compiling."""

    def warm_up(self) -> None:
        """Makes the learner ready; what it has done before is not done again."""
        ...


@runtime_checkable
class Differentiable(Learner, Protocol):
    """A learner that also shows its gradients, from which the constants of the theory are
    measured. Ours do; nothing else asks for it."""

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        """The gradient of the mean loss for each (client, places in its data); of its whole
        loss f_j (1) where the places are None."""
        ...


@runtime_checkable
class Buffered(Learner, Protocol):
    """A learner whose model ends in numbers that are not trained, as the running means of
    BatchNorm: a server averages them, and takes its steps with the others alone."""

    @property
    def trained(self) -> int:
        """How many numbers, from the first on, are trained."""
        ...


@runtime_checkable
class Remote(Learner, Protocol):
    """A learner whose clients are elsewhere, as the devices of a real federation: an upload may
    fail to come, and `train` gives None in its place."""

    def missing(self, round: int) -> Sequence[int]:
        """The clients of a round, counted from 0, whose uploads were expected and did not come."""
        ...


@runtime_checkable
class KnownOptimum(Learner, Protocol):
    """A learner whose least loss f* is known."""

    @property
    def least_loss(self) -> float:
        """f*, the least that the loss (2) can be."""
        ...


def first_model(learner: Learner) -> Floats:
    """The model before the first round, if it is one."""
    given = learner.start()
    try:
        model = np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(f"the learner starts with a {type(given).__name__}: {FLAT}") from error
    if model.ndim != 1 or not model.size or not np.isfinite(model).all():
        what = f"an array of shape {model.shape}" if model.ndim != 1 else "numbers out of range"
        raise BadInput(f"the learner starts with {what}: {FLAT}")
    return model


def evaluated(learner: Learner, model: Floats) -> Scores:
    """What a model is worth, if a learner gives it as it should; NaN is for what blew up."""
    scores = learner.evaluate(model)
    if not isinstance(scores, Scores):
        raise BadInput(f"the learner evaluates to a {type(scores).__name__}: expected Scores")
    values = asdict(scores)
    for name, value in values.items():
        most = inf if name.endswith("loss") else 1.0
        if not isinstance(value, Real) or float(value) < 0 or float(value) > most:
            least = "a number from 0" + (" to 1" if most == 1 else "")
            raise BadInput(f"the learner evaluates to {name} = {value!r}: expected {least}")
    return Scores(**{name: float(value) for name, value in values.items()})


def majority_of(labels: Ints) -> float:
    """The share of the most common class; NaN where there are fewer than two classes, for then no
    model finds more than a constant answer does."""
    counts = np.unique(labels, return_counts=True)[1]
    return float(counts.max() / counts.sum()) if counts.size > 1 else nan


def warm_up(learner: Learner) -> None:
    """Makes a learner ready, if it has something to do for that."""
    if isinstance(learner, Compiled):
        learner.warm_up()


@dataclass(frozen=True)
class LocalTraining:
    """What one client does in one round: batch size, steps or epochs, optimiser.

    Whatever an optimiser remembers begins at zero in each round: clients keep nothing between
    rounds (DECISIONS.md, 59).
    """

    batch: int  # samples of a step
    steps: int | None  # E_l, or
    epochs: int | None  # passes over its own data
    rate: float  # eta of the first step
    rate_decay: float = 0.0
    momentum: float = 0.0
    seed: int = 0
    optimiser: Literal["sgd", "adam"] = "sgd"
    proximal: float = 0.0  # mu of FedProx, the pull back to the model of the round

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise BadInput("local training has either steps or epochs: give one of them")
        if min(self.batch, self.steps or self.epochs or 0) < 1 or not self.rate > 0:
            raise BadInput(f"{self}: batch, steps or epochs are at least 1, the rate above 0")
        if self.optimiser not in ("sgd", "adam") or (self.optimiser == "adam" and self.momentum):
            raise BadInput(f"{self}: the optimiser is sgd, with a momentum or without, or adam")
        if not 0 <= self.proximal < inf:
            raise BadInput(f"{self}: proximal is a number from 0")

    def sizes(self, samples: int) -> Ints:
        """The batches of a round, for a client with so many samples: the last of each pass is
        short where the batch size does not divide the data."""
        if samples < 1:
            raise BadInput("a client without samples cannot train: it is not to be called")
        each = -(-samples // self.batch)  # batches of a pass
        batch = np.arange(self.steps or each * (self.epochs or 1))
        last = samples - (each - 1) * self.batch
        return np.where(batch % each == each - 1, last, self.batch)

    def batches(self, client: int, round: int, samples: int) -> tuple[Ints, Ints]:
        """Places in the client's own data, batch after batch, and the sizes of the batches.

        Each pass is shuffled anew. They depend on client and round alone, so every learner
        that asks here sees the same ones.
        """
        rng, sizes = stream(Purpose.BATCHES, self.seed, client, round), self.sizes(samples)
        passes = -(-int(sizes.sum()) // samples)
        order = np.concatenate([rng.permutation(samples) for _ in range(passes)])
        return order[: sizes.sum()], sizes

    def rates(self, round: int, steps: int) -> Floats:
        """eta_t of the steps of a round: constant, or falling as 1/t."""
        t = round * steps + np.arange(steps)
        return (self.rate / (1 + self.rate_decay * t)).astype(np.float32)
