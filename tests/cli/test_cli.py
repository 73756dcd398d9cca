"""The command line, as a user and as a program meets it."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fedcell import Scenario, load_scenario
from fedcell.errors import BadInput
from fedcell.network import load_round, simulate_network
from fedcell.network.policies.names import NAMED
from fedcell.scenario.load import shipped
from support.examples import examples

CLIENT = {
    "samples": 400,
    "kappa": 4e-27,
    "power": 3e-7,
    "gain": 5e-14,
    "freq_min": 1e7,
    "freq_max": 2e9,
}
ROUND: dict[str, Any] = {
    "bandwidth": 20e6,
    "noise": 5e-20,
    "model_bits": 3e7,
    "cycles_per_sample": 5e5,
    "local_steps": 20,
    "energy_weight": 1.0,
    "clients": [CLIENT, CLIENT | {"samples": 600, "gain": 2e-14}, CLIENT | {"freq_max": 3e8}],
}


@pytest.fixture
def round_file(tmp_path: Path) -> Path:
    file = tmp_path / "round.json"
    file.write_text(json.dumps(ROUND))
    return file


@pytest.mark.parametrize("policy", NAMED)
def test_schedule_answers_in_json(fedcell, round_file, policy):
    said = fedcell("schedule", round_file, "--policy", policy, "--json")
    assert (said.code, said.err) == (0, "")
    answer = json.loads(said.out)
    a, f = np.array(answer["share"]), np.array(answer["freq"])
    r = np.log2(1 + 3e-7 * np.array([5e-14, 2e-14, 5e-14]) / 5e-20)
    c = 20 * 5e5 * np.array([400, 600, 400])
    assert_allclose(answer["upload_time"], 3e7 / (a * 20e6 * r))
    assert_allclose(answer["compute_time"], c / f)
    assert_allclose(answer["upload_energy"], 3e7 * 3e-7 / r)
    assert_allclose(answer["compute_energy"], 4e-27 * f**2 * c)
    up, train = np.array(answer["upload_time"]), np.array(answer["compute_time"])
    joules = sum(answer["upload_energy"]), np.mean(answer["compute_energy"])
    assert_allclose(answer["duration"], (up + train).max())
    assert_allclose(answer["energy"], joules[0] + 3 * joules[1])
    assert_allclose(answer["objective"], answer["duration"] + sum(joules))
    assert_allclose(answer["upload_cost"], up.max() + joules[0])
    assert_allclose(answer["compute_cost"], train.max() + joules[1])
    assert ("certificate" in answer) == (policy == "optimal")
    if policy == "optimal":
        assert abs(answer["certificate"]["gap"]) < 1e-9
        assert answer["certificate"].keys() == {"primal", "dual", "gap"}


def test_schedule_takes_toml_and_prints_a_table_with_units(fedcell, tmp_path):
    lines = [f"{key} = {value}" for key, value in ROUND.items() if key != "clients"]
    for client in ROUND["clients"]:
        lines += ["[[clients]]", *(f"{key} = {value}" for key, value in client.items())]
    file = tmp_path / "round.toml"
    file.write_text("\n".join(lines))
    said = fedcell("schedule", file)
    assert said.code == 0
    for words in (
        "band [%]",
        "CPU [MHz]",
        "train [s]",
        "upload [J]",
        "certificate",
        "l_0 x joules",
    ):
        assert words in said.out


def test_schedule_and_python_agree(fedcell, round_file):
    problem = load_round(round_file)
    answer = json.loads(fedcell("schedule", round_file, "--json").out)
    assert_allclose(NAMED["optimal"](None)(problem).share, answer["share"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth": 0}, "bandwidth = 0: expected a number above 0"),
        ({"noise": -1}, "noise = -1: expected a number above 0"),
        ({"noise": float("nan")}, "noise = nan: expected a number above 0"),
        ({"noise": float("inf")}, "noise = inf: expected a number above 0"),
        ({"local_steps": 1.5}, "local_steps = 1.5: expected a whole number"),
        ({"model_bits": "3e7"}, "model_bits = '3e7': expected a number above 0"),
        ({"clients": []}, "clients = []: expected at least one table"),
        ({"clients": 3}, "clients = 3: expected a list of tables"),
        ({"clients": [3]}, "clients[0] = 3: expected a table"),
        ({"clients": [CLIENT | {"gain": 0}]}, "clients[0].gain = 0: expected a gain above 0"),
        (
            {"clients": [CLIENT, CLIENT | {"freq_min": 3e9}]},
            "clients[1].freq_min = 3e+09 is above its freq_max = 2e+09",
        ),
        (
            {"clients": [{k: v for k, v in CLIENT.items() if k != "kappa"}]},
            "clients[0].kappa is missing: expected a number above 0",
        ),
        ({"energy_wieght": 1}, "energy_wieght is not a key; did you mean energy_weight?"),
        ({"bandwidth": 1e300}, "bandwidth = 1e+300: expected a number above 0 (1e-60 to 1e60)"),
        ({"bandwidth": 1e60, "model_bits": 1e-5}, "band_time has a client with"),
        ({"clients": [CLIENT | {"gain": -120.0}]}, "(linear, not dB)"),
        ({"model_bits": 10**400}, "model_bits: a whole number of 1329 bits is too large"),
        ({"model_bits": 10**200}, "model_bits = 1000"),
    ],
)
def test_a_bad_round_is_one_clear_sentence_and_exit_2(fedcell, tmp_path, change, message):
    file = tmp_path / "round.json"
    file.write_text(json.dumps(ROUND | change))
    said = fedcell("schedule", file, "--json")
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert str(file) in said.err
    assert len(said.err.splitlines()) == 1


def test_a_missing_key_of_the_round_itself(fedcell, tmp_path):
    file = tmp_path / "round.json"
    file.write_text(json.dumps({k: v for k, v in ROUND.items() if k not in ("noise", "clients")}))
    said = fedcell("schedule", file)
    assert said.code == 2
    assert "noise is missing: expected a number above 0" in said.err
    assert "clients is missing" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["schedule", "nowhere.json"], "nowhere.json: cannot be read: No such file"),
        (["cost", "nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["cost", "papr"], "papr is no file and not a shipped scenario: paper, cnn"),
        (["cost", "paper", "--policy", "best"], "best is not a policy: known: even, distributed"),
        (
            ["cost", "paper", "--policy", "evn"],
            "evn is not a policy: did you mean even? your own is",
        ),
        (
            ["cost", "paper", "--policy", "./my.py:x"],
            "give the name of a module, as in mine",
        ),
        (["cost", "paper", "--policy", "even", "--policy", "even"], "give each once"),
        (["cost", "paper", "--policy", "no.such:thing"], "no.such:thing cannot be loaded"),
        (["cost", "paper", "--policy", "math:nothing"], "math:nothing cannot be loaded"),
        (["cost", "paper", "--policy", "math:pi"], "math:pi cannot be called"),
        (["cost", "paper", "--rounds", "0"], "--rounds"),
        (["cost", "paper", "--rounds", "many"], "--rounds"),
        (["cost", "paper", "--seed", "-1"], "--seed"),
        (["cost", "paper", "--figure", "no/such/place.png"], "place.png: cannot be written"),
        (
            ["cost", "paper", "--rounds", "2", "--figure", "a.jpx"],
            "a.jpx: the name must end in one of: png, pdf, svg",
        ),
        (["cost", "paper", "--spread", "2", "--figure", "a.png"], "clients.spread = 2.0"),
        (["scenario", "other"], "other is not a shipped scenario: choose paper or cnn"),
        (["cost", "paper", "--figure", "."], "the name must end in"),
        (["cost", "paper", "--figure", "/dev/null.png/x.png"], "there is no folder"),
        (["cost", "paper", "--spread", "0.2"], "give --figure too"),
        (["cost", "paper", "--rounds", "99999999999"], "--rounds"),
        (["costs"], "No such command 'costs'; did you mean cost?"),
        (["plans"], "No such command 'plans'; did you mean plan?"),
        (["train"], "No such command 'train'; known: demo"),
    ],
)
def test_bad_options_are_one_clear_sentence_and_exit_2(
    fedcell, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    said = fedcell(*words)
    assert said.code == 2
    assert message in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_syntax_errors_name_the_line(fedcell, tmp_path):
    (tmp_path / "a.toml").write_text("[cell]\nbandwidth = = 3\n")
    (tmp_path / "a.json").write_text('{"cell":\n {"bandwidth" 3}}')
    assert "line 2" in fedcell("cost", tmp_path / "a.toml").err
    assert "line 2" in fedcell("cost", tmp_path / "a.json").err


def test_cost_compares_policies_on_common_random_numbers(fedcell):
    said = fedcell("cost", "paper", "--rounds", 40, "--seed", 3, "--json")
    answer = json.loads(said.out)
    assert [row["policy"] for row in answer["policies"]] == list(NAMED)
    for row in answer["policies"]:
        ledger = simulate_network(Scenario(), row["policy"], 40, seed=3)
        assert_allclose(row["objective"]["value"], ledger.objective.mean())
        assert row["objective"]["low"] < row["objective"]["value"] < row["objective"]["high"]
        assert row["against"] == "even"
    even, best = answer["policies"][0], answer["policies"][-1]
    difference = best["difference"]["objective"]
    assert_allclose(difference["value"], best["objective"]["value"] - even["objective"]["value"])
    width = lambda interval: interval["high"] - interval["low"]
    assert width(difference) < width(best["objective"])  # pairing pays


def test_cost_prints_a_table_for_people(fedcell):
    said = fedcell("cost", "cnn", "--rounds", 5)
    assert said.code == 0
    for words in ("C_u [s]", "energy [J]", "±", "optimal-staged", "passed over"):
        assert words in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_one_round_has_no_interval_and_says_null(fedcell):
    answer = json.loads(fedcell("cost", "paper", "--rounds", 1, "--json").out)
    assert answer["policies"][0]["upload_cost"]["low"] is None
    assert fedcell("cost", "paper", "--rounds", 1).code == 0


def test_cost_draws_the_figure(fedcell, tmp_path):
    file = tmp_path / "cost.png"
    words = ["--rounds", 3, "--policy", "even", "--policy", "optimal", "--spread", 0.1]
    said = fedcell("cost", "paper", *words, "--spread", 0.5, "--figure", file, "--json")
    assert said.code == 0
    assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert list(tmp_path.iterdir()) == [file]  # no temporary left
    rows = json.loads(said.out)["sweep"]
    assert {row["axis"] for row in rows} == {"cohort", "local_steps"}
    assert {row["spread"] for row in rows} == {0.1, 0.5}


POLICIES = """
import sys
import numpy as np
from fedcell.policies import Schedule

def fast(problem):
    k = problem.band_time.shape
    return Schedule(np.full(k, 1 / k[-1]), problem.freq_max)

class Greedy:
    def __call__(self, problem):
        return Schedule(np.ones(problem.kappa.shape), problem.freq_max)

class NeedsMore:
    def __init__(self, told): ...

class NeedsTwo:
    def __init__(self, told, more): ...

class Told:
    def __init__(self, told): self.broadcast = told
    def __call__(self, problem):
        f = self.broadcast.own_freq(problem.samples, problem.freq_min, problem.freq_max)
        return Schedule(np.full(f.shape, 1 / f.shape[-1]), f)

def raises(problem): return 1 / 0
def leaves(problem): sys.exit(4)
def none(problem): return None
def lists(problem):
    return Schedule([[0.05] * 10] * len(problem.kappa), problem.freq_max.tolist())
def cheats(problem): problem.band_time[...] = 1e-9
def imagines(problem): return Schedule(np.full(problem.kappa.shape, 0.01j), problem.freq_max)
"""


def test_own_policies_by_module_and_name(tmp_path):
    """In a process of its own, in the folder where the module lies."""
    (tmp_path / "mypolicies.py").write_text(POLICIES)
    (tmp_path / "broken.py").write_text("def x(:")

    def run(*names: str) -> subprocess.CompletedProcess[str]:
        words = [word for name in names for word in ("--policy", name)]
        command = "from fedcell.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-c", command, "cost", "paper", "--rounds", "3", "--json", *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )

    good = run(
        "even", "mypolicies:fast", "mypolicies:lists", "mypolicies:Told", "fedcell.policies:Even"
    )
    assert [row["policy"] for row in json.loads(good.stdout)["policies"]][1] == "mypolicies:fast"
    for name, message in [
        ("mypolicies:Greedy", "breaks (22b)"),
        ("mypolicies:NeedsMore", "cannot be called"),
        ("mypolicies:NeedsTwo", "cannot be loaded: TypeError"),
        ("mypolicies:raises", "failed: ZeroDivisionError"),
        ("mypolicies:leaves", "failed: SystemExit"),
        ("mypolicies:none", "answered with a NoneType: expected a Schedule"),
        ("mypolicies:cheats", "failed: ValueError: assignment destination is read-only"),
        ("mypolicies:imagines", "share holds complex numbers"),
        ("broken:x", "cannot be loaded: SyntaxError"),
    ]:
        said = run(name)
        assert (said.returncode, said.stdout) == (2, ""), name
        assert message in said.stderr
        assert len(said.stderr.splitlines()) == 1


def test_figures_replace_files_and_nothing_else(fedcell, tmp_path):
    words = ["cost", "paper", "--rounds", 2, "--policy", "even", "--figure"]
    keep = tmp_path / "precious"
    keep.write_text("keep")
    assert fedcell(*words, keep).code == 2
    assert keep.read_text() == "keep"
    (tmp_path / "folder.png").mkdir()
    said = fedcell(*words, tmp_path / "folder.png")
    assert said.code == 2
    assert "it is a folder or a device" in said.err
    (tmp_path / "link.png").symlink_to(tmp_path / "target.png")
    assert fedcell(*words, tmp_path / "link.png").code == 0
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "target.png").stat().st_size > 1000
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"precious", "folder.png", "link.png", "target.png"}
    assert fedcell(*words, tmp_path / "a.svg").code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")


def test_no_digit_is_clipped_in_a_narrow_terminal(fedcell, monkeypatch):
    wide = fedcell("cost", "cnn", "--rounds", 5).out
    monkeypatch.setenv("COLUMNS", "40")
    narrow = fedcell("cost", "cnn", "--rounds", 5).out
    assert "…" not in narrow
    assert all(number in narrow for number in re.findall(r"[\d.]+ ± [\d.]+", wide))


def test_a_long_round_is_cut_and_says_so(fedcell, tmp_path):
    file = tmp_path / "round.json"
    file.write_text(json.dumps(ROUND | {"clients": [CLIENT] * 150}))
    assert "and 50 clients more" in fedcell("schedule", file).out


def test_several_fleets(fedcell, tmp_path):
    said = fedcell("cost", "paper", "--rounds", 20, "--fleets", 4)
    assert "over the means of 4 fleets" in said.out
    (tmp_path / "mine.toml").write_text("[[clients.table]]\nsamples = 3\n[plan]\ncohort = 1")
    said = fedcell("cost", tmp_path / "mine.toml", "--fleets", 4)
    assert said.code == 2
    assert "one fleet where clients or gains are listed" in said.err


def test_round_and_scenario_files_are_distinguished(fedcell, tmp_path, round_file):
    assert "give it to `fedcell schedule`" in fedcell("cost", round_file).err
    (tmp_path / "world.toml").write_text(shipped("paper"))
    with pytest.raises(BadInput, match="give it to `load_scenario`"):
        load_round(tmp_path / "world.toml")
    assert "Round 1, seed 0, policy optimal" in fedcell("schedule", tmp_path / "world.toml").out


def test_drawn_after_training_says_whose_joules(fedcell, tmp_path):
    (tmp_path / "mine.toml").write_text('[plan]\ncohort_drawn = "after-training"')
    assert "all eligible clients train" in fedcell("cost", tmp_path / "mine.toml").out


def test_empty_rounds_are_reported_and_excluded_from_means(fedcell, tmp_path):
    (tmp_path / "mine.toml").write_text("[cell]\ngain_threshold = 5.0\n[clients]\nspread = 0.0")
    answer = json.loads(
        fedcell("cost", tmp_path / "mine.toml", "--rounds", 200, "--policy", "even", "--json").out
    )
    assert answer["empty_rounds"] > 50
    row = answer["policies"][0]
    assert row["compute_cost"]["value"] == pytest.approx(16.16, rel=1e-3)  # as in any joined round
    said = " ".join(fedcell("cost", tmp_path / "mine.toml").out.split())
    assert " none, which the means leave out" in said


def test_scenario_prints_a_file_to_start_from(fedcell, tmp_path):
    said = fedcell("scenario")
    assert tomllib.loads(said.out)["plan"]["cohort"] == 10
    file = tmp_path / "mine.toml"
    file.write_text(said.out)
    assert load_scenario(file) == load_scenario("paper")
    assert fedcell("scenario", "cnn").out == shipped("cnn")


def test_help_and_version_are_printed(fedcell):
    assert "schedule" in fedcell("--help").out
    assert "module:callable" in fedcell("cost", "--help").out
    assert fedcell("--version").out.strip().count(".") == 2


def test_a_real_process_exits_2_without_a_traceback():
    ran = subprocess.run(
        [sys.executable, "-c", "from fedcell.cli.main import main; main()", "cost", "nowhere.toml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("fedcell: nowhere.toml")
    assert "Traceback" not in ran.stderr


# Mutated files: whatever stands in them, a sentence and exit 2, or an answer. Never a traceback.

STRANGE = st.sampled_from(
    [
        *[None, True, 0, -1, 1, 3, 2.5, 1e-300, 1e300, -0.0, 10**30, float("nan"), float("inf")],
        *["", "x", "optimal", "../x", "\x00", [], [1], [1, 2], {}, {"a": 1}, [{}], [[]]],
    ]
)


@st.composite
def mutated(draw: st.DrawFn, content: dict) -> str:
    """A JSON text in which some values, keys or characters are not what they should be."""
    content = json.loads(json.dumps(content))
    for _ in range(draw(st.integers(1, 3))):
        table = content
        while isinstance(table, dict) and draw(st.booleans()):
            inner = [v for v in table.values() if isinstance(v, dict) and v] + [
                item
                for v in table.values()
                if isinstance(v, list)
                for item in v
                if isinstance(item, dict) and item
            ]
            if not inner:
                break
            table = draw(st.sampled_from(inner))
        if not table:
            continue
        key = draw(st.sampled_from(sorted(table)))
        change = draw(st.sampled_from(["value", "value", "value", "drop", "rename"]))
        if change == "value":
            table[key] = deepcopy(draw(STRANGE))
        elif change == "drop":
            del table[key]
        else:
            table[key + "x"] = table.pop(key)
    text = json.dumps(content)
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.text(max_size=3)) + text[at + draw(st.integers(0, 3)) :]
    return text


WORLD = tomllib.loads(shipped("paper"))


@pytest.mark.long
@given(text=mutated(ROUND), policy=st.sampled_from(list(NAMED)))
@examples(250)
def test_mutated_rounds_never_end_in_a_traceback(fedcell, tmp_path, text, policy):
    file = tmp_path / "round.json"
    file.write_text(text, "utf-8")
    said = fedcell("schedule", file, "--policy", policy, "--json")
    _answer_or_sentence(said)


@pytest.mark.long
@given(text=mutated(WORLD), policy=st.sampled_from(list(NAMED)))
@examples(250)
def test_mutated_scenarios_never_end_in_a_traceback(fedcell, tmp_path, text, policy):
    file = tmp_path / "world.json"
    file.write_text(text, "utf-8")
    said = fedcell("cost", file, "--policy", policy, "--rounds", 3, "--json")
    _answer_or_sentence(said)


@pytest.mark.long
@given(data=st.data())
@examples(150)
def test_mutated_toml_never_ends_in_a_traceback(fedcell, tmp_path, data):
    text = shipped("paper")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at] + data.draw(st.text(max_size=4)) + text[at + data.draw(st.integers(0, 4)) :]
        )
    file = tmp_path / "world.toml"
    file.write_text(text, "utf-8", newline="")
    said = fedcell("cost", file, "--policy", "optimal", "--rounds", 2, "--json")
    _answer_or_sentence(said)


@pytest.mark.long
@given(data=st.data())
@examples(150)
def test_mutated_tables_and_gains_never_end_in_a_traceback(fedcell, tmp_path, data):
    csv = "samples, kappa, power, distance, freq_min, freq_max\n" + "".join(
        f"{100 * i}, 5e-27, 4e-7, {50 * i}, 1e7, 2e9\n" for i in range(1, 4)
    )
    gains = "1e-13, 2e-13, 3e-13\n4e-13, 5e-13, 6e-13\n"
    texts = []
    for text in (csv, gains):
        at = data.draw(st.integers(0, len(text)))
        put = data.draw(
            st.sampled_from(["", ",", "\n", '"', "-", "nan", "1e999", "x", "\x00", "é"])
        )
        texts.append(text[:at] + put + text[at + data.draw(st.integers(0, 5)) :])
    (tmp_path / "fleet.csv").write_text(texts[0], "utf-8")
    (tmp_path / "h.csv").write_text(texts[1], "utf-8")
    (tmp_path / "mine.toml").write_text(
        "[clients]\ntable = 'fleet.csv'\n[cell]\ngains = 'h.csv'\n[plan]\ncohort = 2"
    )
    said = fedcell("cost", tmp_path / "mine.toml", "--policy", "optimal", "--json")
    _answer_or_sentence(said)


@pytest.mark.long
@given(data=st.data())
@examples(200)
def test_mutated_arrays_never_end_in_a_traceback(fedcell, tmp_path, data):
    np.save(tmp_path / "h.npy", np.full((2, 3), 1e-13))
    content = bytearray((tmp_path / "h.npy").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "h.npy").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    (tmp_path / "mine.toml").write_text(
        "[clients]\ncount = 3\n[cell]\ngains = 'h.npy'\n[plan]\ncohort = 2"
    )
    said = fedcell("cost", tmp_path / "mine.toml", "--policy", "optimal", "--json")
    _answer_or_sentence(said)


def _answer_or_sentence(said) -> None:
    if said.code == 0:
        json.loads(said.out)
    else:
        assert said.code == 2
        assert said.out == ""
        assert all(line.startswith("fedcell: ") for line in said.err.splitlines())


def test_a_demo_compiles_the_engine_before_the_time_of_its_pilot(fedcell, monkeypatch, tmp_path):
    """On a new machine compiling may take longer than the pilot has."""
    demo = importlib.import_module("fedcell.cli.commands.demo")
    steps = []
    monkeypatch.setattr(demo, "warm_up", lambda _: steps.append("compiled"))
    monkeypatch.setattr(demo, "pilot_command", lambda *_, **__: steps.append("pilot"))
    assert fedcell("demo", "--out", tmp_path / "demo").code == 2  # there is no file to plan from
    assert steps == ["compiled", "pilot"]


def test_help_names_no_types_and_every_value_by_a_word(fedcell):
    """A flag has nothing behind it; what an option takes is a word, or the choices there are."""
    top = fedcell("--help").out
    names = re.findall(r"^. (\w+) ", top.split("Commands")[1], re.MULTILINE)
    story = ["demo", "scenario", "partition", "pilot", "plan", "studio", "run", "runs", "export"]
    assert names[: len(story)] == story
    for name in names:
        text = fedcell(name, "--help").out
        options = text[text.index(" Options ") :]
        assert not re.search(r"<(bool|int|float|path|str|list)", options), (name, options)
        assert "BOOLEAN" not in options
    planned, measured = fedcell("plan", "--help").out, fedcell("constants", "--help").out
    assert re.search(r"--clients +N\.\.N ", planned)
    assert re.search(r"--clients +N ", measured)
    assert not re.search(r"--target-loss.*none", planned)  # a plan has something to reach
    assert re.search(r"--target-loss.*none", fedcell("run", "--help").out)
