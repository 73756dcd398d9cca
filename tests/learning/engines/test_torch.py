"""PyTorch as a second opinion on the engine, and as a learner of its own."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Scenario, load_model, load_scenario, run
from fedcell.errors import BadInput
from fedcell.learning import prepare_training
from fedcell.learning.classifier import Classifier
from fedcell.learning.data.dataset import load_data
from fedcell.learning.export import plain_layers
from fedcell.learning.gradients import probe
from fedcell.learning.learner import LocalTraining
from fedcell.learning.partition.make import Partition
from fedcell.scenario.learning import MODELS, Layers
from fedcell.simulation import simulate
from support.networks import AWKWARD, engine, made

pytestmark = pytest.mark.extras
torch = pytest.importorskip("torch", reason="torch is not installed: pip install fedcell[torch]")

from fedcell.learning.engines.torch import (  # noqa: E402
    TorchLearner,
    load_weights,
    tensors,
    without_single_samples,
)
from fedcell.learning.engines.torch_modules import (  # noqa: E402
    Module,
    plain_module,
    save_module,
)


def twin(ours, **more):
    """The same network, data and training in PyTorch."""
    data = ours.data
    return TorchLearner(
        Module(ours.network, ours.start()),
        tensors(data.x_train, data.y_train, data),
        tensors(data.x_test, data.y_test, data),
        ours.partition,
        ours.training,
        **more,
    )


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_the_engine_equals_pytorch(name, momentum, kind):
    image, layers, batch = AWKWARD[name]
    training = LocalTraining(batch, 6, None, rate=0.02, rate_decay=0.2, momentum=momentum)
    ours = engine(made(image, kind=kind), layers, training, clients=3)
    theirs = twin(ours)
    start = ours.start()
    assert_array_equal(theirs.start(), start)
    for a, b in zip(ours.train(start, [0, 2], 1), theirs.train(start, [0, 2], 1), strict=True):
        assert np.abs(b - start).max() > 1e-3
        assert_allclose(a, b, atol=1e-5, rtol=0)
    scores, other = ours.evaluate(b), theirs.evaluate(b)
    assert_allclose(scores.train_loss, other.train_loss, rtol=1e-5)
    assert_allclose(scores.test_loss, other.test_loss, rtol=1e-5)
    assert scores.accuracy == other.accuracy


def test_equal_logits_have_the_loss_of_guessing_however_large():
    ours = engine(made((4, 4, 1), classes=7), Layers(), LocalTraining(4, 1, None, 0.1))
    model = np.zeros(ours.network.size, np.float32)
    model[-7:] = 1e9
    scores, theirs = ours.evaluate(model), twin(ours).evaluate(model)
    assert_allclose([theirs.train_loss, theirs.test_loss], np.log(7), rtol=1e-6)
    assert (theirs.accuracy, theirs.majority) == (scores.accuracy, scores.majority)


def test_whole_runs_agree():
    scenario = Scenario().using(
        clients={"count": 20},
        plan={"cohort": 4, "local_epochs": 1},
        learning={"model": "mlp", "rate": 0.1, "partition": {"kind": "shards"}},
        cell={"loss_rate": 0.2},
    )
    setup = prepare_training(scenario, seed=2)
    ours = setup.learner()
    ledgers = [simulate(setup.scenario, "even", x, 10, seed=2) for x in (ours, twin(ours))]
    assert_allclose(ledgers[0].train_loss, ledgers[1].train_loss, rtol=1e-3)
    assert_array_equal(ledgers[0].duration, ledgers[1].duration)


def test_any_module_with_buffers_is_a_learner():
    data = load_data("digits")
    ours = engine(data, MODELS["logistic"], LocalTraining(10, 5, None, 0.05), clients=10)
    module = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 20), torch.nn.BatchNorm1d(20), torch.nn.ReLU(),
        torch.nn.Linear(20, 10),
    )  # fmt: skip
    learner = TorchLearner(
        module,
        tensors(data.x_train, data.y_train, data),
        tensors(data.x_test, data.y_test, data),
        ours.partition,
        ours.training,
    )
    model = learner.start()
    size = sum(p.numel() for p in module.parameters())
    assert model.size == size + 2 * 20  # running mean and variance travel with the weights
    before = learner.evaluate(model).train_loss
    first = list(learner.train(model, range(10), 0))
    again = list(learner.train(model, range(10), 0))
    assert_array_equal(first, again)  # nothing is kept between rounds
    assert learner.evaluate(np.mean(first, 0)).train_loss < before


def normalised(partition, training):
    """A module with BatchNorm, which cannot be trained on a batch of one, as a learner."""
    data = load_data("digits")
    module = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.BatchNorm1d(10)
    )
    train, test = (data.x_train, data.y_train), (data.x_test, data.y_test)
    pairs = [tensors(x, y, data) for x, y in (train, test)]
    return TorchLearner(module, pairs[0], pairs[1], partition, training)


@pytest.mark.parametrize("steps", [3, 4, 11])
def test_a_last_batch_of_one_takes_a_sample_of_the_one_before(steps):
    """Ten, ten, ten and one: where the ninth step and the charge of a round stay as they were."""
    partition = Partition.of_owner(np.repeat([0, 1, -1], [31, 40, 1430]))
    training = LocalTraining(10, steps, None, 0.05)
    sizes = training.sizes(31)
    evened = without_single_samples(sizes)
    assert evened.min() > 1
    assert evened.sum() == sizes.sum()
    assert evened.size == steps
    scenario = Scenario().using(
        clients={"count": 2, "sizes": [31, 40]},
        task={"samples_per_step": "batch"},
        plan={"cohort": 2, "local_steps": steps},
    )
    assert evened.mean() == scenario.step_samples(np.array([31.0]))[0]
    assert_array_equal(without_single_samples(training.sizes(40)), training.sizes(40))
    learner = normalised(partition, training)
    for upload in learner.train(learner.start(), [0, 1], 0):
        assert np.isfinite(upload).all()


@pytest.mark.parametrize(("samples", "batch"), [(1, 10), (3, 2), (4, 1)])
def test_a_batch_of_one_that_cannot_be_avoided_is_named(samples, batch):
    partition = Partition.of_owner(np.repeat([0, 1, -1], [40, samples, 1461 - samples]))
    learner = normalised(partition, LocalTraining(batch, 4, None, 0.05))
    with pytest.raises(BadInput, match=r"client 1 trains on a batch of one .*min_samples = 2"):
        list(learner.train(learner.start(), [1], 0))


def test_gradients_are_those_of_our_engine():
    layers = Layers(convs=({"channels": 4, "kernel": 3, "padding": 1},), hidden=(9,))
    ours = engine(load_data("digits"), layers, LocalTraining(10, 5, None, 0.05), clients=8)
    theirs, model = twin(ours), ours.start()
    asked = [(3, None), (5, np.array([2, 0, 7]))]
    pairs = zip(ours.gradients(model, asked), theirs.gradients(model, asked), strict=True)
    for mine, other in pairs:
        assert_allclose(mine, other, rtol=1e-3, atol=1e-6)
    lambdas = [probe(learner, model, 0, 10).diversity for learner in (ours, theirs)]
    assert_allclose(lambdas[0], lambdas[1], rtol=1e-4)


def test_gradients_of_buffers_are_zero():
    data = load_data("digits")
    ours = engine(data, MODELS["logistic"], LocalTraining(10, 5, None, 0.05), clients=10)
    module = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.BatchNorm1d(10)
    )
    train, test = (data.x_train, data.y_train), (data.x_test, data.y_test)
    pairs = [tensors(x, y, data) for x, y in (train, test)]
    learner = TorchLearner(module, pairs[0], pairs[1], ours.partition, ours.training)
    (found,) = learner.gradients(learner.start(), [(2, None)])
    assert found.size == learner.start().size
    assert (found[-20:] == 0).all()
    assert (found[:-20] != 0).any()


def test_what_a_module_draws_depends_on_client_and_round_alone():
    data = load_data("digits")
    ours = engine(data, MODELS["logistic"], LocalTraining(10, 5, None, 0.05), clients=10)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(64, 10))
    train, test = (data.x_train, data.y_train), (data.x_test, data.y_test)
    pairs = [tensors(x, y, data) for x, y in (train, test)]
    learner = TorchLearner(module, pairs[0], pairs[1], ours.partition, ours.training)
    model = learner.start()
    _, second = learner.train(model, [3, 5], 0)
    torch.rand(7)
    assert_array_equal(next(learner.train(model, [5], 0)), second)
    assert (next(learner.train(model, [5], 1)) != second).any()


def test_a_loss_that_is_one_number_is_refused():
    data = load_data("digits")
    ours = engine(data, MODELS["logistic"], LocalTraining(10, 5, None, 0.05), clients=10)
    with pytest.raises(BadInput, match="give one for each"):
        twin(ours, loss=lambda outputs, y: torch.nn.functional.cross_entropy(outputs, y))


def test_a_partition_of_more_samples_than_there_are_is_refused():
    ours = engine(load_data("digits"), MODELS["logistic"], LocalTraining(10, 5, None, 0.05))
    x, y = torch.zeros(3, 64), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(BadInput, match="the partition deals 1501 of 3 samples"):
        TorchLearner(torch.nn.Linear(64, 10), (x, y), (x, y), ours.partition, ours.training)


def test_the_local_training_of_a_scenario_is_that_of_both_engines():
    scenario = Scenario().using(
        learning={"momentum": 0.5, "rate_decay": 0.1}, plan={"local_steps": 3}
    )
    training = prepare_training(scenario, seed=9).local_training
    assert (training.steps, training.epochs, training.momentum, training.seed) == (3, None, 0.5, 9)


OTHERS: dict[str, Any] = {
    "adam": {"optimiser": "adam", "rate": 0.002},
    "proximal": {"proximal": 0.7},
    "proximal with momentum": {"proximal": 0.7, "momentum": 0.9},
    "proximal adam": {"optimiser": "adam", "rate": 0.002, "proximal": 2.0},
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("kind", OTHERS)
def test_adam_and_fedprox_are_those_of_pytorch(name, kind):
    image, layers, batch = AWKWARD[name]
    training = LocalTraining(batch, 6, None, **{"rate": 0.02, "rate_decay": 0.2} | OTHERS[kind])
    ours = engine(made(image), layers, training, clients=3)
    theirs, start = twin(ours), ours.start()
    for a, b in zip(ours.train(start, [0, 2], 1), theirs.train(start, [0, 2], 1), strict=True):
        assert np.abs(b - start).max() > 1e-3
        assert_allclose(a, b, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", AWKWARD)
def test_an_exported_module_says_what_ours_says(name, tmp_path):
    image, layers, _ = AWKWARD[name]
    ours = engine(made(image, kind=np.uint8), layers, LocalTraining(4, 1, None, 0.1))
    data = ours.data
    model = Classifier(ours.network, ours.start(), data.scale, data.shift, "uint8")
    save_module(tmp_path / "model.pt", plain_layers(model))
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    module = eval(saved["module"], {"nn": torch.nn})  # as one would paste it
    module.load_state_dict(saved["state_dict"])
    x = torch.tensor(data.x_train).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        assert_allclose(module(x).numpy(), model.logits(data.x_train), atol=1e-4)
        again = plain_module(plain_layers(model))
        assert_array_equal(module(x).numpy(), again(x).numpy())


def test_the_code_that_export_prints_makes_the_model(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(load_scenario("digits"), ["even"], rounds=4, folder="run")
    model, data = load_model("run"), load_data("digits")
    x = torch.tensor(data.x_test).permute(0, 3, 1, 2).float()
    for file in ("model.pt", "model.npz"):
        code = fedcell("export", "run", "--out", file).out.split("\n\n", 1)[1]
        space: dict = {}
        exec(code, space)
        with torch.no_grad():
            assert_allclose(space["model"](x).numpy(), model.logits(data.x_test), atol=1e-4)


def test_weights_of_a_run_go_back_into_their_module():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    weights = np.arange(16, dtype=np.float32)
    load_weights(module, weights)
    assert_array_equal(module[1].running_var.numpy(), weights[-2:])
    assert_array_equal(module[0].bias.detach().numpy(), weights[6:8])
    with pytest.raises(BadInput, match=r"the module has 16 numbers, and the model \(15,\)"):
        load_weights(module, weights[:15])


def test_a_server_averages_the_buffers_of_a_module():
    """Adam on a running variance would send it below 0."""
    data = load_data("digits")
    ours = engine(data, MODELS["logistic"], LocalTraining(10, 5, None, 0.05), clients=10)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
        torch.nn.Linear(144, 10),
    )  # fmt: skip
    pairs = [
        tensors(x, y, data) for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test))
    ]
    learner = TorchLearner(module, pairs[0], pairs[1], ours.partition, ours.training)
    assert learner.trained == learner.start().size - 8
    world = Scenario().using(
        clients={"count": 10},
        plan={"cohort": 4},
        task={"model_bits": 1e4, "cycles_per_sample": 1e4},
        learning={"server": "adam", "server_rate": 0.5},
    )
    finals = []
    simulate(world, "even", learner, rounds=4, report=finals.append)
    assert (finals[-1].state.model[-4:] > 0).all()
    assert finals[-1].state.server.shape == (2, learner.trained)
