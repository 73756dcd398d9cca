"""Who does the work of a sweep: processes of this machine, or the workers of a Dask cluster.

An engine is given jobs and gives results as they come, in any order; a job that fails gives its
error, and a process that dies costs only what it was at.
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

UNGUARDED = 97  # how a process ends that would start processes before it has begun
J = TypeVar("J")
R = TypeVar("R")
Result = tuple[J, R | Exception]


class WorkerDiedError(RuntimeError):
    """The process that a job ran in died."""


def leave_if_started_by_a_script() -> None:
    """Ends a new process that is still importing the script it was started from.

    Python starts it by importing that script; where the script calls us outside of
    `if __name__ == "__main__"`, the call comes again, and again. Who started it is told why.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as Python itself looks
        os._exit(UNGUARDED)


class Executor(Protocol):
    """Whoever does jobs."""

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        """Each job with what the work gave, or its error, as they are done."""
        ...


class Inline:
    """Does the work here, one job after the other."""

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        for job in jobs:
            try:
                yield job, work(job)
            except Exception as error:  # recorded with the job
                yield job, error


class LocalProcesses:
    """Processes of this machine, one thread each; started afresh, as threads and forks do not go
    together."""

    def __init__(self, workers: int | None = None, ahead: int = 2) -> None:
        self.ahead = ahead  # jobs for each process that are handed over, so that none waits
        self.workers = available_threads() if workers is None else check_count(workers, "`workers`")

    def run(self, work: Callable[[J], R], jobs: Iterable[J]) -> Iterator[Result[J, R]]:
        leave_if_started_by_a_script()
        waiting, suspects = iter(jobs), deque[J]()
        while True:
            yield from self._pool(work, waiting, suspects, self.workers)
            if not suspects:
                return
            # Somebody of these killed its process. Alone in one, it is known who.
            for job in list(suspects):
                suspects.clear()
                yield from self._pool(work, iter([job]), suspects, 1)
                if suspects:
                    yield job, WorkerDiedError("the process that it ran in died")
            suspects.clear()

    def _pool(
        self, work: Callable[[J], R], jobs: Iterator[J], suspects: "deque[J]", workers: int
    ) -> Iterator[Result[J, R]]:
        """Jobs until they are done or a process dies, when those under way become suspects."""
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
        except BrokenProcessPool:  # while a job was handed over
            _check_guarded(pool)
            suspects += [job, *running.values()]
        finally:
            _end(pool)


def _begin() -> None:
    """In a new process: interrupts are the sweep's to hear, and nobody outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _check_guarded(pool: ProcessPoolExecutor) -> None:
    """Says what is wrong where processes ended because a script called us while they began."""
    for process in _processes(pool):
        process.join(5)
        if process.exitcode == UNGUARDED:
            raise BadInput(
                "each of several `workers` begins by importing the script that called, which calls "
                'again: put the call under `if __name__ == "__main__":`, or give `workers` 1'
            )


def _processes(pool: ProcessPoolExecutor) -> list[Any]:
    return list((getattr(pool, "_processes", None) or {}).values())


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends the processes, without waiting for what they are at."""
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
    """Workers of a Dask cluster, on this machine or on many; the extra `cluster`.

    Whoever dies, the scheduler gives its job to another; a job that has killed several is given
    up.
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
