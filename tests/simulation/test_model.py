"""The trained model of a run: read from its folder, judged, and written for others."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario, load_model, load_scenario, run
from fedcell.errors import BadFile, BadInput
from fedcell.learning.classifier import Classifier
from fedcell.learning.data.dataset import load_data
from fedcell.learning.export import constructor, plain_layers, state_of
from fedcell.learning.learner import LocalTraining
from support import reference
from support.networks import AWKWARD, engine, made
from support.sealing import rewrite

DATA = load_data("digits")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of the digits, whose bytes are standardised."""
    path = tmp_path_factory.mktemp("runs") / "digits"
    run(load_scenario("digits"), ["even"], rounds=6, folder=path)
    return path


def test_a_model_is_worth_what_its_run_says(folder):
    said = json.loads((folder / "summary.json").read_text())
    last, average = load_model(folder, "last"), load_model(folder, "average")
    assert said["deliver"] == load_model(folder).which == "average"
    assert_array_equal(load_model(folder).weights, average.weights)
    with np.load(folder / "checkpoint.npz") as saved:
        assert_array_equal(last.weights, saved["model"])
        assert_array_equal(average.weights, saved["average"])
    row = said["policies"][0]
    for model, scores in ((average, row), (last, said["other"])):
        found = model.evaluate()
        assert (found.accuracy, found.samples) == (scores["accuracy"], 296)
        assert_allclose(found.loss, scores["test_loss"], rtol=1e-6)
        assert found == model.evaluate(DATA.x_test, DATA.y_test)
    assert last.scenario.learning is not None
    assert last.network.size == last.weights.size
    assert repr(average) == (
        "<TrainedModel: the average of the last models after 6 rounds, 3658 weights>"
    )
    assert repr(last) == "<TrainedModel: the last model after 6 rounds, 3658 weights>"


def test_other_weights_are_judged_in_place_of_the_run_s(folder, tmp_path):
    last, average = load_model(folder, "last"), load_model(folder, "average")
    assert last.evaluate() != average.evaluate()
    other = replace(last, weights=average.weights)
    assert other.evaluate() == average.evaluate()
    assert_array_equal(other.logits(DATA.x_test), average.logits(DATA.x_test))
    other.export(tmp_path / "other.npz")
    average.export(tmp_path / "average.npz")
    with np.load(tmp_path / "other.npz") as one, np.load(tmp_path / "average.npz") as two:
        for name in two:
            assert_array_equal(one[name], two[name])
    with pytest.raises(BadInput, match="the network has 3658 weights, not"):
        replace(last, weights=last.weights[:-1]).evaluate()


def classifier_of(ours):
    data = ours.data
    kind = data.x_train.dtype.name
    return Classifier(ours.network, ours.start(), data.scale, data.shift, kind)


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
@pytest.mark.parametrize("name", AWKWARD)
def test_predictions_are_those_of_plain_numpy(name, kind):
    image, layers, _ = AWKWARD[name]
    ours = engine(made(image, count=70, kind=kind), layers, LocalTraining(4, 1, None, 0.1))
    model, data = classifier_of(ours), ours.data
    some = data.x_train[:67]
    fed = (some * data.scale + data.shift).astype(float)
    expected = [reference.logits(ours.network, model.weights.astype(float), x) for x in fed]
    assert_allclose(model.logits(some), expected, atol=1e-5)
    assert_array_equal(model.predict(some), np.argmax(model.logits(some), 1))
    assert_allclose(model.evaluate(data.x_test, data.y_test).loss,
                    ours.evaluate(ours.start()).test_loss, rtol=1e-5)  # fmt: skip


@pytest.mark.parametrize("name", AWKWARD)
def test_plain_layers_compute_the_same(name):
    """Layer by layer in NumPy, channels first, as PyTorch does it."""
    image, layers, _ = AWKWARD[name]
    ours = engine(made(image, kind=np.uint8), layers, LocalTraining(4, 1, None, 0.1))
    model, x = classifier_of(ours), ours.data.x_train[:3]
    out = x.astype(float).transpose(0, 3, 1, 2)
    for layer in plain_layers(model):
        w, b = (layer.arrays.get(n, np.zeros(0)).astype(float) for n in ("weight", "bias"))
        if layer.name == "Conv2d":
            pad, (outputs, inputs, k, _) = layer.options.get("padding", 0), w.shape
            groups = layer.options.get("groups", 1)
            assert layer.sizes == (inputs * groups, outputs, k)
            out = np.pad(out, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
            windows = np.lib.stride_tricks.sliding_window_view(out, (k, k), axis=(2, 3))
            rule = "ncyxij,ocij->noyx" if groups == 1 else "ncyxij,cqij->ncyx"
            out = np.einsum(rule, windows, w) + b[:, None, None]
        elif layer.name == "MaxPool2d":
            n, c, h, v = out.shape
            out = out[:, :, : h // 2 * 2, : v // 2 * 2].reshape(n, c, h // 2, 2, v // 2, 2)
            out = out.max((3, 5))
        elif layer.name == "ReLU":
            out = np.maximum(out, 0)
        elif layer.name == "Flatten":
            out = out.reshape(len(out), -1)
        else:
            assert layer.sizes == w.shape[::-1]
            out = out @ w.T + b
    assert_allclose(out, model.logits(x), atol=1e-4)


@pytest.mark.parametrize("which", ["last", "average"])
def test_the_command_writes_arrays_and_says_how_to_load_them(fedcell, folder, tmp_path, which):
    said = fedcell("export", folder, "--out", tmp_path / "model.npz", "--which", which)
    assert (said.code, said.err) == (0, "")
    model = load_model(folder, which)
    text = constructor(plain_layers(model.classifier))
    assert f"model = {text}" in said.out
    assert "x is (sample, 1, 8, 8), the bytes of the data as floats" in said.out
    with np.load(tmp_path / "model.npz") as saved:
        assert str(saved["module"]) == text
        assert_array_equal(saved["weights"], model.weights)
        state = state_of(model.plain_layers())
        assert set(saved.files) == {"module", "weights", *state}
        for name, values in state.items():
            assert_array_equal(saved[name], values)
    assert text.splitlines()[1] == "    nn.Conv2d(1, 1, 1, groups=1),  # standardises"


def test_of_quadratics_there_are_weights_alone(fedcell, tmp_path):
    scenario = Scenario().using(learning={"model": "quadratic-apart"}, plan={"rounds": 2})
    run(scenario, ["even"], folder=tmp_path / "run")
    assert fedcell("export", tmp_path / "run", "--out", tmp_path / "w.npz").code == 0
    with np.load(tmp_path / "w.npz") as saved:
        assert saved.files == ["weights"]
        assert_array_equal(saved["weights"], load_model(tmp_path / "run").weights)
    said = fedcell("export", tmp_path / "run", "--out", tmp_path / "w.pt")
    assert said.code == 2
    assert "the run trained quadratics, of which fedcell has the weights alone" in said.err
    assert not (tmp_path / "w.pt").exists()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 8, 8)), "x holds float64, and the model was trained on uint8"),
        (np.zeros((2, 9, 8), np.uint8), r"expected samples of \(8, 8, 1\)"),
        (np.zeros(3, np.uint8), r"x has shape \(3,\)"),
        (np.array(["a"]), "x holds"),
    ],
)
def test_samples_of_another_kind_are_refused(folder, x, message):
    with pytest.raises(BadInput, match=message):
        load_model(folder).predict(x)


def test_labels_that_do_not_fit_are_refused(folder):
    model = load_model(folder)
    with pytest.raises(BadInput, match="expected 2 below 10"):
        model.evaluate(DATA.x_test[:2], [1, 2, 3])
    with pytest.raises(BadInput, match="up to 12"):
        model.evaluate(DATA.x_test[:2], [1, 12])
    with pytest.raises(BadInput, match="give x and y, or neither"):
        model.evaluate(DATA.x_test)
    with pytest.raises(BadInput, match="digits is not the data of the run: give x and y"):
        replace(model, data="another").evaluate()


def test_folders_that_hold_no_model_are_refused(fedcell, folder, tmp_path):
    for path, message in ((tmp_path / "none", "is not the folder of a run"), (tmp_path, "folder")):
        with pytest.raises(BadFile, match=message):
            load_model(path)
    with pytest.raises(BadInput, match="expected last or average"):
        load_model(folder, "best")
    begun = tmp_path / "begun"
    begun.mkdir()
    for name in ("run.json", "scenario.json"):
        (begun / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(BadFile, match="no round is done yet"):
        load_model(begun)
    (begun / "checkpoint.npz").write_bytes(b"PK")
    with pytest.raises(BadFile, match="not a sound"):
        load_model(begun)
    (begun / "checkpoint.npz").write_bytes((folder / "checkpoint.npz").read_bytes())
    content = json.loads((begun / "run.json").read_text())
    for change, message in (
        ({"input": None}, "was run by an older fedcell"),
        ({"input": content["input"] | {"image": [20, 20, 1]}}, "weights"),
        ({"input": content["input"] | {"scale": [1.0, 2.0]}}, "one number for each"),
        ({"input": content["input"] | {"classes": 0}}, "input.classes = 0"),
        ({"format": 2}, "an older fedcell"),
    ):
        rewrite(begun / "run.json", **content | change)
        with pytest.raises(BadFile, match=message):
            load_model(begun)
    said = fedcell("export", folder, "--out", tmp_path / "model.onnx")
    assert said.code == 2
    assert "the name must end in one of: pt, npz" in said.err


def test_without_pytorch_the_command_says_what_is_missing(fedcell, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "fedcell.learning.engines.torch_modules", raising=False)
    said = fedcell("export", folder, "--out", tmp_path / "model.pt")
    assert (said.code, said.out) == (2, "")
    assert "needs PyTorch: pip install" in said.err
    assert not list(tmp_path.iterdir())


def test_an_export_does_not_replace_the_checkpoint(fedcell, folder):
    before = (folder / "checkpoint.npz").read_bytes()
    said = fedcell("export", folder, "--out", folder / "checkpoint.npz")
    assert (said.code, said.out) == (2, "")
    assert "is the checkpoint of the run" in said.err
    assert (folder / "checkpoint.npz").read_bytes() == before


def test_a_model_that_is_not_finite_is_not_exported(fedcell, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "r")
    with np.load(folder / "checkpoint.npz") as saved:
        arrays = dict(saved)
    np.savez(tmp_path / "r/checkpoint.npz", **arrays | {"average": np.nan * arrays["model"]})
    said = fedcell("export", tmp_path / "r", "--out", tmp_path / "m.npz")
    assert said.code == 2
    assert "checkpoint.npz: holds a model that is not finite" in said.err
    assert not (tmp_path / "m.npz").exists()
