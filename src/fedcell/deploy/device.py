"""What a device does: says who it is, sets its frequency, trains. Flower only carries it."""

import json
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats
from fedcell.deploy.wire.profile import NUMBERS
from fedcell.learning.learner import Learner, warm_up
from fedcell.learning.setup import TrainingSetup, prepare_training
from fedcell.network.policies.base import Broadcast
from fedcell.scenario.load import scenario_of
from fedcell.scenario.save import to_tables
from fedcell.scenario.scenario import Scenario

MODEL = "model"  # the one array of a model of ours, flat
SCENARIO, SEED, PLACE, DEVICE, DATA_DIR = "scenario", "seed", "partition-id", "device", "data-dir"


def own_frequency(order: Mapping[str, Any]) -> float | None:
    """f_j of this round [cycle/s]: as the server says, or, where it tells f-bar and D instead, by
    (26), which a device computes for itself; None where nothing is said of it."""
    if "freq" in order:
        return float(order["freq"])
    if "mean-freq" not in order:
        return None
    broadcast = Broadcast(freq=float(order["mean-freq"]), samples=float(order["mean-samples"]))
    bounds = np.array(float(order["freq-min"])), np.array(float(order["freq-max"]))
    return float(broadcast.own_freq(np.array(float(order["step-samples"])), *bounds))


def profile_of(node: Mapping[str, Any], samples: int | None = None) -> dict[str, Any]:
    """What a device says of itself: the settings of its node that are about the device, beside how
    many samples it holds.

    `device` is its name and `partition-id` its place in the fleet; kappa, power, gain or rate,
    freq-min, freq-max, cycles-per-sample and battery are what it is like, where it knows that.
    """
    place = node.get(PLACE)
    name = node.get(DEVICE, None if place is None else f"client-{place}")
    if name is None:
        raise BadInput("the device has no name: give its node `device` or partition-id")
    said: dict[str, Any] = {"name": str(name), "clock": time.time()}
    if place is not None:
        said["client"] = place
    if samples is not None:
        said["samples"] = samples
    for key in NUMBERS:
        if (value := node.get(key.replace("_", "-"))) is not None:
            said[key] = float(value)
    return said


def learning_text(scenario: Scenario) -> str:
    """What a device has to know of a scenario to train: not what radios are like."""
    tables = to_tables(scenario)
    clients = {"count": scenario.clients.count}
    if scenario.learning is not None and scenario.learning.analytic:
        clients["sizes"] = tables["clients"].get("sizes")
    kept = {name: tables[name] for name in ("learning", "plan", "task") if name in tables}
    return json.dumps({**kept, "clients": clients}, sort_keys=True)


@lru_cache(maxsize=2)
def setup_of(text: str, seed: int, data_dir: str | None) -> TrainingSetup:
    """What a scenario trains, from the tables that the server sends."""
    scenario = scenario_of(json.loads(text), Path())
    return prepare_training(scenario, seed, None if data_dir is None else Path(data_dir))


@lru_cache(maxsize=2)
def _learner_of(text: str, seed: int, data_dir: str | None) -> Learner:
    learner = setup_of(text, seed, data_dir).learner(threads=1, test=False)
    warm_up(learner)
    return learner


def samples_of(order: Mapping[str, Any], node: Mapping[str, Any]) -> int:
    """D_j of this device in the scenario that the server sends."""
    sizes = setup_of(*_asked(order, node)).scenario.clients.sizes.values
    place = node.get(PLACE)
    if not isinstance(place, int) or not 0 <= place < sizes.size:
        raise BadInput(
            f"partition-id = {place!r}: the scenario has {sizes.size} clients, from 0 on: give "
            "each node the number of its client"
        )
    return int(sizes[place])


def train(
    order: Mapping[str, Any], node: Mapping[str, Any], model: Floats
) -> tuple[Floats, dict[str, Any]]:
    """One round of local training with our engine: the upload, and what is said of it."""
    learner, client = _learner_of(*_asked(order, node)), int(order["client"])
    begin = time.perf_counter()
    (upload,) = learner.train(model, [client], int(order["server-round"]) - 1)
    seconds = time.perf_counter() - begin
    said = {"num-examples": int(learner.sizes[client]), "training-seconds": seconds}
    freq = own_frequency(order)
    return upload, said if freq is None else said | {"freq": freq}


def evaluate(order: Mapping[str, Any], node: Mapping[str, Any], model: Floats) -> dict[str, Any]:
    """f_j (1) of this device: the loss of a model on its own samples."""
    setup = setup_of(*_asked(order, node))
    client = int(order["client"])
    loss = own_loss(setup, client, model)
    return {"num-examples": int(setup.partition.sizes[client]), "train_loss": loss}


def own_loss(setup: TrainingSetup, client: int, model: Floats) -> float:
    """The mean loss of a model on the samples of one client."""
    from fedcell.learning.classifier import Classifier

    data, own = setup.data, setup.partition.of(client)
    kind = data.x_train.dtype.name
    judge = Classifier(setup.network, model, data.scale, data.shift, kind)
    return judge.evaluate(data.x_train[own], data.y_train[own]).loss


def _asked(order: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[str, int, str | None]:
    folder = node.get(DATA_DIR)
    return str(order[SCENARIO]), int(order[SEED]), None if folder is None else str(folder)
