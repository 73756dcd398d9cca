"""Files that fedcell wrote, with other values or without their checksums."""

import json
from pathlib import Path
from typing import Any

from fedcell.core.files.checksums import CHECKSUM, sealed
from fedcell.core.files.formats import as_json


def rewrite(path: Path, **changes: Any) -> None:
    """Writes other values into a JSON file, which its checksum fits."""
    content = json.loads(path.read_text()) | changes
    content.pop(CHECKSUM, None)
    path.write_text(as_json(sealed(content)))


def unseal(path: Path) -> None:
    """Takes the checksum away: the key of a JSON file, or the last column of a table."""
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        del content[CHECKSUM]
        path.write_text(as_json(content))
        return
    lines = path.read_text().splitlines()
    assert lines[0].endswith(f",{CHECKSUM}")
    path.write_text("".join(f"{line.rpartition(',')[0]}\n" for line in lines))
