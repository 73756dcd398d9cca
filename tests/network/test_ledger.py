"""The ledger: what it is cut to, who pays, and how little it keeps."""

import tracemalloc
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario
from fedcell.errors import BadInput
from fedcell.network import Ledger, draw_fleet, draw_trace, simulate_network
from fedcell.network.simulate import price_trace
from fedcell.network.spending import Totals

WORLDS = {
    "before": Scenario(),
    "after": Scenario().using(plan={"cohort_drawn": "after-training"}),
    "weighted, lossy": Scenario().using(
        plan={"selection": "weighted", "cohort": 30}, cell={"loss_rate": 0.4}
    ),
    "few that may be called": Scenario().using(cell={"gain_threshold": 2.5}),
}


def priced(scenario, rounds, policy="optimal", seed=3):
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, rounds, seed)
    return price_trace(scenario, fleet, trace, policy, seed)


def assert_same(one, other):
    for name in one.column_names():
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for part in fields(Totals):
        mine, theirs = (getattr(ledger.totals, part.name) for ledger in (one, other))
        assert_allclose(mine, theirs, rtol=1e-12, err_msg=part.name)


@pytest.mark.parametrize("name", WORLDS)
def test_a_cut_ledger_is_that_of_fewer_rounds(name):
    scenario = WORLDS[name]
    whole = priced(scenario, 12)
    for rounds in (1, 7, 12):
        assert_same(whole.first(rounds), priced(scenario, rounds))
        assert whole.first(rounds).rounds == rounds


@pytest.mark.parametrize("name", WORLDS)
def test_a_trace_is_priced_as_the_scenario_that_it_was_drawn_from(name):
    assert_same(priced(WORLDS[name], 12), simulate_network(WORLDS[name], "optimal", 12, 3))


def test_totals_cannot_be_written_to():
    ledger = simulate_network(Scenario(), "even", 5)
    for part in fields(Totals):
        with pytest.raises(ValueError, match="read-only"):
            getattr(ledger.totals, part.name)[0] = 1
    assert Totals.none(3).energy.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", WORLDS)
def test_every_joule_and_every_call_has_a_payer(name):
    ledger = simulate_network(WORLDS[name], "distributed", 12, 3)
    assert ledger.totals.energy.sum() == pytest.approx(ledger.energy.sum(), rel=1e-12)
    assert ledger.totals.called.sum() == ledger.called.sum()
    assert ledger.totals.arrived.sum() == ledger.received.sum()


def test_bystanders_pay_what_training_takes_and_no_more():
    """All who may be called train once a round, at their own frequency: by hand."""
    scenario = Scenario().using(
        plan={"cohort_drawn": "after-training", "cohort": 1}, clients={"count": 4, "spread": 0.0}
    )
    ledger = simulate_network(scenario.using(cell={"gain_threshold": 0.0}), "even", 1)
    f = (1 / (2 * 5e-27)) ** (1 / 3)
    each = 5e-27 * f**2 * 20 * 5e5 * 500
    idle = ledger.totals.called == 0
    assert idle.sum() == 3
    assert_allclose(ledger.totals.energy[idle], each)
    assert_allclose(ledger.totals.duration[idle], 20 * 5e5 * 500 / f)


def test_a_ledger_of_sums_cannot_be_cut():
    with pytest.raises(BadInput, match="sums over all rounds only: price a trace to cut it"):
        simulate_network(Scenario(), "even", 3).first(2)


def test_rounds_from_the_middle_are_charged_as_in_the_whole():
    """Who trains in vain depends on the round, wherever a trace begins."""
    scenario = WORLDS["after"]
    fleet = draw_fleet(scenario, 3)
    whole = priced(scenario, 9)
    later = draw_trace(scenario, fleet, range(4, 9), 3)
    assert later.first_round == 4
    assert_allclose(price_trace(scenario, fleet, later, "optimal", 3).energy, whole.energy[4:])
    cut = draw_trace(scenario, fleet, 9, 3)[4:]
    assert_allclose(price_trace(scenario, fleet, cut, "optimal", 3).energy, whole.energy[4:])
    with pytest.raises(BadInput, match="cut into consecutive rounds"):
        cut[::2]


@pytest.mark.parametrize("rounds", [-1, 13])
def test_a_ledger_is_cut_within_what_it_has(rounds):
    with pytest.raises(BadInput, match=f"`rounds` = {rounds}: the ledger has 12"):
        priced(Scenario(), 12).first(rounds)


def test_a_trace_alone_does_not_hold_which_other_clients_trained():
    scenario = WORLDS["after"]
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 3)
    with pytest.raises(BadInput, match="give its `seed`"):
        price_trace(scenario, fleet, trace, "even")


def test_many_clients_are_summed_in_place(monkeypatch):
    """A round more of a large fleet keeps no more: its totals are added to those before."""
    monkeypatch.setattr("fedcell.core.streams.CHUNK_PLACES", 1)  # every round by itself
    scenario = Scenario().using(clients={"count": 100_000})

    def kept(rounds):
        tracemalloc.start()
        ledger = simulate_network(scenario, "even", rounds)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert ledger.rounds == rounds
        return size

    few, many = kept(2), kept(12)
    assert many - few < 100_000  # bytes; a column of totals has 800,000


def test_a_ledger_tells_what_it_is():
    ledger = simulate_network(Scenario(), "optimal", 50)
    assert repr(ledger) == "<Ledger: 50 rounds, 546.6 s, 2746 J>"
    assert not ledger.trained
    with pytest.raises(BadInput, match="no model was trained"):
        ledger.rounds_to(0.1)
    rows = ledger.rows()
    assert [row["round"] for row in rows] == list(range(1, 51))
    assert rows[-1]["total_energy"] == pytest.approx(ledger.energy.sum())
    assert "train_loss" not in rows[0]
    assert np.diff([row["total_duration"] for row in rows]) == pytest.approx(ledger.duration[1:])


# Ledgers of several parts.


def part(scenario, first, end, policy="optimal", seed=3):
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, range(first, end), seed)
    return price_trace(scenario, fleet, trace, policy, seed)


@pytest.mark.parametrize("name", WORLDS)
def test_joined_parts_are_the_whole(name):
    whole = priced(WORLDS[name], 12)
    joined = Ledger.join([part(WORLDS[name], *ends) for ends in ((0, 5), (5, 6), (6, 12))])
    assert_same(joined, whole)
    for rounds in (1, 5, 8):
        assert_same(joined.first(rounds), whole.first(rounds))


@pytest.mark.parametrize("name", WORLDS)
def test_parts_with_other_cohorts_are_summed_client_by_client(name):
    """Cohorts of several sizes: what each client paid is what it paid in every part."""
    parts = [
        part(WORLDS[name].with_plan(k, e), *ends)
        for (k, e), ends in {(10, 4): (0, 5), (3, 9): (5, 7), (14, 2): (7, 12)}.items()
    ]
    joined = Ledger.join(parts)
    assert_array_equal(joined.cost, np.concatenate([each.cost for each in parts]))
    for field in fields(Totals):
        whole = sum(getattr(each.totals, field.name) for each in parts)
        assert_allclose(getattr(joined.totals, field.name), whole, rtol=1e-12, err_msg=field.name)
    assert_same(joined.first(6), Ledger.join([parts[0], parts[1].first(1)]))
    battery = 0.5 * joined.totals.energy + 1e-12
    spent, when = np.zeros(battery.size), np.zeros(battery.size, int)
    for t in range(12):
        spent = joined.first(t + 1).totals.energy
        when[(spent > battery) & (when == 0)] = t + 1
    assert_array_equal(joined.spending.emptied(battery), when)


def test_uploads_that_did_not_arrive_have_cost_what_they_cost():
    whole = priced(WORLDS["weighted, lossy"], 6)
    arrived = np.unique(whole.spending.client[2][whole.spending.arrived[2]])
    gone = arrived[:2].tolist()
    found = whole.without(2, [*gone, 10**6])  # the last is unknown
    assert found.received[2] == whole.received[2] - 2
    assert_array_equal(np.delete(found.received, 2), np.delete(whole.received, 2))
    for name in ("cost", "duration", "energy", "called"):
        assert_array_equal(getattr(found, name), getattr(whole, name))
    lost = whole.totals.arrived - found.totals.arrived
    assert_array_equal(np.flatnonzero(lost), gone)
    assert_array_equal(found.totals.called, whole.totals.called)
    assert_array_equal(found.first(2).totals.arrived, whole.first(2).totals.arrived)
    assert whole.received[2] == whole.spending.arrived[2].sum()  # the old one is as it was
