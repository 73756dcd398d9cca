"""The tables of a scenario: cell, clients, task and plan (Sec. II, V-A). SI units."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from fedcell.core.errors import BadInput
from fedcell.core.schema import (
    Count,
    Doc,
    Fraction,
    NotNegative,
    Positive,
    Table,
    documented,
    fields_of,
)
from fedcell.core.types import Array

from .arrays import ClientTable, Gains, Sizes
from .channel.measured import Measured
from .channel.spec import PAPER, ChannelSpec
from .fleet_table import client_table
from .selection import selection_fault

Distance = Annotated[  # Cell.faults checks its range: msgspec 0.22 crashes on constraints here
    float | tuple[float, float],
    Meta(description="a number above 0, or two of them, [nearest, farthest]"),
]
DEFAULT_COUNT = 100
OF_THE_PAPER = ("reference_gain", "reference_distance", "path_loss_exponent")


@documented
class Cell(Table, frozen=True, kw_only=True):
    """The radio cell (Sec. II-B-1, V-A).

    >>> float(Cell(distance=100.0).mean_gain(100.0))
    1e-12
    """

    table_name: ClassVar[str] = "cell"

    bandwidth: Annotated[Positive, Doc("band shared by the clients of a round", "B", "Hz")] = 20e6
    noise: Annotated[Positive, Doc("noise density", "N_0", "W/Hz")] = 5e-20
    reference_gain: Annotated[
        Positive, Doc("mean channel power gain at reference_distance", "g_0")
    ] = 1e-4
    reference_distance: Annotated[Positive, Doc("where reference_gain holds", "d_0", "m")] = 1.0
    path_loss_exponent: Annotated[Positive, Doc("power of the path loss", "theta")] = 4.0
    distance: Annotated[
        Distance,
        Doc("of all clients; [50.0, 200.0] spreads them evenly over that ring", "d", "m"),
    ] = 200.0
    gain_threshold: Annotated[
        NotNegative,
        Doc(
            "clients below this part of the mean gain (at the far edge of a ring; of measured "
            "gains; at a table's median) are in outage in this round (DECISIONS.md, 9)",
            open=True,
        ),
    ] = 0.05
    loss_rate: Annotated[Fraction, Doc("share of uploads that are lost", "gamma", open=True)] = 0.0
    loss_kind: Annotated[
        Literal["independent", "worst-case"],
        Doc("each upload by itself, or exactly the share gamma of each round", open=True),
    ] = "independent"
    broadcast_time: Annotated[
        NotNegative, Doc("to send the model to all", "T_d", "s", open=True)
    ] = 0.0
    gains: Annotated[
        Any,
        Doc(
            "measured channel power gains instead of drawn ones, (round, client): Gains in Python, "
            "the path of a .npy or .csv in a file",
            example='"gains.npy"',
        ),
    ] = None
    channel: Annotated[ChannelSpec, Doc("path loss by name, shadowing, fading")] = ChannelSpec()

    @property
    def recorded(self) -> Gains | Measured | None:
        """Return the measured channels, (round, client), if there are any."""
        gains: Gains | None = self.gains
        return self.channel.measured if gains is None else gains

    def mean_gain(self, distance: Array | float) -> Array:
        """Return g_0 (d_0 / d)^theta, the mean channel power gain at a distance [m] (Sec. V-A); of
        other laws than the paper's, that of a client without line of sight and shadowing."""
        if self.channel.model != PAPER:
            return self.channel.typical_gain(distance)
        ratio = self.reference_distance / np.asarray(distance, float)
        return np.asarray(self.reference_gain * ratio**self.path_loss_exponent)

    @property
    def ring(self) -> tuple[float, float]:
        """Return the smallest and the largest distance of a client [m]."""
        return self.distance if isinstance(self.distance, tuple) else (self.distance, self.distance)

    def prepare(self) -> None:
        if self.gains is not None and not isinstance(self.gains, Gains):
            msgspec.structs.force_setattr(self, "gains", Gains(self.gains))

    def faults(self) -> list[str]:
        near, far = self.ring
        if near <= 0:
            return [f"distance = {near:g}: expected a number above 0"]
        if near > far:
            return [f"distance = [{near:g}, {far:g}]: the nearest comes first"]
        if self.gains is not None and self.channel != ChannelSpec():
            return ["gains are measured, and cell.channel draws others: leave one of them out"]
        if self.channel.model == PAPER:
            return []
        usual = {field.name: field.default for field in fields_of(Cell)}
        return [
            f'{name} is for the paper\'s law, and cell.channel.model is "{self.channel.model}": '
            "leave it out"
            for name in OF_THE_PAPER
            if getattr(self, name) != usual[name]
        ]


@documented
class Clients(Table, frozen=True, kw_only=True):
    """The clients: drawn evenly from mean * (1 -+ spread), or listed in a table.

    >>> Clients(table={"samples": [120, 300, 500]}).count
    3
    """

    table_name: ClassVar[str] = "clients"

    count: Annotated[Count, Doc("how many there are", "N", open=True)] = DEFAULT_COUNT
    samples: Annotated[Positive, Doc("mean size of a client's data", "D")] = 500.0
    kappa: Annotated[
        Positive,
        Doc("mean of kappa_j; a cycle at frequency f costs kappa f^2 joules", "kappa", "J s^2"),
    ] = 5e-27
    power: Annotated[Positive, Doc("mean transmit power per unit of band", "p_0", "W/Hz")] = 4e-7
    spread: Annotated[
        Fraction, Doc("each of these three is drawn from mean * (1 -+ Var)", "Var", open=True)
    ] = 0.1
    freq_min: Annotated[Positive, Doc("least CPU frequency", unit="cycle/s", open=True)] = 1e7
    freq_max: Annotated[Positive, Doc("highest CPU frequency", unit="cycle/s", open=True)] = 2e9
    min_samples: Annotated[
        NotNegative, Doc("clients with less data are never called", open=True)
    ] = 0.0
    table: Annotated[
        Any,
        Doc(
            "real clients instead, one entry each: any of name, samples, kappa, power, distance, "
            "gain or rate, freq_min, freq_max, cycles_per_sample, loss_rate, battery "
            "(docs/reference/files.md). ClientTable in Python; in a file the path of a .csv, or "
            "[[clients.table]] entries",
            example='"fleet.csv"',
        ),
    ] = None
    sizes: Annotated[
        Any,
        Doc(
            "D_j themselves, instead of samples; where a model is trained, those of the partition",
            example="[120.0, 300.0]",
        ),
    ] = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the clients, where a table has them."""
        return None if self.table is None else self.table.name

    def faults(self) -> list[str]:
        faults = []
        if self.freq_min > self.freq_max:
            faults.append(
                f"freq_min = {self.freq_min:g} is above clients.freq_max = {self.freq_max:g}"
            )
        if self.sizes is not None and self.sizes.values.size != self.count:
            faults.append(f"sizes has {self.sizes.values.size} numbers for {self.count} clients")
        if self.table is not None:
            if self.count != self.table.count:
                faults.append(
                    f"count = {self.count} and clients.table lists {self.table.count}: "
                    "leave count out"
                )
            low = self.table.filled("freq_min", self.freq_min)
            high = self.table.filled("freq_max", self.freq_max)
            if (wrong := np.atleast_1d(low > high)).any():
                client = self.table.name_of(int(np.argmax(wrong)))
                faults.append(f"table: {client} has freq_min above freq_max")
            if self.table.rate is not None and np.isnan(self.table.rate).any():
                client = self.table.name_of(int(np.isnan(self.table.rate).argmax()))
                faults.append(f"table: {client} has no rate: give one to each client, or to none")
        return faults

    def prepare(self) -> None:
        if isinstance(self.table, dict):
            msgspec.structs.force_setattr(self, "table", client_table(self.table))
        if not isinstance(self.table, ClientTable | None):
            raise BadInput(
                f"clients.table is a {type(self.table).__name__}: expected a ClientTable"
            )
        if self.table is not None and self.count == DEFAULT_COUNT:  # as if left out
            msgspec.structs.force_setattr(self, "count", self.table.count)
        if self.sizes is not None and not isinstance(self.sizes, Sizes):
            msgspec.structs.force_setattr(self, "sizes", Sizes(self.sizes))


@documented
class Task(Table, frozen=True, kw_only=True):
    """What is learnt, as the network sees it (Sec. II-B-2). A key that is left out takes the value
    of the trained model, or the paper's.

    >>> Task(model_bits=5e7, energy_weight=0.5).batch_size
    10
    """

    table_name: ClassVar[str] = "task"

    model_bits: Annotated[
        Positive | None, Doc("size of an upload", "z_m", "bit", example="3e4")
    ] = None
    cycles_per_sample: Annotated[
        Positive | None,
        Doc("cycles to train on one sample once", "alpha_0", "cycle", example="5e5"),
    ] = None
    samples_per_step: Annotated[
        Literal["dataset", "batch"] | None,
        Doc(
            "what a local step is charged: a pass over the data, as (9), or a batch "
            "(DECISIONS.md, 2)",
            example='"dataset"',
        ),
    ] = None
    batch_size: Annotated[
        Count, Doc('samples of a local step, where samples_per_step is "batch"')
    ] = 10
    energy_weight: Annotated[
        NotNegative, Doc("what one joule is worth in seconds", "l_0", "s/J")
    ] = 1.0


PAPER_BITS, PAPER_CYCLES = 3e4, 5e5  # z_m and alpha_0 of Sec. V-A
PAPER_TASK = Task(model_bits=PAPER_BITS, cycles_per_sample=PAPER_CYCLES, samples_per_step="dataset")


@documented
class RoundPlan(Table, frozen=True, kw_only=True):
    """How the rounds are run; the planner chooses K and E_l.

    >>> RoundPlan(cohort=5, local_steps=40).selection
    'uniform'
    """

    table_name: ClassVar[str] = "plan"

    cohort: Annotated[Count, Doc("clients per round", "K")] = 10
    local_steps: Annotated[
        Count, Doc("SGD steps of a client in a round (DECISIONS.md, 1)", "E_l")
    ] = 20
    local_epochs: Annotated[
        Count | None,
        Doc("passes over a client's data, instead of local_steps", example="5"),
    ] = None
    rounds: Annotated[
        Count, Doc("rounds to run at most; where gains are measured, as many as they hold")
    ] = 50
    selection: Annotated[
        str,
        Doc(
            'how clients are chosen: "uniform"; "weighted", by data size with replacement; or a '
            "rule of docs/reference/zoo.md, with parameters as in power-of-choice(candidates=20)"
        ),
    ] = "uniform"
    cohort_drawn: Annotated[
        Literal["before-training", "after-training"],
        Doc(
            "K are drawn before training; or all clients that may be called train, at their own "
            "frequency (26), and K of them upload (DECISIONS.md, 15)",
            open=True,
        ),
    ] = "before-training"

    def faults(self) -> list[str]:
        fault = selection_fault(self.selection)
        return [] if fault is None else [fault]
