"""The file of a plan: its tables are read as strictly as a scenario's.

Format 4. In files of format 3, K and E_l are estimates and not whole numbers; they are read too.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT

from fedcell.core.errors import BadFile, BadInput, FedcellWarning
from fedcell.core.files.checksums import CHECKSUM, check_seal, note_unsealed, sealed
from fedcell.core.files.formats import as_json, check_stamp, naming, read_tables, stamp, write_text
from fedcell.core.schema import Text
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.records import FileTable, Record, Stored, record, table_record, tuple_of
from fedcell.planning.targets import TARGET
from fedcell.scenario.load import scenario_of
from fedcell.scenario.save import to_tables
from fedcell.scenario.target import Target

from .plan import TOTALS, PlanTotals, TotalEstimate, TrainingPlan

FORMAT = 4
WAY_OUT = "plan again with `plan_training`"
STAMP = ("fedcell", "what", "format", CHECKSUM)  # of the file, not of the plan
NOT_STORED = ("grid", "allowed")  # what a plan was chosen from
WHOLE = ("cohort", "local_steps")


@cache
def plan_record() -> Record[TrainingPlan]:
    """Return how a plan stands in its file; its scenario is still a table."""
    totals = {"policy": (Text, NODEFAULT)} | dict.fromkeys(TOTALS, (TotalEstimate, NODEFAULT))
    row = table_record("PolicyTotals", dict[str, Any], totals)

    def by_policy(rows: Iterable[Any]) -> dict[str, PlanTotals]:
        values = [row.value(each) for each in rows]
        return {totals.pop("policy"): totals for totals in values}

    return record(
        TrainingPlan,
        check=_check_plan,
        leave=NOT_STORED,
        target=Stored(TARGET.table | None, lambda t: None if t is None else TARGET.value(t)),
        law=record(GivenLaw),
        policies=Stored(tuple_of(row.table), by_policy),
        scenario=FileTable | None,
        identity=FileTable | None,
    )


def _check_plan(row: Any) -> list[str]:
    """Return the faults between fields of a plan."""
    known = [each.policy for each in row.policies]
    faults = [] if row.policy in known else [f"policies: {row.policy} is not among them"]
    for name in WHOLE:
        whole, interval = getattr(row, name), getattr(row, f"{name}_interval")
        if whole != interval.value:
            faults.append(f"{name} = {whole} is not {name}_interval.value = {interval.value}")
    return faults


def plan_tables(plan: TrainingPlan) -> dict[str, Any]:
    """Return a plan in plain values. The scenario is as it was declared, less measured gains, which
    have a file of their own: it must then be named again."""
    scenario = plan.scenario
    kept = None if scenario is None or scenario.cell.recorded is not None else to_tables(scenario)
    tables = {f.name: getattr(plan, f.name) for f in fields(plan) if f.name not in NOT_STORED}
    form = tables.pop("law_form")
    del tables["scenario"]  # it comes last
    tables |= {
        "limits": plan.limits.given(),
        "law": plan.law.to_dict() | ({"form": form} if form else {}),
        "policies": [
            {"policy": name, **{m: totals[m] for m in TOTALS}}
            for name, totals in plan.policies.items()
        ],
        "scenario": kept,
    }
    tables = {name: _plain(value) for name, value in tables.items()}
    for name in ("learner", "server", "power", "energy_by_part"):
        if not tables[name]:
            del tables[name]
    return stamp("plan", FORMAT) | tables


def _plain(value: Any) -> Any:
    """Return a value with dataclasses as tables, and sequences as lists."""
    if isinstance(value, Target):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def save_plan(path: Path, plan: TrainingPlan) -> None:
    """Writes the file, unless it holds something else than a plan."""
    if path.exists() and not is_plan_file(path):
        raise BadFile(f"{path}: holds something else than a plan: choose another `path`")
    write_text(path, as_json(sealed(plan_tables(plan))))


def is_plan_file(path: Path) -> bool:
    """Whether a file is a plan, of whatever version."""
    content = read_tables(path)
    return content.get("what", "plan") == "plan" and {"fedcell", "cohort"} <= content.keys()


def load_plan(path: str | Path) -> TrainingPlan:
    """Read a plan from its file. Its law has the coefficients, not the spread of runs.

    Parameters
    ----------
    path : str or Path
        File that `TrainingPlan.save`, or `fedcell plan --out`, has written; formats 3 and 4.

    Returns
    -------
    TrainingPlan
        The plan, without its grid.

    Examples
    --------
    >>> import tempfile
    >>> from fedcell import GivenLaw, load_plan, load_scenario, plan_training
    >>> law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    >>> file = tempfile.mkdtemp() + "/plan.json"
    >>> plan_training(load_scenario("digits"), law).save(file)
    >>> load_plan(file).cohort
    5
    """
    path = Path(path)
    try:
        content = read_tables(path)
    except BadFile as error:
        raise BadFile(f"{error}; {WAY_OUT}") from error
    with naming(path):
        version = check_stamp(content, "plan", [3, FORMAT], WAY_OUT)
        try:
            plan = plan_record().decode(_current_form(content, version))
        except BadInput as error:
            raise BadInput(*(f"{fault}; {WAY_OUT}" for fault in error.faults)) from error
        tables: Any = plan.scenario
        scenario = None if tables is None else scenario_of(tables, path.parent)
        _note_missing(path, plan, check_seal(content, WAY_OUT))
        totals = {plan.policy: {m: getattr(plan, m) for m in TOTALS}}
        return replace(plan, scenario=scenario, policies={**plan.policies, **totals})


def _current_form(content: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the fields of a plan as `plan_record` reads them, from a file of any format."""
    tables = {name: value for name, value in content.items() if name not in STAMP}
    if isinstance(law := tables.get("law"), dict):
        tables["law_form"] = law.get("form")
        tables["law"] = {name: value for name, value in law.items() if name != "form"}
    for name in WHOLE if version == 3 else ():
        if isinstance(estimate := tables.get(name), dict):
            tables |= {name: estimate.get("value"), f"{name}_interval": estimate}
    return tables


def _note_missing(path: Path, plan: TrainingPlan, checked: bool) -> None:
    """Warn once of what a file of an older fedcell lacks."""
    if plan.identity is None:
        warnings.warn(
            f"{path}: has no fingerprint of data, owners and fleet (an older fedcell wrote it): "
            f"whether a run is the one that was planned is not checked; {WAY_OUT}",
            FedcellWarning,
            stacklevel=4,
        )
    elif not checked:
        note_unsealed([path])
