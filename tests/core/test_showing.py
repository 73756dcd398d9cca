"""Words that results share: ranges of numbers, axes, short texts."""

import numpy as np

from fedcell.core.showing import described_axes, shortened, value_range


def test_a_range_has_both_ends_and_the_unit():
    assert value_range([3.0, 1.0, 2.0], "s") == "1 to 3 s"
    assert value_range(np.full((2, 3), 2.5), "J") == "2.5 J"
    assert value_range([1.00001, 1.00002]) == "1"  # the same in the digits that are shown
    assert value_range([np.nan, 4.0]) == "4"
    assert value_range([np.nan], "s") == "none"
    assert value_range([], "s") == "none"
    assert value_range([1, np.inf]) == "1 to inf"


def test_axes_are_counted_in_words():
    assert described_axes((1,)) == "1 client"
    assert described_axes((1, 4)) == "1 round of 4 clients"
    assert described_axes((2, 20, 3)) == "2 x 20 rounds of 3 clients"


def test_long_texts_are_cut():
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abc..."
