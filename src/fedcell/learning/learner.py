"""The learner protocol: all that a run needs of the model that is trained.

Any framework can implement it; models are flat vectors of 32-bit floats. A learner keeps no state
between rounds: its results follow from its arguments and its seed, so that a run can be stopped and
resumed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, nan
from numbers import Real
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Floats, Ints
from fedcell.scenario.target import NAME, USUAL, Direction

FLAT = "expected a flat vector of finite 32-bit floats"
ACCURACY: dict[str, Direction] = {"accuracy": USUAL["accuracy"]}
# Columns of ledgers and of tables of runs, which no metric may be called.
RESERVED = frozenset(
    (
        *("policy", "round", "rounds", "seed", "duration", "energy", "upload_cost", "compute_cost"),
        *("staged_cost", "cost", "objective", "called", "draws", "received", "majority", "metrics"),
        *("excluded_by_channel", "excluded_by_data", "totals", "spending", "discarded_uploads"),
        *("train_loss", "loss", "test_loss", "better", "total_duration", "total_energy", "target"),
        *("checksum", "clients"),
        *("train_energy", "upload_energy", "download_energy", "wait_energy", "tail_energy"),
        *("vain_duration", "vain_energy"),
    )
)
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # of Adam, as in Kingma and Ba (2015) and PyTorch


@dataclass(frozen=True)
class Scores:
    """Losses, accuracy and other metrics of a model; NaN where not measured.

    Attributes
    ----------
    train_loss : float
        f(w) = sum_j q_j f_j(w), eq. (2); targets refer to it (DECISIONS.md, 3).
    test_loss : float
        Mean loss over the test samples.
    accuracy : float
        Share of the test samples that are classified correctly.
    majority : float
        Share of the most common class among the test samples: the accuracy of a constant answer.
    metrics : mapping of str to float
        Other metrics of the learner on the test samples, by name (`Measured`).
    """

    train_loss: float
    test_loss: float = float("nan")
    accuracy: float = float("nan")
    majority: float = float("nan")
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Have one NaN, which is equal to itself as an object: so equal scores are equal."""
        for name in ("train_loss", "test_loss", "accuracy", "majority"):
            if getattr(self, name) != getattr(self, name):
                object.__setattr__(self, name, nan)
        known = {name: nan if value != value else value for name, value in self.metrics.items()}
        object.__setattr__(self, "metrics", known)

    def of(self, column: str) -> float:
        """Return a score by the name of its column; NaN if it was not measured."""
        if column in ("train_loss", "test_loss", "accuracy"):
            return float(getattr(self, column))
        return float(self.metrics.get(column, nan))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as files hold them; without `metrics` where there are none."""
        values = asdict(self)
        if not self.metrics:
            del values["metrics"]
        return values

    @property
    def guesses(self) -> bool:
        """Whether the model is no more accurate than always predicting the most common class."""
        return self.accuracy <= self.majority


@runtime_checkable
class Learner(Protocol):
    """Trains models for the clients of a round. examples/4_own_learner.py implements one."""

    @property
    def sizes(self) -> Ints:
        """D_j, the number of samples of each client, array of int, (client,)."""
        ...

    def start(self) -> Floats:
        """Return the model before the first round.

        Returns
        -------
        array of float32, (parameter,)
            The same at each call.
        """
        ...

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        """Train the model on each of the clients, separately.

        Parameters
        ----------
        model : array of float32, (parameter,)
            The global model w at the start of the round; must not be changed.
        clients : sequence of int
            The clients to train, counted from 0.
        round : int
            The round, counted from 0; with the client it determines the random numbers.

        Yields
        ------
        array of float32, (parameter,)
            w_j after the local steps, in the order of `clients`.
        """
        ...

    def evaluate(self, model: Floats) -> Scores:
        """Return the losses of a model, and its accuracy if there are classes.

        Parameters
        ----------
        model : array of float32, (parameter,)
            The global model.
        """
        ...


@runtime_checkable
class Compiled(Learner, Protocol):
    """A learner with work to do before its first round, such as compiling."""

    def warm_up(self) -> None:
        """Prepare the learner; a second call does nothing."""
        ...


@runtime_checkable
class Differentiable(Learner, Protocol):
    """A learner that also returns gradients; needed only to measure the theory's constants.

    The built-in learners do.
    """

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        """Yield a gradient for each batch.

        Parameters
        ----------
        model : array of float32, (parameter,)
            The model at which gradients are taken.
        batches : iterable of (client, places)
            A client and indices into its own data; None for all of them, the gradient of f_j (1).

        Yields
        ------
        array of float32, (parameter,)
            The gradient of the mean loss over the batch.
        """
        ...


@runtime_checkable
class Judging(Learner, Protocol):
    """A learner that also evaluates a model on the samples of single clients; needed by selectors
    that read losses.

    The built-in learners do.
    """

    def client_losses(self, model: Floats, clients: Sequence[int]) -> Iterator[tuple[float, float]]:
        """Yield the mean loss over the samples of each client, and the root of their mean square.

        Parameters
        ----------
        model : array of float32, (parameter,)
            The global model.
        clients : sequence of int
            The clients, counted from 0.
        """
        ...


@runtime_checkable
class Buffered(Learner, Protocol):
    """A learner with untrained numbers at the end of its model, such as BatchNorm's running means.

    A server averages them; its optimizer steps with the others only.
    """

    @property
    def trained(self) -> int:
        """Number of trained parameters, which come first."""
        ...


@runtime_checkable
class Measured(Learner, Protocol):
    """A learner that says what it measures on test data. Others measure the accuracy."""

    @property
    def better(self) -> Mapping[str, Direction]:
        """The metrics of its `Scores` by name, and whether higher or lower values are better:
        "accuracy" where there is one, and those of `Scores.metrics`."""
        ...


@runtime_checkable
class Priced(Learner, Protocol):
    """A learner that knows what its model costs, where task.model_bits or task.cycles_per_sample
    are left out."""

    @property
    def model_bits(self) -> float:
        """z_m: size of an upload [bit]."""
        ...

    @property
    def cycles_per_sample(self) -> float | None:
        """alpha_0: cycles of a training step for one sample; None if that is not known."""
        ...


@runtime_checkable
class Stateful(Learner, Protocol):
    """A learner whose clients remember something from one of their rounds to the next.

    `train` changes the memory of the clients that it trains; a run keeps it with the model, and
    gives it back to resume.
    """

    @property
    def memory(self) -> Mapping[int, Any]:
        """What clients remember, arrays of uint8 by client; new objects wherever it changes."""
        ...

    def remember(self, memory: Mapping[int, Any]) -> None:
        """Take over what clients remember; those that are not in it remember nothing."""
        ...


@runtime_checkable
class Remote(Learner, Protocol):
    """A learner with remote clients, such as the devices of a real federation.

    An upload may be lost: `train` yields None in its place.
    """

    def missing(self, round: int) -> Sequence[int]:
        """Return the clients of a round, counted from 0, with expected but lost uploads."""
        ...


@runtime_checkable
class KnownOptimum(Learner, Protocol):
    """A learner with a known minimum of the loss, f*."""

    @property
    def least_loss(self) -> float:
        """f*, the minimum of the loss (2)."""
        ...


def first_model(learner: Learner) -> Floats:
    """Return the model before the first round; refuse anything but a finite flat vector."""
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
    """Return the scores of a model; refuse values out of range. NaN means that it diverged."""
    scores = learner.evaluate(model)
    if not isinstance(scores, Scores):
        raise BadInput(f"the learner evaluates to a {type(scores).__name__}: expected Scores")
    values, metrics = asdict(scores), dict(scores.metrics)
    del values["metrics"]
    wanted = own_metrics(learner)
    if set(metrics) != set(wanted):
        raise BadInput(
            f"the learner evaluates to the metrics {', '.join(metrics) or 'none'}: expected those "
            f"that its `better` names ({', '.join(wanted) or 'none'})"
        )
    diverged = not isinstance(scores.train_loss, Real) or not isfinite(scores.train_loss)
    for name, value in metrics.items():
        if diverged and isinstance(value, Real) and abs(float(value)) == inf:
            metrics[name] = nan  # it overflows as the loss does, by which a run has diverged
        elif not isinstance(value, Real) or abs(float(value)) == inf:
            raise BadInput(f"the learner evaluates to {name} = {value!r}: expected a number")
    for name, value in values.items():
        most = inf if name.endswith("loss") else 1.0
        if not isinstance(value, Real) or float(value) < 0 or float(value) > most:
            least = "a number from 0" + (" to 1" if most == 1 else "")
            raise BadInput(f"the learner evaluates to {name} = {value!r}: expected {least}")
    measured = {name: float(metrics[name]) for name in wanted}
    return Scores(**{name: float(value) for name, value in values.items()}, metrics=measured)


def measured_by(learner: Learner) -> dict[str, Direction]:
    """Return what a learner measures on test data, and which values are better."""
    if not isinstance(learner, Measured):
        return dict(ACCURACY)
    return check_metrics(learner.better)


def check_metrics(given: Mapping[str, Direction]) -> dict[str, Direction]:
    """Return metrics by name with their directions; refuse names that no metric may have."""
    better = dict(given)
    for name, each in better.items():
        if name in RESERVED or not NAME.fullmatch(name):
            raise BadInput(
                f"the learner has a metric {name!r}: give it another name, of letters, digits, _, "
                "- and ."
            )
        if each not in get_args(Direction):
            raise BadInput(
                f"the learner has {name} values better {each!r}: expected higher or lower"
            )
        if USUAL.get(name, each) != each:
            raise BadInput(
                f"the learner has {each} values of {name} as the better ones: of {name}, "
                f"{USUAL[name]} values are better"
            )
    return better


def own_metrics(learner: Learner) -> dict[str, Direction]:
    """Return the metrics of a learner beside losses and accuracy, and their directions."""
    return {name: each for name, each in measured_by(learner).items() if name not in USUAL}


def majority_of(labels: Ints) -> float:
    """Return the share of the most common class; NaN with fewer than two classes."""
    counts = np.unique(labels, return_counts=True)[1]
    return float(counts.max() / counts.sum()) if counts.size > 1 else nan


def warm_up(learner: Learner) -> None:
    """Prepare a learner if it has a `warm_up` method."""
    if isinstance(learner, Compiled):
        learner.warm_up()


@dataclass(frozen=True)
class LocalTraining:
    """Local training of one client in one round.

    The state of an optimiser begins at zero in each round: clients keep nothing between rounds
    (DECISIONS.md, 59).

    Attributes
    ----------
    batch : int
        Samples of a step.
    steps : int or None
        E_l, the number of steps; or
    epochs : int or None
        the number of passes over the client's data. Exactly one of both is given.
    rate : float
        eta of the first step.
    rate_decay : float
        eta_t = rate / (1 + rate_decay t).
    momentum : float
        Momentum of SGD.
    seed : int
        Seed of the batches.
    optimiser : {"sgd", "adam"}
        The rule of a step.
    proximal : float
        mu of FedProx, the pull back to the model of the round.
    """

    batch: int
    steps: int | None
    epochs: int | None
    rate: float
    rate_decay: float = 0.0
    momentum: float = 0.0
    seed: int = 0
    optimiser: Literal["sgd", "adam"] = "sgd"
    proximal: float = 0.0

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
        """Return the batch sizes of a round for a client with `samples` samples.

        The last batch of a pass is smaller where `batch` does not divide `samples`.
        """
        if samples < 1:
            raise BadInput("a client without samples cannot train: do not call it")
        each = -(-samples // self.batch)  # batches of a pass
        batch = np.arange(self.steps or each * (self.epochs or 1))
        last = samples - (each - 1) * self.batch
        return np.where(batch % each == each - 1, last, self.batch)

    def batches(self, client: int, round: int, samples: int) -> tuple[Ints, Ints]:
        """Return indices into the client's data, batch after batch, and the batch sizes.

        Each pass is shuffled again. Batches depend on seed, client and round only, so all learners
        that call this use the same ones.
        """
        rng, sizes = stream(Purpose.BATCHES, self.seed, client, round), self.sizes(samples)
        passes = -(-int(sizes.sum()) // samples)
        order = np.concatenate([rng.permutation(samples) for _ in range(passes)])
        return order[: sizes.sum()], sizes

    def rates(self, round: int, steps: int) -> Floats:
        """Return eta_t of the steps of a round: constant, or falling as 1/t."""
        t = round * steps + np.arange(steps)
        return (self.rate / (1 + self.rate_decay * t)).astype(np.float32)
