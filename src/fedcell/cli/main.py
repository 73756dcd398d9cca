"""The command line: thin, for people first and with --json for programs."""

import io
import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import numpy as np
import typer

from fedcell import __version__
from fedcell.core.errors import FedcellError, FedcellWarning

from . import constants as cli_constants
from . import demo as cli_demo
from . import learning as cli_learning
from . import network as cli_network
from . import pilot as cli_pilot
from . import plan as cli_plan
from .app import app

__all__ = [
    "app",
    "cli_constants",
    "cli_demo",
    "cli_learning",
    "cli_network",
    "cli_pilot",
    "cli_plan",
    "main",
]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: what goes wrong becomes sentences and exit code 2."""
    sys.path.insert(0, "")  # for module:callable in the folder one is in
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no plus-minus
    try:
        warnings.showwarning = _note
        with np.errstate(all="ignore"):  # what overflows is found in the results and said in words
            app()
    except FedcellError as error:
        _fail(str(error))
    except MemoryError:
        _fail("there is not enough memory: take fewer clients or rounds")
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(faults: str) -> NoReturn:
    for line in faults.splitlines():
        print(f"fedcell: {line}", file=sys.stderr)
    sys.exit(2)


def _note(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """What the user should know, as one line; other warnings are for developers."""
    if issubclass(category, FedcellWarning):
        print(f"fedcell: note: {message}", file=sys.stderr)
