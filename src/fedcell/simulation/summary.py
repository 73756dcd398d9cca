"""The outcome of a run in a few values: what it reached, and what that took under each policy."""

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
from fedcell.scenario.target import Target

from .checks import aggregation_rule
from .evaluation import Stopwatch
from .state import State

SCORED = ("train_loss", "test_loss", "accuracy")
SWING_ROUNDS = 10  # the last evaluated ones, in which a loss is looked at
SWINGING = 0.5  # parts of its mean by which a loss climbs and falls again, or the reverse


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """What a number of rounds took."""

    rounds: int
    duration: float  # [s]
    energy: float  # of all clients [J]
    cost: float  # (12) [s]

    @classmethod
    def by(cls, ledger: Ledger, rounds: int) -> "RunTotals":
        """The first rounds of a ledger."""
        return cls(
            rounds=rounds,
            duration=float(ledger.total_duration[rounds - 1]),
            energy=float(ledger.total_energy[rounds - 1]),
            cost=float(ledger.cost[:rounds].sum()),
        )


@dataclass(frozen=True, kw_only=True)
class EmptyBattery:
    """A client that would have spent its battery, and in which round, counted from 1."""

    client: int
    name: str | None
    battery: float  # [J]
    round: int


@dataclass(frozen=True, kw_only=True)
class PolicyOutcome:
    """What one policy took, in all and to the target."""

    policy: str
    total: RunTotals
    to_target: RunTotals | None  # None if the target was not reached, or there is none
    received: float  # uploads that arrived a round, on average
    discarded_uploads: int  # that were not finite, in all
    scores: Scores  # after the last round, of the model that is delivered
    mean_client_energy: float  # [J]; NaN while a run that was loaded is under way
    highest_client_energy: float  # of the client that pays most [J]
    highest_client: int | None  # which that is,
    highest_client_name: str | None  # and what it is called
    empty_batteries: tuple[EmptyBattery, ...]  # the first to be empty first

    @classmethod
    def of(
        cls,
        policy: str,
        ledger: Ledger,
        target: Target | None,
        names: Sequence[str] | None = None,
        battery: Array | None = None,
    ) -> "PolicyOutcome":
        """The outcome of a ledger with losses; `names` and `battery` [J] of the clients, where
        they are known."""
        last = {name: getattr(ledger, name)[-1].item() for name in SCORED}
        reached = None if target is None else ledger.rounds_to(target)
        energy = ledger.totals.energy
        most = int(energy.argmax()) if energy.size else None
        return cls(
            policy=policy,
            total=RunTotals.by(ledger, ledger.rounds),
            to_target=None if reached is None else RunTotals.by(ledger, reached),
            received=float(ledger.received.mean()),
            discarded_uploads=int(ledger.discarded_uploads.sum()),
            scores=Scores(**last, majority=ledger.majority),
            mean_client_energy=float(energy.mean()) if energy.size else nan,
            highest_client_energy=nan if most is None else float(energy[most]),
            highest_client=most,
            highest_client_name=None if names is None or most is None else names[most],
            empty_batteries=_empty_batteries(ledger, names, battery),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values in one table, as summary.json holds them."""
        return {
            "policy": self.policy,
            **asdict(self.total),
            "received": self.received,
            "discarded_uploads": self.discarded_uploads,
            **asdict(self.scores),
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
    """From a round on, counted from 1, a run went on with another K and E_l."""

    round: int
    cohort: int
    local_steps: int | None  # None where epochs are counted
    why: str


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The outcome of a run, and what was run."""

    complete: bool  # False if it was interrupted
    seed: int
    target: Target | None
    cohort: int  # K
    local_steps: int | None  # E_l, or
    local_epochs: int | None
    model_bits: float  # z_m
    cycles_per_sample: float  # alpha_0
    samples_per_step: str  # what a step was charged
    aggregation: str
    initial: Scores  # before the first round
    deliver: Deliver  # which model was judged and is handed over: learning.deliver
    other: Scores  # at the end, of the model that is not: the last one, or the average
    swing: str | None  # where the loss is not steady at the end, how far it swings
    partition: PartitionSummary | None
    policies: tuple[PolicyOutcome, ...]
    notes: tuple[str, ...] = ()  # what whoever reads it should know
    changes: tuple[PlanChange, ...] = ()  # of K and E_l under way

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        row = asdict(self)
        row["policies"] = [outcome.to_dict() for outcome in self.policies]
        if self.partition is None:
            del row["partition"]
        if not self.changes:
            del row["changes"]
        return row


def swing_of(losses: Array, rounds: int = SWING_ROUNDS) -> str | None:
    """How far the loss swings in the last evaluated rounds, in words; None where it is steady.

    The largest climb and the largest fall are compared: a loss that only falls, however steeply,
    does not climb, and one that diverges does not fall.
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
    """Why rounds of a training do not count as having reached its target, although their numbers
    would."""
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
    found = target.reached(ledger.train_loss)
    if found is not None and found in scored.guesses:
        doubts.append(
            f"{target} was met in round {found} by a model with accuracy "
            f"{ledger.accuracy[found - 1]:.3g}, no better than always answering with the most "
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
    """The outcome of ledgers by policy, of one training."""
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
        ),
        changes=changes,
    )


def shared_policies(runs: Sequence[RunSummary]) -> list[str]:
    """The policies that all of some runs were priced under, in the order of the first."""
    every = [[row.policy for row in run.policies] for run in runs]
    return [name for name in every[0] if all(name in one for one in every)] if every else []


def outcomes_of(
    ledgers: Mapping[str, Ledger],
    target: Target | None,
    names: Sequence[str] | None = None,
    battery: Array | None = None,
) -> tuple[PolicyOutcome, ...]:
    """What each policy took; `names` and `battery` [J] of the clients, where they are known."""
    return tuple(PolicyOutcome.of(n, led, target, names, battery) for n, led in ledgers.items())


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundReport:
    """A round that is done: what the model has come to, and what that took so far.

    Losses and accuracy are NaN in a round that is not evaluated (learning.evaluate_every).
    """

    round: int  # counted from 1
    rounds: int  # after which the training ends at the latest
    train_loss: float  # (2)
    test_loss: float
    accuracy: float
    received: int  # uploads that arrived in this round
    total_duration: Mapping[str, float]  # simulated so far, by policy [s]
    total_energy: Mapping[str, float]  # of all clients so far, by policy [J]
    state: State = field(repr=False)  # with the model; a training can be gone on with from here


Report = Callable[[RoundReport], None]


class Reporter:
    """Makes the report of each round of a training that is priced under some policies."""

    def __init__(self, networks: Mapping[str, Ledger]) -> None:
        self._received = next(iter(networks.values())).received
        # Summed once: a long run would sum ever more.
        self._duration = {name: network.total_duration for name, network in networks.items()}
        self._energy = {name: network.total_energy for name, network in networks.items()}

    def report(self, state: State) -> RoundReport:
        """Of the last round of a state."""
        t = state.rounds - 1
        _, train_loss, test_loss, accuracy = state.history.rows(t)[0]
        return RoundReport(
            round=state.rounds,
            rounds=self._received.size,
            train_loss=train_loss,
            test_loss=test_loss,
            accuracy=accuracy,
            received=int(self._received[t]),
            total_duration={name: float(total[t]) for name, total in self._duration.items()},
            total_energy={name: float(total[t]) for name, total in self._energy.items()},
            state=state,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult(Showable):
    """What a run gave: a ledger for each policy, and its outcome in a few values."""

    ledgers: Mapping[str, Ledger]  # by policy
    outcome: RunSummary
    state: State  # with the trained model
    identity: Mapping[str, Any] = field(
        default_factory=dict
    )  # what makes it this run; empty: unknown
    stopwatch: Stopwatch | None = None  # where its time went; None where it was loaded

    @property
    def complete(self) -> bool:
        """False if it was interrupted."""
        return self.outcome.complete

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        return self.outcome.to_dict()

    def rows(self) -> list[dict[str, Any]]:
        """One row for each policy and round."""
        return [
            {"policy": policy} | row
            for policy, ledger in self.ledgers.items()
            for row in ledger.rows()
        ]

    def __repr__(self) -> str:
        first = next(iter(self.ledgers.items()), None)
        words = "no round done" if first is None else f"{first[0]}: {first[1]!r}"
        return f"<RunResult, {len(self.ledgers)} policies; {words}>"
