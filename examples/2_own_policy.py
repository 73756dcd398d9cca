"""Compare your own scheduling policy with built-in ones: common random numbers, error bars."""

import numpy as np

from fedcell import Scenario, compare
from fedcell.policies import Problem, Schedule, check_policy


def by_channel(problem: Problem) -> Schedule:
    """Give band in proportion to upload times; train at the middle frequency."""
    share = problem.band_time / problem.band_time.sum(-1, keepdims=True)
    return Schedule(share=share, freq=np.sqrt(problem.freq_min * problem.freq_max))


check_policy(by_channel)  # shares sum to one, bounds hold, on rounds of all kinds

scenario = Scenario().using(task={"model_bits": 3e7}, clients={"spread": 0.5})
for costs in compare(scenario, ["even", by_channel, "optimal"], rounds=300).policies:
    cost, change = costs.mean["objective"], costs.difference["objective"]
    print(
        f"{costs.policy:>10}: {cost.value:6.1f} s a round, "
        f"{change.value:+7.1f} ± {change.half_width:.1f} against even"
    )
