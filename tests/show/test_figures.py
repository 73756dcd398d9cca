"""Pictures against the values that they are drawn from: the right numbers at the right places."""

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.testing import assert_allclose

from fedcell import (
    GivenLaw,
    Limits,
    Region,
    Scenario,
    TrainingPlan,
    compare,
    load_pilot,
    load_scenario,
    plan_training,
    run,
    schedule_round,
)
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.learning.partition_report import describe_partition
from fedcell.network import load_round, simulate_network, sweep_costs
from fedcell.planning.constants import measure_constants
from fedcell.planning.pilot.summary import pilot_report
from support.piloted import PILOT, piloted_digits

ROOT = Path(__file__).parents[2]
QUADRATIC = Scenario().using(
    clients={"count": 6},
    plan={"cohort": 3, "local_steps": 2, "rounds": 8},
    learning={"model": "quadratic-apart", "target": 0.01},
)


def lines(panel):
    """The lines of a panel that have a label, by label."""
    found = {line.get_label(): line for line in panel.get_lines()}
    return {label: line for label, line in found.items() if not label.startswith("_")}


def is_picture(path):
    return imread(path).std() > 0.01


@pytest.fixture(scope="module")
def sweep():
    return sweep_costs(Scenario(), ["even", "distributed"], [0.1, 0.5], rounds=8)


def test_the_cost_figure_draws_the_sweep(sweep, tmp_path):
    figure = sweep.plot(tmp_path / "fig6.png")
    assert is_picture(tmp_path / "fig6.png")
    over_k, over_e, change_k, _ = figure.axes
    for panel, axis in ((over_k, "cohort"), (over_e, "local_steps")):
        points = [p for p in sweep.points if p.axis == axis]
        drawn = lines(panel)
        assert set(drawn) == {
            f"{policy}, Var {spread}" for policy in ("even", "distributed") for spread in (0.1, 0.5)
        }
        for policy in ("even", "distributed"):
            for spread in (0.1, 0.5):
                here = [p for p in points if p.spread == spread]
                line = drawn[f"{policy}, Var {spread}"]
                assert_allclose(line.get_xdata(), [p.value for p in here])
                costs = [p.comparison[policy].mean["staged_cost"].value for p in here]
                assert_allclose(line.get_ydata(), costs)
    here = [p for p in sweep.points if p.axis == "cohort" and p.spread == 0.5]
    percent = [
        100
        * p.comparison["distributed"].difference["staged_cost"].value
        / p.comparison["even"].mean["staged_cost"].value
        for p in here
    ]
    assert_allclose(lines(change_k)["distributed, Var 0.5"].get_ydata(), percent)
    assert "8 rounds per point" in figure.get_suptitle()
    assert "left: $E_l$ = 20, right: K = 10" in figure.get_suptitle()


def test_a_panel_over_what_was_not_swept_is_refused(sweep):
    with pytest.raises(BadInput, match="no costs over local_epochs: choose of cohort, local_steps"):
        sweep.plot(panel="local_epochs")


def test_a_comparison_is_drawn_as_bars(tmp_path):
    found = compare(Scenario(), ["even", "optimal"], rounds=20)
    figure = found.plot(tmp_path / "bars.svg")
    widths = [[bar.get_width() for bar in panel.patches] for panel in figure.axes]
    measures = ("staged_cost", "objective", "duration", "energy")
    expected = [[costs.mean[m].value for costs in found.policies] for m in measures]
    assert_allclose(widths, expected)
    assert (tmp_path / "bars.svg").read_text().startswith("<?xml")


def test_a_round_is_drawn_client_by_client(tmp_path):
    found = schedule_round(load_round(ROOT / "docs" / "round.json"))
    times, shares = found.plot(tmp_path / "round.pdf").axes
    ends = sorted(bar.get_x() + bar.get_width() for bar in times.patches)[-3:]
    assert_allclose(ends, float(found.cost.duration))  # all finish together
    assert_allclose([bar.get_width() for bar in shares.patches], 100 * found.schedule.share)
    assert (tmp_path / "round.pdf").read_bytes().startswith(b"%PDF")


def test_rounds_without_training_are_drawn_as_what_they_take():
    ledger = simulate_network(Scenario(), "even", 10)
    left, right = ledger.plot().axes
    assert_allclose(left.get_lines()[0].get_ydata(), ledger.duration)
    assert_allclose(right.get_lines()[0].get_ydata(), ledger.energy)


def test_a_plan_is_drawn_where_it_lies(tmp_path):
    limits = Limits(deadline=50.0)
    plan = plan_training(piloted_digits(), load_pilot(PILOT), limits=limits)
    figure = plan.plot(tmp_path / "plan.png")
    assert is_picture(tmp_path / "plan.png")
    panel, bar = figure.axes
    black = [line for line in panel.get_lines() if line.get_color() == "black"]
    assert [line.get_xdata()[0] for line in black][:1] == [plan.local_steps]
    assert [line.get_ydata()[0] for line in black][:1] == [plan.cohort]
    marks = [line for line in panel.get_lines() if line.get_marker() == "X"]
    where = marks[0].get_xdata()[0], marks[0].get_ydata()[0]
    assert where == (plan.paper.local_steps, plan.paper.cohort)
    assert plan.grid is not None
    tried = plan.grid.steps[-1], plan.grid.cohorts[-1]
    assert (panel.get_xlim()[1], panel.get_ylim()[1]) == tried
    assert bar.get_ylabel() == "cost, over the plan's"
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert f"plan: K = {plan.cohort}, $E_l$ = {plan.local_steps}" in texts
    assert {"tried", "beyond limits", "within 5% of the plan"} <= set(texts)
    more = plan.paper.cost / plan.cost.value - 1
    assert any(f"({more:+.0%})" in text for text in texts)


def test_a_plan_from_a_file_says_that_it_has_no_grid(tmp_path):
    law = GivenLaw(mixing=30, drift=0.5, start=40)
    plan_training(Scenario(), law, region=Region(policy="even", steps=(1, 5))).save(
        tmp_path / "plan.json"
    )
    with pytest.raises(BadInput, match="a plan from a file has no grid to draw"):
        TrainingPlan.load(tmp_path / "plan.json").plot()


def test_predictions_are_drawn_against_what_was_measured(tmp_path):
    pilot = load_pilot(PILOT)
    figure = pilot.plot(tmp_path / "pilot.png")
    checks = pilot_report(pilot).checks
    (panel,) = figure.axes
    inside = [c for c in checks if c.inside]
    drawn = {container.get_label(): container for container in panel.containers}
    points = drawn[f"inside its interval ({len(inside)})"].lines[0]
    assert_allclose(np.array(points.get_xdata(), float), [c.measured for c in inside])
    assert_allclose(np.array(points.get_ydata(), float), [c.predicted.value for c in inside])


def test_a_law_is_drawn_with_the_interval_of_a_run():
    law = load_pilot(PILOT).fit()
    (panel,) = law.plot(loss_rate=0.1).axes
    line = lines(panel)["K = 5"]
    steps = line.get_xdata()
    mean, _, _ = law.predict(np.full(steps.size, 5), steps, 0.1)
    assert_allclose(line.get_ydata(), mean)


def test_an_outcome_is_drawn_as_ratios():
    law = GivenLaw(mixing=5.0, drift=0.1, start=20.0)
    plan = plan_training(
        QUADRATIC.using(learning={"target": 5.0}), law, region=Region(steps=(1, 5))
    )
    result = run(plan.apply_to(), ["optimal", "even"])
    outcome = plan.compare(result)
    (panel,) = outcome.plot().axes
    dots = [line.get_xdata()[0] for line in panel.get_lines() if line.get_marker() == "o"]
    assert_allclose(dots, [m.taken / m.predicted.value for m in outcome.measured])
    assert next(label.get_text() for label in panel.get_yticklabels()) == "optimal, rounds"


def test_a_partition_is_drawn_with_all_its_samples(tmp_path):
    report = describe_partition(prepare_training(load_scenario("digits")), "digits")
    figure = report.plot(tmp_path / "partition.png")
    heat, amounts = figure.axes[:2]
    assert heat.images[0].get_array().sum() == 1501
    values = amounts.patches[0].get_data().values
    assert values.tolist() == sorted(report.label_counts.sum(1).tolist(), reverse=True)


def test_constants_are_drawn_along_the_training(tmp_path):
    setup = prepare_training(QUADRATIC)
    report = measure_constants(setup, rounds=6, every=2, clients=3)
    left, right = report.plot(tmp_path / "constants.png").axes
    assert_allclose(left.get_lines()[0].get_xdata(), [0, 2, 4, 6])
    assert_allclose(left.get_lines()[0].get_ydata(), report.measured.diversities)
    assert_allclose(right.get_lines()[0].get_ydata(), report.measured.pl_ratios)


@pytest.mark.parametrize("name", ["x.txt", "none/x.png"])
def test_a_picture_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(BadInput, match=r"must end in one of: png|there is no folder"):
        simulate_network(Scenario(), "even", 3).plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_the_answer_comes_before_the_picture(fedcell, tmp_path, monkeypatch):
    """A figure that fails costs neither the table nor the files."""

    def fail(*_, **__):
        raise OSError("no ink")

    monkeypatch.setattr("fedcell.show.figures.runs.run_figure", fail)
    (tmp_path / "world.json").write_text(
        json.dumps(
            {
                "clients": {"count": 6},
                "plan": {"cohort": 3, "local_steps": 2, "rounds": 4},
                "learning": {"model": "quadratic-apart"},
            }
        )
    )
    said = fedcell("run", tmp_path / "world.json", "--out", tmp_path / "o")
    assert (said.code, "no ink" in said.err) == (2, True)
    assert "In all, with common random numbers" in said.out
    names = {file.name for file in (tmp_path / "o").iterdir()}
    assert names >= {"ledger.csv", "clients.csv", "summary.json"}
