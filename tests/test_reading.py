"""Structure and documentation: packages, imports, sizes, the table of equations, public names."""

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from graphlib import TopologicalSorter
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import fedcell
from fedcell.cli.commands import COMMANDS
from fedcell.cli.words import WORDS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedcell"
FILES = [file for file in SOURCE.rglob("*.py") if file.stem != "__init__"]
README = (ROOT / "README.md").read_text()

# The packages in import order: each imports only packages before it.
PACKAGES = ["core", "scenario", "network", "learning", "simulation", "experiments"]
PACKAGES += ["planning", "deploy", "paper", "show", "studio", "cli"]
RADIO = ("fedcell.network", "scenario.cell", ".gains", "bandwidth")  # learning does not use these

MAX_FUNCTION_LINES = 60
MAX_MODULE_LINES = 450
MAX_MODULES = 12  # at one level of a package
MAX_PARAMETERS = 9

# Code that does not keep a limit yet; remove an entry as soon as its code does.
LONG_FUNCTIONS: set[str] = set()
LONG_MODULES: set[str] = set()
LARGE_PACKAGES = {"cli.commands"}  # one module per command; this entry stays
MANY_PARAMETERS: set[str] = set()


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts)


def imported_packages(file: Path) -> set[str]:
    names = {
        node.module
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0
    }
    return {name.split(".")[1] for name in names if name.startswith("fedcell.")}


def test_a_package_imports_only_packages_before_it():
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(PACKAGES)
    backward = {
        (module_name(file), imported)
        for file in FILES
        for imported in imported_packages(file)
        if (own := file.relative_to(SOURCE).parts[0]) in PACKAGES
        and PACKAGES.index(imported) > PACKAGES.index(own)
    }
    assert backward == {("core.showing", "show")}  # results show themselves: DECISIONS.md, 36


def test_learning_does_not_depend_on_the_radio():
    for file in (SOURCE / "learning").rglob("*.py"):
        assert not [word for word in RADIO if word in file.read_text()], file.name


def test_only_the_command_line_names_options():
    for file in FILES:
        if "cli" not in file.parts:
            # A string that is one option and nothing else is an argument of another program.
            texts = [text for text in strings_of(file) if not re.fullmatch(r"--[a-z-]+", text)]
            assert not [text for text in texts if re.search(r"(^|\s)--[a-z]", text)], file.name


def documentables(file: Path) -> list[ast.AST]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)]


def test_arguments_named_in_messages_are_translated_to_options():
    """Every `word` in a message or note of the library, docstrings left out."""
    named = {
        word
        for file in FILES
        if "cli" not in file.parts
        for text in strings_of(file)
        for word in re.findall(r"`(\w+)`", text)
    }
    assert named >= {"folder", "resume", "target", "run_pilot", "steps", "budget"}
    only_from_python = {"prepare_training", "to_pandas", "problem", "form", "data", "partition"}
    only_from_python |= {
        "server",
        "device",
        "adaptation",
        "source",
        "region",
        "ax",
        "plot",
        "samples",
    }
    only_from_python |= {"metric", "better", "metrics", "optimizer", "clip", "arrays"}
    only_from_python |= {"start"} & named  # of an `Adaptation`
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


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_functions_are_short():
    too_long = {
        f"{module_name(file)}.{node.name}"
        for file in FILES
        if not module_name(file).startswith("learning.kernels.")
        for node in functions(file)
        if code_lines(node) > MAX_FUNCTION_LINES
    }
    assert too_long - LONG_FUNCTIONS == set()


def code_lines(node: ast.FunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_modules_are_short():
    lengths = {module_name(file): len(file.read_text().splitlines()) for file in FILES}
    too_long = {name for name, lines in lengths.items() if lines > MAX_MODULE_LINES}
    assert too_long - LONG_MODULES == set()


def test_one_round_is_read_in_fifteen_minutes():
    one_round = ("round", "policies/base", "policies/paper", "policies/optimal")
    texts = [(SOURCE / "network" / f"{name}.py").read_text() for name in one_round]
    assert len("".join(without_examples(text) for text in texts).splitlines()) <= 500


def test_packages_have_few_modules_at_one_level():
    counts = Counter(module_name(file).rpartition(".")[0] for file in FILES)
    too_many = {package for package, count in counts.items() if count > MAX_MODULES}
    assert too_many - LARGE_PACKAGES == set()


def test_each_command_has_a_module_of_its_name():
    commands = set(COMMANDS)
    modules = {
        file.stem.replace("_", "-") for file in FILES if file.parent == SOURCE / "cli" / "commands"
    }
    assert modules == commands


def eager_imports(file: Path) -> set[str]:
    """The modules of fedcell that are imported while a module is imported."""
    name, imported = f"fedcell.{module_name(file)}", set()
    nodes: list[ast.AST] = [ast.parse(file.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue  # runs later
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes += node.orelse
            continue
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".")[: -node.level] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            imported |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        nodes += ast.iter_child_nodes(node)
    return imported


def test_modules_have_no_import_cycles():
    names = {f"fedcell.{module_name(file)}" for file in FILES}
    graph = {f"fedcell.{module_name(file)}": eager_imports(file) & names for file in FILES}
    assert sum(map(len, graph.values())) > len(names)
    TopologicalSorter(graph).prepare()  # raises CycleError with the modules of a cycle


def public_callables() -> Iterator[tuple[str, object]]:
    for name, public in PUBLIC.items():
        if inspect.isclass(public):
            methods = inspect.getmembers(public, inspect.isroutine)
            yield from ((f"{name}.{m}", method) for m, method in methods if m[0] != "_")
        else:
            yield name, public


def test_public_functions_have_few_parameters():
    too_many = set()
    for name, function in public_callables():
        if str(getattr(function, "__module__", "")).startswith("fedcell"):
            parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
            too_many |= {name} if len(parameters) > MAX_PARAMETERS else set()
    assert too_many - MANY_PARAMETERS == set()


def without_examples(text: str) -> str:
    """A module as one reads it to understand: without examples, sections and reprs."""
    text = re.sub(r"\n *>>> .*?(?=\n *\"\"\"|\n *\n)", "", text, flags=re.DOTALL)
    text = re.sub(r"\n    def __repr__.*?(?=\n\n)", "", text, flags=re.DOTALL)
    return re.sub(r"\n *[A-Z][a-z]+\n *---+\n.*?(?=\n *\"\"\")", "", text, flags=re.DOTALL)


def test_only_streams_draw_random_numbers():
    for file in FILES:
        if module_name(file) != "core.streams":
            assert "np.random" not in file.read_text(), file.name


SPACES = ["policies", "network", "learning", "simulation", "experiments", "planning", "deploy"]
NEEDS_EXTRAS = {"TorchLearner", "tensors", "run_federation", "pilot_federation"}
NEEDS_EXTRAS |= {"LocalOptimizer", "Metric", "TorchData", "learner_from_torch"}


def public_things() -> dict[str, object]:
    """The public names of all namespaces, but those that need an extra."""
    modules = [fedcell, *(importlib.import_module(f"fedcell.{name}") for name in SPACES)]
    names = {name: module for module in modules for name in module.__all__}
    hidden = {*SPACES, "errors", *NEEDS_EXTRAS}
    found = {name: getattr(module, name) for name, module in names.items() if name not in hidden}
    kinds = type | FunctionType
    return {name: public for name, public in found.items() if isinstance(public, kinds)}


PUBLIC = public_things()


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented_and_their_examples_run(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    public = PUBLIC[name]
    assert public.__doc__, name
    assert not public.__doc__.startswith(f"{name}("), f"{name} has a generated docstring"
    space = PUBLIC | {"np": np}
    for test in doctest.DocTestFinder(recurse=False).find(public, name, globs=space):
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        output: list[str] = []
        runner.run(test, out=output.append)
        assert not runner.failures, "".join(output)


def test_names_at_the_top_have_an_example():
    """Every name but the kinds of error has an example that runs."""
    kinds = {"FedcellError", "FedcellWarning"}
    named = {name for name in fedcell.__all__ if name in PUBLIC} - kinds
    assert sorted(n for n in named if ">>>" not in (PUBLIC[n].__doc__ or "")) == []


def test_import_is_light():
    heavy = ["numba", "torch", "scipy", "matplotlib", "rich", "typer"]
    code = f"import sys, fedcell; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def equation_rows() -> list[tuple[int, str, str]]:
    rows = []
    for line in (ROOT / "docs" / "reference" / "equations.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[0].isdigit():
            rows.append((int(cells[0]), cells[3], cells[4].strip("`")))
    return rows


def resolve(dotted: str) -> object:
    """Import a module, or something inside one, by its dotted name."""
    parts = dotted.split(".")
    for depth in range(len(parts), 0, -1):
        with suppress(ModuleNotFoundError):
            module = importlib.import_module(".".join(parts[:depth]))
            return reduce(getattr, parts[depth:], module)
    raise AssertionError(f"{dotted} does not exist")


def test_the_table_of_equations_has_all_91():
    assert [number for number, _, _ in equation_rows()] == list(range(1, 92))


@pytest.mark.parametrize(("code", "test"), [row[1:] for row in equation_rows()])
def test_the_table_of_equations_names_existing_code_and_tests(code, test):
    if code == "proof step only":
        assert test == ""
    else:
        assert resolve(code.strip("`"))
        where, name = test.split("::")
        tree = ast.parse((ROOT / where).read_text())
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_equation_numbers_in_code_exist():
    for file in FILES:
        for number in re.findall(r"# \((\d+)[a-e]?\)", file.read_text()):
            assert 1 <= int(number) <= 91, f"{file.name}: ({number})"


def test_decisions_are_numbered_and_references_to_them_exist():
    text = (ROOT / "DECISIONS.md").read_text()
    numbers = [int(n) for n in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)]
    assert numbers == sorted(set(numbers))
    for file in [*FILES, *(ROOT / "tests").rglob("*.py")]:
        for number in re.findall(r"DECISIONS\.md, (\d+)", file.read_text()):
            assert int(number) in numbers, f"{file.name} refers to {number}"


def test_tests_named_in_decisions_exist():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "DECISIONS.md").read_text()))
    defined = {
        node.name
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    assert named
    assert named <= defined


def test_the_readme_counts_the_equations():
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
    names = {part for file in FILES for part in module_name(file).split(".")} | {"fedcell"}
    for file in [*FILES, SOURCE / "__init__.py"]:
        for node in ast.walk(ast.parse(file.read_text())):
            bound = [getattr(node, key, None) for key in ("name", "id", "attr", "arg", "asname")]
            names |= {name for name in bound if isinstance(name, str)}
    return names


@pytest.mark.parametrize(
    "page", ["docs/explanation/architecture.md", "docs/reference/glossary.md", "CONTRIBUTING.md"]
)
def test_names_on_the_pages_are_names_of_the_code(page):
    known = identifiers()
    named = re.findall(r"`([A-Za-z_][\w.]*?)(?:\(.*?\))?`", (ROOT / page).read_text())
    assert len(named) > 20
    for name in named:
        parts = name.removesuffix(".py").split(".")
        assert set(parts) <= known | {"repr", "ci", "yml", "csv", "md", "help"}, f"{page}: {name}"


def test_the_diagram_of_the_data_flow_names_code_that_exists():
    texts = re.findall(r'class="(?:name|call)"[^>]*>([^<]+)<', PICTURE.read_text())
    names = {word for text in texts for word in re.findall(r"\w+", text)} - {"a"}
    assert {"Scenario", "Trace", "Problem", "Schedule", "Cost", "Ledger", "TrainingPlan"} <= names
    assert names <= identifiers()


PICTURE = ROOT / "docs" / "images" / "way-of-the-data.svg"
