"""Identities: the values that a run, a training or a pilot depends on."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import read_text

from .channel.spec import ChannelSpec
from .learning import Learning, dataset_path
from .save import plain_tables
from .scenario import Scenario
from .selection import SIMPLE

LATER = (  # keys of [learning] that older files lack: left out where they have no effect
    *("optimiser", "proximal"),
    *("server", "server_momentum", "server_beta2", "server_tau"),
)
MAX_NAMED_VALUES = 5  # of the values in which two identities differ
LEARNT = ("clients", "learning", "plan", "task")  # tables in which a pilot depends on a scenario
UNLEARNT = {  # what a training does not depend on: radios, processors and their costs
    "cell": ("bandwidth", "noise", "broadcast_time"),
    "clients": ("kappa", "power", "freq_min", "freq_max", "samples", "spread"),
    "plan": ("cohort_drawn",),
    "task": ("model_bits", "cycles_per_sample", "samples_per_step", "energy_weight"),
}
LEARNT_COLUMNS = (
    "samples",
    "distance",
    "gain",
    "rate",
    "loss_rate",
)  # these decide which uploads arrive
FREE = {  # what may differ between a pilot and the scenario to plan
    "clients": (*UNLEARNT["clients"], "table", "sizes"),
    "plan": ("cohort", "local_steps", "local_epochs", "cohort_drawn"),
    "task": UNLEARNT["task"],
    "learning": ("evaluate_every",),
}


def run_identity(
    scenario: Scenario,
    fingerprint: str | None,
    seed: int,
    learner: Mapping[str, str] | None = None,
    server: str | None = None,
) -> dict[str, Any]:
    """Return all values that a run depends on; a resumed run must have the same.

    `fingerprint` is that of the data, and of its owners where these are given; None without data.
    `learner` and `server` identify those of the user, if there are any. A controller adds its own
    values under "adaptive".
    """
    tables = plain_tables(scenario)
    for table, name in (("cell", "gains"), ("clients", "sizes")):
        arrays = getattr(getattr(scenario, table), name)
        if arrays is not None:
            tables[table][name] = _checksum(arrays.values.tobytes())
    channel = scenario.cell.channel
    if channel == ChannelSpec():  # older files lack the table
        del tables["cell"]["channel"]
    elif (measured := channel.measured) is not None:
        content = measured.quantity.encode() + measured.values.tobytes()
        tables["cell"]["channel"]["measured"] = _checksum(content)
    if (listed := scenario.clients.table) is not None:
        # A run has one band: how its powers were declared changes nothing.
        numbers = listed.in_band(scenario.cell.bandwidth).columns()
        columns = {column: v.tobytes() for column, v in numbers.items()}
        if listed.levels is not None:
            columns["levels"] = repr(listed.levels).encode()
        columns |= {"name": repr(listed.name).encode(), "labels": repr(listed.labels).encode()}
        tables["clients"]["table"] = {name: _checksum(c) for name, c in columns.items()}
    tables["plan"].pop("rounds")  # the length of a run may change,
    if "learning" in tables:  # a user's learner needs none
        for name in ("target", "target_accuracy", "target_metric", "target_level", "hold"):
            tables["learning"].pop(name, None)
        learning, partition = tables["learning"], tables["learning"]["partition"]
        partition.setdefault("kind", "iid")
        if fingerprint is not None or (scenario.learning and scenario.learning.analytic):
            learning.pop("dataset")  # and the path of the data or of the owners:
            partition.pop("owners", None)  # the fingerprint stands for both
        else:  # a user's learner reads the data itself
            if (path := dataset_path(learning["dataset"], Path.cwd())) is not None:
                learning["dataset"] = str(path)
            if "owners" in partition:
                partition["owners"] = _checksum(read_text(Path(partition["owners"])).encode())
        usual = Learning()
        for name in LATER:
            if tables["learning"][name] == getattr(usual, name):
                del tables["learning"][name]
        if learning["deliver"] == "last":  # the only choice in older versions
            del learning["deliver"]
    own = {"learner": None if learner is None else dict(learner), "server": server}
    return {"scenario": tables, "seed": seed, "data": fingerprint, **own, "adaptive": {}}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pilot_identity(scenario: Scenario, fingerprint: str | None) -> dict[str, Any]:
    """Return what the rounds to a loss depend on besides K, E_l and gamma: learning, not radio."""
    whole = run_identity(scenario, fingerprint, 0)
    simple = scenario.plan.selection in SIMPLE
    names = LEARNT if simple else tuple(whole["scenario"])
    tables = {name: dict(whole["scenario"].get(name, {})) for name in names}
    free = FREE if simple else {name: FREE[name] for name in ("plan", "learning")}
    _leave_out(tables, free, scenario)
    return {"scenario": tables, "data": whole["data"]}


def may_change_pilot(scenario: Scenario, key: str) -> bool:
    """Tell whether another value of a key, such as "clients.count", may need another pilot."""
    table, _, name = key.partition(".")
    analytic = scenario.learning is not None and scenario.learning.analytic
    if table not in LEARNT:
        return False
    return analytic or name not in FREE[table] or key in scenario.cell.channel.radio_matters


def training_identity(scenario: Scenario, fingerprint: str | None, seed: int) -> dict[str, Any]:
    """Return what the losses of a training depend on, without its length."""
    identity = run_identity(scenario, fingerprint, seed)
    del (
        identity["learner"],
        identity["server"],
        identity["adaptive"],
    )  # built-in ones
    if scenario.plan.selection not in SIMPLE:
        return identity  # a rule may read any of the numbers
    identity["scenario"].pop("device", None)
    own = scenario.radio
    if own is not None and not (own.snr_min_db is None and own.rate_table is None):
        return identity  # powers, band and noise decide on outage, or with the bits on losses
    radio = identity["scenario"].pop("radio", {})
    if scenario.cell.channel.diversity == "auto" and radio.get("access") == "time":
        identity["scenario"]["radio"] = {"access": "time"}  # fading of the whole band
    _leave_out(identity["scenario"], UNLEARNT, scenario)
    if table := identity["scenario"]["clients"].get("table"):
        identity["scenario"]["clients"]["table"] = {
            column: checksum for column, checksum in table.items() if column in LEARNT_COLUMNS
        }
    return identity


def _leave_out(
    tables: dict[str, dict[str, Any]], names: Mapping[str, Sequence[str]], scenario: Scenario
) -> None:
    drawn = ("samples", "spread")  # with quadratics they are what is learnt from
    kept = drawn if scenario.learning is not None and scenario.learning.analytic else ()
    radio = scenario.cell.channel.radio_matters  # these decide which uploads arrive
    for table, keys in names.items():
        for key in keys:
            if key not in kept and f"{table}.{key}" not in radio:
                tables.get(table, {}).pop(key, None)


def check_pilot_identity(
    pilots_own: Mapping[str, Any], identity: Mapping[str, Any], path: Path | None = None
) -> None:
    """Refuse a pilot that was run with other settings."""
    if named := differences(pilots_own, identity):
        sentence = (
            f"this pilot was run with other settings ({named}): run `run_pilot` for this scenario"
        )
        raise BadInput(sentence) if path is None else BadFile(f"{path}: {sentence}")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the names of the values in which two identities differ; empty if they agree."""
    then, here = _flat(before), _flat(now)
    names = sorted(name for name in then | here if then.get(name) != here.get(name))
    names.sort(key=lambda name: not name.endswith("plan.selection"))  # on it depends much else
    more = ["more"] if len(names) > MAX_NAMED_VALUES else []
    return ", ".join(name.removeprefix("scenario.") for name in names[:MAX_NAMED_VALUES] + more)


def _flat(tables: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested tables as one, with names such as "learning.rate"."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{above}{name}.") if inner else {above + name: value}
    return flat
