"""The random inputs of a run as arrays: the fleet, and per round the cohort, channel gains and
lost uploads.

Bring your own: measured or ray-traced channels are a Trace made from arrays.
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

MANY = 10_000  # clients; with more, means are taken from fewer draws, and blocks fit in the cache


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """The N clients, as arrays of length N.

    samples D_j; kappa [J s^2]; power p_j^0 [W/Hz]; mean_gain, linear; freq_min, freq_max
    [cycle/s]. The last three are None where clients do not differ in them.

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
    battery: Array | None = None  # what each may spend in all [J], infinite where it is not counted

    @property
    def count(self) -> int:
        """N."""
        return self.samples.size

    @property
    def batteries(self) -> Array:
        """What each client may spend in all [J]; infinite where that is not counted."""
        return np.full(self.count, np.inf) if self.battery is None else self.battery

    def step_samples(self, scenario: Scenario, who: Any = slice(None)) -> Array:
        """Samples that a local step of each client processes, (client,); or of those clients
        that `who` indexes.

        Where a client takes more cycles for a sample than the task says, each counts as so many
        more: E_l alpha_0 times these are then its cycles, and by (26) all train for equally long
        (DECISIONS.md, 55).
        """
        samples = scenario.step_samples(self.samples[who])
        if self.cycles_per_sample is None:
            return samples
        return np.asarray(samples * (self.cycles_per_sample[who] / scenario.cycles_per_sample))

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
    """Refuses a fleet that is not of this scenario: of another size, or with other D_j."""
    if fleet.count != scenario.clients.count:
        raise BadInput(
            f"the fleet has {fleet.count} clients and the scenario {scenario.clients.count}: "
            "draw it from this scenario"
        )
    check_samples(scenario, fleet)


def check_samples(scenario: Scenario, fleet: Fleet) -> None:
    """Refuses other D_j than those of the scenario, or any where its data is not dealt yet."""
    scenario.require_sizes()
    sizes = scenario.clients.sizes
    known = sizes is None or fleet.samples is sizes.values
    if not known and not np.array_equal(fleet.samples, sizes.values):
        raise BadInput("the fleet has other D_j than the scenario: draw it from this scenario")


def check_powers(scenario: Scenario, fleet: Fleet, clients: Ints) -> None:
    """Refuses a fleet that was drawn for another band, for some of its clients: what a device sends
    with over the whole band is another density there."""
    table = scenario.clients.table
    if table is None or table.power_w is None:
        return
    density = table.power_w[clients] / scenario.cell.bandwidth
    if (~np.isnan(density) & (density != fleet.power[clients])).any():
        raise BadInput(
            "the fleet was drawn for another cell.bandwidth, and clients.table has powers over the "
            "whole band: draw it from this scenario"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Who is called, how well they are heard and whose upload is lost: (round, place).

    A place without a client (fewer candidates than K, or a client drawn twice) has
    cohort -1 and count 0, and stands after those that have one.

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
    excluded_by_channel: Ints  # (round,) clients asked and passed over: a weak channel
    excluded_by_data: Ints  # (round,) clients never called: too little data
    first_round: int = 0  # which round of the run the first of these is

    @classmethod
    def of(cls, gain: Array) -> Trace:
        """Rounds in which all are called and none is lost: `gain` is (round, client).

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
        """How many rounds there are."""
        return len(self.cohort)

    @property
    def called(self) -> Ints:
        """Clients that train and upload in each round."""
        return np.asarray((self.cohort >= 0).sum(-1))

    @property
    def draws(self) -> Ints:
        """Draws of each round that found a client: K, or fewer when too few may be called."""
        return np.asarray(self.count.sum(-1))

    @property
    def arrived(self) -> Bools:
        """Whose upload arrives, (round, place)."""
        return (self.cohort >= 0) & ~self.lost

    @property
    def received(self) -> Ints:
        """Clients whose upload arrives; K_gamma where none is drawn twice."""
        return np.asarray(self.arrived.sum(-1))

    def uploads(self, round: int) -> tuple[list[int], list[int]]:
        """The clients whose upload arrives in a round, and how often each was drawn: all that
        learning sees of the network."""
        here = (self.cohort[round] >= 0) & ~self.lost[round]
        return self.cohort[round][here].tolist(), self.count[round][here].tolist()

    def by_size(self) -> Iterator[tuple[Ints, Trace]]:
        """The rounds grouped by the size of their cohort, each group without empty places."""
        called = self.called
        for size in np.unique(called):
            where = np.flatnonzero(called == size)
            yield where, self._pick(where, int(size))

    def __getitem__(self, rounds: slice) -> Trace:
        """Some of the rounds, one after the other."""
        begin, _, step = rounds.indices(self.rounds)
        if step != 1:
            raise BadInput(f"a trace is cut into consecutive rounds, not by {rounds}")
        cut = {name: values[rounds] for name, values in self._arrays().items()}
        return Trace(**cut, first_round=self.first_round + begin)

    def _arrays(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "first_round"}

    def _pick(self, rounds: Ints, size: int) -> Trace:
        picked = {name: values[rounds] for name, values in self._arrays().items()}
        return Trace(**{name: v[:, :size] if v.ndim == 2 else v for name, v in picked.items()})

    def __repr__(self) -> str:
        some = self.cohort >= 0
        return (
            f"<Trace, {self.rounds} rounds from round {self.first_round} on: "
            f"{value_range(self.called)} clients a round, gain {value_range(self.gain[some])}, "
            f"{int((self.lost & some).sum())} of {int(some.sum())} uploads lost>"
        )

    @classmethod
    def join(cls, parts: Sequence[Trace]) -> Trace:
        """Traces of consecutive rounds as one."""
        columns = [part._arrays() for part in parts]
        whole = {name: np.concatenate([c[name] for c in columns]) for name in columns[0]}
        return cls(**whole, first_round=parts[0].first_round)
