"""The ready Flower app in a testbed: links at a_j B r_j^0 and processors at f_j, set in each round.

The time of each upload on its link is compared with Flower's own time for it, and with the cost
model (6): a check that the model describes a real network.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput, FedcellError
from fedcell.core.files.formats import read_tables
from fedcell.deploy.exchanges import CAME, read_exchanges
from fedcell.deploy.local.federation import LocalFederation
from fedcell.deploy.local.processes import Process, Processes
from fedcell.deploy.options import RunConfig
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import prepare_training
from fedcell.scenario.learning import Layers, Learning
from fedcell.scenario.save import save_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.tables import Cell, Clients, RoundPlan

from .meter import Meter
from .names import SERVER, Place
from .testbed import Testbed
from .uploads import MeasuredUpload, TestbedReport

POLL = 0.02  # [s] between two polls of the schedule
MAX_SECONDS = 7200.0  # of a run
CONNECT = (
    "import socket, sys; sys.exit(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))"
)


def usual_world(clients: int = 4, bandwidth: float = 4e7) -> Scenario:
    """Return a small cell with links of some Mbit/s, and a model of a megabyte."""
    return Scenario(
        cell=Cell(bandwidth=bandwidth, distance=(150.0, 250.0), gain_threshold=0.1),
        clients=Clients(count=clients, spread=0.5, freq_max=8e8),
        plan=RoundPlan(cohort=min(3, clients), local_steps=200, rounds=6),
        learning=Learning(dataset="digits", layers=Layers(hidden=(512, 512)), rate=0.05),
    )


class TestbedProcesses(Processes):
    """Processes at the clients and the server of a testbed."""

    def __init__(self, testbed: Testbed, folder: Path, env: Mapping[str, str]) -> None:
        super().__init__(folder, env)
        self._testbed = testbed

    def _testbeds(self) -> Sequence[str]:
        return (self._testbed.token,)

    def _open(
        self, command: Sequence[str], log: Path, place: int | None
    ) -> "subprocess.Popen[bytes]":
        at: Place = SERVER if place is None else place
        return self._testbed.start(at, command, env=self.env, log=log)

    def reachable(self, host: str, port: int) -> bool:
        """Return whether a process listens at an address of the testbed."""
        trial = self._testbed.start(SERVER, [sys.executable, "-c", CONNECT, host, str(port)])
        return trial.wait(timeout=30) == 0


@dataclass(frozen=True)
class AppliedSchedule:
    """A schedule as links and processors were set to it."""

    round: int
    begin: float  # time.monotonic
    rates: Mapping[int, float]  # of the links [bit/s]
    shares: Mapping[int, float]  # of a processor


class Shaper(threading.Thread):
    """Sets links and processors to the server's schedule as soon as it is written."""

    def __init__(
        self,
        testbed: Testbed,
        file: Path,
        bits: float,
        full: float,
        senders: Sequence[Process] = (),  # SuperNodes, which send and do not train: not limited
    ) -> None:
        super().__init__(name="fedcell-shaper", daemon=True)
        self._testbed, self._file, self._bits, self._full = testbed, file, bits, full
        self._senders = list(senders)
        self._ended = threading.Event()
        self.applied: list[AppliedSchedule] = []
        self.fault: FedcellError | None = None

    def run(self) -> None:
        """Poll the schedule until `finish`."""
        last = 0
        while not self._ended.wait(POLL):
            if not self._file.exists():
                continue
            schedule = read_tables(self._file)
            if schedule["round"] != last:
                last = schedule["round"]
                try:
                    self.applied.append(self._apply(schedule))
                except FedcellError as error:
                    self.fault = error
                    return

    def _apply(self, schedule: Mapping[str, Any]) -> AppliedSchedule:
        begin, clients = time.monotonic(), schedule["clients"]
        while self._senders:  # by now they have started the processes that train
            self._testbed.release(self._senders.pop().handle)
        rates = dict(
            zip(clients, (self._bits * x for x in schedule["uploads_per_second"]), strict=True)
        )
        shares = dict(zip(clients, (f / self._full for f in schedule["freq"]), strict=True))
        for client, rate in rates.items():
            self._testbed.set_rate(client, rate)
            if self._testbed.why_no_quota is None:
                self._testbed.set_cpu(client, shares[client])
        return AppliedSchedule(schedule["round"], begin, rates, shares)

    def finish(self) -> None:
        """Stop polling; raise what went wrong."""
        self._ended.set()
        self.join()
        if self.fault is not None:
            raise self.fault


def calibrated(world: Scenario, seed: int, full: float, data_dir: Path | None = None) -> Scenario:
    """Return the scenario with alpha_0 of this machine, one processor of which has `full` cycles a
    second, so that modelled training times can be compared with a clock."""
    setup = prepare_training(world, seed, data_dir)
    learner = setup.learner(threads=1, test=False)
    warm_up(learner)
    model, samples = learner.start(), setup.scenario.clients.sizes.values
    client = int(samples.argmax())
    least = min(_timed(lambda: list(learner.train(model, [client], 0))) for _ in range(3))
    per_step = float(setup.scenario.step_samples(samples)[client])
    cycles = least * full / (setup.scenario.local_work * per_step)
    return world.using(task={"cycles_per_sample": cycles})


def _timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def emulate(
    world: Scenario,
    folder: Path,
    *,
    rounds: int | None = None,
    seed: int = 0,
    policy: str = "distributed",
    deadline: float = 300.0,
    data_dir: Path | None = None,
    message: Callable[[str], None] = lambda _: None,
    pause: Callable[[], None] = lambda: None,
) -> TestbedReport:
    """Run a scenario on Flower in a testbed of this machine, and compare uploads with the model.

    `folder`, which must be new or empty, gets the run, in `run`, and the logs. `message` is called
    with lines of progress, and `pause` about every 0.1 s.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder}: exists already: choose another `folder`")
    setup = prepare_training(world, seed, data_dir)
    full = float(world.clients.freq_max)
    bits, count = setup.scenario.model_bits, setup.scenario.clients.count
    message("measuring the training speed of this machine")
    world = calibrated(world, seed, full, data_dir)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    save_scenario(world, folder / "scenario.json")
    config = RunConfig(
        scenario=str(folder / "scenario.json"),
        policy=policy,
        seed=seed,
        rounds=rounds or 0,
        folder=str(folder / "run"),
        deadline=deadline,
        schedule_file=str(folder / "schedule.json"),
        data_dir=str(data_dir.absolute()) if data_dir else "",
    )
    with Testbed(count) as testbed:
        limited = testbed.why_no_quota is None
        if not limited:
            message(f"processors are not limited: {testbed.why_no_quota}")
        uploads = _run(testbed, config, folder, bits, full, message, pause)
    return TestbedReport(uploads=tuple(uploads), bits=bits, policy=policy, limited=limited)


def _run(
    testbed: Testbed,
    config: RunConfig,
    folder: Path,
    bits: float,
    full: float,
    message: Callable[[str], None],
    pause: Callable[[], None],
) -> list[MeasuredUpload]:
    """Run a federation in a testbed to its end, and return its uploads as the links saw them."""

    def start(logs: Path, env: Mapping[str, str]) -> Processes:
        return TestbedProcesses(testbed, logs, env)

    host, count = testbed.address(SERVER), testbed.clients
    with testbed.meter() as meter, LocalFederation(folder, host=host, start=start) as federation:
        federation.start_superlink()
        nodes = [
            federation.start_node({"partition-id": j, "num-partitions": count})
            for j in range(count)
        ]
        shaper = Shaper(testbed, Path(config.schedule_file), bits, full, nodes)
        message(f"a server and {count} devices, each in its own network, on {host}")
        shaper.start()
        try:
            federation.wait(federation.submit(config), MAX_SECONDS, pause)
        finally:
            shaper.finish()
        return measured_uploads(Path(config.folder), shaper.applied, meter, time.monotonic())


def measured_uploads(
    folder: Path, applied: Sequence[AppliedSchedule], meter: Meter, end: float
) -> list[MeasuredUpload]:
    """Return each upload that came, as its link saw it during the round."""
    windows = {
        schedule.round: (schedule, after.begin if after else end)
        for schedule, after in zip(applied, [*applied[1:], None], strict=True)
    }
    known = lambda value: float("nan") if value is None else value
    uploads = []
    for exchange in read_exchanges(folder):
        if exchange.outcome not in CAME or exchange.round not in windows:
            continue
        assert exchange.client is not None
        schedule, until = windows[exchange.round]
        seen = meter.upload(exchange.client, schedule.begin, until)
        uploads.append(
            MeasuredUpload(
                round=exchange.round,
                client=exchange.client,
                name=exchange.name,
                rate=schedule.rates[exchange.client],
                cpu=schedule.shares[exchange.client],
                modelled=known(exchange.modelled_upload),
                link=seen.duration,
                bytes=seen.burst,
                flower=known(exchange.measured_upload),
                modelled_training=known(exchange.modelled_training),
                training=known(exchange.measured_training),
            )
        )
    return uploads
