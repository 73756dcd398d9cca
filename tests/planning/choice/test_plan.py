"""Plans against brute force, limits, and the questions around them."""

import json
import re
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import Clients, Region, RoundPlan, Scenario, TrainingPlan, load_scenario, plan_training
from fedcell.core.errors import NoPlan
from fedcell.core.quantities import parse_duration, parse_energy, readable_duration
from fedcell.errors import BadFile, BadInput
from fedcell.learning.setup import prepare_training
from fedcell.network import simulate_network
from fedcell.planning.choice.choose import choose_plan, totals_under
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.choice.limits import Limits, allowed_plans, bounds_of, chances, least_place
from fedcell.planning.costs.rounds import price_round_grid
from fedcell.planning.costs.units import full_participation, section_4d, unit_costs
from fedcell.planning.law.fit import fit_law
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.law_source import LawSource
from fedcell.planning.question import Question
from fedcell.planning.whatif import least_bandwidth, nearby_worlds, sensitivity
from fedcell.scenario.target import Target
from support.examples import examples
from support.laws import FLOOR, observed
from support.piloted import PILOT, piloted_digits, piloted_file

OLD_PLAN = Path(__file__).parents[2] / "support" / "data" / "plan-of-format-3.json"
SMALL = Scenario(clients=Clients(count=8, spread=0.5), plan=RoundPlan(cohort=4)).using(
    task={"model_bits": 2e7, "samples_per_step": "batch"},
    cell={"broadcast_time": 2.0, "loss_rate": 0.2},
)
INTERVALS = ("cohort_interval", "local_steps_interval", "rounds", "duration", "energy", "cost")
FAST = ("--policy", "even", "--steps", "1..6")
LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)


@pytest.fixture(scope="module")
def fitted():
    """A law from runs."""
    return fit_law(observed(FLOOR, seeds=6, seed_sd=0.15, run_sd=0.1))


@pytest.fixture(scope="module")
def grid():
    """What every plan of a small world takes."""
    return evaluate_plans(SMALL, LAW, "even", 12)


def brute(scenario, law, policy, most):
    """Price every K and E_l separately with the random numbers of the planner."""
    totals = {}
    for k in range(1, scenario.clients.count + 1):
        for e in range(1, most + 1):
            world = scenario.using(plan={"cohort": k, "local_steps": e})
            ledger = simulate_network(world, policy, 200)
            g = float(law.rounds(k, e, scenario.cell.loss_rate))
            totals[k, e] = np.array([ledger.cost, ledger.duration, ledger.energy]).mean(1) * g
    return totals


# The optimum.


@pytest.mark.parametrize("policy", ["even", "distributed", "optimal"])
@pytest.mark.parametrize("aim", ["cost", "duration", "energy"])
def test_the_joint_optimum_is_that_of_brute_force(policy, aim):
    totals = brute(SMALL, LAW, policy, 6)
    which = ["cost", "duration", "energy"].index(aim)
    best = min(totals, key=lambda at: totals[at][which])
    plan = choose_plan(evaluate_plans(SMALL, LAW, policy, 6), minimise=aim)
    assert (plan.cohort, plan.local_steps) == best
    found = [plan.cost.value, plan.duration.value, plan.energy.value]
    assert found == pytest.approx(totals[best], rel=1e-9)


def test_between_the_priced_cohorts_and_steps_the_cost_is_right_to_its_own_error():
    scenario = SMALL.using(clients={"count": 60})
    for policy in ("even", "optimal"):
        surface = price_round_grid(scenario, policy, 100)
        assert not {7, 15, 33, 57} & set(surface.cohorts.tolist())
        for k, e in ((7, 5), (15, 60), (33, 13), (57, 90)):
            world = scenario.using(plan={"cohort": k, "local_steps": e})
            ledger = simulate_network(world, policy, 200)
            near = 3 * float(surface.relative_se("cost", k, e)) + 0.005
            assert float(surface.cost(k, e)) == pytest.approx(ledger.cost.mean(), rel=near)
            assert float(surface.duration(k, e)) == pytest.approx(ledger.duration.mean(), rel=near)
            assert float(surface.energy(k, e)) == pytest.approx(ledger.energy.mean(), rel=0.02)


def test_all_that_train_pay_where_the_cohort_is_drawn_after_training():
    world = SMALL.using(task={"model_bits": 1e3})  # little to upload
    after = world.using(plan={"cohort_drawn": "after-training"})
    over, all_train = (evaluate_plans(s, LAW, "even", 6) for s in (world, after))
    at = over.at(2, 4)
    assert all_train.energy[at] > 2 * over.energy[at]  # K = 2 of 8
    assert all_train.duration[at] >= over.duration[at]


def test_measured_gains_are_priced_as_far_as_they_go():
    gains = np.full((30, 8), 1e-13)
    world = SMALL.using(cell={"gains": gains})
    plan = choose_plan(evaluate_plans(world, LAW, "optimal", 6))
    assert plan.cost.value > 0
    with pytest.raises(BadInput, match=r"cell\.gains holds one round"):
        evaluate_plans(SMALL.using(cell={"gains": gains[:1]}), LAW, "optimal", 6)


@given(
    st.floats(1, 200), st.floats(0.01, 2), st.floats(1, 400), st.floats(0, 0.6), st.floats(0, 10)
)
@examples(8)
def test_no_neighbour_is_better(mixing, drift, start, gamma, Td):
    world = SMALL.using(cell={"loss_rate": gamma, "broadcast_time": Td})
    over = evaluate_plans(world, GivenLaw(mixing=mixing, drift=drift, start=start), "even", 12)
    plan = choose_plan(over)
    k, e = plan.cohort, plan.local_steps
    law = GivenLaw(mixing=mixing, drift=drift, start=start)
    for near in ((k - 1, e), (k + 1, e), (k, e - 1), (k, e + 1), (k + 1, e + 1), (k - 1, e - 1)):
        if 1 <= near[0] <= 8 and 1 <= near[1] <= 12:
            there = world.using(plan={"cohort": near[0], "local_steps": near[1]})
            each = simulate_network(there, "even", 200).cost.mean()
            # E_l is interpolated between places that are priced
            assert plan.cost.value <= 1.001 * each * float(law.rounds(*near, gamma))
    assert plan.paper.cost >= plan.cost.value * (1 - 1e-9)


def test_one_client_is_a_fleet_too():
    world = SMALL.using(clients={"count": 1}, plan={"cohort": 1})
    plan = choose_plan(evaluate_plans(world, LAW, "optimal", 1))
    assert (plan.cohort, plan.local_steps) == (1, 1)


def test_a_law_is_applied_to_the_losses_of_the_scenario(fitted):
    """A pilot with independent losses says what worst-case ones would take."""
    world = SMALL.using(clients={"count": 30}, cell={"loss_rate": 0.5, "loss_kind": "worst-case"})
    plan = choose_plan(evaluate_plans(world, fitted, "even", 40))
    k, e = plan.cohort, plan.local_steps
    there = fitted.predict(np.array(k), np.array(e), 0.5, kind="worst-case")
    assert plan.rounds.value == pytest.approx(float(there[0]))
    assert plan.rounds.value == pytest.approx(float(FLOOR.rounds(k, e, 0.5, "worst-case")), rel=0.2)
    ledger = simulate_network(world.using(plan={"cohort": k, "local_steps": e}), "even", 200)
    assert plan.duration.value == pytest.approx(
        plan.rounds.value * ledger.duration.mean(), rel=0.02
    )


# What is unsure.


def test_intervals_hold_their_values_and_come_from_the_pilot(fitted):
    world = SMALL.using(clients={"count": 30})
    sure, unsure = (
        choose_plan(evaluate_plans(world, law, "optimal", 60)) for law in (fitted.law, fitted)
    )
    for plan in (sure, unsure):
        for name in (
            "cohort_interval",
            "local_steps_interval",
            "rounds",
            "duration",
            "energy",
            "cost",
        ):
            part = getattr(plan, name)
            assert part.low <= part.value <= part.high
    assert sure.rounds.low == sure.rounds.high
    assert unsure.rounds.low < 0.9 * unsure.rounds.value
    assert unsure.cost.high / unsure.cost.value >= unsure.rounds.high / unsure.rounds.value


@pytest.mark.parametrize("aim", ["cost", "energy"])
def test_sums_over_rounds_lie_in_their_intervals(aim):
    """With a law that is sure, what is left is how rounds differ: in energy more than in cost."""
    world = SMALL.using(cell={"broadcast_time": 20.0}, task={"model_bits": 3e7})
    law = GivenLaw(mixing=5.0, drift=0.5, start=20.0)
    plan = choose_plan(evaluate_plans(world, law, "optimal", 6), minimise=aim)
    g = round(plan.rounds.value)
    chosen = {"cohort": plan.cohort, "local_steps": plan.local_steps}
    ledger = simulate_network(world.using(plan=chosen), "optimal", 200 * g, seed=0)
    for measure in ("cost", "duration", "energy"):
        sums = getattr(ledger, measure).reshape(200, g).sum(1) * plan.rounds.value / g
        part = getattr(plan, measure)
        inside = np.mean((part.low <= sums) & (sums <= part.high))
        assert inside >= 0.8, (measure, inside)


def test_another_policy_takes_other_seconds_and_the_same_rounds():
    plan = choose_plan(evaluate_plans(SMALL, LAW, "optimal", 6))
    own, even = (totals_under(SMALL, name, plan) for name in ("optimal", "even"))
    assert own["duration"].value == pytest.approx(plan.duration.value, rel=1e-9)
    assert even["duration"].value > own["duration"].value
    assert even["rounds"] == own["rounds"] == plan.rounds


# Limits.


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


# Questions around a plan.


def asking(policy, most_steps, limits=None, **more):
    """Ask for a plan of at most `most_steps` steps, within limits, from the law by hand."""
    source = LawSource(law=LAW, paper=GivenLaw.of(LAW.coefficients), target=None)
    few_to_many = (1, SMALL.clients.count)
    known = {"clients": few_to_many, "steps": (1, most_steps), "limits": limits or Limits()} | more
    return Question(source=source, policy=policy, **known)


def test_the_least_bandwidth_is_enough_and_less_is_not():
    free = choose_plan(evaluate_plans(SMALL, LAW, "optimal", 6)).duration.value
    question = asking("optimal", 6, Limits(deadline=0.95 * free))
    found = least_bandwidth(SMALL, question)
    assert question.best_plan(found).duration.value <= 0.95 * free
    narrower = found.using(cell={"bandwidth": found.cell.bandwidth / 1.01})
    with pytest.raises(NoPlan):
        question.best_plan(narrower)


def test_a_band_is_found_where_wider_ones_take_too_much_energy():
    """Under this policy a round takes more joules the wider the band is: frequencies rise as
    uploads get shorter. So bands that keep the deadline and the budget have an end above."""
    task = {"model_bits": 3e6, "samples_per_step": "dataset", "energy_weight": 0.1}
    cell, few = {"bandwidth": 2e6, "distance": [50.0, 150.0]}, {"count": 4}
    world = SMALL.using(cell=cell, clients=few, task=task)
    fixed: dict[str, Any] = {"clients": (3, 3), "steps": (5, 5)}
    there = asking("optimal", 5, **fixed).best_plan(world)
    limits = Limits(deadline=1.01 * there.duration.value, energy=1.01 * there.energy.value)
    question = asking("optimal", 5, limits, **fixed)
    found = least_bandwidth(world, question)
    question.best_plan(found)
    assert 0.95 < found.cell.bandwidth / world.cell.bandwidth <= 1
    for factor in (1 / 1.01, 10.0):
        with pytest.raises(NoPlan):
            question.best_plan(found.using(cell={"bandwidth": factor * found.cell.bandwidth}))
    never = asking("optimal", 5, replace(limits, energy=1e-3 * limits.energy), **fixed)
    with pytest.raises(NoPlan, match="however wide the band, no plan keeps the energy budget"):
        least_bandwidth(world, never)


def test_no_bandwidth_makes_computing_faster():
    with pytest.raises(NoPlan, match="however wide the band, no plan keeps the deadline of 1 s"):
        least_bandwidth(SMALL, asking("even", 6, Limits(deadline=1.0)))
    idle = asking("even", 6, Limits(deadline=1e12))
    assert least_bandwidth(SMALL, idle).cell.bandwidth < 1e-4 * SMALL.cell.bandwidth


def test_sensitivity_asks_of_each_world_and_says_what_keeping_the_plan_costs():
    question = asking("even", 12)
    plan = question.best_plan(SMALL)
    worlds: dict[str, Any] = {w.change: w for w in sensitivity(SMALL, plan, question)}
    lossy, narrow, small = "uploads lost: 0.4, not 0.2", "half the band", "model compressed 4 times"
    assert list(worlds) == ["as it is", lossy, narrow, small]
    assert worlds["as it is"].cost == worlds["as it is"].kept_cost == plan.cost.value
    assert all(world.cost <= world.kept_cost for world in worlds.values())
    assert worlds[lossy].rounds > plan.rounds.value
    assert worlds[narrow].cost > plan.cost.value > worlds[small].cost
    assert worlds[narrow].cohort <= plan.cohort <= worlds[small].cohort
    assert "uploads lost: 0.1, not 0" in nearby_worlds(SMALL.using(cell={"loss_rate": 0.0}))
    assert (
        list(nearby_worlds(SMALL.using(cell={"loss_rate": 0.9})))[1]
        == "uploads lost: 0.949, not 0.9"
    )
    tight = asking("even", 12, Limits(deadline=1.02 * plan.duration.value))
    none = {w.change: w for w in sensitivity(SMALL, plan, tight)}
    assert none[small].note == "the rounds are those of the uncompressed model"
    assert "no plan keeps the deadline" in none[lossy].why_no_plan
    assert none[lossy].cohort is None


# Unit costs.


def test_unit_costs_by_the_papers_ways_and_by_monte_carlo():
    world = load_scenario("paper")
    found = unit_costs(world, "distributed")
    assert [unit.way for unit in found] == ["Section IV-D", "(17) and (18)", "Monte Carlo"]
    real = found[2].costs
    assert found[2].error == pytest.approx(0, abs=1e-12)
    ledger = simulate_network(world, "distributed", 200)
    assert real.upload * 10 == pytest.approx(ledger.upload_cost.mean())
    assert real.compute * 20 == pytest.approx(ledger.compute_cost.mean())
    for unit in found[:2]:
        assert abs(unit.error) < 0.05  # with the paper's numbers computing dwarfs uploading
        assert unit.costs.of(10, 20) == pytest.approx((1 + unit.error) * ledger.cost.mean())


def test_section_4d_by_hand():
    world = Scenario(clients=Clients(count=5, spread=0.0), plan=RoundPlan(cohort=2))
    unit = section_4d(world)
    f = (1 / (2 * 5e-27)) ** (1 / 3)  # (25)
    cycles = 5e5 * 500
    assert unit.compute == pytest.approx(cycles / f + 5e-27 * f**2 * cycles)
    everyone = simulate_network(world.using(plan={"cohort": 5}), "even", 50)
    mean = (everyone.upload_cost / everyone.called).mean()
    assert full_participation(world, "even") == pytest.approx(mean)


# Quantities.


@pytest.mark.parametrize(
    ("text", "value"), [("2h", 7200), ("90s", 90), ("1.5min", 90), ("90", 90), ("1e3 ms", 1)]
)
def test_times_as_people_write_them(text, value):
    assert parse_duration(text, "--deadline") == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("500J", 500), ("2kJ", 2000), ("1Wh", 3600), ("100mWh", 360), ("100 mWh", 360)),
        *(("5mJ", 0.005), ("2kWh", 7.2e6), ("1MWh", 3.6e9), ("1MJ", 1e6), ("1e3J", 1e3), ("7", 7)),
    ],
)
def test_energies_as_people_write_them(text, value):
    assert parse_energy(text, "--energy-budget") == value


@pytest.mark.parametrize(
    "text", ["", "h", "2 parsec", "-1s", "0s", "1..2s", "nan", "inf", "1e999s"]
)
def test_quantities_that_are_refused(text):
    with pytest.raises(BadInput, match=r"--deadline = .*: expected a time such as 90s"):
        parse_duration(text, "--deadline")


def test_units_that_are_not_known_are_met_with_those_that_are():
    with pytest.raises(
        BadInput, match=r"= 5mwh: expected an energy .*; units: J, .*, mWh, Wh, kWh"
    ):
        parse_energy("5mwh", "--energy-budget")
    with pytest.raises(BadInput, match=r"= 5 weeks: .*; units: s, ms, min, h, d$"):
        parse_duration("5 weeks", "--deadline")


def test_times_as_people_read_them():
    assert [readable_duration(x) for x in (3.2, 300, 8000, 3e5)] == [
        "3.2 s",
        "5 min",
        "2.22 h",
        "3.47 d",
    ]


# The command.


def plan_of(fedcell, *words):
    said = fedcell("plan", "paper", "--mixing", 30, "--drift", 0.5, "--start", 40, *words, "--json")
    assert said.code == 0, said.err
    return json.loads(said.out)


def test_the_choice_of_a_plan_is_two_whole_numbers():
    plan = plan_training(SMALL, LAW, region=Region(policy="even", steps=(1, 6)))
    assert type(plan.cohort) is type(plan.local_steps) is int
    assert SMALL.with_plan(plan.cohort, plan.local_steps) == plan.apply_to(SMALL).using(
        plan={"rounds": SMALL.plan.rounds}
    )
    assert len(range(plan.cohort)) == plan.cohort_interval.value
    assert plan.to_dict()["cohort"] == plan.cohort


def test_a_plan_file_of_format_3_is_read(tmp_path):
    old = json.loads(OLD_PLAN.read_text())
    assert old["format"] == 3
    plan = TrainingPlan.load(OLD_PLAN)
    for name in ("cohort", "local_steps"):
        assert getattr(plan, name) == old[name]["value"]
        assert vars(getattr(plan, f"{name}_interval")) == old[name]
    assert vars(plan.cost) == old["cost"]
    plan.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["format"] == 4
    assert TrainingPlan.load(tmp_path / "plan.json").to_dict() == plan.to_dict()
    (tmp_path / "damaged.json").write_text(OLD_PLAN.read_text().replace('"low": 3,', '"low": 2,'))
    with pytest.raises(BadFile, match="is damaged"):
        TrainingPlan.load(tmp_path / "damaged.json")


def test_the_command_answers_in_json(fedcell):
    plan = plan_of(fedcell, "--policy", "distributed", "--steps", "1..40", "--sensitivity")
    for name in INTERVALS:
        assert plan[name]["low"] <= plan[name]["value"] <= plan[name]["high"]
    assert plan["paper"]["cost"] >= plan["cost"]["value"]
    assert {"cohort", "local_steps", "cost"} <= set(plan["paper"])
    assert len(plan["sensitivity"]) == 4
    assert plan["policies"][0]["policy"] == "distributed"
    assert plan["unit_costs"][2]["error"] == pytest.approx(0, abs=1e-9)


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


def test_the_command_in_words(fedcell, tmp_path):
    words = ["--mixing", 30, "--drift", 0.5, "--start", 4000, "--figure", tmp_path / "p.png"]
    said = fedcell("plan", "paper", *words, "--steps", "1..3", "--deadline", "1h")
    (tmp_path / "mine.toml").write_text("[task]\nenergy_weight = 0.25\n")
    weighed = fedcell("plan", tmp_path / "mine.toml", *words, "--steps", "1..3").out
    assert "the cost counts a joule as 0.25 s" in weighed
    detailed = fedcell("plan", "paper", *words, "--steps", "1..3", "--details")
    assert said.code == detailed.code == 0
    for part in (
        "call 1 client a round and let each train for 3 steps",
        "Under each policy",
        "note: 3 steps are the most that were evaluated",
    ):
        assert part in said.out
    for part in ("the paper's closed forms say K = ", "Unit costs at this K and E_l"):
        assert part in detailed.out
        assert part not in said.out
    assert (tmp_path / "p.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no law of rounds: give --pilot (fedcell pilot makes one), or --mixing"),
        (["--mixing", 1], "or --drift, --start"),
        (["--mixing", -1, "--drift", 1, "--start", 1], "mixing = -1.0: expected a number from 0"),
        (["--mixing", "nan", "--drift", 1, "--start", 1], "mixing = nan: expected a number from"),
        (["--pilot", "no.json"], "no.json: cannot be read"),
        (
            ["--solve-for", "bandwidth"],
            "--solve-for bandwidth: give the deadline to keep",
        ),
        (["--deadline", "soon"], "--deadline = soon: expected a time such as 90s"),
        (["--energy-budget", "5J/round"], "--energy-budget = 5J/round: expected as in 500J"),
        (["--energy-budget", "much"], "--energy-budget = much: expected an energy such as"),
        (["--figure", "p.txt"], "p.txt: the name must end in one of: png"),
        (["--out", "p.txt"], "p.txt: the name must end in one of: json"),
        (["--policy", "evn"], "evn is not a policy: did you mean even?"),
        (["--steps", "1..0"], "--steps = 1..0: expected a range"),
        (["--minimise", "regret"], "--minimise"),
        (
            ["--confidence", "0.95"],
            "give a deadline or an energy to keep (--deadline, --energy-budget)",
        ),
        (["--energy-budget", "5J/"], "--energy-budget = 5J/: expected as in 500J"),
        (["--target-loss", "nan"], "--target-loss = nan: expected a finite number above 0"),
    ],
)
def test_invalid_plan_options_are_refused(fedcell, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    law = [] if {"--mixing", "--pilot"} & set(words) or not words else ["--mixing", 1, "--drift", 1]
    law += ["--start", 1] if law else []
    answer = fedcell("plan", "paper", *law, *words)
    assert answer.code == 2
    assert said in answer.err
    assert list(tmp_path.iterdir()) == []


def test_limits_that_cannot_be_kept_end_the_command(fedcell):
    words = ["--mixing", 1, "--drift", 1, "--start", 1, "--deadline", "1ms"]
    answer = fedcell("plan", "paper", *words)
    assert answer.code == 2
    assert "no plan keeps the deadline of 0.001 s: the least is" in answer.err
    assert answer.out == ""


def test_a_law_by_hand_claims_no_interval(fedcell, tmp_path):
    said = fedcell("plan", "paper", *FAST, "--mixing", 30, "--drift", 0.5, "--start", 40)
    assert "another pilot" not in said.out
    few = fedcell("plan", "paper", *FAST, "--mixing", 1e-9, "--drift", 0, "--start", 0, "--json")
    assert json.loads(few.out)["rounds"]["value"] == 1  # a round at least
    many = fedcell("plan", "paper", *FAST, "--mixing", 1e30, "--drift", 0, "--start", 0)
    assert (many.code, "check its coefficients" in many.err) == (2, True)
    plan = tmp_path / "plan.json"
    words = ["plan", "paper", *FAST, "--mixing", 30, "--drift", 0, "--start", 40, "--out", plan]
    assert fedcell(*words).code == 0
    strict = json.loads(plan.read_text(), parse_constant=lambda what: pytest.fail(what))
    assert strict["paper"]["unclipped_local_steps"] is None  # infinite
    assert fedcell(*words).code == 0  # a plan may be written over
    plan.write_text('{"else": 1}')
    assert "holds something else than a plan" in fedcell(*words).err
    assert plan.read_text() == '{"else": 1}'


def test_a_plan_comes_back_from_its_file(tmp_path):
    world, pilot = piloted_digits(), PILOT
    limits = Limits(deadline=60.0, energy_per_client=5.0)
    plan = plan_training(
        world, pilot, limits=limits, what_if=True, region=Region(minimise="energy")
    ).named("digits")
    plan.save(tmp_path / "plan.json")
    again = TrainingPlan.load(tmp_path / "plan.json")
    assert again.to_dict() == plan.to_dict()
    assert again.law == GivenLaw.of(plan.law.coefficients)  # not the runs' spread
    assert again.scenario == world
    assert again.apply_to() == plan.apply_to()
    assert again.limits == limits
    assert repr(again) == repr(plan)
    content = json.loads((tmp_path / "plan.json").read_text())
    content["policies"] = content["policies"][1:]  # without its own
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(BadFile, match="policies: optimal is not among them; plan again with"):
        TrainingPlan.load(tmp_path / "plan.json")


def test_a_plan_is_applied_with_its_k_its_e_l_and_its_target():
    world = load_scenario("digits").using(learning={"evaluate_every": 7})
    law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    plan = plan_training(world, law, target=0.7, region=Region(policy="even", steps=(1, 30)))
    there = plan.apply_to()
    assert (there.plan.cohort, there.plan.local_steps) == (
        plan.cohort,
        plan.local_steps,
    )
    assert there.learning is not None
    assert (there.learning.target, there.learning.evaluate_every) == (0.7, 1)
    assert there.plan.rounds == plan.most_rounds >= plan.rounds.value
    assert plan.differences(there, Target(loss=0.7)) == []
    assert plan.differences(there, Target(loss=0.8)) == ["another target"]
    narrow = there.using(cell={"bandwidth": 1e6})
    assert plan.differences(narrow, Target(loss=0.7)) == ["cell.bandwidth"]


OWN_LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)
OTHERS = {"source", "target", "limits", "solve_for"}  # arguments beside the region


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": (1, 0)}, r"`steps` = \(1, 0\): expected two whole numbers from 1"),
        ({"steps": 2.5}, "`steps` = 2.5: expected two whole numbers from 1"),
        ({"clients": (9, 20)}, r"`clients` = \(9, 20\): expected two whole numbers from 1 to 8"),
        ({"solve_for": "energy"}, "`solve_for` = energy: expected bandwidth"),
        ({"limits": {"deadline": 3}}, "`limits` = .*: expected Limits"),
        ({"target": "0.2"}, "`target` = 0.2: expected a finite number above 0"),
        ({"source": 5.0}, "`source` = 5.0: expected a Pilot, the path of its file, or a law"),
        ({"minimise": "regret"}, "`minimise` = regret: expected one of cost, duration, energy"),
        ({"source": None}, "a plan needs a `pilot` .* or a `law`"),
        ({"policy": "evn"}, "evn is not a policy: did you mean even"),
    ],
)
def test_calls_that_are_refused_in_a_sentence(given, message):
    region = {"policy": "even", "steps": (1, 3)} | given
    others = {name: region.pop(name) for name in OTHERS & region.keys()}
    with pytest.raises(BadInput, match=message):
        plan_training(SMALL, **{"source": OWN_LAW} | others, region=Region(**region))


def test_a_plan_says_which_limits_it_keeps_and_how_surely(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world, pilot = piloted_file(tmp_path), PILOT
    words = ["plan", world, "--pilot", pilot, "--deadline", "50s", "--energy-budget", "900J"]
    said = " ".join(fedcell(*words).out.split())
    assert re.search(r"keeps the deadline of 50 s with a chance of \d\d%", said)
    assert re.search(r"keeps the energy budget of 900 J with a chance of \d+%", said)
    assert "keeps the" not in fedcell("plan", world, "--pilot", pilot).out


def test_a_plan_for_another_target_than_the_scenarios_says_so():
    world = piloted_digits().using(learning={"target": 0.5})
    plan, held = plan_training(world, PILOT, region=Region(policy="even")), world.goal()
    assert held is not None
    assert plan.target == Target(loss=0.2, hold=held.hold)
    assert plan.notes[0].startswith(
        f"the scenario's own target is training loss 0.5 {held.definition}, and this plan is "
        f"for training loss 0.2 {held.definition}: `loss` chooses"
    )
    asked = plan_training(world, PILOT, target=0.3, region=Region(policy="even"))
    assert not [note for note in asked.notes if "own target" in note]


def test_limits_may_be_text():
    assert Limits(deadline="2h") == Limits(deadline=7200.0)
    assert Limits(energy="2kJ").energy == 2000.0
    with pytest.raises(BadInput, match="deadline = soon: expected a time such as 90s"):
        Limits(deadline="soon")


def test_worlds_without_a_plan_say_why(fedcell):
    law = ["--mixing", 30, "--drift", 0.5, "--start", 40, "--policy", "even", "--steps", "1..5"]
    free = json.loads(fedcell("plan", "paper", *law, "--json").out)["duration"]["value"]
    words = ["--deadline", f"{1.001 * free}s", "--sensitivity"]
    said = " ".join(fedcell("plan", "paper", *law, *words).out.split())
    assert "note: half the band: no plan keeps the deadline of" in said


def test_notes_speak_of_options_on_the_command_line_and_of_arguments_in_python(fedcell):
    law = GivenLaw(mixing=1.0, drift=0.0, start=4000.0)
    plan = plan_training(Scenario(), law, region=Region(policy="even", steps=(1, 3)))
    assert plan.notes == ("3 steps are the most that were evaluated: `steps` allows more",)
    words = ["--mixing", 1, "--drift", 0, "--start", 4000, "--policy", "even", "--steps", "1..3"]
    said = " ".join(fedcell("plan", "paper", *words).out.split())
    assert "note: 3 steps are the most that were evaluated: --steps allows more" in said


def test_a_law_by_hand_is_not_in_doubt_however_uploads_are_lost():
    for gamma in (0.3, 0.6):
        world = load_scenario("digits").using(
            cell={"loss_rate": gamma, "loss_kind": "worst-case"}, learning={"target": 0.2}
        )
        law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
        plan = plan_training(world, law, region=Region(steps=(1, 80)))
        assert plan.cohort_interval.low == plan.cohort == plan.cohort_interval.high


def test_policies_beside_a_plan_are_priced_as_its_own_is(fitted):
    plan = plan_training(
        load_scenario("digits"), fitted.law, region=Region(policy="even", steps=(1, 80))
    )
    staged = plan_training(load_scenario("digits"), fitted.law, region=Region(steps=(1, 80)))
    assert plan.policies["even"]["cost"] == plan.cost
    k, e = plan.cohort, plan.local_steps
    world = prepare_training(load_scenario("digits")).scenario.with_plan(k, e)
    rates = {n: simulate_network(world, n, 200).cost.mean() for n in ("even", "optimal-staged")}
    beside = plan.policies["optimal-staged"]["cost"].value / plan.cost.value
    assert beside == pytest.approx(rates["optimal-staged"] / rates["even"], rel=0.01)
    asked, free = (" ".join(each.summary().split()) for each in (plan, staged))
    assert "even was asked for, or keeps the limits; optimal-staged would make the" in asked
    assert "optimal-staged makes the cost least, so the plan has it" in free


def test_infinite_limits_are_no_limits(grid):
    assert Limits() == Limits(deadline=inf, energy=inf, energy_per_client=inf)
    assert Limits().mean_energy_per_client == inf
    assert Limits().given() == {}
    assert allowed_plans(grid, {}).all()
    free, none = choose_plan(grid), choose_plan(grid, Limits())
    assert (free.cohort, free.local_steps, free.cost) == (none.cohort, none.local_steps, none.cost)


def test_laws_that_fit_as_well_move_the_best_k_and_e_l(fitted):
    """The intervals of K and E_l are where laws as likely would have their best."""
    world = SMALL.using(clients={"count": 30})
    grid = evaluate_plans(world, fitted, "optimal", 60)
    plan = choose_plan(grid)
    assert plan.local_steps_interval.low < plan.local_steps <= plan.local_steps_interval.high
    sure = choose_plan(evaluate_plans(world, fitted.law, "optimal", 60))
    assert sure.local_steps_interval.low == sure.local_steps_interval.high


def test_a_plan_has_the_policy_that_minimises_its_objective():
    for aim in ("cost", "duration", "energy"):
        plan = plan_training(SMALL, LAW, region=Region(minimise=aim, steps=(1, 6)))
        totals = {name: each[aim].value for name, each in plan.policies.items()}
        assert totals[plan.policy] <= min(totals.values()) * 1.002, (aim, totals)
    assert plan_training(SMALL, LAW, region=Region(steps=(1, 6))).policy == "optimal-staged"
