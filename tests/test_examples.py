"""The examples run and print what they should."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "1_plan_a_round": ["client 4:", "the round takes", "proved optimal"],
    "2_own_policy": ["by_channel:", "optimal:"],
    "3_own_data": ["test accuracy 8", "paid most"],
    "4_own_learner": ["loss 0.01 after"],
    "5_torch_module": ["accuracy 8", " J"],
    "6_pilot_and_plan": [" settings; the law on the whole", "mixing: ", "plan: K = "],
    "7_from_pilot_to_figures": [
        "<Pilot: ",
        "<TrainingPlan for digits: K = ",
        "<Ledger: ",
        "The plan's predictions against this run: taken / expected",
        "<CostSweep: 12 points over cohort and local_steps>",
        "['cost.png', 'loss.png', 'plan.png']",
    ],
    "9_torch_batchnorm": ["<RunResult, 1 policies; optimal: <Ledger: 5 rounds, "],
}
MARKS = {  # by number
    **dict.fromkeys("59", pytest.mark.extras),
    "7": pytest.mark.long,
}


def test_every_example_is_tested():
    elsewhere = {"8_slurm"}  # tests/experiments/test_cluster.py runs it
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {*SAYS, *elsewhere}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=MARKS.get(n[:1], ())) for n in SAYS],
)
def test_an_example_runs(name, capsys):
    if "torch" in name:
        pytest.importorskip("torch")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    said = capsys.readouterr().out
    for words in SAYS[name]:
        assert words in said
