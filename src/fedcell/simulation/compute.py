"""What trains a run and where, and callbacks that observe it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcell.core.showing import given_fields
from fedcell.learning.custom import LearnerLike
from fedcell.learning.data.download import Report as DownloadReport
from fedcell.learning.server_optimizer import CustomServer

from .summary import Report


@dataclass(frozen=True, kw_only=True)
class Compute:
    """What trains, and with which resources of this machine.

    Parameters
    ----------
    data_dir : str or Path, optional
        Folder of the published datasets. Default: FEDCELL_DATA, else the user's cache.
    threads : int, optional
        Threads of one training. Default: all processors.
    workers : int, optional
        Processes that train at the same time, where several trainings are made. Default: one, this
        process.
    cluster : str, optional
        Address of a Dask scheduler, whose workers make the runs of `run_seeds`. Default: none.
    store : str or Path, optional
        Folder of finished trainings, shared by sweeps and pilots. Default: none.
    learner : callable or str, optional
        Custom learner: a function of a scenario and a seed, or its name, "module:callable".
        Default: the built-in engine, as [learning] says.
    server : callable, optional
        Custom server step, a function (old, mean) -> new. Default: learning.server.

    Examples
    --------
    >>> from fedcell import Compute, load_scenario, run
    >>> run(load_scenario("digits"), ["optimal"], rounds=2, compute=Compute(threads=1)).complete
    True
    """

    data_dir: str | Path | None = None
    threads: int | None = None
    workers: int | None = None
    cluster: str | None = None
    store: str | Path | None = None
    learner: LearnerLike | None = None
    server: CustomServer | None = None

    def __repr__(self) -> str:
        return given_fields(self)

    @property
    def data_path(self) -> Path | None:
        """The folder of the datasets as a path."""
        return None if self.data_dir is None else Path(self.data_dir)


@dataclass(frozen=True, kw_only=True)
class Observer:
    """Optional callbacks for progress. Each is called in the process that asks for the work.

    Parameters
    ----------
    download : callable, optional
        Called with (name, bytes so far, total bytes or None) while a dataset is downloaded.
    compile : callable, optional
        Returns a context manager that is open while the training engine is compiled.
    round : callable, optional
        Called with a `RoundReport` after each round of a run.
    trial : callable, optional
        Called with a `Trial` and the seconds spent so far after each trial of a pilot.
    message : callable, optional
        Called with a sentence for the user.

    Examples
    --------
    >>> from fedcell import Observer, load_scenario, run
    >>> seen = []
    >>> observer = Observer(round=lambda report: seen.append(report.round))
    >>> result = run(load_scenario("digits"), ["optimal"], rounds=3, observer=observer)
    >>> seen
    [1, 2, 3]
    """

    download: DownloadReport | None = None
    compile: Callable[[], AbstractContextManager[Any]] = nullcontext
    round: Report | None = None
    trial: Callable[[Any, float], None] | None = None
    message: Callable[[str], None] | None = None

    def __repr__(self) -> str:
        return given_fields(self)

    def with_round(self, report: Report) -> "Observer":
        """Return an observer that also calls `report` after each round."""
        first = self.round
        if first is None:
            return replace(self, round=report)

        def both(done: Any) -> None:
            first(done)
            report(done)

        return replace(self, round=both)

    def say(self, message: str) -> None:
        """Pass a sentence to `message`, if there is one."""
        if self.message is not None:
            self.message(message)
