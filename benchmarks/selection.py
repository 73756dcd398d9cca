"""What selection costs: against a round of training at N = 100, and for a million clients.

    python benchmarks/selection.py

Prints, for each rule that needs the network alone, the time to choose a round for 100 clients, in
parts of a round of training of the scenario digits, and for a million clients: the time of three
rounds less that of one, halved. CPU seconds of one thread. Rules alternate; minimum and median of
several passes are shown.
"""

import statistics
import time
from collections.abc import Callable

from fedcell import Scenario, load_scenario
from fedcell.experiments.league.run import ZOO
from fedcell.learning import prepare_training
from fedcell.network import draw_fleet, draw_trace
from fedcell.selectors import selecting
from fedcell.simulation import simulate

ROUNDS, PASSES = 300, 7
MILLION = 10**6


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def of_training() -> float:
    """Return the seconds of a round of training with 100 clients."""
    world = load_scenario("digits").using(clients={"count": 100}, learning={"evaluate_every": 100})
    setup = prepare_training(world)
    learner = setup.learner(1)
    simulate(setup.scenario, "optimal", learner, rounds=5)
    return min(
        seconds(lambda: simulate(setup.scenario, "optimal", learner, rounds=50)) / 50
        for _ in range(3)
    )


def passes(worlds: dict[str, Scenario], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of a round under each rule, in each pass."""
    fleet = draw_fleet(next(iter(worlds.values())))
    taken: dict[str, list[float]] = {name: [] for name in worlds}
    for number in range(PASSES + 1):
        for name, world in worlds.items():
            few, many = (
                seconds(lambda world=world, r=r, n=number: draw_trace(world, fleet, r, n))
                for r in (1, 1 + rounds)
            )
            if number:  # the first pass warms up
                taken[name].append((many - few) / rounds)
    return taken


def main() -> None:
    training = of_training()
    print(f"a round of training, 10 of 100 clients: {1e3 * training:.2f} ms")
    base = Scenario()
    many = base.using(clients={"count": MILLION})
    few = passes({name: selecting(base, name) for name in ZOO}, ROUNDS)
    large = passes({name: selecting(many, name) for name in ZOO}, 2)
    print("rule                 N = 100 [us]      of training    N = 1e6 [ms]")
    for name in ZOO:
        low, mid = min(few[name]), statistics.median(few[name])
        big, usual = min(large[name]), statistics.median(large[name])
        print(
            f"{name:18} {1e6 * low:7.1f} {1e6 * mid:7.1f} {100 * mid / training:9.2f} %"
            f" {1e3 * big:10.1f} {1e3 * usual:8.1f}"
        )


if __name__ == "__main__":
    main()
