"""What a device does: send its profile, set its frequency, train. Independent of Flower."""

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

MODEL = "model"  # the one array of a built-in model, flat
SCENARIO, SEED, PLACE, DEVICE, DATA_DIR = "scenario", "seed", "partition-id", "device", "data-dir"


def own_frequency(order: Mapping[str, Any]) -> float | None:
    """Return the frequency f_j of a device in this round.

    Parameters
    ----------
    order : mapping
        The record "config" of a message to train. It has `freq`, or the broadcast `mean-freq` and
        `mean-samples` with `step-samples`, `freq-min` and `freq-max`, from which the device
        computes its own frequency by (26).

    Returns
    -------
    float or None
        f_j [cycle/s]; None where the order has neither.
    """
    if "freq" in order:
        return float(order["freq"])
    if "mean-freq" not in order:
        return None
    broadcast = Broadcast(freq=float(order["mean-freq"]), samples=float(order["mean-samples"]))
    bounds = np.array(float(order["freq-min"])), np.array(float(order["freq-max"]))
    return float(broadcast.own_freq(np.array(float(order["step-samples"])), *bounds))


def profile_of(node: Mapping[str, Any], samples: int | None = None) -> dict[str, Any]:
    """Return the profile of a device: the values in the configuration of its node, and how many
    samples it holds.

    `device` is its name and `partition-id` its place in the fleet; kappa, power, gain or rate,
    freq-min, freq-max, cycles-per-sample and battery describe it, where they are known, and
    sets-power says whether it sends with the `power` of an order.
    """
    place = node.get(PLACE)
    name = node.get(DEVICE, None if place is None else f"client-{place}")
    if name is None:
        raise BadInput("the device has no name: give its node `device` or partition-id")
    profile: dict[str, Any] = {"name": str(name), "clock": time.time()}
    if place is not None:
        profile["client"] = place
    if samples is not None:
        profile["samples"] = samples
    if (able := node.get("sets-power")) is not None:
        profile["sets_power"] = able
    for key in NUMBERS:
        if (value := node.get(key.replace("_", "-"))) is not None:
            profile[key] = float(value)
    return profile


def learning_text(scenario: Scenario) -> str:
    """Return the tables of a scenario that a device needs to train, without those of radios."""
    tables = to_tables(scenario)
    clients = {"count": scenario.clients.count}
    if scenario.learning is not None and scenario.learning.analytic:
        clients["sizes"] = tables["clients"].get("sizes")
    kept = {name: tables[name] for name in ("learning", "plan", "task") if name in tables}
    return json.dumps({**kept, "clients": clients}, sort_keys=True)


@lru_cache(maxsize=2)
def setup_of(text: str, seed: int, data_dir: str | None) -> TrainingSetup:
    """Prepare the training of a scenario from the tables that the server sends."""
    scenario = scenario_of(json.loads(text), Path())
    return prepare_training(scenario, seed, None if data_dir is None else Path(data_dir))


@lru_cache(maxsize=2)
def _learner_of(text: str, seed: int, data_dir: str | None) -> Learner:
    learner = setup_of(text, seed, data_dir).learner(threads=1, test=False)
    warm_up(learner)
    return learner


def samples_of(order: Mapping[str, Any], node: Mapping[str, Any]) -> int:
    """Return D_j of this device in the scenario that the server sends."""
    sizes = setup_of(*_training_key(order, node)).scenario.clients.sizes.values
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
    """Train for one round with the built-in engine. Return the upload and its metrics."""
    learner, client = _learner_of(*_training_key(order, node)), int(order["client"])
    begin = time.perf_counter()
    (upload,) = learner.train(model, [client], int(order["server-round"]) - 1)
    seconds = time.perf_counter() - begin
    metrics = {"num-examples": int(learner.sizes[client]), "training-seconds": seconds}
    freq = own_frequency(order)
    return upload, metrics if freq is None else metrics | {"freq": freq}


def evaluate(order: Mapping[str, Any], node: Mapping[str, Any], model: Floats) -> dict[str, Any]:
    """Return f_j (1) of this device: the loss of a model on its own samples."""
    setup = setup_of(*_training_key(order, node))
    client = int(order["client"])
    loss = own_loss(setup, client, model)
    return {"num-examples": int(setup.partition.sizes[client]), "train_loss": loss}


def own_loss(setup: TrainingSetup, client: int, model: Floats) -> float:
    """Return the mean loss of a model on the samples of one client."""
    from fedcell.learning.classifier import Classifier

    data, own = setup.data, setup.partition.of(client)
    kind = data.x_train.dtype.name
    judge = Classifier(setup.network, model, data.scale, data.shift, kind)
    return judge.evaluate(data.x_train[own], data.y_train[own]).loss


def _training_key(order: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[str, int, str | None]:
    folder = node.get(DATA_DIR)
    return str(order[SCENARIO]), int(order[SEED]), None if folder is None else str(folder)
