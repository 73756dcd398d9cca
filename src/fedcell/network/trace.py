"""The random inputs of a run as arrays: the fleet, and per round the cohort, channel gains and
lost uploads.

Measured or ray-traced channels become a Trace made from arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.showing import value_range
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.scenario import Scenario

from .channels.links import Links
from .physics.hardware import Hardware

MANY = 10_000  # clients; above it, means take fewer draws, and blocks fit in the cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """The N clients, as arrays of length N.

    Parameters
    ----------
    samples : ndarray, shape (N,)
        D_j.
    kappa : ndarray
        kappa_j [J s^2].
    power : ndarray
        p_j^0 [W/Hz].
    mean_gain : ndarray
        Channel power gain before fading, linear.
    freq_min, freq_max : ndarray
        Bounds of the CPU frequency [cycle/s].
    cycles_per_sample : ndarray, optional
        alpha_0 of each client [cycle]; None: the task's.
    loss_rate : ndarray, optional
        gamma of each client; None: the cell's.
    battery : ndarray, optional
        Energy that each client may spend in all [J]; infinite: no limit.
    links : Links, optional
        Where the clients are, for path-loss laws by name; None: `mean_gain` says all.
    hardware : Hardware, optional
        What radios and processors draw, and their limits; None: those of the paper.

    Examples
    --------
    >>> from fedcell.network import draw_fleet
    >>> fleet = draw_fleet(Scenario(), seed=1)
    >>> fleet.count, fleet.kappa.shape
    (100, (100,))
    """

    samples: Array  # D_j
    kappa: Array  # kappa_j [J s^2]
    power: Array  # p_j^0 [W/Hz]
    mean_gain: Array  # channel power gain before fading
    freq_min: Array  # [cycle/s]
    freq_max: Array  # [cycle/s]
    cycles_per_sample: Array | None = None  # alpha_0 of each [cycle]; None: the task's
    loss_rate: Array | None = None  # gamma of each; None: the cell's
    battery: Array | None = None  # energy that each may spend in all [J]; infinite: no limit
    links: Links | None = None  # where each is and how it moves; None: mean_gain says all
    hardware: Hardware | None = None  # radios and processors; None: those of the paper

    @property
    def count(self) -> int:
        """Return N."""
        return self.samples.size

    @property
    def batteries(self) -> Array:
        """Return the energy that each client may spend in all [J]; infinite: no limit."""
        return np.full(self.count, np.inf) if self.battery is None else self.battery

    def step_samples(self, scenario: Scenario, which: Any = slice(None)) -> Array:
        """Return the samples of a local step of each client, or of the clients that `which`
        indexes.

        If a client needs other cycles per sample than the task, its samples are scaled by the
        ratio: E_l alpha_0 times these are its cycles, and by (26) all clients train for the same
        time (DECISIONS.md, 55). Cycles per step count as samples that take as many.
        """
        samples = passed = scenario.step_samples(self.samples[which])
        if self.cycles_per_sample is not None:
            ratio = self.cycles_per_sample[which] / scenario.cycles_per_sample
            samples = np.asarray(samples * ratio)
        if self.hardware is None or not self.hardware.cycles_per_step.any():
            return samples
        epochs = scenario.plan.local_epochs
        steps = np.ceil(passed / scenario.task.batch_size) if epochs else 1.0  # of a local step
        more = self.hardware.cycles_per_step[which] / scenario.cycles_per_sample
        return np.asarray(samples + steps * more)

    def __repr__(self) -> str:
        freq = np.array((self.freq_min.min(), self.freq_max.max()))
        own = {"cycles_per_sample": "cycle", "loss_rate": "", "battery": "J"}
        known = {n: (getattr(self, n), u) for n, u in own.items() if getattr(self, n) is not None}
        rest = "".join(f", {name} {value_range(*values)}" for name, values in known.items())
        return (
            f"<Fleet, {self.count} clients: samples {value_range(self.samples)}, "
            f"kappa {value_range(self.kappa, 'J s^2')},\n  "
            f"power {value_range(self.power, 'W/Hz')}, mean_gain {value_range(self.mean_gain)}, "
            f"freq {value_range(freq, 'cycle/s')}{rest}>"
        )


def check_fleet(scenario: Scenario, fleet: Fleet) -> None:
    """Refuse a fleet of another scenario: of another size, or with other D_j."""
    if fleet.count != scenario.clients.count:
        raise BadInput(
            f"the fleet has {fleet.count} clients and the scenario {scenario.clients.count}: "
            "draw it from this scenario"
        )
    check_samples(scenario, fleet)


def check_samples(scenario: Scenario, fleet: Fleet) -> None:
    """Refuse other D_j than those of the scenario, or any if its data is not divided yet."""
    scenario.require_sizes()
    sizes = scenario.clients.sizes
    known = sizes is None or fleet.samples is sizes.values
    if not known and not np.array_equal(fleet.samples, sizes.values):
        raise BadInput("the fleet has other D_j than the scenario: draw it from this scenario")


def check_powers(scenario: Scenario, fleet: Fleet, clients: Ints) -> None:
    """Refuse a fleet that was drawn for another band, if some clients declare a power over the
    whole band: its density differs there."""
    table, radio = scenario.clients.table, scenario.radio
    of_the_band = radio is None or radio.power_law == "constant-density"
    if table is None or table.power_w is None or not of_the_band:
        return
    density = table.power_w[clients] / scenario.cell.bandwidth
    if (~np.isnan(density) & (density != fleet.power[clients])).any():
        raise BadInput(
            "the fleet was drawn for another cell.bandwidth, and clients.table has powers over the "
            "whole band: draw it from this scenario"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """The called clients of each round, their channel gains and lost uploads: (round, place).

    A place without a client (fewer candidates than K, or a client drawn twice) has cohort -1 and
    count 0, and comes after the places with a client.

    Parameters
    ----------
    cohort : ndarray of int, shape (rounds, places)
        Client of each place.
    gain : ndarray, shape (rounds, places)
        h_j, channel power gain, linear.
    lost : ndarray of bool, shape (rounds, places)
        Whether the upload is lost.
    count : ndarray of int, shape (rounds, places)
        How often the client was drawn; above 1 only for weighted selection.
    excluded_by_channel, excluded_by_data : ndarray of int, shape (rounds,)
        Clients that were skipped for a weak channel, and that have too little data.
    first_round : int
        Round of the run that the first row is, from 0.
    chance : ndarray, shape (rounds, places), optional
        Probability with which the client was chosen, where uploads count by its inverse.
    evaluated, trained : ndarray of int, shape (rounds, places), optional
        Clients that evaluated the model before the round, and clients that trained in vain; -1:
        none. None: no client did.

    Examples
    --------
    >>> from fedcell import Scenario
    >>> from fedcell.network import draw_fleet, draw_trace
    >>> scenario = Scenario().using(plan={"cohort": 5})
    >>> trace = draw_trace(scenario, draw_fleet(scenario), rounds=3)
    >>> trace.cohort.shape, trace[1:].first_round
    ((3, 5), 1)
    """

    cohort: Ints  # client of each place
    gain: Array  # h_j, linear
    lost: Bools  # its upload does not arrive
    count: Ints  # how often the client was drawn; above 1 only for weighted selection
    excluded_by_channel: Ints  # (round,) clients asked and skipped: a weak channel
    excluded_by_data: Ints  # (round,) clients never called: too little data
    first_round: int = 0  # which round of the run the first of these is
    chance: Array | None = None  # p_j, where uploads count by 1 / p_j
    evaluated: Ints | None = None  # the model before the round; charged
    trained: Ints | None = None  # in vain; charged

    @classmethod
    def of(cls, gain: Array) -> Trace:
        """Return rounds, `gain` (round, client), that call all clients and lose no upload.

        >>> Trace.of([[1e-13, 2e-13]]).called.tolist()
        [2]
        """
        gain = np.asarray(gain, float)
        none = np.zeros(len(gain), np.int64)
        return cls(
            cohort=np.broadcast_to(np.arange(gain.shape[1]), gain.shape),
            gain=gain,
            lost=np.zeros(gain.shape, bool),
            count=np.ones(gain.shape, np.int64),
            excluded_by_channel=none,
            excluded_by_data=none,
        )

    @property
    def rounds(self) -> int:
        """Return the number of rounds."""
        return len(self.cohort)

    @property
    def end(self) -> int:
        """Return the round of the run after the last."""
        return self.first_round + self.rounds

    @property
    def called(self) -> Ints:
        """Return the number of clients that train and upload in each round."""
        return np.asarray((self.cohort >= 0).sum(-1))

    @property
    def draws(self) -> Ints:
        """Return the successful draws of each round: K, or fewer if too few may be called."""
        return np.asarray(self.count.sum(-1))

    @property
    def arrived(self) -> Bools:
        """Return which uploads arrive, (round, place)."""
        return (self.cohort >= 0) & ~self.lost

    @property
    def received(self) -> Ints:
        """Return the uploads that arrive in each round; K_gamma if no client is drawn twice."""
        return np.asarray(self.arrived.sum(-1))

    def uploads(self, round: int) -> tuple[list[int], list[int]]:
        """Return the clients with an upload that arrives in a round, and how often each was drawn:
        all that learning sees of the network."""
        here = (self.cohort[round] >= 0) & ~self.lost[round]
        return self.cohort[round][here].tolist(), self.count[round][here].tolist()

    def chances(self, round: int) -> list[float] | None:
        """Return the probabilities of the clients of `uploads`, where these count by 1 / p_j."""
        if self.chance is None:
            return None
        here = (self.cohort[round] >= 0) & ~self.lost[round]
        chances: list[float] = self.chance[round][here].tolist()
        return chances

    def by_size(self) -> Iterator[tuple[Ints, Trace]]:
        """Yield the rounds grouped by the size of their cohort, each group without empty places."""
        called = self.called
        for size in np.unique(called):
            where = np.flatnonzero(called == size)
            yield where, self._pick(where, int(size))

    def __getitem__(self, rounds: slice) -> Trace:
        """Return some consecutive rounds."""
        begin, _, step = rounds.indices(self.rounds)
        if step != 1:
            raise BadInput(f"a trace is cut into consecutive rounds, not by {rounds}")
        cut = {name: values[rounds] for name, values in self._arrays().items()}
        return Trace(**cut, first_round=self.first_round + begin)

    def _arrays(self) -> dict[str, Any]:
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "first_round"}
        return {name: values for name, values in known.items() if values is not None}

    def _pick(self, rounds: Ints, size: int) -> Trace:
        picked = {name: values[rounds] for name, values in self._arrays().items()}
        of_places = ("cohort", "gain", "lost", "count", "chance")
        return Trace(**{n: v[:, :size] if n in of_places else v for n, v in picked.items()})

    def __repr__(self) -> str:
        some = self.cohort >= 0
        return (
            f"<Trace, {self.rounds} rounds from round {self.first_round} on: "
            f"{value_range(self.called)} clients a round, gain {value_range(self.gain[some])}, "
            f"{int((self.lost & some).sum())} of {int(some.sum())} uploads lost>"
        )

    @classmethod
    def join(cls, parts: Sequence[Trace]) -> Trace:
        """Return traces of consecutive rounds as one."""
        columns = [part._arrays() for part in parts]
        names = dict.fromkeys(name for column in columns for name in column)
        whole = {name: _joined([c.get(name) for c in columns], parts, name) for name in names}
        return cls(**whole, first_round=parts[0].first_round)


def _joined(values: Sequence[Any], parts: Sequence[Trace], name: str) -> Any:
    """Return rows of several traces as one; rows of clients in vain may differ in length."""
    if name == "chance":
        values = [
            np.ones(p.gain.shape) if v is None else v for v, p in zip(values, parts, strict=True)
        ]
    elif name in ("evaluated", "trained"):
        none = [np.empty((p.rounds, 0), np.int64) for p in parts]
        values = [n if v is None else v for v, n in zip(values, none, strict=True)]
        most = max(v.shape[1] for v in values)
        values = [np.pad(v, ((0, 0), (0, most - v.shape[1])), constant_values=-1) for v in values]
    return np.concatenate(values)
