"""Pages as people read them: every block of output is what its command prints, every piece of
Python runs and prints what it says."""

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{file.name}" for file in ROOT.glob("docs/*.md"))]
PILOT = ROOT / "benchmarks" / "results" / "planning" / "pilot-digits.json"
TRAINS = (
    "run",
    "constants",
)  # another processor rounds differently, and training goes on from that
NUMBER = r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?"


@dataclass
class Block:
    """A command on a page, and what the page shows of its answer."""

    words: list[str]
    shown: list[str] = field(default_factory=list)


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def commands(page: str) -> list[Block]:
    """The `$ fedcell` lines of a page in order, each with the indented lines that follow."""
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
    """A folder with what the pages take for granted: a clone's docs, and the committed pilot."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PILOT, tmp_path / "pilot-digits.json")
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "round.json", tmp_path / "docs")
    return tmp_path


def same(shown: str, said: str) -> bool:
    return shown == said


def alike(shown: str, said: str) -> bool:
    """The same words, and numbers that agree to a tenth."""
    words = [re.sub(r"[\s─]+", " ", re.sub(NUMBER, "#", line)) for line in (shown, said)]
    numbers = [[float(n) for n in re.findall(NUMBER, line)] for line in (shown, said)]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], rel=0.1)


def missing(shown: list[str], said: list[str], agree: Callable[[str, str], bool]) -> list[str]:
    """The shown lines that are not among those said, in order."""
    rest = iter(said)
    return [line for line in shown if not any(agree(line, other) for other in rest)]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_a_page_shows_what_its_commands_print(page, fedcell, folder):
    for block in commands(page):
        words = block.words
        if ">" in words:
            words, target = words[: words.index(">")], words[words.index(">") + 1]
            (folder / target).write_text(fedcell(*words).out)
            continue
        if not block.shown:  # it stands there to be typed
            assert fedcell(words[0], "--help").code == 0, words
            continue
        answer = fedcell(*words)
        said = [line.strip() for line in (answer.out + answer.err).splitlines()]
        agree = alike if words[0] in TRAINS else same
        assert missing(block.shown, said, agree) == [], f"{page}: fedcell {shlex.join(words)}"


def test_pages_show_output_of_many_commands():
    shown = [block.words[0] for page in PAGES for block in commands(page) if block.shown]
    assert shown.count("plan") >= 3
    assert {"pilot", "plan", "run", "schedule", "constants"} <= set(shown)


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
def test_python_on_a_page_runs_and_prints_what_it_says(page, capsys):
    names: dict[str, object] = {}
    for block in python_blocks(page):
        exec(block, names)
        said = [line for line in capsys.readouterr().out.splitlines() if line]
        assert said == re.findall(r"^# > (.*)$", block, re.MULTILINE)


def test_the_round_on_the_pages_is_the_file():
    (shown,) = re.findall(r"```json\n(.*?)```", text_of("docs/files.md"), re.DOTALL)
    assert (ROOT / "docs" / "round.json").read_text() == shown


def test_the_reference_of_scenarios_is_what_the_command_prints(fedcell):
    assert text_of("docs/scenario.md").endswith(fedcell("scenario", "--reference").out)


@pytest.mark.parametrize("page", [*PAGES, *(file.name for file in ROOT.glob("*.md"))])
def test_links_between_pages_lead_somewhere(page):
    for target, place in re.findall(r"\]\(([^)#:]+)(#[^)]*)?\)", text_of(page)):
        file = (ROOT / page).parent / target
        assert file.exists(), f"{page} links to {target}"
        if place:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert place[1:] in anchors, f"{page} links to {target}{place}"
