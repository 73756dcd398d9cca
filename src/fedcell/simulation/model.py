"""The model that a run has trained, from its folder: to predict with, judge, take elsewhere."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from msgspec import Meta

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.checksums import note_unsealed
from fedcell.core.files.formats import check_target, naming, write_file
from fedcell.core.files.npz import Arrays, read_npz
from fedcell.core.schema import Count, Table, decode
from fedcell.core.types import Floats, Ints
from fedcell.learning.classifier import Classifier, Evaluation
from fedcell.learning.data.dataset import load_data
from fedcell.learning.export import PlainLayer, constructor, plain_layers, state_of
from fedcell.learning.neural import NeuralNetwork
from fedcell.learning.setup import TrainingSetup
from fedcell.scenario.learning import Deliver
from fedcell.scenario.load import load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.folder.checkpoint import CHECKPOINT, delivery_of
from fedcell.simulation.folder.run_folder import IDENTITY, SCENARIO, read_identity, seeds_inside

ARRAYS: dict[Deliver, str] = {"last": "model", "average": "average"}  # of a checkpoint
WAY_OUT = "name one that `run` made"


class InputRow(Table, frozen=True, kw_only=True):
    """What goes into a network and how it is standardised, as run.json keeps it."""

    table_name = "input"

    image: Annotated[tuple[Count, Count, Count], Meta(description="height, width and channels")]
    classes: Count
    kind: Literal["uint8", "float32"]
    scale: tuple[float, ...]
    shift: tuple[float, ...]


def input_of(setup: TrainingSetup) -> dict[str, Any] | None:
    """What a model of ours needs beside its weights, in plain values; None for other learners."""
    if setup.dealt is None:
        return None
    data = setup.dealt.data
    return {
        "image": list(data.image),
        "classes": setup.dealt.network.shapes[-1].outputs,
        "kind": data.x_train.dtype.name,
        "scale": [float(value) for value in data.scale],
        "shift": [float(value) for value in data.shift],
    }


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """The model of a run, and what it was trained in. `load_model` reads one."""

    weights: Floats  # flat; of a learner of one's own, as its `start` gives them
    which: Deliver  # the last model, or the average of the last ones
    rounds: int
    scenario: Scenario
    data: str | None  # the checksum of the data that it was trained on
    learner: str | None  # the name of a learner of one's own
    classifier: Classifier | None  # None where it is not a network of ours that was trained

    @property
    def network(self) -> NeuralNetwork:
        """The layers, with their sizes."""
        return self._classifier().network

    def predict(self, x: Any) -> Ints:
        """The class of each sample; x is as in the dataset, bytes where that has bytes."""
        return self._classifier().predict(x)

    def logits(self, x: Any) -> Floats:
        """What the last layer says of each sample, (sample, class)."""
        return self._classifier().logits(x)

    def evaluate(self, x: Any = None, y: Any = None, data_dir: Path | None = None) -> Evaluation:
        """Loss and accuracy on samples with labels; on the test data of the run's dataset, which
        may lie in `data_dir`, where they are left out."""
        classifier = self._classifier()
        if (x is None) != (y is None):
            raise BadInput("give x and y, or neither for the test data of the run")
        if x is None and self.scenario.learning is not None:
            data = load_data(self.scenario.learning.dataset, data_dir)
            if data.fingerprint != str(self.data).split("-")[0]:  # owners stand behind a dash
                raise BadInput(f"{data.name} is not the data of the run: give x and y")
            x, y = data.x_test, data.y_test
        return classifier.evaluate(x, y)

    def plain_layers(self) -> list[PlainLayer]:
        """The network as layers of PyTorch, in plain values."""
        return plain_layers(self._classifier())

    def export(self, path: str | Path) -> None:
        """Writes a .pt, a dictionary with the text of an nn.Sequential ("module") and its
        "state_dict", which torch.load reads with weights_only=True; or an .npz with the same
        arrays, the text, and all weights as one vector ("weights")."""
        target = check_target(Path(path), ("pt", "npz"))
        if target.suffix.lower() == ".pt":
            layers = self.plain_layers()
            from fedcell.learning.engines.torch_modules import save_module

            return write_file(target, lambda aside: save_module(aside, layers))
        arrays: dict[str, Any] = {"weights": self.weights}
        if self.classifier is not None:
            layers = self.plain_layers()
            arrays |= {"module": np.array(constructor(layers)), **state_of(layers)}

        def write(aside: Path) -> None:
            with aside.open("wb") as file:
                np.savez(file, **arrays)

        return write_file(target, write)

    def _classifier(self) -> Classifier:
        if self.classifier is None:
            what = "quadratics" if self.learner is None else f"the learner {self.learner}"
            raise BadInput(
                f"the run trained {what}, of which fedcell knows the weights alone: take them from "
                "load_model, or from an .npz"
            )
        if self.weights is self.classifier.weights:
            return self.classifier
        return replace(self.classifier, weights=self.weights)  # others were put in their place

    def __repr__(self) -> str:
        what = "average of the last models" if self.which == "average" else "last model"
        return f"<TrainedModel: the {what} after {self.rounds} rounds, {self.weights.size} weights>"


def load_model(folder: str | Path, which: Deliver | None = None) -> TrainedModel:
    """The model that a run trained, from its folder: the one that it delivers and was judged by
    (learning.deliver), or `which` says: the "last" one, or the "average" of the last ones.

    >>> from tempfile import mkdtemp
    >>> from fedcell import load_scenario, run
    >>> folder = f"{mkdtemp()}/first"
    >>> _ = run(load_scenario("digits"), ["even"], rounds=3, folder=folder)
    >>> load_model(folder).evaluate().samples
    296
    """
    path = Path(folder)
    if which not in (None, *get_args(Deliver)):
        raise BadInput(f"`which` = {which}: expected last or average")
    if not (path / IDENTITY).is_file():
        raise BadFile(f"{path}: is not the folder of a run: {WAY_OUT}{seeds_inside(path)}")
    content, checked = read_identity(path, WAY_OUT)
    note_unsealed([] if checked else [path / IDENTITY])
    scenario, (arrays, which) = load_scenario(path / SCENARIO), _arrays(path, which)
    learner = content.get("learner") or {}
    name = str(learner.get("name")) if isinstance(learner, dict) and learner else None
    weights, classifier = arrays[ARRAYS[which]], None
    if scenario.learning is not None and not scenario.learning.analytic and name is None:
        if not isinstance(content.get("input"), dict):
            raise BadFile(
                f"{path}: was run by an older fedcell, which did not keep how samples are "
                "standardised: resume it once"
            )
        with naming(path / IDENTITY):
            row = decode(InputRow, content["input"])
            network = NeuralNetwork.of(scenario.learning.architecture, row.image, row.classes)
            scale, shift = (np.array(values, np.float32) for values in (row.scale, row.shift))
            classifier = Classifier(network, weights, scale, shift, row.kind)
    rounds, data = int(arrays["rounds"]), content.get("data")
    return TrainedModel(weights, which, rounds, scenario, data, name, classifier)


def _arrays(folder: Path, which: Deliver | None) -> tuple[Arrays, Deliver]:
    """What a checkpoint holds, and which of its models is wanted."""
    path = folder / CHECKPOINT
    if not path.is_file():
        raise BadFile(f"{folder}: has no trained model: not a round of it was done")

    def check(announced: Arrays) -> None:
        for name in ARRAYS.values():
            if announced[name].dtype != np.float32 or announced[name].ndim != 1:
                raise BadInput("does not hold a model")
        if announced["rounds"].dtype != np.int64 or announced["rounds"].shape != ():
            raise BadInput("does not say how many rounds were done")

    with naming(path):
        found = read_npz(path, (*ARRAYS.values(), "rounds"), check, optional=("deliver",))
        which = which or delivery_of(found)
        if not np.isfinite(found[ARRAYS[which]]).all():
            raise BadInput("holds a model that is not finite: it is damaged")
    return found, which
