"""What the library says, in the words of the command that is running.

The library names its arguments and functions in backticks. Here they are options of the running
command: of several the one that was typed, and none that the command does not have.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from fedcell.core.errors import FedcellError

# The parameters of commands that stand for an argument of the library, where they are called
# otherwise. Of choices one is meant, of parts all.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "accuracy": ("target_accuracy",),
    "loss": ("target_loss",),
    "path": ("out_path",),
    "policies": ("policy",),
    "round": ("round_",),
    "screen": ("screen_updates",),
    "target": ("target_loss", "target_accuracy"),
}
PARTS: Mapping[str, tuple[str, ...]] = {
    "law": ("mixing", "drift", "start"),
    "limits": ("deadline", "energy_budget"),
}
SAME = frozenset(  # the argument and the parameter have one name
    [
        "budget",
        "clients",
        "cluster",
        "columns",
        "confidence",
        "deadline",
        "every",
        "fleets",
        "folder",
        "hold",
        "join_timeout",
        "judged_by",
        "learner",
        "minimise",
        "pilot",
        "plan",
        "precision",
        "resume",
        "retry",
        "rounds",
        "seed",
        "seeds",
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
    "validate_pilot": "`fedcell validate`",
}
WORDS = frozenset({*CHOICES, *PARTS, *SAME, *OTHERWISE, *FUNCTIONS})

_running: ContextVar[Any] = ContextVar("fedcell_command", default=None)  # its context, while it is


@contextmanager
def speaking_for(context: Any, fail: Callable[[str], NoReturn]) -> Iterator[None]:
    """While a command runs, messages are in its words, also that with which it fails."""
    before = _running.set(context)
    try:
        yield
    except FedcellError as error:
        fail(in_options(str(error)))
    finally:
        _running.reset(before)


def in_options(message: str) -> str:
    """A message of the library in the words of the running command."""
    return re.sub(r"`(\w+)`", lambda found: _word(found[1]) or found[0], message)


def has_option(name: str) -> bool:
    """Whether the running command has a parameter of this name that is an option."""
    return name in _options()


def _options() -> dict[str, str]:
    """The options of the running command, by the names of its parameters."""
    context = _running.get()
    if context is None:
        return {}
    params = context.command.params
    return {p.name: p.opts[0] for p in params if p.param_type_name == "option"}


def _word(argument: str) -> str | None:
    """What an argument or a function of the library is called here; None if it is not known."""
    if argument in FUNCTIONS:
        return FUNCTIONS[argument]
    options = _options()
    parts = PARTS.get(argument, ())
    if parts and all(name in options for name in parts):
        return ", ".join(options[name] for name in parts)
    choices = [name for name in CHOICES.get(argument, (argument,)) if name in options]
    chosen = [options[name] for name in choices if _was_typed(name)] or map(options.get, choices)
    if argument in WORDS:
        return " or ".join(filter(None, chosen)) or OTHERWISE.get(argument, argument)
    return None


def _was_typed(name: str) -> bool:
    source = _running.get().get_parameter_source(name)
    return getattr(source, "name", None) == "COMMANDLINE"
