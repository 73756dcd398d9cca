"""List and explain the devices and radios of the catalogue."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, out
from fedcell.cli.options import AsJson, file
from fedcell.core.errors import BadInput
from fedcell.core.schema import suggestion
from fedcell.scenario.catalogue.entries import Catalogue
from fedcell.show.tables.catalogue import print_catalogue, print_entry
from fedcell.show.tables.console import print_json

Name = Annotated[str | None, typer.Argument(help="A device or a radio. Default: list all of them.")]
File = Annotated[
    Path | None, file("Devices and radios of your own, in a TOML or JSON file.", "--file")
]


@command("fedcell devices", "fedcell devices rpi4")
def devices(name: Name = None, own_file: File = None, as_json: AsJson = False) -> None:
    """List devices and radios that are known by name, with the source of every number.

    A scenario names them: device = "rpi4", radio = "nr-mid", or columns of these names in a table
    of clients.
    """
    catalogue = Catalogue.load(own_file)
    if name is None:
        if as_json:
            print_json(catalogue.to_dict())
        else:
            print_catalogue(out, catalogue)
        return
    entries = [entry for entry in catalogue.entries if entry.name == name]
    if not entries:
        hint = suggestion(name, [entry.name for entry in catalogue.entries])
        raise BadInput(f"{name} is no device or radio of the catalogue; {hint}")
    for entry in entries:
        if as_json:
            print_json(entry.to_dict())
        else:
            print_entry(out, entry)
