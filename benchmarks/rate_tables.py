"""How far schedules of links with a rate table are from their bound, and how long they take.

    python benchmarks/rate_tables.py [--rounds 2000] [--repeats 3]

Rounds of phones at the edge of coverage, with full power over the steps of NR, by the clients of a
round: the gap of `optimal` to a bound over all modes, its mean and largest, and the CPU seconds of
all rounds, the minimum and the median over the repeats, beside those of `even` with its prices.
"""

import argparse
import time
from statistics import median

from fedcell import Scenario
from fedcell.network import draw_fleet, draw_trace
from fedcell.policies import Broadcast, Even, Optimal, make_problem, price

RADIO = {"rate_table": "nr-64qam", "power_law": "full", "power_max": 0.2}
RADIO |= {"noise_figure_db": 5.0, "circuit_power": 0.3}
COHORTS = (3, 5, 10, 30)


def world(cohort: int) -> Scenario:
    """Return 100 phones 200 m away under the paper's path loss, with thermal noise."""
    cell = {"noise": 4e-21, "bandwidth": 20e6, "gain_threshold": 0.0}
    task = {"model_bits": 1e6}
    return Scenario().using(cell=cell, radio=RADIO, plan={"cohort": cohort}, task=task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print("clients   mean gap   largest   optimal [s]       even [s]")
    for cohort in COHORTS:
        scenario = world(cohort)
        fleet = draw_fleet(scenario)
        parts = draw_trace(scenario, fleet, options.rounds).by_size()
        problem = make_problem(scenario, fleet, list(parts)[-1][1])
        even = Even(Broadcast.to(scenario, fleet))
        times: dict[str, list[float]] = {"optimal": [], "even": []}
        for _ in range(options.repeats):
            for name, policy in (("optimal", Optimal()), ("even", even)):
                begin = time.process_time()
                schedule = policy(problem)
                price(problem, schedule)
                times[name].append(time.process_time() - begin)
                if schedule.certificate is not None:
                    gap = schedule.certificate.gap
        spent = (f"{min(t):.3g} ({median(t):.3g})" for t in times.values())
        row = (f"{text:>15}" for text in spent)
        print(f"{cohort:>7}   {gap.mean():>8.2%}   {gap.max():>7.2%}", *row)


if __name__ == "__main__":
    main()
