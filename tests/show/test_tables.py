"""Every table that a command prints against what the same command answers with --json."""

import io
import json
import math
import re
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from fedcell.show.tables.console import print_table
from support.piloted import PILOT, piloted_digits, piloted_file
from support.printed import four_digits, is_plus_minus, tables
from support.sealing import rewrite

ROOT = Path(__file__).parents[2]


@pytest.fixture
def both(fedcell, tmp_path, monkeypatch):
    """A command in words and in JSON: its tables, all of its text, and the answer."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PILOT, tmp_path / "pilot.json")

    def run(*words):
        told, answered = fedcell(*words), fedcell(*words, "--json")
        assert (told.code, answered.code) == (0, 0), told.err + answered.err
        assert too_wide(told.out) == []
        return tables(told.out), " ".join(told.out.split()), json.loads(answered.out)

    return run


def too_wide(text):
    """Lines of more than 80 letters; those that end in a path or a command are never broken."""
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if len(line) > 80 and not line.startswith(("written", "runs"))]


GREEK = "alpha|beta|gamma|epsilon|eps|lambda|kappa|sigma|mu|phi"
SYMBOLS = re.compile(rf"\(\d+[a-z]?\)|E_l|K_gamma|C_[un]|Theorem|Section|\b(?:{GREEK})\b")


def test_first_answers_have_no_equation_and_no_symbol(fedcell, tmp_path, monkeypatch, world):
    monkeypatch.chdir(tmp_path)
    words = [
        ("pilot", world, *FEW, "--out", "mine.json"),
        ("plan", world, "--pilot", "mine.json", "--sensitivity", "--out", "plan.json"),
        ("run", world, "--out", "a", "--rounds", "3"),
        ("run", "--plan", "plan.json", "--out", "b"),
    ]
    for command in words:
        told = fedcell(*command)
        assert told.code == 0, told.err
        assert SYMBOLS.findall(told.out) == [], told.out
        assert too_wide(told.out) == []
    detailed = fedcell("plan", world, "--pilot", "mine.json", "--details").out
    assert {"K_gamma", "E_l", "(12)", "Section"} <= set(SYMBOLS.findall(detailed))
    detailed = fedcell("pilot", world, *FEW, "--out", "mine.json", "--details").out
    assert {"K_gamma", "E_l"} <= set(SYMBOLS.findall(detailed))


@pytest.mark.parametrize("width", [80, 100])
def test_a_wide_table_continues_below(width):
    text = io.StringIO()
    columns = {"policy": ["even", "optimal"], "seeds": ["10", "20"]}
    columns |= {f"a long heading {i}": [str(10**i), "-"] for i in range(9)}
    out = Console(file=text, width=width)
    print_table(out, "How it went", columns, labels=2)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("policy    seeds") for line in lines) > 1  # they stay beside
    found = tables(text.getvalue())["How it went"]
    assert found.columns == columns


def test_the_cost_of_a_round(both):
    printed, text, answer = both("cost", "cnn", "--rounds", 40, "--seed", 3)
    means = printed["Cost of a round: upload, compute, staged (20), and joint (22)"]
    spent = printed["Spent in a round"]
    headings = {
        "C_u [s]": ("upload_cost", means),
        "C_n [s]": ("compute_cost", means),
        "C_u + C_n [s]": ("staged_cost", means),
        "(22) [s]": ("objective", means),
        "time [s]": ("duration", spent),
        "energy [J]": ("energy", spent),
    }
    assert means.columns["policy"] == [row["policy"] for row in answer["policies"]]
    for heading, (measure, table) in headings.items():
        for cell, row in zip(table.columns[heading], answer["policies"], strict=True):
            assert is_plus_minus(cell, row[measure]), (heading, cell, row[measure])
    changes = printed["Change against even, with common random numbers"]
    assert changes.columns["policy"] == [row["policy"] for row in answer["policies"][1:]]
    for heading, (measure, _) in list(headings.items())[2:]:
        for cell, row in zip(changes.columns[heading], answer["policies"][1:], strict=True):
            assert is_plus_minus(cell, row["difference"][measure]), heading
    assert f"{answer['called']:.4g} called, {answer['received']:.4g} received" in text
    assert f"{answer['excluded_by_channel']:.3g} with a weak channel" in text


HALL = """
radio = "wifi"
[device]
like = "rpi4"
count_energy = "sum"
carbon_intensity = 300.0
[cell]
noise = 4e-21
broadcast_time = 5.0
[clients]
table = [
    { name = "hall", device = "rpi4", rate_mbps = 20 },
    { name = "roof", device = "rpi5", rate_mbps = 10 },
]
[plan]
cohort = 2
"""


def test_a_round_of_devices_and_its_cost(both):
    Path("hall.toml").write_text(HALL)
    printed, text, answer = both("schedule", "hall.toml")
    table = printed["Round 1, seed 0, policy optimal"]
    assert "air [%]" in table.columns
    assert "band [%]" not in table.columns
    energy = [float(cell) for cell in table.columns["energy [J]"]]
    assert sum(energy) == pytest.approx(answer["energy"], rel=1e-3)
    assert min(answer["download_energy"]) > 0
    parts = re.search(r"of these joules: ([a-z0-9. ,]+),? *before it", text.replace(": b", " b"))
    joules = [float(part.split()[-1]) for part in parts[1].split(", ")]
    assert sum(joules) == pytest.approx(answer["energy"], rel=1e-3)
    _, text, _ = both("cost", "hall.toml", "--rounds", 3, "--policy", "even")
    assert "all joules of the clients are summed (device.count_energy)" in text
    plan = ("plan", "hall.toml", "--mixing", 50, "--drift", 0.1, "--start", 50)
    _, text, answer = both(*plan)
    parts = answer["energy_by_part"]
    assert sum(parts.values()) == pytest.approx(answer["energy"]["value"], rel=1e-9)
    assert f"of the joules: download {four_digits(parts['download'])}, training" in text


def test_a_scheduled_round(both):
    printed, text, answer = both("schedule", ROOT / "docs" / "round.json")
    table = printed["One round, policy optimal"]
    scales = {
        "band [%]": ("share", 100),
        "CPU [MHz]": ("freq", 1e-6),
        "train [s]": ("compute_time", 1),
        "upload [s]": ("upload_time", 1),
        "train [J]": ("compute_energy", 1),
        "upload [J]": ("upload_energy", 1),
    }
    for heading, (name, scale) in scales.items():
        assert table.columns[heading] == [four_digits(scale * x) for x in answer[name]], heading
    d = {name: four_digits(value) for name, value in answer.items() if isinstance(value, float)}
    assert f"the round takes {d['duration']} s and {d['energy']} J" in text
    assert f"joint (22) {d['objective']} s" in text
    assert f"{d['upload_cost']} s to upload + {d['compute_cost']} s to compute" in text


def test_a_plan(both, tmp_path):
    words = [
        "plan",
        piloted_file(tmp_path),
        "--pilot",
        "pilot.json",
        "--sensitivity",
        "--deadline",
        "60s",
    ]
    words.append("--details")
    printed, text, answer = both(*words)
    goal = piloted_digits().goal()
    assert goal is not None
    totals = printed[f"One run to training loss 0.2 {goal.definition}"]
    measures = ["rounds", "duration", "energy", "cost"]
    headings = ["rounds", "time [s]", "energy of all clients [J]", "cost [s]"]
    assert totals.columns[""] == headings
    for column, edge in (("expected", "value"), ("90 % low", "low"), ("high", "high")):
        assert totals.columns[column] == [four_digits(answer[m][edge]) for m in measures], column
    k, e = answer["cohort_interval"], answer["local_steps_interval"]
    assert k["low"] < k["high"] or e["low"] < e["high"]  # they are in doubt
    assert f"call {k['value']} clients a round and let each train for {e['value']} steps" in text
    assert (k["value"], e["value"]) == (answer["cohort"], answer["local_steps"])
    assert f"(90 % interval of the optimum: {span(k)} clients, {span(e)} steps)" in text
    policies = printed["Under each policy: who gets how much band, at which CPU speed"].rows()
    for shown, row in zip(policies, answer["policies"], strict=True):
        assert shown["policy"] == row["policy"]
        assert shown["time [s]"] == four_digits(row["duration"]["value"])
        assert shown["energy [J]"] == four_digits(row["energy"]["value"])
        assert shown["cost [s]"] == four_digits(row["cost"]["value"])
    units = printed["Unit costs at this K and E_l"].rows()
    for shown, row in zip(units, answer["unit_costs"], strict=True):
        assert shown["way"] == row["way"]
        assert shown["C_u,0 [s]"] == four_digits(row["costs"]["upload"])
        assert shown["C_n,0 [s]"] == four_digits(row["costs"]["compute"])
        assert float(shown["a round off by [%]"]) == pytest.approx(100 * row["error"], abs=0.051)
    moves = printed["How the plan moves"].rows()
    for shown, row in zip(moves, answer["sensitivity"], strict=True):
        assert shown["change"] == row["change"]
        assert (shown["clients"], shown["steps"]) == (str(row["cohort"]), str(row["local_steps"]))
        names = {"rounds": "rounds", "time [s]": "duration", "energy [J]": "energy"}
        names |= {"cost [s]": "cost", "cost if kept [s]": "kept_cost"}
        assert {h: shown[h] for h in names} == {h: four_digits(row[n]) for h, n in names.items()}
    paper = answer["paper"]
    more = paper["cost"] / answer["cost"]["value"] - 1
    sentence = f"say K = {paper['cohort']}, E_l = {paper['local_steps']}: cost "
    assert sentence + f"{four_digits(paper['cost'])} s, {100 * more:+.1f}%" in text


def span(row):
    return f"{row['low']}" if row["low"] == row["high"] else f"{row['low']} to {row['high']}"


def test_a_pilot(both, tmp_path):
    printed, text, answer = both(
        "pilot", piloted_file(tmp_path), "--out", "pilot.json", "--details"
    )
    settings = printed["Rounds to the target, by clients a round and steps of each"].rows()
    for shown, row in zip(settings, answer["settings_table"], strict=True):
        assert (shown["clients"], shown["steps"]) == (str(row["cohort"]), str(row["local_steps"]))
        assert shown["runs"] == str(row["runs"])
        cut = row["missed"] > 0  # then the mean is at least that, and says nothing of the fit
        assert shown["rounds"] == ">" * cut + four_digits(row["measured"])
        assert shown["fitted"] == four_digits(row["predicted"])
        off = round(100 * (row["predicted"] / row["measured"] - 1))
        assert shown["off [%]"] == "-" if cut else int(shown["off [%]"]) == off
    numbers = [four_digits(value) for value in answer["coefficients"].values()]
    law = "the law: G = {} / K_gamma + {} E_l + {} / E_l + {}".format(*numbers)
    assert law in text
    deviations = answer["deviations"]
    single = math.hypot(deviations["seed"], deviations["run"])
    assert f"runs of one setting differ by {single:.0%}" in text
    assert f"grow as eps^{answer['target_exponent']:.2f};" in text
    assert f"{answer['runs']} runs of {answer['settings']} settings" in text


FEW = ("--budget", "2s", "--steps", "1..16")
QUADRATIC = {
    "cell": {"loss_rate": 0.1},
    "clients": {"count": 12, "samples": 40, "spread": 0.5},
    "plan": {"cohort": 4, "local_steps": 4, "rounds": 300},
    "learning": {
        "model": "quadratic-apart",
        "quadratic": {"dimension": 5, "noise": 0.3, "distance": 0.5},
        "rate": 0.02,
        "target": 0.4,
    },
}


@pytest.fixture
def world(tmp_path):
    (tmp_path / "world.json").write_text(json.dumps(QUADRATIC))
    return "world.json"


def test_a_validation(both, fedcell, world):
    assert fedcell("pilot", world, *FEW, "--out", "mine.json").code == 0
    words = ["validate", world, "--pilot", "mine.json", "--budget", "1ms"]
    printed, text, answer = both(*words)
    table = printed["world.json: rounds at settings that the pilot has not seen"].rows()
    for shown, row in zip(table, answer["rows"], strict=True):
        assert (shown["clients"], shown["steps"]) == (str(row["cohort"]), str(row["local_steps"]))
        assert shown["measured"].lstrip(">") == four_digits(row["measured"])
        assert shown["measured"].startswith(">") == (row["missed"] > 0)
        assert shown["predicted"] == four_digits(row["predicted"])
        edges = f"{four_digits(row['low'])} to {four_digits(row['high'])}"
        assert shown["90 % of such means"] == edges
        assert row["inside"] == (row["low"] <= row["measured"] <= row["high"])
    for failure in answer["failures"]:
        assert f"note: {failure}" in text
    if answer["reached"]:
        assert f"median error {answer['median_error']:.1%}, 90th percentile" in text
        assert f"{answer['coverage']:.0%} of the means and {answer['run_coverage']:.0%}" in text


def test_a_run_and_its_files(fedcell, tmp_path, monkeypatch, world):
    monkeypatch.chdir(tmp_path)
    told = fedcell("run", world, "--out", "told")
    answer = json.loads(fedcell("run", world, "--out", "answered", "--json").out)
    table = tables(told.out)[
        "To training loss 0.4 at the first passage, with common random numbers"
    ].rows()
    for shown, row in zip(table, answer["policies"], strict=True):
        assert shown["policy"] == row["policy"]
        assert shown["rounds"] == str(row["to_target"]["rounds"])
        assert shown["time [s]"] == four_digits(row["to_target"]["duration"])
        assert shown["energy [J]"] == four_digits(row["to_target"]["energy"])
        assert shown["cost [s]"] == four_digits(row["to_target"]["cost"])
        assert shown["top client [J]"] == four_digits(row["energy_per_client"]["highest"])
    last = answer["policies"][0]
    assert (
        f"after {last['rounds']} rounds: training loss {four_digits(last['train_loss'])}"
        in told.out
    )
    names = ("ledger.csv", "clients.csv", "summary.json")
    for name in names:
        assert (tmp_path / "told" / name).read_bytes() == (
            tmp_path / "answered" / name
        ).read_bytes()
    written = json.loads((tmp_path / "told" / "summary.json").read_text())
    assert {name: written[name] for name in answer} == answer
    rows = csv_rows(tmp_path / "told" / "ledger.csv")
    own = [row for row in rows if row["policy"] == "optimal"]
    taken = next(row for row in answer["policies"] if row["policy"] == "optimal")
    assert float(own[-1]["total_duration"]) == taken["duration"]
    assert sum(float(row["duration"]) for row in own) == pytest.approx(taken["duration"])
    assert sum(float(row["energy"]) for row in own) == pytest.approx(taken["energy"])
    assert sum(float(row["cost"]) for row in own) == pytest.approx(taken["cost"])
    for row in own:
        staged = float(row["upload_cost"]) + float(row["compute_cost"])
        assert float(row["staged_cost"]) == pytest.approx(staged)
    clients = [r for r in csv_rows(tmp_path / "told" / "clients.csv") if r["policy"] == "optimal"]
    assert len(clients) == 12
    assert sum(float(r["energy"]) for r in clients) == pytest.approx(taken["energy"])
    highest = max(float(r["energy"]) for r in clients)
    assert highest == pytest.approx(taken["energy_per_client"]["highest"])
    assert sum(int(r["called"]) for r in clients) == sum(int(r["called"]) for r in own)


def csv_rows(path):
    lines = [line.split(",") for line in path.read_text().splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def test_a_plan_beside_its_run(fedcell, tmp_path, monkeypatch, world):
    monkeypatch.chdir(tmp_path)
    assert fedcell("pilot", world, *FEW, "--out", "mine.json").code == 0
    assert fedcell("plan", world, "--pilot", "mine.json", "--out", "plan.json").code == 0
    told = fedcell("run", "--plan", "plan.json", "--out", "told")
    answer = json.loads(fedcell("run", "--plan", "plan.json", "--out", "b", "--json").out)
    table = tables(told.out)["The plan's predictions against this run: taken / expected"].rows()
    headings = {"rounds": "rounds", "time [s]": "duration", "energy [J]": "energy"}
    headings["cost [s]"] = "cost"
    outside = 0
    for shown, row in zip(table, answer["plan"], strict=True):
        assert shown["policy"] == row["policy"]
        for heading, measure in headings.items():
            part = row[measure]
            cell = f"{four_digits(part['taken'])} / {four_digits(part['value'])}"
            assert shown[heading] == cell
            assert part["inside"] == (part["low"] <= part["taken"] <= part["high"])
            outside += not part["inside"]
    assert ("all of it within the 90 % intervals" in told.out) == (outside == 0)
    assert told.out.count("is outside") == outside


def test_measurements_outside_the_intervals_of_a_plan_are_reported(
    fedcell, tmp_path, monkeypatch, world
):
    """A plan whose intervals are as good as closed: nearly all lies outside, and is named."""
    monkeypatch.chdir(tmp_path)
    assert fedcell("pilot", world, *FEW, "--out", "mine.json").code == 0
    assert fedcell("plan", world, "--pilot", "mine.json", "--out", "plan.json").code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    for row in (plan, *plan["policies"]):
        for measure in ("rounds", "duration", "energy", "cost"):
            value = row[measure]["value"]
            row[measure] |= {"low": value * 0.999999, "high": value * 1.000001}
    rewrite(tmp_path / "plan.json", **plan)
    told = fedcell("run", "--plan", "plan.json", "--out", "told", "--rounds", 300)
    assert told.out.count("is outside") >= 15
    assert re.search(r"time \[s\] under even is outside [\d.e+]+ to [\d.e+]+", told.out)


def test_a_partition(both):
    _, text, answer = both("partition", "digits", "--seed", 2)
    d = answer
    assert f"{d['samples']} samples of digits over {d['clients']} clients, pathological" in text
    assert (
        f"each has {d['smallest']} to {d['largest']} samples, {four_digits(d['mean'])} on" in text
    )
    assert f"of {four_digits(d['classes_per_client'])} classes" in text
    assert f"{d['skew']:.2f}; dealt evenly it would be {d['skew_if_iid']:.2f} by chance" in text


def test_constants(both, world):
    words = ["constants", world, "--rounds", 12, "--every", 4, "--clients", 4]
    printed, text, answer = both(*words)
    table = printed["world.json: constants of Theorem 1 along a training"].rows()
    for shown, row in zip(table, answer["estimates"], strict=True):
        assert shown["constant"] == row["symbol"]
        edges = [shown[heading] for heading in ("value", "90 % low", "high")]
        assert edges == [four_digits(row[edge]) for edge in ("value", "low", "high")]
        assert shown["measured as"] == row["formula"]
    way = printed["Along the way"]
    assert way.columns["round"] == [str(t) for t in answer["rounds"]]
    assert way.columns["training loss"] == list(map(four_digits, answer["losses"]))
    assert way.columns["lambda"] == list(map(four_digits, answer["lambdas"]))
    assert way.columns["|grad f|^2 / (2 (f - f*))"] == list(map(four_digits, answer["pl_ratios"]))
    assert f"lambda: {four_digits(answer['lambda']['max'])} at most" in text
    assert f"constants: {answer['theorem_1']['corrected']:.3g} rounds to training loss 0.4" in text
    assert f"({answer['theorem_1']['printed']:.3g} as printed)" in text
    for doubt in answer["doubts"]:
        assert f"note: {doubt}" in text
