"""Random numbers: exact nesting, and frequencies within bands computed from n."""

import tracemalloc
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import ClientTable, Gains, Scenario, compare
from fedcell.core import streams
from fedcell.errors import BadInput
from fedcell.network import Trace, draw_fleet, draw_trace, simulate_network
from fedcell.network.draw import candidates
from fedcell.network.selection import ask_uniformly
from fedcell.network.simulate import price_trace
from fedcell.policies import Optimal


def trace_of(rounds: int | range = 200, seed: int = 0, **changes) -> Trace:
    scenario = Scenario().using(**changes)
    return draw_trace(scenario, draw_fleet(scenario, seed), rounds, seed)


def same(one: Trace, other: Trace) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Trace))


@pytest.mark.parametrize("selection", ["uniform", "weighted"])
@pytest.mark.parametrize("kind", ["independent", "worst-case"])
def test_a_round_is_the_same_alone_in_a_part_and_in_a_run(selection, kind):
    changes = {
        "plan": {"selection": selection},
        "cell": {"loss_rate": 0.3, "loss_kind": kind},
        "clients": {"count": 37},  # not a multiple of what the generator makes at a time
    }
    whole = trace_of(60, **changes)
    cut = [trace_of(range(a, b), **changes) for a, b in [(0, 1), (1, 20), (20, 59), (59, 60)]]
    assert same(Trace.join(cut), whole)


def test_chunks_do_not_show(monkeypatch):
    whole = trace_of(50)
    monkeypatch.setattr(streams, "CHUNK_PLACES", 700)  # 7 rounds of 100 clients at a time
    assert same(trace_of(50), whole)


@pytest.mark.parametrize("count", [3, 37, 10_000])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_places_are_read_one_by_one_to_the_same_bits(count, seed):
    """numpy's own generator, read in order, is the reference."""
    places = np.random.default_rng(count).integers(0, count, (9, 2))
    rounds = range(10**6, 10**6 + 9)
    whole = streams.uniform(streams.Purpose.LOSS, seed, rounds, count)
    picked = streams.uniform_at(streams.Purpose.LOSS, seed, rounds, places, count)
    assert_array_equal(picked, np.take_along_axis(whole, places, axis=1))


def shuffled(row: np.ndarray, count: int) -> list[int]:
    """Shuffle all clients as in textbooks, one place per random number."""
    clients = list(range(count))
    for place, number in enumerate(row):
        drawn = place + int(number * (count - place))
        clients[place], clients[drawn] = clients[drawn], clients[place]
    return clients[: len(row)]


@pytest.mark.parametrize(("count", "asks"), [(1, 1), (2, 2), (5, 3), (20, 20), (300, 200)])
def test_asking_is_a_shuffle_that_stops_early(count, asks):
    rolled = np.random.default_rng(count).random((50, asks))
    assert ask_uniformly(rolled, count).tolist() == [shuffled(row, count) for row in rolled]


def test_every_order_is_as_likely_as_another():
    trace = trace_of(24_000, clients={"count": 4}, plan={"cohort": 4}, cell={"gain_threshold": 0.0})
    orders = np.unique(trace.cohort @ [64, 16, 4, 1], return_counts=True)[1]
    assert orders.size == 24
    assert ((orders - 1000) ** 2 / 1000).sum() < 49.7  # chi-square of 23, 0.1 %


@pytest.mark.parametrize("selection", ["uniform", "weighted"])
def test_cohorts_are_nested_where_most_are_passed_over(selection):
    """Also where K decides how many must be asked."""
    cell = {"gain_threshold": 3.0, "loss_rate": 0.4}
    few, more = (
        trace_of(80, clients={"count": 400}, cell=cell, plan={"cohort": k, "selection": selection})
        for k in (3, 25)
    )
    if selection == "uniform":
        assert_array_equal(more.cohort[:, :3], few.cohort)
        assert_array_equal(more.gain[:, :3], few.gain)
        assert_array_equal(more.lost[:, :3], few.lost)
        assert (more.called < 25).any()
    else:  # a client that is drawn again stands where it first was
        for small, large in zip(few.cohort, more.cohort, strict=True):
            found = small[small >= 0]
            assert_array_equal(large[: found.size], found)
    assert (more.excluded_by_channel > few.excluded_by_channel).all()


def test_a_round_of_a_large_fleet_draws_few_clients():
    scenario = Scenario().using(clients={"count": 10**6}, plan={"cohort": 1000})
    fleet = draw_fleet(scenario)
    for selection in ("uniform", "weighted"):
        world = scenario.using(plan={"selection": selection})
        trace = draw_trace(world, fleet, range(10**5, 10**5 + 2))
        assert (trace.draws == 1000).all()
        assert (np.abs(trace.excluded_by_channel - 1000 * np.expm1(0.05)) < 35).all()
        assert same(trace[1:], draw_trace(world, fleet, range(10**5 + 1, 10**5 + 2)))


def test_weighted_draws_end_if_almost_all_clients_are_in_outage():
    """After as many asks as there are clients, only those are drawn from."""
    samples = np.r_[np.full(999, 1.0), 9.0]
    distance = np.r_[np.full(998, 2000.0), 10.0, 10.0]
    trace = trace_of(
        300,
        clients={"table": ClientTable(samples=samples, distance=distance)},
        plan={"cohort": 40, "selection": "weighted"},
        cell={"gain_threshold": 50.0},  # of the median client's: e^-50 of those far away
    )
    heard = trace.cohort >= 0
    assert set(trace.cohort[heard].tolist()) == {998, 999}
    assert (trace.draws == 40).all()
    share = trace.count[trace.cohort == 999].sum() / trace.count.sum()
    assert abs(share - 0.9) < 4.5 * np.sqrt(0.09 / (40 * 300))


def test_seeds_and_purposes_differ():
    one, other = trace_of(seed=1), trace_of(seed=2)
    assert (one.cohort != other.cohort).mean() > 0.9
    numbers = [streams.uniform(purpose, 0, range(1), 8)[0] for purpose in streams.Purpose]
    assert len(np.unique(numbers)) == 8 * len(streams.Purpose)


def test_a_larger_cohort_begins_with_the_smaller_one():
    small, large = trace_of(plan={"cohort": 10}), trace_of(plan={"cohort": 20})
    assert_array_equal(large.cohort[:, :10], small.cohort)
    assert_array_equal(large.gain[:, :10], small.gain)


@pytest.mark.parametrize("kind", ["independent", "worst-case"])
def test_a_higher_loss_rate_loses_the_same_uploads_and_more(kind):
    rates = (0.0, 0.1, 0.3, 0.7)
    lost = [trace_of(cell={"loss_rate": rate, "loss_kind": kind}).lost for rate in rates]
    assert not lost[0].any()
    for fewer, more in pairwise(lost):
        assert (more >= fewer).all()
        assert more.sum() > fewer.sum()


def test_independent_losses_are_nested_in_the_cohort_too():
    loss = {"loss_rate": 0.4}
    small = trace_of(plan={"cohort": 10}, cell=loss)
    large = trace_of(plan={"cohort": 20}, cell=loss)
    assert_array_equal(large.lost[:, :10], small.lost)


def test_the_worst_case_loses_exactly_its_share():
    for cohort, rate, received in [(10, 0.3, 7), (10, 0.25, 8), (100, 0.7, 30), (100, 0.29, 71)]:
        trace = trace_of(
            20,
            plan={"cohort": cohort},
            cell={"loss_rate": rate, "loss_kind": "worst-case", "gain_threshold": 0.0},
        )
        assert (trace.received == received).all()  # K_gamma >= K(1 - gamma), and as few


def test_selection_is_uniform_without_replacement():
    n, k, rounds = 20, 5, 20_000
    trace = trace_of(rounds, clients={"count": n}, plan={"cohort": k}, cell={"gain_threshold": 0.0})
    assert all(len(set(row)) == k for row in trace.cohort[:500])
    p = k / n
    times = np.bincount(trace.cohort.ravel(), minlength=n)
    assert (np.abs(times - rounds * p) < 4.5 * np.sqrt(rounds * p * (1 - p))).all()
    first = np.bincount(trace.cohort[:, 0], minlength=n)  # each place is uniform too
    assert (np.abs(first - rounds / n) < 4.5 * np.sqrt(rounds / n)).all()


def test_weighted_selection_follows_the_data_with_replacement():
    n, k, rounds = 10, 4, 20_000
    samples = np.arange(1.0, n + 1)
    trace = trace_of(
        rounds,
        clients={"table": ClientTable(samples=samples)},
        plan={"cohort": k, "selection": "weighted"},
        cell={"gain_threshold": 0.0},
    )
    assert (trace.count.sum(1) == k).all()  # drawn twice counts twice,
    for who, count in zip(trace.cohort[:200], trace.count[:200], strict=True):
        assert len(set(who[who >= 0])) == (who >= 0).sum()  # and trains once
        assert ((count > 0) == (who >= 0)).all()
    q = samples / samples.sum()
    present = trace.cohort >= 0
    times = np.bincount(trace.cohort[present], weights=trace.count[present], minlength=n)
    draws = rounds * k
    assert (np.abs(times - draws * q) < 4.5 * np.sqrt(draws * q * (1 - q))).all()


def test_fading_is_exponential_above_the_threshold():
    scenario = Scenario()
    trace = trace_of(20_000)
    relative = trace.gain / scenario.cell.mean_gain(200.0)
    assert relative.min() >= 0.05 * (1 - 1e-12)
    shifted = relative - 0.05  # an exponential has no memory
    n = shifted.size
    assert abs(shifted.mean() - 1) < 4.5 / np.sqrt(n)
    assert abs((shifted > 1).mean() - np.exp(-1)) < 4.5 * 0.5 / np.sqrt(n)


def test_the_threshold_excludes_and_counts_those_that_were_asked():
    trace = trace_of(5000)
    expected = 10 * np.expm1(0.05)  # passed over before ten have joined
    assert abs(trace.excluded_by_channel.mean() - expected) < 4.5 * np.sqrt(expected / 5000)
    assert (trace.excluded_by_data == 0).all()
    everybody = trace_of(5000, plan={"cohort": 100})  # all are asked
    expected = 100 * -np.expm1(-0.05)  # 4.88 of 100 clients
    assert abs(everybody.excluded_by_channel.mean() - expected) < 4.5 * np.sqrt(expected / 5000)


def test_the_threshold_is_absolute():
    near, far = np.full(50, 100.0), np.full(50, 300.0)
    table = ClientTable(distance=np.r_[near, far])
    trace = trace_of(2000, clients={"table": table}, cell={"distance": 200.0})
    share_of_near = (trace.cohort < 50).mean()
    heard = np.exp(-0.05 * (np.array([100.0, 300.0]) / 200) ** 4)
    assert_allclose(share_of_near, heard[0] / heard.sum(), atol=0.02)


def test_too_little_data_excludes_for_good():
    samples = np.r_[np.full(20, 100.0), np.full(5, 3.0)]
    trace = trace_of(clients={"table": ClientTable(samples=samples), "min_samples": 10.0})
    assert (trace.excluded_by_data == 5).all()
    assert trace.cohort.max() < 20


def test_the_cohort_shrinks_when_too_few_can_be_called():
    scenario = Scenario().using(
        clients={"count": 12}, plan={"cohort": 10}, cell={"gain_threshold": 0.5}
    )
    trace = draw_trace(scenario, draw_fleet(scenario), 300)
    assert 0 < trace.called.min() < 10
    few = trace.called < 10  # then all were asked
    assert_array_equal(trace.called[few], 12 - trace.excluded_by_channel[few])
    sizes = [(where.size, part.cohort.shape[1]) for where, part in trace.by_size()]
    assert sum(rounds for rounds, _ in sizes) == 300
    ledger = simulate_network(scenario, "optimal", 300)
    assert np.isfinite(ledger.objective).all()
    assert_array_equal(ledger.called, trace.called)


def test_a_round_without_clients_costs_the_broadcast_only():
    scenario = Scenario().using(
        clients={"count": 2},
        plan={"cohort": 1},
        cell={"gain_threshold": 1.5, "broadcast_time": 0.25},
    )
    ledger = simulate_network(scenario, "even", 200)
    empty = ledger.called == 0
    assert empty.any()
    assert (ledger.duration[empty] == 0.25).all()
    assert (ledger.energy[empty] == 0).all()
    with pytest.raises(BadInput, match=r"no client was ever called.*gain_threshold"):
        simulate_network(scenario.using(cell={"gain_threshold": 50.0}), "even", 20)


def test_clients_are_drawn_around_their_means_and_nested_in_their_number():
    scenario = Scenario().using(clients={"count": 10_000, "spread": 0.5})
    fleet, fewer = draw_fleet(scenario), draw_fleet(scenario.using(clients={"count": 500}))
    for name, mean in [("samples", 500.0), ("kappa", 5e-27), ("power", 4e-7)]:
        values = getattr(fleet, name)
        assert values.min() >= mean / 2
        assert values.max() <= mean * 1.5
        assert abs(values.mean() / mean - 1) < 4.5 * 0.5 / np.sqrt(3 * 10_000)
        assert_array_equal(getattr(fewer, name), values[:500])


def test_clients_spread_evenly_over_a_ring():
    scenario = Scenario().using(clients={"count": 20_000}, cell={"distance": (50.0, 200.0)})
    d = (1e-4 / draw_fleet(scenario).mean_gain) ** 0.25
    assert d.min() >= 50 * (1 - 1e-12)
    assert d.max() <= 200 * (1 + 1e-12)
    inner = (d < 125).mean()
    assert abs(inner - (125**2 - 50**2) / (200**2 - 50**2)) < 4.5 * 0.5 / np.sqrt(20_000)


def test_measured_gains_are_used_as_they_are():
    values = np.random.default_rng(0).uniform(1e-14, 1e-13, (6, 100))
    values[2, :95] = 0.0  # in round 2 only five clients are heard
    scenario = Scenario().using(cell={"gains": Gains(values)})
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 6)
    present = trace.cohort >= 0
    rounds = np.broadcast_to(np.arange(6)[:, None], trace.cohort.shape)
    assert_array_equal(trace.gain[present], values[rounds[present], trace.cohort[present]])
    assert trace.called.tolist() == [10, 10, 5, 10, 10, 10]
    assert trace.excluded_by_channel[2] == 95
    with pytest.raises(BadInput, match="holds 6 rounds and 7 are needed"):
        draw_trace(scenario, fleet, 7)


def test_a_run_of_measured_gains_is_as_long_as_they_are():
    scenario = Scenario().using(cell={"gains": np.full((80, 100), 1e-13)})
    assert len(simulate_network(scenario, "even").duration) == 80
    assert len(simulate_network(scenario, "even", 30).duration) == 30


def test_a_given_trace_is_priced_like_a_drawn_one():
    scenario = Scenario()
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 20)
    drawn = simulate_network(scenario, "optimal", 20)
    assert_array_equal(price_trace(scenario, fleet, trace, Optimal()).objective, drawn.objective)
    after = scenario.using(plan={"cohort_drawn": "after-training"})
    with pytest.raises(BadInput, match="does not hold which other clients trained"):
        price_trace(after, fleet, trace, Optimal())


def test_all_train_when_the_cohort_is_drawn_after_training():
    before = Scenario().using(clients={"spread": 0.0})
    after = before.using(plan={"cohort_drawn": "after-training"})
    one, other = (simulate_network(s, "distributed", 50) for s in (before, after))
    assert_array_equal(one.duration, other.duration)
    may = candidates(before, draw_fleet(before), range(50)).sum(1)
    # Alike clients: training energy per client is that of one of the ten, upload as before.
    c, f = 20 * 5e5 * 500, 1e9 / 10 ** (1 / 3)
    extra = (may - 10) * 5e-27 * f**2 * c
    assert_allclose(other.energy - one.energy, extra, rtol=1e-9)


def test_a_million_clients_need_a_few_vectors():
    scenario = Scenario().using(clients={"count": 10**6}, plan={"cohort": 1000})
    fleet = draw_fleet(scenario)
    draw_trace(scenario, fleet, 1)
    tracemalloc.start()
    trace = draw_trace(scenario, fleet, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert trace.called.tolist() == [1000, 1000, 1000]
    assert peak < 3 * 10**6  # one vector of N is who has enough data, a byte each; measured: 2.4e6


def peak_of(work) -> int:
    """Bytes that a piece of work held at once, beyond what was there before."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_rounds_or_fleets():
    scenario = Scenario().using(clients={"count": 10**5}, plan={"cohort": 300})
    simulate_network(scenario, "even", 1)
    few, many = (peak_of(lambda r=r: simulate_network(scenario, "even", r)) for r in (1500, 6000))
    assert many < few + 10**6  # kept: a dozen numbers a round, and no vector of N
    two, six = (
        peak_of(lambda n=n: compare(scenario, ["even"], rounds=2, fleets=n)) for n in (2, 6)
    )
    assert six < two + 10**5


def test_bad_seeds_are_refused():
    with pytest.raises(BadInput, match="`seed` = -1"):
        draw_fleet(Scenario(), seed=-1)


def test_a_trace_of_given_gains_calls_all_clients():
    trace = Trace.of(np.full((3, 4), 1e-13))
    assert trace.called.tolist() == [4, 4, 4]
    assert trace.received.tolist() == [4, 4, 4]


def test_parts_of_a_run_sum_to_the_bits_of_the_whole_when_all_train(monkeypatch):
    world = Scenario().using(
        clients={"count": 300, "spread": 0.5}, plan={"cohort_drawn": "after-training"}
    )
    fleet = draw_fleet(world)
    whole = price_trace(world, fleet, draw_trace(world, fleet, 60), "even", 0)
    monkeypatch.setattr("fedcell.network.simulate.PLACES", 2100)  # 7 rounds at a time
    parts = simulate_network(world, "even", 60)
    alone = price_trace(world, fleet, draw_trace(world, fleet, range(57, 58)), "even", 0)
    assert_array_equal(parts.energy, whole.energy)
    assert_array_equal(parts.totals.energy, whole.totals.energy)
    assert_array_equal(parts.totals.duration, whole.totals.duration)
    assert alone.energy[0] == whole.energy[57]


def test_rounds_beyond_the_last_are_refused():
    with pytest.raises(BadInput, match="a run has at most 1073741824 rounds"):
        trace_of(range(2**64, 2**64 + 1))
