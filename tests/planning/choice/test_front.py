"""The Pareto front of plans, against every pair of plans; and the joules of devices by part."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcell import (
    GivenLaw,
    Limits,
    Region,
    load_pilot,
    load_plan,
    load_scenario,
    plan_training,
)
from fedcell.errors import BadInput
from fedcell.planning.choice.front import undominated
from fedcell.planning.costs.devices import device_energy, device_parts

LAW = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(POINTS)
def test_no_point_beats_those_of_the_front_and_each_other_is_beaten(points: list[tuple[int, int]]):
    pairs = np.array(points, float)
    front = undominated(pairs[:, 0], pairs[:, 1]).tolist()
    kept = {tuple(pairs[i]) for i in front}
    for point in {tuple(p) for p in pairs}:
        beaten = any(a <= point[0] and b <= point[1] and (a, b) != point for a, b in pairs)
        assert (point in kept) == (not beaten)
    assert len(kept) == len(front)
    assert [pairs[i][0] for i in front] == sorted(pairs[i][0] for i in front)


def test_the_front_holds_the_fastest_plan_and_the_least_energy():
    plan = plan_training(load_scenario("digits"), LAW)
    front = plan.front()
    assert plan.grid is not None
    assert front[0].duration == plan.grid.duration.min()
    assert front[-1].energy == plan.grid.energy.min()
    for each in front[:: max(1, len(front) // 7)]:
        place = plan.grid.at(each.cohort, each.local_steps)
        assert (each.duration, each.energy) == (
            plan.grid.duration[place],
            plan.grid.energy[place],
        )


def test_the_front_keeps_the_limits():
    free = plan_training(load_scenario("digits"), LAW).front()
    limit = (free[0].duration + free[-1].duration) / 2
    bound = plan_training(load_scenario("digits"), LAW, limits=Limits(deadline=limit)).front()
    assert [asdict(e) for e in bound] == [asdict(e) for e in free if e.duration <= limit]
    assert 0 < len(bound) < len(free)


def test_a_plan_of_a_file_has_no_front(tmp_path):
    plan_training(load_scenario("digits"), LAW).save(tmp_path / "plan.json")
    with pytest.raises(BadInput, match="does not hold the other plans"):
        load_plan(tmp_path / "plan.json").front()


WORDS = ["plan", "digits", "--mixing", 50, "--drift", 0.02, "--start", 250, "--floor", 12]


def test_the_command_shows_the_front(fedcell):
    said = fedcell(*WORDS, "--front")
    assert "Pareto front of time and energy, under optimal-staged" in said.out
    assert "12 of 142 plans of the front" in said.out
    told = json.loads(fedcell(*WORDS, "--front", "--json").out)
    plan = plan_training(load_scenario("digits"), LAW)
    assert told["front"] == [asdict(each) for each in plan.front()]


@pytest.mark.parametrize("name", ["digits", "factory"])
def test_joules_by_part_sum_to_those_of_each_device(name: str):
    plan = plan_training(load_scenario(name), LAW)
    assert plan.grid is not None
    world, fleet = plan.grid.scenario.with_plan(plan.cohort, plan.local_steps), plan.grid.fleet
    parts = device_parts(world, fleet, plan.policy)
    total = device_energy(world, fleet, plan.policy, 0).mean
    assert sum(parts.values()) == pytest.approx(total)
    assert all((joules >= 0).all() for joules in parts.values())
    # What all devices spend in a run is what the plan says, which prices rounds another way.
    assert plan.rounds.value * total.sum() == pytest.approx(plan.energy.value, rel=0.05)


def test_idle_training_is_a_part_of_its_own():
    world = load_scenario("paper").using(plan={"cohort_drawn": "after-training"})
    plan = plan_training(world, LAW)
    assert plan.grid is not None
    planned = world.with_plan(plan.cohort, plan.local_steps)
    parts = device_parts(planned, plan.grid.fleet, plan.policy)
    assert parts["wait"].sum() > parts["train"].sum()


PILOT = Path("benchmarks/results/planning/pilot-digits.json")


def test_another_loss_rate_is_planned_by_the_law(fedcell):
    digits, pilot = load_scenario("digits"), load_pilot(PILOT)
    lossy = digits.using(cell={"loss_rate": 0.4})
    with pytest.raises(BadInput, match=r"tried cell.loss_rate 0.1, and this scenario has 0.4: run"):
        plan_training(lossy, pilot)
    by_law = plan_training(lossy, pilot, region=Region(other_loss_rate=True))
    assert "the rounds follow from its law, not from runs" in by_law.notes[0]
    law = pilot.fit()
    rounds = float(law.predict(by_law.cohort, by_law.local_steps, 0.4)[0])
    assert by_law.rounds.value == pytest.approx(rounds)
    own = float(law.predict(by_law.cohort, by_law.local_steps, 0.1)[0])
    assert rounds > own
    tried = {(s.cohort, s.local_steps) for s in pilot.tried}
    assert (by_law.cohort, by_law.local_steps) in tried
    told = json.loads(fedcell("plan", "digits", "--pilot", PILOT, "--loss-rate", 0.4, "--json").out)
    assert told["cost"] == asdict(by_law.cost)
    same = plan_training(digits, pilot, region=Region(other_loss_rate=True))
    assert same.to_dict() == plan_training(digits, pilot).to_dict()
