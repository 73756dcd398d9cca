"""Files of pilots: what they keep, and which are refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedcell import FedcellWarning, load_scenario
from fedcell.errors import BadInput
from fedcell.learning.setup import prepare_training
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot, save_pilot
from fedcell.planning.setting import Setting
from fedcell.scenario.identity import pilot_identity
from fedcell.scenario.target import Target
from support.pilots import WORLD, passing, sampled_trial, trial

OLD_PILOT = Path(__file__).parents[2] / "support" / "data" / "pilot-of-0.1.json"


def test_other_losses_are_another_pilot(fedcell, piloted):
    worst = {**WORLD, "cell": WORLD["cell"] | {"loss_kind": "worst-case"}}
    (piloted.parent / "worst.json").write_text(json.dumps(worst))
    said = fedcell("pilot", "worst.json", "--out", "pilot.json")
    assert said.code == 2
    assert "is of cell.loss_kind independent, not worst-case: choose another --out" in said.err


def test_a_file_keeps_what_it_is_given(tmp_path):
    runs = tuple(
        trial([2.0, math.nan, 0.1 + i], seed=i, accuracies=(0.1, math.nan, 0.5), target=0.3)
        for i in range(3)
    )
    pilot = Pilot(
        identity={"scenario": {}, "data": None},
        target=Target(accuracy=0.5, hold=2),
        seed=4,
        kind="worst-case",
        seconds=12.5,
        trials=(*runs, trial([1.0, math.inf], seed=9)),
    )
    save_pilot(tmp_path / "p.json", pilot)
    again = load_pilot(tmp_path / "p.json")
    assert repr(again.trials) == repr(pilot.trials)  # NaN included
    assert (again.target, again.seed, again.kind) == (pilot.target, 4, "worst-case")
    assert again.seconds == 12.5
    assert again.diverged == [Setting(4, 4, 0.1)]
    assert len(again.with_trial(trial([5.0], seed=1)).trials) == 4


def test_a_pilot_of_fedcell_0_1_is_read_and_fitted_again(tmp_path):
    """Its runs took time; they were to a loss at its first passage. The file is one of 0.1."""
    old = json.loads(OLD_PILOT.read_text())
    assert old["format"] == 1
    with pytest.warns(FedcellWarning, match="has no checksum"):
        pilot = load_pilot(OLD_PILOT)
    assert len(pilot.trials) == len(old["trials"]) == 12
    assert pilot.target == passing(old["target"])
    assert pilot.trials[3].wall_seconds == old["trials"][3]["seconds"]
    law = pilot.fit()
    here = pilot.trials[0].setting
    rounds = [t.rounds_to(pilot.target) for t in pilot.trials if t.setting == here]
    found, _, _ = law.predict(np.array(here.cohort), np.array(here.local_steps), here.loss_rate)
    assert float(found) == pytest.approx(np.mean(rounds), rel=0.1)
    pilot.save(tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text())["format"] == 3
    again = load_pilot(tmp_path / "new.json")
    assert again.trials == pilot.trials


def test_a_file_of_another_pilot_is_not_resumed(fedcell, piloted):
    other = {**WORLD, "learning": WORLD["learning"] | {"rate": 0.03}}
    (piloted.parent / "other.json").write_text(json.dumps(other))
    said = fedcell("pilot", "other.json", "--out", piloted)
    assert said.code == 2
    sentence = "holds a pilot with other settings (learning.rate): choose another --out"
    assert sentence in said.err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d.pop("format"), "is not a pilot that fedcell wrote: run `fedcell pilot`"),
        (lambda d: d.update(format=99), "is a pilot of a newer fedcell (0.3.0, format 99"),
        (lambda d: d.update(trials=3), "trials = 3: expected a list of tables"),
        (lambda d: d["trials"][0].pop("losses"), "trials[0].losses is missing"),
        (lambda d: d["trials"][0].update(cohort=0), "trials[0].cohort = 0: expected a whole"),
        (lambda d: d["trials"][0].update(cohort=True), "trials[0].cohort = True: expected"),
        (lambda d: d["trials"][0].update(cohort="5"), "trials[0].cohort = '5': expected a whole"),
        (lambda d: d["trials"][0].update(local_steps=1.7), "trials[0].local_steps = 1.7: expec"),
        (lambda d: d["trials"][0].update(loss_rate="much"), "trials[0].loss_rate = 'much': ex"),
        (lambda d: d["trials"][0].update(losses=[]), "trials[0].losses = []: expected a list"),
        (lambda d: d["trials"][0].update(wall_seconds=-1e9), "trials[0].wall_seconds = -1"),
        (lambda d: d["trials"].insert(0, None), "trials[0] = None: expected a table"),
        (lambda d: d.update(kind="odd"), "kind = 'odd': expected \"independent\" or"),
        (lambda d: d.update(target=-1), "target = -1: expected a table"),
        (lambda d: d["target"].update(loss=-1), "target.loss = -1: expected a number above 0"),
        (
            lambda d: d["target"].update(accuracy=0.5),
            "target.loss = 0.4 and accuracy = 0.5: expected one",
        ),
        (lambda d: d["target"].update(hold=0), "target.hold = 0: expected a whole number"),
        (lambda d: d.update(seconds=-1), "seconds = -1: expected a number from 0"),
        (lambda d: d["trials"][0].update(accuracies=[2.0]), "trials[0].accuracies"),
        (lambda d: d.update(seed=math.inf), "seed = inf: expected a whole number from 0"),
        (lambda d: d["trials"][0].update(cohort=10**8), "trials[0].cohort = 100000000: expected"),
        (lambda d: d["trials"][0].update(seed=2**70), "trials[0].seed = 1180591620717411303424"),
        (lambda d: d.update(what="validation"), "holds a validation, not a pilot"),
    ],
)
def test_damaged_pilots_are_refused(fedcell, piloted, damage, said):
    content = json.loads(piloted.read_text())
    damage(content)
    piloted.write_text(json.dumps(content))
    before = piloted.read_bytes()
    for words in (
        ["plan", "world.json", "--pilot", piloted],
        ["pilot", "world.json", "--out", piloted],
    ):
        answer = fedcell(*words)
        assert answer.code == 2
        assert f"fedcell: {piloted}: {said}" in answer.err
    assert piloted.read_bytes() == before


def test_the_identity_of_a_pilot_is_of_the_learning():
    scenario = load_scenario("digits")
    setup = prepare_training(scenario)
    mine = pilot_identity(setup.scenario, setup.fingerprint)
    radio = prepare_training(scenario.using(cell={"bandwidth": 1e6}, clients={"kappa": 1e-26}))
    assert pilot_identity(radio.scenario, radio.fingerprint) == mine
    for changes in (
        {"learning": {"rate": 0.2}},
        {"learning": {"momentum": 0.5}},
        {"clients": {"count": 49}},
        {"task": {"batch_size": 5}},
    ):
        other = prepare_training(scenario.using(**changes))
        assert pilot_identity(other.scenario, other.fingerprint) != mine, changes
    assert pilot_identity(setup.scenario, "other data") != mine


def test_a_pilot_file_keeps_how_sure_each_round_is(tmp_path):
    pilot = Pilot(
        identity={},
        target=passing(0.5),
        seed=0,
        kind="independent",
        trials=(sampled_trial(0.1), trial([1.0, 0.4], seed=1)),
    )
    save_pilot(tmp_path / "p.json", pilot)
    thin, exact = load_pilot(tmp_path / "p.json").trials
    assert thin.errors == pytest.approx(pilot.trials[0].errors)
    assert thin.samples == (128,) * 31
    assert exact.errors == exact.samples == ()
    content = json.loads((tmp_path / "p.json").read_text())
    content["trials"][0]["errors"].pop()
    (tmp_path / "p.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match="errors are not as many as losses"):
        load_pilot(tmp_path / "p.json")
