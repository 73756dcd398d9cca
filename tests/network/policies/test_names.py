"""Policies by name: built in, of an installed package, or `module:callable`."""

import pytest

from fedcell import compare
from fedcell.core import plugins
from fedcell.errors import BadInput
from fedcell.network import load_round
from fedcell.network.policies.names import NAMED, POLICY_GROUP
from fedcell.policies import Broadcast, Even, check_policy, policy_by_name
from fedcell.scenario.scenario import Scenario
from support.plugins import install_package

CODE = """
import numpy as np
from fedcell.policies import Schedule

class Fastest:
    def __call__(self, problem):
        shape = problem.band_time.shape
        return Schedule(share=np.full(shape, 1 / shape[-1]), freq=problem.freq_max)

class NeedsMore:
    def __init__(self, broadcast):
        raise KeyError("more")

def no_schedule(problem):
    return 3

number = 5
"""
POINTS = {
    "fastest": "policy_plugin:Fastest",
    "even": "policy_plugin:Fastest",
    "lost": "policy_plugin:lost",
    "needs-more": "policy_plugin:NeedsMore",
    "no-schedule": "policy_plugin:no_schedule",
    "number": "policy_plugin:number",
}


@pytest.fixture
def problem():
    return load_round("docs/round.json")


@pytest.fixture
def _plugin(tmp_path, monkeypatch):
    install_package(tmp_path, monkeypatch, "policy_plugin", CODE, {POLICY_GROUP: POINTS})


@pytest.mark.usefixtures("_plugin")
def test_an_installed_package_adds_a_policy(problem):
    policy = policy_by_name("fastest", Broadcast.among(problem))
    check_policy(policy, rounds=3)
    assert (policy(problem).freq == problem.freq_max).all()
    costs = compare(Scenario(), ["even", "fastest"], rounds=5)
    assert [costs.policy for costs in costs.policies] == ["even", "fastest"]


@pytest.mark.usefixtures("_plugin")
def test_a_package_cannot_replace_a_built_in_policy(problem):
    broadcast = Broadcast.among(problem)
    assert policy_by_name("even", broadcast) == Even(broadcast)


def test_packages_are_not_searched_for_built_in_policies(problem, monkeypatch):
    def refuse(group):
        raise AssertionError(group)

    monkeypatch.setattr(plugins, "_entry_points", refuse)
    for name in NAMED:
        policy_by_name(name, Broadcast.among(problem))


@pytest.mark.usefixtures("_plugin")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("lost", r"^lost = 'policy_plugin:lost' of fedcell\.policies, in policy_plugin, cannot be"),
        ("needs-more", "^the policy needs-more cannot be loaded: KeyError: 'more'$"),
        ("number", "^the policy number cannot be called: expected Problem -> Schedule$"),
        ("fastets", "^fastets is not a policy: did you mean fastest"),
        ("none-such", "is not a policy: known: even, .*, optimal, .*fastest"),
    ],
)
def test_a_policy_that_cannot_be_loaded_is_one_sentence(problem, name, sentence):
    with pytest.raises(BadInput, match=sentence) as caught:
        policy_by_name(name, Broadcast.among(problem))
    assert len(caught.value.faults) == 1


@pytest.mark.usefixtures("_plugin")
def test_a_policy_that_returns_no_schedule_is_one_sentence(problem):
    policy = policy_by_name("no-schedule", Broadcast.among(problem))
    with pytest.raises(BadInput, match="the policy no-schedule answered with a int"):
        policy(problem)
