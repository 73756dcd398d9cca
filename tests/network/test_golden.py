"""One ledger of one seed, to the last digits that a machine may differ in.

A changed number here changes what every user sees: say why in the commit.
"""

import pytest
from numpy.testing import assert_allclose

from fedcell import Scenario, draw_fleet, draw_trace, simulate_network

SCENARIO = Scenario().using(
    task={"model_bits": 3e7},
    clients={"count": 20, "spread": 0.5},
    cell={"loss_rate": 0.3, "distance": (100.0, 250.0)},
    plan={"cohort": 5},
)
GOLDEN = {
    "even": {
        "objective": [161.5028630956244, 200.0739490837123, 449.9616567652046],
        "energy": [139.802191362185, 171.3690633805449, 373.513243251773],
    },
    "distributed": {
        "objective": [153.686757674065, 182.41697238304707, 510.6629102790956],
        "energy": [143.65530948640622, 181.90665979612362, 381.72513607703024],
    },
    "equal-finish": {
        "objective": [147.13695424856056, 176.25971375228784, 399.85348449098126],
        "energy": [143.65530948640622, 181.90665979612362, 381.72513607703024],
    },
    "optimal-staged": {
        "objective": [147.12756543094565, 175.85788980140632, 399.6873293460651],
        "energy": [142.29603109228768, 171.48829850212556, 375.4405677453433],
    },
    "optimal": {
        "objective": [146.25336413320036, 175.42761745972481, 395.888991843955],
        "energy": [141.2799803094361, 170.9992158048539, 370.2864349656727],
    },
}
COHORT = [[1, 11, 13, 7, 6], [2, 3, 14, 10, 15], [0, 14, 2, 16, 17]]
LOST = [[0, 0, 1, 0, 1], [0, 1, 1, 1, 0], [0, 1, 0, 0, 0]]


@pytest.mark.parametrize("policy", GOLDEN)
def test_the_costs_of_three_rounds(policy):
    ledger = simulate_network(SCENARIO, policy, 3, seed=7)
    assert_allclose(ledger.objective, GOLDEN[policy]["objective"], rtol=1e-9)
    assert_allclose(ledger.energy, GOLDEN[policy]["energy"], rtol=1e-6)


def test_who_was_called_and_who_was_lost():
    trace = draw_trace(SCENARIO, draw_fleet(SCENARIO, 7), 3, 7)
    assert trace.cohort.tolist() == COHORT
    assert trace.lost.astype(int).tolist() == LOST
