"""Prices that are remembered: the same bits, and no price of another world."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from fedcell import GivenLaw, Region, load_scenario, plan_training
from fedcell.core.types import Array
from fedcell.network.draw import draw_fleet
from fedcell.network.simulate import simulate_each
from fedcell.planning.costs import rounds as pricing
from fedcell.planning.costs.memory import (
    DRAFT,
    PriceMemory,
    StoppedError,
    UnknownSurfaceError,
    keep_going,
    remembered,
    remembering,
)
from fedcell.planning.costs.rounds import price_round_grid
from fedcell.planning.planner import draft_plans
from fedcell.scenario.scenario import Scenario

LAW = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
SMALL = Scenario().using(clients={"count": 8}, plan={"cohort": 4})


def made(scenario: Scenario, policy: str = "even") -> list[Array]:
    prices = price_round_grid(scenario, policy, 5)
    return [prices.upload_per_client, prices.compute_per_step, prices.spread["duration"]]


CHANGES = [
    {"cell": {"bandwidth": 1e6}},
    {"clients": {"kappa": 1e-26}},
    {"clients": {"power": 1e-7}},
    {"clients": {"count": 9}},
    {"task": {"energy_weight": 3.0}},
    {"plan": {"selection": "weighted"}},
    {"cell": {"distance": 100.0}},
    {"cell": {"channel": {"shadowing": 8.0}}},
    {"clients": {"sizes": np.full(8, 300.0)}},
    {"device": {"idle_power": 0.5}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_another_world_has_other_prices_than_those_remembered(change: dict):
    if "device" in change:
        from fedcell.scenario.hardware.device import Device

        change = {"device": Device(idle_power=0.5)}
    other = SMALL.using(**change)
    alone = made(other)
    with remembering(PriceMemory()):
        before = made(SMALL)
        after = made(other)
    assert all(np.array_equal(a, b) for a, b in zip(alone, after, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_lost_uploads_and_limits_need_no_new_prices():
    with remembering(memory := PriceMemory()):
        made(SMALL)
        count = len(memory)
        made(SMALL.using(cell={"loss_rate": 0.3}, plan={"rounds": 7}))
        assert len(memory) == count
        with remembering(known_only=True):
            made(SMALL.using(cell={"loss_rate": 0.6}))
            with pytest.raises(UnknownSurfaceError):
                made(SMALL, "optimal")
            with pytest.raises(UnknownSurfaceError):
                price_round_grid(SMALL, "even", 6)


def test_a_plan_with_a_memory_is_the_plan_without():
    digits = load_scenario("digits")
    with remembering(PriceMemory()):
        plan_training(digits.using(cell={"loss_rate": 0.4}), LAW)
        again = plan_training(digits, LAW)
    assert again.to_dict() == plan_training(digits, LAW).to_dict()


def test_prices_of_custom_policies_are_made_each_time():
    calls = []
    with remembering(PriceMemory()):
        for _ in range(2):
            remembered("x", SMALL, len, (), lambda: calls.append(1))  # type: ignore[arg-type]
    assert len(calls) == 2


def test_a_memory_has_an_end():
    with remembering(memory := PriceMemory(most=3)):
        for n in range(9):
            assert remembered("x", SMALL, "even", (n,), partial(int, n)) == n
    assert len(memory) == 3


def test_prices_that_are_no_longer_wanted_are_not_made(monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []

    def counted(*given: Any, **more: Any) -> Any:
        done.append(1)
        return simulate_each(*given, **more)

    monkeypatch.setattr(pricing, "simulate_each", counted)
    with remembering(PriceMemory(), stop=lambda: len(done) >= 2), pytest.raises(StoppedError):
        price_round_grid(SMALL, "even", 5)
    assert len(done) == 2
    keep_going()  # nothing to stop outside


def test_a_draft_is_a_picture_of_the_full_surface():
    digits = load_scenario("digits")
    full = plan_training(digits, LAW, region=Region(policy="even")).grid
    with remembering(PriceMemory(nodes=DRAFT)):
        draft = draft_plans(digits, LAW, region=Region(policy="even"))
    assert full is not None
    assert draft.round_costs.cohorts.size < full.round_costs.cohorts.size
    assert np.abs(np.log(draft.cost / full.cost)).max() < 0.4
    fleet = draw_fleet(digits.using(clients={"sizes": full.fleet.samples}), 0)
    assert np.array_equal(fleet.samples, draft.fleet.samples)
