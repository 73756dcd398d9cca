"""The ready Flower app in a testbed: links at a_j B r_j^0, processors at f_j, set anew each round.

What a link was really busy with an upload is measured beside Flower's own time for it, and beside
what the model says (6): the proof that the cost model describes a real network.
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

LOOK = 0.02  # [s] between two looks at the schedule
LONGEST = 7200.0  # [s]
TRY = "import socket, sys; sys.exit(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))"


def usual_world(clients: int = 4, bandwidth: float = 4e7) -> Scenario:
    """A small cell whose links are some Mbit/s, and a model of a megabyte."""
    return Scenario(
        cell=Cell(bandwidth=bandwidth, distance=(150.0, 250.0), gain_threshold=0.1),
        clients=Clients(count=clients, spread=0.5, freq_max=8e8),
        plan=RoundPlan(cohort=min(3, clients), local_steps=200, rounds=6),
        learning=Learning(dataset="digits", layers=Layers(hidden=(512, 512)), rate=0.05),
    )


class PlacedProcesses(Processes):
    """Processes in the places of a testbed."""

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
        trial = self._testbed.start(SERVER, [sys.executable, "-c", TRY, host, str(port)])
        return trial.wait(timeout=30) == 0


@dataclass(frozen=True)
class Turn:
    """A schedule as it was carried out."""

    round: int
    begin: float  # time.monotonic
    rates: Mapping[int, float]  # of the links [bit/s]
    shares: Mapping[int, float]  # of a processor


class Shaper(threading.Thread):
    """Sets links and processors as the server's schedule says, as soon as it says so."""

    def __init__(
        self,
        testbed: Testbed,
        file: Path,
        bits: float,
        full: float,
        senders: Sequence[Process] = (),  # send what others have trained: as a radio does
    ) -> None:
        super().__init__(name="fedcell-shaper", daemon=True)
        self._testbed, self._file, self._bits, self._full = testbed, file, bits, full
        self._senders = list(senders)
        self._ended = threading.Event()
        self.turns: list[Turn] = []
        self.fault: FedcellError | None = None

    def run(self) -> None:
        last = 0
        while not self._ended.wait(LOOK):
            if not self._file.exists():
                continue
            told = read_tables(self._file)
            if told["round"] != last:
                last = told["round"]
                try:
                    self.turns.append(self._set(told))
                except FedcellError as error:
                    self.fault = error
                    return

    def _set(self, told: Mapping[str, Any]) -> Turn:
        begin, clients = time.monotonic(), told["clients"]
        while self._senders:  # by now they have started those who train
            self._testbed.free(self._senders.pop().handle)
        rates = dict(
            zip(clients, (self._bits * x for x in told["uploads_per_second"]), strict=True)
        )
        shares = dict(zip(clients, (f / self._full for f in told["freq"]), strict=True))
        for client, rate in rates.items():
            self._testbed.set_rate(client, rate)
            if self._testbed.why_no_quota is None:
                self._testbed.set_cpu(client, shares[client])
        return Turn(told["round"], begin, rates, shares)

    def end(self) -> None:
        self._ended.set()
        self.join()
        if self.fault is not None:
            raise self.fault


def calibrated(world: Scenario, seed: int, full: float, data_dir: Path | None = None) -> Scenario:
    """The scenario with alpha_0 of this machine, a processor of which stands for `full` cycles a
    second: so what the model says of training can be seen on a clock."""
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
    tell: Callable[[str], None] = lambda _: None,
    pause: Callable[[], None] = lambda: None,
) -> TestbedReport:
    """Runs a scenario on Flower in a testbed of this machine, and compares the uploads with the
    model. `folder` gets the run, in `run`, and the logs; it must be new."""
    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"{folder}: is there already: choose another `folder`")
    setup = prepare_training(world, seed, data_dir)
    full = float(world.clients.freq_max)
    bits, count = setup.scenario.model_bits, setup.scenario.clients.count
    tell("how fast this machine trains is measured")
    world = calibrated(world, seed, full, data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    scenario, schedule = (
        (folder / "scenario.json").absolute(),
        (folder / "schedule.json").absolute(),
    )
    save_scenario(world, scenario)
    config = RunConfig(
        scenario=str(scenario),
        policy=policy,
        seed=seed,
        rounds=rounds or 0,
        folder=str((folder / "run").absolute()),
        deadline=deadline,
        schedule_file=str(schedule),
        data_dir=str(data_dir.absolute()) if data_dir else "",
    )
    with Testbed(count) as testbed:
        if testbed.why_no_quota is not None:
            tell(f"processors are not limited: {testbed.why_no_quota}")

        def placed(logs: Path, env: Mapping[str, str]) -> Processes:
            return PlacedProcesses(testbed, logs, env)

        host = testbed.address(SERVER)
        with (
            testbed.meter() as meter,
            LocalFederation(folder.absolute(), host=host, start=placed) as federation,
        ):
            federation.start_superlink()
            nodes = [
                federation.start_node({"partition-id": j, "num-partitions": count})
                for j in range(count)
            ]
            shaper = Shaper(testbed, schedule, bits, full, nodes)
            tell(f"a server and {count} devices, each in a network of its own, on {host}")
            shaper.start()
            try:
                federation.wait(federation.submit(config), LONGEST, pause)
            finally:
                shaper.end()
            end = time.monotonic()
            uploads = measured_uploads(Path(config.folder), shaper.turns, meter, end)
        quota = testbed.why_no_quota is None
    return TestbedReport(uploads=tuple(uploads), bits=bits, policy=policy, limited=quota)


def measured_uploads(
    folder: Path, turns: Sequence[Turn], meter: Meter, end: float
) -> list[MeasuredUpload]:
    """Each upload that came, as the link saw it, in the time of its round."""
    windows = {
        turn.round: (turn, after.begin if after else end)
        for turn, after in zip(turns, [*turns[1:], None], strict=True)
    }
    known = lambda value: float("nan") if value is None else value
    found = []
    for exchange in read_exchanges(folder):
        if exchange.outcome not in CAME or exchange.round not in windows:
            continue
        assert exchange.client is not None
        turn, until = windows[exchange.round]
        seen = meter.upload(exchange.client, turn.begin, until)
        found.append(
            MeasuredUpload(
                round=exchange.round,
                client=exchange.client,
                name=exchange.name,
                rate=turn.rates[exchange.client],
                cpu=turn.shares[exchange.client],
                modelled=known(exchange.modelled_upload),
                link=seen.duration,
                bytes=seen.burst,
                flower=known(exchange.measured_upload),
                modelled_training=known(exchange.modelled_training),
                training=known(exchange.measured_training),
            )
        )
    return found
