"""What goes wrong, by kind: each message names the culprit and the way out.

FedcellError
    BadInput            an option, a value or an array that cannot be used
        BadFile         the same, found in a file; its name stands first
    DataUnavailable     a dataset that is not here and cannot be downloaded
    NoPlan              no K and E_l keep within the limits
    NotReached          no run came to the target loss
    Diverged            training blew up
    NoTestbed           this machine cannot make a testbed, or not do with it what was asked
"""

import re
from typing import Self

# What moves a cursor, hides or turns text around: control, line and direction characters, and
# halves of characters, which no terminal can show.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """A text that does nothing to a terminal but show: what is not printable stands escaped."""
    return UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


class FedcellError(Exception):
    """Base of every error that fedcell raises on purpose. `faults` has a sentence each.

    >>> from fedcell import Cell
    >>> try:
    ...     Cell(bandwidth=-1, noise=0)
    ... except FedcellError as error:
    ...     print(type(error).__name__, len(error.faults))
    BadInput 2
    """

    def __init__(self, *faults: str) -> None:
        self.faults = tuple(map(printable, faults))  # they may quote a file or a server
        super().__init__(*self.faults)

    def __str__(self) -> str:
        return "\n".join(self.faults)

    def within(self, place: str) -> Self:
        """An error of the same kind with a place before each fault.

        Every kind is made from its faults alone, as copies and other processes make it, too.
        """
        return type(self)(*(f"{place}: {fault}" for fault in self.faults))


class BadInput(FedcellError, ValueError):  # noqa: N818
    """An option, a value or an array that cannot be used."""


class BadFile(BadInput):
    """A file that cannot be read or written, or that holds what cannot be used."""


class DataUnavailable(FedcellError):  # noqa: N818
    """A published dataset that is not on this machine and could not be downloaded."""


class NoPlan(FedcellError):  # noqa: N818
    """No K and E_l keep within the limits that were asked for."""


class NotReached(FedcellError):  # noqa: N818
    """No run came to the target loss, so nothing can be said of the rounds that it takes."""


class Diverged(FedcellError):  # noqa: N818
    """Every training diverged, or the one that was asked for: the loss left all bounds."""


class NoTestbed(FedcellError):  # noqa: N818
    """This machine cannot make a testbed, or not do with it what was asked."""


class FedcellWarning(UserWarning):
    """Something that a user should know and that does not stop the work."""
