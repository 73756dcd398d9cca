"""Names of devices bound to their public keys by a table.

Flower gives each key its own node, and the SuperLink checks the signature of the key with every
request; so another device that uses the name of a listed one is refused.
"""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile
from fedcell.core.files.formats import read_text
from fedcell.deploy.wire.profile import presentable

COLUMNS = ["name", "key"]
EXAMPLE = "pump-1,ecdsa-sha2-nistp384 AAAA..."


def read_keys(path: Path) -> Mapping[str, bytes]:
    """Read the public key of each device, by name, from a table with the columns `name` and `key`:
    the line of its .pub file, as ssh-keygen writes it."""
    text = read_text(path)
    try:
        header, *rows = csv.reader(io.StringIO(text), strict=True)
    except (ValueError, csv.Error) as error:
        raise BadFile(f"{path}: is no table: expected {','.join(COLUMNS)} first") from error
    if header != COLUMNS:
        raise BadFile(f"{path}: has other columns than {','.join(COLUMNS)}: expected {EXAMPLE}")
    keys: dict[str, bytes] = {}
    for line, row in enumerate(rows, 2):
        name, key = row if len(row) == len(COLUMNS) else ("", "")
        if not presentable(name):
            raise BadFile(f"{path}, line {line}: has no name and key: expected {EXAMPLE}")
        if not (known := _public(key)):
            raise BadFile(f"{path}, line {line}: {name} has no public key: expected {EXAMPLE}")
        if name in keys or known in keys.values():
            raise BadFile(f"{path}, line {line}: the name or the key of {name} is listed twice")
        keys[name] = known
    if not keys:
        raise BadFile(f"{path}: lists no device: expected {EXAMPLE}")
    return keys


def normalise_key(pem: bytes) -> bytes:
    """Convert a key of Flower to the form in which keys are compared; empty where it is none."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    return _comparable(load_pem_public_key, pem)


def _public(line: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    return _comparable(load_ssh_public_key, line.strip().encode())


def _comparable(load: Callable[[bytes], Any], text: bytes) -> bytes:
    """Convert a key to the form in which keys are compared; empty where the text is none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        key = load(text)
    except (ValueError, UnsupportedAlgorithm):
        return b""
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
