"""The selector protocol: what a rule may know of a round, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Bools, Ints

from .drawing import first_of_race

Memory = Mapping[str, Array]  # what a rule keeps from one round to the next: arrays by name
Kind = Literal["network", "policy", "learning"]

FACTS: Mapping[str, Kind] = {
    "gain": "network",
    "mean_gain": "network",
    "samples": "network",
    "age": "network",
    "called": "network",
    "compute_time": "network",
    "upload_time": "network",
    "names": "network",
    "duration": "policy",
    "energy": "policy",
    "battery": "policy",
    "loss": "learning",
    "rms_loss": "learning",
    "norm": "learning",
    "evaluate": "learning",
    "train": "learning",
}


class Known:
    """What a rule may know of a round. Arrays have one number for each of the N clients.

    A rule names the facts that it reads in its attribute `reads`; others raise BadInput. `round`,
    `cohort`, `may`, `memory` and the random numbers are always there.

    Parameters
    ----------
    round : int
        Round of the run, counted from 0.
    cohort : int
        K, the clients to choose.
    may : ndarray of bool, shape (N,)
        Candidates: clients with enough data, and a gain above the threshold in this round.
    uniforms : callable
        From 0, 1 or 2 to numbers in [0, 1), (N,): the same client has the same ones under every
        rule. The race itself uses number 0.
    numbers : ndarray, shape (4,)
        Numbers in [0, 1) of the server. Systematic sampling uses the first.
    facts : mapping of str to value
        The facts that the rule reads.
    memory : mapping of str to ndarray
        What the rule returned after the round before; empty in the first.

    Examples
    --------
    >>> known = known_round(gain=[1e-12, 3e-12, 2e-12], cohort=1)
    >>> known.gain.max(), known.count
    (np.float64(3e-12), 3)
    """

    def __init__(
        self,
        *,
        round: int,
        cohort: int,
        may: Bools,
        uniforms: Callable[[int], Array],
        numbers: Array,
        facts: Mapping[str, Any],
        memory: Memory,
    ) -> None:
        self.round, self.cohort, self.may, self.memory = round, cohort, may, memory
        self._uniforms, self.numbers, self._facts = uniforms, numbers, facts

    @property
    def count(self) -> int:
        """N."""
        return self.may.size

    @property
    def size(self) -> int:
        """Clients that can be chosen: K, or fewer if there are fewer candidates."""
        return min(self.cohort, int(np.count_nonzero(self.may)))

    def uniforms(self, which: int = 0) -> Array:
        """Return a number in [0, 1) for each client, (N,); `which` is 0, 1 or 2."""
        return self._uniforms(which)

    def fact(self, name: str) -> Any:
        """Return a fact by its name; refuse one that the rule does not declare."""
        if name not in self._facts:
            raise BadInput(
                f"reads {name} without having declared it: add it to its attribute reads"
            )
        return self._facts[name]

    @property
    def gain(self) -> Array:
        """h_j of this round, linear."""
        return np.asarray(self.fact("gain"))

    @property
    def mean_gain(self) -> Array:
        """Mean channel power gain, linear."""
        return np.asarray(self.fact("mean_gain"))

    @property
    def samples(self) -> Array:
        """D_j."""
        return np.asarray(self.fact("samples"))

    @property
    def age(self) -> Ints:
        """Rounds since a client was called last; since the start, plus one, if it never was."""
        return np.asarray(self.fact("age"))

    @property
    def called(self) -> Ints:
        """Rounds in which a client was called."""
        return np.asarray(self.fact("called"))

    @property
    def compute_time(self) -> Array:
        """Time to train at the client's own frequency (26) [s]."""
        return np.asarray(self.fact("compute_time"))

    @property
    def upload_time(self) -> Array:
        """Time to upload alone in the whole band at this round's gain [s]."""
        return np.asarray(self.fact("upload_time"))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients; their numbers as text without a table."""
        return tuple(self.fact("names"))

    @property
    def duration(self) -> Array:
        """Seconds of training and uploading when a client was called last, under the policy of the
        rule; before that, an estimate with 1/K of the band at the mean gain."""
        return np.asarray(self.fact("duration"))

    @property
    def energy(self) -> Array:
        """Energy that a client has spent so far [J]."""
        return np.asarray(self.fact("energy"))

    @property
    def battery(self) -> Array:
        """Energy that a client has left [J]; infinite: no limit."""
        return np.asarray(self.fact("battery"))

    @property
    def loss(self) -> Array:
        """Mean loss of the model over a client's samples in the last round in which its upload
        arrived; NaN before."""
        return np.asarray(self.fact("loss"))

    @property
    def rms_loss(self) -> Array:
        """The same as a root of the mean square of the losses of its samples."""
        return np.asarray(self.fact("rms_loss"))

    @property
    def norm(self) -> Array:
        """Length of the update w_j - w that a client uploaded last; NaN before."""
        return np.asarray(self.fact("norm"))

    def evaluate(self, clients: Ints) -> Array:
        """Let clients evaluate the model of this round on their samples, and return mean losses.

        Charged: a third of the cycles of a pass over the samples, before the round.
        """
        return np.asarray(self.fact("evaluate")(np.asarray(clients, np.int64)), float)

    def train(self, clients: Ints) -> Array:
        """Let clients train on the model of this round, and return the lengths of their updates.

        Charged: those that are not chosen train in vain, and the round waits for them.
        """
        return np.asarray(self.fact("train")(np.asarray(clients, np.int64)), float)


@dataclass(frozen=True, eq=False)
class Race:
    """K clients by weight: those with the smallest -log(1 - U_j) / w_j.

    That is sampling without replacement in proportion to the weights. Clients that are no
    candidates do not take part, whatever their weight.

    Parameters
    ----------
    weight : ndarray, shape (N,)
        w_j from 0: 0 never, infinite surely. With fewer than K positive weights the round is
        smaller.
    memory : mapping of str to ndarray
        What the rule keeps for the next round.
    """

    weight: Array
    memory: Memory = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Chances:
    """K clients with given probabilities to be chosen; uploads then count by 1 / p_j.

    Systematic sampling over a random order keeps each probability exactly. A race would not: its
    probabilities are not in proportion to its weights, and weights 1 / p_j then are biased.

    Parameters
    ----------
    probability : ndarray, shape (N,)
        p_j in [0, 1], 0 for clients that are no candidates; they sum to `known.size`, or less.
    memory : mapping of str to ndarray
        What the rule keeps for the next round.
    pool : float
        Probability of a client to be in the pool that these are of: uploads count by
        1 / (pool p_j).
    """

    probability: Array
    memory: Memory = field(default_factory=dict)
    pool: float = 1.0


Choice = Race | Chances


class Selector(Protocol):
    """A callable from what is known of a round to a Race or to Chances.

    `check_selector` tests one. An installed package adds one by name with an entry point in the
    group "fedcell.selectors". Its attribute `reads` names the facts that it asks for (`FACTS`);
    nothing else is computed. Rules that keep something return it as `memory`.

    Examples
    --------
    >>> @reads("gain")
    ... def best_channel(known: Known) -> Race:
    ...     return best(known, known.gain)
    """

    reads: tuple[str, ...]

    def __call__(self, known: Known, /) -> Choice: ...


def reads(*names: str) -> Callable[[Any], Any]:
    """Declare the facts that a function of a `Known` reads.

    Parameters
    ----------
    *names : str
        Names of facts: gain, mean_gain, samples, age, called, compute_time, upload_time, names;
        duration, energy, battery (of a policy); loss, rms_loss, norm,
        evaluate, train (of a training).

    Returns
    -------
    callable
        A decorator that sets the attribute `reads`.

    Raises
    ------
    BadInput
        If there is no such fact.
    """
    for name in names:
        if name not in FACTS:
            raise BadInput(f"there is no fact {name!r} to read: {', '.join(FACTS)}")

    def declare(rule: Any) -> Any:
        rule.reads = names
        return rule

    return declare


def kind_of(rule: Any) -> Kind:
    """Return what a rule depends on: the network alone, an allocation policy, or the training."""
    kinds = {FACTS[name] for name in rule.reads}
    return "learning" if "learning" in kinds else "policy" if "policy" in kinds else "network"


def reads_policy(rule: Any) -> bool:
    """Return whether a rule reads what depends on an allocation policy."""
    return any(FACTS[name] == "policy" for name in rule.reads)


def check_positive(rule: Any, *names: str) -> None:
    """Refuse a rule with a parameter below 1 that divides, or counts something."""
    for name in names:
        if getattr(rule, name) < 1:
            raise BadInput(f"{name} = {getattr(rule, name)}: expected a whole number from 1")


def best(known: Known, value: Array, memory: Memory | None = None) -> Race:
    """Return a race that the K candidates with the highest values win; ties are drawn.

    Parameters
    ----------
    known : Known
        The round.
    value : ndarray, shape (N,)
        Higher is better; minus infinity: never.
    memory : mapping of str to ndarray, optional
        What the rule keeps for the next round.
    """
    return Race(surely(highest(known, value, known.cohort), known.count), memory or {})


def highest(known: Known, value: Array, most: int, among: Bools | None = None) -> Ints:
    """Return the candidates with the highest values, best first, `most` at most; ties are drawn.

    Parameters
    ----------
    known : Known
        The round.
    value : ndarray, shape (N,)
        Higher is better; minus infinity: never.
    most : int
        How many.
    among : ndarray of bool, shape (N,), optional
        Only these; default: all candidates.
    """
    some = np.flatnonzero((known.may if among is None else known.may & among) & (value > -np.inf))
    if 0 < 4 * most < some.size:  # a threshold first: sorting all would take longest
        least = np.partition(value[some], some.size - most)[some.size - most]
        some = some[value[some] >= least]
    if some.size <= most:  # no tie to break
        return some[np.argsort(-value[some], kind="stable")]
    order = np.lexsort((known.uniforms(0)[some], -value[some]))
    return some[order[:most]]


def surely(clients: Ints, count: int) -> Array:
    """Return weights of a race that these clients win.

    Parameters
    ----------
    clients : ndarray of int
        The clients; K of them are drawn where there are more.
    count : int
        N.
    """
    weight = np.zeros(count)
    weight[clients] = np.inf
    return weight


def drawn_by(known: Known, weight: Array, most: int, which: int) -> Ints:
    """Return candidates drawn without replacement in proportion to their weights, in order.

    Parameters
    ----------
    known : Known
        The round.
    weight : ndarray, shape (N,)
        From 0; infinite: surely.
    most : int
        How many.
    which : int
        Which random numbers of the clients to use: 1 or 2, as the race uses 0.
    """
    return first_of_race(np.where(known.may, weight, 0.0), lambda: known.uniforms(which), most)


def known_round(*, cohort: int, round: int = 0, seed: int = 0, **facts: Any) -> Known:
    """Return a round written by hand, to try a rule on.

    Parameters
    ----------
    cohort : int
        K.
    round : int
        Round of the run, counted from 0.
    seed : int
        Random seed of its numbers.
    **facts
        Arrays by name, (N,); `may` for the candidates (default: all), `memory` for what the rule
        returned before.

    Examples
    --------
    >>> known = known_round(gain=[1.0, 3.0, 2.0], cohort=2)
    >>> best(known, known.gain).weight
    array([ 0., inf, inf])
    """
    from fedcell.core.streams import Purpose, uniform

    memory, may = facts.pop("memory", {}), facts.pop("may", None)
    known = {k: v if callable(v) or k == "names" else np.asarray(v) for k, v in facts.items()}
    sizes = [len(v) for k, v in known.items() if not callable(v) and np.ndim(v) == 1]
    if may is None and not sizes:
        raise BadInput("give an array of a fact: it says how many clients there are")
    may = np.ones(sizes[0], bool) if may is None else np.asarray(may, bool)
    streams = (Purpose.RACE, Purpose.SECOND_RACE, Purpose.THIRD_RACE)
    only = range(round, round + 1)
    return Known(
        round=round,
        cohort=cohort,
        may=may,
        uniforms=lambda which: uniform(streams[which], seed, only, may.size)[0],
        numbers=uniform(Purpose.SERVER, seed, only, 4)[0],
        facts=known,
        memory=memory,
    )
