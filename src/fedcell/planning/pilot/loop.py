"""A pilot at work: what it knows so far, what it runs next, and how its time is spent."""

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
from fedcell.simulation.extrapolation import FEWEST, likely_rounds

from .candidates import GIVE_UP_RATIO, SETTLING_SHARE, CandidateSettings
from .pilot import Pilot
from .prior import RoundsPrior
from .runner import PilotRunner, TrialJob
from .trial import FAR, Trial, nearest_to, observe

SHARE = 8  # runs that a budget is for at least: none of the first takes more than its part
MAX_TRIALS = 200  # of a pilot: more of them would say no more
MAX_ROUNDS = 1000  # of a run, where channels are drawn and nobody says how many
FIRST_SETTINGS = 7  # that are tried before a law is fitted to them
FIRST_STRIDE = 2.0  # how far from what was tried one of these may be, in parts of e
CENSORED = 0.4  # of log rounds: how much later a run that was cut is expected, and how unsure
# Times K and E_l, around a setting that did not reach the target: in time, or at all.
INWARD = ((0.5, 1), (1, 0.5), (0.5, 0.5), (0.25, 1), (0.25, 0.25))
OUTWARD = ((2, 1), (1, 2), (2, 2), (4, 1), (1, 0.5), (4, 4))
REFIT = 1.15  # times as many runs as before, after which scales are fitted again
MIN_GAIN = 3e-6  # part of the cost that a run saves at the least, for it to be worth it


class PilotLoop:
    """The state of a search: what was run, what is under way, and until when."""

    def __init__(
        self,
        runner: PilotRunner,
        pilot: Pilot,
        search: CandidateSettings,
        seeds: Sequence[int],
        rounds: int,  # that a run ends after
        end: float,  # on time.monotonic, which cannot be set
        budget: float,  # [s] in all
    ) -> None:
        self.runner, self.pilot, self.search, self.seeds = runner, pilot, search, seeds
        self.rounds, self.end, self.budget = rounds, end, budget
        self.in_flight: set[tuple[Setting, int]] = set()
        self.found: deque[Trial] = deque()  # in the store
        self.scales: Scales | None = None
        self._fitted = 0  # runs that the scales were last fitted to
        self._race: Path | None = None

    @property
    def busy(self) -> set[tuple[Setting, int]]:
        """What is under way and may still end."""
        return self.in_flight - self.runner.dead

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.end - time.monotonic()

    def trials(self) -> Iterator[tuple[Trial, Pilot]]:
        """Each trial, and the pilot with it, until the budget is used up."""
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
        """Writes down the least cost so far, by which trials under way know they are beaten."""
        least = self._least_cost()
        if self._race is not None and math.isfinite(least):
            new = self._race.with_suffix(".new")
            new.write_text(repr(least))
            new.replace(self._race)

    def _stored(self) -> Iterator[tuple[Trial, Pilot]]:
        while self.found:
            yield self.found.popleft(), self.pilot

    def _jobs(self) -> Iterator[TrialJob]:
        """What is to be run, decided when somebody is free: whoever asks while all is under way
        gets something, for an end would be one for good."""
        first = deque(self.search.first())
        while self.left > 0 and len(self.pilot.trials) + len(self.busy) < MAX_TRIALS:
            runs = self._runs()
            while first and runs[first[0]]:
                first.popleft()
            ask = self._first(first.popleft()) if first else self._next(runs)
            if ask is None:
                return
            trial = self.runner.stored(ask)
            if trial is not None:
                self.pilot = self.pilot.with_trial(trial)
                self.found.append(trial)
                continue
            self.in_flight.add((ask.setting, ask.seed))
            yield ask

    def _runs(self) -> Counter[Setting]:
        """Runs of each setting that tell of the target, those under way among them."""
        done = Counter(trial.setting for trial in self.pilot.trials if self._is_done(trial))
        return done + Counter(setting for setting, _ in self.busy)

    def _is_done(self, trial: Trial) -> bool:
        """Whether a trial need not be run again: an easier target may have stopped it."""
        return trial.answers(self.pilot.target)

    def _job(self, setting: Setting, most: float, seconds: float = math.inf) -> TrialJob | None:
        """A run of a setting on the first seed that it has not had."""
        had = {t.seed for t in self.pilot.trials if t.setting == setting and self._is_done(t)}
        had |= {seed for there, seed in self.in_flight if there == setting}
        seed = next((seed for seed in self.seeds if seed not in had), None)
        if seed is None:
            return None
        until = min(self.end, time.monotonic() + seconds)
        place, race = self.search.index_of(setting), None
        if place is not None and self._race is not None:
            race = Race(self._race, float(self.search.costs[place]), GIVE_UP_RATIO)
        return TrialJob(setting, seed, int(min(self.rounds, most)), until, race)

    def _first(self, setting: Setting) -> TrialJob | None:
        """Of those to begin with: to the end, if it does not take too long."""
        return self._job(setting, self._most(setting, self._least_cost()), self._share)

    def _most(self, setting: Setting, least: float) -> float:
        place = self.search.index_of(setting)
        caps = self.search.most_rounds(least, self.pilot.target.hold)
        return math.inf if place is None else float(caps[place])

    def _least_cost(self) -> float:
        """Of the settings that got to the target, by their runs alone."""
        costs = [math.inf]
        for trial in self.pilot.trials:
            place = self.search.index_of(trial.setting)
            rounds = trial.rounds_to(self.pilot.target)
            if rounds is not None and place is not None:
                costs.append(rounds * float(self.search.costs[place]))
        return min(costs)

    def _next(self, runs: Counter[Setting]) -> TrialJob | None:
        """What the law says is most worth a run now; what else may get there where there is none
        yet."""
        if not self.pilot.reached(self.pilot.target):
            return self._job_until_reached(runs)
        if len(runs) < FIRST_SETTINGS and (ask := self._job_by_prior(runs)) is not None:
            return ask
        law = self.law()
        if law is None:
            return self._job_until_reached(runs)
        space = self.search
        mean, _ = law.log_rounds(space.cohorts, space.steps, space.loss_rate)
        best = space.best(law, self.pilot.reached(self.pilot.target))
        known = best is not None and np.isfinite(mean[best])
        least = float(np.exp(mean[best]) * space.costs[best]) if known else math.inf
        caps = np.minimum(space.most_rounds(least, self.pilot.target.hold), self.rounds)
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
            return None  # nothing is left to be learnt
        share = math.inf if known else self._share
        return self._job(setting, self._most(setting, least), share)

    def _job_by_prior(self, runs: Counter[Setting]) -> TrialJob | None:
        """A run of a setting that may be the plan, as far as what is usual and the first few runs
        tell: where the cost may be least, a standard deviation of doubt in its favour."""
        target, space = self.pilot.target, self.search
        known: list[tuple[int, float, float]] = []  # place, log rounds, its standard deviation
        for trial in self.pilot.trials:
            place, rounds = space.index_of(trial.setting), trial.rounds_to(target)
            if place is None or trial.diverged:
                continue
            if rounds is None:
                least = min(trial.least_rounds(target), FAR * len(trial.losses))
                known.append((place, math.log(least) + CENSORED, CENSORED))
            else:
                known.append((place, math.log(rounds), USUAL.single))
        if not known:  # those that reached the target are beyond the ranges of this search
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
        return self._job(setting, self._most(setting, self._least_cost()), self._share)

    def _job_until_reached(self, runs: Counter[Setting]) -> TrialJob | None:
        """A run while none has reached the target: again of the setting whose curve says that it
        gets there soonest, with more time; of less work a round, if time ran out before curves
        said anything; else of settings around the one that came nearest."""
        target, space = self.pilot.target, self.search
        share = self._share * 2.0 ** min(4, sum(runs.values()) // 4)  # nothing else is known to pay
        watched = (t for t in self.pilot.trials if not t.diverged and len(t.values(target)))
        made = [t for t in watched if space.index_of(t.setting) is not None]
        hopeless = {*self.pilot.diverged, *self.pilot.settled(target)}
        there = {t.setting: self._seconds_to_target(t) for t in made if t.setting not in hopeless}
        soonest = min(there, key=lambda s: there[s], default=None)
        busy = {setting for setting, _ in self.busy}
        if soonest is not None and there[soonest] <= self.left and soonest not in busy:
            return self._job(soonest, math.inf, 1.5 * there[soonest])
        if made and all(len(t.losses) < FEWEST for t in made):
            least = min(made, key=lambda t: t.setting.cohort * t.setting.local_steps).setting
            around = [(least.cohort * k, least.local_steps * e) for k, e in INWARD]
        elif made:
            sign = 1 if target.accuracy is None else -1
            here = min(made, key=lambda t: sign * nearest_to(target, [t])).setting
            around = [(here.cohort * k, here.local_steps * e) for k, e in OUTWARD]
        else:  # nothing has ended yet, or all of it diverged
            many = 2 * max((s.cohort for s in runs), default=1)
            few = min((s.local_steps for s in runs), default=1) / 2
            around = [(many, few)]
        places = [space.nearest(*place) for place in around]
        if self.busy:  # whatever comes of it: a search that has nothing to ask for ends
            places += [space.setting(p) for p in np.argsort(space.away(space.indices_of(runs)))]
        fresh = (s for s in places if not runs[s] and s not in hopeless)
        setting = next(fresh, None)
        if setting is None:
            again = [s for s in there if s not in busy]
            setting = min(again, key=lambda s: runs[s], default=None)
        return None if setting is None else self._job(setting, math.inf, share)

    def _seconds_to_target(self, trial: Trial) -> float:
        """How long a run of the same setting would take to the target, by the curve of a trial."""
        rounds = likely_rounds(trial.values(self.pilot.target), self.pilot.target)
        each = trial.wall_seconds / max(1, len(trial.losses))
        return each * rounds if rounds <= self.rounds else math.inf

    @property
    def _share(self) -> float:
        """Seconds that a run is given while none has reached the target."""
        return self.budget * self.runner.workers / SHARE

    def law(self) -> FittedLaw | None:
        """What the runs so far come to; None where they come to nothing."""
        target = self.pilot.target
        try:
            runs = observe(self.pilot.trials, target, self.pilot.kind)
            # The scales hardly move with one run more, and they are what takes time.
            keep = self.scales is not None and runs.rounds.size < REFIT * self._fitted
            law = fit_law(runs, self.scales, keep)
        except FedcellError:
            return None
        if not keep:
            self.scales, self._fitted = law.residuals.scales, runs.rounds.size
        return replace(law, never=self.pilot.never(target))

    def seconds(self, rounds: Array) -> Array:
        """What a run of so many rounds takes at each setting, by the runs so far: a start, and
        rounds of which each has a part of its own and one for each step of a client."""
        from scipy.optimize import nnls

        timed = [t for t in self.pilot.trials if t.wall_seconds > 0]
        if not timed:
            return np.zeros(len(rounds))
        work = [t.setting.cohort * t.setting.local_steps for t in timed]
        made = np.array([len(t.losses) for t in timed], float)
        x = np.stack([np.ones(len(timed)), made, made * work], -1)
        y = np.array([t.wall_seconds for t in timed])
        start, each, step = nnls(x / y[:, None], np.ones(len(y)))[0]
        every = self.search.cohorts * self.search.steps
        return np.asarray(start + rounds * (each + step * every))
