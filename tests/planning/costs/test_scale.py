"""Plans for large fleets: fewer rounds of many clients, and what they may change.

The limit from which a fleet is large is lowered here, so that small fleets take the same way.
"""

import numpy as np
import pytest
from scipy.special import ndtri

from fedcell import Limits, Region, Scenario, plan_training
from fedcell.core.streams import spread_evenly
from fedcell.errors import BadInput
from fedcell.network import draw, draw_fleet, draw_trace, participation, simulate
from fedcell.network.draw import draw_all
from fedcell.network.participation import chance_called
from fedcell.network.policies import exact
from fedcell.network.policies.exact import staged_time
from fedcell.network.round import make_problem
from fedcell.network.selection import stable_order
from fedcell.network.simulate import doing, simulate_columns, simulate_network
from fedcell.network.trace import MANY
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.costs import devices
from fedcell.planning.costs import units as unit_costs
from fedcell.planning.costs.devices import device_shares, upload_moments
from fedcell.planning.costs.rounds import price_round_grid
from fedcell.planning.costs.units import full_participation, priced_rounds
from fedcell.planning.law.base import LEVEL
from fedcell.planning.law.given import GivenLaw

LAW = GivenLaw(mixing=50.0, drift=0.02, start=250.0, floor=12.0)
DRAWN = Scenario().using(clients={"count": 200, "spread": 0.4}, cell={"distance": (50.0, 250.0)})
WORLDS = {
    "uniform": DRAWN,
    "weighted": DRAWN.using(plan={"selection": "weighted"}),
    "after training": DRAWN.using(plan={"cohort_drawn": "after-training"}),
    "batches, losses": DRAWN.using(
        task={"samples_per_step": "batch"},
        cell={"loss_rate": 0.2, "loss_kind": "worst-case"},
        clients={"min_samples": 350.0},
    ),
}


@pytest.fixture
def few_are_many(monkeypatch):
    """Lowers the limit to 20 clients."""

    def lower() -> None:
        for module in (simulate, participation, exact, devices, unit_costs):
            monkeypatch.setattr(module, "MANY", 20)

    return lower


@pytest.mark.parametrize(
    ("name", "policy"),
    [*((name, "optimal-staged") for name in WORLDS), ("uniform", "even"), ("weighted", "optimal")],
)
def test_fewer_rounds_price_large_cohorts_within_their_error(few_are_many, name, policy):
    exactly = price_round_grid(WORLDS[name], policy, 3)
    few_are_many()
    nearly = price_round_grid(WORLDS[name], policy, 3)
    assert nearly.rounds[-1] <= 6 < exactly.rounds[-1]
    few = nearly.rounds < exactly.rounds
    k, e = np.meshgrid(exactly.cohorts, exactly.steps, indexing="ij")
    for measure in ("cost", "duration", "energy"):
        off = getattr(nearly, measure)(k, e) / getattr(exactly, measure)(k, e) - 1
        error = exactly.spread[measure] / np.sqrt(nearly.rounds)[:, None]
        assert (np.abs(off) <= 4 * error + 2e-3)[few].all()
        assert off[~few] == pytest.approx(0, abs=2e-3 if name == "after training" else 1e-12)


def test_rounds_are_fewer_only_where_clients_are_many():
    world = Scenario().using(clients={"count": 10**6})
    rounds = {k: priced_rounds(world.with_plan(k, 1)) for k in (1, MANY, 2 * MANY, 10**6)}
    assert rounds == {1: 200, MANY: 200, 2 * MANY: 100, 10**6: 3}


def test_large_cohorts_take_no_more_clients_to_price():
    """The work of a grid, which was 50 rounds of each K, is bounded by rounds of MANY clients."""
    seen = {}

    def counting(problem):
        k = problem.band_time.shape[-1]
        seen[k] = seen.get(k, 0) + problem.band_time.size
        return exact.OptimalStaged()(problem)

    world = Scenario().using(clients={"count": 2 * MANY}, cell={"gain_threshold": 0.0})
    price_round_grid(world, counting, 2)
    assert max(seen) == 2 * MANY
    assert max(seen.values()) <= 2 * 50 * MANY  # with two E_l


def test_a_plan_draws_its_fleet_once(monkeypatch):
    purposes = []

    def counting(mean, spread, purpose, seed, count):
        purposes.append(purpose)
        return spread_evenly(mean, spread, purpose, seed, count)

    monkeypatch.setattr(draw, "spread_evenly", counting)
    plan_training(
        DRAWN, LAW, limits=Limits(energy_per_client=1e6), region=Region(minimise="duration")
    )
    assert len(purposes) == len(set(purposes)) == 3


def test_the_client_that_pays_most_is_exact(few_are_many):
    """The plan names this client, so all clients of a large fleet are evaluated."""
    limits = Limits(energy_per_client=1e4)
    exactly = plan_training(DRAWN, LAW, limits=limits)
    few_are_many()
    nearly = plan_training(DRAWN, LAW, limits=limits)
    assert (nearly.cohort, nearly.local_steps) == (exactly.cohort, exactly.local_steps)
    (payer,), (known,) = nearly.devices, exactly.devices
    assert (payer.client, payer.called) == (known.client, known.called)
    assert payer.energy == pytest.approx(known.energy, rel=1e-12)


def test_devices_of_a_table_and_batteries_are_exact(few_are_many):
    rng = np.random.default_rng(1)
    columns = {
        "distance": rng.uniform(30, 200, 90).tolist(),
        "samples": rng.integers(50, 900, 90).tolist(),
        "battery": [*rng.uniform(200, 900, 60).tolist(), *[None] * 30],
    }
    world = Scenario().using(clients={"table": columns})
    grid = evaluate_plans(world, LAW, "optimal-staged", 12)
    known = device_shares(world, "optimal-staged", 100.0)
    few_are_many()
    again = evaluate_plans(world, LAW, "optimal-staged", 12)
    assert again.devices.battery == pytest.approx(grid.devices.battery, rel=1e-9)
    shares = device_shares(world, "optimal-staged", 100.0)
    for name in ("client", "heard", "called", "energy", "battery_share"):
        values = [[getattr(device, name) for device in each] for each in (shares, known)]
        assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("selection", ["uniform", "weighted"])
def test_blocks_of_clients_change_nothing(few_are_many, selection):
    world = DRAWN.using(plan={"selection": selection}, clients={"min_samples": 400.0})
    fleet = draw_fleet(world)
    called, uploads = chance_called(world, fleet), upload_moments(world, fleet)
    few_are_many()
    assert (chance_called(world, fleet) == called).all()
    for moment, known in zip(upload_moments(world, fleet), uploads, strict=True):
        assert moment == pytest.approx(known, rel=1e-13)


def test_all_clients_are_those_of_a_cohort_of_all():
    world = DRAWN.using(
        plan={"cohort": 200}, cell={"loss_rate": 0.3}, clients={"min_samples": 350.0}
    )
    fleet = draw_fleet(world)
    ordered, every = (
        draw_all(world, fleet, range(2, 5), 7),
        draw_trace(world, fleet, range(2, 5), 7),
    )
    for name in ("called", "received", "excluded_by_channel", "excluded_by_data"):
        assert (getattr(ordered, name) == getattr(every, name)).all()
    for t in range(3):
        of_each = [
            {j: (gain, lost) for j, gain, lost in zip(*rows, strict=True) if j >= 0}
            for rows in (
                (trace.cohort[t].tolist(), trace.gain[t].tolist(), trace.lost[t].tolist())
                for trace in (ordered, every)
            )
        ]
        assert of_each[0] == of_each[1]


def test_full_participation_is_that_of_the_order_in_which_clients_are_asked(few_are_many):
    known = full_participation(DRAWN, "distributed")
    few_are_many()
    assert full_participation(DRAWN, "distributed") == pytest.approx(known, rel=0.02)


@pytest.mark.parametrize("drawn", ["before-training", "after-training"])
def test_columns_are_those_of_a_simulation(drawn):
    world = DRAWN.using(plan={"cohort_drawn": drawn, "cohort": 30}, cell={"broadcast_time": 0.1})
    ledger = simulate_network(world, "equal-finish", 9, seed=3)
    columns = simulate_columns(world, draw_fleet(world, 3), "equal-finish", 9, seed=3)
    assert set(columns) == {"duration", "energy", "upload_cost", "compute_cost", "cost", "called"}
    for name, values in columns.items():
        assert (values == getattr(ledger, name)).all()


def test_energy_of_unselected_clients_is_counted_or_expected(few_are_many):
    world = WORLDS["after training"]
    fleet = draw_fleet(world)
    known = simulate_columns(world, fleet, "even", 300)["energy"]
    few_are_many()
    expected = simulate_columns(world, fleet, "even", 300)["energy"]
    error = known.std() / np.sqrt(300)
    assert expected.mean() == pytest.approx(known.mean(), abs=4 * error)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_the_staged_time_needs_no_order_of_all(few_are_many, scale):
    """Whether no client, some or all of them reach freq_min before T."""
    rng = np.random.default_rng(5)
    effort, longest = rng.exponential(size=(2, 3, 500))
    known = staged_time(effort, scale * longest)
    few_are_many()
    assert staged_time(effort, scale * longest) == pytest.approx(known, rel=1e-13)


@pytest.mark.parametrize("largest", [1, 50, 10**6, 2**62])
def test_a_stable_order_is_that_of_argsort(largest):
    key = np.random.default_rng(0).integers(0, largest, 1000)
    assert (stable_order(key) == key.argsort(kind="stable")).all()


def test_a_problem_with_other_work_is_that_of_another_plan():
    world = WORLDS["batches, losses"]
    fleet = draw_fleet(world)
    _, trace = next(draw_trace(world, fleet, 4).by_size())
    known, posed = (make_problem(world.with_plan(10, e), fleet, trace) for e in (33, 7))
    other = doing(posed, known.work, known.samples)
    assert (other.cycles == known.cycles).all()
    assert (other.effort == known.effort).all()
    assert posed.work != other.work
    with pytest.raises(BadInput, match="samples has a client with nan"):
        doing(posed, 1.0, np.full_like(known.samples, np.nan))
    with pytest.raises(BadInput, match="work = 0"):
        doing(posed, 0.0, known.samples)


def test_the_end_of_an_interval_is_the_normal_quantile():
    assert LAW.quantile((1 + LEVEL) / 2) == pytest.approx(ndtri((1 + LEVEL) / 2), rel=1e-15)
    assert LAW.quantile(0.8) == ndtri(0.8)
