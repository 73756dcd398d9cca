"""One training of a sweep: what is trained, when it ends, and its curve."""

import hashlib
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.version import __version__
from fedcell.learning.custom import sources_of
from fedcell.learning.data.dataset import file_stamp, load_data
from fedcell.learning.data.owners import Owner
from fedcell.learning.data.sources import PUBLISHED
from fedcell.learning.partition.given import settle_owners
from fedcell.learning.setup import data_fingerprint
from fedcell.network.selectors.history import Row
from fedcell.network.selectors.names import given_code
from fedcell.scenario.identity import training_identity
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.load import scenario_of
from fedcell.scenario.save import to_tables
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Scored, Target


@dataclass(frozen=True)
class Race:
    """Parallel trainings: one that costs far more than a finished one ends."""

    file: Path  # holds the least cost of trainings that have reached the target
    cost: float  # of a round of this training
    worse: float  # multiple of the least cost at which it ends

    def is_lost(self, rounds: int) -> bool:
        """Return whether these rounds cost too much already; False if the file cannot be read."""
        try:
            least = float(self.file.read_text())
        except (OSError, ValueError):
            return False
        return rounds * self.cost > self.worse * least


@dataclass(frozen=True)
class Until:
    """When a training ends: after `rounds`, at its target, at a deadline, or early where its target
    is out of reach."""

    rounds: int
    target: Target | None = None
    deadline: float = math.inf  # on time.monotonic
    stop_if_unreachable: bool = False  # stop when the curve cannot reach the target in `rounds`
    test_every_round: bool = False  # evaluate on test data after each round, whatever the target
    race: Race | None = None
    sampled: bool = False  # evaluate models far from the target on a part of the samples

    @property
    def tested(self) -> bool:
        """Whether models are evaluated on test data after each round."""
        return self.test_every_round or (self.target is not None and self.target.needs_test)


@dataclass(frozen=True)
class Training:
    """A training as a value: complete, hashable, with a key that names it in a store."""

    tables: str  # the scenario, as JSON with sorted keys
    seed: int

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> "Training":
        """Return the training of a scenario on one seed, evaluated after each round."""
        if scenario.cell.recorded is not None:
            key = "gains" if scenario.cell.gains is not None else "channel.measured"
            raise BadInput(f"cell.{key}: a sweep draws its channels; leave measured ones out")
        world = scenario.using(learning={"evaluate_every": 1, **goal_keys(None)})
        return cls(json.dumps(to_tables(world), sort_keys=True), seed)

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario that is trained."""
        return scenario_of(json.loads(self.tables), Path())

    @cached_property
    def key(self) -> str:
        """Name in a store: the same for all trainings with the same losses."""
        learning = self.scenario.learning
        if learning is None:
            raise BadInput("the scenario has no [learning]: there is nothing to train")
        scenario, data = self.scenario, None
        if not learning.analytic:
            data, owner, samples = _described(learning.dataset, file_stamp(learning.dataset))
            scenario, partition = settle_owners(scenario, learning, owner, samples)
            data = data_fingerprint(data, partition, learning.partition.kind)
        identity = training_identity(scenario, data, self.seed)
        if ":" in scenario.plan.selection:
            identity["selector"] = selector_sources(scenario)
        text = json.dumps(identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def selector_sources(scenario: Scenario) -> list[str]:
    """Return the checksums of the source files of a selector of the user's; refuse one without."""
    code, name = given_code(scenario.plan.selection)
    sources = sources_of(code, name)
    if not sources:
        raise BadInput(
            f"the selector {name} has no source file, so its trainings cannot be told from those "
            "of another version: define it in a module"
        )
    return sorted(sources.values())


@lru_cache(maxsize=64)
def _described(dataset: str, stamp: Hashable) -> tuple[str, Owner | None, int]:  # noqa: ARG001
    """Return the fingerprint of a dataset, the owners of its training samples and their number;
    known for a published one. `stamp` changes with the files."""
    if (source := PUBLISHED.get(dataset)) is not None:
        return source.fingerprint, None, source.sizes[0]
    data = load_data(dataset)
    return data.fingerprint, data.owner, len(data.y_train)


Scores = tuple[float | None, float | None]  # loss and accuracy on test data


@dataclass(frozen=True)
class Sampled:
    """Standard errors of a curve with models evaluated on a part of the samples: all of them
    near the target, few far from it."""

    target: Target  # that the samples were chosen for
    errors: tuple[float, ...]  # standard error of the target's metric by round; 0: exact
    samples: tuple[int, ...]  # that the model of each round was evaluated on

    @property
    def digest(self) -> str:
        """Short name of the target: sampled curves of one training differ by it."""
        return target_digest(self.target)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a file holds them."""
        return asdict(self) | {"target": self.target.to_dict()}

    def first(self, rounds: int) -> "Sampled":
        """Return those of the first rounds."""
        return replace(self, errors=self.errors[:rounds], samples=self.samples[:rounds])


def target_digest(target: Target) -> str:
    """Return a short name of a target."""
    text = f"{target.column} {target.value!r} {target.hold}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The curve of a training: the training loss after each round, and scores of the last model."""

    key: str
    seed: int
    train_loss: Sequence[float]  # (2) after each round
    test_loss: float | None = None  # of the last model
    accuracy: float | None = None  # of the last model, on test data
    diverged: bool = False  # in its last round
    ends: Mapping[int, Scores] = field(default_factory=dict)  # scores of shorter runs, by rounds
    vector_width: int | None = None  # of the machine code that trained; None: it has none
    version: str = __version__  # of the fedcell that trained
    accuracies: Sequence[float] = ()  # on test data after each round, where evaluated
    baseline_rounds: Sequence[int] = ()  # from 1: no better than the majority class
    sampled: Sampled | None = None  # None: every model was evaluated on all samples
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)  # others, as accuracies
    chosen: Sequence[Row] = ()  # clients of each round, where a rule that learns chose them

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.train_loss)

    def values(self, target: Target) -> Sequence[float]:
        """What a target is looked for in."""
        return tuple(self.scored.values(target))

    def reached(self, target: Target | None) -> int | None:
        """Return the rounds to a target; None if it was not reached."""
        return None if target is None else target.reached_by(self.scored)

    @property
    def scored(self) -> Scored:
        """The measurements after each round, in which a target is looked for."""
        return Scored(
            train_loss=self.train_loss,
            accuracy=self.accuracies,
            guessing=self.baseline_rounds,
            metrics=self.metrics,
        )

    def counted(self, target: Target) -> Sequence[float]:
        """Return the metric of a target, infinitely far from it in rounds that do not count."""
        values = np.array(self.values(target), float)
        unsound = self.scored.unsound(target)
        rounds = unsound[unsound <= values.size] - 1
        sign = target.sign
        values[rounds[sign * values[rounds] <= sign * target.value]] = sign * math.inf
        return tuple(values.tolist())

    def answers(self, until: Until) -> bool:
        """Return whether a training until then would have no more rounds."""
        if self.sampled is not None and not (until.sampled and until.target == self.sampled.target):
            return False
        if until.test_every_round and len(self.accuracies) < self.rounds:
            return False
        if self.reached(until.target) is not None:
            return True
        known = self.rounds if until.target is None else len(self.values(until.target))
        return known >= until.rounds or (self.diverged and known == self.rounds)

    def first(self, until: Until) -> "Curve":
        """Return the curve of a training until then; the scores of its last model are known where
        one of that length was run."""
        end = min(self.rounds, until.rounds, self.reached(until.target) or self.rounds)
        if end == self.rounds:
            return self
        loss, accuracy = self.ends.get(end, (None, None))
        return replace(
            self,
            train_loss=self.train_loss[:end],
            accuracies=self.accuracies[:end],
            metrics={name: values[:end] for name, values in self.metrics.items()},
            baseline_rounds=tuple(round for round in self.baseline_rounds if round <= end),
            test_loss=loss,
            accuracy=accuracy,
            diverged=False,
            chosen=self.chosen[:end],
            sampled=None if self.sampled is None else self.sampled.first(end),
        )

    def same_bits(self, other: "Curve") -> bool:
        """Return whether another curve of this training has the same losses, to the bit."""
        return (self.vector_width, self.version) == (other.vector_width, other.version)

    def joined(self, other: "Curve") -> "Curve":
        """Return the longer of two curves of one training, with the scores of both."""
        longer = other if other.rounds > self.rounds else self
        ends = {c.rounds: (c.test_loss, c.accuracy) for c in (self, other)}
        ends = {**self.ends, **other.ends, **ends}
        ends.pop(longer.rounds)
        accuracies = max(self.accuracies, other.accuracies, key=len)
        baseline = tuple(sorted({*self.baseline_rounds, *other.baseline_rounds}))
        metrics = {**self.metrics, **other.metrics}
        for name in self.metrics.keys() & other.metrics.keys():
            metrics[name] = max(self.metrics[name], other.metrics[name], key=len)
        return replace(
            longer, ends=ends, accuracies=accuracies, metrics=metrics, baseline_rounds=baseline
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as a file holds them; null in rounds without an evaluation."""
        return {
            "key": self.key,
            "seed": self.seed,
            "train_loss": [x if math.isfinite(x) else None for x in self.train_loss],
            "test_loss": self.test_loss,
            "accuracy": self.accuracy,
            "diverged": self.diverged,
            "vector_width": self.vector_width,
            **({"accuracies": list(self.accuracies)} if self.accuracies else {}),
            **({"metrics": self.metrics} if self.metrics else {}),
            **({"guessing": list(self.baseline_rounds)} if self.baseline_rounds else {}),
            **({"ends": [[n, *scores] for n, scores in self.ends.items()]} if self.ends else {}),
            **({} if self.sampled is None else {"sampled": self.sampled.to_dict()}),
            **({"chosen": [row.to_list() for row in self.chosen]} if self.chosen else {}),
        }
