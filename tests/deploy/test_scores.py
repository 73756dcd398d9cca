"""Scores that devices report, and the lines of a run's tables: read as written, or refused."""

import random
from dataclasses import replace
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fedcell.deploy.exchanges import Exchange, ExchangeFile, ExchangeReport, read_exchanges
from fedcell.deploy.scores import (
    SCORES,
    RoundScores,
    ScoreFile,
    aggregate_scores,
    clipped,
    read_scores,
)
from fedcell.errors import BadFile
from fedcell.learning.learner import Scores
from support.mutations import changed_csv

SAMPLES = np.array([10.0, 20.0, 30.0, 40.0])
HONEST = {0: 0.8, 1: 0.9, 2: 1.0, 3: 1.1}


def losses(values):
    """Reports of a training loss each."""
    return {j: Scores(loss) for j, loss in values.items()}


def accuracies(values):
    """Reports of a loss and an accuracy each."""
    return {j: Scores(1.0, nan, accuracy) for j, accuracy in values.items()}


def test_reports_are_clipped_to_the_range_of_the_others():
    assert_allclose(clipped(np.array([0.8, 1.1, 0.9, 1.0])), [0.9, 1.0, 0.9, 1.0])
    assert_allclose(clipped(np.array([5.0, 5.0, 1.0])), [5.0, 5.0, 5.0])  # that is the median
    assert_allclose(clipped(np.array([5.0, 1.0])), [5.0, 1.0])
    assert_allclose(clipped(np.array([5.0])), [5.0])


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=9))
def test_clipping_is_leave_one_out(reports):
    values = np.array(reports)
    for j, value in enumerate(clipped(values)):
        others = np.delete(values, j)
        assert value == np.clip(values[j], others.min(), others.max())


@pytest.mark.parametrize("lie", [0.0, 1e-9, 50.0, 1e60])
def test_one_liar_moves_a_loss_no_further_than_the_others_reach(lie):
    found = aggregate_scores(losses(HONEST | {3: lie}), SAMPLES, 4)
    assert min(HONEST.values()) <= found.train_loss <= max(HONEST.values())
    plain = (0.8 * 10 + 0.9 * 20 + 1.0 * 30 + lie * 40) / 100
    assert found.plain_train_loss == pytest.approx(plain)
    assert (found.round, found.devices, found.samples) == (4, 4, 1.0)
    assert found.counted.train_loss == found.train_loss


def test_scores_are_weighted_by_samples_of_the_introduction():
    found = aggregate_scores(losses(HONEST), SAMPLES)
    assert found.plain_train_loss == pytest.approx(1.0)
    assert found.train_loss == pytest.approx((0.9 * 10 + 0.9 * 20 + 1.0 * 30 + 1.0 * 40) / 100)


def test_accuracy_counts_with_more_than_half_of_the_samples_only():
    alone = aggregate_scores(accuracies({3: 1.0, 0: nan, 1: nan, 2: nan}), SAMPLES)
    assert alone.accuracy is None
    assert isnan(alone.counted.accuracy)
    assert alone.plain_accuracy == 1.0
    half = aggregate_scores(accuracies({3: 1.0, 0: 1.0}), SAMPLES)  # 50 of 100
    assert half.accuracy is None
    most = aggregate_scores(accuracies({3: 0.5, 1: 0.8}), SAMPLES)
    assert most.accuracy == pytest.approx((0.5 * 40 + 0.8 * 20) / 60)


def test_device_without_samples_does_not_widen_the_range():
    samples = np.array([10.0, 20.0, 30.0, 0.0])
    found = aggregate_scores(losses({0: 0.8, 1: 0.9, 2: 5.0, 3: 5.0}), samples)
    assert found.train_loss == pytest.approx(0.9)
    assert found.devices == 3


def test_without_reports_nothing_is_known():
    found = aggregate_scores({}, SAMPLES)
    assert (found.train_loss, found.plain_accuracy, found.samples) == (None, None, 0.0)
    assert isnan(found.counted.train_loss)


# A weighted mean of subnormal numbers underflows.
LOSS = st.just(nan) | st.floats(0, 1e60, allow_subnormal=False)
REPORT = st.builds(Scores, LOSS, LOSS, st.just(nan) | st.floats(0, 1, allow_subnormal=False))


@given(st.dictionaries(st.integers(0, 3), REPORT))
def test_scores_stay_within_the_reports(tmp_path_factory, reports):
    found = aggregate_scores(reports, SAMPLES, 1)
    said = [r.train_loss for r in reports.values() if not isnan(r.train_loss)]
    assert found.devices == len(said)
    for value in (found.train_loss, found.plain_train_loss):
        assert (value is None) == (not said)
        assert value is None or min(said) * (1 - 1e-9) <= value <= max(said) * (1 + 1e-9)
    file = ScoreFile(tmp_path_factory.mktemp("scores"))
    file.add([found])
    assert file.read() == [found]


def scored(round, **more):
    """A line of scores.csv."""
    values = dict.fromkeys(("test_loss", "accuracy", "plain_test_loss", "plain_accuracy"))
    values |= {"train_loss": 0.5, "plain_train_loss": 0.6, "devices": 4, "samples": 1.0}
    return RoundScores(round=round, **values | more)


def test_scores_of_a_resumed_run_are_cut_to_the_rounds_that_are_done(tmp_path):
    file = ScoreFile(tmp_path)
    file.add([scored(t) for t in range(5)])
    assert file.begin(2) == [scored(0), scored(1), scored(2)]
    assert read_scores(tmp_path) == [scored(0), scored(1), scored(2)]


@pytest.mark.parametrize(
    "cells",
    ["1,4", "1,4,1.5,0.5,,,0.5,,", "1,4,nan,0.5,,,0.5,,", "1,4,1,inf,,,0.5,,", ",4,1,0.5,,,0.5,,"],
)
def test_damaged_scores_are_one_sentence(tmp_path, cells):
    ScoreFile(tmp_path).begin(0)
    with (tmp_path / SCORES).open("a") as file:
        file.write(cells + "\n")
    with pytest.raises(BadFile, match=r"scores\.csv: is damaged"):
        read_scores(tmp_path)


NUMBERS = st.none() | st.floats(0, 1e60)
TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12)
EXCHANGE = st.builds(
    Exchange,
    round=st.integers(0, 9),
    client=st.none() | st.integers(0, 99),
    name=TEXT,
    outcome=st.sampled_from(["arrived", "lost", "refused", "introduced", "late", "duplicate"]),
    why=TEXT,
    **dict.fromkeys(("share", "freq", "modelled_training", "modelled_upload"), NUMBERS),
    modelled_energy=NUMBERS,
    **{f"measured_{name}": NUMBERS for name in ("training", "upload", "waiting", "total")},
    measured_bytes_sent=st.none() | st.integers(0, 10**59),
)


@given(st.lists(EXCHANGE, max_size=6), st.integers(0, 2**32 - 1))
def test_changed_exchanges_are_read_or_refused_by_one_sentence(tmp_path_factory, lines, seed):
    folder = tmp_path_factory.mktemp("exchanges")
    file = ExchangeFile(folder)
    file.begin(0)
    file.add(lines)
    assert read_exchanges(folder) == lines
    path = folder / "exchanges.csv"
    path.write_bytes(changed_csv(path.read_text("utf-8"), random.Random(seed)) + b"\n")
    faults: tuple[str, ...] = ()
    try:
        found = read_exchanges(folder)
    except BadFile as error:
        faults, found = error.faults, []
    assert len(faults) <= 1
    report = ExchangeReport(exchanges=tuple(found))
    assert all(device.called >= device.arrived for device in report.devices())
    assert report.summary()


def test_figure_is_drawn_of_any_numbers_that_can_be_read():
    numbers = {f"measured_{n}": 1e60 for n in ("training", "upload", "waiting", "total")}
    line = Exchange(
        round=1, client=0, name="a", outcome="arrived", share=0.5, modelled_upload=1e-60, **numbers
    )
    for panel in ExchangeReport(exchanges=(line, replace(line, client=1))).plot().axes:
        assert inf not in panel.get_ylim()
