"""Short runs to a loss, and what they say of the rounds that it takes."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcell.core.errors import BadInput, Diverged
from fedcell.core.targets import rounds_to
from fedcell.experiments.engines import SweepEngine
from fedcell.experiments.store import Store
from fedcell.experiments.training import Curve, Training, Until
from fedcell.experiments.work import Done, Job, Trained, train, train_curve
from fedcell.learning.data.download import Report
from fedcell.learning.engine import available_threads
from fedcell.learning.learner import Learner, warm_up
from fedcell.learning.setup import TrainingSetup, prepare_training, require_learning
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.checks import with_learner_sizes

from .design import Setting
from .lost_uploads import LossKind
from .observations import Observations

LEAST_SEEDS = 2  # whatever the budget: how seeds differ is not seen in one

LearnerFactory = Callable[[Scenario, int], Learner]  # yours, of a scenario and a seed


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a pilot: its training loss after each round, until the target or the end."""

    setting: Setting
    seed: int
    losses: Sequence[float]  # NaN where it was not evaluated; ends in infinity where it diverged
    target: float  # at which it was stopped
    wall_seconds: float  # that it took to run; its part of them where runs go on side by side
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


@dataclass(frozen=True)
class Ask:
    """A trial that is to be run."""

    setting: Setting
    seed: int
    probed: bool = False  # whether lambda is measured along it


@dataclass(kw_only=True)
class PilotRunner:
    """Runs trials of a scenario: here, or by an engine on several processes; what a store holds is
    not run again."""

    scenario: Scenario
    target: float
    rounds: int  # at most, in a trial
    data_dir: Path | None = None
    threads: int | None = None
    download: Report | None = None
    learner: LearnerFactory | None = None
    store: Store | None = None
    engine: SweepEngine | None = None  # None: here, on `threads`

    def setup(self, setting: Setting, seed: int) -> TrainingSetup:
        """What is trained in a trial."""
        return prepare_training(self._world(setting), seed, self.data_dir, self.download)

    def _world(self, setting: Setting) -> Scenario:
        require_learning(self.scenario)
        # Evaluated in every round, lest G be rounded up to the next evaluation.
        return setting.apply_to(self.scenario).using(learning={"evaluate_every": 1})

    @property
    def workers(self) -> int:
        """How many trials are under way at a time."""
        return getattr(self.engine, "workers", 1)

    @property
    def until(self) -> Until:
        """When a trial ends."""
        return Until(self.rounds, self.target)

    def _job(self, ask: Ask) -> Job:
        training = Training.of(self._world(ask.setting), ask.seed)
        return Job(training, self.until, self.data_dir, ask.probed)

    def run(self, setting: Setting, seed: int, measure_diversity: bool = False) -> Trial:
        """One trial, here; lambda is measured along it where that is asked for."""
        ask = Ask(setting, seed, measure_diversity)
        if self.portable:
            return self._keep(ask, train(self._job(ask), self.threads or available_threads()))
        scenario, learner = self._learner(setting, seed)
        warm_up(learner)
        begin = time.perf_counter()
        found = train_curve(scenario, learner, seed, self.until, measure_diversity)
        seconds = time.perf_counter() - begin
        return self._trial(ask, found, seconds)

    @property
    def portable(self) -> bool:
        """Whether a trial is a value that a store knows and another process can be sent: not with a
        learner of one's own, nor with measured gains."""
        return self.learner is None and self.scenario.cell.gains is None

    def _learner(self, setting: Setting, seed: int) -> tuple[Scenario, Learner]:
        """Who learns in a trial, and the scenario with its D_j."""
        if self.learner is not None:
            world = setting.apply_to(self.scenario)
            mine = self.learner(world, seed)
            return with_learner_sizes(world, mine), mine
        setup = self.setup(setting, seed)
        return setup.scenario, setup.learner(self.threads, test=False)

    def run_all(self, asked: Iterable[Ask]) -> Iterator[Trial]:
        """Trials as they end; what is asked is taken up one by one."""
        if self.engine is None or not self.portable:
            for ask in asked:
                yield self.run(ask.setting, ask.seed, ask.probed)
            return
        known: dict[Job, Ask] = {}

        def jobs() -> Iterator[Job]:
            for ask in asked:
                job = self._job(ask)
                known[job] = ask
                yield job

        for job, found in self.engine.run(train, jobs()):
            if isinstance(found, Exception):
                raise found
            yield self._keep(known.pop(job), found)

    def stored(self, ask: Ask) -> Trial | None:
        """A trial that the store holds, if it does."""
        if self.store is None or not self.portable:
            return None
        curve = self.store.get(self._job(ask).training.key, ask.seed)
        if curve is None or not curve.answers(self.until) or (ask.probed and not curve.diversity):
            return None
        return self._trial(ask, curve.first(self.until), 0.0)

    def _keep(self, ask: Ask, done: Done) -> Trial:
        if self.store is not None:
            self.store.put(done.curve, done.seconds)
        return self._trial(ask, done.curve, done.seconds / self.workers)

    def _trial(self, ask: Ask, found: Curve | Trained, seconds: float) -> Trial:
        losses = found.train_loss
        return Trial(
            setting=ask.setting,
            seed=ask.seed,
            losses=tuple([*losses[:-1], math.inf] if found.diverged else losses),
            target=self.target,
            wall_seconds=round(seconds, 3),  # as a file keeps it
            diversity=tuple(found.diversity),
        )


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
    found: deque[Trial] = deque()  # in the store

    def spent() -> float:
        return sum(map(sum, usual.values()))

    def count(trial: Trial) -> None:
        usual.setdefault(trial.setting, []).append(trial.wall_seconds)

    def asked() -> Iterator[Ask]:
        for place, seed in enumerate(seeds):
            for setting in settings:
                ask = Ask(setting, seed, place == 0 and setting == measured)
                trial = known.get((setting, seed))
                if trial is not None and trial.answers_for(runner.target, runner.rounds):
                    count(trial)
                elif (trial := runner.stored(ask)) is not None:
                    found.append(trial)
                    count(trial)
                else:
                    expected = float(np.mean(usual.get(setting, [0.0])))
                    if place >= LEAST_SEEDS and spent() + expected > budget:
                        return
                    yield ask

    for trial in runner.run_all(asked()):
        count(trial)
        yield from _drained(found)
        yield trial
    yield from _drained(found)


def _drained(found: "deque[Trial]") -> Iterator[Trial]:
    while found:
        yield found.popleft()


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
