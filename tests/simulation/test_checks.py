"""Input that is refused: one sentence, and nothing left behind."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.runs import DIGITS, changed, held, strict_json, with_table, write


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["paper"], "the scenario has no [learning]"),
        (["nowhere"], "nowhere is no file and not a shipped scenario"),
        (["digits", "--target-loss", "0"], "--target-loss = 0.0: expected a finite number above"),
        (["digits", "--target-loss", "-1"], "--target-loss = -1.0: expected a finite number"),
        (["digits", "--target-loss", "nan"], "--target-loss = nan: expected a finite number"),
        (["digits", "--target-loss", "inf"], "--target-loss = inf: expected a finite number"),
        (["digits", "--target-loss", "1e-99"], "learning.target = 1e-99: expected a number above"),
        (["digits", "--target-loss", "low"], "--target-loss"),
        (["digits", "--policy", "even", "--policy", "even"], "--policy: give each once"),
        (["digits", "--policy", "evn"], "evn is not a policy: did you mean even?"),
        (["digits", "--policy", ""], " is not a policy: known: even"),
        (["digits", "--policy", "no.such:thing"], "no.such:thing cannot be loaded"),
        (["digits", "--rounds", "0"], "--rounds"),
        (["digits", "--rounds", "1.5"], "--rounds"),
        (["digits", "--seed", "-1"], "--seed"),
        (["digits", "--seed", str(2**64)], "expected a whole number from 0 to 2^64 - 1"),
        (["digits", "--threads", "0"], "--threads"),
        (["digits", "--resume"], "run-digits-seed0: there is no run to resume"),
    ],
)
def test_bad_options(fedcell, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    said = fedcell("run", *words)
    assert (said.code, said.out) == (2, "")
    assert message in " ".join(said.err.split())
    assert not list(tmp_path.iterdir())


SPLIT, NETS = "learning.partition", "learning.layers"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": "digit"}, "digit is not a dataset: did you mean digits?"),
        ({"dataset": "no.npz"}, "no.npz: cannot be read: No such file or directory"),
        ({"dataset": "bad.npz"}, "bad.npz: is not a sound .npz file of arrays"),
        ({"dataset": "\x00.npz"}, "holds a character that cannot be shown"),
        ({"dataset": ""}, "learning.dataset = '': expected text"),
        ({"dataset": ["digits"]}, "learning.dataset = ['digits']: expected text"),
        ({"model": "resnet"}, "learning.model = 'resnet': expected \"cnn-small\" or"),
        ({"model": "cnn-small", "layers": None}, "convolution 1 with kernel 5 is given 2 x 2"),
        ({"rate": -1}, "learning.rate = -1: expected a number above 0"),
        ({"rate": 0}, "learning.rate = 0: expected a number above 0"),
        ({"rate": float("nan")}, "learning.rate = nan: expected a number above 0"),
        ({"rate": "0.1"}, "learning.rate = '0.1': expected a number above 0"),
        ({"rates": 0.1}, "learning.rates is not a key; did you mean learning.rate?"),
        ({"rate_decay": float("inf")}, "learning.rate_decay = inf: expected a number from 0"),
        ({"momentum": 1}, "learning.momentum = 1: expected a number from 0 to below 1"),
        ({"target": 0}, "learning.target = 0: expected a number above 0"),
        ({"evaluate_every": 0}, "learning.evaluate_every = 0: expected a whole number"),
        ({"evaluate_samples": 1.5}, "learning.evaluate_samples = 1.5: expected a whole number"),
        ({"aggregation": "median"}, "learning.aggregation = 'median': expected \"unbiased\" or"),
        ({"partition": {"kind": "lumpy"}}, f'{SPLIT}.kind = "lumpy": known: iid, shards'),
        ({"partition": {"kind": "iid", "alpha": 0.1}}, f"{SPLIT}.alpha is for dirichlet and"),
        ({"partition": {"sigma": 1.0}}, f"{SPLIT}.sigma is for lognormal"),
        ({"partition": {"spread": 1}}, f"{SPLIT}.spread = 1: expected a number from 0 to below 1"),
        ({"partition": {"kind": "dirichlet", "sizes": "uniform"}}, f"{SPLIT}.sizes = "),
        ({"partition": {"kind": "shards", "num_shards_per_partition": 99}}, f"{SPLIT}.num_shards"),
        ({"partition": []}, f"{SPLIT} = []: expected a table"),
        ({"layers": []}, f"{NETS} = []: expected a table"),
        ({"layers": {"hidden": 32}}, f"{NETS}.hidden = 32: expected a list"),
        ({"layers": {"hidden": ["a"]}}, f"{NETS}.hidden = ['a']: expected a list"),
        ({"layers": {"hidden": [0]}}, f"{NETS}.hidden = [0]: expected a list"),
        ({"layers": {"convs": {}}}, f"{NETS}.convs = {{}}: expected a list of tables"),
        ({"layers": {"convs": [8]}}, f"{NETS}.convs[0] = 8: expected a table"),
        ({"layers": {"convs": [{}]}}, f"{NETS}.convs[0].channels is missing"),
        ({"layers": {"convs": [{"channels": -1}]}}, f"{NETS}.convs[0].channels = -1: expected"),
        ({"layers": {"convs": [{"channels": 2, "kernel": 8}]}}, "kernel 8 is given 8 x 8 pixels"),
        ({"quadratic": {"noise": -1}}, "learning.quadratic.noise = -1: expected a number"),
        ({"quadratic": {"curvature_min": 3}}, "learning.quadratic.curvature_min = 3 is above"),
    ],
)
@pytest.mark.parametrize("command", ["run", "partition"])
def test_a_bad_learning_table(fedcell, tmp_path, monkeypatch, command, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("bad.npz").write_text("no")
    write(Path("world.json"), changed(DIGITS, learning=changes))
    place = ["--out", "new/o"] if command == "run" else ["--figure", "o.png"]
    said = fedcell(command, "world.json", *place, "--json")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert set(held(tmp_path)) == {"world.json", "bad.npz"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients": {"count": 1502}}, "clients.count = 1502: expected 1 to 1501, as many as"),
        ({"plan": {"cohort": 51}}, "plan.cohort = 51 is more than the 50 clients there are"),
        ({"cell": {"gain_threshold": 1e9}}, "no client was ever called"),
        ({"clients": {"table": [{"samples": 5}] * 50}}, "clients.table has samples"),
        ({"clients": {"sizes": [1, 2]}}, "clients.sizes has 2 numbers for 50 clients"),
        ({"cell": {"gains": "no.npy"}}, "cell.gains: no.npy cannot be read: No such file"),
    ],
)
def test_a_scenario_that_cannot_be_run(fedcell, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    write(Path("world.json"), changed(DIGITS, **changes))
    said = fedcell("run", "world.json", "--out", "o")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert set(held(tmp_path)) == {"world.json"}


def test_more_rounds_than_gains(fedcell, tmp_path):
    file = write(tmp_path / "world.json", with_table(tmp_path))
    said = fedcell("run", file, "--rounds", 6, "--out", tmp_path / "o")
    assert said.code == 2
    assert "cell.gains holds 5 rounds and 6 are needed" in said.err
    assert not (tmp_path / "o").exists()


def test_data_that_cannot_be_had(fedcell, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDCELL_MIRROR", "http://127.0.0.1:9")
    said = fedcell("run", "mnist", "--data-dir", tmp_path / "data", "--out", tmp_path / "o")
    assert (said.code, said.out) == (2, "")
    assert "cannot be downloaded" in said.err
    assert str(tmp_path / "data") in said.err  # where to put it
    assert not held(tmp_path)


STRANGE = st.sampled_from(
    [
        *[None, True, 0, -1, 1, 3, 0.5, 1e-300, 1e59, 10**30, float("nan"), float("inf"), ""],
        *["x", "\x00.npz", "dirichlet", "mlp", "quadratic-apart", [], [1], [[]], [{}], {}],
    ]
)
KEYS = st.sampled_from(
    [
        *["dataset", "partition", "model", "layers", "quadratic", "rate", "momentum", "target"],
        *["partition.kind", "partition.sizes", "partition.spread", "partition.alpha"],
        *["partition.same_skew_as", "partition.seed", "layers.convs", "layers.hidden"],
        *["quadratic.dimension", "quadratic.distance", "aggregation", "evaluate_samples"],
    ]
)


@pytest.mark.long
@given(strange=st.dictionaries(KEYS, STRANGE, min_size=1, max_size=3))
@examples(150)
def test_strange_learning_never_ends_in_a_traceback(fedcell, tmp_path, strange):
    learning = json.loads(json.dumps(DIGITS["learning"]))
    for key, value in strange.items():
        *above, last = key.split(".")
        table = learning.setdefault(above[0], {}) if above else learning
        if isinstance(table, dict):
            table[last] = deepcopy(value)
    file = write(tmp_path / "world.json", DIGITS | {"learning": learning})
    said = fedcell("partition", file, "--json")
    assert said.code in (0, 2)
    if said.code == 0:
        assert strict_json(said.out)["samples"] == 1501
    else:
        assert said.out == ""
        assert all(line.startswith("fedcell: ") for line in said.err.splitlines())
