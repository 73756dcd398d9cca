"""Write the data of an installed package as a dataset of your own."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, out
from fedcell.cli.options import check_choice, out_file
from fedcell.core.files.formats import check_target
from fedcell.learning.data.packaged.shakespeare import write_shakespeare
from fedcell.learning.data.packaged.watch import write_watch

WRITERS = {"watch": write_watch, "shakespeare": write_shakespeare}

Name = Annotated[
    str,
    typer.Argument(
        help="watch: smartwatches of ten people (the package seglearn); shakespeare: roles of "
        "plays (the package shakespeare)."
    ),
]
OutFile = Annotated[
    Path | None, out_file("File to write, an .npz. Default: NAME.npz in the current folder.")
]


@command("fedcell data watch", "fedcell data shakespeare --out plays.npz")
def data(name: Name, out_path: OutFile = None) -> None:
    """Write data with real devices in it from an installed package, as an .npz with owners.

    A scenario uses it as dataset = "watch.npz"; the scenario watch does. Nothing is downloaded, and
    no code of the package runs.
    """
    check_choice("name", name, WRITERS)
    path = Path(f"{name}.npz") if out_path is None else out_path
    check_target(path, ("npz",))
    written = WRITERS[name](path)
    out.print(f"{written!r} written to {path}", soft_wrap=True)
