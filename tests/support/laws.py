"""Laws of rounds with known coefficients, and runs that follow them."""

import numpy as np

from fedcell.planning.observations import Observed, features
from fedcell.planning.theory import Bound

SETTINGS = [(10, 20, 0.1), (3, 80, 0.1), (40, 5, 0.1), (40, 80, 0.1), (3, 5, 0.1), (3, 20, 0.4)]
PAPER = Bound(mixing=60.0, drift=0.4, start=300.0)
FLOOR = Bound(mixing=60.0, drift=0.0, start=250.0, floor=15.0)


def observed(law, blocks=10, luck=0.0, noise=0.0, cap=np.inf, seed=0, kind="independent"):
    """Runs of a law with lognormal luck of blocks and noise of runs, cut at `cap` rounds."""
    rng = np.random.default_rng(seed)
    cohort, steps, gamma = (np.tile(column, blocks) for column in np.array(SETTINGS).T)
    block = np.repeat(np.arange(blocks), len(SETTINGS))
    x = features(cohort.astype(int), steps.astype(int), gamma, kind)
    own = np.exp(luck * rng.standard_normal(blocks))[block]
    rounds = x @ law.coefficients * own * np.exp(noise * rng.standard_normal(block.size))
    return Observed(
        cohort=cohort.astype(int),
        steps=steps.astype(int),
        loss_rate=gamma,
        rounds=np.minimum(rounds, cap),
        censored=rounds > cap,
        block=block,
        kind=kind,
    )
