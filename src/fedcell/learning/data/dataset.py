"""Datasets: the digits that come with fedcell, published ones, installed ones and your own."""

import hashlib
import warnings
from dataclasses import InitVar, dataclass
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fedcell.core.errors import BadInput, DataUnavailable, FedcellWarning, printable
from fedcell.core.files.formats import naming
from fedcell.core.files.npz import Arrays, array_names, read_npz
from fedcell.core.schema import suggestion

from .cache import decoded
from .checks import (
    PARTS,
    Labels,
    as_images,
    as_labels,
    as_numbers,
    check_shapes,
    doubts,
    each,
    note_unused,
)
from .decode import standard
from .download import Report
from .folder import read_folder
from .owners import Owner, as_owner, check_owner_shape
from .plugins import dataset_by_plugin, installed_datasets
from .sources import PUBLISHED

NAMES = ("digits", *PUBLISHED)
PACKAGED = {"watch.npz": "write_watch", "shakespeare.npz": "write_shakespeare"}  # by file
OWNER = "owner"  # the array of an .npz with the client of each training sample

Images = NDArray[np.uint8 | np.float32]
PerChannel = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples, read-only. `Dataset.of` makes and checks one from arrays.

    A model is fed x * scale + shift, which standardises each channel of uint8 by the training
    samples, and leaves float32 as it is.

    Attributes
    ----------
    name : str
        Name of the dataset.
    x_train, x_test : array of uint8 or float32, (sample, height, width, channel)
        The samples.
    y_train, y_test : array of int64, (sample,)
        The classes, whole numbers from 0.
    scale, shift : array of float32, (channel,)
        The standardisation.
    owner : array, (training sample,), optional
        The client of each training sample: its number or name; -1 or an empty name for none.

    Examples
    --------
    >>> x, y = np.eye(6, 64).reshape(6, 8, 8), [0, 1, 2, 0, 1, 2]
    >>> owner = ["pump-1"] * 4 + ["pump-2"] * 2
    >>> data = Dataset.of(x_train=x, y_train=y, x_test=x[:3], y_test=y[:3], owner=owner)
    >>> data.classes, data.image
    (3, (8, 8, 1))
    """

    name: str
    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    scale: PerChannel
    shift: PerChannel
    owner: Owner | None = None
    published: InitVar[str | None] = None  # the fingerprint of published content

    def __post_init__(self, published: str | None) -> None:
        """Check the arrays: the kernels check nothing."""
        # Not a field: with other arrays by `dataclasses.replace` it is another dataset.
        object.__setattr__(self, "_published", published)
        arrays: Arrays = {part: as_numbers(part, getattr(self, part)) for part in PARTS}
        check_shapes(arrays)
        for part, values in arrays.items():
            if part[0] == "y":
                arrays[part] = as_labels(part, values)
            elif values.ndim != 4 or values.dtype != arrays["x_train"].dtype:
                raise BadInput(f"{part} has {values.ndim} axes of {values.dtype}: use Dataset.of")
            else:
                arrays[part] = as_images(part, values)
        kind = arrays["x_train"].dtype
        if kind not in (np.uint8, np.float32) or not kind.isnative:
            raise BadInput(f"x_train holds {kind}: use Dataset.of, which makes it float32")
        for name in ("scale", "shift"):
            values = as_numbers(name, getattr(self, name)).astype(np.float32, copy=False)
            if values.shape != arrays["x_train"].shape[3:] or not np.isfinite(values).all():
                raise BadInput(
                    f"{name} has shape {values.shape}: expected a finite number for each channel"
                )
            arrays[name] = values
        for name, values in arrays.items():
            view = np.ascontiguousarray(values).view()  # the array may be the user's
            if name[0] == "y":
                values.flags.writeable = False  # a copy
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if self.owner is not None:
            owner = as_owner(self.owner, len(self.y_train))
            owner.flags.writeable = False
            object.__setattr__(self, "owner", owner)

    @cached_property
    def fingerprint(self) -> str:
        """Checksum of the samples, which identifies the data of a run; without owners."""
        known: str | None = getattr(self, "_published", None)
        return known or _fingerprint({part: getattr(self, part) for part in PARTS})

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(max(self.y_train.max(), self.y_test.max())) + 1

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        _, height, width, channels = self.x_train.shape
        return height, width, channels

    def __repr__(self) -> str:
        counts = f"{len(self.y_train)} training and {len(self.y_test)} test samples"
        pixels = " x ".join(map(str, self.image))
        owners = "" if self.owner is None else f", {np.unique(self.owner).size} owners"
        kind = f"{pixels} {self.x_train.dtype}, {self.classes} classes{owners}"
        return f"<Dataset {printable(self.name)}: {counts} of {kind}>"

    @classmethod
    def of(
        cls,
        *,
        x_train: Any,
        y_train: Any,
        x_test: Any,
        y_test: Any,
        owner: Any = None,
        name: str = "mine",
    ) -> Self:
        """Return a dataset from arrays, which are copied only where they must be converted.

        Data that is hard to learn from is reported in a FedcellWarning.

        Parameters
        ----------
        x_train, x_test : array
            (sample, feature), (sample, height, width) or (sample, height, width, channel). uint8 is
            standardised; other numbers become float32 and must be finite.
        y_train, y_test : array of int, (sample,)
            The classes, whole numbers from 0.
        owner : array of int or str, (training sample,), optional
            The client of each training sample; -1 or an empty name for none.
        name : str
            Name of the dataset.

        Raises
        ------
        BadInput
            If the arrays do not fit each other, with every reason.
        """
        given: Arrays = dict(zip(PARTS, (x_train, y_train, x_test, y_test), strict=True))
        given = each({part: partial(as_numbers, part, values) for part, values in given.items()})
        check_shapes(given)
        as_part: dict[str, Any] = {"x": as_images, "y": as_labels}
        arrays = each({part: partial(as_part[part[0]], part, x) for part, x in given.items()})
        if arrays["x_train"].dtype != arrays["x_test"].dtype:  # they would be fed at two scales
            kinds = arrays["x_test"].dtype, arrays["x_train"].dtype
            raise BadInput("x_test is {} and x_train {}: give both alike".format(*kinds))
        x = arrays["x_train"]
        one = np.ones(x.shape[-1:], np.float32)
        as_is = {"scale": one, "shift": 0 * one}
        arrays |= standard(x) if x.dtype == np.uint8 else as_is
        made = cls(name=name, owner=owner, published=None, **arrays)
        for doubt in doubts(made.x_train, made.y_train, made.y_test):
            warnings.warn(f"{name}: {doubt}", FedcellWarning, stacklevel=2)
        return made


def load_data(
    name: str | Path,
    folder: Path | None = None,
    *,
    mirror: str | None = None,
    report: Report | None = None,
) -> Dataset:
    """Load a dataset by its name or path.

    Parameters
    ----------
    name : str or Path
        One of `NAMES`; the path of an .npz with x_train, y_train, x_test, y_test and perhaps owner,
        as for `Dataset.of`; the path of a folder with test.npz and an .npz with x and y for each
        client; or a name that an installed package adds to the entry points "fedcell.datasets".
    folder : Path, optional
        The data directory, else $FEDCELL_DATA, else the user's cache directory. Published datasets
        are laid out in it as torchvision does, and missing files are downloaded.
    mirror : str, optional
        The address of a copy of the published files, else $FEDCELL_MIRROR.
    report : callable, optional
        Called with file, bytes so far and bytes in total for each downloaded block.

    Returns
    -------
    Dataset

    Raises
    ------
    BadInput
        If there is no such dataset, or its arrays cannot be used.
    DataUnavailable
        If a published file is missing and cannot be downloaded, or one that is made from an
        installed package.
    """
    if name == "digits":
        return _digits()
    if (source := PUBLISHED.get(str(name))) is None:
        path = Path(name)
        if path.is_dir():
            with naming(path):
                return Dataset.of(**read_folder(path), name=path.name or "mine")
        if path.name in PACKAGED and not path.exists():
            raise DataUnavailable(f"{path} is not here: make it with `{PACKAGED[path.name]}`")
        if path.suffix.lower() == ".npz":
            return _read_npz(path)
        return _installed(str(name), folder)
    arrays = decoded(source, folder, mirror, report)
    return Dataset(name=source.name, published=source.fingerprint, **arrays)


def _installed(name: str, folder: Path | None) -> Dataset:
    """Return a dataset that an installed package adds."""
    if name not in (installed := installed_datasets()):
        hint = suggestion(name, [*NAMES, *installed])
        raise BadInput(
            f"{name} is not a dataset: {hint}; your own is named by its .npz file, or by its folder"
        )
    made = dataset_by_plugin(name, folder)
    if not isinstance(made, Dataset):
        raise BadInput(f"the dataset {name} is a {type(made).__name__}: expected a Dataset")
    return made


def _digits() -> Dataset:
    """Return the 1,797 digits, 8 by 8, known from scikit-learn; every sixth of a class is a test.

    E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, 1998, https://doi.org/10.24432/C50P49, CC BY 4.0; the test part, as uint8.
    """
    file = resources.files(__package__) / "digits.npz"
    with file.open("rb") as opened, NpzFile(opened) as arrays:
        x, y = arrays["x"], arrays["y"]
    test = np.zeros(len(y), bool)
    for label in range(10):
        test[np.flatnonzero(y == label)[5::6]] = True
    return Dataset.of(
        x_train=x[~test], y_train=y[~test], x_test=x[test], y_test=y[test], name="digits"
    )


def _read_npz(path: Path) -> Dataset:
    def check(announced: Arrays) -> None:
        check_shapes({part: announced[part] for part in PARTS})
        if OWNER in announced:
            check_owner_shape(announced[OWNER], len(announced["y_train"]))

    with naming(path):
        arrays = read_npz(path, PARTS, check, optional=(OWNER,))
        note_unused(path, array_names(path), (*PARTS, OWNER))
        return Dataset.of(**arrays, name=path.stem)


def file_stamp(dataset: str) -> tuple[tuple[str, int, int], ...]:
    """Return a value that changes with the files of a dataset; empty for names."""
    path = Path(dataset)
    if dataset in NAMES or not path.exists():
        return ()
    files = path.glob("*") if path.is_dir() else [path]
    states = [(file.name, file.stat()) for file in sorted(files) if file.is_file()]
    return tuple((name, state.st_mtime_ns, state.st_size) for name, state in states)


def _fingerprint(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {arrays[part].dtype} {arrays[part].shape} ".encode())
        digest.update(np.ascontiguousarray(arrays[part]).data)
    return digest.hexdigest()[:16]
