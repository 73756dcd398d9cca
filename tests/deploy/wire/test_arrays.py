"""Arrays of devices, unpacked only if they are those of a model."""

import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedcell.errors import BadInput

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import Array, ArrayRecord  # noqa: E402

from fedcell.deploy.wire.arrays import (  # noqa: E402
    Decoded,
    array_record,
)
from fedcell.deploy.wire.layout import Layout  # noqa: E402
from support.faulty import announcing  # noqa: E402

LAYOUT = Layout(("w",), ((3,),), ("float32",))
MODEL = np.arange(3, dtype=np.float32)


def saved(array, **more):
    """A .npy of an array."""
    stream = io.BytesIO()
    np.save(stream, array, **more)
    return stream.getvalue()


def packed(data, stype="numpy.ndarray"):
    """Arrays of a message, as they come."""
    return Decoded(ArrayRecord({"w": Array("float32", (3,), stype, data)}))


GOOD = saved(MODEL)


def test_arrays_come_back_as_they_were():
    layout = Layout.of({"w": MODEL, "n": np.array(4, np.int64)})
    back = Decoded(array_record({"w": MODEL, "n": np.array(4, np.int64)})).of(layout)
    assert_array_equal(back["w"], MODEL)
    assert back["n"].shape == ()
    assert back["n"] == 4


def test_arrays_of_many_axes_come_back_in_their_order():
    turned = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    back = Decoded(array_record({"w": turned})).of(Layout.of({"w": turned}))
    assert_array_equal(back["w"], turned)


@pytest.mark.parametrize(
    ("decoded", "why"),
    [
        (Decoded(ArrayRecord({})), "has no array w"),
        (Decoded(array_record({"v": MODEL})), "has no array w"),
        (Decoded(array_record({"w": MODEL, "v": MODEL})), "arrays of other names"),
        (packed(GOOD, "torch"), "is packed as 'torch'"),
        (packed(b""), "cannot be unpacked"),
        (packed(b"PK" + GOOD), "cannot be unpacked"),
        (packed(GOOD[:-1]), "fewer or more numbers"),
        (packed(GOOD + b"x"), "fewer or more numbers"),
        (packed(saved(MODEL[:2])), r"has shape \(2,\), expected \(3,\)"),
        (packed(saved(MODEL.astype(float))), "holds float64, expected float32"),
        (packed(saved(MODEL.astype(">f4"))), "holds >f4, expected float32"),
        (packed(saved(MODEL.astype(object), allow_pickle=True)), "holds object"),
        (packed(saved(np.zeros(3, [("a", "f4")]))), "holds"),
        (packed(announcing(10**12)), "has shape"),
        (packed(announcing(3)), "fewer or more numbers"),
    ],
)
def test_arrays_that_are_no_model_are_refused(decoded, why):
    with pytest.raises(BadInput, match=why):
        decoded.of(LAYOUT)


@st.composite
def hostile(draw):
    """Bytes at random, or a file that was good once."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=300))
    start, data = draw(st.sampled_from([b"", b"\x93NUMPY\x01\x00"])), bytearray(GOOD)
    for place in draw(st.lists(st.integers(0, len(GOOD) - 1), min_size=1, max_size=8)):
        data[place] = draw(st.integers(0, 255))
    return start + bytes(data)


@given(hostile())
def test_whatever_bytes_come_are_a_model_or_refused_and_cost_nothing(data):
    tracemalloc.start()
    try:
        found = packed(data).of(LAYOUT)
    except BadInput:
        found = {}
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2e6
    assert all((a.shape, a.dtype) == ((3,), np.float32) for a in found.values())


def test_more_bytes_than_a_model_can_have_are_refused():
    assert packed(GOOD).excess(LAYOUT) is None
    assert "12" in packed(bytes(10**6)).excess(LAYOUT)
