"""The channel as a user declares it: the table [cell.channel]."""

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedcell.core.callables import blaming
from fedcell.core.errors import UNPRINTABLE, BadInput
from fedcell.core.plugins import load_plugin, plugin_names
from fedcell.core.schema import (
    Doc,
    NotNegative,
    Positive,
    Table,
    Text,
    documented,
    fields_of,
    suggestion,
)
from fedcell.core.types import Array

from .laws import INDOOR_SLOPE, LAWS, Propagation, wall_loss, with_spec
from .measured import Measured

PAPER = "paper"
MODELS = (PAPER, *LAWS)
CHANNEL_GROUP = "fedcell.channels"  # entry points of other packages, looked up by name
NO_DELAY = "sets no delay spread: give cell.channel.delay_spread [s], or diversity as a number"
Decibels = Annotated[float, Meta(ge=-50, le=50, description="a number from -50 to 50 [dB]")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Diversity = Annotated[  # ChannelSpec.faults checks its range, as with cell.distance
    float | str, Meta(description='a number from 1 to 1e6, or "auto"')
]
FACTORY = tuple(name for name in LAWS if name.startswith("inf-") and name != "inf-hh")
ABOVE = ("inf-sh", "inf-dh")  # a station above the clutter
ONE_STATE = (PAPER, "inf-hh", "lte-macro", "free-space")
NO_RICIAN = (PAPER, "lte-macro", "free-space")  # no K-factor
USERS = {  # options that only some models use
    "building_height": ("rma",),
    "street_width": ("rma",),
    "clutter_density": FACTORY,
    "clutter_size": FACTORY,
    "clutter_height": ABOVE,
    "line_of_sight": tuple(name for name in LAWS if name not in ONE_STATE),
    "station_height": tuple(name for name in LAWS if name != "free-space"),
    "device_height": tuple(name for name in LAWS if name not in ("free-space", "lte-macro")),
}


@documented
class ChannelSpec(Table, frozen=True, kw_only=True):
    """Path loss, shadowing, buildings, fading and motion; the defaults are the paper's.

    >>> ChannelSpec(model="umi", carrier=3.5e9).indoor_share
    0.0
    """

    table_name: ClassVar[str] = "cell.channel"

    model: Annotated[
        Text,
        Doc(
            f"path loss: {', '.join(MODELS)}, or the name of an installed law; "
            '"paper" is reference_gain (reference_distance / d)^path_loss_exponent'
        ),
    ] = PAPER
    carrier: Annotated[Positive, Doc("carrier frequency", "f_c", "Hz")] = 3.5e9
    station_height: Annotated[
        Positive | None, Doc("of the antenna; left out: that of the model", unit="m", example="25")
    ] = None
    device_height: Annotated[
        Positive | None, Doc("of the clients; left out: that of the model", unit="m", example="1.5")
    ] = None
    line_of_sight: Annotated[
        Literal["drawn", "always", "never"],
        Doc("a state of each client that persists with its position, or the same for all"),
    ] = "drawn"
    shadowing: Annotated[
        NotNegative | None,
        Doc("standard deviation; left out: that of the model", unit="dB", example="6"),
    ] = None
    correlation_distance: Annotated[
        Positive | None,
        Doc(
            "of shadowing and sight, for clients that move; left out: those of the model",
            unit="m",
            example="50",
        ),
    ] = None
    building_height: Annotated[Positive, Doc("mean height of buildings", "h", "m")] = 5.0
    street_width: Annotated[Positive, Doc("mean width of streets", "W", "m")] = 20.0
    clutter_density: Annotated[
        Share | None,
        Doc("share of the hall that machines cover; left out: the model's", "r", example="0.4"),
    ] = None
    clutter_size: Annotated[
        Positive | None, Doc("of machines; left out: the model's", "d_cl", "m", example="2")
    ] = None
    clutter_height: Annotated[
        Positive | None, Doc("of machines; left out: the model's", "h_c", "m", example="6")
    ] = None
    indoor_share: Annotated[Share, Doc("share of the clients that are in buildings")] = 0.0
    building: Annotated[
        Literal["low", "high"],
        Doc("loss of outer walls: plain glass and concrete, or coated glass (TR 38.901, 7.4.3)"),
    ] = "low"
    indoor_depth: Annotated[
        NotNegative,
        Doc("clients in buildings are up to this far behind the wall, evenly", unit="m"),
    ] = 25.0
    fading: Annotated[
        Literal["gamma", "rician", "none"],
        Doc(
            "of a round: Gamma of some branches (diversity), Rician for clients in sight of the "
            "station (else exponential), or none"
        ),
    ] = "gamma"
    diversity: Annotated[
        Diversity,
        Doc(
            "independent branches that an upload averages: 1 is exponential fading, the paper's; "
            '"auto" is 5 B delay_spread / K, with airtime shares 5 B delay_spread, at least 1'
        ),
    ] = 1.0
    delay_spread: Annotated[
        Positive | None,
        Doc('for diversity = "auto"; left out: that of the model', unit="s", example="3e-7"),
    ] = None
    rician_db: Annotated[
        Decibels | None,
        Doc("Rician K-factor; left out: that of the model", unit="dB", example="9"),
    ] = None
    move: Annotated[
        NotNegative, Doc("each client moves this far from round to round", unit="m")
    ] = 0.0
    measured: Annotated[
        Any,
        Doc(
            "measured channels instead, a column of a file: gain_db, rsrp_dbm, snr_db or rate_mbps "
            "names it (docs/how-to/drive-test.md). Measured in Python",
            example='{ file = "drive.csv", rate_mbps = "uplink", device = "phone" }',
        ),
    ] = None

    def prepare(self) -> None:
        if not isinstance(self.measured, Measured | None):
            raise BadInput(
                f"cell.channel.measured is a {type(self.measured).__name__}: expected a Measured, "
                'or in a file a table such as { file = "drive.csv", rate_mbps = "uplink" }'
            )

    def faults(self) -> list[str]:
        if self.model not in MODELS and self.model not in (names := plugin_names(CHANNEL_GROUP)):
            hint = suggestion(self.model, [*MODELS, *names])
            return [f'model = "{UNPRINTABLE.sub(" ", self.model)}": {hint}']
        usual = {field.name: field.default for field in fields_of(ChannelSpec)}
        faults = [
            f'{name} is for {" and ".join(models)}, and cell.channel.model is "{self.model}": '
            "leave it out"
            for name, models in USERS.items()
            if self.model in MODELS
            and self.model not in models
            and getattr(self, name) != usual[name]
        ]
        if isinstance(self.diversity, str):
            if self.diversity != "auto":
                faults.append(f'diversity = "{self.diversity}": expected a number, or "auto"')
        elif not 1 <= self.diversity <= 1e6:
            faults.append(f'diversity = {self.diversity:g}: expected 1 to 1e6, or "auto"')
        if self.fading != "gamma" and self.diversity != 1.0:
            faults.append(f'diversity is for gamma, and fading is "{self.fading}": leave it out')
        if self.fading != "rician" and self.rician_db is not None:
            faults.append(f'rician_db is for rician, and fading is "{self.fading}": leave it out')
        if self.fading == "rician" and self.model in NO_RICIAN and self.rician_db is None:
            faults.append(f'rician_db is missing: "{self.model}" has no K-factor of its own')
        if self.clutter_density is not None and not 0 < self.clutter_density < 1:
            faults.append(f"clutter_density = {self.clutter_density:g}: expected between 0 and 1")
        if self.measured is not None:
            faults += [
                f"{name} has no effect on measured channels: leave it out"
                for name in usual
                if name not in ("measured", "carrier") and getattr(self, name) != usual[name]
            ]
        return faults

    @property
    def is_paper(self) -> bool:
        """Return whether a mean gain follows from the distance alone, by the paper's law."""
        return (
            self.model == PAPER and not self.shadowing and not self.indoor_share and not self.move
        )

    @property
    def radio_matters(self) -> tuple[str, ...]:
        """Return the keys of other tables on which the gains depend, "table.key"."""
        if self.measured is not None and self.measured.quantity in ("snr", "rate"):
            return ("cell.bandwidth", "cell.noise", "clients.power", "clients.spread")
        return ("cell.bandwidth",) if self.diversity == "auto" else ()

    def propagation(self, distance: Array) -> Propagation:
        """Return the path loss at horizontal distances [m], by a law other than the paper's.

        Raises
        ------
        BadInput
            If a distance is outside the range of the law, or an installed law fails.
        """
        if self.model in LAWS:
            found = LAWS[self.model](distance, self)
        else:
            law = load_plugin(CHANNEL_GROUP, self.model)
            with blaming(f"the channel {self.model} failed"):
                found = law(distance, self)
                if not isinstance(found, Propagation):
                    raise BadInput(
                        f"the channel {self.model} returned a {type(found).__name__}: expected a "
                        "Propagation"
                    )
        return with_spec(found, self)

    @property
    def mean_indoor_loss(self) -> float:
        """Return the mean loss of a client in a building [dB]: the wall, and half of the depth."""
        return wall_loss(self.building, self.carrier) + INDOOR_SLOPE * self.indoor_depth / 2

    def typical_gain(self, distance: Array | float) -> Array:
        """Return the channel gain at a distance [m], without line of sight and shadowing; indoors,
        where more than half of the clients are."""
        loss = self.propagation(np.asarray(distance, float)).obstructed
        if self.indoor_share > 0.5:
            loss = loss + self.mean_indoor_loss
        return np.asarray(10 ** (-loss / 10))
