"""A pilot's law against trials that it has not seen."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell.planning.law.fit import fit_law
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.validation import Validation, check_law, target_exponent
from fedcell.planning.setting import Setting, validation_settings
from support.laws import FLOOR, observed
from support.pilots import passing, strict, trial


def test_predictions_beside_what_was_measured():
    law = fit_law(observed(FLOOR, seeds=6, seed_sd=0.1, run_sd=0.1))
    g = float(law.predict(np.array(10), np.array(10), 0.0)[0])
    here, there = Setting(10, 10, 0.0), Setting(20, 10, 0.0)
    runs = [trial([1.0] * (int(g) - 1) + [0.05], here, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9 + [0.05], there, seed=i) for i in range(4)]
    runs += [trial([1.0] * 9, there, seed=9)]
    first, second = check_law(law, runs, passing(0.1))
    assert first.measured == int(g)
    assert first.error == pytest.approx(g / int(g) - 1)
    assert first.inside
    assert not replace(first, measured=first.predicted.high * 1.01).inside
    assert not replace(first, measured=first.predicted.low * 0.99).inside
    assert second.missed == 1
    found = Validation(name="here", checks=(first, second))
    assert (found.to_dict()["settings"], found.to_dict()["reached"]) == (2, 1)
    assert (found.coverage, found.median_error) == (1.0, abs(first.error))
    words = "1 of 5 runs did not reach the loss with 20 clients a round, 10 steps each"
    assert found.failures == [words]
    off = replace(first, measured=first.predicted.value / 1.4)
    assert off.failure == "the law is +40% off with 10 clients a round, 10 steps each"
    near = replace(first, measured=first.predicted.value / 1.2)
    assert near.failure is None


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_exponent_of_the_target(power):
    losses = (100 / np.arange(1, 2000)) ** (1 / power)
    found = target_exponent([trial(losses, target=0.5)], passing(0.2))
    assert found == pytest.approx(-power, rel=0.1)


def test_a_pilot_is_judged_by_runs_that_it_has_not_seen(fedcell, piloted):
    words = ["world.json", "--pilot", piloted, "--budget", "200ms"]
    figure = piloted.parent / "v.png"
    said = strict(fedcell("validate", *words, "--figure", figure, "--json"))
    seen = {t.setting for t in load_pilot(piloted).trials}
    seeds = {t.seed for t in load_pilot(piloted).trials}
    judged = load_pilot(piloted.parent / "validation-world.json", "validation").trials
    assert not seen & {t.setting for t in judged}
    assert not seeds & {t.seed for t in judged}
    assert 1 <= said["settings"] <= 4
    assert said["settings"] == len(said["rows"])
    assert figure.stat().st_size > 10_000
    words = fedcell("validate", *words)
    assert "rounds at settings that the pilot has not seen" in words.out
    assert "median error" in words.out
    assert "did not reach" not in words.out  # what the budget cut says nothing of the law


def test_validation_judges_untried_settings_or_else_other_seeds():
    reached = [Setting(k, e, 0.0) for k in (1, 4, 16) for e in (1, 4, 16)]
    between = {Setting(k, e, 0.0) for k in (2, 8) for e in (2, 8)}
    assert set(validation_settings(reached, reached)) == between
    one = Setting(2, 8, 0.0)
    assert set(validation_settings(reached, [*reached, one])) == between - {one}
    assert set(validation_settings(reached, [*reached, *between])) == between
    assert validation_settings([one], [one]) == [one]


def test_laws_of_a_pilot_follow_from_its_own_runs(piloted):
    """Another pilot that is made of it does not keep what was fitted to other runs."""
    pilot = load_pilot(piloted)
    fields_before = dict(vars(load_pilot(piloted)))
    law = pilot.fit()
    assert {name: getattr(pilot, name) for name in fields_before} == fields_before
    some = replace(pilot, trials=pilot.trials[: len(pilot.trials) // 2])
    fresh = replace(load_pilot(piloted), trials=some.trials)
    own, other, whole = ([*each.coefficients] for each in (some.fit(), fresh.fit(), law))
    assert own == other != whole
    assert pilot.fit() is law
