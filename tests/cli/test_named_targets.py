"""--target METRIC=NUMBER says what --target-loss and --target-accuracy say."""

import json

import pytest

SMALL = {
    "clients": {"count": 6},
    "plan": {"cohort": 3, "local_steps": 4, "rounds": 6},
    "learning": {"model": "logistic", "evaluate_samples": 100},
}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.json").write_text(json.dumps(SMALL))
    return "small.json"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("loss=1.5", ["--target-loss", "1.5"]),
        ("accuracy=0.5", ["--target-accuracy", "0.5"]),
        ("none", ["--target-loss", "none"]),
    ],
)
def test_a_named_target_is_that_of_its_own_option(fedcell, file, named, said):
    words = ["run", file, "--policy", "even", "--json"]
    first = json.loads(fedcell(*words, "--target", named, "--out", "a").out)
    second = json.loads(fedcell(*words, *said, "--out", "b").out)
    assert first == second
    assert (first["target"] is None) == (named == "none")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--target", "mae=0.2"], "mae is not measured: name one of loss, test_loss, accuracy"),
        (["--target", "0.2"], "expected METRIC=NUMBER"),
        (["--target", "loss=much"], "expected a number"),
        (["--target", "a b=1"], "expected a name"),
        (["--target", "loss=1", "--target-loss", "1"], "give one of them"),
    ],
)
def test_named_targets_that_are_refused(fedcell, file, words, sentence):
    said = fedcell("run", file, "--policy", "even", *words)
    assert said.code == 2
    assert sentence in said.err
    assert said.err.count("\n") == 1
