"""The ready ClientApp with faults, for tests: its node configures them, `fault="nan ok | late"`.

Words are the faults of one round after the other; programs between bars are those of the runs
with seed 0, 1, ... What goes wrong when the device introduces itself stands in `profile`. It is
copied into the folder of an app, so that Flower carries it to the nodes.
"""

import io
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedcell.deploy import clientapp
from fedcell.deploy import device as client
from fedcell.deploy.wire.arrays import array_record

app = ClientApp()
LONG = 600.0  # [s], longer than any deadline
HUGE = 2**26  # [byte] of an upload
MODEL, ARRAYS, METRICS, CONFIG, PROFILE = "model", "arrays", "metrics", "config", "profile"


class Trap:
    """Create a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


@app.query()
def introduce(message: Message, context: Context) -> Message:
    """Reply with a profile, true or false."""
    node = context.node_config
    answer = clientapp.introduce(message, context)
    said = dict(answer.content[PROFILE])
    match node.get("profile", "true"):
        case "kappa":
            said["kappa"] = -1.0
        case "control":
            said["name"] = "pump\x1b[31m\r\n"
        case "unknown":
            said["root"] = True
        case "long":
            said["name"] = "x" * 2**20
        case "silent":
            time.sleep(LONG)
    return Message(RecordDict({PROFILE: ConfigRecord(said)}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train, and then apply the fault."""
    order, node = dict(message.content[CONFIG]), context.node_config
    fault = _fault(str(node.get("fault", "")), int(order["seed"]), int(order["server-round"]))
    marks = Path(str(node["marks"]))
    (marks / f"{node['partition-id']}-{order['seed']}-{order['server-round']}").touch()
    if fault == "raise":
        raise RuntimeError("the pump\x1b[31m is\rbroken, \u2028and so is its\tlog")
    if fault == "hang":
        time.sleep(LONG)
    while fault == "late" and not (marks / "late").exists():
        time.sleep(0.1)  # until the test makes this file
    model = np.asarray(message.content[ARRAYS][MODEL].numpy(), np.float32)
    upload, said = client.train(order, node, model)
    records = _records(fault, upload, model, marks)
    if fault == "claims":
        said |= {"freq": 123.0, "training-seconds": float("inf"), "num-examples": -5}
    return Message(RecordDict({**records, METRICS: MetricRecord(said)}), reply_to=message)


def _fault(programs: str, seed: int, round: int) -> str:
    """Return the fault of a round, counted from 1; `ok` by default."""
    runs = [program.split() for program in programs.split("|")]
    words = runs[seed] if seed < len(runs) else []
    return words[round - 1] if round <= len(words) else "ok"


def _records(fault: str, upload: Any, model: Any, marks: Path) -> dict[str, Any]:
    """Return the arrays to send."""
    size = upload.size
    match fault:
        case "none":
            return {}
        case "two":
            return {ARRAYS: array_record({MODEL: upload}), "more": array_record({MODEL: upload})}
        case "nan":
            upload[size // 2] = np.nan
        case "shape":
            upload = upload[:-1]
        case "flat":
            upload = upload[None, :]
        case "dtype":
            upload = upload.astype(np.float64)
        case "endian":
            upload = upload.astype(">f4")
        case "far":
            upload = model + 1000 * (upload - model)
        case "names":
            return {ARRAYS: array_record({"weights": upload})}
        case "packed":
            packed = Array("float32", upload.shape, "torch.tensor", upload.tobytes())
            return {ARRAYS: ArrayRecord({MODEL: packed})}
        case "terabyte":
            return {ARRAYS: _packed(announcing(10**12 // 4))}
        case "pickle":
            stream = io.BytesIO()
            things = np.array([Trap(marks / "unpickled")], object)
            np.save(stream, things, allow_pickle=True)
            return {ARRAYS: _packed(stream.getvalue())}
        case "huge":
            upload = np.frombuffer(os.urandom(HUGE), np.uint8)
    return {ARRAYS: array_record({MODEL: upload})}


def announcing(count: int) -> bytes:
    """A .npy with a header of `count` floats, and no data."""
    stream = io.BytesIO()
    head = {"descr": "<f4", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(stream, head)
    return stream.getvalue()


def _packed(data: bytes) -> ArrayRecord:
    return ArrayRecord({MODEL: Array("float32", (1,), "numpy.ndarray", data)})
