"""The loop of a pilot: chooses the next trial from those so far, until its budget is used up."""

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedcell.core.errors import FedcellError
from fedcell.core.types import Array
from fedcell.experiments.training import Race
from fedcell.planning.law.fit import fit_law
from fedcell.planning.law.fitted import FittedLaw
from fedcell.planning.law.residuals import USUAL, Scales
from fedcell.planning.setting import Setting
from fedcell.simulation.extrapolation import MIN_ROUNDS, likely_rounds

from .candidates import GIVE_UP_RATIO, SETTLING_SHARE, CandidateSettings
from .pilot import Pilot
from .prior import RoundsPrior
from .runner import PilotRunner, TrialJob
from .trial import MAX_EXTRAPOLATION, Trial, nearest_to, observe

FIRST_TRIALS = 8  # a budget is for at least; none of the first takes more than its part
MAX_TRIALS = 200  # of a pilot: further ones would not change the plan
MAX_ROUNDS = 1000  # of a trial, where channels are drawn and the caller gives no number
FIRST_SETTINGS = 7  # that are tried before a law is fitted
FIRST_STRIDE = 2.0  # distance of these from settings already tried, over log K and log E_l
CENSORED = 0.4  # of log rounds: mean and deviation beyond where a trial was cut
# Times K and E_l, around a setting that did not reach the target: in time, or at all.
INWARD = ((0.5, 1), (1, 0.5), (0.5, 0.5), (0.25, 1), (0.25, 0.25))
OUTWARD = ((2, 1), (1, 2), (2, 2), (4, 1), (1, 0.5), (4, 4))
REFIT = 1.15  # times as many trials as before, after which scales are fitted again
MIN_GAIN = 3e-6  # share of the cost that another trial is expected to save at the least


class PilotLoop:
    """State of a pilot that runs: finished trials, those in flight, and the end of its budget."""

    def __init__(
        self,
        runner: PilotRunner,
        pilot: Pilot,
        settings: CandidateSettings,
        seeds: Sequence[int],
        rounds: int,  # after which a trial ends
        end: float,  # on time.monotonic, which cannot be set
        budget: float,  # [s] in all
    ) -> None:
        self.runner, self.pilot, self.settings, self.seeds = runner, pilot, settings, seeds
        self.rounds, self.end, self.budget = rounds, end, budget
        self.in_flight: set[tuple[Setting, int]] = set()
        self.stored: deque[Trial] = deque()  # trials that the store held
        self.scales: Scales | None = None
        self._fitted = 0  # trials that the scales were last fitted to
        self._race: Path | None = None

    @property
    def busy(self) -> set[tuple[Setting, int]]:
        """Return the trials that are in flight and may still end."""
        return self.in_flight - self.runner.dead

    @property
    def left(self) -> float:
        """Return the seconds of the budget that are left."""
        return self.end - time.monotonic()

    def trials(self) -> Iterator[tuple[Trial, Pilot]]:
        """Yield each trial, and the pilot with it, until the budget is used up."""
        with TemporaryDirectory(prefix="fedcell-") as folder:
            self._race = Path(folder) / "least-cost"
            for trial in self.runner.run_all(self._jobs()):
                yield from self._stored()
                self.in_flight.discard((trial.setting, trial.seed))
                self.pilot = self.pilot.with_trial(trial)
                self._publish_least_cost()
                yield trial, self.pilot
            yield from self._stored()

    def _publish_least_cost(self) -> None:
        """Write the least cost so far, by which trials in flight see that they are too dear."""
        least = self._least_cost()
        if self._race is not None and math.isfinite(least):
            new = self._race.with_suffix(".new")
            new.write_text(repr(least))
            new.replace(self._race)

    def _stored(self) -> Iterator[tuple[Trial, Pilot]]:
        while self.stored:
            yield self.stored.popleft(), self.pilot

    def _jobs(self) -> Iterator[TrialJob]:
        """Yield the next job, chosen when a worker is free. Never stop while trials are in flight:
        an exhausted iterator ends the pilot."""
        first = deque(self.settings.first())
        while self.left > 0 and len(self.pilot.trials) + len(self.busy) < MAX_TRIALS:
            runs = self._runs()
            while first and runs[first[0]]:
                first.popleft()
            job = self._first(first.popleft()) if first else self._next(runs)
            if job is None:
                return
            trial = self.runner.stored(job)
            if trial is not None:
                self.pilot = self.pilot.with_trial(trial)
                self.stored.append(trial)
                continue
            self.in_flight.add((job.setting, job.seed))
            yield job

    def _runs(self) -> Counter[Setting]:
        """Count the trials of each setting that count for the target, those in flight included."""
        done = Counter(trial.setting for trial in self.pilot.trials if self._is_done(trial))
        return done + Counter(setting for setting, _ in self.busy)

    def _is_done(self, trial: Trial) -> bool:
        """Tell whether a trial need not be run again: an easier target may have stopped it."""
        return trial.answers(self.pilot.target)

    def _job(self, setting: Setting, most: float, seconds: float = math.inf) -> TrialJob | None:
        """Return a job for a setting, on the first seed that it has not had."""
        had = {t.seed for t in self.pilot.trials if t.setting == setting and self._is_done(t)}
        had |= {seed for there, seed in self.in_flight if there == setting}
        seed = next((seed for seed in self.seeds if seed not in had), None)
        if seed is None:
            return None
        until = min(self.end, time.monotonic() + seconds)
        place, race = self.settings.index_of(setting), None
        if place is not None and self._race is not None:
            race = Race(self._race, float(self.settings.costs[place]), GIVE_UP_RATIO)
        return TrialJob(setting, seed, int(min(self.rounds, most)), until, race)

    def _first(self, setting: Setting) -> TrialJob | None:
        """Return the job of one of the first settings: to the end, within a share of the budget."""
        return self._job(setting, self._max_rounds(setting, self._least_cost()), self._share)

    def _max_rounds(self, setting: Setting, least: float) -> float:
        place = self.settings.index_of(setting)
        caps = self.settings.max_rounds(least, self.pilot.target.hold)
        return math.inf if place is None else float(caps[place])

    def _least_cost(self) -> float:
        """Return the least cost of a trial that reached the target."""
        costs = [math.inf]
        for trial in self.pilot.trials:
            place = self.settings.index_of(trial.setting)
            rounds = trial.rounds_to(self.pilot.target)
            if rounds is not None and place is not None:
                costs.append(rounds * float(self.settings.costs[place]))
        return min(costs)

    def _next(self, runs: Counter[Setting]) -> TrialJob | None:
        """Return the job with the largest knowledge gradient, or one that may reach the target
        where none has."""
        if not self.pilot.reached(self.pilot.target):
            return self._job_until_reached(runs)
        if len(runs) < FIRST_SETTINGS and (job := self._job_by_prior(runs)) is not None:
            return job
        law = self.law()
        if law is None:
            return self._job_until_reached(runs)
        space = self.settings
        mean, _ = law.log_rounds(space.cohorts, space.steps, space.loss_rate)
        best = space.best(law, self.pilot.reached(self.pilot.target))
        known = best is not None and np.isfinite(mean[best])
        least = float(np.exp(mean[best]) * space.costs[best]) if known else math.inf
        caps = np.minimum(space.max_rounds(least, self.pilot.target.hold), self.rounds)
        seconds = self.seconds(np.minimum(np.exp(np.minimum(mean, 50)), caps))
        in_flight = Counter(setting for setting, _ in self.busy)
        settle = self.left < SETTLING_SHARE * self.budget
        barred = self.pilot.diverged
        setting, gain = space.knowledge_gradient(
            law, runs, in_flight, seconds, self.left, settle, barred
        )
        if setting is None:
            return self._job_until_reached(runs) if not known else None
        if gain < MIN_GAIN and not settle and not self.busy and known:
            return None  # further trials would not change the plan
        share = math.inf if known else self._share
        return self._job(setting, self._max_rounds(setting, least), share)

    def _job_by_prior(self, runs: Counter[Setting]) -> TrialJob | None:
        """Return a job by the generic prior and the first few trials: at the setting with the least
        lower confidence bound of its cost."""
        target, space = self.pilot.target, self.settings
        known: list[tuple[int, float, float]] = []  # place, log rounds, its standard deviation
        for trial in self.pilot.trials:
            place, rounds = space.index_of(trial.setting), trial.rounds_to(target)
            if place is None or trial.diverged:
                continue
            if rounds is None:
                least = min(trial.least_rounds(target), MAX_EXTRAPOLATION * len(trial.losses))
                known.append((place, math.log(least) + CENSORED, CENSORED))
            else:
                known.append((place, math.log(rounds), USUAL.single))
        if not known:  # those that reached the target are outside the region of this pilot
            return None
        prior = RoundsPrior.generic(space)
        places, rounds_of, doubt = (np.array(column) for column in zip(*known, strict=True))
        prior = prior.conditioned_on(places, rounds_of, np.diag(doubt**2))
        busy = space.indices_of(setting for setting, _ in self.busy)
        prior = prior.conditioned_on(busy, prior.mean[busy], USUAL.single**2 * np.eye(busy.size))
        doubts = np.sqrt(np.maximum(np.diag(prior.covariance), 0.0))
        score = prior.mean + np.log(space.costs) - doubts
        score[self.seconds(np.exp(prior.mean)) > min(self._share, self.left)] = math.inf
        tried = space.indices_of(runs)
        score[space.away(tried) > FIRST_STRIDE] = math.inf
        score[tried] = math.inf
        never = self.pilot.never(target)
        for place in np.flatnonzero(np.isfinite(score)).tolist():
            if any(other.no_harder_than(space.setting(place)) for other in never):
                score[place] = math.inf
        best = int(score.argmin())
        if not math.isfinite(score[best]):
            return None
        setting = space.setting(best)
        return self._job(setting, self._max_rounds(setting, self._least_cost()), self._share)

    def _job_until_reached(self, runs: Counter[Setting]) -> TrialJob | None:
        """Return a job while no trial has reached the target: the setting whose curve reaches it
        soonest, with more time; one with less work a round, if time ran out before there were
        curves; else a setting near the one that came nearest."""
        target, space = self.pilot.target, self.settings
        share = self._share * 2.0 ** min(4, sum(runs.values()) // 4)  # no other is known
        watched = (t for t in self.pilot.trials if not t.diverged and len(t.values(target)))
        made = [t for t in watched if space.index_of(t.setting) is not None]
        hopeless = {*self.pilot.diverged, *self.pilot.settled(target)}
        there = {t.setting: self._seconds_to_target(t) for t in made if t.setting not in hopeless}
        soonest = min(there, key=lambda s: there[s], default=None)
        busy = {setting for setting, _ in self.busy}
        if soonest is not None and there[soonest] <= self.left and soonest not in busy:
            return self._job(soonest, math.inf, 1.5 * there[soonest])
        if made and all(len(t.losses) < MIN_ROUNDS for t in made):
            least = min(made, key=lambda t: t.setting.cohort * t.setting.local_steps).setting
            around = [(least.cohort * k, least.local_steps * e) for k, e in INWARD]
        elif made:
            sign = target.sign
            here = min(made, key=lambda t: sign * nearest_to(target, [t])).setting
            around = [(here.cohort * k, here.local_steps * e) for k, e in OUTWARD]
        else:  # no trial has ended yet, or all diverged
            many = 2 * max((s.cohort for s in runs), default=1)
            few = min((s.local_steps for s in runs), default=1) / 2
            around = [(many, few)]
        places = [space.nearest(*place) for place in around]
        if self.busy:  # any setting is better than none, which would end the pilot
            places += [space.setting(p) for p in np.argsort(space.away(space.indices_of(runs)))]
        fresh = (s for s in places if not runs[s] and s not in hopeless)
        setting = next(fresh, None)
        if setting is None:
            again = [s for s in there if s not in busy]
            setting = min(again, key=lambda s: runs[s], default=None)
        return None if setting is None else self._job(setting, math.inf, share)

    def _seconds_to_target(self, trial: Trial) -> float:
        """Return the seconds of a trial of the same setting to the target, by its curve."""
        rounds = likely_rounds(trial.values(self.pilot.target), self.pilot.target)
        each = trial.wall_seconds / max(1, len(trial.losses))
        return each * rounds if rounds <= self.rounds else math.inf

    @property
    def _share(self) -> float:
        """Return the seconds that a trial is given while none has reached the target."""
        return self.budget * self.runner.workers / FIRST_TRIALS

    def law(self) -> FittedLaw | None:
        """Return the law of the trials so far; None where none can be fitted."""
        target = self.pilot.target
        try:
            runs = observe(self.pilot.trials, target, self.pilot.kind)
            # The scales hardly move with one trial more, and fitting them takes most of the time.
            keep = self.scales is not None and runs.rounds.size < REFIT * self._fitted
            law = fit_law(runs, self.scales, keep)
        except FedcellError:
            return None
        if not keep:
            self.scales, self._fitted = law.residuals.scales, runs.rounds.size
        return replace(law, never=self.pilot.never(target))

    def seconds(self, rounds: Array) -> Array:
        """Return the seconds of a trial of `rounds` rounds at each setting, fitted to those so far:
        a start, and for each round a constant and a part for each step of a client."""
        from scipy.optimize import nnls

        timed = [t for t in self.pilot.trials if t.wall_seconds > 0]
        if not timed:
            return np.zeros(len(rounds))
        work = [t.setting.cohort * t.setting.local_steps for t in timed]
        made = np.array([len(t.losses) for t in timed], float)
        x = np.stack([np.ones(len(timed)), made, made * work], -1)
        y = np.array([t.wall_seconds for t in timed])
        start, each, step = nnls(x / y[:, None], np.ones(len(y)))[0]
        every = self.settings.cohorts * self.settings.steps
        return np.asarray(start + rounds * (each + step * every))
