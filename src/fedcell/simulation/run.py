"""A whole run with its folder: train once, price under each policy, write what came out.

Training does not depend on the policy (the dice are the same), so policies are compared on
one training.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.learning.aggregate import rule_of
from fedcell.learning.data.download import Report
from fedcell.learning.learner import Learner, warm_up
from fedcell.learning.partition import summary as partition_summary
from fedcell.learning.setup import Material, gather_material, prepare, wanted
from fedcell.network.compare import Row
from fedcell.network.ledger import Ledger, simulate_network
from fedcell.network.policies.base import Policy
from fedcell.scenario.load import as_json
from fedcell.scenario.tables import Scenario
from fedcell.show.figures.rounds import run_figure

from .folder import RunFolder, declared_identity
from .train import State, advance, joined


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Whom to tell what is going on; nobody, unless said otherwise."""

    download: Report | None = None
    compile: Callable[[], Any] = nullcontext  # a context while the engine is made ready
    round: Callable[[State, Ledger, int], None] | None = None  # state, network, rounds in all


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What a run gave: a ledger for each policy, and a summary of plain values."""

    ledgers: Mapping[str, Ledger]
    summary: Row
    complete: bool = True  # False if it was interrupted


def run(
    scenario: Scenario,
    policies: Mapping[str, str | Policy],
    *,
    rounds: int | None = None,
    target: float | None = None,
    seed: int = 0,
    folder: Path | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    threads: int | None = None,
    watch: Watch = Watch(),  # noqa: B008
) -> Result:
    """Trains until `target` (the scenario's where left out) or for `rounds`, with a checkpoint
    after each round if there is a folder. An interrupt (Ctrl-C) ends the run in good order."""
    rounds = scenario.rounds if rounds is None else rounds
    target = wanted(scenario).target if target is None else target
    if not policies:
        raise BadInput("policies: give at least one")
    if resume and folder is None:
        raise BadInput("--resume needs the folder of the run: give --out")
    material = gather_material(scenario, seed, data_dir, watch.download)
    used = material.scenario.using(
        plan={"rounds": rounds},
        learning={"target": target},
        clients={"sizes": scenario.clients.sizes},  # where left out, they follow from the rest
    )
    scenario = material.scenario
    networks = {name: simulate_network(scenario, p, rounds, seed) for name, p in policies.items()}
    first = next(iter(networks.values()))
    home = folder and RunFolder.find(folder, declared_identity(used, material.data, seed), resume)
    learner = prepare(material, seed, threads)
    state = State.start(learner)
    if home and resume:
        state = home.load(state.model.size, rounds) or state
    with watch.compile():
        warm_up(learner)
    if home:
        home.begin(used)

    def report(after: State) -> None:
        nonlocal state
        state = after  # what an interrupt leaves
        if home:
            home.save(state)
        if watch.round:
            watch.round(state, first, rounds)

    complete = True
    try:
        state = advance(scenario, learner, rounds, seed, state, target, report)
    except KeyboardInterrupt:
        complete = False
    ledgers = {
        name: joined(scenario, policies[name], seed, network, state)
        for name, network in networks.items()
        if state.rounds
    }
    said = summarise(material, learner, ledgers, target, seed, complete)
    if home and ledgers:
        home.write_ledgers(ledgers)
        home.write_text("summary.json", as_json(said))
        home.write("loss.png", lambda path: run_figure(ledgers, target, path))
    return Result(ledgers=ledgers, summary=said, complete=complete)


def summarise(
    material: Material,
    learner: Learner,
    ledgers: Mapping[str, Ledger],
    target: float | None,
    seed: int,
    complete: bool,
) -> Row:
    """The outcome of a run in plain values, as summary.json holds it."""
    scenario = material.scenario
    said: Row = {
        "complete": complete,
        "seed": seed,
        "target": target,
        "cohort": scenario.plan.cohort,
        "local_steps": None if scenario.plan.local_epochs else scenario.plan.local_steps,
        "local_epochs": scenario.plan.local_epochs,
        "model_bits": scenario.of_task("model_bits"),
        "cycles_per_sample": scenario.of_task("cycles_per_sample"),
        "samples_per_step": scenario.of_task("samples_per_step"),
        "aggregation": rule_of(scenario),
        "initial": {k: _number(v) for k, v in asdict(learner.evaluate(learner.start())).items()},
    }
    if material.data is not None and material.partition is not None:
        said["partition"] = partition_summary(material.partition, material.data.y_train)
    said["policies"] = [outcome(name, ledger, target) for name, ledger in ledgers.items()]
    return said


def outcome(name: str, ledger: Ledger, target: float | None) -> Row:
    """What one policy took, in all and to the target."""
    row: Row = {"policy": name, "rounds": ledger.rounds}
    row |= {"seconds": float(ledger.seconds[-1]), "joules": float(ledger.joules[-1])}
    row |= {"cost": float(ledger.cost.sum()), "received": float(ledger.received.mean())}
    assert ledger.excluded is not None
    row["excluded"] = int(ledger.excluded.sum())
    for measure in ("train_loss", "test_loss", "accuracy"):
        row[measure] = _number(float(getattr(ledger, measure)[-1]))
    g = ledger.rounds_to(target) if target is not None else None
    row["to_target"] = g and {
        "rounds": g,
        "seconds": float(ledger.seconds[g - 1]),
        "joules": float(ledger.joules[g - 1]),
        "cost": float(ledger.cost[:g].sum()),
    }
    joules = ledger.totals.joules
    row["joules_per_client"] = {"mean": float(joules.mean()), "most": float(joules.max())}
    return row


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def by_name(policies: Sequence[str]) -> dict[str, str | Policy]:
    """Policies that are given by name, each once."""
    if len(set(policies)) < len(policies):
        raise BadInput("--policy: give each once")
    return {name: name for name in policies}
