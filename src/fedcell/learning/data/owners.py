"""Owners of training samples, by number or by name, as numbers of clients."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.core.types import Ints
from fedcell.scenario.arrays import MAX_NAME_LENGTH

UNOWNED = -1  # the owner of a sample without a client; by name, an empty one
MAX_CLIENTS = 10**7
MAX_NAMED_CLIENTS = 5  # in a sentence

Owner = NDArray[Any]  # (sample,): numbers (int64) or names (text)


def as_owner(given: Any, samples: int | None = None) -> Owner:
    """Return a new array with a client number or a name for each sample."""
    if isinstance(given, np.ma.MaskedArray):
        raise BadInput("owner has masked values: fill them in first")
    try:
        values = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise BadInput(f"owner is not an array: {error}") from error
    if values.dtype == object and all(isinstance(name, str) for name in values.ravel()):
        values = values.astype(str)  # a column of a data frame
    check_owner_shape(values, values.size if samples is None else samples)
    return _names(values) if values.dtype.kind == "U" else _numbers(values)


def check_owner_shape(values: Owner, samples: int) -> None:
    """Refuse arrays that cannot be owners, by their shapes and types."""
    if values.dtype.kind not in "iuU":
        raise BadInput(
            f"owner holds {values.dtype}: expected the number of a client, from 0, or its name, "
            "for each training sample"
        )
    if values.ndim != 1:
        raise BadInput(f"owner has shape {values.shape}: expected (sample,)")
    if values.size != samples:
        raise BadInput(
            f"owner has {values.size} entries for {samples} training samples: give one for each"
        )


def _numbers(values: Owner) -> Owner:
    wrong = (values < UNOWNED) | (values >= MAX_CLIENTS)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise BadInput(
            f"owner: sample {i} belongs to client {values[i]}: clients count from 0 to "
            f"{MAX_CLIENTS - 1}, and {UNOWNED} means no client"
        )
    return values.astype(np.int64)


def _names(values: Owner) -> Owner:
    names: Owner = np.char.strip(values)
    for name in np.unique(names).tolist():
        check_name(name, f"owner: sample {int(np.argmax(names == name))} belongs to")
    return names


def check_name(name: str, belongs: str) -> None:
    """Refuse a text that cannot be the name of a client; `belongs` begins the sentence."""
    if len(name) > MAX_NAME_LENGTH or (name and not name.isprintable()):
        raise BadInput(
            f"{belongs} {name[:MAX_NAME_LENGTH]!r}: expected a name of at most {MAX_NAME_LENGTH} "
            "characters that can be printed"
        )


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names in natural order: pump-2 before pump-10."""

    def key(name: str) -> tuple[list[Any], str]:
        parts = re.split(r"([0-9]+)", name)  # text and numbers by turns
        return [int(part) if i % 2 else part for i, part in enumerate(parts)], name

    return tuple(sorted(names, key=key))


def client_numbers(
    owner: Owner, names: Sequence[str] | None = None, count: int | None = None
) -> tuple[Ints, int, tuple[str, ...] | None]:
    """Return the client number of each sample, the number of clients, and their names.

    Names are looked up in `names`; without these, the names in `owner` become the clients, in
    natural order. Without any names there are `count` clients, or as the highest number implies.
    """
    called = None if names is None else tuple(names)
    if called is not None and count not in (None, len(called)):
        raise BadInput(f"{len(called)} clients have names, and clients.count = {count}")
    if owner.dtype.kind == "U":
        number, called = _looked_up(owner, called, count)
    else:
        number = owner
    highest = int(number.max(initial=UNOWNED))
    if highest == UNOWNED:
        raise BadInput("owner: no training sample belongs to a client: assign some")
    total = (count or highest + 1) if called is None else len(called)
    if highest >= total:
        raise BadInput(
            f"owner: sample {int(np.argmax(number >= total))} belongs to client "
            f"{number[number >= total][0]}, and there are {total} clients, counted from 0"
        )
    return number, total, called


def _looked_up(
    owner: Owner, names: tuple[str, ...] | None, count: int | None
) -> tuple[Ints, tuple[str, ...]]:
    unique, code = np.unique(owner, return_inverse=True)
    given = [name for name in unique.tolist() if name]
    if names is None:
        names = in_order(given)
        if count not in (None, len(names)):
            raise BadInput(
                f"owner names {len(names)} clients, and clients.count = {count}: leave "
                "clients.count out, or list all clients by name in clients.table"
            )
    place = {name: j for j, name in enumerate(names)}
    if unknown := [name for name in given if name not in place]:
        i = int(np.argmax(owner == unknown[0]))
        raise BadInput(
            f"owner: sample {i} belongs to {unknown[0]!r}, and no client has that name: "
            f"{suggestion(unknown[0], names)}"
        )
    numbers = np.array([place.get(name, UNOWNED) for name in unique.tolist()], np.int64)
    return numbers[code], names


def owner_notes(number: Ints, sizes: Ints, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return notes on samples without a client, and on clients without samples."""
    notes = []
    if lost := int((number == UNOWNED).sum()):
        first = int(np.argmax(number == UNOWNED))
        notes.append(
            f"{lost} of {number.size} training samples belong to no client and are not used, the "
            f"first of them sample {first}"
        )
    if (empty := np.flatnonzero(sizes == 0)).size:
        some = [str(j) if names is None else names[j] for j in empty[:MAX_NAMED_CLIENTS].tolist()]
        more = ["..."] if empty.size > MAX_NAMED_CLIENTS else []
        idle = "clients hold no samples and never train"
        if empty.size == 1:
            idle = "client holds no samples and never trains"
        notes.append(f"{empty.size} {idle}: {', '.join(some + more)}")
    return tuple(notes)
