"""Before the first round: devices introduce themselves, and become a federation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.deploy.device import MODEL, SCENARIO, SEED, learning_text
from fedcell.deploy.exchanges import Exchange
from fedcell.deploy.keys import read_keys
from fedcell.deploy.options import FederationOptions
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.profile import Profile, introduced
from fedcell.learning.setup import TrainingSetup, prepare_training
from fedcell.network.draw import draw_fleet
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.checks import own_learner_setup

from .admission import Admission
from .federation import Federation
from .link import Link
from .presence import Presence
from .roster import Roster

JOIN_TIMEOUT = 120.0  # [s] in which all devices introduce themselves


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinedDevices:
    """Devices that have introduced themselves, and the scenario with their profiles."""

    link: Link
    roster: Roster
    scenario: Scenario
    profiles: Mapping[int, Profile]
    arrays: Mapping[str, Any] | None  # first model of a custom ClientApp; None: the ready one

    @property
    def absent(self) -> list[str]:
        """Names of the clients that have not joined."""
        places = range(self.scenario.clients.count)
        return [self.roster.name_of(j) for j in places if j not in self.profiles]

    def federation(
        self,
        settings: FederationOptions,
        seed: int,
        judged_by: str = "server",
        data_dir: Path | None = None,
        scenario: Scenario | None = None,
    ) -> tuple[TrainingSetup, Federation]:
        """Return the training on a seed, and the devices as its learner; with the K and E_l of
        another `scenario`, where one is given."""
        if judged_by not in ("server", "devices"):
            raise BadInput(f"`judged_by` = {judged_by!r}: expected server or devices")
        world = self.scenario if scenario is None else scenario
        if self.arrays is not None:
            return self._custom(world, settings, seed, self.arrays)
        setup = prepare_training(world, seed, data_dir)
        return setup, self.trained_by(setup, settings, judged_by)

    def trained_by(
        self, setup: TrainingSetup, settings: FederationOptions, judged_by: str = "server"
    ) -> Federation:
        """Return the devices as the learner of a training, in place of the built-in engine and
        equal to it bit for bit."""
        judge, seed = setup.learner(), setup.seed
        model = judge.start()
        about = {**settings.about, SCENARIO: learning_text(setup.scenario), SEED: seed}
        return Federation(
            *(self.link, self.roster, setup.scenario, draw_fleet(setup.scenario, seed)),
            *(Layout.of({MODEL: model}), model, replace(settings, about=about), seed),
            judge=judge if judged_by == "server" else None,
        )

    def _custom(
        self, world: Scenario, settings: FederationOptions, seed: int, arrays: Mapping[str, Any]
    ) -> tuple[TrainingSetup, Federation]:
        layout = Layout.of(arrays)
        sizes = _sizes_of(self.profiles)
        if len(self.profiles) < world.clients.count:  # some are absent: the scenario has their D_j
            sizes = _known_sizes(world)
        world = _with_bits(world, layout).using(clients={"sizes": sizes})
        fleet, first = draw_fleet(world, seed), layout.flat(arrays)
        federation = Federation(self.link, self.roster, world, fleet, layout, first, settings, seed)
        return own_learner_setup(world, federation, seed), federation


def join_devices(
    grid: Any,
    scenario: Scenario,
    arrays: Mapping[str, Any] | None = None,
    seed: int = 0,
    join_timeout: float = JOIN_TIMEOUT,
    data_dir: Path | None = None,
    on_exchanges: Callable[[Sequence[Exchange]], None] | None = None,
    start_with: int | None = None,
    keys: str | Path | None = None,
) -> JoinedDevices:
    """Wait for the devices of a scenario, and ask for their profiles.

    With `start_with`, continue with the connected devices when the time is over, if they are at
    least that many. `keys` names a table that binds names to keys.
    """
    about: dict[str, Any] = {SEED: seed}
    bound = {} if keys is None else read_keys(Path(keys))
    names = None if scenario.clients.table is None else scenario.clients.table.name
    dealt, owners, sizes = None, None, _known_sizes(scenario)
    if arrays is None:
        setup = prepare_training(scenario, seed, data_dir)
        about[SCENARIO] = learning_text(setup.scenario)
        asked, owners = setup.scenario, setup.client_names
        dealt = sizes = asked.clients.sizes.values
        names = owners
    elif start_with is not None and sizes is None:
        raise BadInput(
            "`start_with`: the samples of absent devices are not known: give clients.sizes, or the "
            "column samples in a fleet table"
        )
    else:
        asked = _with_bits(scenario, Layout.of(arrays))
    count, link = asked.clients.count, Link(grid)
    expected = Presence(count=count, names=names, start_with=start_with, sizes=sizes)
    admission = Admission(scenario=asked, dealt=dealt, keys=bound)
    roster = Roster(link, about, on_exchanges, expected, admission)
    profiles = roster.gather(count, join_timeout)
    world = introduced(scenario, profiles, owners)
    return JoinedDevices(link=link, roster=roster, scenario=world, profiles=profiles, arrays=arrays)


def _with_bits(scenario: Scenario, layout: Layout) -> Scenario:
    """Return a scenario with the size of an upload."""
    bits = {} if scenario.task.model_bits is not None else {"model_bits": layout.bits}
    return scenario.using(task=bits)


def _known_sizes(scenario: Scenario) -> Any:
    """Return the D_j of a scenario; None where it does not give them for each client."""
    clients = scenario.clients
    if clients.sizes is not None:
        return clients.sizes.values
    samples = None if clients.table is None else clients.table.samples
    return None if samples is None or np.isnan(samples).any() else samples


def _sizes_of(profiles: Mapping[int, Profile]) -> Any:
    """Return D_j from the profiles of the devices."""
    if not any(profile.samples for profile in profiles.values()):
        raise BadInput("no device holds any samples: there is nothing to learn from")
    return np.array([float(profiles[j].samples or 0) for j in sorted(profiles)])
