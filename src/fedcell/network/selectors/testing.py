"""Check what any selector must satisfy: call `check_selector(rule)` in your tests."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np

from fedcell.core.streams import Purpose, stream, uniform
from fedcell.core.types import Array, Ints

from .base import FACTS, Chances, Known, Selector
from .drawing import systematic
from .fold import STREAMS
from .history import History, Row, Selected
from .names import selector_by_name, text_of
from .resolve import resolved

SIZES = ((1, 1), (2, 1), (5, 3), (6, 2), (7, 7), (24, 5))  # N and K
ROUNDS = 6
SMALL = 6  # clients at most, for which all orders are tried


def check_selector(selector: Selector, seed: int = 0) -> None:
    """Check a selector on small rounds of several kinds.

    It answers for N = K = 1, for all clients in outage, and before any client has reported; it
    calls K candidates at most; permuting the clients permutes its choice (unless it has an
    attribute `by_number`); equal rounds have equal choices; where it gives probabilities,
    E[1{j in S} / p_j] = 1 for each client with p_j > 0, by enumeration; and what it keeps can be
    saved and loaded.

    Parameters
    ----------
    selector : Selector
        A callable, a class of one, or a name.
    seed : int
        Random seed of the rounds.

    Raises
    ------
    AssertionError, BadInput
        With the broken property, N and K.

    Examples
    --------
    >>> check_selector("best-channel")
    """
    rule = selector_by_name(text_of(selector))
    if rule is None:
        return
    for count, cohort in SIZES:
        world = _World(rule, count, cohort, seed)
        where = f"N = {count}, K = {cohort}"
        rows = world.rounds(range(ROUNDS), world.start())
        if _clients(world.rounds(range(ROUNDS), world.start())) != _clients(rows):
            raise AssertionError(f"{where}: equal rounds are answered with other clients")
        half = world.rounds(range(ROUNDS // 2), world.start())
        kept = Selected.from_bytes(half.to_bytes())
        if _clients(world.rounds(range(ROUNDS // 2, ROUNDS), kept)) != _clients(rows):
            raise AssertionError(f"{where}: what it keeps is not the same when saved and loaded")
        if not getattr(rule, "by_number", False):
            order = uniform(Purpose.SELECTION, seed, range(1), count)[0].argsort()
            other = _World(rule, count, cohort, seed, order)
            shuffled = other.rounds(range(ROUNDS), other.start())
            if [set(order[list(row)]) for row in _clients(shuffled)] != [
                set(row) for row in _clients(rows)
            ]:
                raise AssertionError(f"{where}: the order of the clients changes who is called")


class _World:
    """Rounds with random facts, known by client and round."""

    def __init__(
        self, rule: Any, count: int, cohort: int, seed: int, order: Ints | None = None
    ) -> None:
        self.rule, self.count, self.cohort, self.seed = rule, count, cohort, seed
        self.order = np.arange(count) if order is None else order
        self._drawn = {
            name: stream(Purpose.SELECTION, seed, number).lognormal(size=(ROUNDS, count))
            for number, name in enumerate([*FACTS, "may"])
        }

    def start(self) -> Selected:
        """Return no rounds."""
        return Selected((), History.start(self.rule.reads, self.count))

    def rounds(self, rounds: range, selected: Selected) -> Selected:
        """Return the choices of the rule, and what it has seen."""
        for t in rounds:
            known = self._known(t, selected.history)
            choice = self.rule(known)
            clients, chance = resolved(choice, known, "the selector")
            self._check(known, choice, clients)
            history = selected.history.after(t, clients, dict(choice.memory))
            history = self._reported(t, clients, history)
            selected = selected.with_row(Row(clients, chance), history)
        return selected

    def _check(self, known: Known, choice: Any, clients: Ints) -> None:
        where = f"N = {self.count}, K = {self.cohort}, round {known.round}"
        if len(clients) > known.cohort or not known.may[clients].all():
            raise AssertionError(f"{where}: it calls too many clients, or some in outage")
        if isinstance(choice, Chances):
            if known.may.any() and not clients.size:
                raise AssertionError(f"{where}: probabilities that call no client")
            if self.count <= SMALL:
                check_inclusion(choice.probability, where)

    def _known(self, round: int, history: History) -> Known:
        may = self._of("may", round) > 0.4
        if round == 1:
            may[:] = False  # all are in outage
        drawn = {name: self._of(name, round) for name in FACTS}
        facts: dict[str, Any] = {
            **drawn,
            "samples": self._of("samples", 0),
            "mean_gain": self._of("mean_gain", 0),
            "names": tuple(map(str, self.order)),
            "evaluate": lambda clients: drawn["evaluate"][clients],
            "train": lambda clients: drawn["train"][clients],
        }
        for name in ("called", "loss", "rms_loss", "norm"):
            facts[name] = getattr(history, name)
        if history.last is not None:
            facts["age"] = np.where(history.last < 0, round + 1, round - history.last)
        only = range(round, round + 1)
        return Known(
            round=round,
            cohort=self.cohort,
            may=may,
            uniforms=lambda which: uniform(STREAMS[which], self.seed, only, self.count)[0][
                self.order
            ],
            numbers=uniform(Purpose.SERVER, self.seed, only, 4)[0],
            facts={name: facts[name] for name in self.rule.reads},
            memory=history.memory,
        )

    def _of(self, name: str, round: int) -> Array:
        return np.array(self._drawn[name][round][self.order])

    def _reported(self, round: int, clients: Ints, history: History) -> History:
        known = {
            name: self._of(name, round)[clients]
            for name in ("loss", "rms_loss", "norm")
            if name in self.rule.reads
        }
        return history.reported(clients, **known)


def check_inclusion(probability: Array, where: str) -> None:
    """Check by enumeration that systematic sampling includes each client with its probability."""
    some = np.flatnonzero(probability > 0)
    sums, orders = np.zeros(probability.size), 0
    for order in permutations(some.tolist()):
        sums += inclusion(probability, np.array(order, np.int64))
        orders += 1
    if not np.allclose(sums[some] / orders / probability[some], 1.0, rtol=1e-9):
        raise AssertionError(f"{where}: E[1 / p] is not 1 under its probabilities")


def inclusion(probability: Array, order: Ints) -> Array:
    """Return the exact share of U in [0, 1) for which each client is in the sample of an order."""
    others = order[probability[order] < 1]
    ends = np.unique(np.concatenate([[0.0, 1.0], probability[others].cumsum() % 1.0]))
    share = np.zeros(probability.size)
    for begin, end in pairwise(ends.tolist()):
        share[systematic(probability, order, (begin + end) / 2)] += end - begin
    return share


def _clients(selected: Selected) -> list[tuple[int, ...]]:
    return [tuple(row.clients.tolist()) for row in selected.rows]
