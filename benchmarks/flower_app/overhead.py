"""Measure a round of the same devices under Flower's FedAvg and under fedcell, in turns. A device
returns the model unchanged, so only the communication is measured."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedcell import Learning, Observer, RoundPlan, Scenario, Task
from fedcell.deploy import FederationOptions
from fedcell.deploy.flower import introduce, run_federation

client = ClientApp()
server = ServerApp()


@client.query()
def query(message: Message, context: Context) -> Message:
    return introduce(message, context, samples=100)


@client.train()
def train(message: Message, _: Context) -> Message:
    arrays = {"model": Array(message.content["arrays"]["model"].numpy())}
    said = MetricRecord({"num-examples": 100, "training-seconds": 0.0})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": said}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, _: Context) -> Message:
    said = MetricRecord({"num-examples": 100, "train_loss": 1.0})
    return Message(RecordDict({"metrics": said}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    clients, cohort, rounds = (int(config[key]) for key in ("clients", "cohort", "rounds"))
    model = np.zeros(int(config["numbers"]), np.float32)
    taken: dict[str, list[float]] = {"flower": [], "fedcell": []}
    for _ in range(int(config["repeats"])):
        taken["flower"] += by_flower(grid, model, clients, cohort, rounds)
        taken["fedcell"] += by_us(grid, model, clients, cohort, rounds)
    Path(str(config["result"])).write_text(json.dumps(taken))


def by_flower(grid: Grid, model: np.ndarray, clients: int, cohort: int, rounds: int) -> list[float]:
    """Seconds of each round of FedAvg, without the first."""
    moments: list[float] = []
    strategy = FedAvg(fraction_train=cohort / clients, fraction_evaluate=0.0)
    strategy.start(
        grid,
        ArrayRecord({"model": Array(model)}),
        num_rounds=rounds,
        evaluate_fn=lambda *_: moments.append(time.perf_counter()),
    )
    return np.diff(moments[1:]).tolist()


def by_us(grid: Grid, model: np.ndarray, clients: int, cohort: int, rounds: int) -> list[float]:
    """Return the seconds of each round under fedcell, schedule, checks and ledgers included,
    without the first and the last, which evaluate."""
    moments: list[float] = []
    learning = Learning(model="mlp", evaluate_every=10**6)
    scenario = Scenario(
        task=Task(cycles_per_sample=1e4, samples_per_step="batch"),
        plan=RoundPlan(cohort=cohort, rounds=rounds + 1),
        learning=learning,
    ).using(clients={"count": clients})
    with tempfile.TemporaryDirectory() as folder:
        run_federation(
            grid,
            scenario,
            folder=f"{folder}/run",
            options=FederationOptions(policy="optimal", deadline=60.0, arrays={"model": model}),
            observer=Observer(round=lambda _: moments.append(time.perf_counter())),
        )
    return np.diff(moments[:-1]).tolist()
