"""How a plan stands in its file: tables that are read as strictly as a scenario's."""

import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, structs

from fedcell.core.errors import BadFile, BadInput, FedcellWarning
from fedcell.core.estimates import Estimate
from fedcell.core.files.checksums import check_seal, note_unsealed, sealed
from fedcell.core.files.formats import as_json, check_stamp, naming, read_tables, stamp, write_text
from fedcell.core.schema import Count, NotNegative, Positive, Table, Text, Whole, decode
from fedcell.planning.costs.devices import DeviceShare
from fedcell.planning.costs.units import UnitCostEstimate
from fedcell.planning.law.given import UnitCosts
from fedcell.planning.pilot.pilotfile import LawCoefficients, TargetRow
from fedcell.scenario.load import scenario_of
from fedcell.scenario.save import to_tables

from .limits import Limits
from .plan import TOTALS, PaperChoice, TrainingPlan, WhatIf

Total = Annotated[float, Meta(gt=0, lt=1e15, description="a number above 0 and below 1e15")]
Level = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]


class EstimateRow(Table, frozen=True, kw_only=True):
    """A number with its interval, as it stands in a file."""

    value: Total
    low: Total
    high: Total
    level: Level = 0.9

    def faults(self) -> list[str]:
        if self.low <= self.value <= self.high:
            return []
        edges = f"low = {self.low:g} and high = {self.high:g}"
        return [f"value = {self.value:g} is not between {edges}"]

    def estimate(self) -> Estimate:
        """The estimate."""
        return Estimate(self.value, self.low, self.high, self.level)


class WholeEstimateRow(EstimateRow, frozen=True, kw_only=True):
    """A whole number with its interval: K, or E_l."""

    value: Count
    low: Count
    high: Count


class PolicyRow(Table, frozen=True, kw_only=True):
    """What the plan takes under one policy."""

    policy: Text
    rounds: EstimateRow
    duration: EstimateRow
    energy: EstimateRow
    cost: EstimateRow


class UnitCostsRow(Table, frozen=True, kw_only=True):
    """Unit costs."""

    upload: NotNegative
    compute: NotNegative
    broadcast: NotNegative = 0.0

    def unit_costs(self) -> UnitCosts:
        """The unit costs."""
        return UnitCosts(**structs.asdict(self))


class UnitCostRow(Table, frozen=True, kw_only=True):
    """Unit costs by one way."""

    way: Text
    costs: UnitCostsRow
    error: float


class PaperRow(Table, frozen=True, kw_only=True):
    """What the closed forms choose; null where they say infinity."""

    cohort: Count
    local_steps: Count
    rounds: Positive | None
    duration: NotNegative | None
    energy: NotNegative | None
    cost: NotNegative | None
    exact_cohort: Count
    unclipped_cohort: NotNegative | None
    unclipped_local_steps: NotNegative | None
    unit_costs: UnitCostsRow

    def choice(self) -> PaperChoice:
        """The choice."""
        row: dict[str, Any] = structs.asdict(self)
        row = {name: math.inf if value is None else value for name, value in row.items()}
        row["unit_costs"] = self.unit_costs.unit_costs()
        return PaperChoice(**row)


class LimitsRow(Table, frozen=True, kw_only=True):
    """The limits that were asked for."""

    deadline: Positive | None = None
    energy: Positive | None = None
    energy_per_client: Positive | None = None
    mean_energy_per_client: Positive | None = None
    confidence: Annotated[float, Meta(ge=0.5, lt=1)] | None = None

    def limits(self) -> Limits:
        """The limits."""
        return Limits(**{n: v for n, v in structs.asdict(self).items() if v is not None})


class DeviceRow(Table, frozen=True, kw_only=True):
    """What one client is expected to spend."""

    client: Whole
    name: Text | None
    heard: Level
    called: NotNegative
    energy: NotNegative
    battery: Positive | None

    def device(self) -> DeviceShare:
        """The client's share."""
        return DeviceShare(**structs.asdict(self))


class WhatIfRow(Table, frozen=True, kw_only=True):
    """The best plan in a world near this one."""

    change: Text
    kept_cost: NotNegative | None
    cohort: Count | None
    local_steps: Count | None
    rounds: Positive | None
    duration: NotNegative | None
    energy: NotNegative | None
    cost: NotNegative | None
    why_no_plan: str
    note: str = ""

    def what_if(self) -> WhatIf:
        """The world."""
        row: dict[str, Any] = structs.asdict(self)
        row["kept_cost"] = math.inf if self.kept_cost is None else self.kept_cost
        return WhatIf(**row)


class PlanFile(Table, frozen=True, kw_only=True):
    """A plan, as it stands in its file."""

    fedcell: Text
    what: Literal["plan"]
    format: int
    name: Text
    policy: Text
    target: TargetRow | None
    minimised: Literal["cost", "duration", "energy"]
    seed: Annotated[int, Meta(ge=0, description="a whole number from 0")]
    limits: LimitsRow
    law: Annotated[dict[str, Any], Meta(description="a table")]
    cohort: WholeEstimateRow
    local_steps: WholeEstimateRow
    rounds: EstimateRow
    duration: EstimateRow
    energy: EstimateRow
    cost: EstimateRow
    paper: PaperRow
    policies: tuple[PolicyRow, ...]
    unit_costs: tuple[UnitCostRow, ...] = ()
    sensitivity: tuple[WhatIfRow, ...] = ()
    bandwidth: Positive | None = None
    chances: dict[str, Level] = {}  # noqa: RUF012
    notes: tuple[str, ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    learner: Text | None = None  # names of one's own, for people to give again:
    server: Text | None = None  # neither is loaded
    scenario: Annotated[dict[str, Any], Meta(description="a table")] | None = None
    identity: Annotated[dict[str, Any], Meta(description="a table")] | None = None
    checksum: str | None = None

    def faults(self) -> list[str]:
        known = [row.policy for row in self.policies]
        faults = [] if self.policy in known else [f"policies: {self.policy} is not among them"]
        if self.law.get("form") not in (None, "paper", "floor"):
            faults.append(f"law.form = {self.law['form']!r}: expected paper or floor")
        return faults


FORMAT = 3
WAY_OUT = "plan again with `plan_training`"


def plan_tables(plan: TrainingPlan) -> dict[str, Any]:
    """A plan in plain values. The scenario is as it was declared, less measured gains, which are
    a file of their own: it must then be named again."""
    scenario = plan.scenario
    kept = None if scenario is None or scenario.cell.gains is not None else to_tables(scenario)
    return stamp("plan", FORMAT) | {
        "name": plan.name,
        "policy": plan.policy,
        "target": None if plan.target is None else asdict(plan.target),
        "minimised": plan.minimised,
        "seed": plan.seed,
        "limits": plan.limits.given(),
        "law": plan.law.to_dict() | ({"form": plan.law_form} if plan.law_form else {}),
        **{n: asdict(getattr(plan, n)) for n in ("cohort", "local_steps", *TOTALS)},
        "paper": asdict(plan.paper),
        "policies": [
            {"policy": policy, **{m: asdict(totals[m]) for m in TOTALS}}
            for policy, totals in plan.policies.items()
        ],
        "unit_costs": [asdict(row) for row in plan.unit_costs],
        "sensitivity": [asdict(row) for row in plan.sensitivity],
        "bandwidth": plan.bandwidth,
        "chances": dict(plan.chances),
        "notes": list(plan.notes),
        "devices": [asdict(device) for device in plan.devices],
        "scenario": kept,
        **{n: name for n in ("learner", "server") if (name := getattr(plan, n)) is not None},
        "identity": None if plan.identity is None else dict(plan.identity),
    }


def save_plan(path: Path, plan: TrainingPlan) -> None:
    """Writes the file, unless it holds something else than a plan."""
    if path.exists() and not is_plan_file(path):
        raise BadFile(f"{path}: holds something else than a plan: choose another `path`")
    write_text(path, as_json(sealed(plan_tables(plan))))


def is_plan_file(path: Path) -> bool:
    """Whether a file is a plan, of whatever version."""
    content = read_tables(path)
    return content.get("what", "plan") == "plan" and {"fedcell", "cohort"} <= content.keys()


def load_plan(path: Path) -> TrainingPlan:
    """A plan from its file."""
    try:
        content = read_tables(path)
    except BadFile as error:
        raise BadFile(f"{error}; {WAY_OUT}") from error
    with naming(path):
        check_stamp(content, "plan", [FORMAT], WAY_OUT)
        try:
            file = decode(PlanFile, content)
            given = {n: v for n, v in file.law.items() if n != "form"}
            law = decode(LawCoefficients, given).law()
        except BadInput as error:
            raise BadInput(*(f"{fault}; {WAY_OUT}" for fault in error.faults)) from error
        scenario = None if file.scenario is None else scenario_of(file.scenario, path.parent)
        checked = check_seal(content, WAY_OUT)
        _note_missing(path, file, checked)
        totals = {m: getattr(file, m).estimate() for m in TOTALS}
        policies = {
            row.policy: {m: getattr(row, m).estimate() for m in TOTALS} for row in file.policies
        }
        return TrainingPlan(
            name=file.name,
            scenario=scenario,
            policy=file.policy,
            target=None if file.target is None else file.target.target(),
            minimised=file.minimised,
            limits=file.limits.limits(),
            law=law,
            law_form=file.law.get("form"),
            seed=file.seed,
            cohort=file.cohort.estimate(),
            local_steps=file.local_steps.estimate(),
            **totals,
            paper=file.paper.choice(),
            policies=policies | {file.policy: totals},
            unit_costs=tuple(
                UnitCostEstimate(way=row.way, costs=row.costs.unit_costs(), error=row.error)
                for row in file.unit_costs
            ),
            sensitivity=tuple(row.what_if() for row in file.sensitivity),
            bandwidth=file.bandwidth,
            chances=dict(file.chances),
            notes=file.notes,
            devices=tuple(row.device() for row in file.devices),
            learner=file.learner,
            server=file.server,
            identity=file.identity,
        )


def _note_missing(path: Path, file: PlanFile, checked: bool) -> None:
    """Says what a file of an older fedcell lacks, in one note."""
    if file.identity is None:
        warnings.warn(
            f"{path}: has no fingerprint of data, owners and fleet (an older fedcell wrote it): "
            f"whether a run is the one that was planned is not checked; {WAY_OUT}",
            FedcellWarning,
            stacklevel=4,
        )
    elif not checked:
        note_unsealed([path])
