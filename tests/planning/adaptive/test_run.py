"""Adaptive runs in folders: resumed, changed and refused."""

import csv
from dataclasses import replace

import pytest
from numpy.testing import assert_array_equal

from fedcell import Adaptation, Region, load_run, run, run_adaptive
from fedcell.errors import BadFile, BadInput
from fedcell.simulation.execution import execute
from fedcell.simulation.run import prepare_run
from support.adaptive import POLICY, files, said, stop_after
from support.quadratics import NARROW, QUADRATICS


@pytest.mark.parametrize("evaluate_every", [1, 3])
def test_interrupted_and_resumed_is_as_if_never_stopped(tmp_path, evaluate_every):
    world = NARROW.using(learning={"evaluate_every": evaluate_every})
    straight = run_adaptive(world, POLICY, folder=tmp_path / "straight")
    assert len(straight.outcome.changes) >= 2
    for rounds in (4, 5, 6, 10, 12):
        folder = tmp_path / str(rounds)
        cut = run_adaptive(world, POLICY, folder=folder, observer=stop_after(rounds))
        assert not cut.complete
        again = run_adaptive(world, POLICY, folder=folder, resume=True)
        assert said(again) == said(straight)
        assert files(folder) == files(tmp_path / "straight")


def test_more_rounds_are_as_if_never_stopped(tmp_path):
    world = NARROW.using(learning={"evaluate_every": 3})
    straight = run_adaptive(world, POLICY, folder=tmp_path / "straight")
    for rounds in (5, 10, 11):
        run_adaptive(
            world,
            POLICY,
            folder=tmp_path / str(rounds),
            adaptation=Adaptation(region=Region(rounds=rounds)),
        )
        run_adaptive(world, POLICY, folder=tmp_path / str(rounds), resume=True)
        assert files(tmp_path / str(rounds))[:5] == files(tmp_path / "straight")[:5]
    assert straight.outcome.changes


def test_a_change_that_a_kill_left_unwritten_is_written_when_it_goes_on(tmp_path):
    run_adaptive(NARROW, POLICY, folder=tmp_path / "straight")
    folder = tmp_path / "killed"
    run_adaptive(NARROW, POLICY, folder=folder, observer=stop_after(7))
    (folder / "changes.csv").unlink()
    run_adaptive(NARROW, POLICY, folder=folder, resume=True, observer=stop_after(8))
    assert (folder / "changes.csv").read_text().startswith("round,clients,steps,why\n6,")


def test_a_change_after_the_last_round_is_not_recorded_on_resume(tmp_path):
    """A controller may change the setting after any round; it cannot know that it was the last."""

    class Restless:
        def replay(self, state):
            return [replace(prepared.first, first_round=state.rounds)] if state.rounds else []

        def steer(self, state):
            return replace(prepared.first, first_round=state.rounds)

    prepared = prepare_run(NARROW, POLICY, rounds=1, target=None)
    steered = replace(prepared, controller=Restless())
    made = execute(steered, tmp_path / "run")
    again = execute(steered, tmp_path / "run", resume=True)
    assert made.outcome.changes == again.outcome.changes == ()
    assert_array_equal(made.state.model, again.state.model)


def test_the_folder_gives_the_changes_back(tmp_path):
    result = run_adaptive(NARROW, POLICY, folder=tmp_path / "run")
    assert said(load_run(tmp_path / "run")) == said(result)
    assert load_run(tmp_path / "run").outcome.changes == result.outcome.changes
    with (tmp_path / "run" / "changes.csv").open(newline="") as file:
        rows = [
            (int(r["round"]), int(r["clients"]), int(r["steps"]), r["why"])
            for r in csv.DictReader(file)
        ]
    assert rows == [(c.round, c.cohort, c.local_steps, c.why) for c in result.outcome.changes]


def test_a_run_is_not_resumed_with_other_adaptive_options(tmp_path):
    run_adaptive(NARROW, POLICY, folder=tmp_path / "run", observer=stop_after(4))
    often = {"adaptation": Adaptation(every=4)}
    for options, named in [(often, "adaptive.every"), ({"target": 0.5}, "adaptive.target")]:
        with pytest.raises(BadFile, match=named):
            run_adaptive(NARROW, POLICY, folder=tmp_path / "run", resume=True, **options)
    with pytest.raises(BadFile, match=r"adaptive\.every"):
        run(NARROW, POLICY, folder=tmp_path / "run", resume=True)
    run(NARROW, POLICY, folder=tmp_path / "plain", rounds=3)
    assert not (tmp_path / "plain" / "changes.csv").exists()
    with pytest.raises(BadFile, match=r"adaptive\.every"):
        run_adaptive(NARROW, POLICY, folder=tmp_path / "plain", resume=True)


@pytest.mark.parametrize(
    ("world", "options", "said"),
    [
        (QUADRATICS.using(learning={"target": None}), {}, "give a `target`, or learning.target"),
        (
            QUADRATICS.using(plan={"local_epochs": 2, "local_steps": 1}),
            {},
            "plan.local_epochs: an adaptive plan chooses plan.local_steps",
        ),
        (QUADRATICS, {"adaptation": Adaptation(every=0)}, "`every`"),
        (
            QUADRATICS,
            {"adaptation": Adaptation(start=5)},
            "`start` = 5: expected a pilot, a plan or",
        ),
        (QUADRATICS, {"resume": True}, "`resume` needs the folder"),
    ],
)
def test_what_cannot_adapt_is_refused(world, options, said):
    with pytest.raises(BadInput) as refused:
        run_adaptive(world, POLICY, **options)
    assert said in str(refused.value)
