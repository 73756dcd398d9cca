"""What makes a run this run, and a pilot the pilot of a scenario: what they depend on."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import read_text

from .learning import Learning, dataset_path
from .save import plain_tables
from .scenario import Scenario

LATER = (  # keys of [learning] that older files do not have: left out where they change nothing
    *("optimiser", "proximal"),
    *("server", "server_momentum", "server_beta2", "server_tau"),
)
MAX_NAMED_VALUES = 5  # of the values in which a run is another one
LEARNT = ("clients", "learning", "plan", "task")  # tables in which a pilot depends on a scenario
UNLEARNT = {  # what a training does not depend on: what radios and processors are like and cost
    "cell": ("bandwidth", "noise", "broadcast_time"),
    "clients": ("kappa", "power", "freq_min", "freq_max", "samples", "spread"),
    "plan": ("cohort_drawn",),
    "task": ("model_bits", "cycles_per_sample", "samples_per_step", "energy_weight"),
}
LEARNT_COLUMNS = ("samples", "distance", "gain", "loss_rate")  # who is heard, and what arrives
FREE = {  # what may differ between a pilot and the scenario that is planned with it
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
    """What makes a run this run and no other: a resumed one must agree in all of it.

    `fingerprint` is that of the data, and of who holds it where that is given; None where there
    is none. `learner` and `server` say by what those of one's own are known, if there are any.
    Whoever steers a run says by what under "adaptive".
    """
    tables = plain_tables(scenario)
    for table, name in (("cell", "gains"), ("clients", "sizes")):
        arrays = getattr(getattr(scenario, table), name)
        if arrays is not None:
            tables[table][name] = _checksum(arrays.values.tobytes())
    if (listed := scenario.clients.table) is not None:
        # A run has one band: how its powers were declared changes nothing.
        numbers = listed.in_band(scenario.cell.bandwidth).columns()
        columns = {column: v.tobytes() for column, v in numbers.items()}
        columns |= {"name": repr(listed.name).encode(), "labels": repr(listed.labels).encode()}
        tables["clients"]["table"] = {name: _checksum(c) for name, c in columns.items()}
    tables["plan"].pop("rounds")  # how long it runs may change,
    if "learning" in tables:  # a learner of one's own needs none
        for name in ("target", "target_accuracy", "hold"):
            tables["learning"].pop(name, None)
        told, partition = tables["learning"], tables["learning"]["partition"]
        partition.setdefault("kind", "iid")
        if fingerprint is not None or (scenario.learning and scenario.learning.analytic):
            told.pop("dataset")  # and where the data lies, or who holds it:
            partition.pop("owners", None)  # its fingerprint tells
        else:  # a learner of one's own takes it from there
            if (path := dataset_path(told["dataset"], Path.cwd())) is not None:
                told["dataset"] = str(path)
            if "owners" in partition:
                partition["owners"] = _checksum(read_text(Path(partition["owners"])).encode())
        usual = Learning()
        for name in LATER:
            if tables["learning"][name] == getattr(usual, name):
                del tables["learning"][name]
        if told["deliver"] == "last":  # as all runs did before there was a choice
            del told["deliver"]
    own = {"learner": None if learner is None else dict(learner), "server": server}
    return {"scenario": tables, "seed": seed, "data": fingerprint, **own, "adaptive": {}}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pilot_identity(scenario: Scenario, fingerprint: str | None) -> dict[str, Any]:
    """What the rounds to a loss depend on, K, E_l and gamma apart: the learning, not the radio."""
    whole = run_identity(scenario, fingerprint, 0)
    tables = {name: dict(whole["scenario"].get(name, {})) for name in LEARNT}
    _leave_out(tables, FREE, scenario)
    return {"scenario": tables, "data": whole["data"]}


def training_identity(scenario: Scenario, fingerprint: str | None, seed: int) -> dict[str, Any]:
    """What the losses of a training depend on; not how long it runs."""
    identity = run_identity(scenario, fingerprint, seed)
    del identity["learner"], identity["server"], identity["adaptive"]  # ours, with one K and E_l
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
    for table, keys in names.items():
        for key in keys:
            if key not in kept:
                tables.get(table, {}).pop(key, None)


def check_pilot_identity(
    pilots_own: Mapping[str, Any], identity: Mapping[str, Any], path: Path | None = None
) -> None:
    """Refuses a pilot that was run with other settings."""
    if named := differences(pilots_own, identity):
        sentence = (
            f"this pilot was run with other settings ({named}): run `run_pilot` for this scenario"
        )
        raise BadInput(sentence) if path is None else BadFile(f"{path}: {sentence}")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what two identities differ, in words; empty where they do not."""
    then, here = _flat(before), _flat(now)
    names = sorted(name for name in then | here if then.get(name) != here.get(name))
    more = ["more"] if len(names) > MAX_NAMED_VALUES else []
    return ", ".join(name.removeprefix("scenario.") for name in names[:MAX_NAMED_VALUES] + more)


def _flat(tables: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as one, with names as in "learning.rate"."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{above}{name}.") if inner else {above + name: value}
    return flat
