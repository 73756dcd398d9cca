"""Runs of any PyTorch module: regression, kept optimisers, frozen bodies, export."""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedcell import (
    Compute,
    Learning,
    Observer,
    Region,
    Scenario,
    Target,
    load_model,
    load_run,
    plan_training,
    run,
    run_pilot,
)
from fedcell.errors import BadInput, FedcellError

pytestmark = pytest.mark.extras
torch = pytest.importorskip("torch", reason="torch is not installed: pip install fedcell[torch]")

from torch import nn  # noqa: E402

from fedcell.learning import LocalOptimizer, Metric, TorchData, learner_from_torch  # noqa: E402
from fedcell.learning.learner import evaluated, measured_by  # noqa: E402
from fedcell.simulation import simulate  # noqa: E402

WORLD = Scenario(learning=Learning()).using(
    clients={"count": 6}, plan={"cohort": 3, "local_steps": 5, "rounds": 12}
)
rng = np.random.default_rng(0)
X = rng.normal(size=(260, 4)).astype(np.float32)
Y = X @ rng.normal(size=(4, 2)) + 0.1 * rng.normal(size=(260, 2))
NAMES = [f"watch-{i % 6}" for i in range(200)]
DATA = TorchData((X[:200], Y[:200]), (X[200:], Y[200:]), owners=NAMES)
MAE = {"mae": (nn.L1Loss(), "lower")}


def adamw(keep=False, **more):
    return LocalOptimizer(
        lambda params: torch.optim.AdamW(params, lr=0.02), keep_state=keep, **more
    )


def regression(scenario, seed, **options):
    """Two numbers are predicted from four, with AdamW."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    given = {"loss": nn.MSELoss(), "metrics": MAE, "optimizer": adamw()} | options
    return learner_from_torch(module, DATA, scenario, seed, **given)


def keeping(scenario, seed):
    return regression(scenario, seed, optimizer=adamw(keep=True))


def test_a_target_of_a_metric_is_reached_in_the_same_round_everywhere(tmp_path):
    target, compute = Target(metric="mae", level=0.6), Compute(learner=regression)
    result = run(WORLD, ["optimal"], target=target, compute=compute, folder=tmp_path / "a")
    (row,) = result.outcome.policies
    ledger, learner = result.ledgers["optimal"], regression(WORLD, 0)
    assert row.to_target is not None
    assert ledger.rounds_to(target) == row.to_target.rounds
    task = {"model_bits": learner.model_bits, "cycles_per_sample": learner.cycles_per_sample}
    alone = simulate(WORLD.using(task=task), "optimal", learner, target=target)
    assert_array_equal(alone.metrics["mae"], ledger.metrics["mae"])
    assert np.isnan(row.scores.accuracy)
    assert load_run(tmp_path / "a").outcome == result.outcome
    assert_array_equal(
        load_run(tmp_path / "a").ledgers["optimal"].metrics["mae"], alone.metrics["mae"]
    )
    learner.parts.load(result.state.delivered)
    with torch.no_grad():
        errors = learner.module.eval()(torch.tensor(X[200:])).numpy() - Y[200:]
    assert ledger.metrics["mae"][-1] == pytest.approx(np.abs(errors).mean(), rel=1e-5)


def test_a_pilot_finds_the_round_of_a_run_and_the_costs_of_its_learner(tmp_path):
    target, compute = Target(metric="mae", level=0.6), Compute(learner=regression)
    pilot = run_pilot(
        WORLD, "3s", tmp_path / "p.json", target=target, compute=compute,
        region=Region(clients=(3, 3), steps=(5, 5)),
    )  # fmt: skip
    (trial, *_) = pilot.trials
    result = run(WORLD, ["even"], target=target, seed=trial.seed, compute=compute, rounds=300)
    assert trial.rounds_to(pilot.target) == result.outcome.policies[0].to_target.rounds
    plan = plan_training(WORLD, tmp_path / "p.json")
    learner = regression(WORLD, 0)
    said = WORLD.using(
        task={"model_bits": learner.model_bits, "cycles_per_sample": learner.cycles_per_sample}
    )
    assert plan.duration == plan_training(said, tmp_path / "p.json").duration
    assert plan.target == target
    with pytest.raises(FedcellError, match="watched mae, and not rmse"):
        plan_training(WORLD, tmp_path / "p.json", target=Target(metric="rmse", level=0.6))
    with pytest.raises(BadInput, match="have lower values of mae as the better ones"):
        pilot.fit(Target(metric="mae", level=0.7, better="higher"))


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_kept_optimisers_resume_to_the_same_bits(tmp_path, stop):
    compute = Compute(learner=keeping)
    whole = run(WORLD, ["even"], compute=compute, folder=tmp_path / "whole")

    def interrupt(report):
        if report.round == stop:
            raise KeyboardInterrupt

    half = run(
        WORLD, ["even"], compute=compute, folder=tmp_path / "half",
        observer=Observer(round=interrupt),
    )  # fmt: skip
    assert not half.complete
    again = run(WORLD, ["even"], compute=compute, folder=tmp_path / "half", resume=True)
    assert_array_equal(again.state.model, whole.state.model)
    assert again.outcome == whole.outcome
    forgetful = run(WORLD, ["even"], compute=Compute(learner=regression))
    assert (forgetful.state.model != whole.state.model).any()
    files = sorted((tmp_path / "half" / "clients").iterdir())
    assert len(files) == len(again.state.clients)  # one for each client that has trained


def test_a_damaged_memory_is_refused(tmp_path):
    run(WORLD, ["even"], rounds=2, compute=Compute(learner=keeping), folder=tmp_path / "a")
    file = next((tmp_path / "a" / "clients").iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInput, match="damaged"):
        run(WORLD, ["even"], compute=Compute(learner=keeping), folder=tmp_path / "a", resume=True)


def test_kept_memory_begins_again_with_each_run():
    learner = keeping(WORLD, 0)
    world = WORLD.using(task={"model_bits": 1e3, "cycles_per_sample": 1e3})
    first, again = (simulate(world, "even", learner, rounds=4) for _ in range(2))
    assert_array_equal(first.train_loss, again.train_loss)


def frozen(scenario, seed):
    """A frozen body with BatchNorm in evaluation mode, and a head that trains."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        module = nn.Sequential(
            nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2), nn.BatchNorm1d(2)
        )
    for part in range(3):
        module[part].requires_grad_(False).eval()
    return learner_from_torch(module, DATA, scenario, seed, loss=nn.MSELoss(), metrics=MAE)


def test_only_what_trains_travels_and_costs(tmp_path):
    learner = frozen(WORLD, 0)
    upload = next(learner.train(learner.start(), [2], 0))
    assert upload.size == (32 * 2 + 2) + 2 * 2 + 2 * 2  # head, weights and statistics of BatchNorm
    assert learner.model_bits == 32 * upload.size
    assert learner.cycles_per_sample == 4 * 32 + 2 * 32 * 2  # forward, and the head's weights back
    assert upload.size == sum(learner.parts.sizes)
    before = {name: value.clone() for name, value in learner.parts.frozen.items()}
    result = run(WORLD, ["even"], compute=Compute(learner=frozen), folder=tmp_path / "a")
    assert result.outcome.model_bits == learner.model_bits
    for name, value in frozen(WORLD, 0).parts.frozen.items():
        assert_array_equal(before[name], value)


def test_gradients_cross_frozen_layers_at_their_cost():
    module = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    module[1].requires_grad_(False)
    learner = learner_from_torch(module, DATA, WORLD, loss=nn.MSELoss())
    forward = 4 * 8 + 8 * 8 + 8 * 2
    # Back: weights and inputs of the last, inputs of the frozen one, weights of the first.
    assert learner.cycles_per_sample == forward + 2 * 16 + 64 + 32
    whole = learner_from_torch(
        nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), DATA, WORLD, loss=nn.MSELoss()
    )
    assert whole.cycles_per_sample == 3 * (32 + 16)


def test_an_export_is_the_whole_module(tmp_path):
    run(WORLD, ["even"], rounds=3, compute=Compute(learner=frozen), folder=tmp_path / "a")
    model = load_model(tmp_path / "a")
    model.export(tmp_path / "model.pt", learner=frozen)
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    learner = frozen(WORLD, 0)
    scores = learner.evaluate(model.weights)
    module = frozen(WORLD, 1).module
    module.load_state_dict(saved["state_dict"])
    module.eval()
    with torch.no_grad():
        errors = module(torch.tensor(X[200:])).numpy() - Y[200:]
    assert np.abs(errors).mean() == pytest.approx(scores.metrics["mae"], rel=1e-5)
    with pytest.raises(BadInput, match="another learner"):
        model.export(tmp_path / "other.pt", learner=regression)


def test_another_frozen_body_is_another_run(tmp_path):
    run(WORLD, ["even"], rounds=2, compute=Compute(learner=frozen), folder=tmp_path / "a")

    def other(scenario, seed):
        learner = frozen(scenario, seed)
        with torch.no_grad():
            learner.module[0].weight.add_(1)
        return learner

    other.__module__, other.__qualname__ = frozen.__module__, frozen.__qualname__
    with pytest.raises(BadInput, match="different run"):
        run(WORLD, ["even"], compute=Compute(learner=other), folder=tmp_path / "a", resume=True)


@pytest.mark.filterwarnings("ignore:Using a target size")  # torch only warns
def test_outputs_and_labels_that_are_broadcast_are_refused():
    data = TorchData((X[:200], Y[:200, 0]), owners=NAMES)
    with pytest.raises(BadInput, match="broadcast; give labels the shape"):
        learner_from_torch(nn.Linear(4, 1), data, WORLD, loss=nn.MSELoss())


def test_schedulers_and_clipping_take_part():
    uploads = [
        next(regression(WORLD, 0, optimizer=how).train(regression(WORLD, 0).start(), [1], 0))
        for how in (
            adamw(),
            LocalOptimizer(lambda p: torch.optim.SGD(p, lr=0.02)),
            LocalOptimizer(lambda p: torch.optim.SGD(p, lr=0.02), clip=1e-3),
            LocalOptimizer(
                lambda p: torch.optim.SGD(p, lr=0.02),
                scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5),
            ),
        )
    ]
    start = regression(WORLD, 0).start()
    _, plain, clipped, falling = (np.abs(upload - start).sum() for upload in uploads)
    assert clipped < falling < plain
    assert np.linalg.norm(uploads[2] - start) <= 5 * 0.02 * 1e-3 * 1.001  # five steps


def test_whole_metrics_datasets_and_transforms():
    class Items:
        def __len__(self):
            return 200

        def __getitem__(self, place):
            return X[place], Y[place].astype(np.float32)

    r2 = Metric(
        lambda out, y: 1 - ((out - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum(), "higher", True
    )
    pairs = learner_from_torch(
        nn.Linear(4, 2), DATA, WORLD, loss=nn.MSELoss(), metrics={"r2": r2}
    )  # fmt: skip
    model = pairs.start()
    items = TorchData(Items(), DATA.test, owners=NAMES)
    other = learner_from_torch(nn.Linear(4, 2), items, WORLD, loss=nn.MSELoss())
    assert_array_equal(*(next(one.train(model, [3], 2)) for one in (pairs, other)))
    pairs.parts.load(model)
    with torch.no_grad():
        out, y = pairs.module(torch.tensor(X[200:])), torch.tensor(Y[200:]).float()
    assert pairs.evaluate(model).metrics["r2"] == pytest.approx(float(r2.fn(out, y)), rel=1e-5)
    noisy = TorchData(DATA.train, owners=NAMES, transform=lambda x: x + torch.randn_like(x))
    one = learner_from_torch(nn.Linear(4, 2), noisy, WORLD, loss=nn.MSELoss())
    first, again = (next(one.train(model, [3], 2)) for _ in range(2))
    assert_array_equal(first, again)
    assert (first != next(pairs.train(model, [3], 2))).any()


def test_a_target_of_an_unknown_metric_names_those_there_are():
    with pytest.raises(BadInput, match="rmse is not measured: name one of loss, test_loss, mae"):
        run(
            WORLD,
            ["even"],
            target=Target(metric="rmse", level=1),
            compute=Compute(learner=regression),
        )
    with pytest.raises(BadInput, match="the learner has lower values of mae"):
        run(
            WORLD, ["even"], target=Target(metric="mae", level=1, better="higher"),
            compute=Compute(learner=regression),
        )  # fmt: skip


def test_a_forecast_counts_what_clients_keep():
    some, none = keeping(WORLD, 0).forecast(3), regression(WORLD, 0).forecast(3)
    weights = keeping(WORLD, 0).parts.trained
    assert some.states >= 6 * 2 * 4 * weights  # two moments of Adam, for six clients
    assert none.states == 0
    assert some.memory > none.memory
    assert not some.large
    assert "a round takes about" in str(some)


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    ("module", "options", "why"),
    [
        (nn.Linear(5, 2), {}, "fails on 2 samples .mat1 and mat2 shapes"),
        (nn.Linear(4, 3), {}, "fails on 2 samples .The size of tensor a .3. must match"),
        (nn.Linear(4, 2), {"loss": lambda out, y: ((out - y) ** 2).mean()}, "gives one number"),
        (nn.Linear(4, 2), {"loss": lambda *_: torch.ones(5)}, "gives shape .5,. for 2 samples"),
        (nn.Linear(4, 2), {"loss": "mse"}, "expected a function of outputs and labels"),
        (nn.Linear(4, 2), {"loss": nn.MSELoss}, "or a loss module, as nn.MSELoss"),
        (nn.Linear(4, 2).requires_grad_(False), {}, "nothing trains"),
        ("resnet", {}, "the module is a str: expected a torch.nn.Module"),
        (
            nn.Linear(4, 2),
            {"optimizer": torch.optim.SGD([torch.zeros(1)], lr=0.1)},
            "of type SGD: expected a function of the parameters",
        ),
    ],
)
def test_what_does_not_fit_is_named_before_the_first_round(module, options, why):
    with pytest.raises(BadInput, match=why) as raised:
        learner_from_torch(module, DATA, WORLD, **{"loss": nn.MSELoss()} | options)
    assert "\n" not in str(raised.value)


def test_data_without_training_samples_is_refused():
    with pytest.raises(BadInput, match="there are no training samples"):
        learner_from_torch(nn.Linear(4, 2), TorchData((X[:0], Y[:0])), WORLD, loss=nn.MSELoss())


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_labels_that_fit_two_samples_alone_are_refused():
    data = TorchData((X[:200], Y[:200, 0]), owners=NAMES)  # (2,) against (2, 2) is broadcast
    learner = learner_from_torch(nn.Linear(4, 2), data, WORLD, loss=nn.MSELoss())
    with pytest.raises(BadInput, match=r"fails on 200 samples .The size of tensor a"):
        learner.evaluate(learner.start())
    with pytest.raises(BadInput, match=r"fails on 10 samples .The size of tensor a"):
        next(learner.train(learner.start(), [0], 0))


@pytest.mark.parametrize(
    "how",
    [
        LocalOptimizer(torch.optim.LBFGS),
        LocalOptimizer(torch.optim.AdamW, scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau),
        LocalOptimizer(
            torch.optim.AdamW,
            scheduler=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=2),
        ),
    ],
)
def test_steps_that_need_more_than_a_gradient_are_refused(how):
    learner = regression(WORLD, 0, optimizer=how)
    with pytest.raises(BadInput, match="cannot take a local step"):
        next(learner.train(learner.start(), [0], 0))


def test_own_optimisers_are_those_of_a_plain_loop():
    how = adamw(scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5), clip=0.1)
    learner, module = (regression(WORLD, 0, optimizer=how) for _ in range(2))
    (upload,) = learner.train(learner.start(), [2], 3)
    plain, own = module.module, learner.partition.of(2)
    optimiser = torch.optim.AdamW(plain.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 2, 0.5)
    order, sizes = learner.training.batches(2, 3, own.size)
    for places in np.split(own[order], sizes.cumsum()[:-1]):
        optimiser.zero_grad()
        nn.MSELoss()(plain(torch.tensor(X[places])), torch.tensor(Y[places]).float()).backward()
        nn.utils.clip_grad_norm_(plain.parameters(), 0.1)
        optimiser.step()
        scheduler.step()
    flat = torch.cat([p.detach().reshape(-1) for p in plain.parameters()]).numpy()
    np.testing.assert_allclose(upload, flat, rtol=0, atol=1e-6)


def test_numbers_of_numpy_in_an_optimiser_are_kept():
    how = LocalOptimizer(
        lambda params: torch.optim.AdamW(params, lr=np.float64(0.02)), keep_state=True
    )
    learner = regression(WORLD, 0, optimizer=how)
    first, second = (next(learner.train(learner.start(), [1], 0)) for _ in range(2))
    assert (first != second).any()  # the second begins with the moments of the first


def test_a_memory_that_names_code_is_refused_in_one_sentence():
    file = io.BytesIO()
    torch.save({"optimiser": print}, file)
    learner = keeping(WORLD, 0)
    learner.remember({1: np.frombuffer(file.getvalue(), np.uint8)})
    with pytest.raises(BadInput, match="it holds more than numbers") as raised:
        next(learner.train(learner.start(), [1], 0))
    assert "\n" not in str(raised.value)


def test_metrics_that_overflow_with_the_loss_end_no_run():
    def fast(scenario, seed):
        mse = {"mse": (nn.MSELoss(), "lower")}
        lead = LocalOptimizer(lambda params: torch.optim.SGD(params, lr=1e7))
        return learner_from_torch(
            nn.Linear(4, 2), DATA, scenario, seed, loss=nn.MSELoss(), metrics=mse, optimizer=lead
        )

    result = run(WORLD, ["even"], rounds=1, target=Target(metric="mse", level=0.01),
                 compute=Compute(learner=fast))  # fmt: skip
    ledger = result.ledgers["even"]
    assert np.isinf(ledger.train_loss[-1])
    assert np.isnan(ledger.metrics["mse"][-1])
    assert ledger.rounds_to(Target(metric="mse", level=0.01)) is None
    never = regression(WORLD, 0, metrics={"m": (lambda out, _: out[:, 0].abs() * np.inf, "lower")})
    with pytest.raises(BadInput, match="evaluates to m"):  # while the loss is finite
        evaluated(never, never.start())


def test_whole_metrics_take_outputs_of_any_structure_and_give_one_number():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return {"logits": self.layer(x)}

    def made(fn):
        return learner_from_torch(
            Named(), DATA, WORLD, loss=lambda out, y: (out["logits"] - y) ** 2,
            metrics={"most": Metric(fn, "lower", whole=True)},
        )  # fmt: skip

    learner = made(lambda out, y: (out["logits"] - y).abs().max())
    assert learner.evaluate(learner.start()).metrics["most"] > 0
    learner = made(lambda out, y: (out["logits"] - y).abs())
    with pytest.raises(BadInput, match=r"most .* gives shape \(60, 2\): give one number"):
        learner.evaluate(learner.start())


def test_a_target_whose_metric_is_not_a_number_at_first_names_it():
    def never(scenario, seed):
        return regression(
            scenario, seed, metrics={"f1": Metric(lambda *_: float("nan"), "higher", True)}
        )

    with pytest.raises(BadInput, match="f1 of the first model is not a number"):
        run(WORLD, ["even"], target=Target(metric="f1", level=0.5), compute=Compute(learner=never))


def test_an_accuracy_of_which_less_is_better_is_refused():
    wrong = {"accuracy": (lambda out, y: (out[:, 0] > y[:, 0]).float(), "lower")}
    with pytest.raises(BadInput, match="of accuracy, higher values are better"):
        measured_by(regression(WORLD, 0, metrics=wrong))


def test_runs_with_many_metrics_are_resumed(tmp_path):
    def many(scenario, seed):
        each = {f"mae_{i}": (nn.L1Loss(), "lower") for i in range(80)}
        return regression(scenario, seed, metrics=each)

    for rounds in (2, 3):
        result = run(WORLD, ["even"], rounds=rounds, compute=Compute(learner=many),
                     folder=tmp_path / "a", resume=rounds > 2)  # fmt: skip
    assert result.ledgers["even"].rounds == 3
