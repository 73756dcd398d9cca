"""Runs told to an experiment tracker: TensorBoard, MLflow, Weights & Biases.

Each tracker is a generator of a few lines that is sent a report after each round. Its package is
an extra, loaded when it is asked for. What a tracker cannot do is said once, and the run goes on.
"""

import math
import os
import re
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedcell.core.environment import environment
from fedcell.core.errors import BadInput, FedcellWarning

from .summary import RoundReport

Sent = Generator[None, RoundReport, None]
About = Mapping[str, Any]  # what is told of a run before its first round


def measures(report: RoundReport) -> dict[str, float]:
    """What is told of a round: what is known of the model, and what it took so far by policy."""
    values: dict[str, float] = {
        name: getattr(report, name) for name in ("train_loss", "test_loss", "accuracy", "received")
    }
    for name in ("total_duration", "total_energy"):
        values |= {f"{name}/{policy}": v for policy, v in getattr(report, name).items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _tensorboard(where: str, name: str, about: About) -> Sent:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(Path(where or "tensorboard") / name)) as writer:
        writer.add_text("run", "\n".join(f"    {key} = {value}" for key, value in about.items()), 0)
        while True:
            report = yield
            # TensorBoard's "relative" axis is then simulated time, under the first policy.
            at = next(iter(report.total_duration.values()))
            for key, value in measures(report).items():
                writer.add_scalar(key, value, report.round, walltime=at)


def _mlflow(where: str, name: str, about: About) -> Sent:
    where = where or os.environ.get("MLFLOW_TRACKING_URI") or "mlruns"
    allowed: dict[str, str] = {}
    if "://" not in where:  # a folder, which MLflow wants to be allowed to use
        allowed = {"MLFLOW_ALLOW_FILE_STORE": os.environ.get("MLFLOW_ALLOW_FILE_STORE", "true")}
        where = Path(where).absolute().as_uri()
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    with environment(allowed):  # it looks when a client opens the folder
        client = MlflowClient(where)
        known = client.get_experiment_by_name("fedcell")
    experiment = known.experiment_id if known else client.create_experiment("fedcell")
    run = client.create_run(experiment, run_name=name).info.run_id
    client.log_batch(run, params=[Param(key, str(value)) for key, value in about.items()])
    try:
        while True:
            report = yield
            now = int(1000 * time.time())
            values = {re.sub(r"[^\w./ -]", "_", key): v for key, v in measures(report).items()}
            client.log_batch(run, [Metric(key, v, now, report.round) for key, v in values.items()])
    finally:
        client.set_terminated(run)


def _wandb(where: str, name: str, about: About) -> Sent:
    import wandb

    settings = wandb.Settings(console="off", silent=True)
    run = wandb.init(project=where or "fedcell", name=name, config=dict(about), settings=settings)
    try:
        while True:
            report = yield
            run.log(measures(report) | {"round": report.round}, step=report.round)
    finally:
        run.finish()


TRACKERS: Mapping[str, tuple[str, Callable[[str, str, About], Sent]]] = {
    "tensorboard": ("tensorboardX", _tensorboard),
    "mlflow": ("mlflow", _mlflow),
    "wandb": ("wandb", _wandb),
}


class Tracker:
    """Tells an experiment tracker of each round of a run: give it to `run` as `report`.

    `where` is "tensorboard", "mlflow" or "wandb", and after a colon a folder, a server or a
    project; `name` is what the tracker calls the run, and `about` what it says of it.

        with Tracker("tensorboard:logs", "first") as report:
            run(scenario, report=report)
    """

    def __init__(self, where: str, name: str = "run", about: About | None = None) -> None:
        self._kind, _, place = where.partition(":")
        if self._kind not in TRACKERS:
            known = ", ".join(TRACKERS)
            raise BadInput(f"`track` = {where}: expected one of {known}, as in tensorboard:folder")
        module, tell = TRACKERS[self._kind]
        try:
            import_module(module)
        except Exception as error:  # what it is made of may not go together
            if not isinstance(error, ImportError):
                why = f"{type(error).__name__}: {error}"
                raise BadInput(f"`track` = {where}: its package cannot be loaded: {why}") from error
            raise BadInput(
                f"`track` = {where} needs a package that is not installed: pip install "
                f"'fedcell[{self._kind}]'"
            ) from error
        self._rounds: Sent | None = tell(place, name, about or {})
        self._begun = False

    def __call__(self, report: RoundReport) -> None:
        """Tells of a round."""
        if self._rounds is None:
            return
        try:
            if not self._begun:  # not before there is something to tell
                self._begun = True
                next(self._rounds)
            self._rounds.send(report)
        except Exception as error:  # whatever trackers raise, networks and disks included
            self._rounds = None
            self._warn(error)

    def close(self) -> None:
        """Ends the tracker's run."""
        try:
            if self._rounds is not None:
                self._rounds.close()
        except Exception as error:
            self._warn(error)
        self._rounds = None

    def _warn(self, error: Exception) -> None:
        first = (str(error).splitlines() or [""])[0]
        words = f"{self._kind} is told no more of this run ({type(error).__name__}: {first})"
        warnings.warn(words, FedcellWarning, stacklevel=3)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
