"""The learning of a scenario: data, model, optimiser and target (Sections II-A and V-A)."""

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from fedcell.core.errors import UNPRINTABLE, BadInput
from fedcell.core.schema import (
    Count,
    Doc,
    Fraction,
    NotNegative,
    Positive,
    Table,
    Text,
    Whole,
    documented,
    unused_options,
)

from .partition import PartitionSpec
from .target import HOLD, Target

QUADRATICS = ("quadratic-common", "quadratic-apart")
DATASETS = ("digits", "mnist", "fashion-mnist", "cifar10")  # known by name, not by a path
Deliver = Literal["last", "average"]
DELIVER: Deliver = "average"  # also without a [learning] table
HOLDS: dict[Deliver, int] = {  # a noisy loss dips below a target long before it stays there
    "last": 5,
    "average": HOLD,  # already smooth
}
MOVING = ["momentum", "adam", "yogi"]  # servers that do more than averaging
USERS = {  # options that only some optimisers or servers use
    "momentum": ("optimiser", ["sgd"]),
    "server_rate": ("server", MOVING),
    "server_momentum": ("server", MOVING),
    "server_beta2": ("server", ["adam", "yogi"]),
    "server_tau": ("server", ["adam", "yogi"]),
}


@documented
class Conv(Table, frozen=True, kw_only=True):
    """A convolution with stride 1, then 2 x 2 max pooling, then ReLU."""

    table_name: ClassVar[str] = "learning.layers.convs"

    channels: Annotated[Count, Doc("of its output")]
    kernel: Annotated[Count, Doc("pixels on a side")] = 5
    padding: Annotated[Whole, Doc("zeros on each side")] = 0


@documented
class Layers(Table, frozen=True, kw_only=True):
    """Convolutions, then hidden dense layers with ReLU, then one output for each class."""

    table_name: ClassVar[str] = "learning.layers"

    convs: Annotated[tuple[Conv, ...], Doc("convolutions, each with 2 x 2 pooling and ReLU")] = ()
    hidden: Annotated[tuple[Count, ...], Doc("widths of the hidden dense layers")] = ()


MODELS = {
    "cnn-small": Layers(convs=(Conv(channels=10), Conv(channels=20)), hidden=(50,)),
    "cnn-mcmahan": Layers(  # the CNN of McMahan et al. (2017)
        convs=(Conv(channels=32, padding=2), Conv(channels=64, padding=2)), hidden=(512,)
    ),
    "mlp": Layers(hidden=(200, 200)),  # the 2NN of the same paper
    "logistic": Layers(),
}


@documented
class Quadratic(Table, frozen=True, kw_only=True):
    """f_j(w) = c_j |w - h_j|^2 / 2 with noisy gradients (DECISIONS.md, 17)."""

    table_name: ClassVar[str] = "learning.quadratic"

    dimension: Annotated[Count, Doc("of w")] = 20
    curvature_min: Annotated[Positive, Doc("c_j are spread evenly from here", "mu_j")] = 0.5
    curvature_max: Annotated[Positive, Doc("to here", "L")] = 2.0
    distance: Annotated[Positive, Doc("of the h_j from the origin, for quadratic-apart")] = 1.0
    noise: Annotated[
        NotNegative,
        Doc("of a gradient of one sample, standard deviation per coordinate"),
    ] = 0.1

    def faults(self) -> list[str]:
        if self.curvature_min > self.curvature_max:
            return [f"curvature_min = {self.curvature_min:g} is above curvature_max"]
        return []


@documented
class Learning(Table, frozen=True, kw_only=True):
    """Data, its partition, the model and local SGD. The batch is task.batch_size.

    >>> Learning(dataset="mnist", model="cnn-small", target=0.3).architecture.hidden
    (50,)
    """

    table_name: ClassVar[str] = "learning"

    dataset: Annotated[
        Text,
        Doc(
            "digits, mnist, fashion-mnist, cifar10, or your own: the path of an .npz, or of a "
            "folder with an .npz for each client"
        ),
    ] = "digits"
    partition: Annotated[PartitionSpec, Doc("which client holds which samples")] = PartitionSpec()
    model: Annotated[
        Literal[
            "cnn-small", "cnn-mcmahan", "mlp", "logistic", "quadratic-common", "quadratic-apart"
        ],
        Doc("the built-in model that is trained; your own learner: `--learner`"),
    ] = "mlp"
    layers: Annotated[Layers | None, Doc("a network of your own, instead of model")] = None
    quadratic: Annotated[Quadratic, Doc("what quadratic clients are like")] = Quadratic()
    rate: Annotated[Positive, Doc("learning rate of the first step", "eta")] = 0.1
    rate_decay: Annotated[
        NotNegative,
        Doc("above 0: eta_t = rate / (1 + rate_decay t), t in local steps"),
    ] = 0.0
    optimiser: Annotated[
        Literal["sgd", "adam"],
        Doc("of the local steps; its state is reset in each round (DECISIONS.md, 59)"),
    ] = "sgd"
    momentum: Annotated[Fraction, Doc('for "sgd": of the steps, reset in each round')] = 0.0
    proximal: Annotated[
        NotNegative,
        Doc("of FedProx: adds mu (w - the model of the round) to each gradient", "mu"),
    ] = 0.0
    aggregation: Annotated[
        Literal["unbiased", "mean", "normalised"] | None,
        Doc(
            'how uploads are averaged: "normalised" or "unbiased" (4); with weighted selection '
            '"mean" (28) (DECISIONS.md, 13)',
            example='"normalised"',
        ),
    ] = None
    server: Annotated[
        Literal["average", "momentum", "adam", "yogi"],
        Doc(
            "how the server uses the mean of the uploads: as the next model, or as a direction for "
            "a step of its own (DECISIONS.md, 60)"
        ),
    ] = "average"
    server_rate: Annotated[
        Positive | None,
        Doc("of the server's step; where left out, 1 with momentum, else 0.01", example="0.03"),
    ] = None
    server_momentum: Annotated[
        Fraction, Doc('decay rate of earlier directions (beta_1 of "adam" and "yogi")')
    ] = 0.9
    server_beta2: Annotated[Fraction, Doc('for "adam" and "yogi": decay rate of their squares')] = (
        0.99
    )
    server_tau: Annotated[
        Positive, Doc('for "adam" and "yogi": the smaller, the more each weight has its own rate')
    ] = 1e-3
    target: Annotated[
        Positive | None, Doc("training loss (2) at which a run may stop", example="0.2")
    ] = None
    target_accuracy: Annotated[
        Annotated[float, Meta(gt=0, le=1, description="a number above 0, at most 1")] | None,
        Doc("accuracy on test data at which a run may stop, instead of a loss", example="0.9"),
    ] = None
    target_metric: Annotated[
        Text | None,
        Doc("metric of your own learner at whose level a run may stop", example='"mae"'),
    ] = None
    target_level: Annotated[
        float | None,
        Doc("level of target_metric; the learner says which side is better", example="0.2"),
    ] = None
    deliver: Annotated[
        Deliver,
        Doc(
            "which model is evaluated, stopped on, saved and exported: the last one, or an average "
            "of the last ones, over more rounds the longer the run (DECISIONS.md, 74)"
        ),
    ] = DELIVER
    hold: Annotated[
        Count | None,
        Doc(
            "moving average over this many evaluated rounds must reach the target; 1: the paper's "
            'first passage; where left out, 1 with deliver = "average", else 5',
            example="5",
        ),
    ] = None
    evaluate_every: Annotated[Count, Doc("rounds between two evaluations")] = 1
    evaluate_samples: Annotated[
        Count, Doc("samples to evaluate on, about: a fixed part of training and of test data")
    ] = 5000

    def faults(self) -> list[str]:
        faults = unused_options(self, USERS)
        if UNPRINTABLE.search(self.dataset):
            faults.append(
                f"dataset = {self.dataset!r}: the path holds a character that cannot be shown: "
                "rename the file or its folder"
            )
        if self.target is not None and self.target_accuracy is not None:
            faults.append("target and target_accuracy: a run stops at one of them, leave one out")
        faults += self._metric_faults()
        if self.partition.owners is not None and self.analytic:
            faults.append("partition.owners: quadratics need no data, leave it out")
        if self.target_accuracy is not None and self.analytic:
            faults.append("target_accuracy: quadratics have no test data, give target")
        return faults

    def _metric_faults(self) -> list[str]:
        """Return what is wrong with target_metric and target_level."""
        if self.target_metric is None and self.target_level is None:
            return []
        if self.target_metric is None or self.target_level is None:
            return ["target_metric and target_level: give both, or neither"]
        faults = []
        if self.target is not None or self.target_accuracy is not None:
            faults.append("target_metric: a run stops at one target, leave the other out")
        if self.analytic:
            faults.append("target_metric: quadratics have no test data, give target")
        try:
            Target(metric=self.target_metric, level=self.target_level)
        except BadInput as error:
            faults += [f"target_metric: {fault}" for fault in error.faults]
        return faults

    @property
    def goal(self) -> Target | None:
        """Return the target at which a run stops, if there is one."""
        given = {
            "loss": self.target,
            "accuracy": self.target_accuracy,
            "metric": self.target_metric,
            "level": self.target_level,
        }
        if set(given.values()) == {None}:
            return None
        return Target(**given, hold=self.held_rounds)  # type: ignore[arg-type]

    @property
    def held_rounds(self) -> int:
        """Return `hold`; where left out, the default for `deliver`."""
        return HOLDS[self.deliver] if self.hold is None else self.hold

    @property
    def architecture(self) -> Layers:
        """Return the layers that are trained: `layers`, or those of the named model."""
        return MODELS[self.model] if self.layers is None else self.layers

    @property
    def analytic(self) -> bool:
        """Return whether the model is a quadratic, which needs no data."""
        return self.layers is None and self.model in QUADRATICS

    @property
    def owners_may_be_given(self) -> bool:
        """Return whether the data, or a file of owners, may assign samples to clients."""
        own = self.partition.owners is not None or self.dataset not in DATASETS
        return own and not self.analytic and self.partition.kind in (None, "given")


def dataset_path(dataset: str, folder: Path) -> Path | None:
    """Return the path of a user's dataset, relative to a folder; None for one known by name."""
    if dataset in ("", *DATASETS):
        return None
    path = folder / dataset
    by_path = dataset.lower().endswith(".npz") or os.sep in dataset or os.path.isdir(path)
    return path if by_path else None


def goal_keys(goal: Target | None) -> dict[str, Any]:
    """Return the keys of [learning] that define a target."""
    own = goal is not None and goal.metric not in ("loss", "accuracy")
    return {
        "target": goal and goal.loss,
        "target_accuracy": goal and goal.accuracy,
        "target_metric": goal.metric if goal is not None and own else None,
        "target_level": goal.level if goal is not None and own else None,
        **({} if goal is None else {"hold": goal.hold}),
    }
