"""Federations on this machine, for the commands that start them."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fedcell.core.errors import BadInput, FedcellError
from fedcell.core.quantities import readable_duration
from fedcell.deploy.exchanges import Exchange, read_exchanges
from fedcell.deploy.local.federation import LocalFederation, program
from fedcell.deploy.options import RunConfig, check_chosen
from fedcell.deploy.server.presence import round_line
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import BUILT_IN
from fedcell.scenario.save import save_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.folder.ledger_file import LEDGER, read_ledgers

from .words import has_option

MAX_DEVICES = 12  # started on this machine unless --devices asks for more
MAX_FEDERATION_TIME = 10**7  # [s]


def with_devices(world: Scenario, devices: int | None, any_number: bool) -> Scenario:
    """Return the scenario with one client for each device."""
    count = world.clients.count
    if devices is None:
        if count > MAX_DEVICES and not any_number:
            way_out = "--devices 4, or --simulation" if has_option("simulation") else "--devices 4"
            raise BadInput(
                f"the scenario has {count} clients, and each would take a process of about 300 MB "
                f"here: give {way_out}"
            )
        return world
    if world.clients.table is not None or world.cell.recorded is not None:
        raise BadInput("--devices: the scenario lists its clients or their channels: leave it out")
    cohort = min(world.plan.cohort, devices)
    return world.using(clients={"count": devices}, plan={"cohort": cohort})


def check_policy(policy: str) -> None:
    """Refuse a policy that a federation cannot run."""
    if policy not in BUILT_IN:
        raise BadInput(f"--policy {policy}: a federation runs one of: {', '.join(BUILT_IN)}")


def check_run_folder(folder: Path, resume: bool) -> None:
    """Refuse a folder in which no run can start or resume, before any process is started."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder}: is not a folder: choose another --out")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder}: exists already: give --resume, or choose another --out")
    if resume and not folder.exists():
        raise BadInput(f"{folder}: there is no run to resume; leave --resume out to start one")


def run_here(
    config: RunConfig,
    world: Scenario,
    work: Path,
    simulation: bool,
    quiet: bool,
    note: Callable[[], object],
) -> None:
    """Start a federation on this machine, run it, print its rounds, and stop all processes.

    Locks the folder `work` and ends leftover processes of a killed run before anything else; then
    calls `note`, which may print, and starts the processes."""
    count, folder = world.clients.count, Path(config.folder)

    def tell(words: str) -> None:
        if not quiet:
            print(f"fedcell: {words}", file=sys.stderr, flush=True)

    with LocalFederation(work) as federation:
        if ended := sorted(federation.cleared):
            tell(f"ended leftover processes of a killed deploy: {', '.join(map(str, ended))}")
        if not config.pilot_file:  # a pilot has no folder
            check_run_folder(folder, config.resume)
            if config.resume:
                check_chosen(folder, config.options().chosen())
        # Data that cannot be dealt is refused before any process is started.
        prepare_training(world, config.seed, Path(config.data_dir) if config.data_dir else None)
        note()
        program("flower-superlink")
        save_scenario(world, Path(config.scenario))
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
        watch = RunWatch(folder, tell)
        status = federation.submit(config, count if simulation else None)
        tell(f"the run has started; a round waits {readable_duration(config.deadline)} at most")
        federation.wait(status, MAX_FEDERATION_TIME, watch.look)
        watch.look()
    tell("all processes are stopped")


class RunWatch:
    """Prints each round of a run when it is done."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._folder, self._tell = folder, tell
        self._seen: float | None = None
        self._rounds: int | None = None  # printed so far, or done before

    def look(self) -> None:
        """Print the rounds that are new."""
        path = self._folder / LEDGER
        try:
            changed = path.stat().st_mtime_ns
        except OSError:
            return
        if changed == self._seen:
            return
        self._seen = changed
        try:
            columns = next(iter(read_ledgers(self._folder).values()), None)
        except FedcellError:
            return  # it is being written
        if columns is None:
            self._rounds = 0
            return
        rounds, exchanges = columns["duration"].size, self._exchanges()
        for t in range(self._rounds or 0, rounds):
            loss = columns["train_loss"][t]
            called, received = columns["called"][t], columns["received"][t]
            self._tell(round_line(t + 1, loss, received, called, exchanges))
        self._rounds = rounds

    def _exchanges(self) -> Sequence[Exchange]:
        """Return the exchanges so far; none while the file is being written."""
        try:
            return read_exchanges(self._folder)
        except (FedcellError, OSError):
            return ()
