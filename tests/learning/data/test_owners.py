"""Given owners: each sample is whose they say, and what cannot be is refused with the reason."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedcell import FedcellWarning, Scenario
from fedcell.errors import BadInput
from fedcell.learning import Dataset, prepare_training
from fedcell.learning.data.owners import in_order
from fedcell.learning.partition.make import Partition, summarise_partition
from fedcell.learning.partition_report import describe_partition
from fedcell.learning.setup import require_learning
from fedcell.simulation import simulate
from support.owned import CLOUDS, clouds, owned, scenario_in

THREE = np.arange(CLOUDS) % 3
NAMES = ["pump-10", "pump-2", "pump-1"]
LOGISTIC = Scenario().using(learning={"model": "logistic"}, plan={"cohort": 2, "local_steps": 3})


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=40), st.integers(7, 9) | st.none())
def test_each_sample_belongs_to_its_owner_only(owner, count):
    if max(owner) < 0:
        with pytest.raises(BadInput, match="no training sample belongs to a client"):
            Partition.of_owner(owner, count=count)
        return
    partition = Partition.of_owner(np.array(owner), count=count)
    assert partition.count == (count or max(owner) + 1)
    for j in range(partition.count):
        assert partition.of(j).tolist() == [i for i, who in enumerate(owner) if who == j]


@given(st.lists(st.sampled_from(["", "b", "a10", "a9", " a9 "]), min_size=1, max_size=30))
def test_names_stand_for_clients(owner):
    if not any(owner):
        return
    partition = Partition.of_owner(owner)
    stripped = [name.strip() for name in owner]
    assert partition.names == tuple(n for n in ("a9", "a10", "b") if n in stripped)
    for j, name in enumerate(partition.names):
        assert partition.of(j).tolist() == [i for i, who in enumerate(stripped) if who == name]


def test_names_are_looked_up_in_those_that_are_given():
    partition = Partition.of_owner(["b", "a", "b"], names=["c", "b", "a"])
    assert partition.sizes.tolist() == [0, 2, 1]
    assert partition.names == ("c", "b", "a")
    assert Partition.of_owner([2, 0], names=["c", "b", "a"]).sizes.tolist() == [1, 0, 1]
    column = np.array(["b", "a"], object)  # as a data frame has it
    assert Partition.of_owner(column).names == ("a", "b")


def test_names_are_in_the_order_in_which_people_count():
    assert in_order(["p10", "p9", "q", "p09", "", "10", "9"]) == (
        *("", "9", "10"),
        *("p09", "p9", "p10", "q"),
    )


def test_unowned_samples_and_empty_clients_are_noted():
    partition = Partition.of_owner([3, -1, 3, -1], count=9)
    assert partition.notes == (
        "2 of 4 training samples belong to no client and are not used, the first of them sample 1",
        "8 clients hold no samples and never train: 0, 1, 2, 4, 5, ...",
    )
    named = Partition.of_owner(["a"], names=["b", "a"])
    assert named.notes == ("1 client holds no samples and never trains: b",)


EXPECTED = "expected the number of a client, from 0, or its name"


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        (THREE[:-1], "owner has 59 entries for 60 training samples: give one for each"),
        (THREE.reshape(-1, 1), "owner has shape (60, 1): expected (sample,)"),
        (THREE.astype(float), f"owner holds float64: {EXPECTED}"),
        (np.full(CLOUDS, np.nan), f"owner holds float64: {EXPECTED}"),
        (THREE > 1, f"owner holds bool: {EXPECTED}"),
        (THREE.astype(object), f"owner holds object: {EXPECTED}"),
        (THREE.astype("S3"), f"owner holds |S3: {EXPECTED}"),
        (THREE.astype(complex), f"owner holds complex128: {EXPECTED}"),
        (np.datetime64("2026-01-01") + THREE, "owner holds datetime64[D]"),
        (np.ma.masked_equal(THREE, 1), "owner has masked values: fill them in first"),
        ([[1], [1, 2]], "owner is not an array"),
        (THREE - 2, "owner: sample 0 belongs to client -2: clients count from 0"),
        (THREE + 2**62, f"sample 0 belongs to client {2**62}: clients count from 0 to 9999999"),
        (np.where(THREE, "a", "b\x1b[2J"), "sample 0 belongs to 'b\\x1b[2J': expected a name"),
        (np.where(THREE, "a", "b" * 101), "sample 0 belongs to 'bbb"),
    ],
    ids=str,
)
def test_what_is_no_owner_of_each_sample_is_refused(owner, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        owned(owner)


@pytest.mark.parametrize(
    ("owner", "how", "message"),
    [
        ([0, 3, 1], {"count": 3}, "sample 1 belongs to client 3, and there are 3 clients"),
        ([0, 1], {"names": ["a"]}, "sample 1 belongs to client 1, and there are 1 clients"),
        (["a", "c"], {"names": ["aa", "a"]}, "sample 1 belongs to 'c', and no client has that"),
        (["a", "b"], {"count": 3}, "owner names 2 clients, and clients.count = 3: leave"),
        ([0], {"names": ["a"], "count": 2}, "1 clients have names, and clients.count = 2"),
        ([-1, -1], {}, "no training sample belongs to a client"),
        (["", " "], {}, "no training sample belongs to a client"),
        ([], {}, "owner holds float64"),
        (np.array([], int), {}, "no training sample belongs to a client"),
    ],
)
def test_owners_that_are_not_among_the_clients_are_refused(owner, how, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        Partition.of_owner(owner, **how)


def test_owners_belong_to_the_dataset_alone():
    owner = THREE.copy()
    data = owned(owner)
    owner[:] = 10**9
    assert_array_equal(data.owner, THREE)
    assert data.owner is not None
    assert not data.owner.flags.writeable


@pytest.mark.parametrize("seed", [0, 1])
def test_given_owners_decide_who_holds_what_whatever_the_seed(seed):
    setup = prepare_training(LOGISTIC, seed, data=owned(np.array(NAMES)[THREE]))
    assert setup.client_names == ("pump-1", "pump-2", "pump-10")
    for j, name in enumerate(setup.client_names):
        assert_array_equal(setup.partition.of(j), np.flatnonzero(NAMES.index(name) == THREE))
    assert setup.scenario.clients.count == 3
    assert require_learning(setup.scenario).partition.kind == "given"
    again = prepare_training(setup.scenario, seed + 5, data=setup.data)
    assert again.fingerprint == setup.fingerprint


def test_another_kind_deals_owned_data_again():
    scenario = LOGISTIC.using(learning={"partition": {"kind": "iid"}}, clients={"count": 4})
    setup = prepare_training(scenario, data=owned(THREE))
    assert setup.partition.sizes.tolist() == [15] * 4
    assert setup.fingerprint == Dataset.of(**clouds()).fingerprint


def test_a_given_partition_replaces_the_owners_of_the_data():
    mine = Partition.of_owner(np.repeat([0, 1, 0], 20))
    setup = prepare_training(LOGISTIC, data=owned(THREE), partition=mine)
    assert setup.scenario.clients.sizes.values.tolist() == [40, 20]
    ledger = simulate(setup.scenario, "even", setup.learner(), 3)
    assert ledger.totals.called.size == 2
    other = Partition.of_owner(np.repeat([0, 1, 1], 20))
    assert prepare_training(LOGISTIC, data=setup.data, partition=other).fingerprint != (
        setup.fingerprint
    )


@pytest.mark.parametrize(
    ("clients", "partition", "message"),
    [
        ({"count": 4}, None, "owner names 3 clients, and clients.count = 4: leave clients.count"),
        ({"table": {"name": ["pump-1", "pump-2"]}}, None, "belongs to 'pump-10', and no client"),
        ({"count": 5}, [0, 1], "the partition is for 2 clients, and clients.count = 5"),
        ({}, [0] * 61, "the partition is of other data: it deals sample 60, and there are 60"),
        ({}, "mine", "`partition` is a str: expected a Partition"),
    ],
)
def test_owners_and_clients_that_contradict_each_other_are_refused(clients, partition, message):
    if isinstance(partition, list):
        partition = Partition.of_owner(partition)
    data = owned(np.array(NAMES)[THREE])
    with pytest.raises(BadInput, match=re.escape(message)):
        prepare_training(LOGISTIC.using(clients=clients), data=data, partition=partition)


def test_fewer_owners_than_clients_of_a_round_are_refused():
    with pytest.raises(BadInput, match=r"plan\.cohort = 4 is more than the 3 clients there are"):
        prepare_training(LOGISTIC.using(plan={"cohort": 4}), data=owned(THREE))


def test_more_than_a_hundred_owners_need_no_count(tmp_path):
    """The default of clients.count is a hundred."""
    np.savez(tmp_path / "mine.npz", **many_clouds(), owner=np.arange(300) % 150)
    scenario = scenario_in(tmp_path, "", "", "selection = 'uniform'").with_plan(120, 2)
    assert prepare_training(scenario).scenario.clients.count == 150
    with pytest.raises(BadInput, match="more than the 150 clients"):
        prepare_training(scenario.with_plan(151, 2))


def many_clouds():
    few = clouds(count=400)
    return {
        "x_train": np.concatenate([few["x_train"]] * 5),
        "y_train": np.concatenate([few["y_train"]] * 5),
    } | {name: few[name] for name in ("x_test", "y_test")}


def test_nothing_that_says_whose_the_samples_are_is_refused():
    scenario = LOGISTIC.using(learning={"partition": {"kind": "given"}})
    with pytest.raises(BadInput, match=r"neither learning\.partition\.owners nor the data"):
        prepare_training(scenario)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "given", "sizes": "uniform"}, "sizes is for samples that are dealt"),
        ({"kind": "given", "seed": 3}, "seed is for samples that are dealt"),
        ({"owners": "a.csv", "same_skew_as": 3}, "same_skew_as is for samples that are dealt"),
        ({"kind": "given", "alpha": 3.0}, "alpha is for dirichlet and inner-dirichlet"),
        ({"kind": "iid", "owners": "a.csv"}, "owners is for given, and learning.partition.kind is"),
        ({"owners": "a\x1b.csv"}, "the path holds a character that cannot be shown"),
    ],
)
def test_options_that_do_not_go_with_given_owners_are_refused(spec, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        LOGISTIC.using(learning={"partition": spec})


def test_sizes_that_were_asked_for_contradict_owners_that_the_data_names():
    scenario = LOGISTIC.using(learning={"partition": {"sizes": "lognormal"}})
    with pytest.raises(BadInput, match="sizes is for samples that are dealt"):
        prepare_training(scenario, data=owned(THREE))


def test_clients_without_samples_never_train():
    """The others learn from the same data with other random numbers."""
    data = owned(np.where(THREE == 2, 5, THREE))
    scenario = LOGISTIC.using(plan={"cohort": 3}, cell={"gain_threshold": 0})
    with pytest.warns(FedcellWarning, match=r"3 clients hold no samples and never train: 2, 3, 4$"):
        setup = prepare_training(scenario, data=data)
    learner = setup.learner()
    ledger = simulate(setup.scenario, "optimal", learner, 20)
    called = ledger.totals.called
    assert (called[[2, 3, 4]] == 0).all()
    assert (called[[0, 1, 5]] == 20).all()
    assert (ledger.excluded_by_data == 3).all()
    assert ledger.train_loss[-1] < 0.7 * ledger.train_loss[0]
    three = prepare_training(LOGISTIC, data=owned(THREE)).learner()
    start = learner.start()
    assert_array_equal(start, three.start())
    assert learner.evaluate(start).train_loss == pytest.approx(three.evaluate(start).train_loss)
    with pytest.raises(BadInput, match="a client without samples cannot train"):
        list(learner.train(start, [3], 0))


def test_a_report_tells_who_holds_what_by_name():
    with pytest.warns(FedcellWarning, match="belong to no client"):
        setup = prepare_training(LOGISTIC, data=owned(np.array(["b", "a", ""])[THREE]))
    report = describe_partition(setup)
    assert report.rows() == [
        {"client": 0, "name": "a", "samples": 20, "class_0": 0, "class_1": 20, "class_2": 0},
        {"client": 1, "name": "b", "samples": 20, "class_0": 20, "class_1": 0, "class_2": 0},
    ]
    assert report.skews.tolist() == [0.5, 0.5]
    assert report.statistics.skew == 0.5  # by another way
    assert report.statistics.samples == 40
    assert report.to_dict()["owners"] == report.rows()
    assert "as given" in report.summary()


def test_statistics_exclude_empty_clients():
    labels = np.array([0, 0, 1, 1])
    found = summarise_partition(Partition.of_owner([0, 0, 2, 2]), labels)
    assert (found.clients, found.smallest, found.largest) == (3, 0, 2)
    assert (found.skew, found.classes_per_client) == (0.5, 1.0)
