"""Unit costs: by the ways of the paper, by Monte Carlo, and by hand."""

import pytest

from fedcell import Clients, RoundPlan, Scenario, load_scenario
from fedcell.network import simulate_network
from fedcell.planning.costs.units import full_participation, section_4d, unit_costs


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
