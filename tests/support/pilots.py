"""A small world, and trials of it by hand."""

import json
from typing import Any

import numpy as np
import pytest

from fedcell.planning.pilot.trial import Trial
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Target

WORLD: dict[str, dict[str, Any]] = {
    "cell": {"loss_rate": 0.1, "broadcast_time": 1.0},
    "clients": {"count": 12, "samples": 40, "spread": 0.0},
    "plan": {"cohort": 4, "local_steps": 4, "rounds": 300},
    "learning": {
        "model": "quadratic-apart",
        "quadratic": {"dimension": 5, "noise": 0.3, "distance": 0.5},
        "rate": 0.02,
        "target": 0.4,
        "deliver": "last",  # whose loss swings
    },
}


def strict(said):
    assert said.code == 0, said.err
    return json.loads(said.out, parse_constant=lambda what: pytest.fail(f"{what} in JSON"))


HERE = Setting(4, 4, 0.1)


def passing(loss):
    """A loss that is reached when it is first passed."""
    return Target(loss=loss, hold=1)


def trial(losses, setting=HERE, seed=0, target=0.1, **more):
    return Trial(
        setting=setting,
        seed=seed,
        losses=tuple(losses),
        target=passing(target),
        wall_seconds=1.0,
        **more,
    )


def trial_of(losses, target, setting=Setting(4, 2, 0.0), seed=0, **more):  # noqa: B008
    return Trial(setting=setting, seed=seed, losses=losses, target=target, wall_seconds=1.0, **more)


def sampled_trial(error, target=0.5, hold=1):
    """A run to a target, thinly sampled before it."""
    losses = np.linspace(2.0, 0.5, 31)
    errors = np.where(losses > 0.6, error, 0.0)
    return Trial(
        setting=HERE,
        seed=0,
        losses=tuple(losses.tolist()),
        target=Target(loss=target, hold=hold),
        wall_seconds=1.0,
        errors=tuple(errors.tolist()),
        samples=(128,) * 31,
    )
