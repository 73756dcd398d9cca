"""Partition the training samples over the clients, with label skew and quantity skew.

`skew` computes how many samples of each class each client gets, and the samples are dealt by that
table: so each goes to exactly one client, for every kind of split.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Ints
from fedcell.learning.data.owners import UNOWNED, as_owner, client_numbers, owner_notes
from fedcell.scenario.partition import KINDS, PartitionSpec

from . import skew
from .plugins import assign_by_plugin


@dataclass(frozen=True, eq=False)
class Partition:
    """The samples of each client. `Partition.of_owner` makes one.

    Attributes
    ----------
    index : array of int64, (sample,)
        Samples, client after client.
    start : array of int64, (N + 1,)
        Client j has index[start[j]:start[j + 1]].
    notes : tuple of str
        Remarks on the partition, such as clients without samples.
    names : tuple of str, optional
        Names of the clients.
    """

    index: Ints
    start: Ints
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check the arrays and make them read-only: the kernels index by them."""
        for name in ("index", "start"):
            try:
                values = np.array(getattr(self, name))
            except ValueError as error:
                raise BadInput(f"the partition's {name} is not an array: {error}") from error
            if values.ndim != 1 or values.dtype.kind not in "iu":
                raise BadInput(f"the partition's {name} is not one whole number after the other")
            values = values.astype(np.int64, copy=False)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        if self.names is not None and len(self.names) != self.count:
            raise BadInput(f"the partition has {len(self.names)} names for {self.count} clients")
        ends = self.start[[0, -1]].tolist() if self.start.size > 1 else None
        falls = (self.start[1:] < self.start[:-1]).any()
        if ends != [0, self.index.size] or falls or (self.index < 0).any():
            raise BadInput(
                "the partition is not sound: start goes up from 0 to the number of samples in "
                "index, which are counted from 0"
            )

    @classmethod
    def of_owner(
        cls, owner: Any, names: Sequence[str] | None = None, count: int | None = None
    ) -> "Partition":
        """Return the partition in which each sample belongs to its owner.

        Parameters
        ----------
        owner : array of int or str, (sample,)
            The number or the name of each sample's client; -1 or an empty name for none.
        names : sequence of str, optional
            Names of the clients, in order; else the names in `owner`, with pump-2 before pump-10.
        count : int, optional
            N, the number of clients; else the highest number + 1. Some may hold no samples.

        Raises
        ------
        BadInput
            If an owner is no client, or no sample has an owner.

        Examples
        --------
        >>> Partition.of_owner([0, 2, 0, 2, 2]).sizes.tolist()
        [2, 0, 3]
        >>> Partition.of_owner(["b", "a", "b", ""]).names
        ('a', 'b')
        """
        number, total, called = client_numbers(as_owner(owner), names, count)
        index = np.argsort(number, kind="stable")[(number == UNOWNED).sum() :]
        sizes = np.bincount(number[index], minlength=total)
        notes = owner_notes(number, sizes, called)
        return cls(index, np.r_[0, sizes.cumsum()], notes, called)

    @property
    def fingerprint(self) -> str:
        """Checksum that identifies the partition of a run."""
        return hashlib.sha256(self.index.tobytes() + b"|" + self.start.tobytes()).hexdigest()[:16]

    @property
    def count(self) -> int:
        """N, the number of clients."""
        return self.start.size - 1

    @property
    def sizes(self) -> Ints:
        """D_j, the number of samples of each client."""
        return np.diff(self.start)

    def of(self, client: int) -> Ints:
        """Return the samples of one client, in random order, or in that of the data if given."""
        j = range(self.count)[client]  # refuses a client out of range
        return self.index[self.start[j] : self.start[j + 1]]

    def __repr__(self) -> str:
        each = f"{self.sizes.min()} to {self.sizes.max()} each"
        return f"<Partition: {self.index.size} samples over {self.count} clients, {each}>"

    def label_counts(self, labels: NDArray[np.integer], classes: int) -> Ints:
        """Return the number of samples of each class of each client, (client, class)."""
        owner = np.repeat(np.arange(self.count), self.sizes)
        return skew.tally(owner, labels[self.index], (self.count, classes))


def make_partition(
    labels: NDArray[np.integer], count: int, spec: PartitionSpec, rng: Generator
) -> Partition:
    """Deal samples with these labels to clients.

    Parameters
    ----------
    labels : array of int, (sample,)
        The class of each sample.
    count : int
        N, the number of clients.
    spec : PartitionSpec
        The kind of skew and its options.
    rng : numpy.random.Generator
        Random numbers of the partition.

    Returns
    -------
    Partition
        Each sample belongs to exactly one client; a plugin may leave samples out.
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadInput("the labels are not one whole number per sample")
    if not 1 <= count <= labels.size:
        raise BadInput(
            f"clients.count = {count}: expected 1 to {labels.size}, as many as there are samples"
        )
    if spec.kind is not None and spec.kind not in KINDS:
        return _by_plugin(labels, count, spec, rng)
    parts = spec.same_skew_as or count
    if count % parts:
        raise skew.refusal(
            f"same_skew_as = {parts}: clients.count = {count} is not a multiple of it"
        )
    code, supply = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    table, notes = _table(supply, parts, spec, rng)
    if parts < count:
        table, more = skew.deal_on(table, count // parts)
        notes += more
    shuffled = rng.permutation(labels.size)
    by_class = shuffled[np.argsort(code[shuffled], kind="stable")]
    owner = np.repeat(np.tile(np.arange(count), supply.size), table.T.ravel())
    mixed = rng.permutation(labels.size)  # so that a client's samples are not sorted by class
    by_client = mixed[np.argsort(owner[mixed], kind="stable")]
    return Partition(by_class[by_client], np.r_[0, table.sum(1).cumsum()], tuple(notes))


def _by_plugin(
    labels: NDArray[np.integer], count: int, spec: PartitionSpec, rng: Generator
) -> Partition:
    """Return the partition of a rule that an installed package adds."""
    try:
        owner = as_owner(assign_by_plugin(labels, count, spec, rng), labels.size)
        return Partition.of_owner(owner, count=count)
    except BadInput as error:
        raise error.within(f"learning.partition.kind = {spec.kind!r}") from error


def _table(supply: Ints, count: int, spec: PartitionSpec, rng: Generator) -> skew.Skewed:
    weight = _weights(count, spec, rng)
    match spec.kind:
        case "iid" | None:
            return skew.iid(supply, weight, rng)
        case "shards":
            return skew.shards(supply, weight, spec.num_shards_per_partition, rng)
        case "pathological":
            each, mode = spec.num_classes_per_partition, spec.class_assignment_mode
            return skew.pathological(supply, weight, each, mode, rng)
        case "dirichlet":
            least, balance = spec.min_partition_size, spec.self_balancing
            return skew.dirichlet(supply, count, spec.alpha, least, balance, rng)
        case "inner-dirichlet":
            return skew.inner_dirichlet(supply, weight, spec.alpha, rng)
        case _:  # "given"; a plugin has been called already
            raise skew.refusal('kind = "given": nothing is dealt, see Partition.of_owner')


def _weights(count: int, spec: PartitionSpec, rng: Generator) -> Array:
    """Return D_j relative to each other."""
    match spec.sizes:
        case "equal":
            return np.ones(count)
        case "uniform":
            return rng.uniform(1 - spec.spread, 1 + spec.spread, count)
        case "lognormal":
            log = spec.sigma * rng.standard_normal(count)
            return np.asarray(np.exp(log - log.max()))


@dataclass(frozen=True, kw_only=True)
class PartitionSummary:
    """Statistics of a partition.

    `skew` is the total variation distance between a client's labels and all labels, the mean over
    clients with data: 0 if all are alike, towards 1 if each has other classes. Small clients differ
    by chance; `skew_if_iid` is the expected skew of an iid partition with these sizes.
    """

    clients: int
    samples: int
    smallest: int
    largest: int
    mean: float
    classes_per_client: float
    skew: float
    skew_if_iid: float
    notes: tuple[str, ...]


def summarise_partition(partition: Partition, labels: NDArray[np.integer]) -> PartitionSummary:
    """Return statistics of a partition of samples with these labels."""
    from scipy.special import gammaln

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    held = labels[partition.index]
    code, supply = np.unique(held, return_inverse=True, return_counts=True)[1:]
    owner = np.repeat(np.arange(partition.count), partition.sizes)
    some = partition.sizes > 0
    table = skew.tally(owner, code, (partition.count, supply.size))[some]
    sizes, n = partition.sizes[some, None], held.size
    # E|X - E X| of a hypergeometric X, as by De Moivre for the binomial.
    m = sizes * supply // n + 1
    may = (m <= supply) & (m <= sizes)
    ways = log_choose(supply, m) + log_choose(n - supply, sizes - m) - log_choose(n, sizes)
    chance = 2 * m * (n - supply - sizes + m) / n * np.exp(np.where(may, ways, -np.inf))
    return PartitionSummary(
        clients=partition.count,
        samples=n,
        smallest=int(partition.sizes.min()),
        largest=int(partition.sizes.max()),
        mean=float(partition.sizes.mean()),
        classes_per_client=float((table > 0).sum(1).mean()),
        skew=float(np.abs(table / sizes - supply / n).sum(1).mean() / 2),
        skew_if_iid=float((chance / sizes).sum(1).mean() / 2),
        notes=partition.notes,
    )
