"""Changes to this process that are put back: environment variables, interrupts."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and restore their former values at the end."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def shielded(work: Callable[[], None]) -> None:
    """Run `work` to its end, and only then raise an interrupt that came meanwhile.

    Python delivers interrupts to the main thread, so another thread does the work. The interpreter
    waits for that thread even if the main thread ends first.
    """
    failures: list[BaseException] = []
    ended = threading.Event()

    def keep_failure() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    worker = threading.Thread(target=keep_failure, name="fedcell-shielded")
    interrupt: KeyboardInterrupt | None = None
    worker.start()
    while not ended.is_set():
        try:
            ended.wait()  # worker.join(), once interrupted, takes it for ended in Python 3.11
        except KeyboardInterrupt as error:
            interrupt = error
    if failures:
        raise failures[0]
    if interrupt is not None:
        raise interrupt
