"""Objects of the network print in a few lines: sizes and ranges with units, never an array."""

from inspect import signature

import numpy as np
import pytest

from fedcell import Gains, Scenario
from fedcell.network import Fleet, draw_fleet, draw_trace, load_round, simulate_network
from fedcell.network.trace import Trace
from fedcell.policies import Optimal, Problem, Schedule, make_problem, price


def network_objects(rounds: int) -> dict[str, object]:
    scenario = Scenario().using(cell={"loss_rate": 0.2})
    fleet = draw_fleet(scenario)
    trace = draw_trace(scenario, fleet, rounds)
    problem = make_problem(scenario, fleet, trace)
    schedule = Optimal()(problem)
    objects = {"Fleet": fleet, "Trace": trace, "Problem": problem, "Schedule": schedule}
    objects |= {"Cost": price(problem, schedule), "Certificate": schedule.certificate}
    return objects


@pytest.mark.parametrize("rounds", [1, 500])
def test_a_repr_has_at_most_five_lines(rounds):
    for name, value in network_objects(rounds).items():
        text = repr(value)
        assert text.startswith(f"<{name}, "), text
        assert len(text.splitlines()) <= 5
        assert max(map(len, text.splitlines())) <= 120, text
        assert "array" not in text


def test_a_problem_says_its_size_and_ranges():
    problem = load_round("docs/round.json")
    assert repr(problem) == (
        "<Problem, 3 clients: band_time 1.62 to 7.005 s, upload_energy 16.2 to 56.04 J,\n"
        "  samples 400 to 600, kappa 4e-27 to 6e-27 J s^2, freq 1e+07 to 2e+09 cycle/s,\n"
        "  work 1e+07 cycle/sample, energy_weight 1 s/J>"
    )


def test_a_schedule_and_its_cost_say_what_they_hold():
    problem = load_round("docs/round.json")
    schedule = Optimal()(problem)
    assert repr(schedule).startswith("<Schedule, 3 clients: share 0.151 to 0.6237, freq ")
    assert repr(schedule).endswith(" cycle/s, with a certificate>")
    assert repr(price(problem, schedule)).startswith(
        "<Cost, 3 clients: duration 27.9 s, energy 105.1 J, objective (22) "
    )
    assert repr(price(problem[None], Optimal()(problem[None]))).startswith(
        "<Cost, 1 round of 3 clients: "
    )


def test_a_trace_counts_its_lost_uploads():
    trace = Trace.of(np.array([[1e-13, 2e-13], [3e-13, 4e-13]]))
    assert repr(trace) == (
        "<Trace, 2 rounds from round 0 on: 2 clients a round, gain 1e-13 to 4e-13, "
        "0 of 4 uploads lost>"
    )
    assert "from round 1 on" in repr(trace[1:])
    assert repr(trace[2:]).startswith("<Trace, 0 rounds from round 2 on: ")


def test_a_fleet_names_what_its_clients_differ_in():
    columns = {"battery": [5.0, 7.0, None], "loss_rate": [0.1, None, None]}
    scenario = Scenario().using(clients={"table": columns}, plan={"cohort": 2})
    text = repr(draw_fleet(scenario))
    assert text.startswith("<Fleet, 3 clients: samples ")
    assert "loss_rate 0 to 0.1, battery 5 to inf J>" in text
    assert "battery" not in repr(draw_fleet(Scenario()))


def test_signatures_show_names_of_arrays_and_not_their_generics():
    for thing in (price, make_problem, Problem, Schedule, Fleet, Trace, Gains, simulate_network):
        text = str(signature(thing))
        assert "numpy" not in text
        assert len(text) < 300
    assert (
        str(signature(price)).replace("'", "") == "(problem: Problem, schedule: Schedule) -> Cost"
    )
