"""The law of rounds from runs: known coefficients come back, cut runs and luck included."""

from dataclasses import replace

import numpy as np
import pytest

from fedcell.errors import BadInput, NotReached
from fedcell.planning.law.fit import fit_form, fit_law
from fedcell.planning.law.given import GivenLaw, features
from fedcell.planning.law.observations import Observations
from fedcell.planning.pilot.trial import Trial, observe, settled
from fedcell.planning.setting import Setting
from fedcell.scenario.target import Target
from support.laws import FLOOR, PAPER, SETTINGS, observed

LOOSE = [(k, e) for k in (2, 5, 12, 30) for e in (4, 12, 40, 100)]


def at(law, k, e, gamma=0.1, **more):
    return [float(x) for x in law.predict(np.array(k), np.array(e), gamma, **more)]


@pytest.mark.parametrize("kind", ["independent", "worst-case"])
@pytest.mark.parametrize("law", [PAPER, FLOOR])
def test_known_coefficients_come_back_exactly_without_noise(law, kind):
    found = fit_law(observed(law, kind=kind))
    assert found.coefficients == pytest.approx(law.coefficients, abs=1e-3, rel=1e-4)
    assert found.kind == kind
    assert fit_form(observed(PAPER), "paper").coefficients == pytest.approx(
        PAPER.coefficients, abs=1e-3
    )


@pytest.mark.parametrize("seed", range(6))  # fixed seeds: the check is statistical
def test_rounds_come_back_from_noise_and_cut_runs(seed):
    runs = observed(PAPER, seeds=12, seed_sd=0.15, run_sd=0.1, cap=70, seed=seed)
    assert 8 <= runs.censored.sum() <= 40
    found = fit_law(runs)
    for k, e in ((5, 10), (10, 20), (20, 40), (30, 7)):
        assert at(found, k, e)[0] == pytest.approx(PAPER.rounds(k, e, 0.1), rel=0.25)


def test_runs_that_were_cut_are_not_taken_for_what_they_were_cut_at():
    runs = observed(PAPER, seeds=12, run_sd=0.1, cap=60)
    naive = Observations(
        **{name: getattr(runs, name) for name in ("cohort", "steps", "loss_rate", "rounds")},
        censored=np.zeros(runs.rounds.size, bool),
        seed=runs.seed,
    )
    true = PAPER.rounds(3, 5, 0.1)
    with_them, without = (at(fit_law(r), 3, 5)[0] for r in (runs, naive))
    assert without < 0.9 * true
    assert with_them > 1.05 * without


def test_settings_depart_from_a_law_as_those_beside_them_do():
    """A bump that no law has is seen where it was run, half as well beside, and not far away."""
    rng = np.random.default_rng(0)
    runs = sampled(lambda k, e: FLOOR.rounds(k, e) * np.where((k == 12) & (e == 12), 1.4, 1.0), rng)
    law = fit_law(runs)
    assert at(law, 12, 12, 0.0)[0] == pytest.approx(1.4 * FLOOR.rounds(12, 12), rel=0.12)
    assert at(law, 2, 100, 0.0)[0] == pytest.approx(FLOOR.rounds(2, 100), rel=0.12)


def sampled(rounds, rng, seeds=6, sd=0.05, settings=LOOSE, seed_sd=0.0):
    k, e = (np.repeat(column, seeds) for column in np.array(settings).T)
    luck = np.tile(seed_sd * rng.standard_normal(seeds), len(settings))
    drawn = rounds(k, e) * np.exp(luck + sd * rng.standard_normal(k.size))
    return Observations(
        cohort=k,
        steps=e,
        loss_rate=np.zeros(k.size),
        rounds=drawn,
        censored=np.zeros(k.size, bool),
        seed=np.tile(np.arange(seeds), len(settings)),
    )


def test_intervals_widen_away_from_the_measured_settings():
    law = fit_law(observed(FLOOR, seeds=6, seed_sd=0.1, run_sd=0.1))
    low, high = at(law, 10, 20)[1:]
    far = at(law, 1, 500)[1:]
    assert far[1] / far[0] > 1.15 * high / low
    one, many = at(law, 10, 20), at(law, 10, 20, runs=100)
    assert many[2] / many[1] < one[2] / one[1]
    narrow = at(law, 10, 20, level=0.5)
    assert narrow[2] / narrow[1] < one[2] / one[1]


@pytest.mark.parametrize("cut", [np.inf, 1.05])
def test_intervals_hold_as_often_as_they_say(cut):
    """On laws with bumps that the fit does not know of: nine in ten of the means and of the runs,
    at settings that were not run; also where half of the settings have runs that were cut."""
    inside, of_runs, cuts = [], [], 0
    for world in range(40):
        rng = np.random.default_rng(world)
        true = GivenLaw(
            mixing=float(rng.uniform(10, 200)),
            drift=float(rng.uniform(0, 0.2)),
            start=float(rng.uniform(20, 400)),
            floor=float(rng.uniform(2, 30)),
        )
        bumps = rng.normal(0, 0.1, (3, 1)), rng.uniform(0, 4, (3, 2))

        def rounds(k, e, true=true, bumps=bumps):
            height, centre = bumps
            away = (np.log(k) - centre[:, :1]) ** 2 + (np.log(e) - centre[:, 1:]) ** 2
            return true.rounds(k, e) * np.exp((height * np.exp(-away / 2)).sum(0))

        runs = sampled(rounds, rng, seeds=3, sd=0.1, seed_sd=0.08)
        most = np.where(runs.settings % 2, cut * rounds(runs.cohort, runs.steps), np.inf)
        censored = runs.rounds > most
        cuts += int(censored.sum())
        law = fit_law(replace(runs, rounds=np.minimum(runs.rounds, most), censored=censored))
        k, e = np.array([3, 8, 20]), np.array([25, 7, 60])
        _, low, high = law.predict(k, e, 0.0, runs=5)
        luck = 0.08 * rng.standard_normal(5) + 0.1 * rng.standard_normal((3, 5))
        drawn = rounds(k, e)[:, None] * np.exp(luck)
        inside += ((low <= drawn.mean(1)) & (drawn.mean(1) <= high)).tolist()
        _, low, high = law.predict(k, e, 0.0)
        of_runs += ((low[:, None] <= drawn) & (drawn <= high[:, None])).ravel().tolist()
    assert (cuts > 40) == np.isfinite(cut)
    assert 0.82 <= np.mean(inside) <= 0.99
    assert 0.85 <= np.mean(of_runs) <= 0.98


def test_runs_that_were_cut_do_not_make_runs_look_alike():
    """Those whose rounds are only guessed at say little of how much rounds differ."""
    found = []
    for world in range(20):
        rng = np.random.default_rng(world)
        runs = sampled(lambda k, e: FLOOR.rounds(k, e), rng, seeds=4, sd=0.2)
        most = 0.8 * FLOOR.rounds(runs.cohort, runs.steps)
        most = np.where(runs.settings % 2, most, np.inf)
        cut = replace(runs, rounds=np.minimum(runs.rounds, most), censored=runs.rounds > most)
        found.append(fit_law(cut).residuals.scales.single)
    assert 0.16 < np.mean(found) < 0.24


@pytest.mark.parametrize("form", ["floor", "paper"])
def test_a_law_is_of_mean_rounds_however_much_they_differ(form):
    true = {"floor": FLOOR, "paper": PAPER}[form]
    off = []
    for world in range(20):
        rng = np.random.default_rng(world)
        runs = sampled(lambda k, e: true.rounds(k, e), rng, seeds=12, sd=0.3)
        k, e = np.array([4, 16]), np.array([10, 40])
        off.append(fit_form(runs, form).rounds(k, e) / true.rounds(k, e) * np.exp(-(0.3**2) / 2))
    assert np.mean(off) == pytest.approx(1, abs=0.02)


def curve(level, rounds, noise, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(1, rounds + 1)
    return (level + 2 * np.exp(-t / 8) + noise * rng.standard_normal(rounds)).tolist()


def test_a_law_says_never():
    """Few clients whose loss swings about 1.14 do not get to 0.7, however often it dips there."""
    target = Target(loss=0.7, hold=5)
    runs = [
        Trial(
            setting=Setting(k, e, 0.0),
            seed=seed,
            losses=tuple(losses),
            target=target,
            wall_seconds=1.0,
        )
        for seed in range(3)
        for k, e, losses in (
            (1, 22, curve(1.14, 280, 0.2, seed)),
            (8, 22, curve(0.4, 40 + seed, 0.02, seed)),
            (8, 60, curve(0.5, 30 + seed, 0.02, seed)),
            (20, 22, curve(0.3, 25 + seed, 0.02, seed)),
            (20, 5, curve(0.6, 60 + seed, 0.02, seed)),
        )
    ]
    assert settled(runs, target) == (Setting(1, 22, 0.0),)
    assert min(min(r.losses) for r in runs if r.setting.cohort == 1) < 0.7  # in single rounds
    law = replace(fit_law(observe(runs, target, "independent")), never=settled(runs, target))
    assert at(law, 1, 22, 0.0)[0] == np.inf
    assert at(law, 1, 40, 0.0)[0] == np.inf  # more steps are no steadier
    assert np.isfinite(at(law, 1, 10, 0.0)[0])
    assert np.isfinite(at(law, 2, 22, 0.0)[0])
    assert "never reaches the target" in law.notes[0]


def test_fitting_without_usable_runs_is_refused():
    nothing = observed(PAPER, seeds=1)[np.zeros(len(SETTINGS), bool)]
    with pytest.raises(BadInput, match="no runs yet"):
        fit_law(nothing)
    with pytest.raises(NotReached, match="no run reached the target"):
        fit_law(observed(PAPER, cap=1))


def test_features_are_the_terms():
    assert features(np.array([4]), np.array([5]), 0.0, "independent")[0] == pytest.approx(
        [1 / 4, 5, 1 / 5, 1 / 20, 1]
    )


def test_no_run_is_shorter_than_its_target_holds():
    law = replace(fit_law(observed(FLOOR, run_sd=0.3)), least=30)
    mean, low, high = law.predict(np.array([3, 40]), np.array([5, 80]), 0.1)
    assert low.min() == 30
    assert (low <= mean).all()
    assert (mean <= high).all()
