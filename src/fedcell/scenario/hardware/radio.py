"""The [radio] table: both ends of the link. Left out, it is the paper's (5)-(7)."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedcell.core.schema import Count, Doc, NotNegative, Positive, Table, documented, unused_options

Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0, to 1")]
Decibels = Annotated[float, Meta(ge=-100, le=100, description="a number from -100 to 100 (dB)")]
Level = Annotated[float, Meta(ge=-200, le=60, description="a number from -200 to 60 (dBm)")]
Part = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Loss = Annotated[
    float, Meta(ge=1e-9, le=0.9, description="a number from 1e-9 to 0.9")
]  # of a first try
Tries = Annotated[int, Meta(ge=1, le=128, description="a whole number from 1 to 128")]
RESOURCE_BLOCK = 180e3  # [Hz] 12 subcarriers of 15 kHz (3GPP TS 36.211, 6.2.3)
NB_IOT = "nb-iot"
RateTable = Literal[
    "nr-64qam",
    "nr-256qam",
    "nr-precoded",
    "wifi-ht",
    "wifi-he",
    "802.15.4",
    "nb-iot",
    "lora",
    "lora-sf7",
    "lora-sf8",
    "lora-sf9",
    "lora-sf10",
    "lora-sf11",
    "lora-sf12",
]
OF_NR = ("nr-64qam", "nr-256qam", "nr-precoded")
FIXED_BANDS = {  # [Hz] of tables with rates in bit/s
    **dict.fromkeys(("wifi-ht", "wifi-he"), 20e6),
    "802.15.4": 5e6,
    NB_IOT: 180e3,
    **dict.fromkeys(("lora", *(f"lora-sf{n}" for n in range(7, 13))), 125e3),
}


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
    rate_table: Annotated[
        RateTable | None,
        Doc("steps of rate and SNR instead of Shannon's formula", example='"nr-64qam"'),
    ] = None
    target_bler: Annotated[
        Loss, Doc("rate table: share of blocks that may be lost in their first try", "q")
    ] = 0.1
    margin_db: Annotated[
        Decibels, Doc("rate table: what a receiver needs above the SNR of the table", "", "dB")
    ] = 0.0
    block_bits: Annotated[Positive, Doc("NR tables: length of a code block", "n", "bit")] = 8424.0
    code_blocks: Annotated[
        Count, Doc("NR tables: code blocks of a transport block, which is lost as a whole", "C")
    ] = 1
    harq: Annotated[
        Literal["chase", "repeat"],
        Doc("rate table: tries of a block add up their SNR, or each stands alone"),
    ] = "chase"
    harq_tries: Annotated[Tries, Doc("rate table: of a block", "m")] = 4
    harq_fade: Annotated[
        Literal["new", "same"], Doc("rate table: the fade of a try is that of the one before")
    ] = "new"
    harq_rtt: Annotated[
        NotNegative, Doc("rate table: round trip of a repeated block, once an upload", "", "s")
    ] = 0.0
    arq: Annotated[
        Literal["repeat", "none"],
        Doc("rate table: a block that all tries lost is sent again; or the upload is lost"),
    ] = "repeat"
    duty_cycle: Annotated[
        Share | None,
        Doc(
            'largest share of time in which a device may send, with access = "time"', example="0.01"
        ),
    ] = None
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
        faults += self._table_faults()
        if self.uplink_share < 1 < self.uplink_share + (self.downlink_share or 0.0) - 1e-9:
            faults.append(
                f"uplink_share = {self.uplink_share:g} and downlink_share = "
                f"{self.downlink_share:g} are more than all the time"
            )
        return faults

    def _table_faults(self) -> list[str]:
        """Return what is wrong with the keys of a rate table."""
        faults, table, usual = [], self.rate_table, Radio.__struct_defaults__
        default = dict(zip(self.__struct_fields__, usual, strict=True))

        def changed(*names: str) -> list[str]:
            return [name for name in names if getattr(self, name) != default[name]]

        if self.duty_cycle is not None and self.access != "time":
            faults.append('duty_cycle is for access = "time": leave it out')
        if table is None:
            return faults + [
                f"{name} is for a rate_table, and there is none: leave it out, or name a table"
                for name in changed(*OF_TABLES)
            ]
        if self.gap_db:
            faults.append(
                f"gap_db = {self.gap_db:g} is for Shannon's formula, and the SNR of rate_table = "
                f'"{table}" has its gap: set gap_db = 0, and margin_db for what a receiver loses'
            )
        if table not in OF_NR:
            faults += [
                f'{name} is for NR tables, and rate_table is "{table}": leave it out'
                for name in changed("block_bits", "code_blocks", "spectral_cap")
            ]
        access = "band" if table in (*OF_NR, NB_IOT) else "time"
        if self.access != access:
            faults.append(f'rate_table = "{table}" needs access = "{access}"')
        if self.downlink != "constant" and (table == NB_IOT or table.startswith("lora")):
            faults.append(f'rate_table = "{table}" has no downlink: give cell.broadcast_time')
        if table == NB_IOT and self.uplink_share != 1:
            faults.append(
                "uplink_share: the tables of NB-IoT have the pauses of a device in them: leave it "
                "out"
            )
        if self.harq == "repeat" and self.harq_fade == "same" and self.arq == "repeat":
            faults.append(
                'harq = "repeat" with harq_fade = "same": a block that is lost in a fade is lost '
                'in every try; take harq = "chase", or harq_fade = "new"'
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


OF_TABLES = (
    *("target_bler", "margin_db", "block_bits", "code_blocks"),
    *("harq", "harq_tries", "harq_fade", "harq_rtt", "arq"),
)
