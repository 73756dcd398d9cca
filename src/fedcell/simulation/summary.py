"""The outcome of a run: its scores, and its time, energy and cost under each policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import nan
from typing import Any

import numpy as np

from fedcell.core.showing import Showable
from fedcell.core.types import Array
from fedcell.learning.learner import Scores
from fedcell.learning.partition.make import PartitionSummary, summarise_partition
from fedcell.learning.setup import TrainingSetup
from fedcell.network.ledger import Ledger
from fedcell.network.participation import rarely_heard
from fedcell.network.trace import Fleet
from fedcell.scenario.learning import Deliver
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

from .checks import aggregation_rule
from .evaluation import Stopwatch
from .state import State

SCORED = ("train_loss", "test_loss", "accuracy")  # and the metrics of a learner
SWING_ROUNDS = 10  # last evaluated rounds in which a swing of the loss is measured
SWINGING = 0.5  # climb and fall of the loss in these rounds, in parts of its mean


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """Time, energy and cost of a number of rounds."""

    rounds: int
    duration: float  # [s]
    energy: float  # of all clients [J]
    cost: float  # (12) [s]

    @classmethod
    def by(cls, ledger: Ledger, rounds: int) -> "RunTotals":
        """Return the totals of the first rounds of a ledger."""
        return cls(
            rounds=rounds,
            duration=float(ledger.total_duration[rounds - 1]),
            energy=float(ledger.total_energy[rounds - 1]),
            cost=float(ledger.cost[:rounds].sum()),
        )


@dataclass(frozen=True, kw_only=True)
class EmptyBattery:
    """A client with an empty battery, and the round in which it empties, counted from 1."""

    client: int
    name: str | None
    battery: float  # [J]
    round: int


@dataclass(frozen=True, kw_only=True)
class PolicyOutcome:
    """Cost of a run under one policy, in total and to the target."""

    policy: str
    total: RunTotals
    to_target: RunTotals | None  # None if the target was not reached, or there is none
    received: float  # uploads that arrived a round, on average
    discarded_uploads: int  # that were not finite, in total
    scores: Scores  # of the delivered model after the last round
    mean_client_energy: float  # [J]; NaN for a loaded run in progress
    highest_client_energy: float  # of the client that spends most [J]
    highest_client: int | None  # index of that client
    highest_client_name: str | None
    empty_batteries: tuple[EmptyBattery, ...]  # in the order in which they empty

    @classmethod
    def of(
        cls,
        policy: str,
        ledger: Ledger,
        target: Target | None,
        names: Sequence[str] | None = None,
        battery: Array | None = None,
    ) -> "PolicyOutcome":
        """Return the outcome of a ledger with losses; `names` and `battery` [J] of the clients,
        where known."""
        last = {name: getattr(ledger, name)[-1].item() for name in SCORED}
        metrics = {name: float(column[-1]) for name, column in ledger.metrics.items()}
        reached = None if target is None else ledger.rounds_to(target)
        energy = ledger.totals.energy
        most = int(energy.argmax()) if energy.size else None
        return cls(
            policy=policy,
            total=RunTotals.by(ledger, ledger.rounds),
            to_target=None if reached is None else RunTotals.by(ledger, reached),
            received=float(ledger.received.mean()),
            discarded_uploads=int(ledger.discarded_uploads.sum()),
            scores=Scores(**last, majority=ledger.majority, metrics=metrics),
            mean_client_energy=float(energy.mean()) if energy.size else nan,
            highest_client_energy=nan if most is None else float(energy[most]),
            highest_client=most,
            highest_client_name=None if names is None or most is None else names[most],
            empty_batteries=_empty_batteries(ledger, names, battery),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in one table, as summary.json holds them."""
        return {
            "policy": self.policy,
            **asdict(self.total),
            "received": self.received,
            "discarded_uploads": self.discarded_uploads,
            **self.scores.to_dict(),
            "to_target": None if self.to_target is None else asdict(self.to_target),
            "energy_per_client": {
                "mean": self.mean_client_energy,
                "highest": self.highest_client_energy,
                "client": self.highest_client,
                "name": self.highest_client_name,
            },
            "empty_batteries": [asdict(empty) for empty in self.empty_batteries],
        }


def _empty_batteries(
    ledger: Ledger, names: Sequence[str] | None, battery: Array | None
) -> tuple[EmptyBattery, ...]:
    if battery is None or ledger.spending is None:
        return ()
    rounds = ledger.spending.emptied(battery)
    empty = np.flatnonzero(rounds)
    return tuple(
        EmptyBattery(
            client=j,
            name=None if names is None else names[j],
            battery=float(battery[j]),
            round=int(rounds[j]),
        )
        for j in empty[np.argsort(rounds[empty], kind="stable")].tolist()
    )


@dataclass(frozen=True, kw_only=True)
class PlanChange:
    """A change of K and E_l during a run, from a round on, counted from 1."""

    round: int
    cohort: int
    local_steps: int | None  # None where epochs are counted
    why: str


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The outcome of a run, and its plan; summary.json holds one.

    Attributes
    ----------
    complete
        False if the run was interrupted.
    seed
        Random seed.
    target
        What it stops at; None without one.
    cohort
        K, clients called in a round.
    local_steps, local_epochs
        E_l, or the epochs that replace it; one of them is None.
    model_bits, cycles_per_sample
        z_m and alpha_0.
    samples_per_step
        Samples that a local step is charged: "batch" or "dataset".
    aggregation
        Rule that averages uploads.
    initial
        Scores before the first round.
    deliver
        Which model is evaluated and exported (learning.deliver).
    other
        Scores at the end of the model that is not delivered.
    swing
        Where the loss is not steady at the end, a sentence on how far it swings.
    partition
        How the data is spread over the clients; None without data.
    policies
        Time, energy and cost under each policy.
    notes
        Warnings for readers.
    changes
        Changes of K and E_l during the run.
    """

    complete: bool
    seed: int
    target: Target | None
    cohort: int
    local_steps: int | None
    local_epochs: int | None
    model_bits: float
    cycles_per_sample: float
    samples_per_step: str
    aggregation: str
    initial: Scores
    deliver: Deliver
    other: Scores
    swing: str | None
    partition: PartitionSummary | None
    policies: tuple[PolicyOutcome, ...]
    notes: tuple[str, ...] = ()
    changes: tuple[PlanChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as summary.json holds them."""
        row = asdict(self)
        row["policies"] = [outcome.to_dict() for outcome in self.policies]
        row["target"] = None if self.target is None else self.target.to_dict()
        row |= {"initial": self.initial.to_dict(), "other": self.other.to_dict()}
        if self.partition is None:
            del row["partition"]
        if not self.changes:
            del row["changes"]
        return row


def swing_of(losses: Array, rounds: int = SWING_ROUNDS) -> str | None:
    """Return how far the loss swings in the last evaluated rounds, in words; None if steady.

    A swing needs a climb and a fall: a loss that only falls does not climb, and one that diverges
    does not fall.
    """
    last = losses[np.isfinite(losses)][-rounds:]
    if last.size < rounds:
        return None
    climb = (last - np.minimum.accumulate(last)).max()
    fall = (np.maximum.accumulate(last) - last).max()
    if min(climb, fall) <= SWINGING * last.mean():
        return None
    return (
        f"the training loss swings: from {last.min():.3g} to {last.max():.3g} in the last {rounds} "
        "rounds; more clients a round, fewer steps or a lower learning.rate steady it"
    )


def target_doubts(ledgers: Mapping[str, Ledger], target: Target | None) -> list[str]:
    """Return why rounds with scores at the target do not count as having reached it."""
    ledger = next(iter(ledgers.values()), None)
    if ledger is None:
        return []
    scored, doubts = ledger.scored, []
    if scored.overflown.size:
        doubts.append(
            f"the training loss is not finite after round {scored.overflown[0]}: such rounds do "
            "not count as having reached a target"
        )
    if target is None or target.loss is None:
        return doubts
    reached = target.reached(ledger.train_loss)
    if reached is not None and reached in scored.guesses:
        doubts.append(
            f"{target} was met in round {reached} by a model with accuracy "
            f"{ledger.accuracy[reached - 1]:.3g}, no better than always answering with the most "
            f"common class ({ledger.majority:.3g}): such rounds do not count"
        )
    return doubts


def summarise(
    setup: TrainingSetup,
    fleet: Fleet,
    initial: Scores,
    deliver: Deliver,
    other: Scores,
    ledgers: Mapping[str, Ledger],
    target: Target | None,
    complete: bool,
    changes: tuple[PlanChange, ...] = (),
) -> RunSummary:
    """Return the outcome of one training from its ledgers by policy."""
    scenario, partition = setup.scenario, None
    if setup.dealt is not None:
        partition = summarise_partition(setup.partition, setup.data.y_train)
    return RunSummary(
        complete=complete,
        seed=setup.seed,
        target=target,
        cohort=scenario.plan.cohort,
        local_steps=None if scenario.plan.local_epochs else scenario.plan.local_steps,
        local_epochs=scenario.plan.local_epochs,
        model_bits=scenario.model_bits,
        cycles_per_sample=scenario.cycles_per_sample,
        samples_per_step=scenario.samples_per_step,
        aggregation=aggregation_rule(scenario),
        initial=initial,
        deliver=deliver,
        other=other,
        swing=next((swing_of(ledger.train_loss) for ledger in ledgers.values()), None),
        partition=partition,
        policies=outcomes_of(ledgers, target, setup.client_names, fleet.battery),
        notes=(
            *target_doubts(ledgers, target),
            *rarely_heard(scenario, fleet, setup.label_counts),
            *carbon_notes(scenario, ledgers),
        ),
        changes=changes,
    )


def carbon_notes(scenario: Scenario, ledgers: Mapping[str, Ledger]) -> list[str]:
    """Return the CO2 of each policy, where the intensity of the electricity is declared."""
    device = scenario.device
    if device is None or device.carbon_intensity is None:
        return []
    grams = {name: device.grams(float(ledger.energy.sum())) for name, ledger in ledgers.items()}
    return ["CO2: " + ", ".join(f"{name} {value:.3g} g" for name, value in grams.items())]


def shared_policies(runs: Sequence[RunSummary]) -> list[str]:
    """Return the policies that all runs share, in the order of the first."""
    every = [[row.policy for row in run.policies] for run in runs]
    return [name for name in every[0] if all(name in one for one in every)] if every else []


def outcomes_of(
    ledgers: Mapping[str, Ledger],
    target: Target | None,
    names: Sequence[str] | None = None,
    battery: Array | None = None,
) -> tuple[PolicyOutcome, ...]:
    """Return the outcome of each policy; `names` and `battery` [J] of the clients, where known."""
    return tuple(PolicyOutcome.of(n, led, target, names, battery) for n, led in ledgers.items())


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundReport:
    """A finished round: scores of the model, and time and energy so far.

    Attributes
    ----------
    round
        Counted from 1.
    rounds
        Rounds of the training at most.
    train_loss, test_loss, accuracy
        Scores of the delivered model; the first is (2). NaN in a round without an evaluation
        (learning.evaluate_every).
    metrics
        Metrics of the learner on test data, by name.
    received
        Uploads that arrived in this round.
    total_duration, total_energy
        Simulated so far, by policy [s]; of all clients so far, by policy [J].
    state
        State with the model; `simulate` can resume from it.
    """

    round: int
    rounds: int
    train_loss: float
    test_loss: float
    accuracy: float
    received: int
    total_duration: Mapping[str, float]
    total_energy: Mapping[str, float]
    state: State = field(repr=False)
    metrics: Mapping[str, float] = field(default_factory=dict)


Report = Callable[[RoundReport], None]


class Reporter:
    """Make the report of each round of a training that is priced under some policies."""

    def __init__(self, networks: Mapping[str, Ledger]) -> None:
        self._received = next(iter(networks.values())).received
        # Summed once, not in every round.
        self._duration = {name: network.total_duration for name, network in networks.items()}
        self._energy = {name: network.total_energy for name, network in networks.items()}

    def report(self, state: State) -> RoundReport:
        """Return the report of the last round of a state."""
        t = state.rounds - 1
        values = dict(zip(state.history.names, state.history.rows(t)[0], strict=True))
        return RoundReport(
            round=state.rounds,
            rounds=self._received.size,
            **{name: values[name] for name in SCORED},
            metrics={name: values[name] for name in state.history.metrics},
            received=int(self._received[t]),
            total_duration={name: float(total[t]) for name, total in self._duration.items()},
            total_energy={name: float(total[t]) for name, total in self._energy.items()},
            state=state,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult(Showable):
    """The result of a run; `run` and `load_run` return one.

    `result.plot("loss.png")` draws it, `result.summary()` prints it.

    Attributes
    ----------
    ledgers
        Durations [s], energies [J] and scores of all rounds, by policy.
    outcome
        The outcome in a few values.
    state
        State with the trained model.
    identity
        Values that distinguish this run from others: scenario, seed, data, learner; empty if
        unknown.
    stopwatch
        Seconds that this machine took; None for a loaded run.
    """

    ledgers: Mapping[str, Ledger]
    outcome: RunSummary
    state: State
    identity: Mapping[str, Any] = field(default_factory=dict)
    stopwatch: Stopwatch | None = None

    @property
    def complete(self) -> bool:
        """False if the run was interrupted."""
        return self.outcome.complete

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as summary.json holds them."""
        return self.outcome.to_dict()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each policy and round."""
        return [
            {"policy": policy} | row
            for policy, ledger in self.ledgers.items()
            for row in ledger.rows()
        ]

    def __repr__(self) -> str:
        first = next(iter(self.ledgers.items()), None)
        words = "no round done" if first is None else f"{first[0]}: {first[1]!r}"
        return f"<RunResult, {len(self.ledgers)} policies; {words}>"
