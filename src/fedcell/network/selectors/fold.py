"""Choose the clients of rounds by a rule: one round after the other, from what came before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fedcell.core.callables import blaming
from fedcell.core.errors import BadInput
from fedcell.core.streams import CHUNK_PLACES, Purpose, uniform
from fedcell.core.types import Array, Ints
from fedcell.network.channel import is_heard
from fedcell.network.channels.gains import channel_gains
from fedcell.network.draw import has_enough_data, lost_uploads
from fedcell.network.physics.link import uploads
from fedcell.network.physics.outage import least_gains
from fedcell.network.simulate import idle_costs, price_trace
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario

from .base import FACTS, Known, kind_of
from .history import NEVER, History, Row, Selected
from .names import selector_of
from .resolve import resolved

STREAMS = (Purpose.RACE, Purpose.SECOND_RACE, Purpose.THIRD_RACE)
BEFORE = "before-training"


class Asking(Protocol):
    """What clients can be asked for while a round is chosen, where a model is trained."""

    def evaluate(self, clients: Ints) -> Array:
        """Return the mean loss of the model over the samples of each client."""
        ...

    def train(self, clients: Ints) -> Array:
        """Return the lengths of the updates of clients that train."""
        ...


class _Rounds:
    """Gains and random numbers of consecutive rounds, (round, client), each made when asked for."""

    def __init__(self, scenario: Scenario, fleet: Fleet, seed: int, rounds: range) -> None:
        self.rounds, self._seed, self._count = rounds, seed, fleet.count
        everyone = np.broadcast_to(np.arange(fleet.count), (len(rounds), fleet.count))
        self.gain = channel_gains(scenario, fleet, rounds, everyone, seed)
        enough = has_enough_data(scenario, fleet)
        self.may = enough & is_heard(scenario, self.gain, least_gains(scenario, fleet))
        self.weak = enough.sum() - self.may.sum(1)
        self._world = scenario, fleet
        self._uniforms: dict[int, Array] = {}

    def uniforms(self, round: int, which: int) -> Array:
        if which not in self._uniforms:
            self._uniforms[which] = uniform(STREAMS[which], self._seed, self.rounds, self._count)
        return np.asarray(self._uniforms[which][round - self.rounds.start])

    @cached_property
    def numbers(self) -> Array:
        return uniform(Purpose.SERVER, self._seed, self.rounds, 4)

    @cached_property
    def upload_time(self) -> Array:
        return _upload_time(*self._world, self.gain)


class Selection:
    """The rule of a scenario on the rounds of a fleet and a seed.

    Parameters
    ----------
    scenario : Scenario
        Its plan.selection names a rule.
    fleet : Fleet
        The clients.
    seed : int
        Random seed.
    end : int
        Rounds of the run at most, so that no more are computed at a time.
    """

    def __init__(self, scenario: Scenario, fleet: Fleet, seed: int, end: int) -> None:
        rule = selector_of(scenario)
        assert rule is not None
        self.scenario, self.fleet, self.seed, self.end = scenario, fleet, seed, end
        self.rule = rule
        self.reads, self.kind = tuple(rule.reads), kind_of(rule)
        self._enough = has_enough_data(scenario, fleet)
        self._part: _Rounds | None = None
        self._failure = f"the selector {scenario.plan.selection}"
        if {"evaluate", "train"} & set(self.reads) and scenario.plan.cohort_drawn != BEFORE:
            raise BadInput(
                f"plan.selection = {scenario.plan.selection!r} asks clients to work before a "
                f'round, and with plan.cohort_drawn = "{scenario.plan.cohort_drawn}" all have '
                f'trained already: set it to "{BEFORE}"'
            )

    def start(self) -> Selected:
        """Return no rounds, and the history before the first."""
        return Selected((), History.start(self.reads, self.fleet.count))

    def choose(
        self, round: int, history: History, asking: Asking | None = None
    ) -> tuple[Row, History]:
        """Return the clients of a round, and the history after it.

        `asking` reaches clients while a model is trained; without it, rules that learn are refused.
        """
        part = self._rounds_with(round)
        place = round - part.rounds.start
        asked = _Asked(asking)
        known = Known(
            round=round,
            cohort=self.scenario.plan.cohort,
            may=part.may[place],
            uniforms=lambda which: part.uniforms(round, which),
            numbers=part.numbers[place],
            facts={name: self._fact(name, round, part, history, asked) for name in self.reads},
            memory=history.memory,
        )
        with blaming(f"{self._failure} failed"):
            choice = self.rule(known)
        row, memory = self._row(known, choice, asked)
        row = replace(row, weak=int(part.weak[place]))
        after = history.after(round, row.clients, memory)
        if after.duration is not None or after.energy is not None:
            after = self._priced(round, row, after)
        return row, after

    def trace(self, rows: Sequence[Row], first_round: int) -> Trace:
        """Return the rounds of some rows as an ordinary trace."""
        scenario, fleet, places = self.scenario, self.fleet, self.scenario.plan.cohort
        rounds = range(first_round, first_round + len(rows))
        cohort = _padded([row.clients for row in rows], places, -1)
        present, client = cohort >= 0, np.maximum(cohort, 0)
        count = present.astype(np.int64)
        gain = channel_gains(scenario, fleet, rounds, client, self.seed) if rows else cohort * 0.0
        gain = np.where(present, gain, 0.0)
        extra = {}
        for fact, name in (("evaluate", "evaluated"), ("train", "trained")):
            if fact in self.reads:
                parts = [getattr(row, name) for row in rows]
                extra[name] = _padded(parts, max(map(len, parts), default=0), -1)
        if any(row.chance is not None for row in rows):
            known = [np.ones(r.clients.size) if r.chance is None else r.chance for r in rows]
            extra["chance"] = _padded(known, places, 1.0)
        return Trace(
            cohort=cohort,
            gain=gain,
            lost=lost_uploads(scenario, fleet, rounds, self.seed, (cohort, count, gain)),
            count=count,
            excluded_by_channel=np.array([row.weak for row in rows], np.int64),
            excluded_by_data=np.full(len(rows), self.fleet.count - int(self._enough.sum())),
            first_round=first_round,
            **extra,
        )

    def _rounds_with(self, round: int) -> _Rounds:
        if self._part is None or round not in self._part.rounds:
            most = max(1, CHUNK_PLACES // (4 * self.fleet.count))
            last = max(min(self.end, round + most), round + 1)
            self._part = _Rounds(self.scenario, self.fleet, self.seed, range(round, last))
        return self._part

    def _fact(self, name: str, round: int, part: _Rounds, history: History, asked: _Asked) -> Any:
        """Return a fact by its name."""
        fleet = self.fleet
        if name == "gain":
            return part.gain[round - part.rounds.start]
        if name in ("mean_gain", "samples"):
            return getattr(fleet, name)
        if name == "age":
            assert history.last is not None
            return np.where(history.last == NEVER, round + 1, round - history.last)
        if name == "compute_time":
            return self._compute_time
        if name == "upload_time":
            return part.upload_time[round - part.rounds.start]
        if name == "names":
            return self.scenario.clients.names or tuple(map(str, range(fleet.count)))
        if name == "duration":
            assert history.duration is not None
            return np.where(np.isnan(history.duration), self._expected_duration, history.duration)
        if name == "battery":
            assert history.energy is not None
            return fleet.batteries - history.energy
        if name in ("evaluate", "train"):
            return getattr(asked, name)
        return getattr(history, name)  # one that the trainer reports

    @cached_property
    def _compute_time(self) -> Array:
        return idle_costs(self.scenario, self.fleet)[0]

    @cached_property
    def _expected_duration(self) -> Array:
        """Return an estimate of a round of each client: 1/K of the band at its mean gain [s]."""
        alone = _upload_time(self.scenario, self.fleet, self.fleet.mean_gain[None])[0]
        return np.asarray(self._compute_time + self.scenario.plan.cohort * alone)

    def _priced(self, round: int, row: Row, history: History) -> History:
        """Return the history with the seconds and joules of a round under the rule's policy."""
        policy: Any = self.rule
        trace = self.trace([row], round)
        spending = price_trace(self.scenario, self.fleet, trace, policy.policy, self.seed).spending
        assert spending is not None
        size = row.clients.size
        vain = np.zeros(self.fleet.count)
        if spending.idle is not None:
            vain = spending.idle.spent(0)[1]
        return history.spent(
            row.clients, spending.duration[0, :size], spending.energy[0, :size], vain
        )

    def _row(self, known: Known, choice: Any, asked: _Asked) -> tuple[Row, Any]:
        """Return the row of a choice, and what the rule keeps."""
        clients, chance = resolved(choice, known, self._failure)
        in_vain = np.setdiff1d(asked.trained, clients) if asked.trained.size else asked.trained
        row = Row(clients, chance, evaluated=asked.evaluated, trained=in_vain)
        return row, {name: np.asarray(values) for name, values in choice.memory.items()}


def _upload_time(scenario: Scenario, fleet: Fleet, gain: Array) -> Array:
    """Return the time of each client to upload alone in the whole band, (round, client) [s]."""
    with np.errstate(all="ignore"):
        sent = uploads(scenario, fleet, Trace.of(gain))
        if sent.limit is None:
            return np.asarray(sent.band_time)
        return np.asarray(sent.limit.upload_time(np.ones(sent.band_time.shape)))


class _Asked:
    """Remembers which clients a rule asks."""

    def __init__(self, asking: Asking | None) -> None:
        self._asking = asking
        self.evaluated = self.trained = np.empty(0, np.int64)

    def evaluate(self, clients: Ints) -> Array:
        self.evaluated = np.union1d(self.evaluated, clients)
        return self._reach.evaluate(clients)

    def train(self, clients: Ints) -> Array:
        self.trained = np.union1d(self.trained, clients)
        return self._reach.train(clients)

    @property
    def _reach(self) -> Asking:
        assert self._asking is not None
        return self._asking


def selected_trace(
    scenario: Scenario, fleet: Fleet, rounds: range, seed: int, learnt: Any = None
) -> Trace:
    """Return rounds of a trace that a rule chooses before training.

    All rounds before them are chosen, too, as a rule may depend on these. `learnt` has rows that
    were chosen during a training.
    """
    selection = Selection(scenario, fleet, seed, rounds.stop)
    if learnt is not None:
        return selection.trace(learnt[rounds.start : rounds.stop], rounds.start)
    if selection.kind == "learning":
        asked = [name for name in selection.reads if FACTS[name] == "learning"]
        raise BadInput(
            f"plan.selection = {scenario.plan.selection!r} reads {' and '.join(asked)}, which are "
            "known only while a model is trained: train it (fedcell run), or choose another rule"
        )
    keep, history, rows = rounds.start, selection.start().history, []
    first = keep if not _depends_on_the_past(selection) else 0
    for t in range(first, rounds.stop):
        row, history = selection.choose(t, history)
        if t >= keep:
            rows.append(row)
    return selection.trace(rows, keep)


def _depends_on_the_past(selection: Selection) -> bool:
    """Return whether a round of a rule depends on the rounds before."""
    past = {"age", "called", "duration", "energy", "battery"} & set(selection.reads)
    return bool(past) or bool(getattr(selection.rule, "keeps", True))


def _padded(parts: Sequence[Any], places: int, fill: Any) -> Any:
    """Return arrays as rows of one length."""
    whole = np.full((len(parts), places), fill)
    for t, part in enumerate(parts):
        whole[t, : len(part)] = part
    return whole
