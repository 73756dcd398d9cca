"""What needs an optional extra: a conic solver as second opinion on (22)."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fedcell.network.policies.testing import sample_problems
from fedcell.policies import Optimal, price

pytestmark = pytest.mark.extras
pytest.importorskip("cvxpy", reason="cvxpy is not installed: pip install fedcell[bench]")

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))


@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("kind", sample_problems(1))
def test_a_conic_solver_finds_nothing_better(kind):
    from scheduling import rebuilt

    problem = sample_problems(4)[kind]
    ours = price(problem, Optimal()(problem)).objective
    peer = np.array([rebuilt(problem[t]) for t in range(4)])
    assert (ours <= peer * (1 + 1e-7)).all()
    assert (ours >= peer * (1 - 1e-4)).all()  # what it finds, when it is right, is ours


@pytest.mark.filterwarnings("ignore")
def test_the_compiled_peer_solves_the_same_problem():
    from scheduling import compiled, rebuilt, rounds_of

    problem = rounds_of(10, 2)
    solve = compiled(10)
    for t in range(2):
        assert np.isclose(solve(problem[t]), rebuilt(problem[t]), rtol=1e-6)
