"""Short runs to a loss, and what they say of the rounds that it takes."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadInput, Diverged
from fedcell.core.targets import rounds_to
from fedcell.learning.data.dataset import Dataset
from fedcell.learning.data.download import Report
from fedcell.learning.gradients import probe
from fedcell.learning.learner import Differentiable, Learner, warm_up
from fedcell.learning.setup import TrainingSetup, prepare_training, require_learning
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.checks import with_learner_sizes
from fedcell.simulation.history import State
from fedcell.simulation.train import at_target, diverging, train_rounds

from .design import Setting
from .lost_uploads import LossKind
from .observations import Observations

LEAST_SEEDS = 2  # whatever the budget: how seeds differ is not seen in one
PROBED = (0, 1, 2, 4, 8, 16, 32)  # rounds after which lambda is measured

LearnerFactory = Callable[[Scenario, int], Learner]  # yours, of a scenario and a seed


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a pilot: its training loss after each round, until the target or the end."""

    setting: Setting
    seed: int
    losses: Sequence[float]  # NaN where it was not evaluated; ends in infinity where it diverged
    target: float  # at which it was stopped
    wall_seconds: float  # that it took to run
    diversity: Sequence[tuple[int, float]] = ()  # (round, lambda), in some runs

    def rounds_to(self, target: float) -> int | None:
        """G as observed; None if the loss was never there."""
        return rounds_to(self.losses, target)

    @property
    def diverged(self) -> bool:
        """Whether training blew up."""
        return math.isinf(self.losses[-1])

    def answers_for(self, target: float, rounds: int = 0) -> bool:
        """Whether a run to this target, of so many rounds at most, would not have gone on."""
        if self.rounds_to(target) is not None or self.diverged:
            return True
        return self.target <= target and len(self.losses) >= rounds


@dataclass(kw_only=True)
class PilotRunner:
    """Runs trials of a scenario, and remembers what all of them need."""

    scenario: Scenario
    target: float
    rounds: int  # at most, in a trial
    data_dir: Path | None = None
    threads: int | None = None
    download: Report | None = None
    learner: LearnerFactory | None = None
    _data: Dataset | None = field(default=None, init=False)

    def setup(self, setting: Setting, seed: int) -> TrainingSetup:
        """What is trained in a trial."""
        require_learning(self.scenario)
        # Evaluated in every round, lest G be rounded up to the next evaluation.
        world = setting.apply_to(self.scenario).using(learning={"evaluate_every": 1})
        setup = prepare_training(world, seed, self.data_dir, self.download, self._data)
        self._data = None if setup.dealt is None else setup.data
        return setup

    def _learner(self, setting: Setting, seed: int) -> tuple[Scenario, Learner]:
        """Who learns in a trial, and the scenario with its D_j."""
        if self.learner is not None:
            world = setting.apply_to(self.scenario)
            mine = self.learner(world, seed)
            return with_learner_sizes(world, mine), mine
        setup = self.setup(setting, seed)
        return setup.scenario, setup.learner(self.threads, test=False)

    def run(self, setting: Setting, seed: int, measure_diversity: bool = False) -> Trial:
        """One trial; lambda is measured along it where that is asked for."""
        scenario, learner = self._learner(setting, seed)
        warm_up(learner)
        begin = time.perf_counter()
        fleet = draw_fleet(scenario, seed)
        trace = draw_trace(scenario, fleet, self.rounds, seed)
        first = State.start(learner)
        blown = diverging(learner.evaluate(first.model).train_loss)
        lambdas: list[tuple[int, float]] = []
        rules = [blown, at_target(self.target)]
        state = first
        for state in _quietly(train_rounds(scenario, learner, fleet, trace, first, rules)):
            ends = any(rule(state) for rule in rules)
            wanted = measure_diversity and state.rounds in PROBED and not ends
            if wanted and isinstance(learner, Differentiable):
                found = probe(learner, state.model, state.rounds, scenario.task.batch_size)
                lambdas.append((state.rounds, found.diversity))
        losses = state.history.train_loss.tolist()
        return Trial(
            setting=setting,
            seed=seed,
            losses=tuple([*losses[:-1], math.inf] if blown(state) else losses),
            target=self.target,
            wall_seconds=round(time.perf_counter() - begin, 3),  # as a file keeps it
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


def run_trials(
    runner: PilotRunner,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    budget: float,
    done: Sequence[Trial] = (),
    measured: Setting | None = None,
) -> Iterator[Trial]:
    """Trials, every setting once for each seed, until the budget [s] is used up.

    Those that are done already count, and are not run again. Two seeds are run in any case.
    lambda is measured along the first run of the setting `measured`.
    """
    known = {(trial.setting, trial.seed): trial for trial in done}
    usual: dict[Setting, list[float]] = {}
    spent = 0.0
    for place, seed in enumerate(seeds):
        for setting in settings:
            trial = known.get((setting, seed))
            if trial is None or not trial.answers_for(runner.target, runner.rounds):
                expected = float(np.mean(usual.get(setting, [0.0])))
                if place >= LEAST_SEEDS and spent + expected > budget:
                    return
                trial = runner.run(setting, seed, place == 0 and setting == measured)
                yield trial
            usual.setdefault(setting, []).append(trial.wall_seconds)
            spent += trial.wall_seconds


def observe(trials: Sequence[Trial], target: float, kind: LossKind) -> Observations:
    """What trials say about a target, those that diverged left out."""
    kept = [trial for trial in trials if not trial.diverged]
    if not trials:
        raise BadInput("there are no runs yet: let the pilot go on")
    if not kept:
        raise Diverged("every run diverged: lower learning.rate")
    reached = [trial.rounds_to(target) for trial in kept]
    return Observations(
        cohort=np.array([trial.setting.cohort for trial in kept]),
        steps=np.array([trial.setting.local_steps for trial in kept]),
        loss_rate=np.array([trial.setting.loss_rate for trial in kept]),
        rounds=np.array(
            [len(t.losses) if g is None else g for g, t in zip(reached, kept, strict=True)], float
        ),
        censored=np.array([g is None for g in reached]),
        seed=np.array([trial.seed for trial in kept]),
        kind=kind,
    )
