"""A pilot on a federation: the same short runs, trained by the devices."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fedcell.deploy.options import FederationOptions
from fedcell.learning.learner import Learner
from fedcell.learning.setup import TrainingSetup
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.run import run_pilot_with
from fedcell.planning.setting import Region
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.compute import Compute, Observer

from .join import join_devices


def pilot_federation(
    grid: Any,
    scenario: Scenario,
    budget: float | str,
    path: str | Path | None = None,
    *,
    target: Target | float | None = None,
    region: Region = Region(),  # noqa: B008
    seed: int = 0,
    options: FederationOptions = FederationOptions(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> Pilot:
    """Measure by short runs on the devices how many rounds training takes, for data that may not
    leave them.

    With the ready ClientApp it is the pilot that the simulator would make, to the same bits; with
    `options.arrays`, that of a learner that only the devices have. The budget is wall-clock time,
    and rounds of a real federation take seconds each.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The connected devices.
    scenario, budget, path, target, region, seed, observer
        As in `run_pilot`; rounds are priced under `options.policy`.
    options : FederationOptions, optional
        How the federation is run.

    Returns
    -------
    Pilot
        The trials.
    """
    met = join_devices(
        *(grid, scenario, options.arrays, seed, options.join_timeout, options.data_path),
        *(options.on_exchanges, options.start_with, options.keys),
    )

    def trained_by(setup: TrainingSetup) -> Learner:
        return met.trained_by(setup, options, options.judged_by)

    def devices(world: Scenario, seed: int) -> Learner:
        return met.federation(options, seed, scenario=world)[1]

    known, custom = met.scenario, options.arrays is not None
    if custom:
        known = met.federation(options, seed)[0].scenario  # with the size of an upload
    region = replace(region, policy=options.policy)
    compute = Compute(data_dir=options.data_dir, learner=devices if custom else None)
    return run_pilot_with(
        *(None if custom else trained_by, known, budget, path, target, region, seed),
        *("the scenario", compute, observer),
    )
