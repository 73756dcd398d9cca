"""Log runs to an experiment tracker: TensorBoard, MLflow, Weights & Biases, or a plugin.

A backend is a generator function that is sent a report after each round. The packages of the
built-in ones are extras, imported when one is used. Another installed package adds a backend by an
entry point::

    [project.entry-points."fedcell.trackers"]
    csv = "my_package:log_csv"

A backend that fails is named once in a warning, and the run continues.
"""

import math
import os
import re
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, cast

from fedcell.core.errors import BadInput, FedcellWarning
from fedcell.core.plugins import load_plugin, plugin_names
from fedcell.core.process import environment

from .summary import RoundReport

TRACKER_GROUP = "fedcell.trackers"  # entry points of other packages, looked up by name

RoundLog = Generator[None, RoundReport, None]  # is sent the report of each round
About = Mapping[str, Any]  # values that describe a run


class TrackerBackend(Protocol):
    """A generator function that logs the rounds of one run.

    It opens the tracker's run, receives a `RoundReport` from each `yield` until it is closed, and
    closes the tracker's run. `measures` gives the values of a report that are known.

    Examples
    --------
    >>> def log_lines(where, name, about):
    ...     with open(where, "w") as file:
    ...         while True:
    ...             report = yield
    ...             print(report.round, measures(report), file=file)
    >>> check_tracker(log_lines, "/dev/null")
    """

    def __call__(self, where: str, name: str, about: About, /) -> RoundLog:
        """Return the generator of one run.

        Parameters
        ----------
        where
            Text after the colon of "name:where": a folder, a server, a project; "" without one.
        name
            Name of the run.
        about
            Values that describe the run, such as "seed" and "cohort".
        """
        ...


def measures(report: RoundReport) -> dict[str, float]:
    """Return the values of a round to log; those that are not known (NaN) are left out.

    Parameters
    ----------
    report
        The report of a round.

    Returns
    -------
    dict
        "train_loss", "test_loss", "accuracy", metrics of the learner by name, "received" (uploads),
        and for each policy "total_duration/POLICY" [s] and "total_energy/POLICY" [J].
    """
    values: dict[str, float] = {
        name: getattr(report, name) for name in ("train_loss", "test_loss", "accuracy", "received")
    }
    values |= report.metrics
    for name in ("total_duration", "total_energy"):
        values |= {f"{name}/{policy}": v for policy, v in getattr(report, name).items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _tensorboard(where: str, name: str, about: About) -> RoundLog:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(Path(where or "tensorboard") / name)) as writer:
        writer.add_text("run", "\n".join(f"    {key} = {value}" for key, value in about.items()), 0)
        while True:
            report = yield
            # TensorBoard's "relative" axis is then simulated time, under the first policy.
            at = next(iter(report.total_duration.values()))
            for key, value in measures(report).items():
                writer.add_scalar(key, value, report.round, walltime=at)


def _mlflow(where: str, name: str, about: About) -> RoundLog:
    where = where or os.environ.get("MLFLOW_TRACKING_URI") or "mlruns"
    allowed: dict[str, str] = {}
    if "://" not in where:  # a folder, which MLflow has to be allowed to use
        allowed = {"MLFLOW_ALLOW_FILE_STORE": os.environ.get("MLFLOW_ALLOW_FILE_STORE", "true")}
        where = Path(where).absolute().as_uri()
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    with environment(allowed):  # MLflow reads it when a client opens the folder
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


def _wandb(where: str, name: str, about: About) -> RoundLog:
    import wandb

    settings = wandb.Settings(console="off", silent=True)
    run = wandb.init(project=where or "fedcell", name=name, config=dict(about), settings=settings)
    try:
        while True:
            report = yield
            run.log(measures(report) | {"round": report.round}, step=report.round)
    finally:
        run.finish()


# The package of each built-in backend, and the backend.
TRACKERS: Mapping[str, tuple[str, TrackerBackend]] = {
    "tensorboard": ("tensorboardX", _tensorboard),
    "mlflow": ("mlflow", _mlflow),
    "wandb": ("wandb", _wandb),
}


class Tracker:
    """Log each round of a run to an experiment tracker: pass it to `run` as `report`.

    The tracker's run begins with the first round, and ends with `close` or the `with` block.

    Parameters
    ----------
    where
        "tensorboard", "mlflow", "wandb", or a name that an installed package adds to the
        entry-point group "fedcell.trackers"; after a colon a folder, a server or a project.
    name
        Name of the run in the tracker.
    about
        Values that describe the run, such as "seed" and "cohort".

    Raises
    ------
    BadInput
        If there is no such tracker, or its package cannot be imported.

    Examples
    --------
    Log to the folder logs/first::

        with Tracker("tensorboard:logs", "first") as report:
            run(scenario, observer=Observer(round=report))
    """

    def __init__(self, where: str, name: str = "run", about: About | None = None) -> None:
        self._kind, _, place = where.partition(":")
        backend = _backend(self._kind, where)
        self._log: RoundLog | None = None
        self._open: Callable[[], RoundLog] = partial(backend, place, name, about or {})
        self._closed = False

    def __call__(self, report: RoundReport) -> None:
        """Log a round; after a failure do nothing."""
        if self._closed:
            return
        try:
            if self._log is None:
                self._log = self._open()
                next(self._log)
            self._log.send(report)
        except Exception as error:  # trackers raise errors of all kinds, of networks and disks too
            self._closed = True
            self._warn(error)

    def close(self) -> None:
        """End the tracker's run."""
        try:
            if self._log is not None and not self._closed:
                self._log.close()
        except Exception as error:
            self._warn(error)
        self._closed = True

    def _warn(self, error: Exception) -> None:
        first = (str(error).splitlines() or [""])[0]
        words = f"{self._kind}: logging stopped: {type(error).__name__}: {first}"
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


def _backend(kind: str, where: str) -> TrackerBackend:
    """Return the backend of a name; packages are searched only for names that are not built in."""
    if kind in TRACKERS:
        module, backend = TRACKERS[kind]
        try:
            import_module(module)
        except ImportError as error:
            raise BadInput(
                f"`track` = {where} needs a package that is not installed: pip install "
                f"'fedcell[{kind}]'"
            ) from error
        except Exception as error:  # versions of packages may not fit each other
            why = f"{type(error).__name__}: {error}"
            raise BadInput(f"`track` = {where}: its package cannot be loaded: {why}") from error
        return backend
    plugins = plugin_names(TRACKER_GROUP)
    if kind not in plugins:
        known = ", ".join(dict.fromkeys([*TRACKERS, *plugins]))
        raise BadInput(f"`track` = {where}: expected one of {known}, as in tensorboard:folder")
    plugin = load_plugin(TRACKER_GROUP, kind)
    if not callable(plugin):
        raise BadInput(f"the tracker {kind} is a {type(plugin).__name__}: expected a function")
    return cast(TrackerBackend, plugin)


def check_tracker(backend: TrackerBackend, where: str = "") -> None:
    """Log a short run with a backend, and check that it keeps to `TrackerBackend`.

    Parameters
    ----------
    backend
        The backend.
    where
        Text that it gets after the colon: a folder or server to log to in a test.

    Raises
    ------
    AssertionError
        If the backend is no generator function, ends before it is closed, yields a value, or does
        not end when it is closed; also errors that the backend raises itself.

    Examples
    --------
    >>> def log_nothing(where, name, about):
    ...     while True:
    ...         yield
    >>> check_tracker(log_nothing)
    """
    for rounds in (0, 4):  # a run may be interrupted before its first round
        log = backend(where, f"check-{rounds}", {"seed": 0, "cohort": 2, "scenario": "check"})
        if not isinstance(log, Generator):
            raise AssertionError(f"the backend returned a {type(log).__name__}, not a generator")
        reports = _sample_reports(rounds)
        try:
            answers = [next(log), *[log.send(report) for report in reports]]
        except StopIteration:
            raise AssertionError("the backend ended before it was closed") from None
        if any(answer is not None for answer in answers):
            raise AssertionError("the backend yields values: `report = yield` is expected")
        try:
            log.close()
        except RuntimeError as error:
            raise AssertionError(f"the backend does not end when it is closed: {error}") from error


def _sample_reports(rounds: int) -> list[RoundReport]:
    """Return the reports of a run under two policies; every second round is not evaluated."""
    from fedcell.scenario.scenario import Scenario

    from .compute import Observer
    from .run import run

    reports: list[RoundReport] = []
    if rounds:
        scenario = Scenario().using(
            clients={"count": 4},
            plan={"cohort": 2, "local_steps": 1},
            learning={"model": "quadratic-apart", "evaluate_every": 2},
        )
        run(scenario, ["even", "optimal"], rounds=rounds, observer=Observer(round=reports.append))
    return reports
