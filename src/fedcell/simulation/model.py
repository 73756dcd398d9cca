"""The trained model of a run, from its folder: predict, evaluate, export."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from fedcell.learning.custom import CustomLearner, LearnerLike, unguarded
from fedcell.learning.data.dataset import load_data
from fedcell.learning.export import PlainLayer, constructor, plain_layers, state_of
from fedcell.learning.neural import NeuralNetwork
from fedcell.learning.setup import TrainingSetup
from fedcell.scenario.identity import differences
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
    """Return what a built-in model needs beside its weights; None for other learners."""
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
    """The trained model of a run. `load_model` reads one.

    Attributes
    ----------
    weights
        Flat vector of 32-bit floats; of a custom learner, in the order of its `start`.
    which
        "last": the last model; "average": the average of the last ones.
    rounds
        Rounds of training.
    scenario
        Scenario of the run.
    data
        Checksum of the training data; None without data.
    learner
        Name of a custom learner, or None.
    classifier
        The built-in network with the weights; None for other models.
    seed
        Seed of the run.
    learner_identity
        Checksums of a custom learner: its first model, its sizes, weights that stay on devices.
    """

    weights: Floats
    which: Deliver
    rounds: int
    scenario: Scenario
    data: str | None
    learner: str | None
    classifier: Classifier | None
    seed: int = 0
    learner_identity: Mapping[str, Any] = field(default_factory=dict)  # of a custom learner

    @property
    def network(self) -> NeuralNetwork:
        """The layers and their sizes."""
        return self._classifier().network

    def predict(self, x: Any) -> Ints:
        """Return the class of each sample.

        Parameters
        ----------
        x
            Samples as in the dataset, (sample, height, width, channel); bytes where that has bytes.

        Returns
        -------
        array of int, (sample,)
        """
        return self._classifier().predict(x)

    def logits(self, x: Any) -> Floats:
        """Return the outputs of the last layer for samples as of `predict`, (sample, class)."""
        return self._classifier().logits(x)

    def evaluate(self, x: Any = None, y: Any = None, data_dir: Path | None = None) -> Evaluation:
        """Return loss and accuracy on labelled samples.

        Parameters
        ----------
        x, y
            Samples as of `predict` and their classes; default: the test data of the run.
        data_dir
            Folder of published datasets; default: the user's cache.
        """
        classifier = self._classifier()
        if (x is None) != (y is None):
            raise BadInput("give x and y, or neither for the test data of the run")
        if x is None and self.scenario.learning is not None:
            data = load_data(self.scenario.learning.dataset, data_dir)
            if data.fingerprint != str(self.data).split("-")[0]:  # owners follow after a dash
                raise BadInput(f"{data.name} is not the data of the run: give x and y")
            x, y = data.x_test, data.y_test
        return classifier.evaluate(x, y)

    def plain_layers(self) -> list[PlainLayer]:
        """Return the network as layers of PyTorch, in plain values."""
        return plain_layers(self._classifier())

    def full_state(self, learner: LearnerLike) -> dict[str, Any]:
        """Return the state_dict of a whole PyTorch module: the weights of the run, and those that
        stayed on the devices.

        Parameters
        ----------
        learner
            The learner of the run: the function that made it, or its name.
        """
        custom = CustomLearner.of(learner)
        assert custom is not None
        made = custom(self.scenario, self.seed)
        state = getattr(unguarded(made), "full_state", None)
        if state is None:
            raise BadInput(f"the learner {custom.name} has no PyTorch module: export without it")
        if changed := differences(dict(self.learner_identity), custom.identity(made)):
            raise BadInput(f"the run was of another learner than {custom.name} ({changed} differs)")
        whole: dict[str, Any] = state(self.weights)
        return whole

    def export(self, path: str | Path, learner: LearnerLike | None = None) -> None:
        """Write the model to a file.

        Parameters
        ----------
        path
            A .pt for a dictionary with the text of an nn.Sequential ("module") and its
            "state_dict", which torch.load reads with weights_only=True; an .npz for the same
            arrays, the text, and all weights as one vector ("weights").
        learner
            The learner of the run, where that is a PyTorch module of your own: then the file has
            the "state_dict" of the whole module, with the weights that stayed on the devices.
        """
        target = check_target(Path(path), ("pt", "npz"))
        if learner is not None:
            return _write_state(target, self.full_state(learner))
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
                f"the run trained {what}, of which fedcell has the weights alone: read them from "
                "load_model, export an .npz, or give the `learner` of a PyTorch module"
            )
        if self.weights is self.classifier.weights:
            return self.classifier
        return replace(self.classifier, weights=self.weights)  # the weights were replaced

    def __repr__(self) -> str:
        what = "average of the last models" if self.which == "average" else "last model"
        return f"<TrainedModel: the {what} after {self.rounds} rounds, {self.weights.size} weights>"


def load_model(folder: str | Path, which: Deliver | None = None) -> TrainedModel:
    """Load the trained model of a run from its folder.

    Parameters
    ----------
    folder
        Folder that `run` has written.
    which
        "last": the last model; "average": the average of the last ones; default: the one that the
        run delivers and evaluates (learning.deliver).

    Returns
    -------
    TrainedModel
        Predicts, evaluates, exports.

    Raises
    ------
    BadFile
        If the folder holds no run with a finished round.

    Examples
    --------
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
    seed, identity = int(content.get("seed") or 0), learner if isinstance(learner, dict) else {}
    return TrainedModel(weights, which, rounds, scenario, data, name, classifier, seed, identity)


def _write_state(target: Path, state: dict[str, Any]) -> None:
    """Write a state_dict of tensors."""

    def write(aside: Path) -> None:
        if target.suffix.lower() == ".pt":
            import torch

            torch.save({"state_dict": state}, aside)
            return
        with aside.open("wb") as file:
            np.savez(file, **{name: value.cpu().numpy() for name, value in state.items()})

    return write_file(target, write)


def _arrays(folder: Path, which: Deliver | None) -> tuple[Arrays, Deliver]:
    """Return the arrays of a checkpoint, and which of its models is wanted."""
    path = folder / CHECKPOINT
    if not path.is_file():
        raise BadFile(f"{folder}: has no trained model: no round is done yet")

    def check(announced: Arrays) -> None:
        for name in ARRAYS.values():
            if announced[name].dtype != np.float32 or announced[name].ndim != 1:
                raise BadInput("does not hold a model")
        if announced["rounds"].dtype != np.int64 or announced["rounds"].shape != ():
            raise BadInput("lacks the number of rounds")

    with naming(path):
        arrays = read_npz(path, (*ARRAYS.values(), "rounds"), check, optional=("deliver",))
        which = which or delivery_of(arrays)
        if not np.isfinite(arrays[ARRAYS[which]]).all():
            raise BadInput("holds a model that is not finite: it is damaged")
    return arrays, which
