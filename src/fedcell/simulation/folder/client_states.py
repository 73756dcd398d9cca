"""What clients remember in the folder of a run: a file for each client, named by its last round.

A file is written before the checkpoint that names it, and files that no checkpoint names any more
are removed after it: a kill at any moment leaves the files of the last checkpoint.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import write_file
from fedcell.core.files.npz import Arrays, read_npz
from fedcell.core.types import Ints

STATES = "clients"  # folder of the files, and their list in checkpoint.npz: (client, round) each


class ClientStates:
    """The files of what clients remember."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / STATES
        self._saved: dict[int, tuple[int, Any]] = {}  # round of the file, and what it holds

    def save(self, memory: Mapping[int, Any], round: int) -> Ints:
        """Write what changed since the last time. Return the list for checkpoint.npz."""
        for client, state in memory.items():
            if client not in self._saved or self._saved[client][1] is not state:
                self._write(client, round, state)
                self._saved[client] = (round, state)
        listed = [(client, self._saved[client][0]) for client in sorted(memory)]
        return np.array(listed, np.int64).reshape(-1, 2)

    def tidy(self) -> None:
        """Remove files that the last checkpoint does not name."""
        named = {self._path(client, round) for client, (round, _) in self._saved.items()}
        with suppress(OSError):
            for path in self._folder.glob("*.npz"):
                if path not in named:
                    path.unlink()

    def load(self, listed: Ints) -> dict[int, Any]:
        """Return what clients remember, by the list of a checkpoint."""
        for client, round in listed.tolist():
            self._saved[client] = (round, self._read(self._path(client, round)))
        return {client: state for client, (_, state) in self._saved.items()}

    def _path(self, client: int, round: int) -> Path:
        return self._folder / f"{client}-{round}.npz"

    def _write(self, client: int, round: int, state: Any) -> None:
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise BadFile(f"{self._folder}: cannot be made: {error.strerror or error}") from error
        arrays = {"state": state, "checksum": np.int64(crc32(state.tobytes()))}

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, **arrays)

        write_file(self._path(client, round), write)

    @staticmethod
    def _read(path: Path) -> Any:
        def check(announced: Arrays) -> None:
            if announced["state"].dtype != np.uint8 or announced["state"].ndim != 1:
                raise BadInput("does not hold what a client remembers")

        try:
            arrays = read_npz(path, ("state", "checksum"), check)
            if int(arrays["checksum"]) != crc32(arrays["state"].tobytes()):
                raise BadInput("has another checksum")
        except BadInput as error:
            raise BadFile(
                f"{path}: is damaged, and the run cannot be resumed to the same bits: delete its "
                "checkpoint.npz to start it again"
            ) from error
        return arrays["state"]
