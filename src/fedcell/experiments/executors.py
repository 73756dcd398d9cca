"""Executors run the jobs of a sweep: in this process, in several, or on a Dask cluster.

An executor yields results as they finish, in any order. A job that fails yields its error, and a
process that dies loses only the job that it ran.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, TypeVar

from fedcell.core.errors import BadInput
from fedcell.core.streams import check_count
from fedcell.learning.engines.engine import available_threads

UNGUARDED = 97  # exit code of a process that would start processes while it is imported
J = TypeVar("J")
R = TypeVar("R")
Result = tuple[J, R | Exception]


class WorkerDiedError(RuntimeError):
    """The process of a job died."""


def leave_if_started_by_a_script() -> None:
    """End a new process that is still importing the script it was started from.

    Python starts it by importing that script; where the script calls fedcell outside of
    `if __name__ == "__main__"`, the call would repeat without end. `_check_guarded` explains it.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as Python checks it
        os._exit(UNGUARDED)


class Executor(Protocol):
    """Runs jobs. Your own may send them to other machines."""

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        """Yield each job with the result of its work, or its error, as they finish.

        Parameters
        ----------
        work
            Function of one job; importable by name, so that it can be pickled.
        jobs
            Values that can be pickled; taken one after the other, as workers are free.

        Yields
        ------
        tuple
            A job, and what `work` returned or the exception that it raised.
        """
        ...


class Inline:
    """Run jobs in this process, one after the other."""

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        for job in jobs:
            try:
                yield job, work(job)
            except Exception as error:  # recorded with the job
                yield job, error


class LocalProcesses:
    """Run jobs in processes of this machine, with one thread each.

    Processes are spawned, not forked: forks do not go with threads. A job that kills its process is
    run once more, alone, and then yields a `WorkerDiedError`.

    Parameters
    ----------
    workers
        Number of processes; default: one for each processor.
    ahead
        Jobs that each process holds, so that none waits for the next.
    """

    def __init__(self, workers: int | None = None, ahead: int = 2) -> None:
        self.ahead = ahead
        self.workers = available_threads() if workers is None else check_count(workers, "`workers`")

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        leave_if_started_by_a_script()
        waiting, suspects = iter(jobs), deque[J]()
        while True:
            yield from self._pool(work, waiting, suspects, self.workers)
            if not suspects:
                return
            # One of these killed its process: each runs alone, to find which.
            for job in list(suspects):
                suspects.clear()
                yield from self._pool(work, iter([job]), suspects, 1)
                if suspects:
                    yield job, WorkerDiedError("its process died")
            suspects.clear()

    def _pool(
        self, work: Callable[[J], R], jobs: Iterator[J], suspects: "deque[J]", workers: int
    ) -> Iterator[Result[J, R]]:
        """Run jobs until all are done or a process dies: then those in progress are suspects."""
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, context, initializer=_begin)
        running: dict[Future[R], J] = {}
        try:
            while True:
                for job in itertools.islice(jobs, self.ahead * workers - len(running)):
                    running[pool.submit(work, job)] = job
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        _check_guarded(pool)
                        suspects += [job, *running.values()]
                        return
                    yield job, future.result() if error is None else _plain(error)
        except BrokenProcessPool:  # while a job was submitted
            _check_guarded(pool)
            suspects += [job, *running.values()]
        finally:
            _end(pool)


def _begin() -> None:
    """Set up a new process: it ignores interrupts, which the parent handles, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _check_guarded(pool: ProcessPoolExecutor) -> None:
    """Raise BadInput if processes ended because the script they import calls fedcell."""
    for process in _processes(pool):
        process.join(5)
        if process.exitcode == UNGUARDED:
            raise BadInput(
                "each of several `workers` imports the calling script, which calls again: put the "
                'call under `if __name__ == "__main__":`, or give `workers` 1'
            )


def _processes(pool: ProcessPoolExecutor) -> list[Any]:
    return list((getattr(pool, "_processes", None) or {}).values())


def _end(pool: ProcessPoolExecutor) -> None:
    """End the processes without waiting for their jobs."""
    processes = _processes(pool)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with contextlib.suppress(Exception):
            process.terminate()
    for process in processes:
        with contextlib.suppress(Exception):
            process.join(5)


def _plain(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(repr(error))


class DaskCluster:
    """Run jobs on the workers of a Dask cluster (extra `cluster`).

    When a worker dies, the scheduler gives its job to another; a job that has killed several fails.

    Parameters
    ----------
    address
        Address of a scheduler ("tcp://host:8786"), or a Dask cluster object.

    Raises
    ------
    BadInput
        If Dask is not installed, or the scheduler cannot be reached.
    """

    def __init__(self, address: Any) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise BadInput("`cluster` needs Dask: pip install 'fedcell[cluster]'") from error
        try:
            self.client: Any = Client(address, timeout=10)
        except (OSError, ValueError, TypeError) as error:  # a timeout; the last: no certificate
            raise BadInput(f"`cluster` = {address}: cannot be reached: {error}") from error

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        from distributed import as_completed

        waiting, known, done = iter(jobs), {}, as_completed()

        def hand_over(count: int) -> None:
            for job in itertools.islice(waiting, count):
                future = self.client.submit(work, job, pure=False)
                known[future.key] = job
                done.add(future)

        hand_over(2 * max(1, sum(self.client.nthreads().values())))
        for future in done:
            error = future.exception()
            yield known.pop(future.key), future.result() if error is None else _plain(error)
            hand_over(1)
