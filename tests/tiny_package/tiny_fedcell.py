"""A package that adds one of each kind of plugin to fedcell."""

import numpy as np

from fedcell.learning import Dataset
from fedcell.network import Propagation
from fedcell.policies import Optimal
from fedcell.selectors import best, reads

optimal_again = Optimal()


def round_robin(labels, count, spec, rng):
    """Deal samples to clients in turn."""
    return np.arange(labels.size) % count


def two_blobs(folder):
    """Two classes of points, the same at each call."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 120)
    x = rng.normal(2.0 * y[:, None], 1.0, (120, 4)).astype(np.float32)
    return Dataset.of(
        x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:], name="two-blobs"
    )


def lines(where, name, about):
    """Write a line for each round to a file."""
    with open(where, "w") as file:
        while True:
            report = yield
            print(name, report.round, file=file, flush=True)


def two_slopes(distance, spec):
    """Lose 20 dB a decade up to 100 m, and 40 beyond."""
    slope = np.where(distance <= 100, 20, 40)
    return Propagation(los=80 + slope * np.log10(distance / 100), shadow_los=4.0)


@reads("mean_gain")
def near_first(known):
    """Call the clients with the best mean channels."""
    return best(known, known.mean_gain)
