"""Admit a device: its whole profile is checked when it introduces itself.

Admitted profiles make a fleet that can be drawn, scheduled and priced in every round, so that no
profile ends the run for the other devices later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array
from fedcell.deploy.wire.profile import Profile, introduced
from fedcell.network.channels.gains import recorded_gains
from fedcell.network.draw import draw_fleet
from fedcell.network.round import make_problem
from fedcell.network.trace import Fleet, Trace
from fedcell.scenario.channel.spec import ChannelSpec
from fedcell.scenario.scenario import Scenario

from .drift import MAX_LOG_RATIO, corrected_fleet

UNIFORM_RANGE = np.array([2.0**-53, 1 - 2.0**-53])  # extremes of the random number of fading


@dataclass(frozen=True, kw_only=True, eq=False)
class Admission:
    """What a scenario requires of its devices.

    `scenario` has the size of an upload. `dealt` are the D_j of the scenario's own data, with
    which the ready ClientApp trains; None where devices have data of their own. `keys` has the
    public key of each name, where names are bound to keys.
    """

    scenario: Scenario
    dealt: Array | None = None
    keys: Mapping[str, bytes] = field(default_factory=dict)

    def fault(self, profile: Profile, key: bytes = b"", place: int | None = None) -> str:
        """Say why a device cannot take part; empty if it can. `place` is its client where that
        follows from its name; None: the client of its profile."""
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
        """Refuse a device that does not hold the samples that the scenario deals to its client."""
        if self.dealt is None:
            if profile.samples is None:
                raise BadInput(
                    f"{profile.name}: its profile lacks samples, which your own ClientApp must give"
                )
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
            source = {True: " of the scenario", False: ""}
            raise BadInput(
                f"freq_min = {low:g}{source[profile.freq_min is None]} is above freq_max = "
                f"{high:g}{source[profile.freq_max is None]}: give it both, in cycle/s"
            )

    def _check_numbers(self, profile: Profile, place: int | None) -> None:
        """Refuse numbers that are each in range, but with which no round can be priced."""
        table = self.scenario.clients.table
        if table is not None and profile.numbers:
            introduced(self.scenario, {0: profile})  # refuses
        if table is not None:
            return
        samples = profile.samples if self.dealt is None else self.dealt[place or 0]
        one = {"count": 1, "sizes": [max(1.0, float(samples or 0))], "table": None}
        drawn = self.scenario.cell.channel.measured is None
        without = {} if drawn else {"channel": ChannelSpec()}
        alone = self.scenario.using(
            clients=one,
            plan={"cohort": 1},
            cell={"gains": None} | without,
            task={"samples_per_step": self.scenario.samples_per_step},
            learning=None,  # its data is dealt to all clients
        )
        alone = introduced(alone, {0: profile})
        fleet = draw_fleet(alone)
        try:
            for training, upload in product((-MAX_LOG_RATIO, MAX_LOG_RATIO), repeat=2):
                drifted = corrected_fleet(fleet, alone, np.array([training]), np.array([upload]))
                for gain in self._gains(drifted):
                    make_problem(alone, drifted, Trace.of(np.array([[gain]])))
        except BadInput as error:
            raise BadInput(
                f"{profile.name} gives numbers with which no round can be priced "
                f"({error.faults[0]}): check their units (SI)"
            ) from error

    def _gains(self, fleet: Fleet) -> Array:
        """Return the lowest and the highest gain that the one device of a fleet can have."""
        if self.scenario.cell.recorded is None:
            return np.asarray(fleet.mean_gain * -np.log1p(-UNIFORM_RANGE))
        values = self.scenario.cell.recorded.values
        measured = recorded_gains(self.scenario, fleet, values, np.zeros(values.shape, int))
        usable = measured[measured > 0]
        return np.array([usable.min(), usable.max()]) if usable.size else np.empty(0)
