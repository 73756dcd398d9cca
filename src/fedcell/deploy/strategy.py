"""A strategy of Flower's inside a federation of ours: what it puts into messages, and how it
averages.

It makes sense where a strategy averages the answers of a round, with a step of its own or without:
FedAvg, FedProx, FedAvgM, FedAdam, FedYogi, FedAdagrad, FedMedian, FedTrimmedAvg. It does not where
one decides who is called (ours does), or counts on a fixed number of answers (Krum, Bulyan).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.exception import AggregationError, InconsistentMessageReplies
from flwr.serverapp.strategy import Strategy

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats

from .arrays import array_record
from .layout import Layout
from .mail import Answer

LOOKS = 2  # at who is there, by strategies that sample: once to count, once to draw
SAMPLES = "num-examples"  # by which strategies weigh, where nobody says otherwise


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


@dataclass(frozen=True, eq=False)
class Reply:
    """An answer that a strategy is given: not all that the device has put into it."""

    message: Message  # as it came
    arrays: ArrayRecord  # as it came, or shortened
    samples: float  # D_j, by which we weigh; a device does not choose the weight of its upload


def replies_of(
    taken: Mapping[int, Floats],
    found: Mapping[int, Answer],
    far: Mapping[int, float],
    samples: Any,
    layout: Layout,
) -> list[Reply]:
    """What a strategy is given of the uploads that are taken; those that were `far` outside the
    others' norm as they were shortened."""
    replies = []
    for client, upload in taken.items():
        message, came = found[client].message, found[client].arrays
        assert came is not None
        arrays = array_record(layout.arrays(upload)) if client in far else came.record
        replies.append(Reply(message, arrays, float(samples[client])))
    return replies


def averaged(
    strategy: Strategy, round: int, replies: Sequence[Reply], layout: Layout
) -> Floats | None:
    """What a strategy makes of the answers of a round; None where that is nothing."""
    try:
        record, _ = strategy.aggregate_train(round, list(_given(replies)))
    except (AggregationError, InconsistentMessageReplies) as error:
        raise BadInput(
            f"the strategy {type(strategy).__name__} cannot average the {len(replies)} answers of "
            f"round {round}: {error}"
        ) from error
    if record is None:
        return None
    # Some compute in double precision: the model keeps the type that it has.
    arrays = {name: record[name].numpy() for name in layout.names if name in record}
    if tuple(array.shape for array in arrays.values()) != layout.shapes:
        raise BadInput(
            f"the strategy {type(strategy).__name__} makes other arrays than those of the model"
        )
    return layout.flat(arrays)


def _given(replies: Sequence[Reply]) -> Iterator[Message]:
    """Answers with one set of arrays and one of numbers, the same ones in all: strategies refuse
    all answers of a round where one of them is of another kind."""
    said = [_numbers(reply.message) for reply in replies]
    common = sorted(set.intersection(*map(set, said)))
    for reply, numbers in zip(replies, said, strict=True):
        message = copy(reply.message)
        kept = {name: numbers[name] for name in common} | {SAMPLES: reply.samples}
        message.content = RecordDict({"arrays": reply.arrays, "metrics": MetricRecord(kept)})
        yield message


def _numbers(message: Message) -> dict[str, float]:
    records = message.content.metric_records.values()
    values = {name: value for record in records for name, value in record.items()}
    return {n: v for n, v in values.items() if isinstance(v, int | float) and np.isfinite(v)}
