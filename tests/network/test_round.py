"""One round: numbers worked out by hand, scaling laws, and input that cannot be used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from certificates import wild_rounds
from fedcell import Scenario
from fedcell.errors import BadInput
from fedcell.network import Fleet, Trace, draw_fleet, draw_trace, simulate_network
from fedcell.network.certificate import check_schedule
from fedcell.policies import Optimal, Problem, Schedule, certify, make_problem, price
from support.examples import examples


def by_hand() -> tuple[Scenario, Fleet, Trace]:
    """Two clients with an SNR of 1 and 3, so r = 1 and 2 bit/s/Hz."""
    scenario = Scenario().using(
        cell={"bandwidth": 10.0, "noise": 2.0},
        clients={"count": 2},
        task={"model_bits": 60.0, "cycles_per_sample": 3.0, "energy_weight": 0.5},
        plan={"cohort": 2, "local_steps": 4},
    )
    fleet = Fleet(
        samples=np.array([10.0, 20.0]),
        kappa=np.array([1e-3, 2e-3]),
        power=np.array([0.5, 1.5]),
        mean_gain=np.array([4.0, 4.0]),
        freq_min=np.array([1.0, 1.0]),
        freq_max=np.array([100.0, 100.0]),
    )
    return scenario, fleet, Trace.of(np.array([[4.0, 4.0]]))


def test_a_problem_by_hand():
    problem = make_problem(*by_hand())[0]
    assert_allclose(problem.band_time, [60 / (10 * 1), 60 / (10 * 2)])  # (5), (6): 6 s, 3 s
    assert_allclose(problem.upload_energy, [60 * 0.5 / 1, 60 * 1.5 / 2])  # (7): 30 J, 45 J
    assert_allclose(problem.cycles, [4 * 3 * 10, 4 * 3 * 20])  # (9): 120, 240
    assert problem.energy_weight == 0.5


def test_price_by_hand():
    problem = make_problem(*by_hand())[0]
    cost = price(problem, Schedule(share=np.array([0.75, 0.25]), freq=np.array([20.0, 10.0])))
    assert_allclose(cost.upload_time, [8, 12])  # (6): 6/0.75, 3/0.25
    assert_allclose(cost.compute_time, [6, 24])  # (9): 120/20, 240/10
    assert_allclose(cost.upload_energy, [30, 45])  # (7)
    assert_allclose(cost.compute_energy, [1e-3 * 400 * 120, 2e-3 * 100 * 240])  # (10): 48, 48
    assert_allclose(cost.upload_cost, 12 + 0.5 * 75)  # (8), (20a): 49.5
    assert_allclose(cost.compute_cost, 24 + 0.5 * 48)  # (11), (20b): 48
    assert_allclose(cost.duration, 36)  # (22a): the second client, 24 + 12
    assert_allclose(cost.objective, 36 + 0.5 * (75 + 48))  # (22): 97.5
    assert_allclose(cost.energy, 75 + 96)  # really spent: nothing is averaged


def test_5_the_share_times_the_band_times_the_rate_uploads_the_model():
    scenario, fleet, trace = by_hand()
    problem = make_problem(scenario, fleet, trace)[0]
    a = np.array([0.4, 0.6])
    time = price(problem, Schedule(a, problem.freq_min)).upload_time
    p = fleet.power * a * 10.0  # p_j = p_j^0 a_j B
    rate = a * 10.0 * np.log2(1 + p * 4.0 / (a * 10.0 * 2.0))  # (5), first form
    assert_allclose(rate * time, 60.0)
    assert_allclose(p * time, problem.upload_energy)  # (7)


def test_the_paper_s_numbers_at_mean_fading():
    scenario = Scenario().using(clients={"count": 1, "spread": 0.0}, plan={"cohort": 1})
    gain = scenario.cell.mean_gain(200.0)
    assert_allclose(gain, 6.25e-14)
    problem = make_problem(scenario, draw_fleet(scenario), Trace.of(np.array([[gain]])))[0]
    assert_allclose(problem.band_time * 10, 0.0256, rtol=2e-3)  # 26 ms with a tenth of the band
    f = np.array([1e9 / 10 ** (1 / 3)])
    cost = price(problem, Schedule(np.ones(1), f))
    assert_allclose(cost.compute_time, 10.77, rtol=1e-3)
    assert_allclose(cost.compute_cost, 16.16, rtol=1e-3)


def test_units_scale_as_they_should():
    scenario = Scenario()
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 20)
    base = make_problem(scenario, fleet, trace)
    twice = make_problem(scenario.using(task={"model_bits": 6e4}), fleet, trace)
    assert_allclose(twice.band_time, 2 * base.band_time)
    assert_allclose(twice.upload_energy, 2 * base.upload_energy)
    wide = make_problem(scenario.using(cell={"bandwidth": 40e6}), fleet, trace)
    assert_allclose(wide.band_time, base.band_time / 2)
    assert_allclose(wide.upload_energy, base.upload_energy)  # (7) has no B in it
    longer = make_problem(scenario.using(plan={"local_steps": 40}), fleet, trace)
    assert_allclose(longer.cycles, 2 * base.cycles)


def test_a_step_costs_the_dataset_or_the_batch():
    """DECISIONS.md, 2."""
    scenario = Scenario().using(task={"samples_per_step": "batch", "batch_size": 10})
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, 5)
    assert_allclose(make_problem(scenario, fleet, trace).cycles, 20 * 5e5 * 10)
    dataset = make_problem(Scenario(), fleet, trace)
    assert_allclose(dataset.cycles, 20 * 5e5 * fleet.samples[trace.cohort])
    tiny = scenario.step_samples(np.array([3.0, 10.0, 400.0]))
    assert tiny.tolist() == [3, 10, 10]  # a client with less than a batch


@pytest.mark.parametrize("kind", ["independent", "worst-case"])
def test_cost_never_depends_on_the_loss_rate(kind):
    """Sec. II-B-1: lost uploads take resources like those that arrive."""
    lossless, lossy = (
        simulate_network(
            Scenario().using(cell={"loss_rate": rate, "loss_kind": kind}), "optimal", 100
        )
        for rate in (0.0, 0.5)
    )
    for name in ("duration", "energy", "upload_cost", "compute_cost", "objective"):
        assert (getattr(lossless, name) == getattr(lossy, name)).all()
    assert lossy.received.sum() < lossless.received.sum()


def test_broadcast_time_is_part_of_the_round():
    slow = Scenario().using(cell={"broadcast_time": 2.0})
    one, other = (simulate_network(s, "even", 20) for s in (Scenario(), slow))
    assert_allclose(other.duration - one.duration, 2.0)
    assert_allclose(other.objective, one.objective)


GOOD = {
    "band_time": [1.0, 2.0],
    "upload_energy": [1.0, 1.0],
    "samples": [5.0, 5.0],
    "kappa": [1e-27, 1e-27],
    "freq_min": [1e7, 1e7],
    "freq_max": [1e9, 1e9],
    "work": 1e6,
    "energy_weight": 1.0,
}


def test_lists_are_taken_and_broadcast():
    problem = Problem(**GOOD | {"kappa": 1e-27, "freq_max": [[1e9], [2e9]]})
    assert problem.kappa.shape == (2, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"band_time": [1.0, np.nan]}, "band_time has a client with nan"),
        ({"band_time": [1.0, np.inf]}, "band_time has a client with inf"),
        ({"kappa": [0.0, 1e-27]}, "kappa has a client with 0"),
        ({"samples": [5.0, -1.0]}, "samples has a client with -1"),
        ({"freq_min": [1e10, 1e7]}, "freq_min is above freq_max"),
        ({"samples": [1.0, 2.0, 3.0]}, "shapes that do not go together"),
        ({"energy_weight": -1.0}, "energy_weight = -1"),
        ({"energy_weight": np.nan}, "energy_weight = nan: expected one number, 0 to"),
        ({"energy_weight": None}, "energy_weight is not an array of numbers"),
        ({"work": [1e6, 1e6]}, "work = .*: expected one number"),
        ({"work": 0.0}, "work = 0.0: expected one number"),
        ({"work": 1e60}, r"work \* samples has a client with 5e\+60"),
        ({name: [] for name in list(GOOD)[:6]}, "there are no clients"),
        (dict.fromkeys(list(GOOD)[:6], 1.0), "there are no clients"),
    ],
)
def test_problems_that_cannot_be_are_refused(change, message):
    with pytest.raises(BadInput, match=message):
        Problem(**GOOD | change)


@pytest.mark.parametrize(
    ("share", "freq", "message"),
    [
        ([0.5], [1e8, 1e8], "shapes"),
        ([0.5, 0.6], [1e8, 1e8], r"\(22b\)"),
        ([1.0, 0.0], [1e8, 1e8], r"\(22b\)"),
        ([0.5, np.nan], [1e8, 1e8], r"\(22b\)"),
        ([0.5, 0.5], [1e8, 2e9], r"\(22c\)"),
        ([0.5, 0.5], [1e6, 1e8], r"\(22c\)"),
    ],
)
def test_schedules_that_break_the_constraints_are_refused(share, freq, message):
    with pytest.raises(BadInput, match=message):
        check_schedule(Problem(**GOOD), Schedule(np.array(share), np.array(freq)))


def test_ragged_rounds_are_refused_with_the_way_out():
    scenario = Scenario().using(
        clients={"count": 10}, plan={"cohort": 10}, cell={"gain_threshold": 1.0}
    )
    fleet = draw_fleet(scenario)
    with pytest.raises(BadInput, match="by_size"):
        make_problem(scenario, fleet, draw_trace(scenario, fleet, 5))


@pytest.mark.parametrize("clients", [1, 2, 5, 30])
@given(seed=st.integers(0, 2**32 - 1))
@examples(25)
def test_rounds_with_short_uploads_are_certified_too(clients, seed):
    """Uploads down to 1e-24 of a training: no digit of H tells of them, and prices must come from
    elsewhere. Clients free or held by bounds, at either end, alike or not."""
    problem = wild_rounds(seed, 40, clients)
    assert certify(problem, Optimal()(problem)).gap.max() < 1e-9


def test_a_device_of_one_frequency_that_is_the_lowest_of_all_others():
    """Its training ends when theirs would at the latest, and that says nothing of theirs."""
    problem = Problem(
        band_time=[1e-9, 2.0, 1.0],
        upload_energy=[1.0, 1.0, 1.0],
        samples=[500.0, 500.0, 500.0],
        kappa=[1e-29, 5e-27, 5e-27],
        freq_min=[1e8, 1e8, 1e8],
        freq_max=[1e8, 1e9, 1e9],
        work=1e7,
        energy_weight=1.0,
    )
    schedule = Optimal()(problem)
    assert certify(problem, schedule).gap < 1e-12
    assert (schedule.freq[1:] > 1.01e8).all()
