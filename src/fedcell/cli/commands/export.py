"""The command that takes a trained model elsewhere."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedcell.cli.app import app, out
from fedcell.core.errors import BadInput
from fedcell.core.files.formats import check_target
from fedcell.learning.export import constructor
from fedcell.simulation.folder.checkpoint import CHECKPOINT
from fedcell.simulation.model import TrainedModel, load_model


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out_path: Annotated[
        Path, typer.Option("--out", help="Where to: a .pt for PyTorch, or an .npz of arrays.")
    ],
    which: Annotated[
        Literal["last", "average"] | None,
        typer.Option(
            help="The model after the last round, or the average of the last ones. Default: what "
            "the run was judged by, learning.deliver."
        ),
    ] = None,
) -> None:
    """Write the trained model of a run for PyTorch (.pt) or NumPy (.npz), and say how to load it.

    A .pt has the state_dict of a plain nn.Sequential, and the text that makes it; an .npz has the
    same arrays. The first layer standardises the data, so the module takes it as it is.
    """
    target = check_target(out_path, ("pt", "npz"))
    model = load_model(folder, which)
    if target.name == CHECKPOINT and target.parent.resolve() == folder.resolve():
        raise BadInput(f"--out = {out_path}: is what the run goes on from: choose another file")
    model.export(target)
    out.print(f"{model!r} written to {out_path}", soft_wrap=True)
    if model.classifier is not None:
        out.print(how_to_load(model, out_path), soft_wrap=True)


def how_to_load(model: TrainedModel, path: Path) -> str:
    """Python that makes a module of the file."""
    height, width, channels = model.network.image
    kind = "bytes" if model.classifier and model.classifier.kind == "uint8" else "numbers"
    lines = ["", "import torch", "from torch import nn", ""]
    module = f"model = {constructor(model.plain_layers())}"
    if path.suffix.lower() == ".pt":
        lines += [f"saved = torch.load({str(path)!r}, weights_only=True)", module]
        lines += ['model.load_state_dict(saved["state_dict"])']
    else:
        lines[1:1] = ["import numpy as np"]
        lines += [f"saved = np.load({str(path)!r})", module]
        lines += [
            "model.load_state_dict("
            "{name: torch.tensor(saved[name]) for name in model.state_dict()})"
        ]
    shape = f"(sample, {channels}, {height}, {width})"
    return "\n".join(
        [*lines, f"# model(x) are logits; x is {shape}, the {kind} of the data as floats"]
    )
