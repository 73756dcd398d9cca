"""What is learnt over rounds: Appendix A, targets, costs, and learners that are refused."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedcell import Clients, RoundPlan, Scenario, Task
from fedcell.core.errors import FedcellWarning
from fedcell.errors import BadInput
from fedcell.learning.aggregate import aggregate
from fedcell.learning.learner import LocalTraining, Scores
from fedcell.learning.setup import prepare_training
from fedcell.network import draw_fleet, simulate_network
from fedcell.scenario.target import Target
from fedcell.simulation.train import simulate
from support.aggregates import SHARES, arrivals, in_the_mean, quadratics, world


def test_both_trainings_of_appendix_a_agree_in_the_mean():
    """(4) with uniform and (28) with q_j-sampling: the same model in the mean after a round."""
    learner = quadratics(count=5, noise=0.3)
    means = {}
    for selection, rule in (("uniform", "unbiased"), ("weighted", "mean")):
        scenario = world(selection).using(
            clients={"sizes": learner.sizes.astype(float)}, cell={"gain_threshold": 0.0}
        )
        models = []
        for t, (clients, counts) in enumerate(arrivals(scenario, 3000)):
            uploads = learner.train(learner.start(), clients, t)
            shares = learner.shares
            models.append(aggregate(rule, learner.start(), clients, counts, uploads, shares, t)[0])
        means[selection] = in_the_mean(models)
    difference = np.abs(means["uniform"][0] - means["weighted"][0]).max()
    assert difference < means["uniform"][1] + means["weighted"][1] < 0.2


def test_quadratic_clients_follow_their_closed_form():
    learner = quadratics(steps=7, rate=0.2)
    start = learner.start()
    for j, got in enumerate(learner.train(start, range(8), 0)):
        shrink = (1 - 0.2 * learner.curvature[j]) ** 7
        expected = learner.home[j] + shrink * (start - learner.home[j])
        assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_quadratics_know_their_constants():
    apart, common = quadratics(apart=True), quadratics(apart=False)
    rng = np.random.default_rng(5)
    for learner in (apart, common):
        best = learner.loss(learner.optimum)
        assert best == learner.least_loss
        for w in learner.optimum + rng.normal(size=(50, 4)):
            excess = learner.loss(w) - best
            gradient = learner.shares * learner.curvature @ (w - learner.home)
            assert excess >= 0
            assert_allclose(gradient @ gradient, 2 * learner.convexity * excess, rtol=1e-9)  # P-L
        assert learner.smoothness == 2.0
    w = rng.normal(size=4)
    gradients = common.curvature[:, None] * (w - common.home)
    norms = (gradients**2).sum(1)
    whole = common.shares @ gradients
    assert_allclose(common.gradient_diversity, common.shares @ norms / (whole @ whole))  # Def. 1
    assert apart.gradient_diversity == np.inf
    assert common.least_loss == 0 < apart.least_loss


def test_the_noise_of_a_gradient_falls_with_the_batch():
    def spread(batch):
        learner = quadratics(noise=1.0, batch=batch, steps=1, rate=1e-3)
        start = learner.start()
        moved = [next(learner.train(start, [7], t)) - start for t in range(300)]
        return np.std(moved, axis=0).mean()

    assert_allclose(spread(4) / spread(16), 2, rtol=0.1)


def scenario_of(**learning):
    return Scenario(plan=RoundPlan(cohort=4, rounds=30), clients=Clients(count=20)).using(
        learning={"rate": 0.1} | learning
    )


def test_everything_lost_keeps_the_model():
    scenario = scenario_of(model="quadratic-apart").using(cell={"loss_rate": 0.999})
    setup = prepare_training(scenario)
    ledger = simulate(setup.scenario, "even", setup.learner())
    lost = ledger.received == 0
    assert lost.sum() > 20
    before = np.append(
        setup.learner().evaluate(setup.learner().start()).train_loss, ledger.train_loss
    )
    assert_array_equal(ledger.train_loss[lost], before[:-1][lost])
    assert (ledger.energy > 0).all()  # lost uploads cost what others cost


def test_training_and_network_share_random_numbers():
    setup = prepare_training(scenario_of(partition={"kind": "shards"}, model="logistic"))
    scenario = setup.scenario
    ledger = simulate(scenario, "optimal", setup.learner(), rounds=12, seed=0)
    assert ledger.train_loss[-1] < 0.7 * ledger.train_loss[0]
    assert 0.5 < ledger.accuracy[-1] <= 1
    assert_allclose(ledger.total_duration, ledger.duration.cumsum())
    assert_allclose(ledger.totals.energy.sum(), ledger.total_energy[-1])
    assert ledger.totals.called.sum() == ledger.called.sum()
    assert ledger.totals.arrived.sum() == ledger.received.sum()
    passed = Target(loss=float(ledger.train_loss[5]), hold=1)
    assert ledger.rounds_to(passed) == 6
    assert ledger.seconds_to(passed) == pytest.approx(ledger.duration[:6].sum())
    assert ledger.joules_to(passed) == pytest.approx(ledger.energy[:6].sum())
    assert ledger.rounds_to(float(ledger.train_loss[5])) == 6  # a number: the same
    held = Target(loss=float(ledger.train_loss[5:10].mean()), hold=5)
    assert ledger.rounds_to(held) == 10
    accurate = Target(accuracy=float(ledger.accuracy[:9].max()), hold=1)
    assert ledger.rounds_to(accurate) == int(ledger.accuracy[:9].argmax()) + 1
    never = Target(loss=1e-9)
    assert [ledger.rounds_to(never), ledger.seconds_to(never), ledger.joules_to(never)] == [
        None
    ] * 3
    assert_array_equal(draw_fleet(scenario).samples, setup.partition.sizes)  # one D_j for all
    other = simulate(scenario, "even", setup.learner(threads=1), rounds=12)
    assert_array_equal(other.train_loss, ledger.train_loss)  # learning does not see the policy
    assert (other.duration > ledger.duration).all()


def test_a_run_stops_at_its_target_and_resumes_from_a_state():
    setup = prepare_training(scenario_of(model="logistic"))
    whole, seen = simulate(setup.scenario, "even", setup.learner(), rounds=10), []
    simulate(setup.scenario, "even", setup.learner(), rounds=4, report=seen.append)
    assert [report.round for report in seen] == [1, 2, 3, 4]
    after = simulate(setup.scenario, "even", setup.learner(), rounds=10, state=seen[-1].state)
    assert_array_equal(after.train_loss, whole.train_loss)
    target = Target(loss=float(whole.train_loss[6]), hold=1)
    stopped = simulate(setup.scenario, "even", setup.learner(), rounds=10, target=target)
    assert stopped.rounds == 7
    assert_array_equal(stopped.duration, whole.duration[:7])
    assert stopped.totals.called.sum() == whole.called[:7].sum()


def test_evaluation_every_few_rounds_and_at_the_end():
    setup = prepare_training(scenario_of(model="logistic", evaluate_every=4))
    ledger = simulate(setup.scenario, "even", setup.learner(), rounds=10)
    assert np.flatnonzero(np.isfinite(ledger.train_loss)).tolist() == [3, 7, 9]


def test_what_the_task_leaves_out_is_that_of_the_model():
    setup = prepare_training(scenario_of(model="mlp"))
    assert setup.scenario.model_bits == 32 * (64 * 200 + 200 + 200 * 200 + 200 + 2010)
    assert setup.scenario.samples_per_step == "batch"
    kept = prepare_training(scenario_of(model="mlp").using(task={"model_bits": 5e5}))
    assert kept.scenario.model_bits == 5e5
    paper = Scenario()
    assert (paper.model_bits, paper.cycles_per_sample, paper.samples_per_step) == (
        3e4,
        5e5,
        "dataset",
    )


def test_local_epochs_are_charged_as_passes():
    scenario = Scenario(plan=RoundPlan(local_epochs=3), task=Task(cycles_per_sample=7.0))
    assert scenario.work == 21
    assert_array_equal(scenario.step_samples(np.array([5.0, 80.0])), [5, 80])
    setup = prepare_training(scenario_of(model="logistic").using(plan={"local_epochs": 2}))
    sizes = setup.partition.sizes
    problem_samples = setup.scenario.step_samples(draw_fleet(setup.scenario).samples)
    assert_array_equal(problem_samples, sizes)
    ledger = simulate(setup.scenario, "even", setup.learner(), rounds=2)
    assert np.isfinite(ledger.train_loss).all()


def test_the_partition_owns_the_sizes_and_the_spread_the_rest():
    setup = prepare_training(scenario_of(model="logistic").using(clients={"spread": 0.5}))
    fleet = draw_fleet(setup.scenario)
    assert_array_equal(fleet.samples, setup.partition.sizes)
    for values, mean in ((fleet.kappa, 5e-27), (fleet.power, 4e-7)):
        assert np.ptp(values) > 0.5 * mean


def test_samples_belong_to_the_partition_where_a_model_is_trained():
    table = {"samples": np.full(20, 30.0)}
    with pytest.raises(BadInput, match=r"samples, but learning\.partition sets them"):
        scenario_of().using(clients={"table": table})


def test_a_learner_of_another_size_is_refused():
    with pytest.raises(BadInput, match="the learner has 8 clients and the scenario 100"):
        simulate(Scenario(), "even", quadratics(), rounds=1)


def test_what_a_run_needs_to_know_is_not_guessed():
    scenario = scenario_of(model="logistic")
    setup = prepare_training(scenario)
    with pytest.raises(BadInput, match="take the scenario of `prepare_training`"):
        simulate(scenario, "even", setup.learner(), rounds=1)
    seen = []
    simulate(setup.scenario, "even", setup.learner(), rounds=3, report=seen.append)
    with pytest.raises(BadInput, match="the run has done 3 already"):
        simulate(setup.scenario, "even", setup.learner(), rounds=2, state=seen[-1].state)


def test_a_run_from_a_state_is_evaluated_when_an_uninterrupted_one_is():
    setup = prepare_training(scenario_of(model="logistic", evaluate_every=3))
    whole, seen = simulate(setup.scenario, "even", setup.learner(), rounds=10), []
    simulate(setup.scenario, "even", setup.learner(), rounds=4, report=seen.append)
    assert np.isfinite(seen[-1].train_loss)  # its last round, out of turn
    after = simulate(setup.scenario, "even", setup.learner(), rounds=10, state=seen[-1].state)
    assert_array_equal(after.train_loss, whole.train_loss)


def test_the_charge_of_a_step_is_the_mean_of_its_batches():
    scenario = Scenario(task=Task(samples_per_step="batch", batch_size=10))
    sizes = np.array([3, 10, 11, 25, 500])
    training = LocalTraining(10, scenario.plan.local_steps, None, 0.1)
    trained = [training.sizes(int(d)).mean() for d in sizes]
    assert_allclose(scenario.step_samples(sizes.astype(float)), trained)


def test_bystanders_pay_seconds_and_joules():
    scenario = Scenario(
        clients=Clients(count=20), plan=RoundPlan(cohort=2, cohort_drawn="after-training")
    )
    totals = simulate_network(scenario, "even", rounds=5).totals
    assert ((totals.duration > 0) == (totals.energy > 0)).all()
    assert (totals.duration > 0).all()
    assert (totals.called == 0).any()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": None}, "either steps or epochs"),
        ({"epochs": 2}, "either steps or epochs"),
        ({"batch": 0}, "at least 1"),
        ({"rate": 0.0}, "the rate above 0"),
    ],
)
def test_local_training_that_cannot_be_is_refused(given, message):
    with pytest.raises(BadInput, match=message):
        LocalTraining(**{"batch": 1, "steps": 1, "epochs": None, "rate": 0.1} | given)


class Stubborn:
    """A learner that does what it should not."""

    sizes = np.full(100, 7)

    def __init__(self, train):
        self.train = train

    def start(self):
        return np.zeros(2, np.float32)

    def evaluate(self, model):
        return Scores(float(model.sum()))


def test_a_learner_cannot_change_the_model_in_place():
    def train(model, clients, round):  # noqa: ARG001
        for _ in clients:
            model += 1
            yield model

    with pytest.raises(ValueError, match="read-only"):
        simulate(Scenario(), "even", Stubborn(train), rounds=1)


@pytest.mark.parametrize(
    ("uploads", "message"),
    [
        (lambda n: [np.float32(1)] * n, r"an upload of shape \(\) for client"),
        (lambda n: [np.zeros(2, np.float32)] * (n - 1), "nothing for client"),
    ],
)
def test_uploads_of_another_shape_are_refused(uploads, message):
    learner = Stubborn(lambda model, clients, round: uploads(len(clients)))  # noqa: ARG005
    with pytest.raises(BadInput, match=message):
        simulate(Scenario(), "even", learner, rounds=1)


def test_a_learner_is_three_methods():
    class Counter:
        """Counts who was asked; its model is one number."""

        sizes = np.full(100, 7)

        def start(self):
            return np.zeros(1, np.float32)

        def train(self, model, clients, round):  # noqa: ARG002
            for _ in clients:
                yield model + 1

        def evaluate(self, model):
            return Scores(float(10 - model[0]))

    with warnings.catch_warnings(action="error"):
        ledger = simulate(Scenario(), "even", Counter(), rounds=3)
    averages = [1, 1 / 18 * 1 + 17 / 18 * 2, 2 / 19 * (35 / 18) + 17 / 19 * 3]  # of 1, 2, 3
    assert_allclose(10 - ledger.train_loss, averages, rtol=1e-6)


def test_uploads_out_of_range_are_left_out_and_others_refused():
    model = np.zeros(3, np.float32)
    huge = [np.full(3, 1e300), np.ones(3)]
    with pytest.warns(FedcellWarning, match="clients 0 are not finite"):
        after, left_out = aggregate("mean", model, [0, 1], [1, 1], huge, SHARES, round=0)
    assert (after.tolist(), left_out) == ([1, 1, 1], 1)
    for kind in (object, complex):
        with pytest.raises(BadInput, match=rf"the learner gave {np.dtype(kind)} for client 0"):
            aggregate("mean", model, [0], [1], [np.ones(3, kind)], SHARES, round=0)
