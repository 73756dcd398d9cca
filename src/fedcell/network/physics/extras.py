"""What a round of declared radios and devices needs beside the vectors of (22)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.hardware.device import Device
from fedcell.scenario.hardware.levels import Levels
from fedcell.scenario.scenario import Scenario

from .discrete.modes import Modes
from .discrete.steps import latency_of
from .downlink import Downloads, downloads
from .link import PowerLimit, Uploads

if TYPE_CHECKING:
    from fedcell.network.round import Problem, Schedule

    from .pricing import DeviceCost


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Extras:
    """Powers and times of the clients of rounds beside those of (22), (..., client).

    Without them a problem is the paper's: alpha = 3, and a device draws nothing but (7) and (10).
    """

    exponent: Array  # alpha: the processor draws kappa f^alpha watts
    busy_power: Array  # while training, beside it [W]
    send_power: Array  # for the whole upload, beside the amplifier [W]
    idle_power: Array  # while waiting to upload, or for the download of others [W]
    done_power: Array  # after the upload [W]
    memory_time: Array  # of a training, at any clock [s]
    latency: Array  # of an upload, at any rate: waiting for blocks that are sent again [s]
    tail_energy: Array  # of a round [J]
    receive_energy: Array  # of a download, with the wait for the others' [J]
    receive_begin: Array  # in which the client receives, from the start of the round [s]
    receive_end: Array
    download_time: Array  # until all have the model; the same for all clients of a round [s]
    summed: bool  # joules of training and waiting count in (22) as a sum, not as a mean
    limit: PowerLimit | Modes | None = None
    levels: Levels | None = None  # clocks; None: any within the bounds

    def __getitem__(self, where: Any) -> Extras:
        """Return some of the rounds or clients."""
        arrays = {name: getattr(self, name)[where] for name in ARRAYS}
        limit, levels = self.limit and self.limit[where], self.levels and self.levels[where]
        return replace(self, **arrays, limit=limit, levels=levels)

    def price(self, problem: Problem, schedule: Schedule) -> DeviceCost:
        """Return what a schedule of a problem with these extras costs."""
        from .pricing import price_devices  # it needs the cost of the paper's problem

        return price_devices(problem, schedule)

    @property
    def alike_paper(self) -> bool:
        """Return whether the problem is that of the paper without them."""
        powers = ("busy_power", "send_power", "idle_power", "done_power", "memory_time")
        rest = ("tail_energy", "receive_energy", "download_time", "latency")
        nothing = not any(getattr(self, name).any() for name in (*powers, *rest))
        same_weights = not self.summed or self.exponent.shape[-1] == 1
        same_law = (self.exponent == 3).all() and self.limit is None and self.levels is None
        return bool(nothing and same_weights and same_law)


ARRAYS = tuple(f.name for f in fields(Extras) if f.name not in ("summed", "limit", "levels"))


def extras(scenario: Scenario, fleet: Fleet, trace: Trace, sent: Uploads) -> Extras | None:
    """Return the extras of the rounds of a trace; None where they change nothing."""
    if fleet.hardware is None:
        return None
    own, cohort = fleet.hardware[trace.cohort], trace.cohort
    nothing = np.zeros(cohort.shape)
    got = downloads(scenario, fleet, trace)
    if got is None:  # T_d, which the ledger adds to each round
        received = own.idle_power * scenario.cell.broadcast_time
        got = Downloads(begin=nothing, end=nothing, total=nothing)
    else:
        receiving = got.end - got.begin
        received = own.receive_power * receiving + own.idle_power * (got.total - receiving)
    found = Extras(
        exponent=own.power_exponent,
        busy_power=own.busy_power,
        send_power=nothing if sent.send_power is None else sent.send_power,
        idle_power=own.idle_power,
        done_power=own.done_power,
        memory_time=memory_time(scenario, fleet)[cohort],
        latency=nothing + latency_of(scenario),
        tail_energy=own.tail_energy,
        receive_energy=received,
        receive_begin=got.begin,
        receive_end=got.end,
        download_time=got.total,
        summed=(scenario.device or Device()).count_energy == "sum",
        limit=sent.limit,
        levels=own.levels,
    )
    return None if found.alike_paper else found


def memory_time(scenario: Scenario, fleet: Fleet) -> Array:
    """Return the time of a training that no clock shortens, (client,) [s]."""
    if fleet.hardware is None:
        return np.zeros(fleet.count)
    trained = scenario.local_work * scenario.step_samples(fleet.samples)
    return np.asarray(fleet.hardware.memory_time * trained)
