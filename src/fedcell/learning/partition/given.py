"""Partitions that are given by the data, by a file or in Python."""

from pathlib import Path

import msgspec

from fedcell.core.errors import BadInput
from fedcell.learning.data.ownerfile import read_owners
from fedcell.learning.data.owners import Owner
from fedcell.scenario.learning import Learning
from fedcell.scenario.partition import PartitionSpec
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.tables import DEFAULT_COUNT

from .make import Partition


def settle_owners(
    scenario: Scenario,
    learning: Learning,
    owner: Owner | None,
    samples: int,
    partition: Partition | None = None,
) -> tuple[Scenario, Partition | None]:
    """Return the given partition, if any, and the scenario with its number of clients N.

    `owner` comes with the data; a file of owners replaces it, and a `partition` replaces both.
    """
    in_python = partition is not None
    partition = partition or _given(scenario, learning, owner, samples)
    if partition is None:
        return scenario, None
    if partition.index.max(initial=0) >= samples or not partition.index.size:
        raise BadInput(
            f"the partition is of other data: it deals sample {partition.index.max(initial=0)}, "
            f"and there are {samples}, counted from 0"
        )
    if (said := _count(scenario)) not in (None, partition.count):
        raise BadInput(
            f"the partition is for {partition.count} clients, and clients.count = {said}"
        )
    spec = PartitionSpec() if in_python else learning.partition
    settled = scenario.using(
        learning={"partition": msgspec.structs.replace(spec, kind="given")},
        clients={"count": partition.count, "sizes": None},
    )
    return settled, partition


def _given(
    scenario: Scenario, learning: Learning, owner: Owner | None, samples: int
) -> Partition | None:
    spec, names = learning.partition, scenario.clients.names
    if spec.kind not in (None, "given"):
        return None
    if spec.owners is not None:
        owner = read_owners(Path(spec.owners), samples, names)
    if owner is None:
        if spec.kind is None:
            return None
        raise BadInput(
            'learning.partition.kind = "given", and neither learning.partition.owners nor the data '
            "has owners of the samples: name a file of owners, or give an .npz with owner, or a "
            "folder with an .npz for each client"
        )
    try:
        return Partition.of_owner(owner, names, _count(scenario))
    except BadInput as error:
        where = "learning.dataset" if spec.owners is None else str(spec.owners)
        raise BadInput(*(f"{where}: {fault}" for fault in error.faults)) from error


def _count(scenario: Scenario) -> int | None:
    """Return N if the scenario gives it; None if it follows from the owners."""
    clients = scenario.clients
    said = clients.table is not None or clients.count != DEFAULT_COUNT
    return clients.count if said else None
