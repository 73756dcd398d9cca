"""Print a shipped scenario, to start your own from."""

from typing import Annotated

import typer

from fedcell.cli.app import command
from fedcell.scenario.load import SHIPPED, load_scenario, shipped
from fedcell.scenario.save import commented
from fedcell.show.tables.reference import scenario_reference

Name = Annotated[str, typer.Argument(help=f"One of: {', '.join(SHIPPED)}.")]
AllKeys = Annotated[
    bool, typer.Option("--all-keys", help="Print every key that exists, with its meaning.")
]
Reference = Annotated[
    bool, typer.Option("--reference", help="Print the meaning and range of all keys, as Markdown.")
]


@command("fedcell scenario digits > mine.toml", "fedcell scenario paper --all-keys")
def print_scenario(
    name: Name = "paper", all_keys: AllKeys = False, reference: Reference = False
) -> None:
    """Print a shipped scenario file, commented, to start your own from.

    A shipped file holds only what differs from the defaults; --all-keys prints all.
    """
    if reference:
        print(scenario_reference(), end="")
    else:
        print(commented(load_scenario(name)) if all_keys else shipped(name), end="")
