"""A strategy of Flower's inside a federation of ours: what it puts into messages, and how it
averages.

It makes sense where a strategy averages the answers of a round, with a step of its own or without:
FedAvg, FedProx, FedAvgM, FedAdam, FedYogi, FedAdagrad, FedMedian, FedTrimmedAvg. It does not where
one decides who is called (ours does), or counts on a fixed number of answers (Krum, Bulyan).
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
from fedcell.deploy.wire.messages import Answer

from .replies import number_of

EXAMPLES = "num-examples"  # the weight that Flower's strategies ask for
LOOKS = 2  # at who is there, by strategies that sample: once to count, once to draw


class CohortGrid(Grid):
    """The nodes of one round, for a strategy to sample all of."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes, self._looks = list(nodes), 0

    def get_node_ids(self) -> Iterable[int]:
        """The cohort; a strategy that keeps looking waits for nodes that will not come."""
        self._looks += 1
        if self._looks > LOOKS:
            raise BadInput(
                f"the strategy waits for more nodes than the {len(self._nodes)} of this round: set "
                "its fraction_train to 1.0, min_train_nodes and min_available_nodes to 1"
            )
        return list(self._nodes)

    def _none(self, *_: Any, **__: Any) -> Any:
        raise BadInput("the strategy sends messages of its own, which a federation of ours does")

    create_message = push_messages = pull_messages = send_and_receive = set_run = _none

    @property
    def run(self) -> Any:
        """None: nothing is sent from here."""
        return self._none()


def configured(
    strategy: Strategy, round: int, arrays: ArrayRecord, nodes: Sequence[int]
) -> dict[int, RecordDict]:
    """What a strategy would send to each node of a round, counted from 1."""
    sent = strategy.configure_train(round, arrays, ConfigRecord(), CohortGrid(nodes))
    found = {message.metadata.dst_node_id: message.content for message in sent}
    if left := set(nodes) - set(found):
        raise BadInput(
            f"the strategy leaves out {len(left)} of the {len(nodes)} clients that this round "
            "calls: set its fraction_train to 1.0"
        )
    return found


def cleaned(strategy: Strategy, answer: Answer, arrays: Mapping[str, Any], samples: int) -> Message:
    """An answer as a strategy gets it: the arrays as they are after screening, and D_j as the run
    knows it. What else a device says neither weighs its upload nor ends the round for others; a
    strategy with a weight of its own (`weighted_by_key`) gets that, where it can be one."""
    key = getattr(strategy, "weighted_by_key", EXAMPLES)
    weight = None if key == EXAMPLES else number_of(answer, key)
    metrics = MetricRecord({key: int(samples) if weight is None else weight})
    answer.message.content = RecordDict({"arrays": array_record(arrays), "metrics": metrics})
    return answer.message


def averaged(
    strategy: Strategy, round: int, replies: Sequence[Message], layout: Layout
) -> Floats | None:
    """What a strategy makes of the answers of a round; None where that is nothing."""
    record, _ = strategy.aggregate_train(round, list(replies))
    if record is None:
        return None
    arrays = {name: array.numpy() for name, array in record.items()}  # means of counters are floats
    shapes = dict(zip(layout.names, layout.shapes, strict=True))
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise BadInput("the strategy gives other arrays than those of the model: choose another")
    return layout.flat(arrays)
