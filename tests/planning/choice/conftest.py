"""Plans against brute force, limits, and the questions around them."""

import pytest

from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.law.fit import fit_law
from support.laws import FLOOR, observed
from support.planned import LAW, SMALL


@pytest.fixture(scope="module")
def fitted():
    """A law from runs."""
    return fit_law(observed(FLOOR, seeds=6, seed_sd=0.15, run_sd=0.1))


@pytest.fixture(scope="module")
def grid():
    """What every plan of a small world takes."""
    return evaluate_plans(SMALL, LAW, "even", 12)
