"""Load code that a user names as `module:callable` in a command. Files never name code."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .errors import BadInput
from .lazy import EXTRAS


def load_callable(what: str, name: str) -> Any:
    """Return the object that `module:callable` names; `what`, such as "policy", is for messages."""
    module, _, attribute = name.partition(":")
    if "/" in module or module.endswith(".py"):
        raise BadInput(f"the {what} {name}: give the name of a module, as in mine:{what}")
    with blaming(f"the {what} {name} cannot be loaded"), _current_folder():
        return getattr(import_module(module), attribute)


@contextmanager
def blaming(culprit: str) -> Iterator[None]:
    """Turn any error that foreign code raises into BadInput that begins with `culprit`."""
    try:
        yield
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{culprit}: {type(error).__name__}: {error}{_way_out(error)}") from error


def _way_out(error: BaseException) -> str:
    """Return how to install a package that an extra has, and that was not found."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    extra = EXTRAS.get(str(missing).partition(".")[0])
    return "" if extra is None else f": pip install 'fedcell[{extra}]'"


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules be imported from the current folder, last on the path and only meanwhile, so
    that no file there can replace a module of fedcell or of a library."""
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:  # foreign code may have removed it
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
