"""Rules that learn: rounds chosen while a model is trained, kept as a trace, and resumed."""

import numpy as np
import pytest

from fedcell import Learning, Scenario, load_run, run
from fedcell.errors import BadFile, BadInput
from fedcell.learning import prepare_training
from fedcell.network import draw_fleet, draw_trace
from fedcell.network.simulate import price_trace
from fedcell.selectors import Chances, Known, Race, best, reads, selecting
from fedcell.simulation import simulate
from fedcell.simulation.selecting.live import live_selection

WORLD = Scenario().using(
    clients={"count": 12, "spread": 0.5},
    plan={"cohort": 3, "local_steps": 3, "rounds": 8},
    learning=Learning(model="quadratic-apart", rate=0.02),
)
LEARN = (
    *("power-of-choice", "power-of-choice-reported", "power-of-choice-adaptive(every=3)"),
    *("active", "oort", "best-norm", "best-norm-reported", "optimal-sampling", "tifl-adaptive"),
)


@reads("evaluate")
def loudest(known: Known) -> Race:
    everyone = np.arange(known.count)
    return best(known, known.evaluate(everyone))


@reads("samples", "loss")
def certain(known: Known) -> Chances:
    """All candidates surely: the aggregate is that of all clients."""
    return Chances(known.may.astype(float))


def train(name, world=WORLD, rounds=8, policy="even"):
    world = selecting(world, name)
    setup = prepare_training(world)
    return simulate(setup.scenario, policy, setup.learner(1), rounds=rounds)


@pytest.mark.parametrize("name", LEARN)
def test_a_run_that_is_resumed_has_the_same_bits(name, tmp_path):
    whole = run(selecting(WORLD, name), ["even"], rounds=8)
    run(selecting(WORLD, name), ["even"], rounds=5, folder=tmp_path / "r")
    again = run(selecting(WORLD, name), ["even"], rounds=8, folder=tmp_path / "r", resume=True)
    assert np.array_equal(whole.state.model, again.state.model)
    ledger, other = whole.ledgers["even"], again.ledgers["even"]
    assert other.column_names() == ledger.column_names()
    for column in ledger.column_names():
        assert np.array_equal(ledger.column(column), other.column(column), equal_nan=True), column
    loaded = load_run(tmp_path / "r").ledgers["even"]
    assert np.array_equal(loaded.energy, ledger.energy)
    assert np.array_equal(loaded.totals.called, ledger.totals.called)


def test_the_rounds_of_a_training_are_an_ordinary_trace():
    result = run(selecting(WORLD, "power-of-choice"), ["even", "optimal"], rounds=6)
    world = selecting(prepare_training(WORLD).scenario, "power-of-choice")
    fleet = draw_fleet(world)
    selection = live_selection(world, fleet, 0, 6)
    trace = selection.trace(result.state.selected.rows, 0)
    assert (trace.called == 3).all()
    for policy, ledger in result.ledgers.items():
        assert np.array_equal(price_trace(world, fleet, trace, policy, 0).energy, ledger.energy)


def test_candidates_that_evaluate_are_charged_by_hand():
    ledger = train("power-of-choice(candidates=5)", rounds=4)
    world = prepare_training(WORLD).scenario
    fleet = draw_fleet(world)
    assert (ledger.vain_energy > 0).all()
    assert (ledger.vain_duration > 0).all()
    all_ledger = train("power-of-choice(candidates=12)", rounds=1)
    # All 12 evaluate once: a third of the cycles of a pass, at their own frequency (26).
    from fedcell.network.policies.base import Broadcast

    freq = Broadcast.to(world, fleet).own_freq(
        fleet.step_samples(world), fleet.freq_min, fleet.freq_max
    )
    heard = draw_trace(world.using(plan={"cohort": 12}), fleet, 1).cohort[0]
    some = heard[heard >= 0]
    cycles = world.cycles_per_sample * fleet.samples / 3
    assert all_ledger.vain_duration[0] == pytest.approx((cycles / freq)[some].max())
    assert all_ledger.vain_energy[0] == pytest.approx((fleet.kappa * freq**2 * cycles)[some].sum())


def test_bystanders_of_best_norm_train_in_vain():
    ledger = train("best-norm", rounds=3)
    fast = train("best-norm(candidates=3)", rounds=3)
    assert (ledger.vain_energy > 0).all()
    assert not fast.vain_energy.any()
    assert ledger.totals.energy.sum() == pytest.approx(ledger.energy.sum())


def test_what_is_chosen_by_loss_is_what_the_learner_says():
    world = selecting(prepare_training(WORLD).scenario, loudest)
    learner = prepare_training(WORLD).learner(1)
    ledger = simulate(world, "even", learner, rounds=1)
    called = np.flatnonzero(ledger.totals.called)
    losses = np.array([loss for loss, _ in learner.client_losses(learner.start(), range(12))])
    heard = ledger.excluded_by_channel[0] == 0
    assert not heard or set(called) == set(losses.argsort()[-3:])
    assert losses[called].min() >= np.sort(losses)[-5]


def test_certain_clients_are_aggregated_as_all_clients_are():
    """p = 1 for all: w + sum q_j (w_j - w), the mean by data over everyone."""
    everyone = WORLD.using(
        plan={"cohort": 12}, cell={"gain_threshold": 0.0}, clients={"spread": 0.5}
    )
    one = train(certain, everyone, rounds=5)
    other = train("uniform", everyone, rounds=5)
    assert np.allclose(one.train_loss, other.train_loss, rtol=1e-5)
    exact = train("by-data-unbiased", everyone, rounds=5)
    assert np.allclose(exact.train_loss, other.train_loss, rtol=1e-5)


def test_optimal_sampling_is_unbiased_over_its_draws():
    """The mean step of many first rounds is that of all clients."""
    world = WORLD.using(cell={"gain_threshold": 0.0}, plan={"cohort": 4})
    setup = prepare_training(selecting(world, "optimal-sampling"))
    learner = setup.learner(1)
    start = learner.start().astype(float)
    q = learner.sizes / learner.sizes.sum()
    uploads = np.array(list(learner.train(learner.start(), range(12), 0)), float)
    full = q @ (uploads - start)
    from fedcell.learning.aggregate import aggregate_by_chance
    from fedcell.network.selectors.resolve import resolved
    from fedcell.network.selectors.rules.update_norm import OptimalSampling
    from fedcell.selectors import known_round

    lengths = np.linalg.norm(uploads - start, axis=1)
    steps = []
    for t in range(1500):
        known = known_round(
            samples=learner.sizes, train=lambda c: lengths[c], cohort=4, round=t, may=[True] * 12
        )
        clients, chance = resolved(OptimalSampling()(known), known, "")
        after, _ = aggregate_by_chance(
            learner.start(), clients.tolist(), chance.tolist(), uploads[clients], q, t, 4
        )
        steps.append(after - start)
    error = np.linalg.norm(np.mean(steps, axis=0) - full) / np.linalg.norm(full)
    assert error < 0.05


def test_a_rule_that_reads_durations_is_trained_under_one_policy():
    with pytest.raises(BadInput, match="one training is for one policy"):
        run(selecting(WORLD, "oort"), ["even", "optimal"], rounds=2)
    with pytest.raises(BadInput, match="is for the policy optimal"):
        run(selecting(WORLD, "oort(policy=optimal)"), ["even"], rounds=2)
    result = run(selecting(WORLD, "oort(window=5)"), ["even"], rounds=2)
    assert result.identity["scenario"]["plan"]["selection"] == "oort(window=5, policy=even)"


def test_another_selector_does_not_resume_a_folder(tmp_path):
    run(selecting(WORLD, "best-norm"), ["even"], rounds=2, folder=tmp_path / "r")
    with pytest.raises(BadFile, match="selection"):
        run(selecting(WORLD, "active"), ["even"], rounds=4, folder=tmp_path / "r", resume=True)


def test_a_damaged_choice_is_refused(tmp_path):
    run(selecting(WORLD, "best-norm"), ["even"], rounds=2, folder=tmp_path / "r")
    path = tmp_path / "r" / "checkpoint.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["selected"] = arrays["selected"][:-40]
    np.savez(path, **arrays)
    with pytest.raises(BadFile, match="damaged"):
        run(selecting(WORLD, "best-norm"), ["even"], rounds=4, folder=tmp_path / "r", resume=True)


def test_a_learner_without_losses_of_clients_is_named():
    class Plain:
        def __init__(self, inner):
            self.inner, self.sizes = inner, inner.sizes

        def __getattr__(self, name):
            if name == "client_losses":
                raise AttributeError(name)
            return getattr(self.inner, name)

    setup = prepare_training(selecting(WORLD, "power-of-choice"))
    with pytest.raises(BadInput, match="give it client_losses"):
        simulate(setup.scenario, "even", Plain(setup.learner(1)), rounds=1)


def test_after_training_goes_with_no_rule_that_asks():
    world = WORLD.using(plan={"cohort_drawn": "after-training"})
    with pytest.raises(BadInput, match="asks clients to work"):
        train("power-of-choice", world)


@reads("gain")
def strongest(known: Known) -> Race:
    return best(known, known.gain)


def test_a_changed_selector_is_noticed_on_resume(tmp_path, monkeypatch):
    from fedcell.errors import FedcellWarning

    world = selecting(WORLD, strongest)
    run(world, ["even"], rounds=2, folder=tmp_path / "r")
    module = __import__("fedcell.simulation.run", fromlist=["run"])
    monkeypatch.setattr(module, "sources_of", lambda *_: {"mine.py": "another"})
    with pytest.warns(FedcellWarning, match="the selector"):
        run(world, ["even"], rounds=3, folder=tmp_path / "r", resume=True)


def test_code_of_ones_own_runs_in_this_process_alone():
    from fedcell import run_seeds
    from fedcell.simulation import Compute

    with pytest.raises(BadInput, match="code of your own is run in this process alone"):
        run_seeds(selecting(WORLD, strongest), ["even"], seeds=2, compute=Compute(workers=2))


@pytest.mark.filterwarnings("ignore:this is not what was planned")
def test_a_plan_that_adapts_goes_with_rules_of_the_network_alone():
    from fedcell import GivenLaw, plan_training, run_adaptive
    from fedcell.planning.adaptive.run import Adaptation

    world = WORLD.using(learning={"target": 1.5})
    law = GivenLaw(mixing=40.0, drift=0.5, start=30.0)
    plan = plan_training(world, law)
    with pytest.raises(BadInput, match="known only while a model is trained"):
        run_adaptive(selecting(world, "power-of-choice"), ["even"], Adaptation(start=plan, every=3))
    done = run_adaptive(selecting(world, "best-channel"), ["even"], Adaptation(start=plan, every=3))
    assert done.ledgers["even"].rounds > 0
