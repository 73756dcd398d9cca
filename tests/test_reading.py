"""The repository as it is read: rooms, imports, the map of equations, code in the README."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from contextlib import suppress
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import fedcell
import fedcell.api
from fedcell.cli.words import WORDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedcell"
FILES = [file for file in SOURCE.rglob("*.py") if file.stem != "__init__"]
README = (ROOT / "README.md").read_text()

# The rooms in the order in which they are read: a package imports only what stands before it.
ROOMS = ["core", "scenario", "network", "learning", "simulation", "experiments"]
ROOMS += ["planning", "deploy", "paper", "show", "cli"]
RADIO = ("fedcell.network", "scenario.cell", ".gains", "bandwidth")  # no business of learning's


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
    against = {
        (room(file), used)
        for file in FILES
        for used in uses(file)
        if (own := file.relative_to(SOURCE).parts[0]) in ROOMS
        and ROOMS.index(used) > ROOMS.index(own)
    }
    assert against == {("core.showing", "show")}  # results show themselves: DECISIONS.md, 36


def test_learning_knows_of_no_radio():
    for file in (SOURCE / "learning").rglob("*.py"):
        assert not [word for word in RADIO if word in file.read_text()], file.name


def test_only_the_command_line_speaks_of_options():
    for file in FILES:
        if "cli" not in file.parts:
            spoken = [text for text in strings_of(file) if not re.fullmatch(r"--[a-z-]+", text)]
            # What is an option and nothing else is said to another program.
            assert not [text for text in spoken if re.search(r"(^|\s)--[a-z]", text)], file.name


def documentables(file: Path) -> list[ast.AST]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]


def test_arguments_that_messages_name_have_words_on_the_command_line():
    """Every `word` in a string of the library that is not a docstring: message, note or name."""
    named = {
        word
        for file in FILES
        if "cli" not in file.parts
        for text in strings_of(file)
        for word in re.findall(r"`(\w+)`", text)
    }
    assert named >= {"folder", "resume", "target", "run_pilot", "steps", "budget"}
    only_from_python = {"prepare_training", "to_pandas", "problem", "form", "data", "partition"}
    only_from_python |= {"server", "device"}
    assert named - set(WORDS) <= only_from_python


def strings_of(file: Path) -> list[str]:
    """The strings of a module, docstrings and expressions inside f-strings left out."""
    texts = [
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    documented = {ast.get_docstring(node, clean=False) for node in documentables(file)}
    return [text for text in texts if text not in documented]


def test_rooms_are_not_outgrown():
    texts = {room(file): file.read_text() for file in FILES}
    assert {name for name, text in texts.items() if len(text.splitlines()) > 450} == set()
    one_round = ("round", "policies.base", "policies.paper", "policies.optimal")
    read = "".join(without_examples(texts[f"network.{name}"]) for name in one_round)
    assert len(read.splitlines()) <= 500  # fifteen minutes


def without_examples(text: str) -> str:
    """A module as one reads it to understand: without examples, sections and reprs."""
    text = re.sub(r"\n *>>> .*?(?=\n *\"\"\"|\n *\n)", "", text, flags=re.DOTALL)
    text = re.sub(r"\n    def __repr__.*?(?=\n\n)", "", text, flags=re.DOTALL)
    return re.sub(r"\n *[A-Z][a-z]+\n *---+\n.*?(?=\n *\"\"\")", "", text, flags=re.DOTALL)


def test_only_dice_are_rolled():
    for file in FILES:
        if room(file) != "core.streams":
            assert "np.random" not in file.read_text(), file.name


def public_things() -> list[str]:
    return [name for name in fedcell.__all__ if not name.startswith("_")]


@pytest.mark.parametrize("name", public_things())
def test_public_names_are_documented_and_their_examples_run(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    thing = getattr(fedcell, name)
    assert thing.__doc__, name
    assert not thing.__doc__.startswith(f"{name}("), f"{name} has a generated docstring"
    space = vars(fedcell.api) | {"np": np}
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs=space):
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        runner.run(test, out=said.append)
        assert not runner.failures, "".join(said)


def test_public_names_have_an_example():
    """What goes in and what comes out, as code that runs; kinds of error need none."""
    kinds = {name for name in public_things() if is_kind_of_problem(getattr(fedcell, name))}
    named = [name for name in public_things() if name not in kinds]
    lacking = [name for name in named if ">>>" not in (getattr(fedcell, name).__doc__ or "")]
    assert lacking == ["Learner"]  # a protocol; examples/4_own_learner.py writes one


def is_kind_of_problem(thing: object) -> bool:
    problems = (fedcell.FedcellError, fedcell.FedcellWarning)
    return isinstance(thing, type) and issubclass(thing, problems) and thing is not problems[0]


def test_the_public_face_is_small():
    assert len(public_things()) <= 61


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


def test_the_readme_counts_the_equations_right():
    codes = [code for _, code, _ in equation_rows()]
    built = sum(code.startswith("`") for code in codes)
    steps = codes.count("proof step only")
    assert f"{built} of the paper's 91 numbered displays ({steps} are steps" in README


def test_the_version_is_the_same_everywhere():
    from fedcell import __version__

    assert (
        f'version = "{__version__}"' not in (ROOT / "pyproject.toml").read_text()
    )  # read from code
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text()
    released = re.findall(r"^## \[(\d[^\]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert released[0][0] == __version__
    assert f"date-released: {released[0][1]}" in (ROOT / "CITATION.cff").read_text()


def identifiers() -> set[str]:
    """Every name that the package binds, its modules and packages included."""
    found = {part for file in FILES for part in room(file).split(".")} | {"fedcell"}
    for file in [*FILES, SOURCE / "__init__.py"]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [getattr(node, key, None) for key in ("name", "id", "attr", "arg", "asname")]
            found |= {name for name in names if isinstance(name, str)}
    return found


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_names_on_the_pages_are_names_of_the_code(page):
    known = identifiers()
    named = re.findall(r"`([A-Za-z_][\w.]*?)(?:\(.*?\))?`", (ROOT / page).read_text())
    assert len(named) > 20
    for name in named:
        parts = name.removesuffix(".py").split(".")
        assert set(parts) <= known | {"repr", "ci", "yml", "csv", "md", "help"}, f"{page}: {name}"


def test_the_picture_of_the_data_s_way_names_what_is_there():
    texts = re.findall(r'class="(?:name|call)"[^>]*>([^<]+)<', PICTURE.read_text())
    names = {word for text in texts for word in re.findall(r"\w+", text)} - {"a"}
    assert {"Scenario", "Trace", "Problem", "Schedule", "Cost", "Ledger", "TrainingPlan"} <= names
    assert names <= identifiers()


PICTURE = ROOT / "docs" / "way-of-the-data.svg"
