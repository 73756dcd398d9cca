"""Load a panel: whole or rough, in the paper's regime or another, all of its datasets or one."""

import copy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.experiments.experiment import Experiment, experiment_of

from .catalogue import PANELS, REGIMES

SETS = ("MNIST", "CIFAR-10")  # variants that a rough version replaces by digits
# A rough version on the digits that come with the package: fewer points, a few seeds.
QUICK_SEEDS = 4
QUICK_VALUES = {
    "plan.cohort": [3, 5, 7, 10, 14, 20],
    "plan.local_steps": [1, 5, 20, 80],
    "clients.count": [50, 100],
}


@dataclass(frozen=True, kw_only=True)
class Edition:
    """Which edition of a panel is run.

    Attributes
    ----------
    quick : bool
        Whether it is the rough version, on digits with few seeds.
    regime : str or None
        One of `REGIMES`, in place of the choices of the panel.
    only : str or None
        A dataset, or another variant of the panel, that is run alone.
    """

    quick: bool = False
    regime: str | None = None
    only: str | None = None

    def __post_init__(self) -> None:
        for name in ("regime", "only"):
            if self.quick and getattr(self, name) is not None:
                raise BadInput(f"`{name}`: leave it out with `quick`, which runs digits alone")
        if self.regime is not None and self.regime not in REGIMES:
            raise BadInput(f"{self.regime} is not a regime: {suggestion(self.regime, REGIMES)}")

    def folder(self, panel: str) -> Path:
        """Return where results of a panel belong, within a folder of all."""
        name = panel if self.only is None else f"{panel}-{self.only}"
        return Path(name) if self.regime is None else Path(self.regime, name)


def panel_text(name: str) -> str:
    """Return the text of a panel's file."""
    if name not in PANELS:
        raise BadInput(f"{name} is not a panel: {suggestion(name, PANELS)}")
    return (resources.files(__package__) / "panels" / f"{name}.toml").read_text("utf-8")


def load_panel(name: str, quick: bool = False) -> Experiment:
    """Return the experiment of a panel, in the regime of the page.

    Parameters
    ----------
    name : str
        One of `PANELS`, such as "fig3a".
    quick : bool
        Whether to return the rough version, on digits with few seeds.

    Examples
    --------
    >>> len(load_panel("fig3c").points), len(load_panel("fig3c", quick=True).points)
    (14, 4)
    """
    return load_edition(name, Edition(quick=quick))


def load_edition(name: str, edition: Edition) -> Experiment:
    """Return the experiment of an edition of a panel."""
    given = tomllib.loads(panel_text(name))
    if edition.quick:
        return experiment_of(_quick(given), Path())
    if edition.regime is not None:
        given = _in_regime(given, name, edition.regime)
    if edition.only is not None:
        given = _with_variant(given, name, edition.only)
    return experiment_of(given, Path())


def panels_of(edition: Edition) -> list[str]:
    """Return the panels that have an edition."""
    known = PANELS if edition.regime is None else regime_tables(edition.regime)["panels"]
    return [name for name in known if edition.only in (None, *_variants(name))]


def _variants(panel: str) -> list[str]:
    """Return the names of a panel's variants, which are its datasets in most."""
    return [one["name"] for one in tomllib.loads(panel_text(panel)).get("variant", ())]


def regime_tables(name: str) -> dict[str, Any]:
    """Return the tables of a regime: its title, panels, seeds and settings."""
    text = (resources.files(__package__) / "panels" / "regimes" / f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def _in_regime(given: Mapping[str, Any], panel: str, name: str) -> dict[str, Any]:
    """Return a panel in a regime: its variants with other settings, at fewer points."""
    regime = regime_tables(name)
    if panel not in regime["panels"]:
        known = ", ".join(regime["panels"])
        raise BadInput(f"{panel} has no edition in the regime {name}: give any of {known}")
    variants = [
        _merged(one, regime["variant"][one["name"]])
        for one in given["variant"]
        if one["name"] in regime["variant"]
    ]
    settings = regime["settings"].get(panel, {})
    title = f"{given['title']}, {regime['title']}"
    return _merged(given, settings) | {
        "title": title,
        "seeds": regime["seeds"],
        "variant": variants,
    }


def _merged(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with those of `more` in them, a partition as a whole."""
    merged = copy.deepcopy(dict(given))
    for key, value in more.items():
        inside = isinstance(value, dict) and key != "partition"
        merged[key] = _merged(merged.get(key, {}), value) if inside else value
    return merged


def _with_variant(given: Mapping[str, Any], panel: str, only: str) -> dict[str, Any]:
    """Return a panel with one of its variants; refuse a name that it does not have."""
    names = [one["name"] for one in given.get("variant", ())]
    if not names:
        raise BadInput(f"`only`: {panel} has no datasets, leave it out")
    if only not in names:
        raise BadInput(f"`only` = {only}: is not in {panel}; {suggestion(only, names)}")
    chosen = [one for one in given["variant"] if one["name"] == only]
    return {**given, "title": f"{given['title']}: {only}", "variant": chosen}


def _quick(given: dict[str, Any]) -> dict[str, Any]:
    """Return the rough version: digits instead of images, and few seeds."""
    rough = copy.deepcopy(given)
    rough["seeds"] = QUICK_SEEDS
    if "variant" not in rough:
        return rough
    for name, values in QUICK_VALUES.items():
        table, key = name.split(".")
        if isinstance(rough[table][key], list) and len(rough[table][key]) > 3:
            rough[table][key] = values
    variants = {
        "digits" if one["name"] in SETS else one["name"]: _quick_learning(one["learning"])
        for one in reversed(rough["variant"])  # of two sets, the first is taken
    }
    alike = all(learning["partition"]["kind"] == "iid" for learning in variants.values())
    return rough | {
        "title": f"{rough['title']}, roughly, on digits",
        "scenario": "digits",
        "rounds": 100,
        "learning": {"deliver": "last", "rate": 0.1, "target": 0.3 if alike else 0.5, "hold": 1},
        "variant": [
            {"name": name, "learning": learning} for name, learning in reversed(variants.items())
        ],
    }


def _quick_learning(given: dict[str, Any]) -> dict[str, Any]:
    kept = {"rate_decay": given["rate_decay"]} if "rate_decay" in given else {}
    return kept | {"partition": _quick_partition(given["partition"])}


def _quick_partition(partition: dict[str, Any]) -> dict[str, Any]:
    if partition.get("num_classes_per_partition") == 1:  # of one class digits learn too slowly
        return partition | {"num_classes_per_partition": 2}
    if partition["kind"] == "dirichlet":  # there are too few of them to leave no client with none
        return partition | {"alpha": 0.3, "min_partition_size": 1}
    return partition
