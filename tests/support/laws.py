"""Laws of rounds with known coefficients, and runs that follow them."""

import numpy as np

from fedcell.planning.law.given import GivenLaw, features
from fedcell.planning.law.observations import Observations

SETTINGS = [(10, 20, 0.1), (3, 80, 0.1), (40, 5, 0.1), (40, 80, 0.1), (3, 5, 0.1), (3, 20, 0.4)]
PAPER = GivenLaw(mixing=60.0, drift=0.4, start=300.0)
FLOOR = GivenLaw(mixing=60.0, drift=0.0, start=250.0, floor=15.0)


def observed(law, seeds=10, seed_sd=0.0, run_sd=0.0, cap=np.inf, seed=0, kind="independent"):
    """Runs of a law with lognormal luck of seeds and noise of runs, cut at `cap` rounds."""
    rng = np.random.default_rng(seed)
    cohort, steps, gamma = (np.tile(column, seeds) for column in np.array(SETTINGS).T)
    own_seed = np.repeat(np.arange(seeds), len(SETTINGS))
    x = features(cohort.astype(int), steps.astype(int), gamma, kind)
    own = np.exp(seed_sd * rng.standard_normal(seeds))[own_seed]
    rounds = x @ law.coefficients * own * np.exp(run_sd * rng.standard_normal(own_seed.size))
    return Observations(
        cohort=cohort.astype(int),
        steps=steps.astype(int),
        loss_rate=gamma,
        rounds=np.minimum(rounds, cap),
        censored=rounds > cap,
        seed=own_seed,
        kind=kind,
    )
