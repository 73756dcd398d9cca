"""Datasets of other packages, by entry points of the group "fedcell.datasets"."""

from pathlib import Path
from typing import Any, Protocol

from fedcell.core.callables import blaming
from fedcell.core.errors import BadInput
from fedcell.core.plugins import load_plugin, plugin_names

from .download import data_folder

DATASET_GROUP = "fedcell.datasets"


class DatasetFactory(Protocol):
    """Makes a dataset.

    A package adds one under a name, which a scenario gives as `learning.dataset`::

        [project.entry-points."fedcell.datasets"]
        femnist = "leaf_data.femnist:load"

    `check_dataset` tests whether a factory keeps this contract.
    """

    def __call__(self, folder: Path) -> Any:
        """Return the dataset.

        Parameters
        ----------
        folder : Path
            The data directory: `data_dir`, else $FEDCELL_DATA, else the user's cache directory. It
            need not exist.

        Returns
        -------
        Dataset
            The same samples at each call: runs are identified by their content.
        """
        ...


def installed_datasets() -> list[str]:
    """Return the names that installed packages add; no plugin is imported."""
    return plugin_names(DATASET_GROUP)


def dataset_by_plugin(name: str, folder: Path | None) -> Any:
    """Return what the factory of a name makes; the caller checks it."""
    factory = load_plugin(DATASET_GROUP, name)
    if not callable(factory):
        raise BadInput(f"the dataset {name} cannot be called: expected a DatasetFactory")
    with blaming(f"the dataset {name} cannot be made"):
        return factory(data_folder(folder))
