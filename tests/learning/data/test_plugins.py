"""Datasets of installed packages: found by name, checked, and trained on."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell import PartitionSpec, load_scenario, run
from fedcell.core import plugins
from fedcell.errors import BadInput
from fedcell.learning import Dataset, prepare_training
from fedcell.learning.data.dataset import load_data
from fedcell.learning.data.plugins import DATASET_GROUP
from fedcell.learning.data.testing import check_dataset
from support.plugins import install_package

CODE = """
import numpy as np
from fedcell.learning import Dataset

def stripes(folder):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    x = rng.normal(size=(120, 4, 4)).astype(np.float32)
    x[np.arange(120), y] += 2
    owner = np.arange(120) // 30
    return Dataset.of(
        x_train=x, y_train=y, x_test=x[:30], y_test=y[:30], owner=owner, name=f"in {folder.name}"
    )

def arrays(folder):
    return {"x_train": 1}

def failing(folder):
    raise OSError("no disk")

number = 5
"""
NAMES = ("stripes", "arrays", "failing", "number", "lost")
POINTS = {name: f"dataset_plugin:{name}" for name in NAMES} | {"digits": "dataset_plugin:stripes"}


@pytest.fixture(autouse=True)
def _plugin(tmp_path, monkeypatch):
    package = tmp_path / "package"
    install_package(package, monkeypatch, "dataset_plugin", CODE, {DATASET_GROUP: POINTS})


def test_an_installed_package_adds_a_dataset(tmp_path):
    data = load_data("stripes", tmp_path / "here")
    assert data.name == "in here"
    assert data.classes == 3
    scenario = load_scenario("digits").using(
        learning={
            "dataset": "stripes",
            "model": "logistic",
            "partition": PartitionSpec(kind="given"),
        },
        clients={"count": 4},
        plan={"cohort": 2},
    )
    setup = prepare_training(scenario, data_dir=tmp_path)
    assert setup.partition.sizes.tolist() == [30] * 4  # its owners
    assert run(scenario, ["even"], rounds=1).ledgers["even"].rounds == 1


def test_a_package_cannot_replace_a_built_in_dataset():
    assert len(load_data("digits").y_train) == 1501


def test_packages_are_not_searched_for_built_in_datasets(monkeypatch):
    def refuse(group):
        raise AssertionError(group)

    monkeypatch.setattr(plugins, "_entry_points", refuse)
    prepare_training(load_scenario("digits"))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("arrays", "^the dataset arrays is a dict: expected a Dataset$"),
        ("failing", "^the dataset failing cannot be made: OSError: no disk$"),
        ("number", "^the dataset number cannot be called: expected a DatasetFactory$"),
        ("lost", "^lost = 'dataset_plugin:lost' of fedcell.datasets, in dataset_plugin, cannot be"),
        ("stripe", "^stripe is not a dataset: did you mean stripes"),
    ],
)
def test_a_dataset_that_cannot_be_loaded_is_one_sentence(name, sentence):
    with pytest.raises(BadInput, match=sentence) as caught:
        load_data(name)
    assert len(caught.value.faults) == 1


def test_check_dataset_accepts_a_factory_that_keeps_the_contract():
    check_dataset(lambda folder: load_data("stripes", folder))


def changing(start):
    """Return a factory whose first sample differs from call to call."""
    calls = iter(range(10))

    def make(folder):  # noqa: ARG001
        x = np.array(start.x_train)
        x[0] += next(calls)
        return replace(start, x_train=x, published=None)

    return make


@pytest.mark.filterwarnings("ignore::fedcell.FedcellWarning")
def test_check_dataset_names_what_is_broken():
    stripes = load_data("stripes")
    owners = iter([stripes.owner, stripes.owner[::-1]])
    x, y = np.ones((4, 2, 2)) * [[[1.0]], [[2.0]], [[1.0]], [[2.0]]], [0, 0, 0, 0]
    one_class = Dataset.of(x_train=x, y_train=y, x_test=x, y_test=y)
    gap = Dataset.of(x_train=x, y_train=[0, 2, 0, 2], x_test=x, y_test=y)
    for factory, reason in (
        (lambda _: [1], "made a list: expected a Dataset"),
        (lambda _: one_class, "the training samples have one class"),
        (lambda _: gap, "no training sample has the label 1"),
        (changing(stripes), "the second call made other samples"),
        (lambda _: replace(stripes, owner=next(owners), published=None), "made other owners"),
    ):
        with pytest.raises(AssertionError, match=reason):
            check_dataset(factory)
