"""Plans: intervals, policies beside them, and the command."""

import json

import numpy as np
import pytest

from fedcell import Region, Scenario, load_scenario, plan_training
from fedcell.errors import BadInput
from fedcell.learning.setup import prepare_training
from fedcell.network import simulate_network
from fedcell.planning.choice.choose import choose_plan, totals_under
from fedcell.planning.choice.grid import evaluate_plans
from fedcell.planning.law.given import GivenLaw
from fedcell.scenario.target import Target
from support.piloted import PILOT, piloted_digits
from support.planned import FAST, LAW, SMALL, plan_of

INTERVALS = ("cohort_interval", "local_steps_interval", "rounds", "duration", "energy", "cost")


def test_intervals_hold_their_values_and_come_from_the_pilot(fitted):
    world = SMALL.using(clients={"count": 30})
    sure, unsure = (
        choose_plan(evaluate_plans(world, law, "optimal", 60)) for law in (fitted.law, fitted)
    )
    for plan in (sure, unsure):
        for name in (
            "cohort_interval",
            "local_steps_interval",
            "rounds",
            "duration",
            "energy",
            "cost",
        ):
            part = getattr(plan, name)
            assert part.low <= part.value <= part.high
    assert sure.rounds.low == sure.rounds.high
    assert unsure.rounds.low < 0.9 * unsure.rounds.value
    assert unsure.cost.high / unsure.cost.value >= unsure.rounds.high / unsure.rounds.value


@pytest.mark.parametrize("aim", ["cost", "energy"])
def test_sums_over_rounds_lie_in_their_intervals(aim):
    """With a law that is sure, what is left is how rounds differ: in energy more than in cost."""
    world = SMALL.using(cell={"broadcast_time": 20.0}, task={"model_bits": 3e7})
    law = GivenLaw(mixing=5.0, drift=0.5, start=20.0)
    plan = choose_plan(evaluate_plans(world, law, "optimal", 6), minimise=aim)
    g = round(plan.rounds.value)
    chosen = {"cohort": plan.cohort, "local_steps": plan.local_steps}
    ledger = simulate_network(world.using(plan=chosen), "optimal", 200 * g, seed=0)
    for measure in ("cost", "duration", "energy"):
        sums = getattr(ledger, measure).reshape(200, g).sum(1) * plan.rounds.value / g
        part = getattr(plan, measure)
        inside = np.mean((part.low <= sums) & (sums <= part.high))
        assert inside >= 0.8, (measure, inside)


def test_another_policy_takes_other_seconds_and_the_same_rounds():
    plan = choose_plan(evaluate_plans(SMALL, LAW, "optimal", 6))
    own, even = (totals_under(SMALL, name, plan) for name in ("optimal", "even"))
    assert own["duration"].value == pytest.approx(plan.duration.value, rel=1e-9)
    assert even["duration"].value > own["duration"].value
    assert even["rounds"] == own["rounds"] == plan.rounds


def test_the_choice_of_a_plan_is_two_whole_numbers():
    plan = plan_training(SMALL, LAW, region=Region(policy="even", steps=(1, 6)))
    assert type(plan.cohort) is type(plan.local_steps) is int
    assert SMALL.with_plan(plan.cohort, plan.local_steps) == plan.apply_to(SMALL).using(
        plan={"rounds": SMALL.plan.rounds}
    )
    assert len(range(plan.cohort)) == plan.cohort_interval.value
    assert plan.to_dict()["cohort"] == plan.cohort


def test_the_command_answers_in_json(fedcell):
    plan = plan_of(fedcell, "--policy", "distributed", "--steps", "1..40", "--sensitivity")
    for name in INTERVALS:
        assert plan[name]["low"] <= plan[name]["value"] <= plan[name]["high"]
    assert plan["paper"]["cost"] >= plan["cost"]["value"]
    assert {"cohort", "local_steps", "cost"} <= set(plan["paper"])
    assert len(plan["sensitivity"]) == 4
    assert plan["policies"][0]["policy"] == "distributed"
    assert plan["unit_costs"][2]["error"] == pytest.approx(0, abs=1e-9)


def test_the_command_in_words(fedcell, tmp_path):
    words = ["--mixing", 30, "--drift", 0.5, "--start", 4000, "--figure", tmp_path / "p.png"]
    said = fedcell("plan", "paper", *words, "--steps", "1..3", "--deadline", "1h")
    (tmp_path / "mine.toml").write_text("[task]\nenergy_weight = 0.25\n")
    weighed = fedcell("plan", tmp_path / "mine.toml", *words, "--steps", "1..3").out
    assert "the cost counts a joule as 0.25 s" in weighed
    detailed = fedcell("plan", "paper", *words, "--steps", "1..3", "--details")
    assert said.code == detailed.code == 0
    for part in (
        "call 1 client a round and let each train for 3 steps",
        "Under each policy",
        "note: 3 steps are the most that were evaluated",
    ):
        assert part in said.out
    for part in ("the paper's closed forms say K = ", "Unit costs at this K and E_l"):
        assert part in detailed.out
        assert part not in said.out
    assert (tmp_path / "p.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no law of rounds: give --pilot (fedcell pilot makes one), or --mixing"),
        (["--mixing", 1], "or --drift, --start"),
        (["--mixing", -1, "--drift", 1, "--start", 1], "mixing = -1.0: expected a number from 0"),
        (["--mixing", "nan", "--drift", 1, "--start", 1], "mixing = nan: expected a number from"),
        (["--pilot", "no.json"], "no.json: cannot be read"),
        (
            ["--solve-for", "bandwidth"],
            "--solve-for bandwidth: give the deadline to keep",
        ),
        (["--deadline", "soon"], "--deadline = soon: expected a time such as 90s"),
        (["--energy-budget", "5J/round"], "--energy-budget = 5J/round: expected as in 500J"),
        (["--energy-budget", "much"], "--energy-budget = much: expected an energy such as"),
        (["--figure", "p.txt"], "p.txt: the name must end in one of: png"),
        (["--out", "p.txt"], "p.txt: the name must end in one of: json"),
        (["--policy", "evn"], "evn is not a policy: did you mean even?"),
        (["--steps", "1..0"], "--steps = 1..0: expected a range"),
        (["--minimise", "regret"], "--minimise"),
        (
            ["--confidence", "0.95"],
            "give a deadline or an energy to keep (--deadline, --energy-budget)",
        ),
        (["--energy-budget", "5J/"], "--energy-budget = 5J/: expected as in 500J"),
        (["--target-loss", "nan"], "--target-loss = nan: expected a finite number above 0"),
    ],
)
def test_invalid_plan_options_are_refused(fedcell, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    law = [] if {"--mixing", "--pilot"} & set(words) or not words else ["--mixing", 1, "--drift", 1]
    law += ["--start", 1] if law else []
    answer = fedcell("plan", "paper", *law, *words)
    assert answer.code == 2
    assert said in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_law_by_hand_claims_no_interval(fedcell, tmp_path):
    said = fedcell("plan", "paper", *FAST, "--mixing", 30, "--drift", 0.5, "--start", 40)
    assert "another pilot" not in said.out
    few = fedcell("plan", "paper", *FAST, "--mixing", 1e-9, "--drift", 0, "--start", 0, "--json")
    assert json.loads(few.out)["rounds"]["value"] == 1  # a round at least
    many = fedcell("plan", "paper", *FAST, "--mixing", 1e30, "--drift", 0, "--start", 0)
    assert (many.code, "check its coefficients" in many.err) == (2, True)
    plan = tmp_path / "plan.json"
    words = ["plan", "paper", *FAST, "--mixing", 30, "--drift", 0, "--start", 40, "--out", plan]
    assert fedcell(*words).code == 0
    strict = json.loads(plan.read_text(), parse_constant=lambda what: pytest.fail(what))
    assert strict["paper"]["unclipped_local_steps"] is None  # infinite
    assert fedcell(*words).code == 0  # a plan may be written over
    plan.write_text('{"else": 1}')
    assert "holds something else than a plan" in fedcell(*words).err
    assert plan.read_text() == '{"else": 1}'


def test_a_plan_is_applied_with_its_k_its_e_l_and_its_target():
    world = load_scenario("digits").using(learning={"evaluate_every": 7})
    law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    plan = plan_training(world, law, target=0.7, region=Region(policy="even", steps=(1, 30)))
    there = plan.apply_to()
    assert (there.plan.cohort, there.plan.local_steps) == (
        plan.cohort,
        plan.local_steps,
    )
    assert there.learning is not None
    assert (there.learning.target, there.learning.evaluate_every) == (0.7, 1)
    assert there.plan.rounds == plan.most_rounds >= plan.rounds.value
    assert plan.differences(there, Target(loss=0.7)) == []
    assert plan.differences(there, Target(loss=0.8)) == ["another target"]
    narrow = there.using(cell={"bandwidth": 1e6})
    assert plan.differences(narrow, Target(loss=0.7)) == ["cell.bandwidth"]


OWN_LAW = GivenLaw(mixing=30.0, drift=0.5, start=40.0)


OTHERS = {"source", "target", "limits", "solve_for"}  # arguments beside the region


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": (1, 0)}, r"`steps` = \(1, 0\): expected two whole numbers from 1"),
        ({"steps": 2.5}, "`steps` = 2.5: expected two whole numbers from 1"),
        ({"clients": (9, 20)}, r"`clients` = \(9, 20\): expected two whole numbers from 1 to 8"),
        ({"solve_for": "energy"}, "`solve_for` = energy: expected bandwidth"),
        ({"limits": {"deadline": 3}}, "`limits` = .*: expected Limits"),
        ({"target": "0.2"}, "`target` = 0.2: expected a finite number above 0"),
        ({"source": 5.0}, "`source` = 5.0: expected a Pilot, the path of its file, or a law"),
        ({"minimise": "regret"}, "`minimise` = regret: expected one of cost, duration, energy"),
        ({"source": None}, "a plan needs a `pilot` .* or a `law`"),
        ({"policy": "evn"}, "evn is not a policy: did you mean even"),
    ],
)
def test_calls_that_are_refused_in_a_sentence(given, message):
    region = {"policy": "even", "steps": (1, 3)} | given
    others = {name: region.pop(name) for name in OTHERS & region.keys()}
    with pytest.raises(BadInput, match=message):
        plan_training(SMALL, **{"source": OWN_LAW} | others, region=Region(**region))


def test_a_plan_for_another_target_than_the_scenarios_says_so():
    world = piloted_digits().using(learning={"target": 0.5})
    plan, held = plan_training(world, PILOT, region=Region(policy="even")), world.goal()
    assert held is not None
    assert plan.target == Target(loss=0.2, hold=held.hold)
    assert plan.notes[0].startswith(
        f"the scenario's own target is training loss 0.5 {held.definition}, and this plan is "
        f"for training loss 0.2 {held.definition}: `loss` chooses"
    )
    asked = plan_training(world, PILOT, target=0.3, region=Region(policy="even"))
    assert not [note for note in asked.notes if "own target" in note]


def test_worlds_without_a_plan_say_why(fedcell):
    law = ["--mixing", 30, "--drift", 0.5, "--start", 40, "--policy", "even", "--steps", "1..5"]
    free = json.loads(fedcell("plan", "paper", *law, "--json").out)["duration"]["value"]
    words = ["--deadline", f"{1.001 * free}s", "--sensitivity"]
    said = " ".join(fedcell("plan", "paper", *law, *words).out.split())
    assert "note: half the band: no plan keeps the deadline of" in said


def test_notes_speak_of_options_on_the_command_line_and_of_arguments_in_python(fedcell):
    law = GivenLaw(mixing=1.0, drift=0.0, start=4000.0)
    plan = plan_training(Scenario(), law, region=Region(policy="even", steps=(1, 3)))
    assert plan.notes == ("3 steps are the most that were evaluated: `steps` allows more",)
    words = ["--mixing", 1, "--drift", 0, "--start", 4000, "--policy", "even", "--steps", "1..3"]
    said = " ".join(fedcell("plan", "paper", *words).out.split())
    assert "note: 3 steps are the most that were evaluated: --steps allows more" in said


def test_a_law_by_hand_is_not_in_doubt_however_uploads_are_lost():
    for gamma in (0.3, 0.6):
        world = load_scenario("digits").using(
            cell={"loss_rate": gamma, "loss_kind": "worst-case"}, learning={"target": 0.2}
        )
        law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
        plan = plan_training(world, law, region=Region(steps=(1, 80)))
        assert plan.cohort_interval.low == plan.cohort == plan.cohort_interval.high


def test_policies_beside_a_plan_are_priced_as_its_own_is(fitted):
    plan = plan_training(
        load_scenario("digits"), fitted.law, region=Region(policy="even", steps=(1, 80))
    )
    staged = plan_training(load_scenario("digits"), fitted.law, region=Region(steps=(1, 80)))
    assert plan.policies["even"]["cost"] == plan.cost
    k, e = plan.cohort, plan.local_steps
    world = prepare_training(load_scenario("digits")).scenario.with_plan(k, e)
    rates = {n: simulate_network(world, n, 200).cost.mean() for n in ("even", "optimal-staged")}
    beside = plan.policies["optimal-staged"]["cost"].value / plan.cost.value
    assert beside == pytest.approx(rates["optimal-staged"] / rates["even"], rel=0.01)
    asked, free = (" ".join(each.summary().split()) for each in (plan, staged))
    assert "even was asked for, or keeps the limits; optimal-staged would make the" in asked
    assert "optimal-staged makes the cost least, so the plan has it" in free


def test_laws_that_fit_as_well_move_the_best_k_and_e_l(fitted):
    """The intervals of K and E_l are where laws as likely would have their best."""
    world = SMALL.using(clients={"count": 30})
    grid = evaluate_plans(world, fitted, "optimal", 60)
    plan = choose_plan(grid)
    assert plan.local_steps_interval.low < plan.local_steps <= plan.local_steps_interval.high
    sure = choose_plan(evaluate_plans(world, fitted.law, "optimal", 60))
    assert sure.local_steps_interval.low == sure.local_steps_interval.high


def test_a_plan_has_the_policy_that_minimises_its_objective():
    for aim in ("cost", "duration", "energy"):
        plan = plan_training(SMALL, LAW, region=Region(minimise=aim, steps=(1, 6)))
        totals = {name: each[aim].value for name, each in plan.policies.items()}
        assert totals[plan.policy] <= min(totals.values()) * 1.002, (aim, totals)
    assert plan_training(SMALL, LAW, region=Region(steps=(1, 6))).policy == "optimal-staged"
