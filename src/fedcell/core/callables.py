"""Code of one's own by its name, as a user types it: `module:callable`. No file ever names it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .errors import BadInput


def load_callable(what: str, name: str) -> Any:
    """What `module:callable` names; `what` it is to be, as in "policy", is said in messages."""
    module, _, attribute = name.partition(":")
    if "/" in module or module.endswith(".py"):
        raise BadInput(f"the {what} {name}: give the name of a module, as in mine:{what}")
    with blaming(f"the {what} {name} cannot be loaded"), _current_folder():
        return getattr(import_module(module), attribute)


@contextmanager
def blaming(whom: str) -> Iterator[None]:
    """Turns whatever another's code raises into a sentence that begins with `whom`."""
    try:
        yield
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{whom}: {type(error).__name__}: {error}") from error


@contextmanager
def _current_folder() -> Iterator[None]:
    """Lets modules be found in the folder one is in: last, and for no longer than is needed, so
    that no file there can stand in for a module of ours or of a library."""
    try:
        folder = os.getcwd()
    except OSError:  # it is gone
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:  # their code may have taken it off
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
