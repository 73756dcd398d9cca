"""Clock levels: time-sharing by hand, the optimum against CVXPY and brute force, tables, output."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedcell import Clients, ClientTable, Scenario, load_scenario, save_scenario, schedule_round
from fedcell.errors import BadInput
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.physics.terms import Terms, dual_bound
from fedcell.network.policies.optimal_power import OptimalPower
from fedcell.network.simulate import idle_costs
from fedcell.policies import Optimal, OptimalStaged, Problem, Schedule, certify, make_problem, price
from fedcell.scenario.hardware.levels import Levels

LEVELS = (3e8, 4e8, 5e8, 7e8, 1e9)
DEVICES = {
    "idle": {"idle_power": 0.5, "busy_power": 0.9},
    "asleep": {"idle_power": 0.5, "busy_power": 0.9, "when_done": "sleep"},
    "nothing else": {},
    "memory and sums": {"memory_time": 1e-4, "busy_power": 0.3, "count_energy": "sum"},
}


def problem_of(device, levels=LEVELS, cohort=5, rounds=2, seed=0, **tables) -> Problem:
    world = Scenario().using(
        device={**device, "levels": list(levels)},
        plan={"cohort": cohort},
        clients={"spread": 0.5},
        radio={"circuit_power": max(1.0, device.get("idle_power", 0.0))},
        **tables,
    )
    fleet = draw_fleet(world, seed)
    return make_problem(world, fleet, draw_trace(world, fleet, rounds, seed))


def any_clock(problem: Problem) -> Problem:
    return replace(problem, extras=replace(problem.extras, levels=None))


def test_joules_between_levels_are_those_of_time_sharing_by_hand():
    """1.5e9 cycles in 1 s between 1 and 2 GHz: 0.5 s at each. kappa = 1e-27: 1 W and 8 W, so 4.5 J;
    at 1.5 GHz alone 3.375 J. The work is 1.5 samples of 1e9 cycles."""
    world = (
        Scenario()
        .using(
            clients={"table": {"samples": [1.5], "kappa": [1e-27], "distance": [100.0]}},
            task={"cycles_per_sample": 1e9},
            plan={"cohort": 1, "local_steps": 1},
            cell={"gain_threshold": 0.0},
            device={"levels": [1e9, 2e9]},
        )
        .using(clients={"min_samples": 0})
    )
    fleet = draw_fleet(world)
    assert (fleet.freq_min[0], fleet.freq_max[0]) == (1e9, 2e9)
    problem = make_problem(world, fleet, draw_trace(world, fleet, 1))
    for clock, joules in ((1e9, 1.5), (1.5e9, 4.5), (1.75e9, (1 * 0.25 + 8 * 0.75) / 1.75 * 1.5)):
        cost = price(problem, Schedule(share=[[1.0]], freq=[[clock]]))
        assert_allclose(cost.compute_time, 1.5e9 / clock)
        assert_allclose(cost.compute_energy, joules, rtol=1e-13)


def test_two_adjacent_levels_are_the_cheapest_of_all_mixes():
    """Brute force over all pairs of levels, and over random mixes of all levels."""
    rng, clock, alpha = np.random.default_rng(0), np.array(LEVELS), 2.6
    levels = Levels.of([LEVELS])
    for f in rng.uniform(clock[0], clock[-1], 50):
        ours = float(levels.penalty(np.array([f]), np.array([alpha]))[0]) * f**alpha
        pairs = [
            low**alpha + (f - low) / (high - low) * (high**alpha - low**alpha)
            for low, high in itertools.combinations(LEVELS, 2)
            if low <= f <= high
        ]
        assert ours == pytest.approx(min(pairs), rel=1e-12)
        assert ours >= f**alpha
    shares = rng.dirichlet(np.ones(clock.size), 2000)
    mean = shares @ clock
    best = levels.penalty(mean, np.full(mean.shape, alpha)) * mean**alpha  # one kind for all
    assert (shares @ clock**alpha >= best * (1 - 1e-12)).all()


def conic(problem: Problem) -> float:
    """(22) over any mix of all levels, by CVXPY."""
    cp = pytest.importorskip("cvxpy")
    extras, clients = problem.extras, problem.clients
    clock, weight = np.array(LEVELS), problem.energy_weight
    each = weight if extras.summed else weight / clients
    H, s = cp.Variable(), cp.Variable(clients, pos=True)
    tau = cp.Variable((clients, clock.size), nonneg=True)
    train = extras.memory_time + cp.sum(tau, axis=1)
    dynamic = problem.kappa[:, None] * clock ** extras.exponent[:, None]
    drawn = cp.sum(cp.multiply(tau, dynamic)) + extras.busy_power @ train
    waited = extras.done_power @ (H - train - s)
    sent = problem.upload_energy.sum() + extras.send_power @ s
    limits = [
        tau @ (clock / 1e9) == problem.cycles / 1e9,
        train + s <= H,
        problem.band_time @ cp.inv_pos(s) <= 1,
    ]
    asked = cp.Problem(cp.Minimize(H + each * (drawn + waited) + weight * sent), limits)
    asked.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(asked.value)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_the_optimum_with_levels_is_that_of_a_conic_solver(device):
    problem = problem_of(device)
    best = Optimal()(problem)
    assert best.certificate.gap.max() < 1e-11
    cost = price(problem, best).objective
    for r in range(2):
        assert cost[r] == pytest.approx(conic(problem[r]), rel=3e-8)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_levels_cost_more_than_any_clock_and_bounds_hold(device):
    problem = problem_of(device, rounds=20)
    smooth = any_clock(problem)
    with_levels, without = Optimal()(problem), Optimal()(smooth)
    cost, least = price(problem, with_levels).objective, price(smooth, without).objective
    assert (cost >= least * (1 - 1e-12)).all()
    assert (cost / least - 1).max() > 1e-3  # or the test would hold for equal laws
    # The optimum of any clock, time-shared: dearer than the optimum with levels, within its gap.
    shared = Schedule(without.share, without.freq)
    its_cost = price(problem, shared).objective
    proof = certify(problem, shared)
    assert (its_cost >= cost * (1 - 1e-12)).all()
    assert ((its_cost - cost) <= proof.gap * its_cost * (1 + 1e-9) + 1e-9).all()
    assert (proof.gap < 0.1).all()
    # Any prices that sum to A bound it from below, those of the law without levels less tightly.
    rng = np.random.default_rng(1)
    beta = rng.dirichlet(np.ones(problem.clients), 20) * Terms.of(problem).second[:, None]
    assert (dual_bound(Terms.of(problem), beta) >= dual_bound(Terms.of(smooth), beta) - 1e-12).all()


def test_mixed_fleets_single_levels_and_bounds():
    lists = [(3e8, 6e8, 9e8), None, (4.5e8,), LEVELS]
    table = {
        "levels": [lists[j % 4] for j in range(12)],
        "samples": np.linspace(100, 900, 12).tolist(),
        "freq_max": [1e9, 8e8, 1e9, 6e8] * 3,
        "freq_min": [1e7] * 12,
    }
    world = (
        Scenario()
        .using(clients={"table": table}, plan={"cohort": 12}, device={"idle_power": 0.2})
        .using(clients={"min_samples": 0}, cell={"gain_threshold": 0.0})
    )
    fleet = draw_fleet(world)
    assert fleet.freq_min[:4].tolist() == [3e8, 1e7, 4.5e8, 3e8]
    assert fleet.freq_max[:4].tolist() == [9e8, 8e8, 4.5e8, 5e8]  # of its levels up to 600 MHz
    problem = make_problem(world, fleet, draw_trace(world, fleet, 5))
    best = Optimal()(problem)
    assert best.certificate.gap.max() < 1e-11
    assert certify(problem, best).gap.max() < 1e-10
    staged = OptimalStaged()(problem)
    cost = price(problem, staged).compute_cost
    for factor in (0.97, 1.03):  # no common stretch of the clocks is cheaper
        clock = np.clip(staged.freq * factor, problem.freq_min, problem.freq_max)
        assert (price(problem, Schedule(staged.share, clock)).compute_cost >= cost - 1e-12).all()
    assert (cost <= price(problem, OptimalStaged()(any_clock(problem))).compute_cost + 1e-12).all()
    seconds, joules = idle_costs(world, fleet)
    assert np.isfinite(seconds).all()
    assert np.isfinite(joules).all()
    one = schedule_round(Scenario().using(device={"levels": [5e8]}), "optimal")
    assert (one.schedule.freq == 5e8).all()
    assert one.any_clock == pytest.approx(float(one.cost.objective))


def test_optimal_power_with_levels_is_bounded():
    problem = problem_of(DEVICES["idle"], rounds=4)
    best = OptimalPower()(problem)
    assert (best.certificate.gap > 0).all()  # its clocks are those of the law, time-shared
    assert (best.certificate.gap < 0.1).all()
    smooth = OptimalPower()(any_clock(problem))
    assert smooth.certificate.gap.max() < 1e-9
    least = price(any_clock(problem), smooth).objective
    assert (price(problem, best).objective >= least * (1 - 1e-9)).all()


def test_levels_of_a_scenario_and_of_a_table_are_read_saved_and_identified(tmp_path):
    (tmp_path / "fleet.csv").write_text(
        "name,samples,levels_ghz\na,100,0.6 1.0 1.5\nb,200,\nc,300,0.8\n"
    )
    (tmp_path / "mine.toml").write_text(
        '[clients]\ntable = "fleet.csv"\n[plan]\ncohort = 2\n[device]\nlevels = [5e8, 7e8]\n'
    )
    world = load_scenario(tmp_path / "mine.toml")
    table = world.clients.table
    assert table.levels == ((6e8, 1e9, 1.5e9), None, (8e8,))
    assert "levels of 2 clients" in repr(table)
    assert draw_fleet(world).freq_max.tolist() == [1.5e9, 7e8, 8e8]
    save_scenario(world, tmp_path / "again.toml")
    assert load_scenario(tmp_path / "again.toml") == world
    assert table.having(samples=[1.0, 2.0, 3.0]).levels == table.levels
    assert ClientTable(levels=[[1e9], None]).count == 2


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ({"levels_ghz": ["1.0 0.6"]}, r"client 0: levels = 1e\+09, 6e\+08: expected clocks that r"),
        ({"levels_ghz": ["fast"]}, "levels_ghz = 'fast': expected clocks with blanks in between"),
        ({"levels": [[]]}, "levels has 0 clocks: expected 1 to 200"),
        ({"levels": [[-1.0]]}, "expected clocks above 0, in cycle/s"),
        ({"levels": [[1e9]], "levels_ghz": ["1"]}, "levels stand twice"),
        ({"levels_gz": ["1.0 2.0"]}, "'levels_gz' is not a column; did you mean"),
    ],
)
def test_bad_levels_are_refused(cells, sentence):
    with pytest.raises(BadInput, match=sentence):
        Clients(table={"samples": [3.0], **cells})


def test_bad_levels_of_a_scenario_are_refused():
    with pytest.raises(BadInput, match=r"device\.levels = 7e\+08, 5e\+08: expected clocks that ri"):
        Scenario().using(device={"levels": [7e8, 5e8]})
    table = {"levels": [[1e9, 2e9], [1e9]], "freq_max": [5e8, 1e9], "freq_min": [1e8, 1e8]}
    with pytest.raises(BadInput, match="client 0 has no clock level from its freq_min to its freq"):
        draw_fleet(Scenario().using(clients={"table": table}, plan={"cohort": 1}))


def test_schedule_shows_two_levels_and_the_share(tmp_path, fedcell):
    (tmp_path / "mine.toml").write_text("[device]\nidle_power = 0.2\nlevels = [3e8, 6e8, 9e8]\n")
    said = fedcell("schedule", tmp_path / "mine.toml").out
    assert "Clock levels" in said
    assert "next level [MHz]" in said
    assert "with any clock instead of levels, the policy would cost" in said
    found = json.loads(fedcell("schedule", tmp_path / "mine.toml", "--json").out)
    below, above, share, clock = (
        np.array(found[k]) for k in ("level_below", "level_above", "level_share", "freq")
    )
    assert_allclose((1 - share) * below + share * above, clock)
    assert np.isin(below[share > 0], [3e8, 6e8, 9e8]).all()
    assert found["objective_any_clock"] < found["objective"]
