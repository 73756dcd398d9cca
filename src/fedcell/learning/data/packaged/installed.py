"""Find the files of an installed package without importing it, and write what is made of them."""

import zipfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadFile, BadInput, DataUnavailable
from fedcell.core.files.formats import check_target, write_file
from fedcell.core.files.npz import Arrays
from fedcell.core.files.regular import open_regular
from fedcell.learning.data.sources import Content


def package_folder(package: str, version: str, install: str) -> Path:
    """Return the folder of an installed package; none of its code runs.

    Parameters
    ----------
    package : str
        Name of the package.
    version : str
        The version whose files are known.
    install : str
        The command that installs it, for errors.

    Raises
    ------
    DataUnavailable
        If it is not installed, or in another version.
    """
    try:
        found = distribution(package)
    except PackageNotFoundError as error:
        raise DataUnavailable(f"the package {package} is not installed: {install}") from error
    if found.version != version:
        raise DataUnavailable(
            f"the package {package} is installed in version {found.version}, and the data of "
            f"version {version} is known: {install}"
        )
    return Path(str(found.locate_file("")))


def read_known(path: Path, content: Content, of: str) -> bytes:
    """Return the bytes of a file with a known SHA-256; refuse every other file.

    Parameters
    ----------
    path : Path
        The file.
    content : Content
        Its size [byte] and its SHA-256.
    of : str
        What it belongs to, as "seglearn 1.2.5", for the error.
    """
    try:
        with open_regular(path) as file:
            raw = file.read(content.size + 1)
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) != content.size or sha256(raw).hexdigest() != content.sha256:
        raise BadFile(f"{path}: is not the file of {of}: install that version again")
    return raw


def write_npz(path: Path, arrays: Arrays) -> Path:
    """Write arrays to an .npz, whole or not at all; the same arrays give the same bytes.

    Parameters
    ----------
    path : Path
        The file, which ends in .npz.
    arrays : dict of str to array
        The arrays by name.

    Returns
    -------
    Path
        The file, links resolved.
    """
    target = check_target(path, ("npz",))
    if any(array.dtype.hasobject for array in arrays.values()):
        raise BadInput("an .npz holds numbers and texts: an array of objects would be a pickle")

    def write(aside: Path) -> None:
        # np.savez writes the time of the day beside each array.
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array, order="C"))

    write_file(target, write)
    return target
