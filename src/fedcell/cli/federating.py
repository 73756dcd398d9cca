"""Federations on this machine, for the commands that start them."""

import sys
from collections.abc import Sequence
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.core.quantities import readable_duration
from fedcell.deploy.config import RunConfig
from fedcell.deploy.local import LocalFederation
from fedcell.scenario.scenario import Scenario

from .watching import RunWatch

MOST_DEVICES = 12  # processes on this machine where nobody says
LONGEST = 10**7  # [s] that a federation may take


def with_devices(world: Scenario, devices: int | None, any_number: bool) -> Scenario:
    """The scenario with as many clients as there are devices."""
    count = world.clients.count
    if devices is None:
        if count > MOST_DEVICES and not any_number:
            raise BadInput(
                f"the scenario has {count} clients, each of which would be processes of some 300 "
                "MB here: give --devices 4, or --simulation"
            )
        return world
    if world.clients.table is not None or world.cell.gains is not None:
        raise BadInput("--devices: the scenario lists its clients or their channels: leave it out")
    cohort = min(world.plan.cohort, devices)
    return world.using(clients={"count": devices}, plan={"cohort": cohort})


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Refuses a value that is none of those that an option has."""
    if value not in choices:
        raise BadInput(f"{option} {value}: expected {' or '.join(choices)}")


def check_place(folder: Path, resume: bool) -> None:
    """Refuses a folder in which no run can begin, or none is that could be gone on with, before
    anything is started."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder}: is not a folder: choose another --out")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder}: is there already: give --resume to go on, or another --out")
    if resume and not folder.exists():
        raise BadInput(f"{folder}: there is no run to resume; leave --resume out to start one")


def run_here(config: RunConfig, world: Scenario, work: Path, simulation: bool, quiet: bool) -> None:
    """Starts a federation on this machine, hands a run over, tells of its rounds, and stops all."""
    count = world.clients.count

    def tell(words: str) -> None:
        if not quiet:
            print(f"fedcell: {words}", file=sys.stderr, flush=True)

    with LocalFederation(work) as federation:
        started = federation.start_superlink(simulation)
        tell(f"SuperLink on {federation.address}, process {started.pid}, logs in {work / 'logs'}")
        if not simulation:
            nodes = [
                federation.start_node({"partition-id": j, "num-partitions": count}).pid
                for j in range(count)
            ]
            tell(f"{count} SuperNodes, processes {', '.join(map(str, nodes))}")
        else:
            tell(f"{count} virtual devices in Flower's simulation")
        watch = RunWatch(Path(config.folder), tell)
        status = federation.submit(config, count if simulation else None)
        tell(f"the run has begun; a round waits {readable_duration(config.deadline)} at most")
        federation.wait(status, LONGEST, watch.look)
        watch.look()
    tell("all of it is stopped")
