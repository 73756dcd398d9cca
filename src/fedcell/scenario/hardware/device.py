"""The [device] table: what a device draws beside (10). Left out, it draws nothing more."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedcell.core.errors import BadInput
from fedcell.core.schema import Doc, NotNegative, Positive, Table, documented

from .levels import check_levels

Exponent = Annotated[float, Meta(ge=1, le=6, description="a number from 1 to 6")]


@documented
class Device(Table, frozen=True, kw_only=True):
    """The devices: what they draw in each state (docs/reference/devices.md).

    >>> Device(idle_power=2.7, busy_power=3.5).when_done
    'idle'
    """

    table_name: ClassVar[str] = "device"

    idle_power: Annotated[NotNegative, Doc("drawn while waiting", "P_i", "W")] = 0.0
    busy_power: Annotated[
        NotNegative | None,
        Doc(
            "drawn while training, beside kappa f^alpha; left out: idle_power",
            "P_b",
            "W",
            example="3.5",
        ),
    ] = None
    power_exponent: Annotated[
        Exponent, Doc("the processor draws kappa f^alpha watts; kappa in W s^alpha", "alpha")
    ] = 3.0
    energy_per_cycle: Annotated[
        Positive | None,
        Doc(
            "the same at any clock, instead of kappa: microcontrollers", "", "J", example="1.7e-10"
        ),
    ] = None
    levels: Annotated[
        tuple[Positive, ...] | None,
        Doc(
            "clocks that the processor has, rising, instead of freq_min to freq_max; in between it "
            "shares its time",
            "",
            "cycle/s",
            example="[6e8, 1e9, 1.5e9]",
        ),
    ] = None
    cycles_per_step: Annotated[
        NotNegative, Doc("of a local step, beside those of its samples", "", "cycle")
    ] = 0.0
    memory_time: Annotated[
        NotNegative, Doc("time of a sample that no clock shortens", "t_mem", "s")
    ] = 0.0
    when_done: Annotated[
        Literal["idle", "sleep"], Doc("after its upload, until the round ends")
    ] = "idle"
    sleep_power: Annotated[NotNegative, Doc("drawn while asleep", "", "W")] = 0.0
    count_energy: Annotated[
        Literal["mean", "sum"],
        Doc("joules of training and waiting in (11) and (22): over the clients, as the paper"),
    ] = "mean"
    battery: Annotated[
        Positive | None, Doc("energy that a device may spend in all", "", "J", example="7e4")
    ] = None
    rounds_per_day: Annotated[
        Positive | None, Doc("rate of rounds, for the life in days", "", "1/day", example="24.0")
    ] = None
    between_rounds: Annotated[
        Literal["off", "sleep", "idle"],
        Doc("what a device draws between rounds, in the life in days; off: not counted"),
    ] = "off"
    carbon_intensity: Annotated[
        Positive | None,
        Doc("of the electricity: totals in grams of CO2", "", "g/kWh", example="300.0"),
    ] = None

    def grams(self, joules: float) -> float | None:
        """Return the CO2 of an energy [g]; None where no intensity is given.

        >>> Device(carbon_intensity=300.0).grams(3.6e6)
        300.0
        """
        return None if self.carbon_intensity is None else joules / 3.6e6 * self.carbon_intensity

    def faults(self) -> list[str]:
        faults = []
        if self.busy_power is not None and self.busy_power < self.idle_power:
            faults.append(
                f"busy_power = {self.busy_power:g} is below idle_power = {self.idle_power:g}: a "
                "device that trains draws at least what it draws idle"
            )
        if self.sleep_power > self.idle_power:
            faults.append(
                f"sleep_power = {self.sleep_power:g} is above idle_power = {self.idle_power:g}"
            )
        if self.energy_per_cycle is not None and self.power_exponent != 3:
            faults.append("power_exponent has no effect beside energy_per_cycle: leave it out")
        if self.levels is not None:
            try:
                check_levels(self.levels)
            except BadInput as error:
                faults += error.faults
        if self.between_rounds != "off" and self.rounds_per_day is None:
            faults.append(
                f'between_rounds = "{self.between_rounds}" needs rounds_per_day, the rate of rounds'
            )
        return faults
