"""The public API: two storeys, lazy, documented, with short signatures."""

import ast
import inspect
import re
import subprocess
import sys
import typing
from importlib import import_module
from pathlib import Path

import pytest

import fedcell

SPACES = ["", "policies", "network", "learning", "simulation", "experiments", "planning"]
SPACES += ["deploy", "errors", "selectors"]
NEEDS_EXTRAS = {"TorchLearner", "tensors", "run_federation", "pilot_federation"}
NEEDS_EXTRAS |= {"LocalOptimizer", "Metric", "TorchData", "learner_from_torch"}


def space(name: str) -> typing.Any:
    return import_module(f"fedcell.{name}" if name else "fedcell")


def public_functions() -> list[typing.Any]:
    found = {}
    for name in SPACES:
        for public in space(name).__all__:
            if public in NEEDS_EXTRAS or public in SPACES:
                continue
            thing = getattr(space(name), public)
            if inspect.isfunction(thing):
                found[f"{thing.__module__}.{public}"] = thing
    return list(found.values())


@pytest.mark.parametrize("name", SPACES)
def test_type_checkers_see_the_names_that_are_loaded_lazily(name):
    module = space(name)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    declared = {
        a.name: n.module for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    assert sorted(declared) == sorted(module.__all__) == sorted(dir(module))
    for public in set(module.__all__) - NEEDS_EXTRAS - set(SPACES):
        thing = getattr(module, public)
        where = import_module(str(declared[public]))
        assert getattr(where, public) is thing


def test_the_top_level_namespace_is_small():
    assert len([name for name in fedcell.__all__ if name not in SPACES]) <= 36


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'fedcell' has no attribute 'nothing'"):
        _ = fedcell.nothing
    assert not hasattr(fedcell.planning, "nothing")


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__name__)
def test_public_functions_have_at_most_nine_parameters(function):
    assert len(inspect.signature(function).parameters) <= 9


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__name__)
def test_types_that_public_functions_return_are_public(function):
    returned = typing.get_type_hints(function).get("return")
    names = {n for s in SPACES for n in space(s).__all__}
    for kind in [returned, *typing.get_args(returned)]:
        if isinstance(kind, type) and kind.__module__.startswith("fedcell."):
            assert kind.__name__ in names, f"{function.__name__} returns {kind.__name__}"


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__name__)
def test_public_functions_document_their_parameters(function):
    docstring = inspect.getdoc(function) or ""
    if inspect.signature(function).parameters:
        assert "Parameters\n----------\n" in docstring
        section = docstring.split("Parameters\n----------\n")[1].split("\n\n")[0]
        for name in inspect.signature(function).parameters:
            assert re.search(rf"\b{name}\b", section), f"{function.__name__}: {name}"


def test_importing_a_namespace_loads_nothing_heavy():
    heavy = ["numba", "torch", "scipy", "matplotlib", "rich", "typer", "flwr"]
    spaces = "; ".join(f"import fedcell.{name}" for name in SPACES if name)
    code = f"import sys; {spaces}; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
