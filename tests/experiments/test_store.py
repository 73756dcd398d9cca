"""Curves on disk: what is damaged is refused, and what has other bits is said."""

import json
import math
import warnings

import numpy as np
import pytest

from fedcell import FedcellWarning
from fedcell.errors import BadFile
from fedcell.experiments.store import TIMES, Store
from fedcell.experiments.training import Curve
from fedcell.learning.engines.engine import vector_width
from support.sealing import rewrite, unseal

KEY = "ab" * 16


@pytest.fixture
def store(tmp_path):
    """A store with one curve."""
    store = Store(tmp_path / "store")
    losses = tuple(np.random.default_rng(0).uniform(0.1, 2.3, 12).tolist())
    store.put(Curve(key=KEY, seed=3, train_loss=losses, accuracy=0.5, vector_width=vector_width()))
    return store


def file_of(store):
    return store.folder / "ab" / f"{KEY}.json"


def test_every_changed_digit_is_noticed(store):
    text = file_of(store).read_text()
    begin, end = text.index("train_loss"), text.index("test_loss")
    places = [i for i in range(begin, end) if text[i].isdigit()]
    for place in places:
        other = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        file_of(store).write_text(other)
        if json.loads(other) == json.loads(text):  # a 17th digit, which no float holds
            continue
        with pytest.raises(BadFile, match=f"{KEY}.json: .*delete it, and it is trained again"):
            store.get(KEY, 3)
    assert len(places) > 150


def test_formatting_is_no_damage(store):
    before = store.get(KEY, 3)
    file_of(store).write_text(json.dumps(json.loads(file_of(store).read_text())))
    assert store.get(KEY, 3) == before


def test_files_without_a_checksum_are_read_with_one_note(store):
    store.keep("constants", KEY, {"value": 1.5})
    for file in store.folder.glob("*/*.json"):
        unseal(file)
    with pytest.warns(FedcellWarning, match="store: has files without a checksum"):
        curve = store.get(KEY, 3)
    assert store.get(KEY, 3) == curve  # without another note, which would be an error here
    assert store.kept("constants", KEY)["value"] == 1.5
    assert curve.rounds == 12


def test_curves_of_another_processor_or_version_are_named_once(store):
    rewrite(file_of(store), vector_width=2 * vector_width(), fedcell="0.0.1")
    with pytest.warns(FedcellWarning) as said:
        curve = store.get(KEY, 3)
    assert store.get(KEY, 3) == curve
    assert [str(note.message).split(": ")[1] for note in said] == [
        f"has trainings of a processor that takes {2 * vector_width()} numbers at a time, and "
        f"this one takes {vector_width()}",
        "has trainings of fedcell 0.0.1, and this is 0.3.0, which may train to other bits",
    ]


@pytest.mark.parametrize("changes", [{"vector_width": 999}, {"fedcell": "0.0.1"}])
def test_curves_with_other_bits_are_replaced_and_never_joined(store, changes):
    rewrite(file_of(store), **changes)
    made = Curve(key=KEY, seed=3, train_loss=(1.0, 0.5), vector_width=vector_width())
    store.put(made)
    assert store.get(KEY, 3) == made


def test_a_longer_curve_of_the_same_bits_is_joined(store):
    longer = Curve(key=KEY, seed=3, train_loss=(1.0,) * 20, vector_width=vector_width())
    store.put(longer)
    found = store.get(KEY, 3)
    assert (found.rounds, found.ends) == (20, {12: (None, 0.5)})


@pytest.mark.parametrize(
    "changes",
    [
        {"ends": [[None, 1, 1]]},
        {"ends": [[math.inf, 1, 1]]},
        {"ends": [[1.5, 1, 1]]},
        {"ends": [["1", 1, 1]]},
        {"ends": [[1, 1, [1]]]},
        {"ends": {"1": [1, 1]}},
        {"ends": 3},
        {"accuracies": [None]},
        {"accuracies": {"a": 1}},
        {"train_loss": {"a": 1}},
        {"train_loss": [[1]]},
        {"vector_width": [8]},
        {"vector_width": True},
        {"vector_width": -1},
        {"fedcell": None},
        {"fedcell": {"a": 1}},
        {"test_loss": [1]},
        {"key": ["ab"]},
        {"diverged": 1},
    ],
)
def test_malformed_curves_get_one_sentence(store, changes):
    rewrite(file_of(store), **changes)
    with pytest.raises(
        BadFile, match=f"{KEY}.json: .*delete it, and it is trained again"
    ) as refused:
        store.get(KEY, 3)
    assert len(refused.value.faults) == 1


def test_times_that_are_no_numbers_count_nothing(store):
    (store.folder / TIMES).write_text(f"{KEY},12,1.5\nother,3,x\nnext,1,nan\nlast,1,-inf\n")
    assert store.seconds([KEY, "other", "next", "last"]) == 1.5


def test_a_sound_store_says_nothing(store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.get(KEY, 3) is not None
        assert store.failure(KEY) is None
        assert store.kept("constants", KEY) is None
