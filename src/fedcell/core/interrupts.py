"""Work that Ctrl-C does not break off."""

import threading
from collections.abc import Callable


def shielded(work: Callable[[], None]) -> None:
    """Does the work to its end, and only then gives an interrupt that came meanwhile.

    Interrupts come to the main thread; so another does the work. Python waits for it even where
    this one does not come to.
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
