"""For Flower apps of your own: run a plan on their devices, and let devices introduce themselves.

A ServerApp calls `run_federation`; a ClientApp replies to queries with `introduce`. The record
"config" of a message to train has the number of local steps, and the input of `own_frequency`.
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
    """Reply to a query with the profile of this device.

    The configuration of its node may give the same values (device="pump", partition-id=3,
    kappa=5e-27); those given here take precedence.

    Parameters
    ----------
    message : flwr.app.Message
        The query of the server.
    context : flwr.app.Context
        Context of the ClientApp, with the configuration of the node.
    samples : int
        D_j, the number of training samples that this device holds.
    **known
        Further fields of the `Profile`: kappa [J s^2], power [W/Hz], gain or rate [bit/s with the
        whole band], freq_min and freq_max [cycle/s], cycles_per_sample, battery [J].

    Returns
    -------
    flwr.app.Message
        The reply, for a ClientApp to return.

    Examples
    --------
    ::

        @app.query()
        def query(message, context):
            return introduce(message, context, samples=len(data), kappa=5e-27)
    """
    profile = profile_of(context.node_config, samples) | known
    return Message(RecordDict({PROFILE: ConfigRecord(profile)}), reply_to=message)
