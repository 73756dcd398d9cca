"""Flower's own simulation: 20 rounds of FedAvg, 10 of 100 clients in each, on Ray.

Not driven by lines: it runs the whole job once and prints one JSON line. "seconds" is all of
it, with Ray's start and stop; "first_round" has Ray's start in it, since Flower's server begins
meanwhile; so "rounds_seconds" is of the other rounds, "timed_rounds" of them.

In its favour: two clients train at a time with one thread each (by default it is one client),
the actors keep model and data between messages, the client is the plain PyTorch loop on tensors
in memory, nothing is evaluated, and telemetry is off.
"""

import functools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from common import (
    RATE,
    arguments,
    private_stdout,
    torch_batches,
    torch_data,
    torch_loss,
    torch_model,
)

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
os.environ.setdefault("FLWR_HOME", str(Path(tempfile.gettempdir()) / "flwr-benchmark"))

import torch
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

app = ClientApp()
data_of = functools.cache(torch_data)
model_of = functools.cache(torch_model)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One client's part of a round; what is cached stays in the actor's process."""
    torch.set_num_threads(1)
    job, client = message.content["config"], int(context.node_config["partition-id"])
    images, labels = data_of(job["clients"], job["learnable"])
    images, labels = images[client], labels[client]
    model = model_of(job["model"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    seed = client + job["clients"] * (job["server-round"] - 1)
    for index in next(torch_batches(len(labels), job["steps"], job["batch"], seed)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
        optimizer.step()
    reply = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(labels)}),
    }
    return Message(RecordDict(reply), reply_to=message)


def main() -> None:
    from flower_sim import app  # Ray then imports the client by name, and its caches live on

    args = arguments(__doc__, clients=100, rounds=20)
    stdout = private_stdout()
    model = torch_model(args.model)
    loss = torch_loss(model, args.learnable)
    losses: list[float] = []
    ends: list[float] = []
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _context: Context) -> None:
        config: dict[str, Any] = {"clients": args.clients, "learnable": args.learnable}
        config |= {"model": args.model, "steps": args.steps, "batch": args.batch}

        def after_round(_number: int, arrays: ArrayRecord) -> None:  # and before the first
            ends.append(time.perf_counter())
            if loss is not None:
                model.load_state_dict(arrays.to_torch_state_dict())
                losses.append(loss())

        FedAvg(
            fraction_train=args.cohort / args.clients,
            fraction_evaluate=0.0,
            min_train_nodes=args.cohort,
            min_available_nodes=args.clients,
        ).start(
            grid,
            ArrayRecord(model.state_dict()),
            num_rounds=args.rounds,
            train_config=ConfigRecord(config),
            evaluate_fn=after_round,
        )

    begin = time.perf_counter()
    run_simulation(
        server,
        app,
        num_supernodes=args.clients,
        backend_config={
            "init_args": {"num_cpus": 2},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    answer: dict[str, Any] = {
        "seconds": time.perf_counter() - begin,
        "rounds": len(ends) - 1,
        "first_round": ends[1] - ends[0],
        "rounds_seconds": ends[-1] - ends[1],
        "timed_rounds": len(ends) - 2,
    }
    if losses:
        answer["losses"] = losses
    print(json.dumps(answer), file=stdout, flush=True)


if __name__ == "__main__":
    main()
