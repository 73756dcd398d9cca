"""Run the trials of a pilot: in this process, or in several."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.experiments.executors import Executor, WorkerDiedError
from fedcell.experiments.jobs import JobResult, TrainingJob, TrainingResult, train, train_curve
from fedcell.experiments.store import Store
from fedcell.experiments.training import Curve, Race, Training, Until
from fedcell.learning.custom import CustomLearner
from fedcell.learning.data.download import Report
from fedcell.learning.engines.engine import available_threads
from fedcell.learning.learner import Learner, warm_up
from fedcell.learning.server_optimizer import CustomServer
from fedcell.learning.setup import TrainingSetup, prepare_training, require_learning
from fedcell.planning.setting import Setting
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.checks import own_learner_setup

from .trial import Trial

TrainedBy = Callable[[TrainingSetup], Learner]
MAX_DEATHS = 3  # trials that kill their process, each twice, before a pilot ends


@dataclass(frozen=True)
class TrialJob:
    """A trial to run, and when to cut it."""

    setting: Setting
    seed: int
    rounds: int
    deadline: float = inf  # on time.monotonic, which cannot be set
    race: Race | None = None  # with the other trials in flight


@dataclass(kw_only=True)
class PilotRunner:
    """Runs trials of a scenario; trials that a store holds are not run again."""

    scenario: Scenario
    target: Target
    data_dir: Path | None = None
    threads: int | None = None
    download: Report | None = None
    learner: CustomLearner | None = None  # of the user; None: that of the scenario
    server: CustomServer | None = None  # None: that of the scenario
    trained_by: TrainedBy | None = None  # learner in place of the engine, to the same bits
    store: Store | None = None
    engine: Executor | None = None  # None: this process, on `threads`
    dead: set[tuple[Setting, int]] = field(default_factory=set)  # trials that killed their process

    def setup(self, setting: Setting, seed: int) -> TrainingSetup:
        """Return what is trained in a trial."""
        return prepare_training(self._world(setting), seed, self.data_dir, self.download)

    def _world(self, setting: Setting) -> Scenario:
        require_learning(self.scenario)
        # Evaluated in every round: else G would be rounded up to the next evaluation.
        return setting.apply_to(self.scenario).using(learning={"evaluate_every": 1})

    @property
    def workers(self) -> int:
        """Return how many trials run at a time."""
        return getattr(self.engine, "workers", 1) if self.portable else 1

    @property
    def portable(self) -> bool:
        """Tell whether a trial can be stored and sent to another process: not with a learner or a
        server of the user, nor with measured gains."""
        built_in = self.learner is None and self.server is None and self.trained_by is None
        return built_in and self.scenario.cell.recorded is None

    def _until(self, wanted: TrialJob) -> Until:
        return Until(
            wanted.rounds,
            self.target,
            wanted.deadline,
            stop_if_unreachable=True,
            race=wanted.race,
            sampled=True,
        )

    def _job(self, wanted: TrialJob) -> TrainingJob:
        training = Training.of(self._world(wanted.setting), wanted.seed)
        return TrainingJob(training, self._until(wanted), self.data_dir)

    def run(self, wanted: TrialJob) -> Trial:
        """Run one trial in this process."""
        if self.portable:
            return self._keep(wanted, train(self._job(wanted), self.threads or available_threads()))
        scenario, learner, judge = self._learner(wanted.setting, wanted.seed)
        warm_up(learner)
        begin = time.perf_counter()
        trained = train_curve(
            scenario, learner, wanted.seed, self._until(wanted), self.server, judge
        )
        return self._trial(wanted, trained, time.perf_counter() - begin, trained.evaluation_seconds)

    def _learner(self, setting: Setting, seed: int) -> tuple[Scenario, Learner, Learner | None]:
        """Return the scenario of a trial with its D_j, the learner, and a judge on test data
        where the learner itself is none."""
        if self.learner is not None:
            world = setting.apply_to(self.scenario)
            if world.learning is not None:
                world = world.using(learning={"evaluate_every": 1})
            mine = self.learner(world, seed)
            return own_learner_setup(world, mine, seed).scenario, mine, None
        setup = self.setup(setting, seed)
        if self.trained_by is not None:
            return setup.scenario, self.trained_by(setup), None
        judge = setup.learner(self.threads)
        if self.target.needs_test:
            return setup.scenario, judge, None
        return setup.scenario, setup.learner(self.threads, test=False), judge

    def run_all(self, trial_jobs: Iterable[TrialJob]) -> Iterator[Trial]:
        """Yield trials as they end; jobs are taken one by one, when a worker is free."""
        if self.engine is None or not self.portable:
            for wanted in trial_jobs:
                yield self.run(wanted)
            return
        known: dict[TrainingJob, TrialJob] = {}

        def jobs() -> Iterator[TrainingJob]:
            for wanted in trial_jobs:
                job = self._job(wanted)
                known[job] = wanted
                yield job

        deaths = 0
        for job, done in self.engine.run(train, jobs()):
            if isinstance(done, WorkerDiedError):
                deaths += 1  # a single one does not end a pilot
                self.dead.add((known[job].setting, known[job].seed))
                if deaths == MAX_DEATHS:
                    raise BadInput(
                        f"{deaths} runs of the pilot killed their process, the last with "
                        f"{known[job].setting}: is there too little memory? Give fewer `workers`"
                    )
                continue
            if isinstance(done, Exception):
                raise done
            yield self._keep(known.pop(job), done)

    def stored(self, wanted: TrialJob) -> Trial | None:
        """Return a trial that the store holds, or None."""
        if self.store is None or not self.portable:
            return None
        job = self._job(wanted)
        for target in (None, self.target):  # exact ones first
            curve = self.store.get(job.training.key, wanted.seed, target)
            if curve is not None and curve.answers(job.until):
                return self._trial(wanted, curve.first(job.until), 0.0)
        return None

    def _keep(self, wanted: TrialJob, done: JobResult) -> Trial:
        if self.store is not None:
            self.store.put(done.curve, done.seconds)
        return self._trial(wanted, done.curve, done.seconds, done.evaluation_seconds)

    def _trial(
        self, wanted: TrialJob, curve: Curve | TrainingResult, seconds: float, judging: float = 0.0
    ) -> Trial:
        losses = curve.train_loss
        return Trial(
            setting=wanted.setting,
            seed=wanted.seed,
            losses=tuple([*losses[:-1], math.inf] if curve.diverged else losses),
            target=self.target,
            wall_seconds=round(seconds, 3),  # as a file keeps it
            judging_seconds=round(judging, 6),
            accuracies=() if self.target.accuracy is None else tuple(curve.accuracies),
            guessing=() if self.target.loss is None else tuple(curve.baseline_rounds),
            errors=() if curve.sampled is None else curve.sampled.errors,
            samples=() if curve.sampled is None else curve.sampled.samples,
            measured=tuple(curve.metrics.get(self.target.metric, ())),
        )
