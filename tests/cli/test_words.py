"""Options that messages name are options that the command has; arguments have help."""

import ast
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedcell.cli
from fedcell.cli.commands import COMMANDS
from fedcell.cli.main import load_command, main
from fedcell.cli.words import WORDS, command_words, has_option, in_options
from fedcell.errors import BadInput

LOADED: dict[str, Any] = {name: load_command(name) for name in COMMANDS}
SOURCES = list(Path(fedcell.cli.__file__).parent.rglob("*.py"))
# Options of another command stand behind its name: fedcell run --resume.
OTHERS = re.compile(r"(?:fedcell|flwr) \w+(?: --[a-z-]+)+")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def fail(message: str) -> None:
    pytest.fail(message)


def context_of(name: str, *typed: str) -> Any:
    return LOADED[name].make_context(name, list(typed), resilient_parsing=True)


def options_of(name: str) -> set[str]:
    return {option for param in LOADED[name].params for option in param.opts}


def named_in(text: str) -> set[str]:
    return set(OPTION.findall(OTHERS.sub("", text)))


@pytest.mark.parametrize("name", LOADED)
def test_every_positional_argument_has_a_sentence(fedcell, name):
    shown = " ".join(re.sub(r"[│╭╮╰╯─]", " ", fedcell(name, "--help").out).split())
    for param in LOADED[name].params:
        if param.param_type_name == "argument":
            assert param.help
            assert " ".join(param.help.split()) in re.sub(r" ?\[default:[^]]*]", "", shown)


@pytest.mark.parametrize("name", LOADED)
def test_words_of_the_library_are_options_that_the_command_has(name):
    with command_words(context_of(name), fail):
        for word in WORDS:
            said = in_options(f"`{word}`")
            assert named_in(said) <= options_of(name), (word, said)
            assert said != f"`{word}`"
    assert in_options("`rounds`") == "rounds"  # nothing runs


@pytest.mark.parametrize(
    ("command", "typed", "said"),
    [
        ("pilot", [], "take --target in --out"),
        ("pilot", ["--target-loss", "1"], "take --target-loss in --out"),
        ("pilot", ["--target-accuracy", "1"], "take --target-accuracy in --out"),
        ("pilot", ["--target", "mae=1"], "take --target in --out"),
        ("run", ["--target-accuracy", "1"], "take --target-accuracy in file"),
        ("figure", ["x", "--out", "a.png"], "take target in --out"),
        ("deploy", ["--pilot", "p.json"], "take --target in --pilot"),
        ("demo", [], "take target in file"),
    ],
)
def test_the_target_that_was_typed_is_the_one_that_is_named(command, typed, said):
    with command_words(context_of(command, *typed), fail):
        assert in_options("take `target` in `path`") == said


def test_messages_name_the_folder_as_each_command_does():
    for command, said in {
        "run": "--out",
        "demo": "--out",
        "export": "folder",
        "plan": "folder",
    }.items():
        with command_words(context_of(command), fail):
            assert in_options("another `folder`") == f"another {said}"
            assert has_option("folder") == (said == "--out")


def test_a_command_fails_in_its_own_words(fedcell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = fedcell("runs", "nothing")
    assert said.code == 2
    assert not named_in(said.err)
    said = fedcell("deploy", "digits", "--target-loss", "none", "--hold", "3")
    assert named_in(said.err) <= options_of("deploy")
    assert "nothing to hold: give a --target-loss" in said.err
    said = fedcell("testbed", "paper")
    assert said.err.endswith("give --devices 4\n")


# Options that the commands themselves name, in the functions that they call.


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                yield node.name, node


FUNCTIONS = dict(functions())


def reached_from(name: str, seen: set[str]) -> set[str]:
    """The functions of the command line that one of them uses, itself included."""
    seen.add(name)
    for node in ast.walk(FUNCTIONS[name]):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in FUNCTIONS.keys() - seen:
            reached_from(called.id, seen)
    return seen


def texts_of(name: str) -> Iterator[str]:
    """What a function says, in one text for each f-string; not its docstring, nor help."""
    function = FUNCTIONS[name]
    documented = ast.get_docstring(function, clean=False)
    for statement in function.body:
        inside: set[int] = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.JoinedStr):
                inside |= {id(part) for part in node.values}
                yield "".join(str(getattr(part, "value", "")) for part in node.values)
            elif isinstance(node, ast.Constant) and id(node) not in inside:
                yield "" if node.value == documented else str(node.value)


GUARDED = {"--simulation", "--resume"}  # behind has_option
UNSAID = {
    ("pilot_command", "--pilot"),  # how the next command is called
    ("goal_of", "--target-accuracy"),  # said of what was typed, which a command without cannot be
    ("target_of", "--target-accuracy"),
}


@pytest.mark.parametrize("command", [c for c in LOADED if c != "demo"])
def test_options_that_a_command_names_itself_are_its_own(command):
    """A demo calls other commands, and shows how they are called."""
    callback = LOADED[command].callback.__name__
    reached = reached_from(callback, set())
    named = {
        (name, option)
        for name in reached
        for text in texts_of(name)
        for option in named_in(text) - options_of(command)
        if not (option in GUARDED and "has_option" in ast.dump(FUNCTIONS[name]))
    }
    assert named <= UNSAID


def test_a_command_leaves_warnings_as_they_were(fedcell):
    before = warnings.showwarning, list(warnings.filters)
    assert fedcell("cost", "paper", "--rounds", "2").code == 0
    assert (warnings.showwarning, list(warnings.filters)) == before


def test_an_error_outside_of_commands_is_a_sentence_too(monkeypatch, capsys):
    def broken(*_: object) -> None:
        raise BadInput("`folder` is wrong")

    monkeypatch.setattr("typer.main.get_command", broken)
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err == "fedcell: `folder` is wrong\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_sentence_of_its_help(name):
    assert " ".join(LOADED[name].help.split("\n\n")[0].split()) == COMMANDS[name]
    assert LOADED[name].name == name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_two_examples_that_the_command_can_parse(fedcell, name):
    shown = [line.strip() for line in fedcell(name, "--help").out.splitlines() if line.strip()]
    assert shown[-3] == "Examples:"
    for line in shown[-2:]:
        program, command, *words = shlex.split(line.partition(" > ")[0])
        assert (program, command) == ("fedcell", name)
        LOADED[name].make_context(name, words)  # fails where an option or argument is wrong
