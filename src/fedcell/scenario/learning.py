"""What is learnt and how, as a user declares it: Section II-A and V-A."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from fedcell.core.errors import UNPRINTABLE
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
)

QUADRATICS = ("quadratic-common", "quadratic-apart")
USERS = {  # the options that only some kinds, or some sizes, use
    "num_shards_per_partition": ("kind", ["shards"]),
    "num_classes_per_partition": ("kind", ["pathological"]),
    "class_assignment_mode": ("kind", ["pathological"]),
    "alpha": ("kind", ["dirichlet", "inner-dirichlet"]),
    "min_partition_size": ("kind", ["dirichlet"]),
    "self_balancing": ("kind", ["dirichlet"]),
    "spread": ("sizes", ["uniform"]),
    "sigma": ("sizes", ["lognormal"]),
}


@documented
class PartitionSpec(Table, frozen=True, kw_only=True):
    """How the training samples are dealt to the clients; names as in flwr-datasets.

    Two kinds bear Dirichlet's name, and papers seldom say which they mean. "dirichlet" is
    per class: each class is dealt over the clients by one draw, and the sizes are what
    comes of it (Yurochkin et al., NIID-Bench). "inner-dirichlet" is per client: its label
    mix is one draw, and its size is chosen apart from it (FedDyn). The same alpha gives
    different partitions.

    "shards" sorts the samples by label and cuts them (McMahan et al.); "pathological"
    gives every client exactly so many classes. Sizes are scaled and rounded to sum to the
    samples there are, and nobody goes without.

    >>> PartitionSpec(kind="shards", sizes="lognormal", sigma=1.0).num_shards_per_partition
    2
    """

    table_name: ClassVar[str] = "learning.partition"

    kind: Annotated[
        Literal["iid", "shards", "pathological", "dirichlet", "inner-dirichlet"],
        Doc("which labels clients hold"),
    ] = "iid"
    num_shards_per_partition: Annotated[Count, Doc('shards of a client, for "shards"')] = 2
    num_classes_per_partition: Annotated[Count, Doc('classes of a client, for "pathological"')] = 2
    class_assignment_mode: Annotated[
        Literal["random", "deterministic", "first-deterministic"],
        Doc('who gets which class, for "pathological"'),
    ] = "random"
    alpha: Annotated[Positive, Doc("for the two of Dirichlet: the smaller, the more skewed")] = 0.5
    min_partition_size: Annotated[
        Count, Doc('for "dirichlet": a draw that gives some client less is drawn anew')
    ] = 10
    self_balancing: Annotated[
        bool, Doc('for "dirichlet": who has more than the mean gets nothing of later classes')
    ] = False
    sizes: Annotated[
        Literal["equal", "uniform", "lognormal"], Doc("how many samples clients hold")
    ] = "equal"
    spread: Annotated[
        Fraction,
        Doc('for "uniform": D_j are drawn evenly from D (1 -+ Var) (Sec. V-C)', "Var"),
    ] = 0.1
    sigma: Annotated[NotNegative, Doc('for "lognormal": standard deviation of log D_j')] = 0.5
    # N then changes D and nothing else; min_partition_size is that of a part, lest the draw
    # depend on N.
    same_skew_as: Annotated[
        Annotated[Count | None, Meta(description="a whole number from 1 to 1e7")],
        Doc(
            "M: labels and sizes as in a split over M clients, each part of which is dealt on "
            "evenly to clients.count / M",
            example="50",
        ),
    ] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        Meta(description="a whole number from 0 to 2^63 - 1"),
        Doc("dice of the partition; where left out, the run's own", example="7"),
    ] = None

    def faults(self) -> list[str]:
        default = {field.name: field.default for field in msgspec.structs.fields(type(self))}
        faults = [
            f"{name} is for {' and '.join(users)}, and "
            f'{self.table_name}.{key} is "{getattr(self, key)}": leave it out'
            for name, (key, users) in USERS.items()
            if getattr(self, name) != default[name] and getattr(self, key) not in users
        ]
        if self.kind == "dirichlet" and self.sizes != "equal":
            faults.append(
                f'sizes = "{self.sizes}": the sizes of kind "dirichlet" are what its draw gives; '
                'choose kind "inner-dirichlet" to have both'
            )
        return faults


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
        Text, Doc("digits, mnist, fashion-mnist, cifar10, or the path of an .npz")
    ] = "digits"
    partition: Annotated[PartitionSpec, Doc("who holds which samples")] = PartitionSpec()
    model: Annotated[
        Literal[
            "cnn-small", "cnn-mcmahan", "mlp", "logistic", "quadratic-common", "quadratic-apart"
        ],
        Doc("what is trained"),
    ] = "mlp"
    layers: Annotated[Layers | None, Doc("a network of your own, instead of model")] = None
    quadratic: Annotated[Quadratic, Doc("what quadratic clients are like")] = Quadratic()
    rate: Annotated[Positive, Doc("learning rate of the first step", "eta")] = 0.1
    rate_decay: Annotated[
        NotNegative,
        Doc("above 0: eta_t = rate / (1 + rate_decay t), t in local steps"),
    ] = 0.0
    momentum: Annotated[Fraction, Doc("of the local steps, from zero in each round")] = 0.0
    aggregation: Annotated[
        Literal["unbiased", "mean", "normalised"] | None,
        Doc(
            'how uploads are averaged: "normalised" or "unbiased" (4); with weighted selection '
            '"mean" (28) (DECISIONS.md, 13)',
            example='"normalised"',
        ),
    ] = None
    target: Annotated[
        Positive | None, Doc("training loss (2) at which a run may stop", example="0.2")
    ] = None
    evaluate_every: Annotated[Count, Doc("rounds between two evaluations")] = 1
    evaluate_samples: Annotated[
        Count, Doc("about so many of the training data, and of the test data: a fixed part")
    ] = 5000

    def faults(self) -> list[str]:
        if UNPRINTABLE.search(self.dataset):
            return [
                f"dataset = {self.dataset!r}: the path holds a character that cannot be shown: "
                "rename the file or its folder"
            ]
        return []

    @property
    def architecture(self) -> Layers:
        """The layers that are trained: one's own, or those of the model that is named."""
        return MODELS[self.model] if self.layers is None else self.layers

    @property
    def analytic(self) -> bool:
        """A quadratic, which needs no data."""
        return self.layers is None and self.model in QUADRATICS
