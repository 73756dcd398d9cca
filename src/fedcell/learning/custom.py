"""A learner of one's own: a function of a scenario and a seed, or its name, `module:callable`.

A name is given by whoever types it. Files remember which learner made them, and never load one.
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

from .learner import Buffered, Differentiable, Learner, Scores, first_model, warm_up

LearnerFactory = Callable[[Scenario, int], Learner]
LearnerLike = LearnerFactory | str  # or its name, as it is typed


@dataclass(frozen=True)
class OwnLearner:
    """Makes learners for scenarios and seeds, and knows what it is called."""

    name: str
    make: LearnerFactory
    guarded: bool = False  # what goes wrong in it is said in a sentence

    @classmethod
    def of(cls, given: Any) -> "OwnLearner | None":
        """What a caller gave as a learner; None where that is none, so that it is ours."""
        if given is None or isinstance(given, OwnLearner):
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
        """The learner of a scenario on a seed."""
        if not self.guarded:
            return self._checked(self.make(scenario, seed))
        with blaming(f"the learner {self.name} failed"):
            made = self._checked(self.make(scenario, seed))
            guard = GuardedDifferentiable if isinstance(made, Differentiable) else Guarded
            return guard(made, self.name)

    def _checked(self, made: Any) -> Learner:
        if not isinstance(made, Learner):
            raise BadInput(
                f"the learner {self.name} made a {type(made).__name__}, which lacks one of sizes, "
                f"start, train and evaluate: expected a Learner from a function of {ASKED}"
            )
        return made

    def identity(self, learner: Learner) -> dict[str, str]:
        """By what a run knows it again: its name, its first model, and who holds how much."""
        return {
            "name": self.name,
            "start": digest(first_model(learner)),
            "sizes": digest(np.asarray(learner.sizes, np.float64)),
        }


ASKED = "a scenario and a seed"

Sources = Mapping[str, str]  # checksums of source files, by path


def sources_of(given: Any, name: str) -> dict[str, str]:
    """The source files of a function or a class: that of the module of its name, and that in which
    it is defined, where they are files. What these import is not looked at."""
    while isinstance(given, partial):
        given = given.func
    defined = inspect.unwrap(given) if hasattr(given, "__qualname__") else type(given)
    named = sys.modules.get(name.partition(":")[0])
    found: dict[str, str] = {}
    for one in (named, defined):
        try:
            file = Path(inspect.getsourcefile(one) or "").absolute()  # type: ignore[arg-type]
            found[str(file)] = checksum_of(file.read_bytes())
        except (TypeError, OSError, ValueError):  # built in, or typed at a prompt
            continue
    return found


def code_of(learner: OwnLearner | None, server: Any) -> Mapping[str, Sources]:
    """The sources of a learner and of a server of one's own, where they are given."""
    found = {} if learner is None else {"learner": sources_of(learner.make, learner.name)}
    return found | ({} if server is None else {"server": sources_of(server, name_of(server))})


def changed_sources(before: Any, now: Mapping[str, Sources]) -> list[str]:
    """What has changed since, by the sources of each part as they were and as they are: a sentence
    for each part, as in "the learner (mine.py)". Nothing where it is not known how they were."""
    changed = []
    for part, files in now.items():
        then = before.get(part) if isinstance(before, dict) else None
        known = set(map(str, then.values())) if isinstance(then, dict) else None
        if known and (new := [file for file, checksum in files.items() if checksum not in known]):
            changed.append(f"the {part} ({', '.join(new)})")
    return changed


class Guarded:
    """A learner that was given by its name: whatever its code raises becomes a sentence."""

    def __init__(self, learner: Learner, name: str) -> None:
        self.learner, self.whom = learner, f"the learner {name} failed"
        self.sizes: Ints = learner.sizes
        size = first_model(learner).size
        self.trained = learner.trained if isinstance(learner, Buffered) else size

    def warm_up(self) -> None:
        with blaming(self.whom):
            warm_up(self.learner)

    def start(self) -> Floats:
        with blaming(self.whom):
            return self.learner.start()

    def train(self, model: Floats, clients: Sequence[int], round: int) -> Iterator[Floats]:
        return self._each(lambda: self.learner.train(model, clients, round))

    def evaluate(self, model: Floats) -> Scores:
        with blaming(self.whom):
            return self.learner.evaluate(model)

    def _each(self, begin: Callable[[], Iterable[Floats]]) -> Iterator[Floats]:
        with blaming(self.whom):
            vectors = iter(begin())
        while True:
            with blaming(self.whom):
                vector = next(vectors, None)
            if vector is None:
                return
            yield vector


class GuardedDifferentiable(Guarded):
    """The same of a learner that shows its gradients."""

    learner: Differentiable

    def gradients(
        self, model: Floats, batches: Iterable[tuple[int, Ints | None]]
    ) -> Iterator[Floats]:
        return self._each(lambda: self.learner.gradients(model, batches))


def unguarded(learner: Learner) -> Learner:
    """The learner itself."""
    return learner.learner if isinstance(learner, Guarded) else learner


def name_of(given: Any) -> str:
    """module:callable of a function or a class, as far as it has a name."""
    named = given if hasattr(given, "__qualname__") else type(given)
    return f"{named.__module__}:{named.__qualname__}"


def digest(values: Any) -> str:
    """By which arrays are known again."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
