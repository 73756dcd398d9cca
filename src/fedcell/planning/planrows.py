"""How a plan stands in its file: tables that are read as strictly as a scenario's."""

import math
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import asdict

from fedcell.core.estimates import Estimate
from fedcell.core.schema import Count, NotNegative, Positive, Table, Text, Whole

from .devices import DeviceShare
from .law import UnitCosts
from .limits import Limits
from .pilotfile import TargetRow
from .plan import PaperChoice, WhatIf

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
        return UnitCosts(**asdict(self))


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
        row: dict[str, Any] = asdict(self)
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
        return Limits(**{n: v for n, v in asdict(self).items() if v is not None})


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
        return DeviceShare(**asdict(self))


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
        row: dict[str, Any] = asdict(self)
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
