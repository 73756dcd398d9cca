"""Partitions: nothing lost, nothing twice, and the skew that was asked for."""

import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from scipy.sparse import block_array, coo_array, eye_array

from fedcell.core.schema import decode
from fedcell.core.streams import Purpose, stream
from fedcell.errors import BadInput
from fedcell.learning.partition import skew
from fedcell.learning.partition.make import (
    Partition,
    PartitionSummary,
    make_partition,
    summarise_partition,
)
from fedcell.scenario.partition import PartitionSpec
from fedcell.show.figures.partitions import partition_figure
from fedcell.show.figures.style import save_figure

MNIST = np.repeat(
    np.arange(10), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
)  # as many of each digit as in its training set
DIGITS = np.arange(1797) % 10
KINDS = ["iid", "shards", "pathological", "dirichlet", "inner-dirichlet"]
SIZED = [kind for kind in KINDS if kind != "dirichlet"]


def deal(labels, count, seed=0, **how) -> Partition:
    return make_partition(labels, count, PartitionSpec(**how), stream(Purpose.PARTITION, seed))


def counts_of(partition, labels) -> np.ndarray:
    return partition.label_counts(labels, int(labels.max()) + 1)


def skew_of(labels, count, **how) -> float:
    return summarise_partition(deal(labels, count, **how), labels).skew


@st.composite
def label_arrays(draw: st.DrawFn, max_classes: int = 8) -> np.ndarray:
    """Labels of any frequencies, in any order, some numbers never used."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 5, 30]), min_size=1, max_size=max_classes))
    assume(sum(sizes))
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(draw(st.sampled_from("BiQl")))
    return np.random.default_rng(draw(st.integers(0, 99))).permutation(labels)


@given(
    labels=label_arrays(),
    parts=st.integers(1, 12),
    each=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    sizes=st.sampled_from(["equal", "uniform", "lognormal"]),
    option=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_every_sample_goes_to_exactly_one_client(labels, parts, each, kind, sizes, option, seed):
    how = {
        "iid": {},
        "shards": {"num_shards_per_partition": option + 1},
        "pathological": {"num_classes_per_partition": option + 1},
        "dirichlet": {"min_partition_size": 1, "alpha": 10.0 ** (option - 1)},
        "inner-dirichlet": {"alpha": 10.0 ** (2 * option - 5)},
    }[kind] | {"kind": kind}
    if kind == "dirichlet":
        how["self_balancing"] = bool(seed % 2)
    else:
        how["sizes"] = sizes
    if each > 1:
        how["same_skew_as"] = parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(skew, "MAX_DRAWS", 20)
        try:
            partition = deal(labels, parts * each, seed, **how)
        except BadInput:
            reject()
    assert_array_equal(np.sort(partition.index), np.arange(labels.size))
    assert partition.count == parts * each
    assert partition.sizes.sum() == labels.size
    assert partition.sizes.min() >= 1
    assert_array_equal(
        np.concatenate([partition.of(j) for j in range(parts * each)]), partition.index
    )
    counts = counts_of(partition, labels)
    assert_array_equal(counts.sum(1), partition.sizes)
    assert_array_equal(counts.sum(0), np.bincount(labels.astype(int)))


@given(labels=label_arrays(), count=st.integers(1, 40), each=st.integers(1, 6))
def test_pathological_gives_each_client_the_exact_class_count_if_possible(labels, count, each):
    supply = np.unique(labels, return_counts=True)[1]
    possible = (
        count <= labels.size
        and each <= supply.size <= count * each
        and np.minimum(supply, count).sum() >= count * each
    )
    try:
        partition = deal(labels, count, kind="pathological", num_classes_per_partition=each)
    except BadInput:
        assert not possible
    else:
        assert possible
        assert ((counts_of(partition, labels) > 0).sum(1) == each).all()


@pytest.mark.parametrize("mode", ["random", "deterministic", "first-deterministic"])
@pytest.mark.parametrize(("count", "each"), [(10, 2), (9, 3), (100, 3), (7, 10)])
def test_pathological_modes(mode, count, each):
    partition = deal(
        DIGITS,
        count,
        kind="pathological",
        num_classes_per_partition=each,
        class_assignment_mode=mode,
    )
    holds = counts_of(partition, DIGITS) > 0
    assert (holds.sum(1) == each).all()
    j = np.arange(count)
    for i in range({"random": 0, "first-deterministic": 1, "deterministic": each}[mode]):
        assert holds[j, (j + i) % 10].all()


def test_an_overbooked_class_shared_by_its_holders_is_exchanged():
    # Clients 0 and 1 hold classes 0 and 1, clients 2 and 3 the others; class 0 has one sample,
    # and only class 1, which its holders hold already, has room for one more.
    class Loaded:
        def random(self, shape):
            rank = np.full(shape, 0.5)
            rank[:2, :2] = rank[2:, 2:] = 0.1
            return rank

        def permutation(self, who):
            return who

        def choice(self, ways):
            return ways[0]

    holds = skew._holders(np.array([1, 5, 2, 2]), 4, 2, "random", Loaded())
    assert (holds.sum(1) == 2).all()
    assert (holds.sum(0) <= [1, 4, 2, 2]).all()


@pytest.mark.parametrize("sizes", ["equal", "uniform", "lognormal"])
@pytest.mark.parametrize("count", [20, 50, 400])
def test_pathological_sizes_are_as_near_as_any_could_be(sizes, count):
    partition = deal(MNIST, count, kind="pathological", sizes=sizes)
    asked = deal(MNIST, count, kind="iid", sizes=sizes).sizes  # same random numbers
    off = np.abs(partition.sizes - asked)
    # The least sum of |D_j - asked|, if each client keeps its classes: a linear programme.
    row, column = np.nonzero(counts_of(partition, MNIST))
    edges = np.arange(row.size)
    client = coo_array((np.ones(row.size), (row, edges)), (count, row.size))
    label = coo_array((np.ones(row.size), (column, edges)), (10, row.size))
    best = linprog(
        np.r_[0 * edges, np.ones(count)],
        A_ub=block_array([[client, -eye_array(count)], [-client, -eye_array(count)]]),
        b_ub=np.r_[asked, -asked],
        A_eq=block_array([[label, coo_array((10, count))]]),
        b_eq=np.bincount(MNIST),
        bounds=[(1, None)] * row.size + [(0, None)] * count,
    )
    assert off.sum() <= best.fun + 0.005 * MNIST.size
    assert bool(partition.notes) == (off > np.maximum(1, 0.05 * asked)).any()
    if count == 400:  # where classes mix they are met
        assert off.max() <= 1


def test_pathological_says_when_the_sizes_cannot_be_met():
    labels = np.repeat([0, 1], [900, 100])
    partition = deal(labels, 2, kind="pathological", num_classes_per_partition=1)
    assert sorted(partition.sizes) == [100, 900]
    assert partition.notes == (
        "sizes are off those asked for by 80% on average and 80% at most: "
        "the classes that clients hold allow no nearer",
    )


def test_two_shards_of_mnist_are_those_of_mcmahan():
    partition = deal(MNIST, 100, kind="shards")
    assert (partition.sizes == 600).all()
    counts = counts_of(partition, MNIST)
    assert (counts > 0).sum(1).max() <= 4  # two shards, each of which may straddle
    borders = np.bincount(MNIST).cumsum()[:-1]
    assert (borders % 300 > 0).all()
    assert partition.notes == ("9 of 200 shards straddle two classes or more",)
    assert 1.8 < (counts > 0).sum(1).mean() < 2.1


@given(labels=label_arrays(), count=st.integers(1, 20), sizes=st.sampled_from(["equal", "uniform"]))
def test_straddling_shards_are_counted(labels, count, sizes):
    assume(count <= labels.size)
    partition = deal(labels, count, kind="shards", num_shards_per_partition=1, sizes=sizes)
    straddle = ((counts_of(partition, labels) > 0).sum(1) > 1).sum()  # a client is a shard here
    said = [int(n) for note in partition.notes for n in re.findall(r"^(\d+) of \d+ shards", note)]
    assert sum(said) == straddle


def test_shards_that_divide_the_classes_do_not_straddle():
    partition = deal(np.arange(6000) % 10, 100, kind="shards")
    assert partition.notes == ()
    assert (counts_of(partition, np.arange(6000) % 10) % 30 == 0).all()


@pytest.mark.parametrize("kind", ["iid", "shards", "inner-dirichlet"])
@pytest.mark.parametrize("var", [0.0, 0.1, 0.9])
def test_sizes_are_even_in_d_times_one_minus_and_plus_var(kind, var):
    count, mean = 100, 600
    how = {"sizes": "uniform", "spread": var}
    sizes = deal(MNIST, count, kind=kind, **how).sizes
    drawn = stream(Purpose.PARTITION, 0).uniform(1 - var, 1 + var, count)  # its first draws
    assert np.abs(sizes - mean * drawn / drawn.mean()).max() < 1
    assert sizes.std() / mean == pytest.approx(var / np.sqrt(3), abs=0.08 * var + 1e-3)


@pytest.mark.parametrize("kind", ["iid", "shards", "inner-dirichlet"])
@pytest.mark.parametrize("count", [1, 7, 100, 898])
def test_equal_sizes_differ_by_one_at_most(kind, count):
    assert np.ptp(deal(DIGITS, count, kind=kind).sizes) <= 1


def test_lognormal_sizes_have_their_sigma_and_no_client_is_empty():
    assert np.log(deal(MNIST, 500, sizes="lognormal", sigma=0.7).sizes).std() == pytest.approx(
        0.7, abs=0.1
    )
    for sigma in (30.0, 1e60):
        sizes = deal(MNIST, 500, sizes="lognormal", sigma=sigma).sizes
        assert sizes.min() == 1
        assert sizes.max() > 0.9 * MNIST.size


def test_shares_of_a_class_are_dirichlet_over_clients():
    labels, count, alpha = np.arange(300_000) % 300, 6, 0.8
    shares = counts_of(deal(labels, count, kind="dirichlet", alpha=alpha), labels) / 1000
    variance = (count - 1) / count**2 / (count * alpha + 1)
    assert_allclose(shares.var(axis=1), variance, rtol=0.35)
    assert_allclose(shares.mean(axis=1), 1 / count, atol=4.5 * np.sqrt(variance / 300))


def test_per_class_the_sizes_vary_and_per_client_they_do_not():
    per_class = deal(MNIST, 20, kind="dirichlet", alpha=0.3).sizes
    per_client = deal(MNIST, 20, kind="inner-dirichlet", alpha=0.3).sizes
    assert np.ptp(per_class) > 2000
    assert np.ptp(per_client) == 0


@pytest.mark.parametrize("kind", ["dirichlet", "inner-dirichlet"])
def test_limits_of_alpha(kind):
    even = counts_of(deal(MNIST, 20, kind=kind, alpha=1e9), MNIST)
    assert_allclose(even, np.tile(np.bincount(MNIST) / 20, (20, 1)), rtol=0.25)
    least = {"min_partition_size": 1} if kind == "dirichlet" else {}
    labels = np.arange(6000) % 60
    lonely = counts_of(deal(labels, 6, kind=kind, alpha=1e-50, **least), labels)
    if kind == "dirichlet":  # each class goes to one client,
        assert (lonely.max(0) == lonely.sum(0)).all()
    else:  # each client has one class while there is any of it
        assert (lonely.max(1) == 100).all()


@pytest.mark.parametrize("kind", ["dirichlet", "inner-dirichlet"])
def test_skew_grows_as_alpha_falls(kind):
    found = [skew_of(MNIST, 20, kind=kind, alpha=alpha) for alpha in (100, 10, 1, 0.3)]
    assert all(one < other for one, other in pairwise(found))
    assert found[0] < 0.1
    assert found[-1] > 0.4


def test_skew_falls_with_the_classes_of_a_client():
    found = [
        skew_of(DIGITS, 50, kind="pathological", num_classes_per_partition=each)
        for each in (1, 2, 5, 10)
    ]
    assert_allclose(found, [0.9, 0.8, 0.5, 0.05], atol=0.07)


def test_self_balancing_stops_at_the_mean_size():
    how = {"kind": "dirichlet", "alpha": 0.3}
    plain, balanced = (deal(MNIST, 20, self_balancing=it, **how) for it in (False, True))
    assert balanced.sizes.std() < plain.sizes.std()
    counts = counts_of(balanced, MNIST)
    before = counts.cumsum(1) - counts
    assert (before[counts > 0] <= MNIST.size / 20).all()


def test_redraws_are_noted():
    partition = deal(MNIST, 100, kind="dirichlet", alpha=0.3, min_partition_size=100)
    assert partition.sizes.min() >= 100
    (note,) = partition.notes
    assert re.fullmatch(r"drawn \d+ times until each had min_partition_size = 100 samples", note)


@pytest.mark.parametrize(
    "how",
    [
        *({"kind": kind, "sizes": sizes} for kind in SIZED for sizes in ("equal", "lognormal")),
        {"kind": "dirichlet", "alpha": 0.3},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_more_clients_of_the_same_skew_have_less_data_and_nothing_else(how):
    labels = MNIST[::5]
    few = deal(labels, 50, **how)
    for each in (1, 2, 4):
        many = deal(labels, 50 * each, same_skew_as=50, **how)
        for part in (0, 17, 49):
            children = np.concatenate([many.of(part * each + i) for i in range(each)])
            assert_array_equal(np.sort(children), np.sort(few.of(part)))
        parts = np.repeat(counts_of(few, labels), each, axis=0)
        assert np.abs(counts_of(many, labels) - parts / each).max() < 1
        assert np.abs(many.sizes - parts.sum(1) / each).max() < 1
        # A count that is off by one moves the label mix of a client by one in its size.
        assert summarise_partition(many, labels).skew == pytest.approx(
            summarise_partition(few, labels).skew, abs=5 / many.sizes.min()
        )


def test_a_class_that_does_not_go_round_is_noted():
    labels = np.repeat([0, 1], [96, 4])
    partition = deal(labels, 8, same_skew_as=1)
    assert partition.notes == ("4 of 8 clients lack a class of their part: it does not go round",)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_partition(kind):
    one, same, other = (deal(DIGITS, 20, seed, kind=kind) for seed in (3, 3, 4))
    assert_array_equal(one.index, same.index)
    assert_array_equal(one.start, same.start)
    assert (one.index != other.index).any()


def test_labels_need_not_be_sorted_or_successive():
    order = np.random.default_rng(0).permutation(DIGITS.size)
    labels = 7 * DIGITS[order] - 20
    partition = deal(labels, 10, kind="pathological")
    assert {np.unique(labels[partition.of(j)]).size for j in range(10)} == {2}


def test_a_client_has_its_samples_in_no_order():
    labels = MNIST[deal(MNIST, 10).of(-1)]
    assert (np.diff(labels) < 0).mean() > 0.4
    with pytest.raises(IndexError):
        deal(MNIST, 10).of(10)


def test_the_summary_of_a_partition():
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    chosen = [labels[list(three)] for three in combinations(range(8), 3)]
    counts = np.array([np.bincount(three, minlength=3) for three in chosen])
    p = np.array([3, 3, 2]) / 8
    one, other = (
        np.abs(c / c.sum(1, keepdims=True) - p).sum(1) / 2 for c in (counts, 8 * p - counts)
    )
    partition = Partition(np.arange(8), np.array([0, 3, 8]), ("so be it",))
    assert summarise_partition(partition, labels) == PartitionSummary(
        clients=2,
        samples=8,
        smallest=3,
        largest=5,
        mean=4.0,
        classes_per_client=1.5,
        skew=pytest.approx((5 / 8 + 3 / 8) / 2),
        skew_if_iid=pytest.approx((one.mean() + other.mean()) / 2),
        notes=("so be it",),
    )


@pytest.mark.parametrize("count", [1, 60, 600, 1797])
def test_the_skew_of_an_iid_split_is_foretold(count):
    found = summarise_partition(deal(DIGITS, count), DIGITS)
    assert found.skew == pytest.approx(found.skew_if_iid, abs=4.5 * 0.1 / np.sqrt(count))
    if count in (1, DIGITS.size):  # all samples, or one
        p = np.bincount(DIGITS) / DIGITS.size
        assert found.skew == pytest.approx(0 if count == 1 else 1 - (p**2).sum())


@pytest.mark.parametrize(
    ("count", "how", "message"),
    [
        (1798, {}, "clients.count = 1798: expected 1 to 1797, as many as there are samples"),
        (0, {}, "clients.count = 0: expected 1 to 1797"),
        (10, {"same_skew_as": 4}, "same_skew_as = 4: clients.count = 10 is not a multiple of it"),
        (
            1000,
            {"same_skew_as": 1, "kind": "dirichlet", "min_partition_size": 1798},
            "min_partition_size = 1798: 1 clients with that need 1798 samples",
        ),
        (
            1700,
            {"same_skew_as": 17, "kind": "dirichlet", "min_partition_size": 1},
            r"same_skew_as = 17: a part has \d+ samples for 100 clients; take fewer clients",
        ),
        (
            900,
            {"kind": "shards"},
            "num_shards_per_partition = 2: 900 clients would need 1800 shards, "
            "more than the 1797 samples there are",
        ),
        (
            20,
            {"kind": "pathological", "num_classes_per_partition": 11},
            "num_classes_per_partition = 11: the labels have 10 classes",
        ),
        (
            4,
            {"kind": "pathological"},
            "num_classes_per_partition = 2: 4 clients hold 8 classes at most, "
            "so some of the 10 would have no holder",
        ),
        (
            1000,
            {"kind": "pathological"},
            "num_classes_per_partition = 2: some classes have too few samples "
            "for 1000 clients to hold 2 each",
        ),
        (
            6,
            {"kind": "pathological", "class_assignment_mode": "deterministic"},
            'class_assignment_mode = "deterministic": some class would have no holder, '
            'or fewer samples than holders; "random" avoids it',
        ),
        (
            100,
            {"kind": "dirichlet", "min_partition_size": 18},
            "min_partition_size = 18: 100 clients with that need 1800 samples, and there are 1797",
        ),
        (
            100,
            {"kind": "dirichlet", "alpha": 0.1},
            "min_partition_size = 10: not reached in 30 draws; raise alpha, "
            "lower min_partition_size or take fewer clients",
        ),
    ],
)
def test_what_cannot_be_dealt_is_refused_with_the_reason(count, how, message, monkeypatch):
    monkeypatch.setattr(skew, "MAX_DRAWS", 30)
    prefix = "" if message.startswith("clients") else r"learning\.partition\."
    with pytest.raises(BadInput, match=prefix + message) as caught:
        deal(DIGITS, count, **how)
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"kind": "shards", "alpha": 0.1},
            "learning.partition.alpha is for dirichlet and inner-dirichlet, "
            'and learning.partition.kind is "shards": leave it out',
        ),
        ({"num_shards_per_partition": 3}, "num_shards_per_partition is for shards"),
        ({"num_classes_per_partition": 3}, "num_classes_per_partition is for pathological"),
        ({"class_assignment_mode": "deterministic"}, "class_assignment_mode is for pathological"),
        ({"kind": "inner-dirichlet", "min_partition_size": 1}, "is for dirichlet, and"),
        ({"kind": "inner-dirichlet", "self_balancing": True}, "self_balancing is for dirichlet"),
        ({"spread": 0.2}, 'spread is for uniform, and learning.partition.sizes is "equal"'),
        ({"sizes": "uniform", "sigma": 1.0}, "sigma is for lognormal"),
        (
            {"kind": "dirichlet", "sizes": "uniform"},
            'learning.partition.sizes = "uniform": the sizes of kind "dirichlet" are what its '
            'draw gives; choose kind "inner-dirichlet" to have both',
        ),
        ({"kind": "idd"}, 'kind = "idd": did you mean iid?'),
        ({"same_skew_as": 0}, "same_skew_as = 0: expected a whole number from 1 to 1e7"),
        ({"seed": -1}, "seed = -1: expected a whole number from 0 to 2^63 - 1"),
        (
            {"alfa": 1},
            "learning.partition.alfa is not a key; did you mean learning.partition.alpha",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(how, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        decode(PartitionSpec, how)


def test_invalid_labels_are_refused():
    for labels in (np.ones(5), np.ones((5, 1), int)):
        with pytest.raises(BadInput, match="the labels are not one whole number per sample"):
            deal(labels, 2)


@pytest.mark.parametrize(("labels", "count"), [(DIGITS, 10), (MNIST, 1200), (MNIST // 10, 3)])
def test_a_picture_of_a_partition(labels, count, tmp_path):
    partition = deal(labels, count, kind="inner-dirichlet")
    path = tmp_path / "partition.png"
    save_figure(partition_figure(counts_of(partition, labels), "a title"), path)
    assert path.read_bytes().startswith(b"\x89PNG")
