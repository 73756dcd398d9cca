"""What all commands share: their registration, consoles, output folders and figures."""

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from fedcell.core.errors import BadFile, FedcellError, printable
from fedcell.core.files.formats import check_target
from fedcell.core.showing import Showable
from fedcell.show.figures.style import FORMATS

from .words import in_options

Function = TypeVar("Function", bound=Callable[..., None])

REGISTERED: dict[str, typer.Typer] = {}  # by name of the command, once its module is imported


def command(*examples: str) -> Callable[[Function], Function]:
    """Register a function as the command with the name of its module, - for _; its help ends with
    the examples."""
    # typer joins paragraphs by single line breaks, which makes this a block of code.
    epilog = "\n\n".join(["Examples:", "```", *examples, "```"])

    def register(function: Function) -> Function:
        one = typer.Typer(
            add_completion=False,
            pretty_exceptions_enable=False,
            rich_markup_mode="markdown",  # paragraphs of help are filled, not cut as in the source
        )
        name = function.__module__.rpartition(".")[2].replace("_", "-")
        one.command(name, epilog=epilog)(function)
        REGISTERED[name] = one
        return function

    return register


class OptionConsole(Console):
    """Prints messages of the library with the option names of the running command, as text."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(_plain(o) if isinstance(o, str) else o for o in objects), **options)


def _plain(text: str) -> str:
    """Return a text with option names and without control characters."""
    return "\n".join(printable(line) for line in in_options(text).split("\n"))


def file_stem(scenario: str) -> str:
    """Return the stem of a scenario's file name, fit for the name of another file."""
    return re.sub(r"[^\w.-]", "_", Path(scenario).stem)


out, err = OptionConsole(markup=False, highlight=False), Console(stderr=True)
DEFAULT_STORE = Path("fedcell-runs")


def check_folder(folder: Path, option: str) -> None:
    """Make a folder, or refuse it before any work if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError) as error:
        raise BadFile(f"{folder}: is not a folder: choose another {option}") from error
    except OSError as error:
        why = error.strerror or error
        raise BadFile(f"{folder}: cannot be written to ({why}): choose another {option}") from error


def figure_target(figure: Path | None) -> Path | None:
    """Return the path of a requested figure; refuse it before any work if it cannot be written."""
    return check_target(figure, FORMATS) if figure else None


failed_figures: list[Path] = []  # of the running command: with any, it ends with code 2


def draw(result: Showable, target: Path, **options: Any) -> bool:
    """Draw a result after it was printed, and return whether that worked.

    A failure costs only the figure: it is reported on stderr."""
    try:
        result.plot(target, **options)
    except Exception as error:  # matplotlib has many ways to fail
        failed_figures.append(target)
        kind = "" if isinstance(error, FedcellError) else f"{type(error).__name__}: "
        words = printable(in_options(f"{kind}{error}"))
        print(f"fedcell: the figure could not be drawn: {words}", file=sys.stderr)
        return False
    return True


def draw_if_asked(result: Showable, target: Path | None, shown: Path | None, quiet: bool) -> None:
    """Draw a result to the path from `figure_target`; print the path as the user typed it."""
    if target is not None and draw(result, target) and not quiet:
        out.print(f"figure: {shown}", soft_wrap=True)


def track_pricing(items: Sequence[Any]) -> Iterable[Any]:
    """Return the items, with a progress bar on a terminal."""
    if not err.is_terminal:
        return items
    return track(items, "pricing rounds", console=err, transient=True)
