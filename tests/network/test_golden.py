"""One ledger of one seed, to the last digits that a machine may differ in.

A changed number here changes what every user sees: say why in the commit.
"""

import pytest
from numpy.testing import assert_allclose

from fedcell import Scenario
from fedcell.network import draw_fleet, draw_trace, simulate_network

SCENARIO = Scenario().using(
    task={"model_bits": 3e7},
    clients={"count": 20, "spread": 0.5},
    cell={"loss_rate": 0.3, "distance": (100.0, 250.0)},
    plan={"cohort": 5},
)
GOLDEN = {
    "even": {
        "objective": [180.60879524457545, 612.0745075042116, 436.0723351366109],
        "energy": [158.72212713889525, 447.59654595478065, 355.7535731583809],
    },
    "distributed": {
        "objective": [172.4397942852243, 513.4797645490345, 456.5471117352374],
        "energy": [165.27582906237205, 447.0939415486349, 355.0356489915663],
    },
    "equal-finish": {
        "objective": [167.16897906443833, 493.3480184300812, 380.09115496206164],
        "energy": [165.27582906237205, 447.0939415486349, 355.0356489915663],
    },
    "optimal-staged": {
        "objective": [167.12457636606257, 493.18415386200445, 380.03091155305435],
        "energy": [162.2128019776824, 451.8737455461353, 358.1061019351072],
    },
    "optimal": {
        "objective": [166.01815705117338, 489.63860756287096, 376.7044762414317],
        "energy": [160.91543975522885, 446.45346989542315, 353.54661710268175],
    },
}
COHORT = [[11, 1, 18, 17, 13], [17, 15, 2, 4, 11], [1, 19, 5, 16, 17]]
LOST = [[0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [0, 1, 0, 0, 0]]


@pytest.mark.parametrize("policy", GOLDEN)
def test_the_costs_of_three_rounds(policy):
    ledger = simulate_network(SCENARIO, policy, 3, seed=7)
    assert_allclose(ledger.objective, GOLDEN[policy]["objective"], rtol=1e-9)
    assert_allclose(ledger.energy, GOLDEN[policy]["energy"], rtol=1e-6)


def test_which_clients_were_called_and_which_uploads_lost():
    trace = draw_trace(SCENARIO, draw_fleet(SCENARIO, 7), 3, 7)
    assert trace.cohort.tolist() == COHORT
    assert trace.lost.astype(int).tolist() == LOST
