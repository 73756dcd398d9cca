"""A pilot that the page starts: a process of the command line, found again by its file."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fedcell.core.errors import BadInput, FedcellError, printable
from fedcell.core.quantities import parse_duration
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.scenario.save import save_scenario

from .asked import asked_of, changed
from .planning import PlanningView

MAX_BUDGET = 24 * 3600.0  # [s]
PATIENCE = 20.0  # [s] for a pilot to end cleanly


@dataclass
class Job:
    """A process that runs a pilot."""

    process: subprocess.Popen[bytes]
    path: Path
    budget: float  # [s]
    begin: float  # by the monotonic clock
    errors: IO[bytes]
    cancelled: bool = False


class PilotJobs:
    """Runs one pilot at a time. It goes on when pages close, and ends with the server."""

    def __init__(self, view: PlanningView) -> None:
        self._view = view
        self._lock = Lock()
        self._job: Job | None = None
        self._read: tuple[Path, float, dict[str, Any]] | None = None

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start or cancel a pilot, or tell how it stands: {"do", "asked", "budget"}."""
        do = body.get("do", "status")
        asked = asked_of(body.get("asked"))
        if do == "start":
            self.start(asked.changes, asked.seed, str(body.get("budget", "60s"))[:20])
        elif do == "cancel":
            self.cancel()
        elif do != "status":
            raise BadInput("do: expected start, cancel or status")
        return self.status(self._view.pilot_path(asked))

    def start(self, changes: dict[str, Any], seed: int, budget: str) -> None:
        """Start the pilot of the scenario with changed keys, for some time by the clock."""
        seconds = parse_duration(budget, "budget")
        if not 1 <= seconds <= MAX_BUDGET:
            raise BadInput(f"budget = {budget}: expected 1s to 24h")
        world = self._view.world
        scenario = changed(world.scenario, changes)
        if scenario.learning is None:
            raise BadInput("this scenario trains nothing: it has no pilot; give a law by hand")
        with self._lock:
            if self._job is not None and self._job.process.poll() is None:
                raise BadInput("a pilot is in progress: cancel it first, or wait for its end")
            if self._job is not None:
                self._job.errors.close()
            path = self._view.pilot_path(asked_of({"changes": changes, "seed": seed}))
            named = world.name
            if changes or world.start is not None:
                file = path.with_name(path.stem.replace("pilot-", "scenario-", 1) + ".toml")
                save_scenario(scenario, file)
                named = str(file)
            command = [sys.executable, "-m", "fedcell", "pilot", named]
            command += ["--budget", f"{seconds:g}s", "--out", str(path), "--seed", str(seed)]
            if self._view.compute.data_path is not None:
                command += ["--data-dir", str(self._view.compute.data_path)]
            errors = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the process)
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # Ctrl-C reaches the server alone, which ends it
            )
            self._job = Job(process, path, seconds, time.monotonic(), errors)

    def cancel(self) -> None:
        """Ask the pilot to end; its finished trials stay in the file."""
        with self._lock:
            job = self._job
            if job is not None and job.process.poll() is None:
                job.cancelled = True
                with suppress(ProcessLookupError):
                    job.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """End the pilot and all its processes."""
        self.cancel()
        job = self._job
        if job is None:
            return
        try:
            job.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
        job.errors.close()

    def status(self, path: Path) -> dict[str, Any]:
        """Return what the pilot's file holds, and how the running pilot stands."""
        found: dict[str, Any] = {"file": str(path), "holds": self._holds(path), "job": None}
        job = self._job
        if job is not None:
            code = job.process.poll()
            found["job"] = {
                "state": "running" if code is None else "cancelled" if job.cancelled else "ended",
                "elapsed": time.monotonic() - job.begin,
                "budget": job.budget,
                "file": str(job.path),
                "holds": self._holds(job.path),
                "fault": None if code is None or job.cancelled else self._fault(job, code),
            }
        return found

    def _holds(self, path: Path) -> dict[str, Any] | None:
        """Return the trials of a file; None where there is none."""
        try:
            stamp = path.stat().st_mtime
        except OSError:
            return None
        if self._read is None or self._read[:2] != (path, stamp):
            try:
                pilot = load_pilot(path)
            except FedcellError as error:
                return {"fault": printable(str(error))}
            reached = [t for t in pilot.trials if t.rounds_to(pilot.target)]
            held = {
                "trials": len(pilot.trials),
                "settings": len(pilot.tried),
                "reached": len(reached),
                "target": str(pilot.target),
                "seconds": pilot.seconds,
            }
            self._read = path, stamp, held
        return self._read[2]

    @staticmethod
    def _fault(job: Job, code: int) -> str | None:
        """Return the last sentences of a pilot that failed."""
        if code == 0:
            return None
        job.errors.seek(0)
        lines = job.errors.read()[-4000:].decode("utf-8", "replace").splitlines()
        said = [line.removeprefix("fedcell: ") for line in lines if line.startswith("fedcell: ")]
        return printable(" ".join(said)) or f"the pilot ended with code {code}"
