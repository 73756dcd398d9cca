"""A pilot at work: what it knows so far, what it runs next, and how its time is spent."""

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedcell.core.errors import FedcellError
from fedcell.core.types import Array

from .departures import Scales
from .design import Setting
from .fit import fit_law
from .fitted import FittedLaw
from .pilot import Pilot
from .search import REST, Search
from .trial import Trial, observe
from .trials import Ask, PilotRunner

SHARE = 8  # runs that a budget is for at least: none of the first takes more than its part
MOST_RUNS = 200  # of a pilot: more of them would say no more
MOST_ROUNDS = 1000  # of a run, where channels are drawn and nobody says how many
NOTHING = 3e-6  # part of the cost that a run saves at the least, for it to be worth it


class Looking:
    """The state of a search: what was run, what is under way, and until when."""

    def __init__(
        self,
        runner: PilotRunner,
        pilot: Pilot,
        search: Search,
        seeds: Sequence[int],
        rounds: int,  # that a run ends after
        end: float,  # on time.monotonic, which cannot be set
        budget: float,  # [s] in all
    ) -> None:
        self.runner, self.pilot, self.search, self.seeds = runner, pilot, search, seeds
        self.rounds, self.end, self.budget = rounds, end, budget
        self.under_way: set[tuple[Setting, int]] = set()
        self.found: deque[Trial] = deque()  # in the store
        self.scales: Scales | None = None

    @property
    def busy(self) -> set[tuple[Setting, int]]:
        """What is under way and may still end."""
        return self.under_way - self.runner.dead

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.end - time.monotonic()

    def trials(self) -> Iterator[tuple[Trial, Pilot]]:
        """Each trial, and the pilot with it, until the budget is used up."""
        for trial in self.runner.run_all(self._asked()):
            yield from self._stored()
            self.under_way.discard((trial.setting, trial.seed))
            self.pilot = self.pilot.with_trial(trial)
            yield trial, self.pilot
        yield from self._stored()

    def _stored(self) -> Iterator[tuple[Trial, Pilot]]:
        while self.found:
            yield self.found.popleft(), self.pilot

    def _asked(self) -> Iterator[Ask]:
        """What is to be run, decided when somebody is free: whoever asks while all is under way
        gets something, for an end would be one for good."""
        first = deque(self.search.first())
        while self.left > 0 and len(self.pilot.trials) + len(self.busy) < MOST_RUNS:
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
            self.under_way.add((ask.setting, ask.seed))
            yield ask

    def _runs(self) -> Counter[Setting]:
        """Runs of each setting that tell of the target, those under way among them."""
        done = Counter(trial.setting for trial in self.pilot.trials if self._is_done(trial))
        return done + Counter(setting for setting, _ in self.busy)

    def _is_done(self, trial: Trial) -> bool:
        """Whether a trial need not be run again: an easier target may have stopped it."""
        return trial.answers(self.pilot.target)

    def _ask(self, setting: Setting, most: float, seconds: float = math.inf) -> Ask | None:
        """A run of a setting on the first seed that it has not had."""
        had = {t.seed for t in self.pilot.trials if t.setting == setting and self._is_done(t)}
        had |= {seed for there, seed in self.under_way if there == setting}
        seed = next((seed for seed in self.seeds if seed not in had), None)
        if seed is None:
            return None
        until = min(self.end, time.monotonic() + seconds)
        return Ask(setting, seed, int(min(self.rounds, most)), until)

    def _first(self, setting: Setting) -> Ask | None:
        """Of those to begin with: to the end, if it does not take too long."""
        share = self.budget * self.runner.workers / SHARE
        return self._ask(setting, self._most(setting, self._least_cost()), share)

    def _most(self, setting: Setting, least: float) -> float:
        place = self.search.place(setting)
        caps = self.search.most_rounds(least, self.pilot.target.hold)
        return math.inf if place is None else float(caps[place])

    def _least_cost(self) -> float:
        """Of the settings that got to the target, by their runs alone."""
        costs = [math.inf]
        for trial in self.pilot.trials:
            place = self.search.place(trial.setting)
            rounds = trial.rounds_to(self.pilot.target)
            if rounds is not None and place is not None:
                costs.append(rounds * float(self.search.costs[place]))
        return min(costs)

    def _next(self, runs: Counter[Setting]) -> Ask | None:
        """What the law says is most worth a run now; what else may get there where there is none
        yet."""
        law = self.law()
        if law is None:
            return self._otherwise(runs)
        space = self.search
        mean, _ = law.log_rounds(space.cohorts, space.steps, space.loss_rate)
        best = space.best(law, self.pilot.reached(self.pilot.target))
        known = best is not None and np.isfinite(mean[best])
        least = float(np.exp(mean[best]) * space.costs[best]) if known else math.inf
        caps = np.minimum(space.most_rounds(least, self.pilot.target.hold), self.rounds)
        seconds = self.seconds(np.minimum(np.exp(np.minimum(mean, 50)), caps))
        under_way = Counter(setting for setting, _ in self.busy)
        settle = self.left < REST * self.budget
        barred = self.pilot.diverged
        setting, gain = space.next(law, runs, under_way, seconds, self.left, settle, barred)
        if setting is None:
            return self._otherwise(runs) if not known else None
        if gain < NOTHING and not settle and not self.busy and known:
            return None  # nothing is left to be learnt
        share = math.inf if known else self.budget * self.runner.workers / SHARE
        return self._ask(setting, self._most(setting, least), share)

    def _otherwise(self, runs: Counter[Setting]) -> Ask | None:
        """A run where nothing is known yet: again of the first, unless they blew up or came to
        rest; then of more clients and fewer steps, which are steadier."""
        hopeless = {*self.pilot.diverged, *self.pilot.settled(self.pilot.target)}
        begun = [s for s in runs if self.search.place(s) is not None]
        hoped = [s for s in begun if s not in hopeless]
        if hoped:
            setting = min(hoped, key=lambda s: runs[s])
        else:
            many = 2 * max((s.cohort for s in begun), default=1)
            few = min((s.local_steps for s in begun), default=1) / 2
            setting = self.search.nearest(many, few)
            if runs[setting]:
                return None  # there is no such setting
        share = self.budget * self.runner.workers / SHARE
        return self._ask(setting, self._most(setting, self._least_cost()), share)

    def law(self) -> FittedLaw | None:
        """What the runs so far come to; None where they come to nothing."""
        target = self.pilot.target
        try:
            runs = observe(self.pilot.trials, target, self.pilot.kind)
            if runs.censored.all():  # as if each got there as soon as it can
                runs = replace(runs, censored=np.zeros(runs.rounds.size, bool))
            law = fit_law(runs, self.scales)
        except FedcellError:
            return None
        self.scales = law.departures.scales
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
