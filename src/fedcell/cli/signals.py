"""Signals that end a command: Ctrl-C, SIGTERM of a supervisor, SIGHUP of a closed terminal."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from .words import has_option

ENDING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks the last
_received: list[int] = []


def exit_code() -> int:
    """Return the exit code that a shell expects after a signal: 130 after Ctrl-C."""
    return 128 + (_received[-1] if _received else signal.SIGINT)


def was_stopped() -> bool:
    """Return whether a signal asked this command to end."""
    return bool(_received)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise KeyboardInterrupt for each ending signal, so that finished work is kept."""

    def interrupt(number: int, _: FrameType | None) -> None:
        _received.append(number)
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        _received.clear()
        yield


@contextmanager
def keeping_finished_runs() -> Iterator[None]:
    """Exit after an interrupt, for commands that save each run as it ends and can be repeated."""
    try:
        yield
    except KeyboardInterrupt:
        print_interrupted()
        sys.exit(exit_code())


def print_interrupted(folder: Path | None = None) -> None:
    """Print that the command was interrupted, and how to resume it; in a folder by --resume, where
    the command has that option."""
    way_out = "give the same command again"
    if folder is not None and has_option("resume"):
        way_out = f"give the same command with --resume --out {shlex.quote(str(folder))}"
    print(f"fedcell: interrupted; to resume, {way_out}", file=sys.stderr)


@contextmanager
def exit_at_once() -> Iterator[None]:
    """End the process at an ending signal without cleaning up: while modules are imported nothing
    is lost, and an exception inside an import raises many other errors."""
    with _handled_by(lambda number, _: os._exit(128 + number)):
        yield


@contextmanager
def _handled_by(handler: Any) -> Iterator[None]:
    """Handle the ending signals, except ignored ones, and put the old handlers back."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread only
        return
    before = {}
    for name in ENDING_SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)
