"""Models as named arrays and as flat vectors."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell.deploy.wire.layout import Layout
from fedcell.errors import BadInput


def test_a_model_keeps_its_arrays_counters_and_all():
    arrays: dict[str, Any] = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "tracked": np.array(7, np.int64),
        "half": np.ones(2, np.float16),
        "none": np.empty((0, 4), np.float32),
    }
    layout = Layout.of(arrays)
    assert layout.size == 9
    assert layout.bits == 8 * (24 + 8 + 4)
    back = layout.arrays(layout.flat(arrays))
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert_array_equal(back[name], array)


def test_whole_numbers_are_rounded_when_a_mean_of_them_is_sent():
    layout = Layout.of({"n": np.array(0, np.int64)})
    assert layout.arrays(np.array([2.6], np.float32))["n"] == 3


@pytest.mark.parametrize("bad", [{}, {"w": np.array(["a"])}, {"w": np.array([None])}])
def test_a_layout_is_of_numbers(bad):
    with pytest.raises(BadInput):
        Layout.of(bad)
