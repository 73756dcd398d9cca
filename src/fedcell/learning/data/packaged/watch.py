"""Smartwatch recordings of ten people, both arms: twenty devices with data of their own.

The package seglearn (BSD licence) carries 140 recordings at 50 Hz of three accelerations and three
angular velocities: seven shoulder exercises of ten people, with a watch on the left arm and with
one on the right (D. Burns et al., arXiv 1802.01489). A window of two seconds becomes 51 statistics,
and its exercise is the class.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadFile
from fedcell.core.files.npz import Arrays
from fedcell.core.types import Array, Bools, Floats, Ints
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.data.sources import Content

from .installed import package_folder, read_known, write_npz
from .unpickle import unpickle_npy

INSTALL = "pip install 'fedcell[watch]'"
VERSION = "1.2.5"
FILE = "seglearn/data/watch_dataset.npy"  # one pickled dictionary
CONTENT = Content(18_118_091, "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537")
EXERCISES = ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")  # the classes; codespell:ignore abd
ARMS = ("left", "right")
RATE = 50  # [1/s]
WINDOW, HOP = 2 * RATE, RATE  # samples: two seconds, one second from each to the next
FIRST = 0.7  # of each recording is for training
SIGNALS = ("ax", "ay", "az", "wx", "wy", "wz", "|a|", "|w|")
OF_EACH = ("mean", "deviation", "least", "greatest", "mean step", "crossings of the mean")
PAIRS = ((0, 1), (0, 2), (1, 2))  # of accelerations, for correlations
FEATURES = (
    *(f"{what} of {signal}" for what in OF_EACH for signal in SIGNALS),
    *(f"correlation of {SIGNALS[i]} and {SIGNALS[j]}" for i, j in PAIRS),
)


@dataclass(frozen=True, eq=False)
class WatchWindows:
    """Windows of smartwatch recordings as statistics. `watch_windows` reads them.

    A window lies in the first 70 % of its recording, for training, or in the rest; no sample is in
    both.

    Attributes
    ----------
    x : array of float, (window, 51)
        The statistics that `FEATURES` names, in the units of the recording.
    y : array of int, (window,)
        The exercise, an index into `EXERCISES`.
    person : array of int, (window,)
        1 to 10.
    arm : array of int, (window,)
        0: left, 1: right.
    training : array of bool, (window,)
        Whether it lies in the first 70 % of its recording.
    """

    x: Array
    y: Ints
    person: Ints
    arm: Ints
    training: Bools

    @cached_property
    def device(self) -> tuple[str, ...]:
        """The name of the watch of each window, as person-3-left."""
        pairs = zip(self.person.tolist(), self.arm.tolist(), strict=True)
        return tuple(f"person-{person}-{ARMS[arm]}" for person, arm in pairs)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all watches, by person."""
        return tuple(dict.fromkeys(self.device))

    def standardised(self, by: Bools) -> Floats:
        """Return x with mean 0 and deviation 1 over the windows `by`, (window,) of bool."""
        mean, deviation = self.x[by].mean(0), self.x[by].std(0)
        standard: Floats = ((self.x - mean) / deviation).astype(np.float32)
        return standard

    def split(self, train: Bools, test: Bools, name: str = "watch") -> Dataset:
        """Return a dataset with the watches as owners.

        Parameters
        ----------
        train, test : array of bool, (window,)
            The windows to train with, which also standardise all, and to test with.
        name : str
            Name of the dataset.
        """
        x, owner = self.standardised(train), np.array(self.device)
        return Dataset.of(
            x_train=x[train],
            y_train=self.y[train],
            x_test=x[test],
            y_test=self.y[test],
            owner=owner[train],
            name=name,
        )

    def __repr__(self) -> str:
        return (
            f"<WatchWindows: {len(self.y)} windows of {len(self.devices)} watches, "
            f"{int(self.training.sum())} for training>"
        )


def watch_windows(folder: str | Path | None = None) -> WatchWindows:
    """Read the smartwatch recordings of the package seglearn 1.2.5 and cut them into windows.

    The recordings are a pickle. Its SHA-256 is checked first, and it is read by an unpickler that
    only makes arrays; neither the pickle nor the package runs code.

    Parameters
    ----------
    folder : str or Path, optional
        The folder that holds the package's folder, seglearn. Default: where it is installed.

    Returns
    -------
    WatchWindows
        The windows, by person, arm and recording.

    Raises
    ------
    DataUnavailable
        If seglearn is not installed.
    BadFile
        If its file is another one.
    """
    home = package_folder("seglearn", VERSION, INSTALL) if folder is None else Path(folder)
    file = home / FILE
    raw = read_known(file, CONTENT, f"seglearn {VERSION}")
    try:
        held = unpickle_npy(raw)
    except ValueError as error:
        raise BadFile(f"{file}: {error}") from error
    parts: list[tuple[Array, tuple[int, int, int, bool]]] = []
    people, arms = np.asarray(held["subject"]), np.asarray(held["side"]).astype(int)
    for i in np.lexsort((held["y"], arms, people)):  # by person, then arm, then exercise
        series, about = held["X"][i], (int(held["y"][i]), int(people[i]), int(arms[i]))
        cut = int(FIRST * len(series))
        parts += [(statistics(series[:cut]), (*about, True))]
        parts += [(statistics(series[cut:]), (*about, False))]
    y, person, arm, training = (
        np.repeat([about[k] for _, about in parts], [len(x) for x, _ in parts]) for k in range(4)
    )
    return WatchWindows(np.concatenate([x for x, _ in parts]), y, person, arm, training)


def statistics(series: Array) -> Array:
    """Return the 51 statistics of each window of a recording.

    Parameters
    ----------
    series : array, (sample, 6)
        Accelerations and angular velocities, at 50 Hz.

    Returns
    -------
    array, (window, 51)
        In the order of `FEATURES`; no window where the recording is shorter than one.
    """
    if len(series) < WINDOW:
        return np.zeros((0, len(FEATURES)))
    norms = [np.linalg.norm(series[:, part], axis=1) for part in (slice(3), slice(3, 6))]
    signals = np.column_stack([series, *norms])
    windows = np.lib.stride_tricks.sliding_window_view(signals, WINDOW, axis=0)[::HOP]
    centred = windows - windows.mean(-1, keepdims=True)  # (window, signal, sample)
    deviation = windows.std(-1)
    above = centred > 0
    of_each = (
        windows.mean(-1),
        deviation,
        windows.min(-1),
        windows.max(-1),
        np.abs(np.diff(windows)).mean(-1),
        (above[..., 1:] != above[..., :-1]).mean(-1),
    )
    products = [
        (centred[:, i] * centred[:, j]).mean(-1) / (deviation[:, i] * deviation[:, j])
        for i, j in PAIRS
    ]
    return np.column_stack([*of_each, *products])


def watch_arrays(windows: WatchWindows) -> Arrays:
    """Return what `fedcell data watch` writes: the arrays of a dataset with owners by name."""
    data = windows.split(windows.training, ~windows.training)
    assert data.owner is not None
    flat = {part: getattr(data, part).reshape(-1, len(FEATURES)) for part in ("x_train", "x_test")}
    return {
        "x_train": flat["x_train"],
        "y_train": data.y_train,
        "x_test": flat["x_test"],
        "y_test": data.y_test,
        "owner": data.owner,
    }


def write_watch(path: str | Path) -> Dataset:
    """Write the windows of all watches to an .npz and return them as a dataset.

    Parameters
    ----------
    path : str or Path
        The file, which ends in .npz.

    Returns
    -------
    Dataset
        With the names of the watches as owners.

    Raises
    ------
    DataUnavailable
        If the package seglearn is not installed.
    """
    path = Path(path)
    arrays = watch_arrays(watch_windows())
    write_npz(path, arrays)
    return Dataset.of(name=path.stem, **arrays)
