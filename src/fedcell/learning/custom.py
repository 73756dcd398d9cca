"""Custom learners: a function of a scenario and a seed, or its name, `module:callable`.

Only callers name a learner. Files record which learner made them, and never load one.
"""

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.callables import blaming, load_callable
from fedcell.core.errors import BadInput
from fedcell.core.files.checksums import checksum_of
from fedcell.core.types import Floats, Ints
from fedcell.scenario.scenario import Scenario

from .learner import (
    Buffered,
    Differentiable,
    Learner,
    Priced,
    Scores,
    Stateful,
    first_model,
    measured_by,
    warm_up,
)

LearnerFactory = Callable[[Scenario, int], Learner]
LearnerLike = LearnerFactory | str  # a function, or its name, module:callable


@dataclass(frozen=True)
class CustomLearner:
    """A factory of learners and its name.

    Attributes
    ----------
    name : str
        `module:callable`, as files record it.
    make : callable
        From a scenario and a seed to a Learner.
    guarded : bool
        Whether exceptions of its code become one sentence.
    """

    name: str
    make: LearnerFactory
    guarded: bool = False

    @classmethod
    def of(cls, given: Any) -> "CustomLearner | None":
        """Return the custom learner that a caller gave; None for the built-in one."""
        if given is None or isinstance(given, CustomLearner):
            return given
        named = isinstance(given, str)
        if named and ":" not in given:
            raise BadInput(f"{given} is not a learner: give module:callable, as in mine:learner")
        made = load_callable("learner", given) if named else given
        name = given if named else name_of(given)
        if not callable(made):
            raise BadInput(
                f"the learner {name} cannot be called: expected a function of {ASKED}, or its name"
            )
        return cls(name, made, guarded=named)

    def __call__(self, scenario: Scenario, seed: int) -> Learner:
        """Return the learner of a scenario on a seed."""
        if not self.guarded:
            return self._check_learner(self.make(scenario, seed))
        with blaming(f"the learner {self.name} failed"):
            made = self._check_learner(self.make(scenario, seed))
            guard = GuardedDifferentiable if isinstance(made, Differentiable) else Guarded
            return guard(made, self.name)

    def _check_learner(self, made: Any) -> Learner:
        if not isinstance(made, Learner):
            raise BadInput(
                f"the learner {self.name} made a {type(made).__name__}, which lacks one of sizes, "
                f"start, train and evaluate: expected a Learner from a function of {ASKED}"
            )
        return made

    def identity(self, learner: Learner) -> dict[str, str]:
        """Return what identifies a learner in a run: its name, first model, weights that stay on
        the devices, and sizes."""
        frozen = getattr(unguarded(learner), "frozen_digest", None)
        return {
            "name": self.name,
            "start": digest(first_model(learner)),
            "sizes": digest(np.asarray(learner.sizes, np.float64)),
            **({} if frozen is None else {"frozen": str(frozen)}),
        }


ASKED = "a scenario and a seed"

Sources = Mapping[str, str]  # checksums of source files, by path


def sources_of(given: Any, name: str) -> dict[str, str]:
    """Return the checksums of the source files of a function or a class, by path.

    These are the file of the module in its name and the file that defines it; imports of these are
    not followed.
    """
    while isinstance(given, partial):
        given = given.func
    defined = inspect.unwrap(given) if hasattr(given, "__qualname__") else type(given)
    named = sys.modules.get(name.partition(":")[0])
    checksums: dict[str, str] = {}
    for one in (named, defined):
        try:
            file = Path(inspect.getsourcefile(one) or "").absolute()  # type: ignore[arg-type]
            checksums[str(file)] = checksum_of(file.read_bytes())
        except (TypeError, OSError, ValueError):  # built in, or typed at a prompt
            continue
    return checksums


def code_of(learner: CustomLearner | None, server: Any) -> Mapping[str, Sources]:
    """Return the sources of a custom learner and of a custom server, where they are given."""
    sources = {} if learner is None else {"learner": sources_of(learner.make, learner.name)}
    return sources | ({} if server is None else {"server": sources_of(server, name_of(server))})


def changed_sources(before: Any, now: Mapping[str, Sources]) -> list[str]:
    """Return the parts whose sources have changed, such as "the learner (mine.py)".

    Parts without known earlier sources are left out.
    """
    changed = []
    for part, files in now.items():
        then = before.get(part) if isinstance(before, dict) else None
        known = set(map(str, then.values())) if isinstance(then, dict) else None
        if known and (new := [file for file, checksum in files.items() if checksum not in known]):
            changed.append(f"the {part} ({', '.join(new)})")
    return changed


class Guarded:
    """A learner given by its name: any exception of its code becomes one sentence."""

    def __init__(self, learner: Learner, name: str) -> None:
        self.learner, self.failure = learner, f"the learner {name} failed"
        self.sizes: Ints = learner.sizes
        size = first_model(learner).size
        self.trained = learner.trained if isinstance(learner, Buffered) else size
        self.better = measured_by(learner)

    def warm_up(self) -> None:
        with blaming(self.failure):
            warm_up(self.learner)

    def start(self) -> Floats:
        with blaming(self.failure):
            return self.learner.start()

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        return self._each(lambda: self.learner.train(model, clients, round))

    def evaluate(self, model: Floats) -> Scores:
        with blaming(self.failure):
            return self.learner.evaluate(model)

    def _each(self, begin: Callable[[], Iterable[Floats]]) -> Iterator[Floats]:
        with blaming(self.failure):
            vectors = iter(begin())
        while True:
            with blaming(self.failure):
                vector = next(vectors, None)
            if vector is None:
                return
            yield vector


class GuardedDifferentiable(Guarded):
    """A guarded learner that also returns gradients."""

    learner: Differentiable

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        return self._each(lambda: self.learner.gradients(model, batches))


def unguarded(learner: Learner) -> Learner:
    """Return the learner inside a guard."""
    return learner.learner if isinstance(learner, Guarded) else learner


def memory_of(learner: Learner) -> Mapping[int, Any] | None:
    """Return what clients of a learner remember; None if it keeps nothing."""
    inner = unguarded(learner)
    return inner.memory if isinstance(inner, Stateful) else None


def remember(learner: Learner, memory: Mapping[int, Any] | None) -> None:
    """Give a learner what its clients remember, if it keeps anything."""
    inner = unguarded(learner)
    if isinstance(inner, Stateful):
        inner.remember(memory or {})


def costs_of(learner: Learner) -> dict[str, float]:
    """Return z_m and alpha_0 of a learner that knows them, as keys of a task."""
    inner = unguarded(learner)
    if not isinstance(inner, Priced):
        return {}
    known = {"model_bits": inner.model_bits, "cycles_per_sample": inner.cycles_per_sample}
    return {name: float(value) for name, value in known.items() if value is not None}


def scale_of(learner: Learner, scenario: Scenario) -> str | None:
    """Return what a run of a large learner takes, and a question; None where it is not large."""
    forecast = getattr(unguarded(learner), "forecast_if_large", None)
    taken = None if forecast is None else forecast(scenario.plan.cohort)
    if taken is None:
        return None
    return f"{taken}. Is that the scale you want? Fewer trained weights, clients or steps lower it"


def name_of(given: Any) -> str:
    """Return module:callable of a function or a class, or of the class of an object."""
    named = given if hasattr(given, "__qualname__") else type(given)
    return f"{named.__module__}:{named.__qualname__}"


def digest(values: Any) -> str:
    """Return a short checksum of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
