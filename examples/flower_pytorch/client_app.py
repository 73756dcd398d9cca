"""A device: an ordinary Flower ClientApp that sends its profile and takes the requested steps."""

import time

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from task import make_model, own_data
from torch.nn.functional import cross_entropy

from fedcell.deploy.flower import introduce

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    _, y = data_of(context)
    return introduce(message, context, samples=len(y))  # and kappa=..., power=..., if known


@app.train()
def train(message: Message, context: Context) -> Message:
    (x, y), model, config = data_of(context), model_of(message), message.content["config"]
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = time.perf_counter()
    for _ in range(config["local-steps"]):  # E_l of the plan
        batch = torch.randint(len(y), (config["batch-size"],))
        optimiser.zero_grad()
        cross_entropy(model(x[batch]), y[batch]).backward()
        optimiser.step()
    metrics = {"num-examples": len(y), "training-seconds": time.perf_counter() - begin}
    return answer(message, MetricRecord(metrics), ArrayRecord(model.state_dict()))


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    (x, y), model = data_of(context), model_of(message)
    with torch.no_grad():
        logits = model(x)
    hits = (logits.argmax(1) == y).float().mean()
    loss = {"train_loss": float(cross_entropy(logits, y)), "accuracy": float(hits)}
    return answer(message, MetricRecord({"num-examples": len(y), **loss}))


def data_of(context: Context) -> tuple[torch.Tensor, torch.Tensor]:
    node = context.node_config
    return own_data(int(node["partition-id"]), int(node["num-partitions"]))


def model_of(message: Message) -> torch.nn.Module:
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model


def answer(message: Message, metrics: MetricRecord, arrays: ArrayRecord | None = None) -> Message:
    records = RecordDict({"metrics": metrics})
    if arrays is not None:
        records["arrays"] = arrays
    return Message(records, reply_to=message)
