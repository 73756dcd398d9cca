"""Making a panel of the paper anew: run it, and judge what the paper says of it."""

import copy
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.core.showing import Showable
from fedcell.experiments.engines import SweepEngine
from fedcell.experiments.experiment import Experiment, experiment_of
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import SweepProgress, SweepResult, run_sweep

from .claims import JUDGES, judge
from .judging import Verdict

PANELS = tuple(JUDGES)
# A rough version on the digits that come with the package: half the clients, a few seeds.
QUICK_TARGETS = {"iid": 0.3, "pathological": 0.5}
QUICK_VALUES = {
    "plan.cohort": [3, 5, 7, 10, 14, 20],
    "plan.local_steps": [1, 5, 20, 80],
    "clients.count": [50, 100],
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction(Showable):
    """A panel as it came out, and what that says of the paper's sentences."""

    panel: str
    quick: bool
    result: SweepResult
    verdicts: tuple[Verdict, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One row for each verdict."""
        return [{"panel": self.panel, "quick": self.quick, **asdict(v)} for v in self.verdicts]

    def __repr__(self) -> str:
        held = sum(v.outcome == "held" for v in self.verdicts)
        return f"<Reproduction of {self.panel}: {held} of {len(self.verdicts)} claims held>"


def panel_text(name: str) -> str:
    """The file of a panel."""
    if name not in PANELS:
        raise BadInput(f"{name} is not a panel: {suggestion(name, PANELS)}")
    return (resources.files(__package__) / "panels" / f"{name}.toml").read_text("utf-8")


def load_panel(name: str, quick: bool = False) -> Experiment:
    """The experiment of a panel, or its rough version.

    >>> len(load_panel("fig3c").points), len(load_panel("fig3c", quick=True).points)
    (14, 4)
    """
    given = tomllib.loads(panel_text(name))
    return experiment_of(_quick(given) if quick else given, Path())


def _quick(given: dict[str, Any]) -> dict[str, Any]:
    rough = copy.deepcopy(given)
    partition = rough.pop("variant")[0]["learning"]["partition"]
    for name, values in QUICK_VALUES.items():
        table, key = name.split(".")
        if isinstance(rough[table][key], list):
            rough[table][key] = values
    target = QUICK_TARGETS[partition["kind"]]
    if partition["kind"] == "pathological":  # of one class digits learn too slowly
        partition["num_classes_per_partition"] = 2
    return rough | {
        "title": f"{rough['title']}, roughly, on digits",
        "scenario": "digits",
        "seeds": 4,
        "rounds": 100,
        "learning": {"rate": 0.1, "target": target, "partition": partition},
        "variant": [{"name": "digits"}],
    }


def reproduce(
    panel: str,
    store: Store,
    engine: SweepEngine | None = None,
    *,
    quick: bool = False,
    retry: bool = False,
    seeds: int | None = None,
    data_dir: Path | None = None,
    report: Callable[[SweepProgress], None] | None = None,
) -> Reproduction:
    """Runs a panel as far as it is not in the store, and judges it."""
    experiment = load_panel(panel, quick).with_seeds(seeds)
    result = run_sweep(experiment, store, engine, data_dir=data_dir, retry=retry, report=report)
    return Reproduction(
        panel=panel, quick=quick, result=result, verdicts=tuple(judge(panel, result))
    )
