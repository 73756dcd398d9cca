"""The repository as it is read: rooms, imports, the map of equations, code in the README."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from contextlib import suppress
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedcell"
FILES = [file for file in SOURCE.rglob("*.py") if file.stem != "__init__"]
README = (ROOT / "README.md").read_text()

# The rooms in the order in which they are read: a package imports only what stands before it.
ROOMS = ["core", "scenario", "network", "learning", "simulation", "planning", "show", "cli"]
NOT_YET = {  # uses against the order that are still there: (room, room that it uses)
    ("scenario", "learning"),
    ("scenario", "network"),
    ("scenario", "simulation"),
    ("core", "scenario"),
    ("learning", "network"),
    ("simulation", "show"),
}


def room(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts)


def uses(file: Path) -> set[str]:
    """The rooms that a module imports from."""
    names = {
        node.module
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0
    }
    return {name.split(".")[1] for name in names if name.startswith("fedcell.")}


def test_rooms_use_only_what_stands_before_them():
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} == set(ROOMS)
    for file in FILES:
        own = file.relative_to(SOURCE).parts[0]
        for used in uses(file) if own in ROOMS else ():
            if (own, used) not in NOT_YET:
                assert ROOMS.index(used) <= ROOMS.index(own), f"{room(file)} uses {used}"


def test_rooms_are_not_outgrown():
    lines = {room(file): len(file.read_text().splitlines()) for file in FILES}
    assert {name: n for name, n in lines.items() if n > 250} == {}
    assert (
        sum(
            lines[name]
            for name in ("network.round", "network.policies.base", "network.policies.optimal")
        )
        <= 500
    )  # fifteen minutes


def test_only_draw_rolls_dice():
    for file in FILES:
        if file.stem != "draw":
            assert "np.random" not in file.read_text(), file.name


def test_import_is_light():
    heavy = ["numba", "torch", "scipy", "matplotlib", "rich", "typer"]
    code = f"import sys, fedcell; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def equation_rows() -> list[tuple[int, str, str]]:
    rows = []
    for line in (ROOT / "docs" / "equations.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].isdigit():
            rows.append((int(cells[0]), cells[3], cells[4].strip("`")))
    return rows


def resolve(dotted: str) -> object:
    """What a dotted name stands for: a module, or something inside one."""
    parts = dotted.split(".")
    for depth in range(len(parts), 0, -1):
        with suppress(ModuleNotFoundError):
            found = importlib.import_module(".".join(parts[:depth]))
            return reduce(getattr, parts[depth:], found)
    raise AssertionError(f"{dotted} is not there")


def test_the_map_of_equations_has_all_91():
    assert [number for number, _, _ in equation_rows()] == list(range(1, 92))


@pytest.mark.parametrize(("code", "test"), [row[1:] for row in equation_rows()])
def test_the_map_of_equations_is_honest(code, test):
    if code == "proof step only":
        assert test == ""
    else:
        assert resolve(code.strip("`"))
        where, name = test.split("::")
        tree = ast.parse((ROOT / where).read_text())
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_numbered_lines_of_code_name_equations_that_exist():
    for file in FILES:
        for number in re.findall(r"# \((\d+)[a-e]?\)", file.read_text()):
            assert 1 <= int(number) <= 91, f"{file.name}: ({number})"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/planning.md"])
def test_python_on_the_pages_runs_and_prints_what_it_says(page, capsys):
    assert blocks(page, "python")
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(block, names)
        said = [line for line in capsys.readouterr().out.splitlines() if line]
        expected = re.findall(r"^# > (.*)$", block, re.MULTILINE)
        assert said == expected


def test_the_round_in_the_readme_is_what_the_command_prints(fedcell, monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = re.search(r"(    \$ fedcell schedule (\S+)\n.*?)\n\S", README, re.DOTALL)
    expected = [line.strip() for line in shown.group(1).splitlines()[1:] if line.strip()]
    said = [line.strip() for line in fedcell("schedule", shown.group(2)).out.splitlines()]
    assert [line for line in said if line][: len(expected)] == expected
    assert (ROOT / "docs" / "round.json").read_text() == blocks("docs/files.md", "json")[0]


def test_commands_in_the_readme_exist(fedcell):
    commands = re.findall(r"^    \$ fedcell (\w+)", README, re.MULTILINE)
    assert commands
    for command in commands:
        assert fedcell(command, "--help").code == 0


def test_decisions_are_numbered_and_found():
    text = (ROOT / "DECISIONS.md").read_text()
    there = [int(n) for n in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
    assert there == sorted(set(there))
    for file in [*FILES, *(ROOT / "tests").rglob("*.py")]:
        for number in re.findall(r"DECISIONS\.md, (\d+)", file.read_text()):
            assert int(number) in there, f"{file.name} points to {number}"


def test_tests_named_in_decisions_exist():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "DECISIONS.md").read_text()))
    there = {
        node.name
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    assert named
    assert named <= there


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda p: p.name
)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_counts_the_equations_right():
    codes = [code for _, code, _ in equation_rows()]
    built = sum(code.startswith("`") for code in codes)
    steps = codes.count("proof step only")
    assert f"{built} of the paper's 91 numbered displays ({steps} are steps" in README
