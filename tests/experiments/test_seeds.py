"""One scenario on several seeds: means and intervals against the runs that they are of."""

import json
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fedcell import Compute, Observer, Scenario, load_run, load_scenario, run, run_seeds
from fedcell.core.files.formats import as_json
from fedcell.errors import BadFile, BadInput
from fedcell.experiments.seeds import load_seeds
from fedcell.policies import Optimal
from support.printed import is_plus_minus, tables
from support.signalled import CHECKPOINT, signalled

WORLD = {
    "clients": {"count": 6},
    "plan": {"cohort": 2, "local_steps": 2, "rounds": 25},
    "learning": {"model": "quadratic-apart", "target": 0.8},
}
SCENARIO = Scenario().using(**WORLD)
MAIN = "from fedcell.cli.main import main; main()"


def held(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def result():
    return run_seeds(SCENARIO, ["even", "optimal"], seeds=6)


def test_each_seed_is_the_run_that_it_would_be_alone(result):
    assert list(result.runs) == [0, 1, 2, 3, 4, 5]
    alone = run(SCENARIO, ["even", "optimal"], seed=3)
    assert as_json(result.runs[3].to_dict()) == as_json(alone.to_dict())
    assert result.complete


def test_means_have_student_s_interval(result):
    for policy, estimate in zip(("even", "optimal"), result.estimates(), strict=True):
        assert estimate.policy == policy
        for measure, found in (("duration", estimate.duration), ("energy", estimate.energy)):
            values = []
            for each in result.runs.values():
                (taken,) = [o for o in each.outcome.policies if o.policy == policy]
                values.append(getattr(taken.to_target or taken.total, measure))
            low, high = stats.t.interval(0.95, 5, np.mean(values), stats.sem(values))
            assert (found.value, found.low, found.high) == pytest.approx(
                (np.mean(values), low, high)
            )


def test_seeds_that_missed_the_target_count_with_all_that_they_took():
    found = run_seeds(SCENARIO, ["even"], seeds=6, rounds=7)
    rounds = [each.ledgers["even"].rounds_to(0.8) for each in found.runs.values()]
    assert 0 < rounds.count(None) < 6
    (estimate,) = found.estimates()
    assert found.reached == estimate.rounds.reached == 6 - rounds.count(None)
    restricted = [7 if r is None else r for r in rounds]
    assert estimate.rounds.mean.value == pytest.approx(np.mean(restricted))
    spent = [
        each.ledgers["even"].total_energy[r - 1]
        for each, r in zip(found.runs.values(), restricted, strict=True)
    ]
    assert estimate.energy.value == pytest.approx(np.mean(spent))
    words = " ".join(found.summary().split())
    missed = rounds.count(None)
    assert f"was not reached in 7 rounds by {missed} of 6 seeds: counted as what they" in words


def test_without_a_target_all_rounds_are_counted():
    found = run_seeds(SCENARIO.using(learning={"target": None}), ["even"], seeds=2, rounds=4)
    (estimate,) = found.estimates()
    assert (estimate.rounds.mean.value, estimate.rounds.reached) == (4, 2)
    assert "In all, means with 95 % intervals" in found.summary()


def test_rows_are_those_of_the_runs(result):
    rows = result.rows()
    assert [(row["seed"], row["policy"]) for row in rows][:3] == [
        (0, "even"),
        (0, "optimal"),
        (1, "even"),
    ]
    ledger = result.runs[1].ledgers["even"]
    assert rows[2]["energy"] == pytest.approx(ledger.energy.sum())
    assert rows[2]["duration_to_target"] == ledger.seconds_to(0.8)
    json.dumps(result.to_dict())


def test_runs_have_their_folders_and_are_not_made_again(tmp_path):
    folder, trained = tmp_path / "o", []
    first = run_seeds(SCENARIO, ["even"], seeds=2, folder=folder)
    before = held(folder)
    assert {Path(name).parts[0] for name in before} == {"seed0", "seed1", "summary.json"}

    @contextmanager
    def watch(seed):
        yield Observer(round=lambda report: trained.append((seed, report.round)))

    again = run_seeds(SCENARIO, ["even"], seeds=3, folder=folder, resume=True, observer=watch)
    assert {seed for seed, _ in trained} == {2}
    after = held(folder)
    assert {name: after[name] for name in before if name != "summary.json"} == {
        name: content for name, content in before.items() if name != "summary.json"
    }
    assert as_json(again.runs[1].to_dict()) == as_json(first.runs[1].to_dict())
    assert as_json(load_seeds(folder).to_dict()) == (folder / "summary.json").read_text()
    assert as_json(load_run(folder / "seed2").to_dict()) == as_json(again.runs[2].to_dict())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning": {"rate": 0.02}}, "learning.rate"),
        ({"clients": {"power": 1e-9}}, "clients.power"),
        ({"learning": {"target": 0.7}}, "target.loss"),
        ({"plan": {"rounds": 20}}, "rounds"),
    ],
)
def test_seeds_of_different_scenarios_are_not_averaged(tmp_path, fedcell, changes, named):
    run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / "o")
    assert load_seeds(tmp_path / "o").reached
    run(SCENARIO.using(**changes), ["even"], seed=2, folder=tmp_path / "o" / "seed2")
    said = fedcell("figure", tmp_path / "o")
    assert said.code == 2
    assert f"{tmp_path}/o/seed2: is not the same run on another seed as seed0 ({named}" in said.err


def test_seeds_of_another_scenario_are_not_added_to_a_folder(tmp_path):
    run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / "o")
    before = held(tmp_path / "o")
    other = SCENARIO.using(learning={"rate": 0.02})
    with pytest.raises(BadFile, match=r"o: holds seed 0 of another run \(learning.rate\): choose"):
        run_seeds(other, ["even"], seeds=[2, 3], folder=tmp_path / "o")
    assert held(tmp_path / "o") == before
    run_seeds(SCENARIO, ["even"], seeds=[2, 3], folder=tmp_path / "o")
    assert list(load_seeds(tmp_path / "o").runs) == [0, 1, 2, 3]


def test_a_seed_is_not_counted_twice_under_another_name(tmp_path):
    run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / "o")
    shutil.copytree(tmp_path / "o" / "seed0", tmp_path / "o" / "seed7")
    with pytest.raises(BadFile, match="seed7: holds the run of seed 0: give it the name seed0"):
        load_seeds(tmp_path / "o")


def test_processes_make_the_same_runs(tmp_path):
    world = load_scenario("digits")
    options = {"seeds": 2, "rounds": 3, "target": 1e-9}
    here = run_seeds(world, ["even"], folder=tmp_path / "here", **options)
    there = run_seeds(
        world, ["even"], folder=tmp_path / "there", **options, compute=Compute(workers=2)
    )
    assert held(tmp_path / "here") == held(tmp_path / "there")
    assert as_json(here.to_dict()) == as_json(there.to_dict())
    with pytest.raises(BadInput, match="`seed` = -1: expected a whole number"):
        run_seeds(world, ["even"], seeds=[0, -1], rounds=1, compute=Compute(workers=2))


def test_an_interrupt_keeps_what_is_done_and_the_rest_is_made_later(tmp_path):
    def interrupted(at_seed, at_round):
        @contextmanager
        def watch(seed):
            def stop(report):
                if (seed, report.round) == (at_seed, at_round):
                    raise KeyboardInterrupt

            yield Observer(round=stop)

        return watch

    folder, options = tmp_path / "o", {"seeds": 3, "rounds": 9, "target": 1e-9}
    cut = run_seeds(SCENARIO, ["even"], folder=folder, **options, observer=interrupted(1, 4))
    assert (cut.complete, list(cut.runs), len(cut.finished)) == (False, [0, 1], 1)
    assert cut.estimates()[0].rounds.runs == 1  # what was cut says nothing of what it takes
    whole = run_seeds(SCENARIO, ["even"], folder=folder, resume=True, **options)
    assert whole.complete
    straight = run_seeds(SCENARIO, ["even"], folder=tmp_path / "straight", **options)
    assert held(folder) == held(tmp_path / "straight")
    assert as_json(whole.to_dict()) == as_json(straight.to_dict())


def test_an_interrupt_before_the_first_run_leaves_nothing(tmp_path):
    @contextmanager
    def watch(_):
        raise KeyboardInterrupt
        yield

    cut = run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / "o", observer=watch)
    assert (cut.complete, cut.runs, cut.estimates()) == (False, {}, [])
    assert cut.summary() == "no run was finished"
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seeds": 0}, "`seeds` = 0: expected a whole number above 0"),
        ({"seeds": []}, "`seeds`: give how many, or a list of different whole numbers"),
        ({"seeds": [1, 1]}, "`seeds`: give how many, or a list of different"),
        ({"seeds": 10**6}, "`seeds` = 1000000: 10000 at most"),
        ({"resume": True}, "`resume` needs the folder of the runs: give `folder`"),
        ({"rounds": 0}, "`rounds` = 0"),
        ({"compute": Compute(workers=0)}, "`workers` = 0"),
        ({"policies": ["evn"]}, "evn is not a policy"),
    ],
)
def test_calls_that_are_refused(wrong, message):
    with pytest.raises(BadInput, match=message):
        run_seeds(SCENARIO, **({"seeds": 2} | wrong))


def test_folders_that_are_refused_are_left_alone(tmp_path):
    (tmp_path / "file").write_text("keep")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("keep")
    run(SCENARIO, ["even"], rounds=2, folder=tmp_path / "one")
    run_seeds(SCENARIO, ["even"], seeds=1, rounds=2, folder=tmp_path / "there")
    before = held(tmp_path)
    for name, resume, message in [
        ("file", False, "is not a folder"),
        ("full", False, "holds other things than runs"),
        ("full", True, "holds other things than runs"),
        ("one", True, "holds the run of one seed"),
        ("there", False, "holds such runs already: give `resume` to go on"),
        ("none", True, "there are no runs to resume"),
    ]:
        with pytest.raises(BadInput, match=message):
            run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / name, resume=resume)
    assert held(tmp_path) == before
    with pytest.raises(BadInput, match=r"holds no runs: expected seed0, seed1"):
        load_seeds(tmp_path / "one")


# The command.


@pytest.fixture
def file(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps(WORLD))
    return tmp_path / "w.json"


def test_the_table_says_what_json_says(fedcell, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", file, "--seeds", 4, "--seed", 2, "--policy", "even", "--policy", "optimal"]
    told = fedcell(*words)
    assert (told.code, told.err) == (0, "")
    answer = json.loads(fedcell(*words, "--json", "--resume").out)
    assert answer["seeds"] == [2, 3, 4, 5]
    shown = tables(told.out)["To training loss 0.8 at the first passage, means with 95 % intervals"]
    for row, policy in zip(shown.rows(), answer["policies"], strict=True):
        assert row["policy"] == policy["policy"]
        assert is_plus_minus(row["rounds"], policy["rounds"])
        assert is_plus_minus(row["time [s]"], policy["duration"])
        assert is_plus_minus(row["energy [J]"], policy["energy"])
        assert is_plus_minus(row["cost [s]"], policy["cost"])
    assert max(map(len, told.out.splitlines())) <= 80
    home = tmp_path / "run-w-seeds"
    assert {f.name for f in home.iterdir()} == {
        *(f"seed{seed}" for seed in (2, 3, 4, 5)),
        "summary.json",
        "loss.png",
    }
    assert json.loads((home / "summary.json").read_text()) == answer
    assert fedcell("figure", home).code == 0
    assert (home / "loss.pdf").read_bytes().startswith(b"%PDF")
    said = fedcell("run", file, "--workers", 2)
    assert (said.code, "--workers: one run is made by --threads" in said.err) == (2, True)


def test_sigterm_ends_seeds_and_the_same_command_resumes(fedcell, file, tmp_path):
    folder = tmp_path / "o"
    words = ["run", file, "--seeds", 3, "--rounds", 3000, "--target-loss", 1e-9, "--policy", "even"]
    words += ["--out", folder]
    with signalled(*words, place=CHECKPOINT, calls=4, sent=signal.SIGTERM) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert err.endswith(
        f"interrupted; to resume, give the same command with --resume --out {folder}\n"
    )
    cut = load_run(folder / "seed0")
    assert cut.state.rounds == 4
    done = cut.state.rounds + 5
    words[5] = done
    assert fedcell(*words, "--resume").code == 0
    assert [load_run(folder / f"seed{s}").state.rounds for s in range(3)] == [done] * 3


def test_own_policies_come_along():
    found = run_seeds(SCENARIO, {"mine": Optimal()}, seeds=2, rounds=2)
    assert found.policies == ["mine"]


def test_a_seed_that_was_killed_before_it_began_is_begun(tmp_path):
    (tmp_path / "r" / "seed0").mkdir(parents=True)
    (tmp_path / "r" / "seed0" / ".lock").touch()
    result = run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / "r")
    assert result.complete
    (tmp_path / "mine" / "seed0").mkdir(parents=True)
    (tmp_path / "mine" / "seed0" / "letters.txt").write_text("not ours")
    with pytest.raises(BadInput, match="holds other things than runs"):
        run_seeds(SCENARIO, ["even"], seeds=2, folder=tmp_path / "mine")
