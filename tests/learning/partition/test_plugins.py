"""Partition rules of installed packages: found by name, checked, and part of a run's identity."""

import numpy as np
import pytest

from fedcell import load_scenario
from fedcell.core import plugins
from fedcell.errors import BadInput
from fedcell.experiments.training import Training
from fedcell.learning import prepare_training
from fedcell.learning.partition.make import make_partition
from fedcell.learning.partition.testing import check_partition
from fedcell.scenario.partition import KINDS, PARTITION_GROUP, PartitionSpec
from support.plugins import install_package

CODE = """
import numpy as np

def modulo(labels, count, spec, rng):
    return labels % count

def short(labels, count, spec, rng):
    return labels[:-1] % count

def outside(labels, count, spec, rng):
    return labels * 0 + count

def failing(labels, count, spec, rng):
    raise KeyError("more")

number = 5
"""
NAMES = ("modulo", "short", "outside", "failing", "number", "lost")
POINTS = {name: f"partition_plugin:{name}" for name in NAMES} | {"iid": "partition_plugin:short"}
LABELS = np.arange(40) % 10


@pytest.fixture
def _plugin(tmp_path, monkeypatch):
    package = tmp_path / "package"
    install_package(package, monkeypatch, "partition_plugin", CODE, {PARTITION_GROUP: POINTS})


def deal(kind, count=5):
    return make_partition(LABELS, count, PartitionSpec(kind=kind), np.random.default_rng(0))


@pytest.mark.usefixtures("_plugin")
def test_an_installed_package_adds_a_partition():
    partition = deal("modulo")
    for j in range(5):
        assert (LABELS[partition.of(j)] % 5 == j).all()
    setup = prepare_training(
        load_scenario("digits").using(learning={"partition": {"kind": "modulo"}})
    )
    assert setup.partition.sizes.sum() == len(setup.data.y_train)
    assert "partition_plugin" not in repr(setup)


@pytest.mark.usefixtures("_plugin")
def test_a_package_cannot_replace_a_built_in_partition():
    assert deal("iid").sizes.sum() == LABELS.size


def test_packages_are_not_searched_for_built_in_partitions(monkeypatch):
    def refuse(group):
        raise AssertionError(group)

    monkeypatch.setattr(plugins, "_entry_points", refuse)
    for kind in KINDS:
        PartitionSpec(kind=kind)


@pytest.mark.usefixtures("_plugin")
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("short", "'short': owner has 39 entries for 40 training samples: give one for each$"),
        ("outside", "'outside': owner: sample 0 belongs to client 5, and there are 5 clients"),
        ("failing", "the partition failing failed: KeyError: 'more'$"),
        ("number", "the partition number cannot be called: expected a PartitionRule$"),
        ("lost", "lost = 'partition_plugin:lost' of fedcell.partitions, in partition_plugin"),
    ],
)
def test_a_rule_that_cannot_be_used_is_one_sentence(kind, sentence):
    with pytest.raises(BadInput, match=sentence) as caught:
        deal(kind)
    assert len(caught.value.faults) == 1


@pytest.mark.usefixtures("_plugin")
def test_names_that_no_package_adds_are_refused():
    with pytest.raises(BadInput, match='kind = "modula": did you mean modulo'):
        PartitionSpec(kind="modula")
    with pytest.raises(BadInput, match="same_skew_as is for built-in kinds, and kind is 'modulo'"):
        PartitionSpec(kind="modulo", same_skew_as=5)
    with pytest.raises(BadInput, match="owners is for given"):
        PartitionSpec(kind="modulo", owners="a.csv")
    assert PartitionSpec(kind="modulo", alpha=0.1).alpha == 0.1  # options are for the rule to use


def test_a_changed_rule_makes_other_runs(tmp_path, monkeypatch):
    world = {"learning": {"partition": {"kind": "modulo"}}}
    identities = []
    for i, code in enumerate((CODE, CODE, CODE + "\n# changed\n")):
        with monkeypatch.context() as patch:
            package = tmp_path / f"package{i}"
            install_package(package, patch, "partition_plugin", code, {PARTITION_GROUP: POINTS})
            scenario = load_scenario("digits").using(**world)
            setup = prepare_training(scenario)
            identities.append((setup.fingerprint, Training.of(scenario, 0).key))
    assert identities[0] == identities[1]
    assert all(a != b for a, b in zip(identities[0], identities[2], strict=True))


def random_clients(labels, count, spec, rng):  # noqa: ARG001
    return rng.integers(-1, count, labels.size)


def test_check_partition_accepts_a_rule_that_keeps_the_contract():
    check_partition(random_clients)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda labels, *_: labels[1:] * 0, "owner has 599 entries for 600"),
        (lambda labels, count, *_: labels * 0 + count, "and there are 20 clients"),
        (lambda labels, *_: labels * 0.0, "expected the number of a client"),
        (lambda labels, *_: np.full(labels.size, "a"), "owner names 1 clients"),
        (lambda labels, *_: labels * 0 - 1, "no training sample belongs to a client"),
        (
            lambda labels, count, *_: np.random.default_rng().integers(count, size=labels.size),
            "the same seed assigns other clients the second time",
        ),
    ],
)
def test_check_partition_names_what_is_broken(rule, reason):
    with pytest.raises(AssertionError, match=f"^ten classes, 20 clients: .*{reason}"):
        check_partition(rule)


def test_check_partition_gives_labels_that_cannot_be_written():
    def writing(labels, count, spec, rng):  # noqa: ARG001
        labels[:] = 0
        return labels

    with pytest.raises(ValueError, match="read-only"):
        check_partition(writing)
