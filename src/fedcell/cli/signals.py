"""Signals that end a command: Ctrl-C, a supervisor's SIGTERM, a terminal that is closed."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last
_received: list[int] = []


def exit_code() -> int:
    """What a shell expects of a command that a signal ended: 130 after Ctrl-C."""
    return 128 + (_received[-1] if _received else signal.SIGINT)


def was_stopped() -> bool:
    """Whether a signal asked this command to end."""
    return bool(_received)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Each of them as Ctrl-C: what is done so far is kept."""

    def interrupt(number: int, _: FrameType | None) -> None:
        _received.append(number)
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        _received.clear()
        yield


@contextmanager
def keeping_what_is_done() -> Iterator[None]:
    """For commands that keep each run as it ends, and go on when they are given again."""
    try:
        yield
    except KeyboardInterrupt:
        print("fedcell: interrupted; to go on, give the same command again", file=sys.stderr)
        sys.exit(exit_code())


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """Each of them ends the process where it stands: while modules are loaded, nothing is lost,
    and half of them would raise all kinds of errors."""
    with _handled_by(lambda number, _: os._exit(128 + number)):
        yield


@contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread only
        return
    before = {}
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)
