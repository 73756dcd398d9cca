"""Define the kinds of errors; each message names the culprit and the way out.

FedcellError
    BadInput            an option, a value or an array that cannot be used
        BadFile         the same, found in a file; its name comes first
    DataUnavailable     a dataset that is not here and cannot be downloaded
    NoPlan              no K and E_l keep within the limits
    NotReached          no run reached the target loss
    Diverged            the training diverged
    NoTestbed           this machine cannot build a testbed, or the testbed cannot do the request
"""

import re
from typing import Self

# Characters that move a cursor, hide text or reverse it: control, line and direction characters;
# and lone surrogates, which no terminal can show.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Return a text that is safe to print: characters that are not printable are escaped."""
    return UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


class FedcellError(Exception):
    """Base of every error that fedcell raises on purpose.

    Attributes
    ----------
    faults : tuple of str
        One sentence for each fault.

    Examples
    --------
    >>> from fedcell import Cell
    >>> try:
    ...     Cell(bandwidth=-1, noise=0)
    ... except FedcellError as error:
    ...     print(type(error).__name__, len(error.faults))
    BadInput 2
    """

    def __init__(self, *faults: str) -> None:
        self.faults = tuple(map(printable, faults))  # may quote a file or a server
        super().__init__(*self.faults)

    def __str__(self) -> str:
        return "\n".join(self.faults)

    def within(self, place: str) -> Self:
        """Return an error of the same kind with a place before each fault.

        Every kind is made from its faults alone, so that it can be copied and pickled.
        """
        return type(self)(*(f"{place}: {fault}" for fault in self.faults))


class BadInput(FedcellError, ValueError):  # noqa: N818
    """An option, a value or an array that cannot be used."""


class BadFile(BadInput):
    """A file that cannot be read or written, or has content that cannot be used."""


class DataUnavailable(FedcellError):  # noqa: N818
    """A published dataset that is not on this machine and could not be downloaded."""


class NoPlan(FedcellError):  # noqa: N818
    """No K and E_l keep within the given limits."""


class NotReached(FedcellError):  # noqa: N818
    """No run reached the target loss, so the number of rounds to it is unknown."""


class Diverged(FedcellError):  # noqa: N818
    """Every training diverged, or the requested one did: its loss is not finite."""


class NoTestbed(FedcellError):  # noqa: N818
    """This machine cannot build a testbed, or the testbed cannot do the request."""


class FedcellWarning(UserWarning):
    """Something that a user should know and that does not stop the program."""
