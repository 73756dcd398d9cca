"""check_policy: passes ours, and catches each way in which a policy can be wrong."""

import numpy as np
import pytest

from fedcell import Scenario, compare
from fedcell.errors import BadInput
from fedcell.network.policies.base import Broadcast, mean_freq
from fedcell.network.policies.exact import OptimalStaged
from fedcell.network.policies.names import NAMED
from fedcell.network.policies.testing import check_policy, sample_problems
from fedcell.policies import EqualFinish, Optimal, Problem, Schedule, policy_by_name

told = Broadcast(freq=mean_freq(5e-27, 1.0), samples=500.0)


@pytest.mark.parametrize("name", NAMED)
def test_built_in_policies_pass(name):
    check_policy(policy_by_name(name, told))


def even_share(problem: Problem) -> np.ndarray:
    return np.full(problem.kappa.shape, 1 / problem.kappa.shape[-1])


def too_much_band(problem: Problem) -> Schedule:
    return Schedule(2 * even_share(problem), problem.freq_max)


def no_band_for_the_first(problem: Problem) -> Schedule:
    share = even_share(problem)
    share[..., 0] = 0
    return Schedule(share, problem.freq_max)


def too_fast(problem: Problem) -> Schedule:
    return Schedule(even_share(problem), 1.1 * problem.freq_max)


def first_come_first_served(problem: Problem) -> Schedule:
    share = 0.5 ** np.arange(1, problem.kappa.shape[-1] + 1)
    return Schedule(np.broadcast_to(share, problem.kappa.shape), problem.freq_max)


def looks_at_other_rounds(problem: Problem) -> Schedule:
    f = np.clip(3e8 * problem.kappa / problem.kappa.max(), problem.freq_min, problem.freq_max)
    return Schedule(even_share(problem), f)


def forgets_the_rounds(problem: Problem) -> Schedule:
    k = problem.kappa.shape[-1]
    return Schedule(np.full(k, 1 / k), problem.freq_max.reshape(-1, k)[0])


@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (too_much_band, BadInput, r"\(22b\)"),
        (no_band_for_the_first, BadInput, r"\(22b\)"),
        (too_fast, BadInput, r"\(22c\)"),
        (forgets_the_rounds, BadInput, "shapes"),
        (first_come_first_served, AssertionError, "order of the clients"),
        (looks_at_other_rounds, AssertionError, "alone is not scheduled as in"),
    ],
)
def test_each_fault_is_caught(policy, error, message):
    with pytest.raises(error, match=message):
        check_policy(policy)


def test_a_class_gets_the_broadcast_of_every_kind_of_round():
    told_of = set()

    class Told(EqualFinish):
        def __call__(self, problem: Problem, /) -> Schedule:
            told_of.add(self.broadcast.freq)
            return super().__call__(problem)

    check_policy(Told)
    assert float("inf") in told_of  # where energy is free
    assert len(told_of) > 2


def test_classes_callables_and_names_are_compared_alike():
    def mine(problem: Problem) -> Schedule:
        return Schedule(even_share(problem), problem.freq_max)

    found = compare(Scenario(), ["even", mine, EqualFinish], 5, 0)
    assert [costs.policy for costs in found.policies] == ["even", "mine", "EqualFinish"]
    by_name = compare(Scenario(), {"a": "equal-finish", "b": EqualFinish}, 5, 0)
    assert by_name["b"].difference["staged_cost"].value == 0
    assert compare(Scenario(), "even", 5, 0).policies[0].policy == "even"
    with pytest.raises(BadInput, match="answered with a NoneType"):
        compare(Scenario(), {"none": lambda _: None}, 5, 0)
    with pytest.raises(BadInput, match="answered with a NoneType"):
        check_policy(lambda _: None)
    assert compare(Scenario(), mine, 5).policies[0].policy == "mine"
    assert compare(Scenario(), [OptimalStaged()], 5).policies[0].policy == "OptimalStaged"
    for wrong in (None, 5, [], {}, [5], {"a": 5}):
        with pytest.raises(BadInput, match="`policies`: "):
            compare(Scenario(), wrong, 5)
    for rounds in (0, True, 2.5, range(3, 6), "3"):
        with pytest.raises(BadInput, match=r"`rounds` = .*: expected a whole number above 0"):
            compare(Scenario(), ["even"], rounds)
    with pytest.raises(BadInput, match="5 is not the name of a policy"):
        policy_by_name(5, Broadcast(1.0, 1.0))
    with pytest.raises(BadInput, match="give each once"):
        compare(Scenario(), ["even", "even"], 5, 0)
    for fleets in (0, 2.5):
        with pytest.raises(BadInput, match="`fleets` = "):
            compare(Scenario(), ["even"], 5, 0, fleets=fleets)


@pytest.mark.parametrize("name", NAMED)
def test_any_axes_may_stand_in_front(name):
    problem = sample_problems(6)["a heavy upload"]
    policy = policy_by_name(name, told)
    flat = policy(problem)
    deep = policy(problem[np.arange(6).reshape(2, 1, 3)])
    assert deep.share.shape == (2, 1, 3, 10)
    np.testing.assert_allclose(deep.share.reshape(6, 10), flat.share, rtol=1e-9)
    np.testing.assert_allclose(deep.freq.reshape(6, 10), flat.freq, rtol=1e-9)


def test_the_samples_hold_bounds_that_bind():
    tight = sample_problems()["tight frequency bounds"]
    best = Optimal()(tight)
    assert (best.freq == tight.freq_max).any()
    assert (best.freq == tight.freq_min).any()


def test_a_policy_that_breaks_a_bound_is_named_with_the_number():
    def greedy(problem: Problem) -> Schedule:
        return Schedule(even_share(problem), 2 * problem.freq_max)

    def hungry(problem: Problem) -> Schedule:
        return Schedule(2 * even_share(problem), problem.freq_max)

    with pytest.raises(
        BadInput, match=r"greedy breaks \(22c\): .*; 4e\+09 is not from 1e\+07 to 2e\+0"
    ):
        compare(Scenario(), ["even", greedy], 5)
    with pytest.raises(BadInput, match=r"hungry breaks \(22b\): .* the largest sum 2"):
        compare(Scenario(), ["even", hungry], 5)
