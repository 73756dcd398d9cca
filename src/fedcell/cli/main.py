"""The command line: thin, for people first and with --json for programs."""

import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NoReturn, get_type_hints

import numpy as np
import typer
from typer.models import ArgumentInfo

from fedcell.core.errors import FedcellError, FedcellWarning, printable
from fedcell.core.version import __version__

from .app import app, failed_figures
from .commands import (
    constants,
    cost,
    demo,
    deploy,
    exchanges,
    export,
    figure,
    partition,
    pilot,
    plan,
    reproduce,
    run,
    runs,
    scenario,
    schedule,
    sweep,
    testbed,
    validate,
)
from .signals import ending_in_order, exit_code, was_stopped
from .words import in_options, speaking_for

# In the order of the help; importing a module adds its command.
COMMANDS = (
    demo,
    scenario,
    partition,
    pilot,
    plan,
    run,
    runs,
    export,
    deploy,
    exchanges,
    testbed,
    cost,
    schedule,
    validate,
    sweep,
    reproduce,
    figure,
    constants,
)
ORDER = [module.__name__.rpartition(".")[2] for module in COMMANDS]
app.registered_commands.sort(key=lambda c: ORDER.index(c.name or c.callback.__name__))  # type: ignore[union-attr]


VALUES = {  # what stands behind an option in the help
    "N": "clients columns devices draws every fleets hold most_seeds round_ rounds seed seeds "
    "start_with threads workers",
    "X": "confidence drift dropped floor mixing precision spread start target_accuracy target_loss",
    "TIME": "budget deadline join_timeout",
    "JOULES": "energy_budget",
    "NAME": "axis by learner panel policy track",
    "FILE": "figure out_path pilot plan target",
    "FOLDER": "data_dir folder store write",
    "ADDRESS": "cluster",
}
METAVARS = {name: word for word, names in VALUES.items() for name in names.split()}


def with_plain_help(command: Any) -> Any:
    """The commands, with help that names no type for a flag, and one word for a value."""
    for each in (command, *command.commands.values()):
        declared = _argument_help(each.callback)
        for param in each.get_params(typer.Context(each)):
            if param.param_type_name == "argument":
                param.help = declared.get(param.name)  # click from 8.4 on loses what typer gives it
            elif param.metavar is None:
                param.metavar = "" if param.is_flag else METAVARS.get(param.name)
    return command


def _argument_help(command: Callable[..., Any]) -> dict[str, str]:
    """The help of the positional arguments of a command, by name, as its function declares it."""
    hints = get_type_hints(inspect.unwrap(command), include_extras=True)
    return {
        name: said.help
        for name, hint in hints.items()
        for said in getattr(hint, "__metadata__", ())
        if isinstance(said, ArgumentInfo) and said.help
    }


def with_own_words(command: Any) -> Any:
    """The commands, each of which fails in a sentence that names the options that it has."""

    def in_own_words(invoke: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def invoked(context: Any) -> Any:
            with speaking_for(context, _fail):
                return invoke(context)

        return invoked

    for each in command.commands.values():
        each.invoke = in_own_words(each.invoke)
    return command


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: what goes wrong becomes sentences and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no plus-minus
    failed_figures.clear()
    with ending_in_order():
        try:
            _run()
        except KeyboardInterrupt:
            sys.exit(exit_code())
        except Exception:
            if was_stopped():  # in the middle of loading a module, which raises what it likes
                sys.exit(exit_code())
            raise


def _run() -> None:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # What overflows is found in the results and said in words.
            warnings.showwarning = _note
            with_own_words(with_plain_help(typer.main.get_command(app)))()
    except SystemExit as end:
        if was_stopped():  # typer has an end of its own for interrupts
            sys.exit(exit_code())
        if end.code in (0, None) and failed_figures:
            sys.exit(2)
        raise
    except FedcellError as error:
        _fail(str(error))
    except MemoryError:
        _fail("there is not enough memory: take fewer clients or rounds")
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}")


def _fail(faults: str) -> NoReturn:
    with suppress(OSError):  # a terminal that was closed
        for line in faults.splitlines():
            print(f"fedcell: {printable(line)}", file=sys.stderr)
    sys.exit(2)


def _note(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """What the user should know, as one line; other warnings are for developers."""
    if issubclass(category, FedcellWarning):
        print(f"fedcell: note: {in_options(printable(str(message)))}", file=sys.stderr)
