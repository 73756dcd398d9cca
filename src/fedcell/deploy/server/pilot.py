"""A pilot on a federation: the same short runs, made by the devices instead of the simulator."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedcell.deploy.options import Settings
from fedcell.learning.learner import Learner
from fedcell.learning.setup import TrainingSetup
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.run import Report, run_pilot
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target

from .join import JOIN_TIMEOUT, join_devices


def pilot_federation(
    grid: Any,
    scenario: Scenario,
    budget: float | str,
    path: str | Path | None = None,
    *,
    arrays: Mapping[str, Any] | None = None,
    target: Target | float | None = None,
    minimise: str = "cost",
    clients: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
    rounds: int | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    join_timeout: float = JOIN_TIMEOUT,
    start_with: int | None = None,
    judged_by: str = "server",
    data_dir: Path | None = None,
    report: Report | None = None,
    keys: str | Path | None = None,
) -> Pilot:
    """Finds out how many rounds training takes by short runs on the devices themselves, for those
    whose data may not leave them. `budget` is by the clock on the wall, and rounds of a real
    federation take seconds each.

    With the ready ClientApp it is the pilot that the simulator would make, run by run to the same
    bits; with `arrays` of one's own, that of a learner that only the devices have.
    """
    settings = Settings() if settings is None else settings
    met = join_devices(
        *(grid, scenario, arrays, seed, join_timeout, data_dir, settings.on_exchanges),
        *(start_with, keys),
    )

    def trained_by(setup: TrainingSetup) -> Learner:
        return met.trained_by(setup, settings, judged_by)

    def devices(world: Scenario, seed: int) -> Learner:
        return met.federation(settings, seed, scenario=world)[1]

    known = met.scenario
    if arrays is not None:
        known = met.federation(settings, seed)[0].scenario  # with the size of an upload
    return run_pilot(
        known,
        budget,
        path,
        target=target,
        rounds=rounds,
        minimise=minimise,
        policy=settings.policy,
        clients=clients,
        steps=steps,
        seed=seed,
        data_dir=data_dir,
        learner=None if arrays is None else devices,
        trained_by=trained_by if arrays is None else None,
        report=report,
    )
