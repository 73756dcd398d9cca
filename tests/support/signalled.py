"""Start commands that signal themselves after a number of calls, at any speed of the machine."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CHECKPOINT = "fedcell.simulation.folder.checkpoint:Checkpoint.save"  # a round of a run
CURVE = "fedcell.experiments.store:Store.put"  # a training of a sweep

SCRIPT = """
import os, sys, threading
from importlib import import_module

place, number, calls, delay = sys.argv[1:5]
del sys.argv[1:5]
module, names = place.split(":")
owner, name = names.split(".")
owner = getattr(import_module(module), owner)
call, left = getattr(owner, name), int(calls)

def counted(*arguments, **options):
    global left
    result = call(*arguments, **options)
    left -= 1
    if left == 0 and float(delay):
        threading.Timer(float(delay), os.kill, (os.getpid(), int(number))).start()
    elif left == 0:
        os.kill(os.getpid(), int(number))
    return result

setattr(owner, name, counted)
from fedcell.cli.main import main
main()
"""


@contextmanager
def signalled(
    *words: object, place: str, calls: int, sent: signal.Signals, delay: float = 0.0
) -> Iterator[subprocess.Popen[str]]:
    """Start a command that is sent a signal `delay` seconds after `calls` calls of `place`."""
    own = [place, int(sent), calls, delay]
    command = [sys.executable, "-c", SCRIPT, *map(str, own), *map(str, words)]
    pipe = subprocess.PIPE
    # A shell that starts the tests in the background ignores interrupts, and children inherit it.
    heed = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as started:
        try:
            yield started
        finally:
            started.kill()
