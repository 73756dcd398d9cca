"""The seam: races and probabilities, what rules may know, names, and traces that rules choose."""

from itertools import permutations

import numpy as np
import pytest

from fedcell import Scenario
from fedcell.core.streams import Purpose, uniform
from fedcell.errors import BadInput
from fedcell.network import draw_fleet, draw_trace, simulate_network
from fedcell.network.selectors.drawing import first_of_race, systematic
from fedcell.network.selectors.names import NAMED
from fedcell.network.selectors.testing import inclusion
from fedcell.scenario.load import scenario_of
from fedcell.scenario.selection import BUILT_IN, SIMPLE
from fedcell.selectors import (
    Chances,
    Known,
    Race,
    best,
    check_selector,
    in_proportion,
    known_round,
    reads,
    selecting,
)

PAPER = Scenario()


@reads("gain")
def strongest(known: Known) -> Race:
    return best(known, known.gain)


@reads("gain")
def undeclared(known: Known) -> Race:
    return best(known, known.samples)


@reads("samples")
def in_order(known: Known) -> Race:
    weight = np.zeros(known.count)
    weight[: known.cohort] = np.inf
    return Race(weight)


@reads()
def forgetful(known: Known) -> Race:
    forgetful.calls = getattr(forgetful, "calls", 0) + 1
    return Race(np.roll(np.arange(1.0, known.count + 1), forgetful.calls) ** 9)


@reads("samples")
def raced(known: Known) -> Chances:
    """Probabilities that do not sum to K."""
    return Chances(np.where(known.may, 1.0, 0.0))


@reads("energy")
def thrifty(known: Known) -> Race:
    return best(known, -known.energy)


def test_all_built_in_names_are_known_to_files():
    assert set(BUILT_IN) == {*SIMPLE, *NAMED}


@pytest.mark.parametrize("name", NAMED)
def test_each_rule_of_the_zoo_is_sound(name):
    check_selector(name)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (undeclared, "reads samples"),
        (in_order, "order of the clients"),
        (forgetful, "equal rounds"),
        (raced, "sum to more than K"),
    ],
)
def test_the_check_finds_what_is_wrong(rule, fault):
    with pytest.raises((AssertionError, BadInput), match=fault):
        check_selector(rule)


def test_a_race_of_equal_weights_calls_all_pairs_equally_often():
    draws = uniform(Purpose.RACE, 3, range(6000), 5)
    cohorts = [
        frozenset(first_of_race(np.ones(5), lambda row=row: row, 2).tolist()) for row in draws
    ]
    counts = np.array([cohorts.count(pair) for pair in set(cohorts)])
    assert counts.size == 10
    assert ((counts - 600) ** 2 / 600).sum() < 27.9  # chi-square with 9 degrees, 0.1 %


def test_a_race_draws_in_proportion_to_the_weights():
    weight = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    draws = uniform(Purpose.RACE, 1, range(8000), 5)
    first = [int(first_of_race(weight, lambda row=row: row, 1)[0]) for row in draws]
    share = np.bincount(first, minlength=5) / 8000
    assert np.abs(share - weight / 10).max() < 0.02


def test_infinite_weights_win_and_zero_never_does():
    weight = np.array([np.inf, 1e300, 0.0, np.inf])
    for row in uniform(Purpose.RACE, 1, range(50), 4):
        assert set(first_of_race(weight, lambda row=row: row, 2).tolist()) == {0, 3}
        assert 2 not in first_of_race(weight, lambda row=row: row, 4)


@pytest.mark.parametrize("weights", [[1, 2, 3, 4, 5], [1, 1, 1, 20], [5, 5, 5], [0.1, 7, 9, 0]])
def test_systematic_sampling_has_the_exact_probabilities(weights):
    p = in_proportion(np.array(weights, float), 2)
    assert p.sum() == pytest.approx(2)
    some = np.flatnonzero(p)
    for order in permutations(some.tolist()):
        assert np.allclose(inclusion(p, np.array(order)), p, atol=1e-12)


def test_systematic_sampling_always_calls_k_clients():
    rng = np.random.default_rng(5)
    for _ in range(500):
        n = int(rng.integers(1, 30))
        k = int(rng.integers(1, n + 1))
        p = in_proportion(rng.pareto(0.7, n) + 1e-9, k)
        for number in (0.0, rng.random(), 1 - 2**-53):
            assert systematic(p, rng.permutation(n), number).size == k


def test_the_race_is_biased_where_probabilities_are_not():
    """ZOO: weights 1 to 10, K = 3: with 1 / (K w) the race is 4 % off."""
    weight, value = np.arange(1.0, 11), np.arange(10.0) ** 2
    share = weight / weight.sum()
    raced, exact = [], []
    p = in_proportion(weight, 3)
    luck, numbers = uniform(Purpose.RACE, 2, range(20000), 10), uniform(3, 2, range(20000), 1)
    for row, (number,) in zip(luck, numbers, strict=True):
        cohort = first_of_race(weight, lambda row=row: row, 3)
        raced.append((value[cohort] / (3 * share[cohort])).sum())
        cohort = systematic(p, row.argsort(), number)
        exact.append((value[cohort] / p[cohort]).sum())
    true = value.sum()
    assert abs(np.mean(exact) / true - 1) < 0.005
    assert abs(np.mean(raced) / true - 1) > 0.02


def test_a_trace_of_a_rule_is_the_same_in_every_range_of_rounds():
    for name in ("round-robin", "best-channel", "tifl", "by-data-unbiased"):
        world = selecting(PAPER, name)
        fleet = draw_fleet(world, 4)
        whole = draw_trace(world, fleet, 30, 4)
        part = draw_trace(world, fleet, range(11, 17), 4)
        assert np.array_equal(whole.cohort[11:17], part.cohort)
        assert np.array_equal(whole.gain[11:17], part.gain)
        assert np.array_equal(whole.lost[11:17], part.lost)


def test_clients_in_outage_are_no_candidates():
    world = PAPER.using(plan={"selection": "by-data"}, cell={"gain_threshold": 1.0})
    trace = draw_trace(world, draw_fleet(world), 50)
    assert (trace.gain[trace.cohort >= 0] >= world.min_gain).all()
    assert trace.excluded_by_channel.mean() > 50


def test_a_selector_of_ones_own_is_named_by_a_caller_and_not_by_a_file():
    world = selecting(PAPER, strongest)
    built_in = selecting(PAPER, "best-channel")
    fleet = draw_fleet(PAPER)
    assert np.array_equal(draw_trace(world, fleet, 9).cohort, draw_trace(built_in, fleet, 9).cohort)
    named = scenario_of({"plan": {"selection": "json:dumps"}}, None)
    with pytest.raises(BadInput, match="names code, which a file cannot"):
        draw_trace(named, fleet, 1)
    paid = scenario_of({"plan": {"selection": "oort(policy=json:dumps)"}}, None)
    with pytest.raises(BadInput, match="names the policy"):
        draw_trace(paid, fleet, 1)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("best-chanel", "did you mean best-channel"),
        ("power-of-choice(d=3)", "no parameter d"),
        ("uniform(k=3)", "has no parameters"),
        ("tifl(tiers=0)", "tiers = 0: expected a whole number from 1"),
        ("oort(window=many)", "window = 'many': expected a value of int"),
        ("oort(penalty=-1)", "penalty = -1: expected a number from 0"),
        ("power-of-choice(candidates=2.5)", "expected a value of int"),
        ("tifl(tiers", "expected a name"),
        ("tifl(tiers)", "is not one name = value"),
        ("json:dumps", "does not say what it reads"),
        ("no_such_module:rule", "cannot be loaded"),
    ],
)
def test_bad_names_get_a_sentence(text, fault):
    with pytest.raises(BadInput, match=fault):
        selecting(PAPER, text)


def test_rules_that_learn_are_refused_where_nothing_is_trained():
    world = selecting(PAPER, "oort")
    with pytest.raises(BadInput, match="known only while a model is trained"):
        simulate_network(world, "even", 3)


def test_a_rule_that_reads_energy_is_chosen_under_its_policy():
    world = PAPER.using(clients={"count": 12}, plan={"cohort": 3})
    fleet = draw_fleet(world)
    cohorts = {
        policy: draw_trace(
            selecting(world, f"{__name__}:thrifty(policy={policy})"), fleet, 40
        ).cohort.tolist()
        for policy in ("even", "optimal")
    }
    assert cohorts["even"] != cohorts["optimal"]
    counts = np.bincount(np.ravel(cohorts["even"]), minlength=12)
    assert counts.min() >= 5  # the thrifty rule shares the joules


def test_a_known_round_refuses_what_was_not_asked():
    with pytest.raises(BadInput, match="reads loss"):
        _ = known_round(gain=[1.0], cohort=1).loss
    with pytest.raises(BadInput, match="there is no fact 'gains'"):
        reads("gains")


def test_the_share_of_calls_of_a_rule_is_counted():
    from fedcell.network.participation import chance_called

    world = PAPER.using(cell={"distance": (50.0, 250.0)}, clients={"count": 20}, plan={"cohort": 4})
    near = selecting(world, "best-channel")
    fleet = draw_fleet(near)
    share = chance_called(near, fleet)
    assert share.sum() == pytest.approx(4, rel=0.01)
    assert share[fleet.mean_gain.argmax()] > 0.7
    assert share[fleet.mean_gain.argmin()] < 0.05
    assert chance_called(world, fleet).max() < 0.3


@reads("age", "called")
def oldest(known: Known) -> Race:
    seen.append((known.age.copy(), known.called.copy()))
    return best(known, known.age)


seen: list = []


def test_ages_and_counts_are_those_of_the_cohorts():
    seen.clear()
    world = selecting(PAPER.using(clients={"count": 11}, plan={"cohort": 3}), oldest)
    trace = draw_trace(world, draw_fleet(world), 25)
    last, counts = np.full(11, -1), np.zeros(11, int)
    for t, (row, (age, called)) in enumerate(zip(trace.cohort, seen, strict=True)):
        assert age.tolist() == (t - last).tolist()  # 1: called in the round before
        assert called.tolist() == counts.tolist()
        last[row[row >= 0]] = t
        counts[row[row >= 0]] += 1
    assert np.ptp(counts) <= 3  # whose turn it is waits only for its channel
