"""A pilot: short runs, designed to tell the coefficients of the law of rounds apart.

Runs come in blocks: one seed (data dealt, model, dice), and every setting of the design
once. Settings are compared on the same luck, and the blocks show how much luck matters.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.data.download import Report
from fedcell.learning.gradients import probe
from fedcell.learning.learner import Learner, warm_up
from fedcell.learning.setup import Material, gather_material, prepare, wanted
from fedcell.network.draw import draw_fleet, replicates, rich
from fedcell.scenario.tables import Scenario
from fedcell.simulation.train import State, learn, with_sizes

from .observations import Observed

LEAST_BLOCKS = 2  # whatever the budget: luck is not seen in one
MOST_BLOCKS = 100
BLOWN = 100  # a training has diverged when its loss is so many times the first
PROBED = (1, 2, 4, 8, 16, 32)  # rounds after which lambda is measured, and before the first


@dataclass(frozen=True, order=True)
class Setting:
    """What the rounds to a loss depend on, the rest of a scenario being given."""

    cohort: int  # K
    local_steps: int  # E_l
    loss_rate: float  # gamma

    def of(self, scenario: Scenario) -> Scenario:
        lossy = scenario.using(cell={"loss_rate": self.loss_rate})
        return lossy.planned(self.cohort, self.local_steps)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a pilot: its training loss after each round, until the target or the end."""

    setting: Setting
    seed: int
    losses: Sequence[float]  # NaN where it was not evaluated
    target: float  # at which it was stopped
    seconds: float  # that it took to run
    diversity: Sequence[tuple[int, float]] = ()  # (round, lambda), in some runs

    def rounds_to(self, target: float) -> int | None:
        there = np.flatnonzero(np.asarray(self.losses) <= target)
        return int(there[0]) + 1 if there.size else None

    @property
    def diverged(self) -> bool:
        return math.isinf(self.losses[-1])

    def serves(self, target: float, rounds: int = 0) -> bool:
        """Whether a run to this target, of so many rounds at most, would not have gone on."""
        if self.rounds_to(target) is not None or self.diverged:
            return True
        return self.target <= target and len(self.losses) >= rounds


def design(scenario: Scenario, seed: int = 0) -> list[Setting]:
    """The settings of a block: four corners and the middle in K and E_l around the scenario's
    plan, and one with another loss rate.

    The corners tell K's term from E_l's two; the middle, which comes first, tells E_l's two
    from a constant; the last shows whether gamma acts through K (1 - gamma) alone.
    """
    plan, count = scenario.plan, int(rich(scenario, draw_fleet(scenario, seed)).sum())
    steps = local_steps(scenario)
    high = min(max(1, count), 4 * plan.cohort)
    low = max(1, high // 12)
    cohorts = low, _between(low, plan.cohort, high), high
    few = max(1, round(steps / 4))
    lengths = few, _between(few, steps, max(4 * few, 4 * steps)), max(4 * few, 4 * steps)
    gamma = scenario.cell.loss_rate
    places = [(1, 1), (0, 2), (2, 0), (2, 2), (0, 0)]
    settings = [Setting(cohorts[i], lengths[j], gamma) for i, j in places]
    settings.append(Setting(cohorts[0], lengths[1], other_loss_rate(gamma)))
    return list(dict.fromkeys(settings))


def other_loss_rate(gamma: float) -> float:
    return 0.4 if gamma < 0.2 else 0.0


def local_steps(scenario: Scenario) -> int:
    """E_l of a scenario; where it counts epochs, the steps of a client on average."""
    plan, sizes = scenario.plan, scenario.clients.sizes
    if not plan.local_epochs:
        return plan.local_steps
    samples = np.array([scenario.clients.samples]) if sizes is None else sizes.values
    return round(plan.local_epochs * float(np.ceil(samples / scenario.task.batch_size).mean()))


def _between(low: int, wanted: int, high: int) -> int:
    return wanted if low < wanted < high else max(low, round(math.sqrt(low * high)))


@dataclass(kw_only=True)
class Conductor:
    """Runs trials of a scenario, and remembers what all of them need."""

    scenario: Scenario
    target: float
    rounds: int  # at most, in a trial
    data_dir: Path | None = None
    threads: int | None = None
    download: Report | None = None
    learner: Callable[[Scenario, int], Learner] | None = None  # yours, of a scenario and a seed
    _data: Dataset | None = field(default=None, init=False)

    @property
    def planned(self) -> Setting:
        """The scenario's own setting."""
        plan = self.scenario.plan
        return Setting(plan.cohort, plan.local_steps, self.scenario.cell.loss_rate)

    def material(self, setting: Setting, seed: int) -> Material:
        wanted(self.scenario)
        # Evaluated in every round, lest G be rounded up to the next evaluation.
        world = setting.of(self.scenario).using(learning={"evaluate_every": 1})
        material = gather_material(world, seed, self.data_dir, self.download, self._data)
        self._data = material.data
        return material

    def _learner(self, setting: Setting, seed: int) -> tuple[Scenario, Any]:
        """Who learns in a trial, and the scenario with its D_j."""
        if self.learner is not None:
            world = setting.of(self.scenario)
            mine = self.learner(world, seed)
            return with_sizes(world, mine), mine
        material = self.material(setting, seed)
        return material.scenario, prepare(material, seed, self.threads, test=False)

    def run(self, setting: Setting, seed: int, watch: bool = False) -> Trial:
        """One trial; with `watch`, lambda is measured along it."""
        world, learner = self._learner(setting, seed)
        warm_up(learner)
        batch = self.scenario.task.batch_size
        begin, lambdas, diverged = time.perf_counter(), [], False

        def measure(state: State) -> None:
            if hasattr(learner, "gradients"):
                found = probe(learner, state.model, state.rounds, batch)
                lambdas.append((state.rounds, found.diversity))

        first = State.start(learner)
        if watch:
            measure(first)
        most = BLOWN * learner.evaluate(first.model).train_loss
        for state in _quietly(learn(world, learner, self.rounds, seed, first)):
            loss = float(state.records[-1, 1])
            overflown = state.records[-1, 0] > 0  # uploads that were not finite
            diverged = overflown or not loss <= most  # NaN too
            if diverged or loss <= self.target:
                break
            if watch and state.rounds in PROBED:
                measure(state)
        losses = state.records[:, 1].tolist()
        return Trial(
            setting=setting,
            seed=seed,
            losses=tuple([*losses[:-1], math.inf] if diverged else losses),
            target=self.target,
            seconds=round(time.perf_counter() - begin, 3),  # as a file keeps it
            diversity=tuple(lambdas),
        )


def _quietly(states: Iterator[State]) -> Iterator[State]:
    """The same, without warnings: divergence is looked for, and doubts are told once by runs."""
    while True:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            state = next(states, None)
        if state is None:
            return
        yield state


def seeds_of(seed: int, validation: bool = False) -> list[int]:
    """Seeds of the blocks of a pilot, or of those that it is judged by. They follow from
    `seed` and never include it, so that a run with it stays new."""
    every = replicates(seed, 2 * MOST_BLOCKS + 1)[1:]
    return every[MOST_BLOCKS:] if validation else every[:MOST_BLOCKS]


def conduct(
    conductor: Conductor,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    budget: float,
    done: Sequence[Trial] = (),
    watched: Setting | None = None,
) -> Iterator[Trial]:
    """Trials, one block for each seed, until the budget [s] is used up; those that are done
    already count, and are not run again. Two blocks are run in any case. lambda is measured
    along the first run of the `watched` setting."""
    known = {(trial.setting, trial.seed): trial for trial in done}
    usual: dict[Setting, list[float]] = {}
    spent = 0.0
    for block, seed in enumerate(seeds):
        for setting in settings:
            trial = known.get((setting, seed))
            if trial is None or not trial.serves(conductor.target, conductor.rounds):
                expected = float(np.mean(usual.get(setting, [0.0])))
                if block >= LEAST_BLOCKS and spent + expected > budget:
                    return
                trial = conductor.run(setting, seed, watch=block == 0 and setting == watched)
                yield trial
            usual.setdefault(setting, []).append(trial.seconds)
            spent += trial.seconds


def observe(trials: Sequence[Trial], target: float, kind: Any) -> Observed:
    """What trials say about a target, those that diverged left out."""
    kept = [trial for trial in trials if not trial.diverged]
    if not trials:
        raise BadInput("there are no runs yet: let the pilot go on")
    if not kept:
        raise BadInput("every run diverged: lower learning.rate")
    reached = [trial.rounds_to(target) for trial in kept]
    return Observed(
        cohort=np.array([trial.setting.cohort for trial in kept]),
        steps=np.array([trial.setting.local_steps for trial in kept]),
        loss_rate=np.array([trial.setting.loss_rate for trial in kept]),
        rounds=np.array(
            [len(t.losses) if g is None else g for g, t in zip(reached, kept, strict=True)], float
        ),
        censored=np.array([g is None for g in reached]),
        block=np.array([trial.seed for trial in kept]),
        kind=kind,
    )
