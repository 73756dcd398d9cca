"""For Flower apps of your own: run a plan on their devices, and let devices introduce themselves.

A ServerApp calls `run_federation`; a ClientApp answers queries with `introduce`, and finds in the
record "config" of a message to train how many local steps to take, and `own_frequency`.
examples/flower_pytorch does it in a few lines.
"""

from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedcell.deploy.server.link import PROFILE
from fedcell.deploy.server.pilot import pilot_federation
from fedcell.deploy.server.run import run_federation

from .device import own_frequency, profile_of
from .options import FederationOptions

__all__ = ["FederationOptions", "introduce", "own_frequency", "pilot_federation", "run_federation"]


def introduce(message: Message, context: Context, samples: int, **known: Any) -> Message:
    """The answer to a query: who this device is, how many `samples` it holds, and what is `known`
    of it: kappa [J s^2], power [W/Hz], gain or rate [bit/s with the whole band], freq_min and
    freq_max [cycle/s], cycles_per_sample, battery [J]. The settings of its node say the same
    (device="pump", partition-id=3, kappa=5e-27); what is given here goes before them."""
    said = profile_of(context.node_config, samples) | known
    return Message(RecordDict({PROFILE: ConfigRecord(said)}), reply_to=message)
