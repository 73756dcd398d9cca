"""Strategies of Flower's inside our federation: what they send, and how they average."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario
from fedcell.deploy import FederationOptions
from fedcell.errors import BadInput

pytestmark = pytest.mark.flower
pytest.importorskip("flwr", reason="flwr is not installed: pip install fedcell[flower]")

from flwr.app import ConfigRecord  # noqa: E402
from flwr.serverapp.strategy import (  # noqa: E402
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedYogi,
)
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from fedcell.deploy.clientapp import app as ready  # noqa: E402
from fedcell.deploy.exchanges import read_exchanges  # noqa: E402
from fedcell.deploy.flower import run_federation  # noqa: E402
from fedcell.deploy.wire.arrays import array_record  # noqa: E402
from support.appgrids import AppGrid, places, stepping  # noqa: E402
from support.federations import world  # noqa: E402

ALONE = {"fraction_train": 1.0, "min_train_nodes": 1, "min_available_nodes": 1}
SAMPLES = (60, 20, 90, 10)
FIRST = np.linspace(-1, 1, 5, dtype=np.float32)
OWN = Scenario().using(
    cell={"gain_threshold": 0.0},
    clients={"count": 4},
    plan={"cohort": 4, "local_steps": 3},
    task={"cycles_per_sample": 1e4},
)


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Messages are made inside a run of Flower's only."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def toward(place, w, _config):
    """A step towards the device's own point."""
    return w + 0.3 * (place - w)


def grid_of(step=toward, **said):
    """Four devices with an app of their own."""
    return AppGrid(stepping(step, SAMPLES, **said), places(4))


def ours(strategy, grid=None, rounds=3, **settings):
    """The model that our federation makes with a strategy."""
    used = FederationOptions(strategy=strategy, policy="even", **settings)
    grid = grid_of() if grid is None else grid
    return run_federation(
        grid, OWN, rounds=rounds, options=replace(used, arrays={"w": FIRST})
    ).state.model


def flowers(strategy, rounds=3):
    """The model that the strategy makes in Flower's own loop, with the same devices."""
    result = strategy.start(
        grid_of(), array_record({"w": FIRST}), rounds, train_config=ConfigRecord({})
    )
    return result.arrays["w"].numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FedAvg(**ALONE),
        lambda: FedProx(**ALONE, proximal_mu=0.2),
        lambda: FedAvgM(**ALONE, server_learning_rate=0.5, server_momentum=0.9),
        lambda: FedAdam(**ALONE, eta=0.05),
        lambda: FedYogi(**ALONE, eta=0.05),
        lambda: FedAdagrad(**ALONE, eta=0.05),
        lambda: FedMedian(**ALONE),
        lambda: FedTrimmedAvg(**ALONE, beta=0.25),
    ],
    ids=["avg", "prox", "avgm", "adam", "yogi", "adagrad", "median", "trimmed"],
)
def test_a_federation_with_a_strategy_makes_the_model_of_flower_s_own_loop(make):
    found = ours(make())
    assert found.dtype == np.float32
    assert_allclose(found, flowers(make()), rtol=2e-6, atol=1e-7)
    assert np.abs(found - FIRST).max() > 0.01


class Recorded(FedAdam):  # type: ignore[misc]
    """Keeps what it was given and what it made of it."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.given, self.made = [], []

    def aggregate_train(self, server_round, replies):
        kept = [copy(reply) for reply in replies]
        made = super().aggregate_train(server_round, replies)
        self.given.append((server_round, kept))
        self.made.append(made[0]["w"].numpy())
        return made


def test_its_memory_lasts_over_the_rounds_of_a_run():
    strategy = Recorded(**ALONE, eta=0.05)
    found = ours(strategy, rounds=4)
    assert [t for t, _ in strategy.given] == [1, 2, 3, 4]
    assert_array_equal(found, strategy.made[-1].astype(np.float32))
    again, model = FedAdam(**ALONE, eta=0.05), FIRST
    for t, replies in strategy.given:
        nodes = grid_of()
        again.configure_train(t, array_record({"w": model}), ConfigRecord({}), nodes)
        model = again.aggregate_train(t, replies)[0]["w"].numpy().astype(np.float32)
    assert_array_equal(found, model)


def test_fedavg_is_our_normalised_rule(tmp_path):
    scenario = world(tmp_path / "world.toml", cohort=3, loss=0.2)
    scenario = scenario.using(learning={"aggregation": "normalised"})

    def model(strategy):
        grid = AppGrid(ready, places(4))
        settings = FederationOptions(strategy=strategy)
        return run_federation(grid, scenario, rounds=3, seed=1, options=settings).state.model

    by_us, by_flower = model(None), model(FedAvg(**ALONE))
    assert np.abs(by_us - by_flower).max() < 1e-5
    assert_allclose(by_flower, by_us, rtol=1e-3, atol=1e-5)


def test_configuration_of_a_strategy_reaches_the_devices():
    seen = []

    def step(place, w, config):
        seen.append((config["server-round"], config["client"], config["proximal-mu"]))
        assert config["local-steps"] == 3
        assert {"share", "freq", "batch-size"} <= config.keys()
        return toward(place, w, config)

    ours(FedProx(**ALONE, proximal_mu=0.25), grid_of(step), rounds=2)
    assert sorted(seen) == [(t, j, 0.25) for t in (1, 2) for j in range(4)]


def test_a_strategy_that_waits_for_more_nodes_is_refused():
    with pytest.raises(BadInput, match="waits for more nodes than the 4 of this round: set its"):
        ours(FedAvg(fraction_train=1.0, min_train_nodes=1, min_available_nodes=9))


def test_a_strategy_that_leaves_clients_out_is_refused():
    with pytest.raises(BadInput, match="leaves out 2 of the 4 clients that this round calls"):
        ours(FedAvg(fraction_train=0.5, min_train_nodes=1, min_available_nodes=1))


def test_a_strategy_that_sends_by_itself_is_refused():
    class Own(FedAvg):  # type: ignore[misc]
        def configure_train(self, server_round, arrays, config, grid):
            grid.send_and_receive([])
            return super().configure_train(server_round, arrays, config, grid)

    with pytest.raises(BadInput, match="tried to send messages"):
        ours(Own(**ALONE))


def test_a_device_does_not_choose_the_weight_of_its_own_upload():
    """It says how many samples it holds when it introduces itself, and for good."""
    boasting = grid_of(client_3={"num-examples": 10**9})
    assert_array_equal(ours(FedAvg(**ALONE), boasting), ours(FedAvg(**ALONE)))


@pytest.mark.parametrize(
    "said", [{"train_loss": 1.0}, {"loss": [1.0, 2.0]}, {"num-examples": [1, 2]}]
)
def test_a_device_that_says_more_than_the_others_stops_no_run(said):
    assert_array_equal(ours(FedAvg(**ALONE), grid_of(client_1=said)), ours(FedAvg(**ALONE)))


def test_a_strategy_gets_an_update_that_is_too_long_as_it_was_shortened():
    def step(place, w, _config):
        return w + (1000.0 if place == 2 else 1.0) * np.ones_like(w)

    def model(how):
        strategy = FedAvg(**ALONE)
        return ours(strategy, grid_of(step), rounds=1, screen=how)

    weights = np.array(SAMPLES) / sum(SAMPLES)
    clipped = FIRST + weights @ np.array([1, 1, 3, 1])
    assert_allclose(model("clip"), clipped, rtol=1e-5)
    assert_allclose(model("exclude"), FIRST + 1, rtol=1e-5)
    assert model("none").max() > 100


def test_a_strategy_may_weigh_by_what_devices_say():
    def said(tokens):
        return {f"client_{j}": {"tokens": n} for j, n in enumerate(tokens)}

    def model(**words):
        return ours(FedAvg(**ALONE, weighted_by_key="tokens"), grid_of(**words))

    assert_array_equal(model(**said(SAMPLES)), ours(FedAvg(**ALONE)))
    assert_array_equal(model(), ours(FedAvg(**ALONE)))  # no device reports it: by their samples
    assert_allclose(model(**said([0, 0, 0, 1])), FIRST + (3 - FIRST) * (1 - 0.7**3), rtol=1e-5)


def test_a_folder_names_its_strategy(tmp_path):
    settings = FederationOptions(strategy=FedAvg(**ALONE), policy="even")
    words = {"folder": tmp_path / "run"}
    run_federation(
        grid_of(), OWN, rounds=2, **words, options=replace(settings, arrays={"w": FIRST})
    )
    assert len([e for e in read_exchanges(tmp_path / "run") if e.round > 0]) == 8
    other = FederationOptions(strategy=FedAdam(**ALONE), policy="even")
    with pytest.raises(BadInput):
        run_federation(
            grid_of(),
            OWN,
            rounds=3,
            resume=True,
            **words,
            options=replace(other, arrays={"w": FIRST}),
        )


def test_a_clock_that_is_set_back_leaves_a_file_that_can_be_read(tmp_path, monkeypatch):
    """Wall clocks are set now and then, also in the middle of a round."""

    now = iter(range(10**6, 0, -50))
    monkeypatch.setattr("fedcell.deploy.wire.messages.time.time", lambda: float(next(now)))
    words = {"folder": tmp_path / "run"}
    run_federation(
        grid_of(),
        OWN,
        rounds=2,
        **words,
        options=FederationOptions(policy="even", arrays={"w": FIRST}),
    )
    lines = read_exchanges(tmp_path / "run")
    assert len([e for e in lines if e.round > 0]) == 8
    assert all(e.measured_total == 0 for e in lines)
