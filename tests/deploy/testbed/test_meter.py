"""The upload is found in what a link carried, whatever else was sent around it."""

import numpy as np
import pytest

from fedcell.deploy.testbed.meter import find_upload

LOOKS = np.arange(0, 60, 0.01)  # s


def ramp(begin, end, size):
    """Bytes by each look, of something that is sent at an even pace."""
    return np.interp(LOOKS, [begin, end], [0, size])


def polls(every, size):
    return np.floor(LOOKS / every) * size


@pytest.mark.parametrize("around", [0 * LOOKS, polls(1.0, 400), polls(0.2, 300)])
@pytest.mark.parametrize(("begin", "end", "size"), [(20.0, 28.5, 1e6), (3.123, 3.377, 5e5)])
def test_an_upload_is_distinguished_from_polls(around, begin, end, size):
    upload = find_upload(LOOKS, ramp(begin, end, size) + around)
    assert upload.duration == pytest.approx(end - begin, rel=0.01)
    assert [upload.begin, upload.end] == pytest.approx([begin, end], abs=0.01)
    assert upload.rate == pytest.approx(8 * size / (end - begin), rel=0.02)
    assert upload.sent == pytest.approx(size + around[-1])


def test_acknowledgements_of_a_long_download_are_no_upload():
    download = ramp(1, 11, 30_000)  # three in a hundred of what is uploaded
    upload = find_upload(LOOKS, download + ramp(15, 23, 1e6))
    assert upload.duration == pytest.approx(8, rel=0.01)
    assert upload.burst == 1_000_000


def test_a_small_model_among_many_polls_is_found():
    upload = find_upload(LOOKS, polls(0.5, 500) + ramp(30, 31, 100_000))  # 60 kB of polls
    assert upload.duration == pytest.approx(1, rel=0.03)


def test_a_pause_in_the_middle_belongs_to_the_upload():
    upload = find_upload(LOOKS, ramp(10, 14, 5e5) + ramp(15, 19, 5e5))
    assert [upload.duration, upload.burst] == pytest.approx([9, 1e6], rel=0.01)


@pytest.mark.parametrize("slower", [1.0, 3.0])
def test_an_upload_that_slows_down_is_not_split(slower):
    upload = find_upload(LOOKS, ramp(10, 14, 5e5) + ramp(14, 14 + 4 * slower, 5e5))
    assert [upload.duration, upload.burst] == pytest.approx([4 + 4 * slower, 1e6], rel=0.01)


def test_what_is_sent_long_after_is_not_of_the_upload_and_still_counted():
    upload = find_upload(LOOKS, ramp(10, 14, 6e5) + ramp(50, 52, 3e5))
    assert (upload.burst, upload.sent) == (600_000, 900_000)
    assert upload.duration == pytest.approx(4, rel=0.01)


def test_an_upload_between_two_looks_took_no_longer_than_they_are_apart():
    upload = find_upload([0, 1, 1.01, 2], [0, 0, 5000, 5000])
    assert (upload.begin, upload.end, upload.burst) == (1, 1.01, 5000)


def test_where_nothing_is_sent_nothing_took_time():
    upload = find_upload(LOOKS, 7 + 0 * LOOKS)
    assert (upload.sent, upload.burst, upload.duration, upload.rate) == (0, 0, 0, 0)
