"""What a device computes for itself: its frequency and its profile."""

import numpy as np
import pytest

from fedcell.deploy.device import own_frequency, profile_of
from fedcell.deploy.wire.profile import Profile
from fedcell.errors import BadInput
from fedcell.network.policies.base import Broadcast


def test_a_device_sets_its_frequency_from_the_order():
    sent = {"mean-freq": 1e9, "mean-samples": 60.0, "step-samples": 90.0}
    bounds = {"freq-min": 1e8, "freq-max": 1.2e9}
    broadcast = Broadcast(freq=1e9, samples=60.0)
    own = broadcast.own_freq(np.array(90.0), np.array(1e8), np.array(1.2e9))
    assert own_frequency(sent | bounds) == float(own) == 1.2e9  # (26), within its bounds
    assert own_frequency({"freq": 3e8} | sent | bounds) == 3e8
    assert own_frequency({}) is None


def test_the_settings_of_a_node_are_what_its_device_says():
    said = profile_of({"partition-id": 3, "kappa": 5e-27, "freq-max": 1e9, "other": "x"}, 60)
    assert Profile.of(said).to_dict() == {
        "name": "client-3",
        "client": 3,
        "samples": 60,
        "kappa": 5e-27,
        "freq_max": 1e9,
        "clock": said["clock"],
    }
    with pytest.raises(BadInput, match="no name"):
        profile_of({})
