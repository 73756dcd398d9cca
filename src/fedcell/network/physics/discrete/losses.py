"""Uploads that are lost because no block of them is sent again for good."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcell.core.types import Array
from fedcell.network.physics.link import noise_density, whole_band_density
from fedcell.network.trace import Fleet
from fedcell.scenario.scenario import Scenario

from .steps import loses_uploads, loss_at


def block_losses(
    scenario: Scenario, fleet: Fleet, gain: Array, which: Any = slice(None)
) -> Array | float:
    """Return the share of uploads that are lost by blocks, at gains of the clients that `which`
    indexes; 0 where blocks are repeated until they arrive."""
    if not loses_uploads(scenario):
        return 0.0
    assert scenario.radio is not None
    assert fleet.hardware is not None
    if scenario.radio.power_law == "full":
        density = fleet.hardware.power_max / scenario.cell.bandwidth
    else:
        density = whole_band_density(scenario, fleet)
    return loss_at(scenario, density[which] * gain / noise_density(scenario))


def joint_loss(loss: Array | float, blocks: Array | float) -> Array:
    """Return the share of uploads that are lost for one of two independent reasons.

    >>> joint_loss(0.1, 0.5).round(3)
    np.float64(0.55)
    """
    return np.asarray(1 - (1 - np.asarray(loss)) * (1 - np.asarray(blocks)))
