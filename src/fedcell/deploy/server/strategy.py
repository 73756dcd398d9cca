"""A strategy of Flower inside a federation of fedcell: what it adds to messages, how it averages.

This suits strategies that average the replies of a round, with a server step or without: FedAvg,
FedProx, FedAvgM, FedAdam, FedYogi, FedAdagrad, FedMedian, FedTrimmedAvg. It does not suit those
that choose the clients (fedcell does), or need a fixed number of replies (Krum, Bulyan).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats
from fedcell.deploy.wire.arrays import array_record
from fedcell.deploy.wire.layout import Layout
from fedcell.deploy.wire.messages import Reply

from .replies import number_of

EXAMPLES = "num-examples"  # the weight that Flower's strategies ask for
MAX_NODE_QUERIES = 2  # of a strategy that samples: once to count the nodes, once to draw


class CohortGrid(Grid):
    """The nodes of one round, for a strategy to sample all of."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes, self._queries = list(nodes), 0

    def get_node_ids(self) -> Iterable[int]:
        """Return the cohort; refuse a strategy that keeps asking, as it waits for more nodes."""
        self._queries += 1
        if self._queries > MAX_NODE_QUERIES:
            raise BadInput(
                f"the strategy waits for more nodes than the {len(self._nodes)} of this round: set "
                "its fraction_train to 1.0, min_train_nodes and min_available_nodes to 1"
            )
        return list(self._nodes)

    def _none(self, *_: Any, **__: Any) -> Any:
        raise BadInput("the strategy tried to send messages; fedcell sends them itself")

    create_message = push_messages = pull_messages = send_and_receive = set_run = _none

    @property
    def run(self) -> Any:
        """Refuse: nothing is sent from here."""
        return self._none()


def configure(
    strategy: Strategy, round: int, arrays: ArrayRecord, nodes: Sequence[int]
) -> dict[int, RecordDict]:
    """Return what a strategy would send to each node of a round, counted from 1."""
    messages = strategy.configure_train(round, arrays, ConfigRecord(), CohortGrid(nodes))
    contents = {message.metadata.dst_node_id: message.content for message in messages}
    if left := set(nodes) - set(contents):
        raise BadInput(
            f"the strategy leaves out {len(left)} of the {len(nodes)} clients that this round "
            "calls: set its fraction_train to 1.0"
        )
    return contents


def cleaned(strategy: Strategy, reply: Reply, arrays: Mapping[str, Any], samples: int) -> Message:
    """Return a reply as a strategy gets it: the arrays after screening, and D_j as the run knows
    it, so that no other metric of a device weighs its upload or ends the round. A strategy with a
    weight of its own (`weighted_by_key`) gets that metric, where it is a valid number."""
    key = getattr(strategy, "weighted_by_key", EXAMPLES)
    weight = None if key == EXAMPLES else number_of(reply, key)
    metrics = MetricRecord({key: int(samples) if weight is None else weight})
    reply.message.content = RecordDict({"arrays": array_record(arrays), "metrics": metrics})
    return reply.message


def aggregate(
    strategy: Strategy, round: int, replies: Sequence[Message], layout: Layout
) -> Floats | None:
    """Return the model that a strategy makes of the replies of a round, or None."""
    record, _ = strategy.aggregate_train(round, list(replies))
    if record is None:
        return None
    arrays = {name: array.numpy() for name, array in record.items()}  # means of counters are floats
    shapes = dict(zip(layout.names, layout.shapes, strict=True))
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise BadInput("the strategy gives other arrays than those of the model: choose another")
    return layout.flat(arrays)
