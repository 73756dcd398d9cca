"""The least band, and other worlds beside a plan."""

from dataclasses import replace
from typing import Any

import pytest

from fedcell.core.errors import NoPlan
from fedcell.planning.choice.choose import choose_plan
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.choice.limits import Limits
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.law_source import LawSource
from fedcell.planning.question import Question
from fedcell.planning.whatif import least_bandwidth, nearby_worlds, sensitivity
from support.planned import LAW, SMALL


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
