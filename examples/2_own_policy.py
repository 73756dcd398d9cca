"""A scheduling idea of your own against ours, on the same dice, with error bars."""

import numpy as np

from fedcell import Problem, Scenario, Schedule, check_policy, compare


def by_channel(problem: Problem) -> Schedule:
    """Band in proportion to the time that an upload needs; everyone trains at the middle."""
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
