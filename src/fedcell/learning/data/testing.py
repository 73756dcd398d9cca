"""Check a dataset of your own: call `check_dataset` in a test."""

from pathlib import Path
from typing import Any

import numpy as np

from .checks import doubts
from .dataset import Dataset
from .download import data_folder
from .plugins import DatasetFactory


def check_dataset(factory: DatasetFactory, folder: Path | None = None) -> None:
    """Check that a dataset factory keeps its contract.

    It must return a `Dataset` with at least two classes, all of them in the training samples, with
    inputs that a network can learn from, and the same samples at each call.

    Parameters
    ----------
    factory : DatasetFactory
        The callable under test.
    folder : Path, optional
        The data directory that it is given; the default one where left out.

    Raises
    ------
    AssertionError
        If the contract is broken, with the reason.

    Examples
    --------
    >>> from fedcell.learning.data.dataset import load_data
    >>> check_dataset(lambda folder: load_data("digits", folder))
    """
    chosen = data_folder(folder)
    data = factory(chosen)
    if not isinstance(data, Dataset):
        raise AssertionError(f"the factory made a {type(data).__name__}: expected a Dataset")
    if np.unique(data.y_train).size < 2:
        raise AssertionError(f"{data.name}: the training samples have one class: expected two")
    if reasons := doubts(data.x_train, data.y_train, data.y_test):
        raise AssertionError(f"{data.name}: {'; '.join(reasons)}")
    again = factory(chosen)
    if not isinstance(again, Dataset) or again.fingerprint != data.fingerprint:
        raise AssertionError(f"{data.name}: the second call made other samples")
    owners: list[Any] = [[] if each.owner is None else each.owner for each in (data, again)]
    if not np.array_equal(*owners):
        raise AssertionError(f"{data.name}: the second call made other owners")
