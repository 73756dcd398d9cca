"""The radio and the processor of each client, beside what the paper's model has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import SMALL
from fedcell.core.showing import value_range
from fedcell.core.types import Array, Bools
from fedcell.scenario.arrays import ClientTable
from fedcell.scenario.channel.measured import Measured
from fedcell.scenario.hardware.device import Device
from fedcell.scenario.hardware.levels import LevelList, Levels
from fedcell.scenario.hardware.radio import RESOURCE_BLOCK, Radio
from fedcell.scenario.scenario import Scenario

OF_RADIO = ("power_max", "efficiency", "circuit_power", "receive_power", "tail_energy")
COLUMNS = (  # of a fleet table, that make a world other than the paper's
    *OF_RADIO,
    *("spectral_cap", "idle_power", "busy_power", "sleep_power", "power_exponent"),
    *("energy_per_cycle", "cycles_per_step", "memory_time"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Hardware:
    """What each client's radio and processor draw, (client,) [W] unless said otherwise.

    Powers are those of the whole device in a state, and not increments.
    """

    power_max: Array  # highest transmit power; infinite: no limit
    efficiency: Array  # of the power amplifier
    circuit_power: Array  # while sending, beside the amplifier
    receive_power: Array
    tail_energy: Array  # of each round [J]
    spectral_cap: Array  # [bit/s/Hz]; infinite: none
    idle_power: Array
    busy_power: Array  # while training, beside kappa f^alpha
    sleep_power: Array
    done_power: Array  # after the upload, until the round ends
    power_exponent: Array  # alpha
    cycles_per_step: Array  # [cycle]
    memory_time: Array  # of a sample [s]
    levels: Levels | None = None  # clocks of each; None: any

    @classmethod
    def of(cls, scenario: Scenario) -> Hardware | None:
        """Return the hardware that a scenario declares; None where it is the paper's."""
        table, n = scenario.clients.table, scenario.clients.count
        listed = table is not None and any(
            getattr(table, c) is not None for c in (*COLUMNS, "levels")
        )
        if scenario.radio is None and scenario.device is None and not listed:
            return None
        radio, device = scenario.radio or Radio(), scenario.device or Device()

        def column(name: str, default: Any) -> Array:
            given = default if table is None else table.filled(name, default)
            return np.broadcast_to(np.asarray(given, float), (n,))

        def of_state(name: str, given: float | None, idle: Array) -> Array:
            power = column(name, np.nan if given is None else given)
            power = np.where(np.isnan(power), idle, power)
            _check_states(name, power, idle, table)
            return power

        idle = column("idle_power", device.idle_power)
        sleep = column("sleep_power", device.sleep_power)
        if (wrong := sleep > idle).any():
            raise BadInput(f"sleep_power is above idle_power: {_title(table, wrong)}")
        constant = ~np.isnan(_per_cycle(scenario))  # joules a cycle
        return cls(
            power_max=column("power_max", radio.power_max or np.inf),
            efficiency=column("efficiency", radio.efficiency),
            circuit_power=of_state("circuit_power", radio.circuit_power, idle),
            receive_power=of_state("receive_power", radio.receive_power, idle),
            tail_energy=column("tail_energy", radio.tail_energy),
            spectral_cap=column("spectral_cap", radio.spectral_cap or np.inf),
            idle_power=idle,
            busy_power=of_state("busy_power", device.busy_power, idle),
            sleep_power=sleep,
            done_power=idle if device.when_done == "idle" else sleep,
            power_exponent=np.where(constant, 1.0, column("power_exponent", device.power_exponent)),
            cycles_per_step=column("cycles_per_step", device.cycles_per_step),
            memory_time=column("memory_time", device.memory_time),
            levels=_levels(scenario),
        )

    def clocks(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the bounds of the clock of each client: its outer levels where it has any."""
        if self.levels is None:
            return low, high
        own = np.array(list(self.levels.each()))
        fixed = self.levels.fixed
        return np.where(fixed, own[0], low), np.where(fixed, own[-1], high)

    def __getitem__(self, where: Any) -> Hardware:
        """Return some of the clients."""
        names = [f.name for f in fields(self) if f.name != "levels"]
        levels = self.levels and self.levels[where]
        return Hardware(levels=levels, **{name: getattr(self, name)[where] for name in names})

    def __repr__(self) -> str:
        names = ("power_max", "busy_power", "idle_power", "circuit_power")
        parts = (f"{name} {value_range(getattr(self, name), 'W')}" for name in names)
        return f"<Hardware, {self.power_max.size} clients: {', '.join(parts)}>"


def _levels(scenario: Scenario) -> Levels | None:
    """Return the levels of the clients; a column freq_min or freq_max leaves some of them out."""
    table, n = scenario.clients.table, scenario.clients.count
    every = None if scenario.device is None else scenario.device.levels
    own = None if table is None else table.levels
    if every is None and own is None:
        return None
    low, high = (
        np.full(n, np.nan) if table is None else np.broadcast_to(table.filled(c, np.nan), (n,))
        for c in ("freq_min", "freq_max")
    )
    cut: list[LevelList | None] = []
    for j in range(n):
        levels = every if own is None or own[j] is None else own[j]
        if levels is not None:
            levels = tuple(
                level
                for level in levels
                if not (level < low[j] * (1 - 1e-9) or level > high[j] * (1 + 1e-9))
            )
            if not levels:
                raise BadInput(
                    f"{'a client' if table is None else table.name_of(j)} has no clock level from "
                    f"its freq_min to its freq_max, {low[j]:g} to {high[j]:g} cycle/s"
                )
        cut.append(levels)
    return Levels.of(cut) if any(cut) else None


def coefficients(scenario: Scenario, kappa: Array) -> Array:
    """Return kappa_j, in its place the joules of a cycle where these are constant."""
    constant = _per_cycle(scenario)
    return np.where(np.isnan(constant), kappa, constant)


def _per_cycle(scenario: Scenario) -> Array:
    """Return the constant joules of a cycle of each client, NaN where kappa f^alpha holds."""
    own = scenario.device and scenario.device.energy_per_cycle
    table = scenario.clients.table
    default = own or np.nan
    given = default if table is None else table.filled("energy_per_cycle", default)
    return np.broadcast_to(np.asarray(given, float), (scenario.clients.count,))


def power_densities(scenario: Scenario, density: Array, mean_gain: Array) -> Array:
    """Return p_j^0 under the power law [W/Hz], where power_max does not act.

    With "full" it is that of power_max over the whole band. Open-loop control makes up for a part
    of the path loss, here 1 / mean gain: p^0 = P_0 (1 / h)^alpha per 180 kHz, whatever the block:
    NR counts a block of 15 kHz x 2^mu spacing 2^mu times (3GPP TS 38.213, 7.1.1). Where gains are
    measured, the mean is over the rounds in which a client has one.
    """
    radio = scenario.radio
    if radio is None or radio.power_law == "constant-density":
        return density
    if radio.power_law == "full":
        table = scenario.clients.table
        most = np.nan if radio.power_max is None else radio.power_max
        given = most if table is None else table.filled("power_max", most)
        return np.broadcast_to(np.asarray(given) / scenario.cell.bandwidth, mean_gain.shape)
    assert radio.p0_dbm is not None
    p0 = 10 ** ((radio.p0_dbm - 30) / 10) / RESOURCE_BLOCK  # [W/Hz]
    mean_gain = _measured_means(scenario, mean_gain)
    return np.asarray(np.maximum(p0 * mean_gain**-radio.alpha, SMALL))


def _measured_means(scenario: Scenario, otherwise: Array) -> Array:
    """Return the mean measured gain of each client; those of a path loss where there is none."""
    recorded = scenario.cell.recorded
    if recorded is None or (isinstance(recorded, Measured) and recorded.quantity != "gain"):
        return otherwise  # SNR and rates are refused with the powers
    rounds = np.count_nonzero(recorded.values, axis=0)
    return np.where(rounds > 0, recorded.values.sum(0) / np.maximum(rounds, 1), otherwise)


def counted_weight(scenario: Scenario) -> float:
    """Return what the mean of a joule of training over the K clients weighs in (22) [s/J]."""
    summed = scenario.device is not None and scenario.device.count_energy == "sum"
    return scenario.task.energy_weight * (scenario.plan.cohort if summed else 1)


def _check_states(name: str, power: Array, idle: Array, table: ClientTable | None) -> None:
    """Refuse a state that draws less than being idle: it would pay to stay in it."""
    if (wrong := power < idle).any():
        raise BadInput(
            f"{name} is below idle_power: {_title(table, wrong)}; powers are those of the whole "
            "device in a state, so give at least idle_power"
        )


def _title(table: ClientTable | None, wrong: Bools) -> str:
    return "all clients" if table is None else table.name_of(int(np.argmax(wrong)))
