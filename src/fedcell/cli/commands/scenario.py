"""Print a shipped scenario, to start your own from."""

from typing import Annotated

import typer

from fedcell.cli.app import app
from fedcell.scenario.load import SHIPPED, load_scenario, shipped
from fedcell.scenario.save import commented
from fedcell.show.tables.reference import scenario_reference


@app.command("scenario")
def print_scenario(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(SHIPPED)}.")] = "paper",
    all_keys: Annotated[
        bool, typer.Option("--all-keys", help="Print every key that is there, with its meaning.")
    ] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print what all keys mean and take, as Markdown.")
    ] = False,
) -> None:
    """Print a shipped scenario file, commented, to start your own from.

    A shipped file states only what differs from the defaults; --all-keys states all.
    """
    if reference:
        print(scenario_reference(), end="")
    else:
        print(commented(load_scenario(name)) if all_keys else shipped(name), end="")
