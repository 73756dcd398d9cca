"""Write a trained model for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedcell.cli.app import command, out
from fedcell.cli.options import LearnerName, out_file
from fedcell.core.errors import BadInput
from fedcell.core.files.formats import check_target
from fedcell.learning.export import constructor
from fedcell.simulation.folder.checkpoint import CHECKPOINT
from fedcell.simulation.model import TrainedModel, load_model

Folder = Annotated[Path, typer.Argument(help="Folder of a run.")]
OutFile = Annotated[Path, out_file("File to write: a .pt for PyTorch, or an .npz of arrays.")]
Which = Annotated[
    Literal["last", "average"] | None,
    typer.Option(
        help="The model after the last round, or the average over the last rounds. "
        "Default: the one that was evaluated, learning.deliver."
    ),
]


@command(
    "fedcell export run-digits-seed0 --out model.pt",
    "fedcell export run-digits-seed0 --out model.npz --which average",
)
def export(
    folder: Folder, out_path: OutFile, which: Which = None, learner: LearnerName = None
) -> None:
    """Write the trained model of a run for PyTorch (.pt) or NumPy (.npz).

    A .pt has the state_dict of a plain nn.Sequential; an .npz has the same arrays. The first layer
    standardises the data, so the module takes raw data. Prints the Python code that loads it. With
    the --learner of the run, a PyTorch module of your own, the file has its whole state_dict.
    """
    target = check_target(out_path, ("pt", "npz"))
    model = load_model(folder, which)
    if target.name == CHECKPOINT and target.parent.resolve() == folder.resolve():
        raise BadInput(f"--out = {out_path}: is the checkpoint of the run: choose another file")
    model.export(target, learner)
    out.print(f"{model!r} written to {out_path}", soft_wrap=True)
    if model.classifier is not None:
        out.print(how_to_load(model, out_path), soft_wrap=True)


def how_to_load(model: TrainedModel, path: Path) -> str:
    """Return Python code that loads the file into a module."""
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
