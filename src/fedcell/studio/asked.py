"""What the page asks: changed keys of a scenario, and the arguments of a plan."""

from dataclasses import replace
from math import inf
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from fedcell.core.errors import BadInput
from fedcell.core.schema import (
    Count,
    Doc,
    NotNegative,
    Positive,
    Table,
    decode,
    field_infos,
    replace_fields,
    suggestion,
)
from fedcell.network.policies.names import NAMED
from fedcell.planning.choice.limits import Limits
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.setting import Objective, Region
from fedcell.scenario.scenario import TABLE_NAMES, Scenario
from fedcell.scenario.target import Target

FILES = {  # keys that name files or hold arrays: the page shows them, and a file sets them
    *("cell.gains", "clients.table", "clients.sizes", "cell.channel.measured"),
    *("learning.dataset", "learning.partition.owners"),
}
MAX_CHANGES = 200
MAX_TEXT = 200  # characters of a value


class LawAsked(Table, frozen=True, kw_only=True):
    """Coefficients of a law by hand."""

    table_name: ClassVar[str] = "law"

    mixing: Annotated[NotNegative, Doc("rounds of the term mixing / K")] = 50.0
    drift: Annotated[NotNegative, Doc("rounds of the term drift E")] = 0.02
    start: Annotated[NotNegative, Doc("rounds of the term start / E")] = 250.0
    floor: Annotated[NotNegative, Doc("rounds that no K and E shorten")] = 12.0
    dropped: Annotated[NotNegative, Doc("rounds of the term dropped / (K E)")] = 0.0


class Asked(Table, frozen=True, kw_only=True):
    """A question as the page sends it and its address holds it; None: the default."""

    table_name: ClassVar[str] = ""

    changes: Annotated[dict[str, Any], Meta(description="a table"), Doc("keys by name")] = (
        msgspec.field(default_factory=dict)
    )
    policy: Annotated[str | None, Doc("built-in policy")] = None
    minimise: Annotated[Objective, Doc("objective")] = "cost"
    target: Annotated[Positive | None, Doc("level to reach")] = None
    metric: Annotated[str, Doc("metric of the target")] = "loss"
    deadline: Annotated[Positive | None, Doc("longest duration", unit="s")] = None
    energy: Annotated[Positive | None, Doc("energy of all clients", unit="J")] = None
    energy_per_client: Annotated[Positive | None, Doc("of one client", unit="J")] = None
    confidence: Annotated[
        Annotated[float, Meta(ge=0.5, lt=1, description="a number from 0.5 to below 1")] | None,
        Doc("chance to keep each limit"),
    ] = None
    cohort: Annotated[Count | None, Doc("K by hand")] = None
    local_steps: Annotated[Count | None, Doc("E_l by hand")] = None
    law: Annotated[LawAsked | None, Doc("law by hand, instead of the pilot")] = None
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=10**9, description="a whole number from 0")], Doc("seed")
    ] = 0

    def faults(self) -> list[str]:
        if self.policy is not None and self.policy not in NAMED:
            return [f"policy = {self.policy[:MAX_TEXT]}: {suggestion(self.policy, NAMED)}"]
        if len(self.changes) > MAX_CHANGES:
            return [f"changes: {MAX_CHANGES} at most"]
        return []

    @property
    def limits(self) -> Limits:
        """Return the limits of the plan; a confidence without any limit is left out."""
        given = {"energy": self.energy, "energy_per_client": self.energy_per_client}
        limits = Limits(
            deadline=self.deadline or inf, **{n: v for n, v in given.items() if v is not None}
        )
        return replace(limits, confidence=self.confidence) if limits.any else limits

    @property
    def given_law(self) -> GivenLaw | None:
        """Return the law by hand."""
        if self.law is None:
            return None
        return GivenLaw(**{name: getattr(self.law, name) for name in self.law.__struct_fields__})

    @property
    def loss_rate_changed(self) -> bool:
        """Tell whether another share of lost uploads is asked for."""
        return "cell.loss_rate" in self.changes

    @property
    def region(self) -> Region:
        """Return what may be planned, and what is minimised."""
        k, e = self.cohort, self.local_steps
        return Region(
            clients=None if k is None else (k, k),
            steps=None if e is None else (e, e),
            minimise=self.minimise,
            policy=self.policy,
            other_loss_rate=self.loss_rate_changed,
        )

    def goal(self, own: Target | None, scenario: Scenario) -> Target | None:
        """Return the target that is asked for, held as long as the `own` one of the pilot or the
        scenario; None: that one."""
        if self.target is None:
            return None
        hold = scenario.hold if own is None else own.hold
        return Target(metric=self.metric, level=self.target, hold=hold)


def asked_of(given: Any) -> Asked:
    """Return a question from plain values; BadInput names each fault."""
    if not isinstance(given, dict):
        raise BadInput("the question: expected a table")
    return decode(Asked, given)


def changed(scenario: Scenario, changes: dict[str, Any]) -> Scenario:
    """Return a scenario with other values of some keys, named as "cell.bandwidth".

    Values that name files are refused: a page may not choose what is read from the disk.
    """
    faults: list[str] = []
    by_table: dict[str, dict[str, Any]] = {}
    for path, value in completed(scenario, changes).items():
        table, _, rest = str(path).partition(".")
        if fault := _fault(scenario, str(path), table, value):
            faults.append(fault)
        else:
            by_table.setdefault(table, {})[rest] = value
    if faults:
        raise BadInput(*faults)
    tables = {name: _nested(getattr(scenario, name), rest) for name, rest in by_table.items()}
    return scenario.using(**tables) if tables else scenario


def completed(scenario: Scenario, changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes with those that follow: K of the scenario, which a plan replaces, is at most
    the number of clients."""
    count = changes.get("clients.count")
    if type(count) is int and 1 <= count < scenario.plan.cohort:
        return {"plan.cohort": count} | changes
    return changes


def _fault(scenario: Scenario, path: str, table: str, value: Any) -> str | None:
    shown = path[:MAX_TEXT]
    if table not in TABLE_NAMES:
        return f"{shown}: {suggestion(table[:MAX_TEXT], TABLE_NAMES)}"
    if getattr(scenario, table) is None:
        return f"{shown}: this scenario has no [{table}]: add it to the file"
    if path in FILES:
        return f"{shown}: names a file or holds arrays: change it in the scenario's file"
    for text in _texts(value):
        if len(text) > MAX_TEXT or any(mark in text for mark in "/\\:"):
            return f"{shown}: names a file or a function: change it in the scenario's file"
    return None


def _texts(value: Any) -> list[str]:
    """Return all texts in a plain value."""
    if isinstance(value, dict):
        return [text for item in value.items() for text in _texts(list(item))]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _nested(table: Table, values: dict[str, Any]) -> dict[str, Any]:
    """Return changes of a table; those of the tables in it, as "partition.alpha", become whole
    tables with the other values as they are."""
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        name, dot, rest = path.partition(".")
        if not dot:
            own[name] = value
        elif isinstance(getattr(table, name, None), Table):
            inner.setdefault(name, {})[rest] = value
        else:
            raise BadInput(f"{table.table_name}.{path} is not a key of this scenario")
    for name, changes in inner.items():
        part: Table = getattr(table, name)
        own[name] = replace_fields(part, _nested(part, changes))
    return own


def keys_of(table: Table, path: str) -> list[tuple[str, Table]]:
    """Return the names of all keys of a table, those of the tables in it too, with their table."""
    found: list[tuple[str, Table]] = []
    for info in field_infos(type(table)):
        here = f"{path}.{info.name}"
        value = getattr(table, info.name)
        if isinstance(value, Table):
            found += keys_of(value, here)
        elif not info.is_table or isinstance(value, tuple):
            found.append((here, table))
    return found
