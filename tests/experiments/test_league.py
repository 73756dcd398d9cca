"""Leagues: entries on the same seeds, paired differences, and what is more than luck."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from fedcell import Learning, Scenario, Target
from fedcell.errors import BadInput
from fedcell.experiments import Contest, Limit, Store, compare_selectors
from fedcell.experiments.executors import Inline
from fedcell.experiments.league.league import SURE, _p_value, holm, jain
from fedcell.experiments.league.run import _short
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.simulate import price_trace
from fedcell.selectors import Known, Race, best, reads
from fedcell.show.html import league_page
from support.drawn import league

WORLD = Scenario().using(
    clients={"count": 12, "spread": 0.5},
    cell={"distance": (50.0, 250.0)},
    task={"model_bits": 3e7},
    plan={"cohort": 3, "local_steps": 4, "rounds": 60},
    learning=Learning(model="quadratic-apart", target=1.5, rate=0.02),
)


@reads("gain")
def weakest(known: Known) -> Race:
    return best(known, -known.gain)


def contest(select, tmp_path, policies=("even",), **options):
    return compare_selectors(
        WORLD,
        select,
        policies,
        Contest(**({"seeds": 3} | options)),
        store=Store(tmp_path / "store"),
        executor=Inline(),
    )


def test_an_entry_is_what_its_training_costs(tmp_path):
    found = contest(["uniform", "best-channel"], tmp_path, ["even", "optimal"])
    assert [e.name for e in found.entries] == [
        *("uniform, even", "uniform, optimal", "best-channel, even", "best-channel, optimal")
    ]
    run = found.entries[3].runs[2]
    world = WORLD.using(plan={"selection": "best-channel"})
    from fedcell.learning import prepare_training

    scenario = prepare_training(world, 2).scenario
    fleet = draw_fleet(scenario, 2)
    ledger = price_trace(scenario, fleet, draw_trace(scenario, fleet, run.done, 2), "optimal", 2)
    assert run.seconds == pytest.approx(float(ledger.duration.sum()))
    assert run.joules == pytest.approx(float(ledger.energy.sum()))
    assert run.jain_calls == pytest.approx(jain(ledger.totals.called.astype(float)))
    same = found.entries[2].runs[2]
    assert (run.rounds, run.train_loss) == (same.rounds, same.train_loss)  # one training for both


def test_rules_that_read_durations_are_trained_under_each_policy(tmp_path):
    found = contest(["uniform", "oort", "power-of-choice"], tmp_path, ["even", "optimal"])
    assert [e.name for e in found.entries][2:4] == ["oort, even", "oort, optimal"]
    assert "trained once for each policy" in found.notes[0]
    vain = {e.select: e.values("vain_joules").min() for e in found.entries}
    assert vain["uniform"] == vain["oort"] == 0 < vain["power-of-choice"]
    made = len(list((tmp_path / "store").rglob("*.json")))
    assert made == 3 * (1 + 2 + 1)


def test_a_league_is_resumed_from_its_store(tmp_path):
    one = contest(["uniform", "power-of-choice"], tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "store").rglob("*.json")}
    two = contest(["uniform", "power-of-choice", "active"], tmp_path)
    assert (
        before.items()
        <= {p: p.stat().st_mtime_ns for p in (tmp_path / "store").rglob("*.json")}.items()
    )
    assert json.dumps(one.rows()) == json.dumps(two.rows()[:6])


def test_a_worse_rule_of_ones_own_is_found_out(tmp_path):
    found = contest(["best-channel", weakest], tmp_path, seeds=5)
    (difference,) = found.differences
    assert difference.sure
    assert difference.change.low > 0
    assert "is first: all others are behind" in found.sentence
    back = contest([weakest, "best-channel"], tmp_path, seeds=5)
    assert "% less time (" in back.sentence
    assert f") than {__name__}:weakest, even (5 seeds)" in back.sentence
    assert back.sentence.endswith("more than luck")


def test_the_accuracy_is_that_at_the_limit(tmp_path):
    found = contest(["uniform", "best-channel"], tmp_path, limit=Limit(seconds=100.0))
    assert found.measure == "train_loss"  # quadratics have no accuracy
    for entry in found.entries:
        for run in entry.runs:
            assert run.times[run.done - 1] <= 100 < run.times[run.done]
            assert run.train_loss == run.values[run.done - 1]
            assert run.times.size == 60  # trained to the end


def test_paired_differences_are_students():
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=(2, 8))
    assert _p_value(two - one) == pytest.approx(ttest_rel(two, one).pvalue)
    assert _p_value(np.zeros(4)) == 1.0
    assert _p_value(np.ones(4)) == 0.0
    assert math.isnan(_p_value(np.ones(1)))


def test_holm_is_stricter_than_each_test_and_looser_than_bonferroni():
    p = [0.001, 0.02, 0.03, 0.2, math.nan]
    assert holm(p, SURE) == [True, False, False, False, False]
    assert holm([0.012, 0.013, 0.02, 0.04], SURE) == [True, True, True, True]
    assert [x * 4 <= SURE for x in (0.012, 0.013, 0.02, 0.04)] == [True, False, False, False]


def test_luck_alone_seldom_wins():
    """Of leagues between equal rules, at most about 5 % name a winner."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        pairs = rng.normal(size=(5, 8)) - rng.normal(size=8)
        wrong += any(holm([_p_value(pair) for pair in pairs], SURE))
    assert wrong / 400 < 0.08


def test_jain_is_one_where_all_are_equal_and_one_nth_for_one():
    assert jain(np.full(7, 3.0)) == pytest.approx(1)
    assert jain(np.eye(1, 8).ravel()) == pytest.approx(1 / 8)


def test_a_league_shows_itself(tmp_path):
    found = league(4)
    text = found.summary()
    assert "time against the first" in text
    assert found.sentence in text.replace("\n", " ")
    page = league_page(found, "fedcell compare")
    assert "fedcell compare" in page
    assert found.sentence in page
    found.save(tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "league.json").read_text())
    assert len(saved["runs"]) == 16 == len((tmp_path / "out" / "runs.csv").read_text().split()) - 1
    assert "one seed" in league(2, seeds=1).sentence
    assert "is alone" in league(1).sentence


def test_names_leave_the_policy_out():
    assert _short("oort(policy=even)", "even") == "oort"
    assert _short("oort(window=5, policy=even)", "even") == "oort(window=5)"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"select": []}, "name at least one"),
        ({"select": ["uniform", "uniform"]}, "give each selector once"),
        ({"select": ["nothing-such"]}, "is not a selector"),
    ],
)
def test_bad_questions_get_a_sentence(options, fault, tmp_path):
    with pytest.raises(BadInput, match=fault):
        contest(options["select"], tmp_path)


def test_a_scenario_without_learning_or_target_is_refused(tmp_path):
    for world, fault in (
        (Scenario(), "no .learning."),
        (WORLD.using(learning={"target": None}), "no target to reach"),
    ):
        with pytest.raises(BadInput, match=fault):
            compare_selectors(world, ["uniform"], store=Store(tmp_path), executor=Inline())


def test_runs_that_miss_the_target_count_with_all_their_rounds(tmp_path):
    found = contest(["uniform"], tmp_path, target=Target(loss=1e-6), rounds=5)
    assert found.entries[0].missed == 3
    assert found.entries[0].values("rounds").tolist() == [5, 5, 5]
    assert "missed the target" in found.notes[0]


def test_short_rounds_that_miss_the_target_do_not_win():
    """A rule with short rounds that never gets there is behind one that does."""
    found = league(2)
    first, other = found.entries
    fast = tuple(
        replace(run, rounds=None, seconds=None, joules=None, total_seconds=0.01 * run.total_seconds)
        for run in other.runs
    )
    lost = replace(found, entries=(first, replace(other, runs=fast)))
    (difference,) = lost.differences
    assert difference.change.value >= 0
    assert "less time" not in lost.sentence


def test_a_training_of_a_rule_is_that_of_its_radio_and_code():
    """A rule may read any number of the scenario, so no other scenario shares its trainings."""
    from fedcell.experiments.training import Training
    from fedcell.selectors import selecting

    def key(world):
        return Training.of(world, 0).key

    louder = WORLD.using(clients={"power": 8e-7})
    assert key(WORLD) == key(louder)  # uniform: who arrives does not depend on powers
    assert key(selecting(WORLD, "fedcs")) != key(selecting(louder, "fedcs"))
    own = selecting(WORLD, weakest)
    assert len({key(own), key(WORLD), key(selecting(WORLD, "best-channel"))}) == 3


def test_a_pilot_of_another_selector_is_refused_by_its_name():
    from fedcell.scenario.identity import differences, pilot_identity

    one, other = (
        pilot_identity(WORLD.using(plan={"selection": name}), None)
        for name in ("uniform", "best-channel")
    )
    assert differences(one, other).startswith("plan.selection")
