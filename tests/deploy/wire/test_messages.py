"""Replies of devices: collected by a deadline, whatever they hold."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import MetricRecord, RecordDict  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.server.link import (  # noqa: E402
    Link,
    Member,
)
from fedcell.deploy.wire.arrays import (  # noqa: E402
    array_record,
)
from fedcell.deploy.wire.layout import Layout  # noqa: E402
from fedcell.deploy.wire.profile import Profile  # noqa: E402
from support.grids import MemoryGrid, answering, failing, silent  # noqa: E402

LAYOUT = Layout(("w",), ((3,),), ("float32",))
MODEL = np.arange(3, dtype=np.float32)


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages can be made inside a run of Flower only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def member(node):
    """A device behind a node."""
    return Member(node, Profile(name=f"device-{node}"))


def sent(grid, seconds):
    """A model to all nodes; the answers by client, and when each was there."""
    orders = {n: (member(n), {"server-round": 1}) for n in grid.nodes}
    begin, answers, times = time.monotonic(), {}, {}
    for answer in Link(grid).send("train", {"w": MODEL}, orders, seconds):
        answers[answer.client], times[answer.client] = answer, time.monotonic() - begin
    return answers, times


def upload(_message):
    """A model."""
    return RecordDict({"arrays": array_record({"w": MODEL}), "m": MetricRecord({"freq": 2.0})})


def test_the_deadline_holds_while_an_upload_is_stuck_and_hides_no_other():
    stuck = threading.Event()

    def blocking(_message, _seconds):
        stuck.wait(300)
        return []

    grid = MemoryGrid({1: blocking, 2: answering(upload), 3: answering(upload, 0.5), 4: silent})
    answers, times = sent(grid, 2.5)
    stuck.set()
    assert {n: a.outcome for n, a in answers.items()} == {
        1: "late",
        2: "arrived",
        3: "arrived",
        4: "late",
    }
    assert set(list(times)[:2]) == {2, 3}
    assert 0.5 <= times[3] < 2.5 <= min(times[1], times[4])
    assert max(times.values()) < 60  # nothing waits for the stuck upload
    assert answers[1].why == "no answer within 2.5 s"


def test_an_answer_is_measured_in_bytes_and_seconds():
    answers, _ = sent(MemoryGrid({7: answering(upload)}), 5.0)
    answer = answers[7]
    assert answer.bytes_sent == answer.bytes_received > MODEL.nbytes
    assert answer.sent <= answer.made <= answer.came
    assert answer.metrics == {"freq": 2.0}
    assert_array_equal(answer.arrays.of(LAYOUT)["w"], MODEL)


def test_a_second_answer_to_the_same_message_is_counted_and_not_taken():
    answers, _ = sent(MemoryGrid({1: answering(upload, times=3)}), 5.0)
    assert (answers[1].outcome, answers[1].repeated) == ("arrived", 2)


def test_what_cannot_even_be_pulled_is_malformed_and_shown_without_harm():
    def broken(_message, _seconds):
        raise KeyError("\x1b[2J" + "x" * 10**6)

    answers, _ = sent(MemoryGrid({1: broken, 2: answering(upload)}), 5.0)
    assert (answers[1].outcome, answers[2].outcome) == ("malformed", "arrived")
    assert answers[1].came is not None  # the device is there
    assert answers[1].why.isprintable()
    assert len(answers[1].why) <= 200


@pytest.mark.parametrize(
    ("code", "outcome", "why"),
    [
        (2, "failed", "raised an error: ValueError: no pump"),
        (3, "late", "its message ran out of time"),
        (5, "failed", "its node is gone"),
        (99, "failed", "error 99"),
    ],
)
def test_an_error_says_what_it_is(code, outcome, why):
    grid = MemoryGrid({1: failing(code, "Traceback\n  line\nValueError: no pump")})
    answers, _ = sent(grid, 5.0)
    assert answers[1].outcome == outcome
    assert answers[1].why.startswith(why)


def test_a_message_that_is_not_taken_is_not_waited_for():
    grid = MemoryGrid({1: silent, 2: answering(upload)})
    grid.refused = {1}
    answers, times = sent(grid, 300.0)
    assert (answers[1].outcome, answers[2].outcome) == ("failed", "arrived")
    assert max(times.values()) < 100


def test_no_device_is_late_where_the_server_has_lost_the_superlink():
    class Lost(MemoryGrid):
        def get_node_ids(self):
            raise ConnectionError("no SuperLink")

    with pytest.raises(ConnectionError):
        sent(Lost({1: silent, 2: answering(upload)}), 0.2)


def test_a_message_outlives_the_wait_for_its_answer():
    grid = MemoryGrid({1: answering(upload)})
    sent(grid, 5.0)
    ((message, _),) = grid.sent.values()
    assert message.metadata.ttl > 5.0


def test_an_answer_without_arrays_or_with_several_sets_has_none():
    def two(message):
        return RecordDict({"a": upload(message)["arrays"], "b": upload(message)["arrays"]})

    grid = MemoryGrid({1: answering(lambda _: RecordDict({})), 2: answering(two)})
    answers, _ = sent(grid, 5.0)
    assert answers[1].arrays is None
    assert answers[2].arrays is None
