"""Translates messages of the library to the options of the running command.

The library names its arguments and functions in backticks. Each becomes an option that the running
command has: of several the one that was typed. Where it has none, it becomes a plain word.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from fedcell.core.errors import FedcellError

# Parameters of commands that stand for an argument of the library under another name. Of choices
# one is meant, of parts all.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "accuracy": ("target_accuracy", "named_target"),
    "loss": ("target_loss", "named_target"),
    "path": ("out_path", "pilot_out"),
    "policies": ("policy",),
    "round": ("round_",),
    "screen": ("screen_updates",),
    "level": ("named_target",),
    "target": ("named_target", "target_loss", "target_accuracy"),
}
SAME_MEANING = frozenset({"accuracy", "loss", "target"})  # where none was typed, the first stands
PARTS: Mapping[str, tuple[str, ...]] = {
    "law": ("mixing", "drift", "start"),
    "limits": ("deadline", "energy_budget"),
}
SAME = frozenset(  # the argument and the parameter have the same name
    [
        "budget",
        "clients",
        "cluster",
        "columns",
        "confidence",
        "deadline",
        "every",
        "exponent",
        "fleets",
        "folder",
        "hold",
        "join_timeout",
        "judged_by",
        "learner",
        "minimise",
        "only",
        "pilot",
        "plan",
        "port",
        "precision",
        "quick",
        "regime",
        "resume",
        "retry",
        "rounds",
        "seed",
        "seeds",
        "select",
        "solve_for",
        "start_with",
        "steps",
        "threads",
        "track",
        "which",
        "workers",
    ]
)
OTHERWISE: Mapping[str, str] = {  # where the command has no such option
    "path": "file",
    "resume": "`fedcell run --resume`",
    "scenario": "scenario file",
    **{word: word.replace("_", "-") for word in ("device", "screen_factor")},
}
FUNCTIONS: Mapping[str, str] = {
    "load_round": "`fedcell schedule`",
    "load_scenario": "`fedcell cost`",
    "plan_training": "`fedcell plan`",
    "run": "`fedcell run`",
    "run_pilot": "`fedcell pilot`",
    "selecting": "`fedcell run`",
    "validate_pilot": "`fedcell validate`",
    "write_shakespeare": "`fedcell data shakespeare`",
    "write_watch": "`fedcell data watch`",
}
WORDS = frozenset({*CHOICES, *PARTS, *SAME, *OTHERWISE, *FUNCTIONS})

_running: ContextVar[Any] = ContextVar("fedcell_command", default=None)  # its click context


@contextmanager
def command_words(context: Any, fail: Callable[[str], NoReturn]) -> Iterator[None]:
    """Translate messages to the options of a command while it runs, and its failure as well."""
    before = _running.set(context)
    try:
        yield
    except FedcellError as error:
        fail(in_options(str(error)))
    finally:
        _running.reset(before)


def in_options(message: str) -> str:
    """Return a message of the library with the options of the running command."""
    return re.sub(r"`(\w+)`", lambda match: _word(match[1]) or match[0], message)


def has_option(name: str) -> bool:
    """Return whether the running command has an option with this parameter name."""
    return name in _options()


def option_value(name: str) -> Any:
    """Return the value of a parameter of the running command; None if there is none."""
    context = _running.get()
    return None if context is None else context.params.get(name)


def _options() -> dict[str, str]:
    """Return the options of the running command by the names of its parameters."""
    context = _running.get()
    if context is None:
        return {}
    params = context.command.params
    return {p.name: p.opts[0] for p in params if p.param_type_name == "option"}


def _word(argument: str) -> str | None:
    """Return the option or command for an argument or function of the library; None: unknown."""
    if argument in FUNCTIONS:
        return FUNCTIONS[argument]
    options = _options()
    parts = PARTS.get(argument, ())
    if parts and all(name in options for name in parts):
        return ", ".join(options[name] for name in parts)
    choices = [name for name in CHOICES.get(argument, (argument,)) if name in options]
    untyped = choices[:1] if argument in SAME_MEANING else choices
    chosen = [options[name] for name in choices if _was_typed(name)] or map(options.get, untyped)
    if argument in WORDS:
        return " or ".join(filter(None, chosen)) or OTHERWISE.get(argument, argument)
    return None


def _was_typed(name: str) -> bool:
    """Return whether a parameter was given on the command line."""
    source = _running.get().get_parameter_source(name)
    return getattr(source, "name", None) == "COMMANDLINE"
