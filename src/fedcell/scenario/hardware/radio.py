"""The [radio] table: both ends of the link. Left out, it is the paper's (5)-(7)."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedcell.core.schema import Doc, NotNegative, Positive, Table, documented, unused_options

Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0, to 1")]
Decibels = Annotated[float, Meta(ge=-100, le=100, description="a number from -100 to 100 (dB)")]
Level = Annotated[float, Meta(ge=-200, le=60, description="a number from -200 to 60 (dBm)")]
Part = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
RESOURCE_BLOCK = 180e3  # [Hz] 12 subcarriers of 15 kHz (3GPP TS 36.211, 6.2.3)
BLOCK_POWER = ("open-loop",)


@documented
class Radio(Table, frozen=True, kw_only=True):
    """The radios of a cell and of its devices (docs/reference/radio.md).

    >>> Radio(power_max=0.2, gap_db=3.0).power_law
    'constant-density'
    """

    table_name: ClassVar[str] = "radio"

    power_max: Annotated[
        Positive | None,
        Doc("highest transmit power of a device; left out: no limit", "P_max", "W", example="0.2"),
    ] = None
    power_law: Annotated[
        Literal["constant-density", "open-loop", "full"],
        Doc("density of clients.power, as the paper; open-loop control; or power_max always"),
    ] = "constant-density"
    p0_dbm: Annotated[
        Level | None,
        Doc("open loop: received power aimed at, per 180 kHz", "P_0", "dBm", example="-90"),
    ] = None
    alpha: Annotated[Part, Doc("open loop: part of the path loss made up for", "alpha")] = 1.0
    resource_block: Annotated[
        Positive | None,
        Doc("narrowest part of the band that a device can get", "", "Hz", example="180e3"),
    ] = None
    efficiency: Annotated[
        Share, Doc("of the power amplifier: it draws radiated / efficiency", "eta")
    ] = 1.0
    circuit_power: Annotated[
        NotNegative | None,
        Doc(
            "of a device that sends, beside the amplifier; left out: its idle_power",
            "P_c",
            "W",
            example="0.3",
        ),
    ] = None
    receive_power: Annotated[
        NotNegative | None,
        Doc("of a device that downloads; left out: its idle_power", "P_r", "W", example="0.3"),
    ] = None
    tail_energy: Annotated[
        NotNegative, Doc("connection set-up and radio tail, in each round", "E_t", "J")
    ] = 0.0
    usable_share: Annotated[
        Share, Doc("of the band: without guard bands, cyclic prefix and pilots")
    ] = 1.0
    uplink_share: Annotated[Share, Doc("of time for the uplink, as in TDD")] = 1.0
    spectral_cap: Annotated[
        Positive | None,
        Doc("most bits per second and hertz", "", "bit/s/Hz", example="5.55"),
    ] = None
    gap_db: Annotated[Decibels, Doc("gap to Shannon", "Gamma", "dB")] = 0.0
    snr_min_db: Annotated[
        Decibels | None, Doc("least SNR; below it a device is in outage", "", "dB", example="-7")
    ] = None
    noise_figure_db: Annotated[Decibels, Doc("of the base station", "F", "dB")] = 0.0
    noise_rise_db: Annotated[
        Decibels, Doc("interference and noise over noise, at the base station", "", "dB")
    ] = 0.0
    receive_gain_db: Annotated[
        Decibels, Doc("of the antennas of the base station", "G_r", "dB")
    ] = 0.0
    access: Annotated[
        Literal["band", "time"],
        Doc("a_j is a share of the band (OFDMA), or of airtime at full band and power (WiFi)"),
    ] = "band"
    downlink: Annotated[
        Literal["constant", "multicast", "unicast"],
        Doc("cell.broadcast_time; the rate of the slowest called client; or each in turn"),
    ] = "constant"
    cell_power: Annotated[
        Positive | None, Doc("of the base station over the band", "", "W", example="10.0")
    ] = None
    downlink_share: Annotated[
        Share | None,
        Doc("of time for the downlink; left out: the rest of the uplink's", example="0.75"),
    ] = None
    device_noise_figure_db: Annotated[
        Decibels | None,
        Doc("of a device's receiver; left out: noise_figure_db", "", "dB", example="9.0"),
    ] = None

    def faults(self) -> list[str]:
        open_loop, modelled = ("power_law", ["open-loop"]), ("downlink", ["multicast", "unicast"])
        faults = unused_options(
            self,
            {"p0_dbm": open_loop, "alpha": open_loop}
            | dict.fromkeys(("cell_power", "downlink_share", "device_noise_figure_db"), modelled),
        )
        if self.power_law == "open-loop" and self.p0_dbm is None:
            faults.append('power_law = "open-loop" needs p0_dbm, as -90 (dBm per 180 kHz)')
        if self.downlink != "constant" and self.cell_power is None:
            faults.append(
                f'downlink = "{self.downlink}" needs cell_power, the watts of the base station'
            )
        if self.uplink_share < 1 < self.uplink_share + (self.downlink_share or 0.0) - 1e-9:
            faults.append(
                f"uplink_share = {self.uplink_share:g} and downlink_share = "
                f"{self.downlink_share:g} are more than all the time"
            )
        return faults

    @property
    def block(self) -> float:
        """Return the width of a resource block [Hz]."""
        return RESOURCE_BLOCK if self.resource_block is None else self.resource_block

    @property
    def downlink_time_share(self) -> float:
        """Return the share of time for the downlink: all of it in FDD."""
        if self.downlink_share is not None:
            return self.downlink_share
        return 1.0 if self.uplink_share == 1 else 1.0 - self.uplink_share
