"""What all commands share: the application, its consoles, and options that mean the same."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from fedcell.network.policies.names import NAMED
from fedcell.scenario.load import SHIPPED

app = typer.Typer(
    name="fedcell",
    help="Plan, simulate and run federated learning over wireless networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(markup=False, highlight=False), Console(stderr=True)

ScenarioName = Annotated[
    str, typer.Argument(help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}.")
]
PolicyName = Annotated[
    str, typer.Option(help=f"{', '.join(NAMED)}; or module:callable for your own.")
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


def progress(items: Sequence[Any]) -> Iterable[Any]:
    """The items, with a bar where somebody looks."""
    if not err.is_terminal:
        return items
    return track(items, "pricing rounds", console=err, transient=True)
