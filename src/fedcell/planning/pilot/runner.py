"""Who runs the trials of a pilot: here, or on several processes."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.experiments.executors import DiedError, SweepEngine
from fedcell.experiments.jobs import Done, Job, Trained, train, train_curve
from fedcell.experiments.store import Store
from fedcell.experiments.training import Curve, Race, Training, Until
from fedcell.learning.custom import OwnLearner
from fedcell.learning.data.download import Report
from fedcell.learning.engines.engine import available_threads
from fedcell.learning.learner import Learner, warm_up
from fedcell.learning.server_optimizer import OwnServer
from fedcell.learning.setup import TrainingSetup, prepare_training, require_learning
from fedcell.planning.setting import Setting
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.simulation.checks import own_learner_setup

from .trial import Trial

TrainedBy = Callable[[TrainingSetup], Learner]
MAX_DEATHS = 3  # of the processes that runs are made in, each twice, before a pilot ends


@dataclass(frozen=True)
class TrialJob:
    """A trial that is to be run, and when it is cut."""

    setting: Setting
    seed: int
    rounds: int
    deadline: float = inf  # on time.monotonic, which cannot be set
    race: Race | None = None  # with the other trials under way


@dataclass(kw_only=True)
class PilotRunner:
    """Runs trials of a scenario; what a store holds is not run again."""

    scenario: Scenario
    target: Target
    data_dir: Path | None = None
    threads: int | None = None
    download: Report | None = None
    learner: OwnLearner | None = None  # None: ours
    server: OwnServer | None = None  # None: that of the scenario
    trained_by: TrainedBy | None = None  # who trains in place of our engine, to the same bits
    store: Store | None = None
    engine: SweepEngine | None = None  # None: here, on `threads`
    dead: set[tuple[Setting, int]] = field(default_factory=set)  # runs that killed their process

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
        return getattr(self.engine, "workers", 1) if self.portable else 1

    @property
    def portable(self) -> bool:
        """Whether a trial is a value that a store knows and another process can be sent: not with a
        learner or a server of one's own, nor with measured gains."""
        ours = self.learner is None and self.server is None and self.trained_by is None
        return ours and self.scenario.cell.gains is None

    def _until(self, ask: TrialJob) -> Until:
        return Until(
            ask.rounds, self.target, ask.deadline, hopeful=True, race=ask.race, sampled=True
        )

    def _job(self, ask: TrialJob) -> Job:
        training = Training.of(self._world(ask.setting), ask.seed)
        return Job(training, self._until(ask), self.data_dir)

    def run(self, ask: TrialJob) -> Trial:
        """One trial, here."""
        if self.portable:
            return self._keep(ask, train(self._job(ask), self.threads or available_threads()))
        scenario, learner, judge = self._learner(ask.setting, ask.seed)
        warm_up(learner)
        begin = time.perf_counter()
        found = train_curve(scenario, learner, ask.seed, self._until(ask), self.server, judge)
        return self._trial(ask, found, time.perf_counter() - begin, found.judging)

    def _learner(self, setting: Setting, seed: int) -> tuple[Scenario, Learner, Learner | None]:
        """The learner of a trial, the scenario with its D_j, and a judge on test data where the
        learner itself is none."""
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
        if self.target.accuracy is not None:
            return setup.scenario, judge, None
        return setup.scenario, setup.learner(self.threads, test=False), judge

    def run_all(self, asked: Iterable[TrialJob]) -> Iterator[Trial]:
        """Trials as they end; what is asked is taken up one by one, when somebody is free."""
        if self.engine is None or not self.portable:
            for ask in asked:
                yield self.run(ask)
            return
        known: dict[Job, TrialJob] = {}

        def jobs() -> Iterator[Job]:
            for ask in asked:
                job = self._job(ask)
                known[job] = ask
                yield job

        deaths = 0
        for job, found in self.engine.run(train, jobs()):
            if isinstance(found, DiedError):
                deaths += 1  # one is no reason to give up a pilot
                self.dead.add((known[job].setting, known[job].seed))
                if deaths == MAX_DEATHS:
                    raise BadInput(
                        f"{deaths} runs of the pilot killed their process, the last with "
                        f"{known[job].setting}: is there too little memory? Give fewer `workers`"
                    )
                continue
            if isinstance(found, Exception):
                raise found
            yield self._keep(known.pop(job), found)

    def stored(self, ask: TrialJob) -> Trial | None:
        """A trial that the store holds, if it does."""
        if self.store is None or not self.portable:
            return None
        job = self._job(ask)
        for target in (None, self.target):  # exact ones first
            curve = self.store.get(job.training.key, ask.seed, target)
            if curve is not None and curve.answers(job.until):
                return self._trial(ask, curve.first(job.until), 0.0)
        return None

    def _keep(self, ask: TrialJob, done: Done) -> Trial:
        if self.store is not None:
            self.store.put(done.curve, done.seconds)
        return self._trial(ask, done.curve, done.seconds, done.judging)

    def _trial(
        self, ask: TrialJob, found: Curve | Trained, seconds: float, judging: float = 0.0
    ) -> Trial:
        losses = found.train_loss
        return Trial(
            setting=ask.setting,
            seed=ask.seed,
            losses=tuple([*losses[:-1], math.inf] if found.diverged else losses),
            target=self.target,
            wall_seconds=round(seconds, 3),  # as a file keeps it
            judging_seconds=round(judging, 6),
            accuracies=() if self.target.accuracy is None else tuple(found.accuracies),
            guessing=() if self.target.loss is None else tuple(found.guessing),
            errors=() if found.sampled is None else found.sampled.errors,
            samples=() if found.sampled is None else found.sampled.samples,
        )
