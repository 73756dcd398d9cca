"""Checksums of the files that fedcell writes: damage is found before the numbers are used.

A JSON file holds the checksum of its values, so it may be formatted in another way. A table that
grows has a last column `checksum`: that of its line, chained to the line before, so a killed
process loses at most the line that it was writing. Checksums find damage and edits made by
mistake; they do not prevent forgery.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from fedcell.core.errors import BadInput, FedcellWarning

from .formats import as_json

CHECKSUM = "checksum"  # the key of a file, and the last column of a table


def checksum_of(content: bytes) -> str:
    """Return the checksum of bytes."""
    return sha256(content).hexdigest()[:16]


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a JSON file, as it is read back, with its checksum."""
    plain: dict[str, Any] = json.loads(as_json(content))
    return plain | {CHECKSUM: _of_values(plain)}


def check_seal(content: Mapping[str, Any], way_out: str) -> bool:
    """Return whether the content of a JSON file has a checksum; refuse one that does not match."""
    if CHECKSUM not in content:
        return False
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    if content[CHECKSUM] != _of_values(rest):
        raise BadInput(f"is damaged: its values do not fit its checksum: {way_out}")
    return True


def _of_values(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return checksum_of(text.encode())


def note_unsealed(files: Sequence[Path]) -> None:
    """Warn once that files have no checksum."""
    if files:
        more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
        verb, it = ("have", "them") if more else ("has", "it")
        warnings.warn(
            f"{files[0]}{more}: {verb} no checksum (an older fedcell wrote {it}, or it was "
            f"removed): changed numbers in {it} are not noticed",
            FedcellWarning,
            stacklevel=3,
        )


class Chain:
    """The checksums of the lines of a table, each chained to the line before; the first to the
    header."""

    def __init__(self, header: str) -> None:
        self._last = crc32(header.encode())

    def line(self, content: str) -> str:
        """Return a line of a table, without its end, with its checksum as the last cell."""
        self._last = crc32(content.encode(), self._last)
        return f"{content},{self._last:08x}"

    def checked(self, line: str) -> str:
        """Return a line without its checksum; raise ValueError if that does not match."""
        content, _, _ = line.rpartition(",")
        if self.line(content) != line:
            raise ValueError
        return content
