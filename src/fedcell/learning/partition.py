"""Who holds which training samples: label skew and quantity skew, alone and together.

`skew` decides how many samples of each class each client gets, and the samples are dealt
by that table: so each goes to exactly one client, whatever the kind of split.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.random import Generator
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.schema import Count, Fraction, NotNegative, Positive, Table
from fedcell.network.trace import Ints
from fedcell.scenario.arrays import Array

from . import skew

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


class Split(Table, frozen=True, kw_only=True):
    """How the training samples are dealt to the clients; names as in flwr-datasets.

    Two kinds bear Dirichlet's name, and papers seldom say which they mean. "dirichlet" is
    per class: each class is dealt over the clients by one draw, and the sizes are what
    comes of it (Yurochkin et al., NIID-Bench). "inner-dirichlet" is per client: its label
    mix is one draw, and its size is chosen apart from it (FedDyn). The same alpha gives
    different partitions.

    "shards" sorts the samples by label and cuts them (McMahan et al.); "pathological"
    gives every client exactly so many classes. Sizes are scaled and rounded to sum to the
    samples there are, and nobody goes without.
    """

    table_name: ClassVar[str] = "learning.partition"

    kind: Literal["iid", "shards", "pathological", "dirichlet", "inner-dirichlet"] = "iid"
    num_shards_per_partition: Count = 2
    num_classes_per_partition: Count = 2
    class_assignment_mode: Literal["random", "deterministic", "first-deterministic"] = "random"
    alpha: Positive = 0.5  # the smaller, the more skewed
    min_partition_size: Count = 10  # a draw that gives some client less is drawn anew
    self_balancing: bool = False  # who has more than the mean gets nothing of later classes
    sizes: Literal["equal", "uniform", "lognormal"] = "equal"  # quantity skew
    spread: Fraction = 0.1  # Var: "uniform" draws D_j evenly from D (1 -+ Var) (Sec. V-C)
    sigma: NotNegative = 0.5  # "lognormal": standard deviation of log D_j
    # M: the split is made for M clients, in labels and in sizes, and each of these parts is
    # then dealt evenly, with its label mix, to N / M clients: N changes D and nothing else.
    # min_partition_size is that of a part, lest the draw depend on N.
    same_skew_as: Annotated[Count | None, Meta(description="a whole number from 1 to 1e7")] = None
    seed: Annotated[  # where left out, the run's own
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        Meta(description="a whole number from 0 to 2^63 - 1"),
    ] = None

    def faults(self) -> list[str]:
        default = {field.name: field.default for field in msgspec.structs.fields(type(self))}
        found = [
            f"{name} is for {' and '.join(users)}, and "
            f'{self.table_name}.{key} is "{getattr(self, key)}": leave it out'
            for name, (key, users) in USERS.items()
            if getattr(self, name) != default[name] and getattr(self, key) not in users
        ]
        if self.kind == "dirichlet" and self.sizes != "equal":
            found.append(
                f'sizes = "{self.sizes}": the sizes of kind "dirichlet" are what its draw gives; '
                'choose kind "inner-dirichlet" to have both'
            )
        return found


@dataclass(frozen=True, eq=False)
class Partition:
    """Which samples each client holds."""

    index: Ints  # samples, client after client
    start: Ints  # (N + 1,): client j has index[start[j]:start[j + 1]]
    notes: tuple[str, ...] = ()  # what one should know before believing a result

    @property
    def count(self) -> int:
        return self.start.size - 1

    @property
    def sizes(self) -> Ints:
        """D_j."""
        return np.diff(self.start)

    def of(self, client: int) -> Ints:
        """The samples of one client, in random order."""
        j = range(self.count)[client]  # refuses a client that is not there
        return self.index[self.start[j] : self.start[j + 1]]

    def label_counts(self, labels: NDArray[np.integer], classes: int) -> Ints:
        """How many samples of each class each client holds, (client, class)."""
        owner = np.repeat(np.arange(self.count), self.sizes)
        return skew.tally(owner, labels[self.index], (self.count, classes))


def split(labels: NDArray[np.integer], count: int, how: Split, rng: Generator) -> Partition:
    """The samples that have these labels, dealt to `count` clients: all of them, each once."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadInput("the labels are not one whole number per sample")
    if not 1 <= count <= labels.size:
        raise BadInput(
            f"clients.count = {count}: expected 1 to {labels.size}, as many as there are samples"
        )
    parts = how.same_skew_as or count
    if count % parts:
        raise skew.refusal(
            f"same_skew_as = {parts}: clients.count = {count} is not a multiple of it"
        )
    code, supply = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    table, notes = _table(supply, parts, how, rng)
    if parts < count:
        table, more = skew.deal_on(table, count // parts)
        notes += more
    shuffled = rng.permutation(labels.size)
    by_class = shuffled[np.argsort(code[shuffled], kind="stable")]
    owner = np.repeat(np.tile(np.arange(count), supply.size), table.T.ravel())
    mixed = rng.permutation(labels.size)  # lest a client's samples lie class after class
    by_client = mixed[np.argsort(owner[mixed], kind="stable")]
    return Partition(by_class[by_client], np.r_[0, table.sum(1).cumsum()], tuple(notes))


def _table(supply: Ints, count: int, how: Split, rng: Generator) -> skew.Skewed:
    weight = _weights(count, how, rng)
    match how.kind:
        case "iid":
            return skew.iid(supply, weight, rng)
        case "shards":
            return skew.shards(supply, weight, how.num_shards_per_partition, rng)
        case "pathological":
            each, mode = how.num_classes_per_partition, how.class_assignment_mode
            return skew.pathological(supply, weight, each, mode, rng)
        case "dirichlet":
            least, balance = how.min_partition_size, how.self_balancing
            return skew.dirichlet(supply, count, how.alpha, least, balance, rng)
        case "inner-dirichlet":
            return skew.inner_dirichlet(supply, weight, how.alpha, rng)


def _weights(count: int, how: Split, rng: Generator) -> Array:
    """D_j relative to each other."""
    match how.sizes:
        case "equal":
            return np.ones(count)
        case "uniform":
            return rng.uniform(1 - how.spread, 1 + how.spread, count)
        case "lognormal":
            log = how.sigma * rng.standard_normal(count)
            return np.asarray(np.exp(log - log.max()))


def summary(partition: Partition, labels: NDArray[np.integer]) -> dict[str, Any]:
    """A partition in a few numbers.

    `skew` is the total variation distance between a client's labels and all labels, mean
    over clients: 0 where all are alike, towards 1 where each has what others lack. Small
    clients differ by chance alone; `skew_if_iid` is what to expect of an iid deal to
    clients of these sizes.
    """
    from scipy.special import gammaln

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    code, supply = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    sizes, n = partition.sizes[:, None], labels.size
    table = partition.label_counts(code, supply.size)
    # E|X - E X| of a hypergeometric X, as De Moivre found it for the binomial.
    m = sizes * supply // n + 1
    may = (m <= supply) & (m <= sizes)
    ways = log_choose(supply, m) + log_choose(n - supply, sizes - m) - log_choose(n, sizes)
    chance = 2 * m * (n - supply - sizes + m) / n * np.exp(np.where(may, ways, -np.inf))
    return {
        "clients": partition.count,
        "samples": n,
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
        "mean": float(sizes.mean()),
        "classes_per_client": float((table > 0).sum(1).mean()),
        "skew": float(np.abs(table / sizes - supply / n).sum(1).mean() / 2),
        "skew_if_iid": float((chance / sizes).sum(1).mean() / 2),
        "notes": list(partition.notes),
    }
