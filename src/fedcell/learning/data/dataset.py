"""What is learnt from: digits that come with fedcell, published datasets, the user's own."""

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from fedcell.core.errors import BadInput
from fedcell.core.files import naming
from fedcell.core.schema import suggestion

from .decode import PUBLISHED, decoded, standard
from .download import Arrays, Report

MOST_CLASSES = 10_000  # a larger label is taken for a mistake
NAMES = ("digits", *PUBLISHED)
PARTS = ("x_train", "y_train", "x_test", "y_test")

Images = NDArray[np.uint8 | np.float32]
Labels = NDArray[np.int64]
PerChannel = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples, read-only: x is (sample, height, width, channel), y is (sample,).

    A model is fed x * scale + shift, which standardises each channel of uint8 by the
    samples to train with, and leaves float32 as it is. `Dataset.of` makes and checks one.

    >>> x, y = np.zeros((6, 8, 8), np.uint8), [0, 1, 2, 0, 1, 2]
    >>> data = Dataset.of(x_train=x, y_train=y, x_test=x[:3], y_test=y[:3])
    >>> data.classes, data.image
    (3, (8, 8, 1))
    """

    name: str
    x_train: Images
    y_train: Labels  # whole numbers from 0
    x_test: Images
    y_test: Labels
    scale: PerChannel  # (channel,)
    shift: PerChannel
    fingerprint: str  # of the content, by which a resumed run tells other data

    def __post_init__(self) -> None:
        for name in (*PARTS, "scale", "shift"):
            view = np.asarray(getattr(self, name)).view()  # of an array that may be the user's
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def classes(self) -> int:
        return int(max(self.y_train.max(), self.y_test.max())) + 1

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        _, height, width, channels = self.x_train.shape
        return height, width, channels

    @classmethod
    def of(
        cls, *, x_train: Any, y_train: Any, x_test: Any, y_test: Any, name: str = "mine"
    ) -> Self:
        """A dataset from arrays, which are not copied where they can be used as they are.

        x is (sample, feature), (sample, height, width) or (sample, height, width, channel);
        uint8 stays so and is standardised, other numbers become float32 and must be finite.
        y is whole numbers from 0.
        """
        faults: list[str] = []
        given = dict(zip(PARTS, (x_train, y_train, x_test, y_test), strict=True))
        arrays: Arrays = {}
        for part, values in given.items():
            try:
                arrays[part] = (_images if part[0] == "x" else _labels)(part, values)
            except BadInput as error:
                faults += error.faults
        faults = faults or _disagreements(arrays)
        if faults:
            raise BadInput(*faults)
        x = arrays["x_train"]
        one = np.ones(x.shape[-1:], np.float32)
        as_is = {"scale": one, "shift": 0 * one}
        arrays |= standard(x) if x.dtype == np.uint8 else as_is
        return cls(name=name, fingerprint=_fingerprint(arrays), **arrays)


def load_data(
    name: str | Path,
    folder: Path | None = None,
    *,
    mirror: str | None = None,
    report: Report | None = None,
) -> Dataset:
    """A dataset by its name, one of `NAMES`, or from the path of an .npz file.

    The file holds x_train, y_train, x_test and y_test, as for `Dataset.of`. Published
    datasets are looked for in `folder`, else $FEDCELL_DATA, else the user's cache directory,
    laid out as in `PUBLISHED`, which is also how torchvision does it. What is missing is
    downloaded, from `mirror` or $FEDCELL_MIRROR if given, and `report` hears of each block.
    """
    if str(name).lower().endswith(".npz"):
        return _read_npz(Path(name))
    if name == "digits":
        return _digits()
    if (source := PUBLISHED.get(str(name))) is None:
        hint = suggestion(str(name), NAMES)
        raise BadInput(f"{name} is not a dataset: {hint}; your own is named by its .npz file")
    arrays = decoded(source, folder, mirror, report)
    return Dataset(name=source.name, fingerprint=source.fingerprint, **arrays)


def _digits() -> Dataset:
    """The 1,797 digits, 8 by 8, that are known from scikit-learn; of each, every sixth a test.

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
    with naming(path):
        try:
            with path.open("rb") as file, NpzFile(file, allow_pickle=False) as arrays:
                names = list(arrays)
                given = {part: arrays[part] for part in PARTS if part in names}
        except OSError as error:
            raise BadInput(f"cannot be read: {error.strerror or error}") from error
        except Exception as error:  # zip, zlib and numpy each have errors of their own
            raise BadInput(f"is not a sound .npz file of arrays: {error}") from error
        if missing := [part for part in PARTS if part not in given]:
            raise BadInput(f"has no {', '.join(missing)}: it holds {', '.join(names) or 'nothing'}")
        return Dataset.of(**given, name=path.stem)


def _numbers(name: str, given: Any) -> NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray):
        raise BadInput(f"{name} has masked values: fill them in first")
    try:
        values = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise BadInput(f"{name} is not an array: {error}") from error
    if values.dtype.kind not in "fiu":
        raise BadInput(f"{name} holds {values.dtype}: expected real numbers")
    if values.size == 0:
        raise BadInput(f"{name} has shape {values.shape}: expected at least one sample")
    return values


def _images(name: str, given: Any) -> NDArray[Any]:
    """(sample, height, width, channel) in uint8 or finite float32."""
    x = _numbers(name, given)
    if x.ndim == 2:
        x = x[:, None, :, None]
    elif x.ndim == 3:
        x = x[..., None]
    elif x.ndim != 4:
        raise BadInput(
            f"{name} has shape {x.shape}: expected (sample, feature), "
            "(sample, height, width) or (sample, height, width, channel)"
        )
    x = np.ascontiguousarray(x)  # as the engine is compiled for
    if x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):  # what is too large becomes infinite and is named
        x = x.astype(np.float32, copy=False)
    sound = np.isfinite(x).all(axis=(1, 2, 3))
    if not sound.all():
        raise BadInput(
            f"{name}: sample {np.argmin(sound)} has a value that is not a finite float32"
        )
    return x


def _labels(name: str, given: Any) -> Labels:
    y = _numbers(name, given)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise BadInput(f"{name} has shape {y.shape}: expected (sample,)")
    sound = (y >= 0) & (y < MOST_CLASSES) & (y == np.floor(y))
    if not sound.all():
        i = np.argmin(sound)
        raise BadInput(
            f"{name}: sample {i} has the label {y[i]}: "
            f"expected a whole number from 0 to {MOST_CLASSES - 1}"
        )
    return y.astype(np.int64, copy=False)


def _disagreements(arrays: Arrays) -> list[str]:
    """What is wrong between arrays that are each right."""
    x, x_test = arrays["x_train"], arrays["x_test"]
    faults = [
        f"{b} has {len(arrays[b])} labels for the {len(arrays[a])} samples of {a}"
        for a, b in (PARTS[:2], PARTS[2:])
        if len(arrays[a]) != len(arrays[b])
    ]
    if x.shape[1:] != x_test.shape[1:]:
        faults.append(f"x_test has samples of shape {x_test.shape[1:]}, x_train {x.shape[1:]}")
    if x.dtype != x_test.dtype:  # they would be fed at different scales
        faults.append(f"x_test is {x_test.dtype} and x_train {x.dtype}: give both alike")
    return faults


def _fingerprint(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {arrays[part].dtype} {arrays[part].shape} ".encode())
        digest.update(np.ascontiguousarray(arrays[part]).data)
    return digest.hexdigest()[:16]
