"""Whose each training sample is: owners by number or by name, as numbers of clients."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.core.types import Ints
from fedcell.scenario.arrays import MAX_NAME_LENGTH

NOBODY = -1  # the owner of a sample that is nobody's; by name, an empty one
MOST_CLIENTS = 10**7
MOST_NAMED = 5  # of clients, in a sentence

Owner = NDArray[Any]  # (sample,): numbers (int64) or names (text)


def as_owner(given: Any, samples: int | None = None) -> Owner:
    """One client number or one name for each sample, in an array of its own."""
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
    """Refuses what cannot be owners, by its shape and type alone."""
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
    wrong = (values < NOBODY) | (values >= MOST_CLIENTS)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise BadInput(
            f"owner: sample {i} belongs to client {values[i]}: clients count from 0 to "
            f"{MOST_CLIENTS - 1}, and {NOBODY} is nobody"
        )
    return values.astype(np.int64)


def _names(values: Owner) -> Owner:
    names: Owner = np.char.strip(values)
    for name in np.unique(names).tolist():
        check_name(name, f"owner: sample {int(np.argmax(names == name))} belongs to")
    return names


def check_name(name: str, belongs: str) -> None:
    """Refuses what cannot be the name of a client; `belongs` begins the sentence."""
    if len(name) > MAX_NAME_LENGTH or (name and not name.isprintable()):
        raise BadInput(
            f"{belongs} {name[:MAX_NAME_LENGTH]!r}: expected a name of at most {MAX_NAME_LENGTH} "
            "characters that can be printed"
        )


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names as people count: pump-2 stands before pump-10."""

    def key(name: str) -> tuple[list[Any], str]:
        parts = re.split(r"([0-9]+)", name)  # text and numbers by turns
        return [int(part) if i % 2 else part for i, part in enumerate(parts)], name

    return tuple(sorted(names, key=key))


def client_numbers(
    owner: Owner, names: Sequence[str] | None = None, count: int | None = None
) -> tuple[Ints, int, tuple[str, ...] | None]:
    """The number of each sample's client, how many clients there are, and their names.

    Names are looked up among `names`; without these, the names that there are become the clients,
    in order. Where neither says how many there are, `count` does, or the highest number.
    """
    called = None if names is None else tuple(names)
    if called is not None and count not in (None, len(called)):
        raise BadInput(f"{len(called)} clients have names, and clients.count = {count}")
    if owner.dtype.kind == "U":
        number, called = _looked_up(owner, called, count)
    else:
        number = owner
    highest = int(number.max(initial=NOBODY))
    if highest == NOBODY:
        raise BadInput("owner: every training sample belongs to nobody: give some to clients")
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
    found, code = np.unique(owner, return_inverse=True)
    there = [name for name in found.tolist() if name]
    if names is None:
        names = in_order(there)
        if count not in (None, len(names)):
            raise BadInput(
                f"owner names {len(names)} clients, and clients.count = {count}: leave "
                "clients.count out, or list all clients by name in clients.table"
            )
    place = {name: j for j, name in enumerate(names)}
    if unknown := [name for name in there if name not in place]:
        i = int(np.argmax(owner == unknown[0]))
        raise BadInput(
            f"owner: sample {i} belongs to {unknown[0]!r}, and no client has that name: "
            f"{suggestion(unknown[0], names)}"
        )
    numbers = np.array([place.get(name, NOBODY) for name in found.tolist()], np.int64)
    return numbers[code], names


def owner_notes(number: Ints, sizes: Ints, names: Sequence[str] | None) -> tuple[str, ...]:
    """What one should know of given owners: samples of nobody, and clients without any."""
    notes = []
    if lost := int((number == NOBODY).sum()):
        first = int(np.argmax(number == NOBODY))
        notes.append(
            f"{lost} of {number.size} training samples belong to nobody and are not used, the "
            f"first of them sample {first}"
        )
    if (empty := np.flatnonzero(sizes == 0)).size:
        some = [str(j) if names is None else names[j] for j in empty[:MOST_NAMED].tolist()]
        more = ["..."] if empty.size > MOST_NAMED else []
        who = (
            "client holds no samples and sits"
            if empty.size == 1
            else "clients hold no samples and sit"
        )
        notes.append(f"{empty.size} {who} all rounds out: {', '.join(some + more)}")
    return tuple(notes)
