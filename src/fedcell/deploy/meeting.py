"""Before the first round: the devices introduce themselves, and become a federation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.learning.setup import TrainingSetup, prepare_training
from fedcell.network.draw import draw_fleet
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.checks import own_learner_setup

from .client import MODEL, SCENARIO, SEED, learning_text
from .exchange import Exchange
from .federation import Federation
from .layout import Layout
from .link import Link
from .members import Members
from .profile import Profile, introduced
from .settings import Settings

JOINING = 120.0  # [s] in which all devices introduce themselves


@dataclass(frozen=True, kw_only=True, eq=False)
class Met:
    """Devices that have introduced themselves, and the scenario with what they said."""

    link: Link
    members: Members
    scenario: Scenario
    profiles: Mapping[int, Profile]
    arrays: Mapping[str, Any] | None  # the first model of an app of one's own; None: ours

    def federation(
        self,
        settings: Settings,
        seed: int,
        judged_by: str = "server",
        data_dir: Path | None = None,
        scenario: Scenario | None = None,
    ) -> tuple[TrainingSetup, Federation]:
        """The devices as a learner on a seed, and what they learn; with the K and E_l of another
        `scenario`, where one is given."""
        if judged_by not in ("server", "devices"):
            raise BadInput(f"`judged_by` = {judged_by!r}: expected server or devices")
        world = self.scenario if scenario is None else scenario
        if self.arrays is not None:
            return self._of_strangers(world, settings, seed, self.arrays)
        setup = prepare_training(world, seed, data_dir)
        return setup, self.trained_by(setup, settings, judged_by)

    def trained_by(
        self, setup: TrainingSetup, settings: Settings, judged_by: str = "server"
    ) -> Federation:
        """The devices as the learner of what is trained, in place of our engine: to the same
        bits."""
        judge, seed = setup.learner(), setup.seed
        model = judge.start()
        about = {**settings.about, SCENARIO: learning_text(setup.scenario), SEED: seed}
        return Federation(
            *(self.link, self.members, setup.scenario, draw_fleet(setup.scenario, seed)),
            *(Layout.of({MODEL: model}), model, replace(settings, about=about), seed),
            judge=judge if judged_by == "server" else None,
        )

    def _of_strangers(
        self, world: Scenario, settings: Settings, seed: int, arrays: Mapping[str, Any]
    ) -> tuple[TrainingSetup, Federation]:
        layout = Layout.of(arrays)
        bits = {} if world.task.model_bits is not None else {"model_bits": layout.bits}
        world = world.using(task=bits, clients={"sizes": _sizes_of(self.profiles)})
        fleet, first = draw_fleet(world, seed), layout.flat(arrays)
        made = Federation(self.link, self.members, world, fleet, layout, first, settings, seed)
        return own_learner_setup(world, made, seed), made


def meet(
    grid: Any,
    scenario: Scenario,
    arrays: Mapping[str, Any] | None = None,
    seed: int = 0,
    join_timeout: float = JOINING,
    data_dir: Path | None = None,
    tell: Callable[[Sequence[Exchange]], None] | None = None,
) -> Met:
    """Waits for the devices of a scenario, and asks them who they are."""
    link, count, setup = Link(grid), scenario.clients.count, None
    about: dict[str, Any] = {SEED: seed}
    if arrays is None:
        setup = prepare_training(scenario, seed, data_dir)
        about[SCENARIO] = learning_text(setup.scenario)
        count = setup.scenario.clients.count
    members = Members(link, about, tell)
    profiles = members.gather(count, join_timeout)
    if setup is not None:
        _check_sizes(setup, profiles)
    world = introduced(scenario, profiles)
    return Met(link=link, members=members, scenario=world, profiles=profiles, arrays=arrays)


def _check_sizes(setup: TrainingSetup, profiles: Mapping[int, Profile]) -> None:
    """Refuses devices that hold other data than the scenario deals them."""
    sizes = setup.scenario.clients.sizes.values
    for client, profile in profiles.items():
        if profile.samples is not None and profile.samples != int(sizes[client]):
            raise BadInput(
                f"{profile.name} holds {profile.samples} samples, and client {client} of the "
                f"scenario {int(sizes[client])}: it has other data, or another partition-id"
            )


def _sizes_of(profiles: Mapping[int, Profile]) -> Any:
    """D_j as the devices say."""
    silent = [profile.name for profile in profiles.values() if profile.samples is None]
    if silent:
        raise BadInput(f"{silent[0]} does not say how many samples it holds: it has to")
    return np.array([float(profiles[j].samples or 0) for j in range(len(profiles))])
