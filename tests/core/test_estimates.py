"""A number with its interval."""

import math

from fedcell.planning import Estimate


def test_the_repr_of_an_estimate_shows_its_interval():
    assert repr(Estimate(30.0, 21.0, 43.0)) == "30 (21 to 43)"
    assert repr(Estimate(30.0)) == "30"
    assert repr(Estimate(12.5, 12.5, 12.5)) == "12.5"


def test_an_estimate_is_written_and_counted_as_its_value():
    estimate = Estimate(30.5, 21.0, 43.0)
    assert f"{estimate:.2f}" == "30.50"
    assert f"{estimate}" == "30.5 (21 to 43)"
    assert (int(estimate), float(estimate)) == (30, 30.5)


def test_an_estimate_contains_the_values_of_its_interval():
    estimate = Estimate(3.0, 2.0, 5.0)
    assert 2.0 in estimate
    assert 5.0 in estimate
    assert 1.99 not in estimate
    assert 5.01 not in estimate
    assert estimate.half_width == 1.5
    assert 3.0 not in Estimate(3.0)  # nothing is known of its spread
    assert math.isnan(Estimate(3.0).half_width)
