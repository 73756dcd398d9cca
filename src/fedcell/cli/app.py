"""What all commands share: the application, its consoles, and options that mean the same."""

import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from fedcell.core.errors import BadFile, BadInput, FedcellError, printable
from fedcell.core.files import check_target
from fedcell.core.showing import Showable
from fedcell.network.policies.names import NAMED
from fedcell.scenario.load import SHIPPED
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


ScenarioName = Annotated[
    str, typer.Argument(help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}.")
]
PolicyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"{', '.join(NAMED)}; or module:callable for your own. Repeat it to compare; "
        "the first is what the others are compared with. Default: all of ours.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Details = Annotated[
    bool,
    typer.Option(
        "--details", help="Say more, in the paper's words: law of rounds, theorems, unit costs."
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        min=1, max=10**7, help="Rounds to draw. Default: plan.rounds, or all that are measured."
    ),
]
Fleets = Annotated[
    int,
    typer.Option(
        min=1,
        max=10**4,
        help="Fleets to draw: with several, intervals are over fleets instead of rounds.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The dice: same seed, same rounds.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where MNIST, Fashion-MNIST and CIFAR-10 lie or go to. "
        "Default: FEDCELL_DATA, else your cache directory."
    ),
]
MostRounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", min=1, max=10**6, help="Rounds after which a run ends. Default: plan.rounds."
    ),
]
Clients = Annotated[
    str | None,
    typer.Option(
        metavar="N..N", help="Clients a round that may be planned, as 3..20. Default: any."
    ),
]
Steps = Annotated[
    str | None,
    typer.Option(metavar="N..N", help="Local steps that may be planned, as 5..80. Default: any."),
]
RUNS = Path("fedcell-runs")
EVERY = 30.0  # [s] between two lines where nobody looks at a bar
StoreFolder = Annotated[
    Path, typer.Option("--store", help="Where trainings are kept, for all experiments.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=4096, help="Processes. Default: all processors.")
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Default: all processors.")]


def parse_range(text: str | None, option: str) -> tuple[int, int] | None:
    """Two whole numbers, as 3..20; one is both ends."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,9})\s*(?:\.\.\s*(\d{1,9})\s*)?", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2] or found[1]):
        raise BadInput(f"{option} = {text}: expected a range of whole numbers from 1, as 3..20")
    return int(found[1]), int(found[2] or found[1])


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
