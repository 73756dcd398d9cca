"""The partition of the training samples over the clients, as a user declares it."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedcell.core.errors import UNPRINTABLE
from fedcell.core.plugins import plugin_names
from fedcell.core.schema import (
    Count,
    Doc,
    Fraction,
    NotNegative,
    Positive,
    Table,
    Text,
    documented,
    fields_of,
    suggestion,
    unused_options,
)

KINDS = ("iid", "shards", "pathological", "dirichlet", "inner-dirichlet", "given")
PARTITION_GROUP = "fedcell.partitions"  # entry points of other packages, looked up by name
_EXPECTED = " or ".join(f'"{kind}"' for kind in KINDS) + ", or the name of an installed partition"
USERS = {  # the options that only some kinds, or some sizes, use
    "num_shards_per_partition": ("kind", ["shards"]),
    "num_classes_per_partition": ("kind", ["pathological"]),
    "class_assignment_mode": ("kind", ["pathological"]),
    "alpha": ("kind", ["dirichlet", "inner-dirichlet"]),
    "min_partition_size": ("kind", ["dirichlet"]),
    "self_balancing": ("kind", ["dirichlet"]),
    "owners": ("kind", ["given"]),
    "spread": ("sizes", ["uniform"]),
    "sigma": ("sizes", ["lognormal"]),
}


@documented
class PartitionSpec(Table, frozen=True, kw_only=True):
    """How the training samples are divided among the clients; names as in flwr-datasets.

    Two kinds use a Dirichlet distribution, and papers seldom say which they mean. "dirichlet" is
    per class: one draw divides each class among the clients, and the sizes follow (Yurochkin et
    al., NIID-Bench). "inner-dirichlet" is per client: one draw is its label mix, and its size is
    chosen separately (FedDyn). The same alpha gives different partitions.

    "shards" sorts the samples by label and cuts them (McMahan et al.); "pathological" gives every
    client a fixed number of classes. Sizes are scaled and rounded to sum to all samples, and every
    client gets at least one.

    "given" divides nothing: the data, or a file of owners, assigns the samples to clients.

    >>> PartitionSpec(kind="shards", sizes="lognormal", sigma=1.0).num_shards_per_partition
    2
    """

    table_name: ClassVar[str] = "learning.partition"

    kind: Annotated[
        Annotated[Text | None, Meta(description=_EXPECTED)],
        Doc(
            'which labels clients hold; where left out, "given" if owners or the data assign '
            'samples to clients, else "iid"',
            example='"shards"',
        ),
    ] = None
    owners: Annotated[
        Text | None,
        Doc(
            'for "given": the path of a .csv with the columns client, first, last: the training '
            "samples of each client, counted from 0; it replaces what the data says",
            example='"owners.csv"',
        ),
    ] = None
    num_shards_per_partition: Annotated[Count, Doc('shards of a client, for "shards"')] = 2
    num_classes_per_partition: Annotated[Count, Doc('classes of a client, for "pathological"')] = 2
    class_assignment_mode: Annotated[
        Literal["random", "deterministic", "first-deterministic"],
        Doc('how classes are assigned to clients, for "pathological"'),
    ] = "random"
    alpha: Annotated[Positive, Doc("for the two Dirichlet kinds: the smaller, the more skewed")] = (
        0.5
    )
    min_partition_size: Annotated[
        Count, Doc('for "dirichlet": a draw that gives a client less is repeated')
    ] = 10
    self_balancing: Annotated[
        bool, Doc('for "dirichlet": a client above the mean size gets nothing of later classes')
    ] = False
    sizes: Annotated[
        Literal["equal", "uniform", "lognormal"], Doc("how many samples clients hold")
    ] = "equal"
    spread: Annotated[
        Fraction,
        Doc('for "uniform": D_j are drawn evenly from D (1 -+ Var) (Sec. V-C)', "Var"),
    ] = 0.1
    sigma: Annotated[NotNegative, Doc('for "lognormal": standard deviation of log D_j')] = 0.5
    # N then changes D and nothing else; min_partition_size is that of a part, so that the draw
    # does not depend on N.
    same_skew_as: Annotated[
        Annotated[Count | None, Meta(description="a whole number from 1 to 1e7")],
        Doc(
            "M: labels and sizes as in a split over M clients, each part of which is divided "
            "evenly among clients.count / M",
            example="50",
        ),
    ] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        Meta(description="a whole number from 0 to 2^63 - 1"),
        Doc("random seed of the partition; where left out, the run's", example="7"),
    ] = None

    def faults(self) -> list[str]:
        kind = self.kind or ("iid" if self.owners is None else "given")
        plugin = kind not in KINDS
        users = {k: v for k, v in USERS.items() if k == "owners" or v[0] != "kind" or not plugin}
        faults = unused_options(self, users, {"kind": kind})
        if plugin and kind not in (names := [*KINDS, *plugin_names(PARTITION_GROUP)]):
            faults.append(f'kind = "{kind}": {suggestion(kind, names)}')
        elif plugin and self.same_skew_as is not None:
            faults.append(f"same_skew_as is for built-in kinds, and kind is {kind!r}: leave it out")
        default = {field.name: field.default for field in fields_of(type(self))}
        if kind == "given":
            faults += [
                f"{name} is for samples that are dealt, and {self.table_name}.kind is "
                '"given": leave it out, or choose another kind'
                for name in ("sizes", "same_skew_as", "seed")
                if getattr(self, name) != default[name]
            ]
        if self.owners is not None and UNPRINTABLE.search(self.owners):
            faults.append(
                f"owners = {self.owners!r}: the path holds a character that cannot be shown: "
                "rename the file or its folder"
            )
        if self.kind == "dirichlet" and self.sizes != "equal":
            faults.append(
                f'sizes = "{self.sizes}": the sizes of kind "dirichlet" are what its draw gives; '
                'choose kind "inner-dirichlet" to have both'
            )
        return faults
