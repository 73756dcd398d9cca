"""The law of rounds from runs: known coefficients come back, censored runs and luck included."""

import numpy as np
import pytest

from fedcell import BadInput, NotReached
from fedcell.planning.fit import fit_law, leave_one_setting_out_error
from fedcell.planning.fitted import FORMS
from fedcell.planning.law import TERMS, GivenLaw
from fedcell.planning.observations import Observations
from support.laws import FLOOR, PAPER, SETTINGS, observed


@pytest.fixture(autouse=True)
def fewer_replicates(monkeypatch):
    """A fit takes most of its time for intervals."""
    monkeypatch.setattr("fedcell.planning.fit.REPLICATES", 40)


@pytest.mark.parametrize("kind", ["independent", "worst-case"])
@pytest.mark.parametrize(("law", "form"), [(PAPER, "paper"), (FLOOR, "floor")])
def test_known_coefficients_come_back_exactly_without_noise(law, form, kind):
    found = fit_law(observed(law, kind=kind))
    assert found.form == form
    assert found.coefficients == pytest.approx(law.coefficients, abs=1e-3, rel=1e-4)
    assert found.lack_of_fit_sd < 1e-3
    assert found.kind == kind


def test_the_dropped_term_is_found_where_it_is():
    law = GivenLaw(mixing=1.0, drift=0.4, start=100.0, dropped=900.0)
    found = fit_law(observed(law))
    assert found.form == "dropped"
    assert found.law.dropped == pytest.approx(900.0, rel=1e-3)


@pytest.mark.parametrize("seed", range(6))  # what is statistical has its dice fixed
def test_coefficients_come_back_from_noise_and_censoring(seed):
    runs = observed(PAPER, seeds=12, seed_sd=0.15, run_sd=0.1, cap=70, seed=seed)
    assert 8 <= runs.censored.sum() <= 40
    found = fit_law(runs, "paper")
    for name, rel in (("mixing", 0.5), ("drift", 0.4), ("start", 0.3)):
        assert getattr(found.law, name) == pytest.approx(getattr(PAPER, name), rel=rel), name
    for k, e in ((5, 10), (10, 20), (20, 40), (30, 7)):
        assert float(found.predict(k, e, 0.1)[0]) == pytest.approx(PAPER.rounds(k, e, 0.1), rel=0.2)


def test_censored_runs_are_not_taken_for_what_they_were_cut_at():
    runs = observed(PAPER, seeds=12, run_sd=0.1, cap=60)
    naive = Observations(
        **{name: getattr(runs, name) for name in ("cohort", "steps", "loss_rate", "rounds")},
        censored=np.zeros(runs.rounds.size, bool),
        seed=runs.seed,
    )
    true = PAPER.rounds(3, 5, 0.1)
    with_them, without = (float(fit_law(r, "paper").predict(3, 5, 0.1)[0]) for r in (runs, naive))
    assert without < 0.9 * true
    assert with_them == pytest.approx(true, rel=0.15)


def test_coefficients_are_never_negative():
    """Rounds that grow with K and fall with E_l for ever: no such law."""
    law = observed(PAPER)
    odd = Observations(
        cohort=law.cohort,
        steps=law.steps,
        loss_rate=law.loss_rate,
        rounds=5.0 + law.cohort,
        censored=law.censored,
        seed=law.seed,
    )
    for form in FORMS:
        found = fit_law(odd, form)
        assert (found.coefficients >= 0).all()
        assert (found.replicates >= 0).all()
    assert fit_law(odd, "floor").lack_of_fit_sd > 0.3  # and it says that it fits badly


def test_a_slow_seed_with_half_its_runs_does_not_bend_the_law():
    runs = observed(PAPER, seeds=6)
    half = np.flatnonzero((runs.seed < 5) | (runs.steps <= 5))
    slow = runs.rounds * np.where(runs.seed == 5, 2.0, 1.0)
    cut = Observations(
        **{name: getattr(runs, name)[half] for name in ("cohort", "steps", "loss_rate")},
        rounds=slow[half],
        censored=runs.censored[half],
        seed=runs.seed[half],
    )
    found = fit_law(cut, "paper")
    ratio = found.coefficients[:3] / PAPER.coefficients[:3]
    assert ratio == pytest.approx(np.full(3, 34 / 32), rel=1e-2)  # the mean luck, for all alike
    assert found.seeds == 5  # two runs of a seed are not a seed
    assert leave_one_setting_out_error(cut, "paper") < 0.01


def test_nine_in_ten_intervals_hold_what_they_are_about():
    inside = {runs: [] for runs in (1, 5, np.inf)}
    rng = np.random.default_rng(1)
    for seed in range(16):
        found = fit_law(observed(FLOOR, seeds=8, seed_sd=0.15, run_sd=0.1, seed=seed), "floor")
        for k, e, gamma in ((5, 10, 0.0), (20, 40, 0.3), (10, 5, 0.0)):
            true = float(FLOOR.rounds(k, e, gamma))
            spread = np.exp(np.hypot(0.15, 0.1) * rng.standard_normal(1000))
            for runs, drawn in ((1, true * spread[0]), (5, true * spread[:5].mean())):
                _, low, high = found.predict(k, e, gamma, runs)
                inside[runs].append(low <= drawn <= high)
            _, low, high = found.predict(k, e, gamma, np.inf)
            inside[np.inf].append(low <= true * np.exp((0.15**2 + 0.1**2) / 2) <= high)
    assert all(np.mean(held) >= 0.8 for held in inside.values()), inside
    assert not all(all(held) for held in inside.values())


def test_more_runs_make_intervals_narrower():
    few, many = (
        fit_law(observed(PAPER, seeds=n, seed_sd=0.1, run_sd=0.1), "paper") for n in (3, 30)
    )
    _, low, high = few.predict(10, 20, 0.1, np.inf)
    _, lower, higher = many.predict(10, 20, 0.1, np.inf)
    assert higher / lower < 0.85 * high / low
    wide, narrow = (many.predict(10, 20, 0.1, runs)[2] for runs in (1, np.inf))
    assert narrow < wide
    assert set(many.coefficient_estimates()) == set(FORMS["paper"])


def test_settings_left_out_are_predicted_by_the_right_form():
    runs = observed(FLOOR, seeds=10, run_sd=0.05)
    assert (
        leave_one_setting_out_error(runs, "floor")
        < 0.1
        < leave_one_setting_out_error(runs, "paper")
    )
    few = runs[runs.steps == 20]
    assert leave_one_setting_out_error(few, "paper") == np.inf


def test_nine_in_ten_coefficients_lie_in_their_intervals():
    inside = {name: [] for name in FORMS["paper"]}
    for seed in range(15):
        found = fit_law(observed(PAPER, seeds=4, seed_sd=0.15, run_sd=0.1, seed=seed), "paper")
        for name, part in found.coefficient_estimates().items():
            assert part.value in part
            inside[name].append(getattr(PAPER, name) in part)
    assert all(np.mean(held) >= 0.8 for held in inside.values()), inside


def test_the_lack_of_fit_is_that_of_the_settings_and_not_of_the_noise():
    found = [[], []]
    rng = np.random.default_rng(0)
    for seed in range(12):
        runs = observed(PAPER, seeds=6, run_sd=0.1, seed=seed)
        off = np.exp(0.3 * rng.standard_normal(len(SETTINGS)))[np.tile(range(6), 6)]
        odd = Observations(
            **{name: getattr(runs, name) for name in ("cohort", "steps", "loss_rate")},
            rounds=runs.rounds * off,
            censored=runs.censored,
            seed=runs.seed,
        )
        for which, some in zip(found, (runs, odd), strict=True):
            which.append(fit_law(some, "paper").lack_of_fit_sd ** 2)
    assert np.sqrt(np.mean(found[0])) < 0.08
    assert np.sqrt(np.mean(found[1])) == pytest.approx(0.3, rel=0.5)


def test_fits_that_are_refused():
    with pytest.raises(BadInput, match="not all runs of two seeds yet"):
        fit_law(observed(PAPER, seeds=1))
    with pytest.raises(BadInput, match="there are no runs yet"):
        fit_law(observed(PAPER)[np.zeros(60, bool)])
    runs = observed(PAPER, cap=1.0)
    with pytest.raises(NotReached, match="no run reached the loss: take a higher target"):
        fit_law(runs)
    two = observed(PAPER)
    two = two[two.steps == 20]
    with pytest.raises(BadInput, match="runs of 2 settings, and 3 coefficients to tell apart"):
        fit_law(two)


@pytest.mark.parametrize("term", TERMS)
def test_each_coefficient_is_of_the_term_that_its_name_says(term):
    """One coefficient at a time, against the law as the pages write it."""
    law = GivenLaw(**dict.fromkeys(TERMS, 0.0) | {term: 7.0})
    k, e = 4, 10
    written = {
        "mixing": 7 / k,
        "drift": 7 * e,
        "start": 7 / e,
        "dropped": 7 / (k * e),
        "floor": 7.0,
    }
    assert float(law.rounds(k, e)) == pytest.approx(written[term])
