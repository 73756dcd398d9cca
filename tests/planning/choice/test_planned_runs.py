"""Plans of pilots: their files, and runs of them."""

import json
import math

import numpy as np
import pytest

from fedcell import Compute, Region, RoundPlan, Scenario, plan_training
from fedcell.errors import BadInput
from fedcell.learning.learner import Scores
from fedcell.planning.choice.choose import choose_plan
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.pilot.candidates import search_space
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.run import run_pilot
from support.pilots import WORLD, strict


def test_clients_that_are_never_called_are_not_planned_with():
    sizes = np.r_[np.full(4, 100.0), np.full(8, 3.0)]
    clients = {"count": 12, "sizes": sizes, "min_samples": 10}
    scenario = Scenario(plan=RoundPlan(cohort=4)).using(clients=clients)
    assert search_space(scenario).cohorts.max() == 4
    law = GivenLaw(mixing=300.0, drift=0.1, start=10.0)
    assert choose_plan(evaluate_plans(scenario, law, "even", 6)).cohort <= 4
    with pytest.raises(BadInput, match=r"every client holds fewer than clients\.min_samples"):
        evaluate_plans(scenario.using(clients={"min_samples": 1e6}), law, "even", 6)


class Mean:
    """A custom learner: every client pulls towards its own number."""

    def __init__(self, count, steps, seed):
        rng = np.random.default_rng(seed)
        self.sizes = np.full(count, 60)
        self.homes, self.steps = rng.normal(size=count), steps

    def start(self):
        return np.full(1, 5.0, np.float32)

    def train(self, model, clients, round):  # noqa: ARG002
        for client in clients:
            pull = 1 - 0.98**self.steps
            yield (model + pull * (self.homes[client] - model)).astype(np.float32)

    def evaluate(self, model):
        return Scores(float((model[0] - self.homes.mean()) ** 2))


@pytest.mark.parametrize("learning", [None, {"dataset": "digits"}])
def test_a_plan_uses_the_data_sizes_of_a_custom_learner(tmp_path, learning):
    """Whether or not the scenario also says what ours would train."""
    task = {"model_bits": 1e5, "cycles_per_sample": 1e5, "samples_per_step": "dataset"}
    scenario = Scenario(plan=RoundPlan(cohort=5, local_steps=10, rounds=200)).using(
        clients={"count": 20, "spread": 0.0}, task=task, learning=learning
    )
    make = lambda world, seed: Mean(20, world.plan.local_steps, seed)
    path = tmp_path / "mine.json"
    pilot = run_pilot(scenario, 2.0, path, target=0.5, compute=Compute(learner=make))
    assert pilot.sizes == (60.0,) * 20
    again = load_pilot(path)
    assert again.sizes == pilot.sizes
    for kept in (pilot, path):
        plan = plan_training(scenario, kept, region=Region(policy="even"))
        assert plan.grid is not None
        assert plan.grid.scenario.clients.sizes.values.tolist() == [60.0] * 20
    resumed = run_pilot(scenario, 2.0, path, target=0.5, compute=Compute(learner=make))
    assert {*again.trials} <= {*resumed.trials}  # with time left it may go on


def test_a_plan_may_change_the_radio_and_not_the_learning(fedcell, piloted, world):
    def plan_of(**changes):
        tables = {name: dict(table) for name, table in WORLD.items()}
        for name, values in changes.items():
            tables[name] = tables.get(name, {}) | values
        (world.parent / "other.json").write_text(json.dumps(tables))
        return fedcell("plan", "other.json", "--pilot", piloted, "--json")

    base = strict(plan_of())
    slow = strict(plan_of(cell={"bandwidth": 1e4}))
    assert slow["duration"]["value"] > base["duration"]["value"]
    lossy = plan_of(cell={"loss_rate": 0.3})
    assert lossy.code == 2
    assert "the pilot tried cell.loss_rate 0.1, and this scenario has 0.3: run" in lossy.err
    other = strict(plan_of(plan={"cohort": 2, "local_steps": 9}))
    assert (other["cohort"], other["cost"]) == (base["cohort"], base["cost"])
    for changes, named in (
        ({"learning": {"rate": 0.03}}, "learning.rate"),
        ({"clients": {"count": 13}}, "clients.count"),
        ({"task": {"batch_size": 7}}, "task.batch_size"),
        ({"plan": {"selection": "weighted"}}, "plan.selection"),
    ):
        said = plan_of(**changes)
        assert said.code == 2
        assert (
            f"this pilot was run with other settings ({named}): run `fedcell pilot` for this"
            in said.err
        )


@pytest.mark.filterwarnings("default")
def test_a_plan_is_run_and_compared_with_what_it_said(fedcell, piloted):
    plan = piloted.parent / "plan.json"
    words = ["plan", "world.json", "--pilot", piloted, "--policy", "distributed", "--out", plan]
    assert fedcell(*words).code == 0
    planned = json.loads(plan.read_text())
    said = strict(fedcell("run", "--plan", plan, "--out", "run", "--json"))
    assert said["cohort"] == planned["cohort"]
    assert said["local_steps"] == planned["local_steps"]
    assert said["policies"][0]["policy"] == "distributed"  # the plan's own first
    beside = {row["policy"]: row for row in said["plan"]}
    assert len(beside) == 5
    for row, actual in zip(said["plan"], said["policies"], strict=True):
        assert row["rounds"]["taken"] == actual["to_target"]["rounds"]
        assert row["energy"]["taken"] == actual["to_target"]["energy"]
        low, high = row["duration"]["low"], row["duration"]["high"]
        assert row["duration"]["inside"] == (low <= row["duration"]["taken"] <= high)
    assert beside["distributed"]["cost"]["value"] == planned["cost"]["value"]
    words = fedcell("run", "world.json", "--plan", plan, "--out", "again")
    assert "The plan's predictions against this run" in words.out
    other = fedcell("run", "--plan", plan, "--out", "other", "--target-loss", 0.9)
    assert "this is not what was planned (another target)" in other.err
    changed = {**WORLD, "cell": WORLD["cell"] | {"bandwidth": 1e6}}
    (piloted.parent / "changed.json").write_text(json.dumps(changed))
    other = fedcell("run", "changed.json", "--plan", plan, "--out", "changed")
    assert (
        "this is not what was planned (cell.bandwidth): predictions are not compared" in other.err
    )
    assert "The plan's predictions" not in other.out
    few = fedcell("run", "--plan", plan, "--out", "few", "--rounds", 1)
    assert "the target was not reached: there is nothing to compare the plan with" in few.out


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d.clear(), "is not a plan that fedcell wrote: plan again with `fedcell plan`"),
        (lambda d: d.update(format=1), "is a plan of an older fedcell (0.3.0, format 1; this one"),
        (lambda d: d.update(cohort=0), "cohort = 0: expected a whole number from 1"),
        (lambda d: d["rounds"].update(high=None), "rounds.high = None: expected a number above"),
        (lambda d: d["rounds"].update(low=-1), "rounds.low = -1: expected a number above 0"),
        (
            lambda d: d["rounds"].update(low=1e9, high=2e9),
            "is not between low = 1e+09 and high = 2e+09; plan again",
        ),
        (lambda d: d.update(cohort=math.inf), "cohort = inf: expected a whole"),
        (lambda d: d.update(policies=3), "policies = 3: expected a list of tables"),
        (lambda d: d["law"].update(drift=True), "drift = True: expected a number from 0"),
        (lambda d: d["scenario"]["cell"].update(noise=-1), "cell.noise = -1: expected a number"),
        (lambda d: d.update(scenario=None), "its scenario has measured gains: name its file"),
        (
            lambda d: (
                d.update(cohort=10**6),
                d["cohort_interval"].update(value=10**6, high=10**6),
            ),
            "plan.cohort = 1000000 is more than the 12",
        ),
        (
            lambda d: d["cohort_interval"].update(value=10**6),
            "cohort_interval.value = 1e+06 is not between low =",
        ),
        (
            lambda d: d["local_steps_interval"].update(value=1, low=1),
            "is not local_steps_interval.value = 1; plan again",
        ),
        (
            lambda d: (d.update(policy="evil:p"), d["policies"][0].update(policy="evil:p")),
            "which is not built-in: give --policy evil:p if",
        ),
        (lambda d: d.update(policy="evil:p"), "policies: evil:p is not among them; plan again"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*has no checksum")
def test_damaged_plans_are_refused(fedcell, piloted, damage, said):
    plan = piloted.parent / "plan.json"
    assert fedcell("plan", "world.json", "--pilot", piloted, "--out", plan).code == 0
    content = json.loads(plan.read_text())
    del content["checksum"]
    damage(content)
    plan.write_text(json.dumps(content))
    answer = fedcell("run", "--plan", plan, "--out", "run")
    assert answer.code == 2
    assert said in answer.err
    assert not (piloted.parent / "run").exists()


def test_a_plan_of_listed_clients_is_run(fedcell, piloted):
    """Real fleets travel with their plan."""
    rows = [{"kappa": 1e-27 * (1 + i), "distance": 50.0 + i} for i in range(12)]
    listed = {**WORLD, "clients": {"samples": 40, "spread": 0.0, "table": rows}}
    (piloted.parent / "listed.json").write_text(json.dumps(listed))
    plan = fedcell("plan", "listed.json", "--pilot", piloted, "--out", "plan.json")
    assert plan.code == 0, plan.err
    said = strict(fedcell("run", "--plan", "plan.json", "--out", "run", "--json"))
    assert len(said["plan"]) == 5


def test_a_plan_never_takes_the_place_of_its_pilot(fedcell, piloted):
    before = piloted.read_bytes()
    for words in (
        ["plan", "world.json", "--pilot", piloted, "--out", piloted],
        ["validate", "world.json", "--pilot", piloted, "--budget", "1ms", "--out", piloted],
    ):
        assert fedcell(*words).code == 2
    assert piloted.read_bytes() == before


def test_a_plan_is_one_of_the_settings_that_were_tried(fedcell, piloted):
    """Never beyond, and within what is asked for."""
    pilot = load_pilot(piloted)
    reached = {(s.cohort, s.local_steps) for s in pilot.reached(pilot.target)}
    for words in ([], ["--minimise", "energy"], ["--minimise", "duration"], ["--policy", "even"]):
        said = strict(fedcell("plan", "world.json", "--pilot", piloted, "--json", *words))
        assert (said["cohort"], said["local_steps"]) in reached
    few = max(k for k, _ in reached)
    said = strict(fedcell("plan", "world.json", "--pilot", piloted, "--clients", few, "--json"))
    assert said["cohort"] == few
    far = fedcell("plan", "world.json", "--pilot", piloted, "--steps", "400..500")
    assert far.code == 2
    assert "no setting within --clients and --steps reached the target" in far.err


def test_a_run_needs_a_scenario_or_a_plan(fedcell):
    answer = fedcell("run")
    assert answer.code == 2
    assert "which scenario? name a file, or one of: paper, cnn, digits, mnist" in answer.err
