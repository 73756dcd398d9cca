"""Plans within limits, and the chance of keeping them."""

import re
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import load_scenario
from fedcell.core.errors import NoPlan
from fedcell.errors import BadInput
from fedcell.planning.choice.choose import choose_plan
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.choice.limits import Limits, allowed_plans, bounds_of, chances, least_place
from support.piloted import PILOT, piloted_file
from support.planned import FAST, LAW, SMALL, plan_of


@given(st.floats(0.5, 3), st.floats(0.3, 3), st.floats(0.3, 3))
def test_budgets_are_respected_or_none_is_possible(grid, a, b, c):
    free = choose_plan(grid)
    limits = Limits(
        deadline=a * free.duration.value,
        energy=b * free.energy.value,
        mean_energy_per_client=c * free.energy.value / 8,
    )
    may = (grid.duration <= limits.deadline) & (
        grid.energy <= min(limits.energy, 8 * limits.mean_energy_per_client)
    )
    try:
        plan = choose_plan(grid, limits)
    except NoPlan:
        assert not may.any()
        return
    assert plan.duration.value <= limits.deadline
    assert plan.energy.value <= limits.energy
    assert plan.energy.value / 8 <= limits.mean_energy_per_client
    assert plan.cost.value == grid.cost[may].min()
    assert (allowed_plans(grid, bounds_of(grid, limits)) == may).all()


def test_a_limit_that_cannot_be_kept_is_named_with_the_least_that_can(grid):
    least = grid.duration.min()
    with pytest.raises(NoPlan, match="no plan keeps the deadline of 1 s: the least is") as told:
        choose_plan(grid, Limits(deadline=1.0, energy=1e9))
    assert f"{least:.4g} s" in str(told.value)
    assert "energy" not in str(told.value)
    with pytest.raises(NoPlan, match="the mean energy budget per client of 1e-06 J"):
        choose_plan(grid, Limits(mean_energy_per_client=1e-6))
    with pytest.raises(NoPlan, match=r"the energy budget per client of 1e-06 J: .* J of client \d"):
        choose_plan(grid, Limits(energy_per_client=1e-6))
    slow = evaluate_plans(
        SMALL.using(cell={"broadcast_time": 50.0}), LAW, "even", 12
    )  # wants few rounds
    both = Limits(deadline=slow.duration.min() * 1.001, energy=slow.energy.min() * 1.001)
    with pytest.raises(
        NoPlan, match="the deadline and the energy budget together: the others"
    ) as t:
        choose_plan(slow, both)
    cheapest = slow.duration[slow.energy <= both.energy].min()
    assert f"the least deadline is {cheapest:.4g} s" in str(t.value)
    with pytest.raises(BadInput, match="`minimise` = nope: expected one of cost, duration, energy"):
        choose_plan(slow, minimise="nope")
    with pytest.raises(BadInput, match="take the scenario of `prepare_training`"):
        evaluate_plans(load_scenario("digits"), LAW)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(BadInput, match="deadline = "):
            Limits(deadline=bad)


def test_limits_are_kept_with_the_chance_that_is_asked_for(fitted):
    over = evaluate_plans(SMALL.using(clients={"count": 30}), fitted, "even", 60)
    deadline = 1.3 * over.duration.min()
    hoped = choose_plan(over, Limits(deadline=deadline))
    assert hoped.duration.value <= deadline < hoped.duration.high
    assert 0.4 < hoped.chances["deadline"] < 0.95
    generous = Limits(deadline=2.5 * over.duration.min(), confidence=0.95)
    kept = choose_plan(over, generous)
    assert kept.chances["deadline"] >= 0.95
    with pytest.raises(NoPlan, match="no plan keeps the deadline"):
        choose_plan(over, Limits(deadline=1.01 * over.duration.min(), confidence=0.95))
    given_law = evaluate_plans(SMALL.using(clients={"count": 30}), fitted.law, "even", 60)
    limits = Limits(deadline=1.5 * given_law.duration.min(), confidence=0.95)
    assert choose_plan(given_law, limits).chances["deadline"] >= 0.95
    for bad in (0.3, 1.0, "sure"):
        with pytest.raises(BadInput, match=r"`confidence` = .*: expected a number from 0\.5 to"):
            Limits(deadline=1.0, confidence=bad)


def test_chances_are_those_of_runs_that_are_drawn(fitted):
    """Rounds lognormal around the law, and a deadline: as often kept as is said."""
    over = evaluate_plans(SMALL.using(clients={"count": 30}), fitted, "even", 30)
    i, j = least_place(over.cost)
    k, e = np.array(over.cohorts[i]), np.array(over.steps[j])
    limits = Limits(deadline=1.1 * float(over.duration[i, j]))
    said = float(chances(over.law, bounds_of(over, limits))["deadline"][i, j])
    median, _ = fitted.log_rounds(k, e, over.loss_rate, over.kind)
    sd = float(over.spread("duration", k, e))
    rng = np.random.default_rng(0)
    rounds = np.exp(median + sd * rng.standard_t(fitted.freedom, 10**5))
    drawn = rounds * float(over.duration[i, j] / over.rounds[i, j])
    assert said == pytest.approx(float(np.mean(drawn <= limits.deadline)), abs=0.01)


def test_a_stricter_deadline_never_costs_less(grid):
    least = grid.duration.min()
    costs = [choose_plan(grid, Limits(deadline=least * x)).cost.value for x in (1.001, 1.1, 1.5, 5)]
    assert costs == sorted(costs, reverse=True)


def test_the_command_keeps_limits_and_says_so(fedcell):
    def planned(fedcell, *words):
        return plan_of(fedcell, *FAST, *words)

    free = planned(fedcell)
    strict = planned(fedcell, "--deadline", f"{0.99 * free['duration']['value']}s")
    assert (
        strict["duration"]["value"] <= 0.99 * free["duration"]["value"] < free["duration"]["value"]
    )
    assert strict["cost"]["value"] >= free["cost"]["value"]
    mean = f"{0.5 * free['energy']['value'] / 100}J/client-mean"
    each = planned(fedcell, "--energy-budget", mean)
    assert each["energy"]["value"] <= 0.5 * free["energy"]["value"]
    (payer,) = free["devices"]
    assert payer["energy"] > free["energy"]["value"] / 100
    spared = planned(fedcell, "--energy-budget", f"{0.8 * payer['energy']}J/client")
    assert max(d["energy"] for d in spared["devices"]) <= 0.8 * payer["energy"]
    in_hours = planned(fedcell, "--energy-budget", f"{0.8 * payer['energy'] / 3.6}mWh/client")
    assert in_hours["limits"]["energy_per_client"] == pytest.approx(0.8 * payer["energy"])
    assert in_hours["devices"] == spared["devices"]
    fast = planned(fedcell, "--minimise", "duration")
    assert fast["duration"]["value"] <= strict["duration"]["value"]
    deadline = f"{1.05 * fast['duration']['value']}s"
    band = planned(fedcell, "--deadline", deadline, "--solve-for", "bandwidth")
    assert band["bandwidth"] == band["scenario"]["cell"]["bandwidth"] < 20e6


def test_limits_that_cannot_be_kept_end_the_command(fedcell):
    words = ["--mixing", 1, "--drift", 1, "--start", 1, "--deadline", "1ms"]
    answer = fedcell("plan", "paper", *words)
    assert answer.code == 2
    assert "no plan keeps the deadline of 0.001 s: the least is" in answer.err
    assert answer.out == ""


def test_a_plan_says_which_limits_it_keeps_and_how_surely(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world, pilot = piloted_file(tmp_path), PILOT
    words = ["plan", world, "--pilot", pilot, "--deadline", "50s", "--energy-budget", "900J"]
    said = " ".join(fedcell(*words).out.split())
    assert re.search(r"keeps the deadline of 50 s with a chance of \d\d%", said)
    assert re.search(r"keeps the energy budget of 900 J with a chance of \d+%", said)
    assert "keeps the" not in fedcell("plan", world, "--pilot", pilot).out


def test_limits_may_be_text():
    assert Limits(deadline="2h") == Limits(deadline=7200.0)
    assert Limits(energy="2kJ").energy == 2000.0
    with pytest.raises(BadInput, match="deadline = soon: expected a time such as 90s"):
        Limits(deadline="soon")


def test_infinite_limits_are_no_limits(grid):
    assert Limits() == Limits(deadline=inf, energy=inf, energy_per_client=inf)
    assert Limits().mean_energy_per_client == inf
    assert Limits().given() == {}
    assert allowed_plans(grid, {}).all()
    free, none = choose_plan(grid), choose_plan(grid, Limits())
    assert (free.cohort, free.local_steps, free.cost) == (none.cohort, none.local_steps, none.cost)
