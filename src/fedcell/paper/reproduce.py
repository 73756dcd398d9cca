"""Reproduce a panel of the paper: run it, and give verdicts on the paper's claims."""

import copy
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import write_csv
from fedcell.core.schema import suggestion
from fedcell.core.showing import Showable
from fedcell.experiments.executors import Executor, LocalProcesses
from fedcell.experiments.experiment import Experiment, experiment_of
from fedcell.experiments.result import SweepResult
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import SweepProgress, run_sweep
from fedcell.experiments.table import FIRST, HELD, SweepTable, load_sweep

from .catalogue import PANELS, panel_verdicts
from .measurements import KIND, constants_of
from .verdicts import Verdict

SETS = ("MNIST", "CIFAR-10")  # variants that a rough version replaces by digits
# A rough version on the digits that come with the package: fewer points, a few seeds.
QUICK_SEEDS = 4
QUICK_VALUES = {
    "plan.cohort": [3, 5, 7, 10, 14, 20],
    "plan.local_steps": [1, 5, 20, 80],
    "clients.count": [50, 100],
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction(Showable):
    """A reproduced panel and its verdicts on the paper's claims.

    Attributes
    ----------
    panel : str
        Name of the panel, such as "fig3a".
    quick : bool
        Whether it is the rough version, on digits with few seeds.
    table : SweepTable
        The runs.
    verdicts : tuple of Verdict
        A verdict for each claim and dataset.
    otherwise : tuple of Verdict
        Verdicts that differ if the target must hold.
    result : SweepResult or None
        The curves; None if it was read from a folder.
    """

    panel: str
    quick: bool
    table: SweepTable
    verdicts: tuple[Verdict, ...]
    otherwise: tuple[Verdict, ...] = ()
    result: SweepResult | None = None

    @property
    def failures(self) -> Mapping[str, str]:
        """Reasons of failed trainings, by point and seed."""
        return self.table.failures

    @property
    def notes(self) -> list[str]:
        """Remarks on failed and missing runs."""
        about = self.table.about
        full = sum(len(runs) >= len(self.table.seeds) for runs in self.table.points().values())
        short = int(about.get("points", full)) - full
        words = [f"{len(self.failures)} trainings failed"] if self.failures else []
        for where, why in about.get("unmeasured", {}).items():
            words.append(f"the constants of {where} could not be measured: {why}")
        if short:
            words.append(f"{short} points lack seeds and count in no verdict")
        return words

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each verdict."""
        return [{"panel": self.panel, "quick": self.quick, **asdict(v)} for v in self.verdicts]

    def save(self, folder: Path) -> None:
        """Write the table of runs and verdicts.csv into a folder."""
        self.table.save(folder)
        if self.result is not None:
            self.result.save_ledgers(folder)
        names = ("claim", "where", "outcome", "number")
        rows = ([getattr(verdict, name) for name in names] for verdict in self.verdicts)
        write_csv(folder / "verdicts.csv", names, rows)

    def __repr__(self) -> str:
        held = sum(v.outcome == "held" for v in self.verdicts)
        return f"<Reproduction of {self.panel}: {held} of {len(self.verdicts)} claims held>"


def panel_text(name: str) -> str:
    """Return the text of a panel's file."""
    if name not in PANELS:
        raise BadInput(f"{name} is not a panel: {suggestion(name, PANELS)}")
    return (resources.files(__package__) / "panels" / f"{name}.toml").read_text("utf-8")


def load_panel(name: str, quick: bool = False) -> Experiment:
    """Return the experiment of a panel.

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
    given = tomllib.loads(panel_text(name))
    return experiment_of(_quick(given) if quick else given, Path())


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
        "digits" if one["name"] in SETS else one["name"]: _quick_partition(
            one["learning"]["partition"]
        )
        for one in reversed(rough["variant"])  # of two sets, the first is taken
    }
    target = 0.3 if all(p["kind"] == "iid" for p in variants.values()) else 0.5
    return rough | {
        "title": f"{rough['title']}, roughly, on digits",
        "scenario": "digits",
        "rounds": 100,
        "learning": {"deliver": "last", "rate": 0.1, "target": target, "hold": 1},
        "variant": [
            {"name": name, "learning": {"partition": partition}}
            for name, partition in reversed(variants.items())
        ],
    }


def _quick_partition(partition: dict[str, Any]) -> dict[str, Any]:
    if partition.get("num_classes_per_partition") == 1:  # of one class digits learn too slowly
        return partition | {"num_classes_per_partition": 2}
    if partition["kind"] == "dirichlet":  # there are too few of them to leave no client with none
        return partition | {"alpha": 0.3, "min_partition_size": 1}
    return partition


def reproduce(
    panel: str,
    store: Store,
    engine: Executor | None = None,
    *,
    quick: bool = False,
    retry: bool = False,
    seeds: int | None = None,
    data_dir: Path | None = None,
    report: Callable[[SweepProgress], None] | None = None,
) -> Reproduction:
    """Run what the store lacks of a panel, and return it with verdicts.

    Parameters
    ----------
    panel : str
        One of `PANELS`, such as "fig3a".
    store : Store
        Finished trainings, which are reused; new ones are added.
    engine : SweepEngine, optional
        Runs the trainings; local processes where left out.
    quick : bool
        Whether to run the rough version, on digits with few seeds.
    retry : bool
        Whether to run failed trainings again.
    seeds : int, optional
        Number of seeds, in place of the panel's.
    data_dir : Path, optional
        The folder of published datasets.
    report : callable, optional
        Called with the progress of the sweep.

    Returns
    -------
    Reproduction
    """
    experiment = load_panel(panel, quick).with_seeds(seeds)
    engine = engine or LocalProcesses()
    result = run_sweep(experiment, store, engine, data_dir=data_dir, retry=retry, report=report)
    about = {**result.table.about, "panel": panel, "quick": quick}
    about["points"] = len(experiment.points) * max(1, len(experiment.policies))
    about["seconds"] = round(store.seconds(curve.key for curve in result.curves.values()))
    if PANELS[panel].constants:
        about[KIND], about["unmeasured"] = constants_of(experiment, store, engine, data_dir)
    return _with_verdicts(replace(result.table, about=about), result)


def load_reproduction(folder: str | Path) -> Reproduction:
    """Load a panel from its folder and compute its verdicts again; nothing is simulated."""
    table = load_sweep(folder)
    if table.about.get("panel") not in PANELS:
        raise BadInput(f"{folder}: holds a sweep, but no panel of the paper")
    return _with_verdicts(table)


def _with_verdicts(table: SweepTable, result: SweepResult | None = None) -> Reproduction:
    panel = str(table.about["panel"])
    return Reproduction(
        panel=panel,
        quick=bool(table.about.get("quick")),
        table=table,
        verdicts=(verdicts := tuple(panel_verdicts(panel, table))),
        otherwise=tuple(_by_hold(table, verdicts)),
        result=result,
    )


def _by_hold(table: SweepTable, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield verdicts that differ if rounds count until the target holds."""
    if not table.trained or table.hold == 1:
        return
    held = replace(table, runs=[{**run, FIRST: run.get(HELD)} for run in table.runs])
    before = {(v.claim, v.where): v.outcome for v in verdicts}
    for verdict in panel_verdicts(str(table.about["panel"]), held):
        if before.get((verdict.claim, verdict.where)) != verdict.outcome:
            yield verdict
