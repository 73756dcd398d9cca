"""Reproduce a panel of the paper: run it, and give verdicts on the paper's claims."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import write_csv
from fedcell.core.showing import Showable
from fedcell.experiments.executors import Executor, LocalProcesses
from fedcell.experiments.result import SweepResult
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import SweepProgress, run_sweep
from fedcell.experiments.table import FIRST, HELD, SweepTable, load_sweep

from .catalogue import PANELS, panel_verdicts
from .load import Edition, load_edition
from .measurements import KIND, constants_of
from .verdicts import Verdict

NAMES = ("claim", "where", "outcome", "note", "stated", "number", "p")


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction(Showable):
    """A reproduced panel and its verdicts on the paper's claims.

    Attributes
    ----------
    panel : str
        Name of the panel, such as "fig3a".
    edition : Edition
        Whether it is whole or rough, its regime and its dataset.
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
    edition: Edition
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
        about = {"panel": self.panel, "quick": self.edition.quick}
        if self.edition.regime is not None:
            about["regime"] = self.edition.regime
        return [about | verdict.row() for verdict in self.verdicts]

    def save(self, folder: Path) -> None:
        """Write the table of runs and verdicts.csv into a folder."""
        self.table.save(folder)
        if self.result is not None:
            self.result.save_ledgers(folder)
        rows = [verdict.row() for verdict in self.verdicts]
        write_csv(folder / "verdicts.csv", NAMES, ([row[name] for name in NAMES] for row in rows))

    def __repr__(self) -> str:
        held = sum(v.outcome == "held" for v in self.verdicts)
        return f"<Reproduction of {self.panel}: {held} of {len(self.verdicts)} claims held>"


def reproduce(
    panel: str,
    store: Store,
    engine: Executor | None = None,
    *,
    edition: Edition = Edition(),  # noqa: B008
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
    edition : Edition
        Whole or rough, the regime, and the dataset.
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
    experiment = load_edition(panel, edition).with_seeds(seeds)
    engine = engine or LocalProcesses()
    result = run_sweep(experiment, store, engine, data_dir=data_dir, retry=retry, report=report)
    about = {**result.table.about, "panel": panel, **asdict(edition)}
    about["points"] = len(experiment.points) * max(1, len(experiment.policies))
    about["seconds"] = round(store.seconds(curve.key for curve in result.curves.values()))
    if PANELS[panel].constants and (edition.regime is None or panel == "theory"):
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
        edition=Edition(
            quick=bool(table.about.get("quick")),
            regime=table.about.get("regime"),
            only=table.about.get("only"),
        ),
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
