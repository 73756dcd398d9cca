"""What all commands share: the application, its consoles, and options that mean the same."""

import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track

from fedcell.core.errors import BadFile, FedcellError, printable
from fedcell.core.files.formats import check_target
from fedcell.core.showing import Showable
from fedcell.show.figures.style import FORMATS

from .words import in_options

app = typer.Typer(
    name="fedcell",
    help="Plan, simulate and run federated learning over wireless networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs of help are filled, not cut as in the source
)


class OptionConsole(Console):
    """Prints what the library says in the words of the command line, and nothing but text."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(_told(o) if isinstance(o, str) else o for o in objects), **options)


def _told(text: str) -> str:
    return "\n".join(printable(line) for line in in_options(text).split("\n"))


def file_stem(scenario: str) -> str:
    """The name of a scenario's file as a part of another file's."""
    return re.sub(r"[^\w.-]", "_", Path(scenario).stem)


out, err = OptionConsole(markup=False, highlight=False), Console(stderr=True)
RUNS = Path("fedcell-runs")
EVERY = 30.0  # [s] between two lines where nobody looks at a bar


def check_folder(folder: Path, option: str) -> None:
    """Makes a folder, or finds out before any work that it cannot be written to."""
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
    """Where a figure goes, if one is asked for; refused before any work if it cannot go there."""
    return check_target(figure, FORMATS) if figure else None


failed_figures: list[Path] = []  # of this command: with any, it ends with code 2


def draw(result: Showable, target: Path, **options: Any) -> bool:
    """Draws a result, last, when its answer is given; whether it could be done.

    What goes wrong is told, and costs nothing but the figure.
    """
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
    """Draws a result to where `figure_target` said; the place is told as the user named it."""
    if target is not None and draw(result, target) and not quiet:
        out.print(f"figure: {shown}", soft_wrap=True)


def track_pricing(items: Sequence[Any]) -> Iterable[Any]:
    """The items, with a bar where somebody looks."""
    if not err.is_terminal:
        return items
    return track(items, "pricing rounds", console=err, transient=True)
