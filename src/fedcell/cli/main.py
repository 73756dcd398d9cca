"""Entry point of the command line: imports the command that is called, and reports failures."""

import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from fedcell.core.errors import FedcellError, FedcellWarning, printable
from fedcell.core.version import __version__

from .commands import COMMANDS
from .signals import ending_in_order, exit_at_once, exit_code, was_stopped
from .words import command_words, in_options


class LazyGroup(TyperGroup):
    """All commands by name and summary; a command's module is imported when it is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that is called."""
        if args and args[0] in COMMANDS:
            self.commands[args[0]] = load_command(args[0])
        elif args and not args[0].startswith("-"):  # typer and click would both suggest a name
            from fedcell.core.schema import suggestion

            ctx.fail(f"No such command {args[0]!r}; {suggestion(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="fedcell",
    cls=LazyGroup,
    help="Plan, simulate and run federated learning over wireless networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
) -> None:
    """Print the version if it is asked for."""
    if show:
        print(__version__)
        raise typer.Exit


def load_command(name: str) -> Any:
    """Import the module of a command, and return the command."""
    with exit_at_once():
        import_module(f"fedcell.cli.commands.{name.replace('-', '_')}")
        registered = import_module("fedcell.cli.app").REGISTERED[name]
    command: Any = typer.main.get_command(registered)
    declared = _argument_help(command.callback)
    for param in command.get_params(typer.Context(command)):
        if param.param_type_name == "argument":
            param.help = declared.get(param.name)  # click from 8.4 on loses what typer gives it
        elif param.is_flag:
            param.metavar = ""  # a flag takes no value
    command.invoke = _invoke_with_own_words(command.invoke)
    return command


def _argument_help(command: Callable[..., Any]) -> dict[str, str]:
    """Return the help of a command's positional arguments by name, as its function declares it."""
    hints = get_type_hints(inspect.unwrap(command), include_extras=True)
    return {
        name: declared.help
        for name, hint in hints.items()
        for declared in getattr(hint, "__metadata__", ())
        if isinstance(declared, ArgumentInfo) and declared.help
    }


def _invoke_with_own_words(invoke: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a command's `invoke` that reports failures with the names of its own options, and
    ends with code 2 if a figure could not be drawn."""

    def invoked(context: Any) -> Any:
        import numpy as np

        from .app import failed_figures

        failed_figures.clear()
        # Overflows are found in the results, and reported in sentences.
        with command_words(context, _fail), np.errstate(all="ignore"):
            answer = invoke(context)
        if failed_figures:
            sys.exit(2)
        return answer

    return invoked


def main() -> None:
    """Run the command line; failures become sentences and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a plus-minus sign
    with ending_in_order():
        try:
            _run()
        except KeyboardInterrupt:
            sys.exit(exit_code())
        except Exception:
            if was_stopped():  # while a module was imported, which raises various errors
                sys.exit(exit_code())
            raise


def _run() -> None:
    """Run the command, with notes and failures as sentences on stderr."""
    try:
        with warnings.catch_warnings():  # puts `showwarning` back, too
            warnings.showwarning = _note
            typer.main.get_command(app)()
    except SystemExit:
        if was_stopped():  # typer has its own exit code for interrupts
            sys.exit(exit_code())
        raise
    except FedcellError as error:
        _fail(str(error))
    except MemoryError:
        _fail("there is not enough memory: take fewer clients or rounds")
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}")


def _fail(faults: str) -> NoReturn:
    """Print each line of a failure to stderr, and exit with code 2."""
    with suppress(OSError):  # a terminal that was closed
        for line in faults.splitlines():
            print(f"fedcell: {printable(line)}", file=sys.stderr)
    sys.exit(2)


def _note(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a note for users as one line; drop warnings for developers."""
    if issubclass(category, FedcellWarning):
        print(f"fedcell: note: {in_options(printable(str(message)))}", file=sys.stderr)
