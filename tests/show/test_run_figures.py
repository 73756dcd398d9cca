"""Figures of runs against their ledgers: one run, noisy ones, several seeds, and panels on given
axes."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from numpy.testing import assert_allclose

from fedcell import (
    GivenLaw,
    Region,
    Scenario,
    Target,
    compare,
    load_scenario,
    plan_training,
    run,
    run_adaptive,
    run_seeds,
)
from fedcell.errors import BadInput
from fedcell.network import simulate_network, sweep_costs
from fedcell.show.drawing import FIGURES, PANELS
from fedcell.show.figures.curves import Curve
from support.quadratics import NARROW

QUADRATIC = Scenario().using(
    clients={"count": 6},
    plan={"cohort": 3, "local_steps": 2, "rounds": 30},
    learning={"model": "quadratic-apart", "target": 0.6, "deliver": "last"},
)


@pytest.fixture(scope="module")
def result():
    return run(QUADRATIC, ["even", "optimal"])


@pytest.fixture(scope="module")
def trained():
    return run(load_scenario("digits"), ["even", "distributed", "optimal"], rounds=12, target=1.5)


def texts(panel):
    legend = panel.get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def labelled(panel, start):
    (line,) = [line for line in panel.get_lines() if line.get_label().startswith(start)]
    return line


def held(values, hold=5):
    """Return the mean of the last `hold` values at each place."""
    return [np.mean(values[max(0, i + 1 - hold) : i + 1]) for i in range(len(values))]


def test_rounds_show_each_loss_and_the_mean_that_is_to_reach_the_target(result, tmp_path):
    figure = result.plot(tmp_path / "loss.png")
    assert imread(tmp_path / "loss.png").std() > 0.01
    panel, ledger = figure.axes[0], result.ledgers["even"]
    assert_allclose(labelled(panel, "after each").get_ydata(), ledger.train_loss)
    mean = labelled(panel, "mean of 5 rounds")
    assert_allclose(mean.get_xdata(), np.arange(1, ledger.rounds + 1))
    assert_allclose(mean.get_ydata(), held(ledger.train_loss))
    reached = ledger.rounds_to(Target(loss=0.6, hold=5))
    said = {text.get_text(): text for text in panel.texts}
    assert set(said) == {"target 0.6", f"round {reached}"}
    marks = [line for line in panel.get_lines() if line.get_marker() == "o"]
    assert marks[0].get_xdata()[0] == reached
    assert marks[0].get_ydata()[0] == pytest.approx(
        np.mean(ledger.train_loss[reached - 5 : reached])
    )
    dashed = [line for line in panel.get_lines() if line.get_linestyle() == "--"]
    assert dashed[0].get_ydata()[0] == 0.6


def test_time_and_energy_are_those_of_each_policy(trained):
    _, accuracy, seconds, joules = trained.plot().axes
    ledger = trained.ledgers["even"]
    assert_allclose(labelled(accuracy, "after").get_ydata(), ledger.accuracy)
    for name, each in trained.ledgers.items():
        line = labelled(seconds, f"{name}: ")
        assert_allclose(line.get_xdata(), each.total_duration)
        assert_allclose(line.get_ydata(), each.train_loss)
        assert f"{name}: {each.seconds_to(1.5):.3g} s" in texts(seconds)
    assert texts(joules)  # what is drawn there has a name
    heading = seconds.get_legend().get_title().get_text()
    assert heading == "to the target; policies that share a line are within 1 %"


def test_indistinguishable_policies_share_a_line(result):
    ledgers = {"a": result.ledgers["even"], "b": result.ledgers["even"]}
    ledgers["c"] = result.ledgers["optimal"]
    _, seconds, _ = FIGURES[type(result)](replace(result, ledgers=ledgers)).axes
    ends = {"a, b": ledgers["a"], "c": ledgers["c"]}
    assert texts(seconds) == [
        f"{n}: {led.seconds_to(Target(loss=0.6, hold=5)):.3g} s" for n, led in ends.items()
    ]
    assert labelled(seconds, "c: ").get_xdata()[-1] == ledgers["c"].total_duration[-1]


def test_a_target_that_was_not_reached_is_said_and_totals_are_in_all():
    found = run(QUADRATIC, ["even"], rounds=3)
    rounds, seconds, _ = found.plot().axes
    assert [text.get_text() for text in rounds.texts] == ["target 0.6, not reached"]
    assert texts(seconds) == [f"even: {found.ledgers['even'].duration.sum():.3g} s"]
    assert seconds.get_legend().get_title().get_text() == "in all"
    assert texts(rounds) == ["after each round, last model"]  # they are too few for a mean
    assert_allclose(labelled(rounds, "after").get_ydata(), found.ledgers["even"].train_loss)


def test_an_accuracy_that_is_to_be_reached_is_drawn_over_everything():
    found = run(load_scenario("digits"), ["even"], rounds=20, target=Target(accuracy=0.6, hold=3))
    rounds, seconds, joules = found.plot().axes
    accuracy = found.ledgers["even"].accuracy
    for panel in (rounds, seconds, joules):
        assert panel.get_ylabel() == "accuracy on test data"
    assert_allclose(labelled(seconds, "even").get_ydata(), held(accuracy, 3))


def test_rounds_that_were_not_evaluated_are_passed_over():
    world = QUADRATIC.using(learning={"evaluate_every": 3, "target": None})
    ledger = run(world, ["even"]).ledgers["even"]
    curve = Curve.of(ledger, "train_loss", 5)
    assert curve.seen.tolist() == list(range(2, 30, 3))
    assert_allclose(curve.held, held(ledger.train_loss[2::3]))


def test_several_seeds_are_drawn_as_their_mean_with_a_band():
    result = run_seeds(QUADRATIC.using(learning={"target": None}), ["even"], seeds=4, rounds=12)
    rounds, seconds, _ = result.plot().axes
    curves = np.array([held(one.ledgers["even"].train_loss) for one in result.runs.values()])
    mean = labelled(rounds, "mean of 4 seeds")
    assert_allclose(mean.get_ydata(), curves.mean(0))
    (band,) = rounds.collections
    edge = band.get_paths()[0].vertices
    low = [edge[edge[:, 0] == t, 1].min() for t in range(1, 13)]
    half = 3.182446 * curves.std(0, ddof=1) / 2  # Student's t with 3 degrees of freedom
    assert_allclose(low, curves.mean(0) - half, rtol=1e-5)
    totals = [one.ledgers["even"].duration.sum() for one in result.runs.values()]
    assert texts(seconds) == [f"even: {np.mean(totals):.3g} s"]


def test_a_seed_that_was_there_before_the_others_stays_where_it_was():
    result = run_seeds(load_scenario("digits"), ["even"], seeds=3, target=Target(loss=0.8, hold=5))
    curves = [held(one.ledgers["even"].train_loss) for one in result.runs.values()]
    assert len({len(curve) for curve in curves}) > 1
    longest = max(map(len, curves))
    whole = np.array([curve + [curve[-1]] * (longest - len(curve)) for curve in curves])
    mean = labelled(result.plot().axes[0], "mean of 3 seeds")
    assert_allclose(mean.get_ydata(), whole.mean(0))


@pytest.mark.parametrize("columns", [1, 2])
def test_pictures_for_a_paper_are_as_wide_as_its_columns(trained, tmp_path, columns):
    figure = trained.plot(tmp_path / "loss.pdf", columns=columns)
    assert figure.get_size_inches()[0] == {1: 3.5, 2: 7.16}[columns]
    assert figure.axes[0].xaxis.label.get_size() == 8
    written = (tmp_path / "loss.pdf").read_bytes()
    assert b"/Type3" not in written
    assert b"CIDFontType2" in written  # TrueType, as journals want it


def everything(result):
    yield result, ["rounds", "duration", "energy"]
    yield compare(Scenario(), ["even", "optimal"], rounds=5), ["staged_cost", "energy"]
    yield sweep_costs(Scenario(), ["even"], rounds=3), ["cohort", "local_steps"]
    yield simulate_network(Scenario(), "even", 5), ["duration", "energy"]
    law = GivenLaw(mixing=30, drift=0.5, start=40)
    yield plan_training(Scenario(), law, region=Region(policy="even", steps=(1, 5))), ["plan"]


def test_panels_are_drawn_on_given_axes_in_their_style(result):
    assert set(PANELS) == set(FIGURES)
    with matplotlib.rc_context({"axes.labelsize": 17}):
        for each, names in everything(result):
            for name in names:
                ax = Figure().subplots()
                assert each.plot(ax=ax, panel=name) is ax
                assert ax.has_data()
                assert ax.xaxis.label.get_size() == 17
            first = Figure().subplots()
            assert each.plot(ax=first) is first
            assert first.get_xlabel()


def test_a_panel_is_what_the_whole_figure_has_in_its_place(result):
    mine = Figure().subplots()
    result.plot(ax=mine, panel="duration")
    theirs = result.plot().axes[1]
    assert mine.get_xlabel() == theirs.get_xlabel() == "simulated time [s]"
    for one, other in zip(mine.get_lines(), theirs.get_lines(), strict=True):
        assert_allclose(np.asarray(one.get_xdata(), float), np.asarray(other.get_xdata(), float))


def test_panels_that_are_not_there_and_paths_beside_axes_are_refused(result, tmp_path):
    with pytest.raises(BadInput, match="result has no panel 'time': choose one of rounds, acc"):
        result.plot(panel="time")
    with pytest.raises(BadInput, match="`path` is for figures of fedcell: save that of your axes"):
        result.plot(tmp_path / "a.png", ax=Figure().subplots())
    result.plot(tmp_path / "energy.png", panel="energy")
    assert imread(tmp_path / "energy.png").std() > 0.01


def test_a_plan_that_was_changed_is_marked_where_it_was(tmp_path):
    """A line between the last round of the old plan and the first of the new one."""
    result = run_adaptive(NARROW, ["even"])
    rounds = [change.round for change in result.outcome.changes]
    assert len(rounds) >= 2
    panel = result.plot(tmp_path / "loss.png").axes[0]
    upright = [line.get_xdata() for line in panel.get_lines() if line.get_linestyle() == ":"]
    assert_allclose(upright, [[r - 0.5] * 2 for r in rounds])
    assert texts(panel).count("another plan") == 1
    assert_allclose(
        [x[0] for x in upright],
        [
            line.get_xdata()[0]
            for line in result.plot(ax=Figure().subplots(), panel="rounds").get_lines()
            if line.get_linestyle() == ":"
        ],
    )
