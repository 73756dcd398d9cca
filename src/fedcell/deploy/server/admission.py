"""Whether a device can take part: all that it says is checked when it introduces itself.

What passes here makes a fleet that can be drawn, scheduled and priced in every round, so that
nothing that a device says ends the run for the others later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array
from fedcell.deploy.wire.profile import Profile, introduced
from fedcell.network.channel import faded_gain
from fedcell.network.draw import draw_fleet
from fedcell.network.round import make_problem
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.scenario import Scenario

from .drift import MOST as FARTHEST
from .drift import corrected

DICE = np.array([2.0**-53, 1 - 2.0**-53])  # the least and the most that dice of fading show


@dataclass(frozen=True, kw_only=True, eq=False)
class Admission:
    """What a scenario asks of its devices.

    `scenario` knows the size of an upload. `dealt` are the D_j of the scenario's own data, with
    which the ready ClientApp trains; None where devices bring data of their own. `keys` has the
    public key of each name, where names are bound to keys.
    """

    scenario: Scenario
    dealt: Array | None = None
    keys: Mapping[str, bytes] = field(default_factory=dict)

    def fault(self, profile: Profile, key: bytes = b"", place: int | None = None) -> str:
        """Why a device cannot take part, in a sentence; empty if it can. `place` is the client that
        it is where its name says so; else what it says itself."""
        place = profile.client if place is None else place
        try:
            self._check_key(profile, key)
            self._check_samples(profile, place)
            self._check_frequencies(profile)
            self._check_numbers(profile, place)
        except BadInput as error:
            return error.faults[0]
        return ""

    def _check_key(self, profile: Profile, key: bytes) -> None:
        if not self.keys:
            return
        if profile.name not in self.keys:
            raise BadInput(f"{profile.name} is not in the table of keys: add it, or rename it")
        if self.keys[profile.name] != key:
            raise BadInput(
                f"the table of keys has another key for {profile.name}: start the device with the "
                "key that is listed, or correct the table"
            )

    def _check_samples(self, profile: Profile, place: int | None) -> None:
        """Refuses a device that does not hold what the scenario deals to its client."""
        if self.dealt is None:
            if profile.samples is None:
                raise BadInput(f"{profile.name} does not say how many samples it holds: it has to")
            return
        if place is None:
            raise BadInput(
                f"{profile.name} does not say which client it is, and the data of the scenario is "
                "dealt by client: give it a partition-id"
            )
        dealt = int(self.dealt[place])
        if profile.samples is not None and profile.samples != dealt:
            raise BadInput(
                f"{profile.name} holds {profile.samples} samples, and client {place} of "
                f"the scenario {dealt}: it has other data, or another partition-id"
            )

    def _check_frequencies(self, profile: Profile) -> None:
        clients = self.scenario.clients
        low = clients.freq_min if profile.freq_min is None else profile.freq_min
        high = clients.freq_max if profile.freq_max is None else profile.freq_max
        if clients.table is None and low > high:
            whose = {True: " of the scenario", False: ""}
            raise BadInput(
                f"freq_min = {low:g}{whose[profile.freq_min is None]} is above freq_max = "
                f"{high:g}{whose[profile.freq_max is None]}: give it both, in cycle/s"
            )

    def _check_numbers(self, profile: Profile, place: int | None) -> None:
        """Refuses numbers that are each in range, and with which no round can be priced."""
        table = self.scenario.clients.table
        if table is not None and profile.numbers:
            introduced(self.scenario, {0: profile})  # refuses
        if table is not None:
            return
        samples = profile.samples if self.dealt is None else self.dealt[place or 0]
        one = {"count": 1, "sizes": [max(1.0, float(samples or 0))], "table": None}
        alone = self.scenario.using(
            clients=one,
            plan={"cohort": 1},
            cell={"gains": None},
            task={"samples_per_step": self.scenario.samples_per_step},
            learning=None,  # whose data is dealt to all clients
        )
        alone = introduced(alone, {0: profile})
        fleet = draw_fleet(alone)
        try:
            for training, upload in product((-FARTHEST, FARTHEST), repeat=2):
                known = corrected(fleet, alone, np.array([training]), np.array([upload]))
                for gain in self._gains(known):
                    make_problem(alone, known, Trace.of(np.array([[gain]])))
        except BadInput as error:
            raise BadInput(
                f"{profile.name} gives numbers with which no round can be priced "
                f"({error.faults[0]}): check their units (SI)"
            ) from error

    def _gains(self, fleet: Fleet) -> Array:
        """The weakest and the strongest channel that a device of a fleet of one can have."""
        measured = self.scenario.cell.gains
        if measured is None:
            return faded_gain(fleet.mean_gain, DICE)
        heard = measured.values[measured.values > 0]
        return np.array([heard.min(), heard.max()]) if heard.size else np.empty(0)
