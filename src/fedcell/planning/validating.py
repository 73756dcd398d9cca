"""Judging a pilot by runs that it has not seen."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.core.quantities import parse_duration
from fedcell.experiments.store import Store
from fedcell.learning.own import LearnerLike, OwnLearner, name_of
from fedcell.learning.server import OwnServer
from fedcell.scenario.identity import check_pilot_identity
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.run import Progress

from .design import Setting, trial_seeds, validation_settings
from .pilot import Pilot
from .piloting import Report
from .preparing import (
    check_same_code,
    holding,
    most_rounds,
    note_changed_code,
    pilot_engine,
    prepare_pilot,
    resumed_from,
)
from .trial import Trial
from .trials import Ask, PilotRunner
from .validate import Validation, check_law


def validate_pilot(
    scenario: Scenario,
    pilot: Pilot,
    budget: float | str = 60.0,
    path: str | Path | None = None,
    *,
    rounds: int | None = None,
    name: str = "the scenario",
    data_dir: Path | None = None,
    threads: int | None = None,
    workers: int | None = None,
    store: Store | None = None,
    learner: LearnerLike | None = None,
    server: OwnServer | None = None,
    progress: Progress = Progress(),  # noqa: B008
    report: Report | None = None,
) -> Validation:
    """Judges a pilot by runs that it has not seen: other K and E_l, and other seeds.

    The arguments are those of `run_pilot`, also the `learner` and the `server` that it was run
    with; with a `path` the runs are kept, and gone on with.
    """
    begin = time.monotonic()
    seconds = parse_duration(budget, "`budget`")
    own = OwnLearner.of(learner)
    given = None if own is None else own.name, None if server is None else name_of(server)
    check_same_code(pilot, *given)
    runner, empty, _ = prepare_pilot(
        scenario, pilot.target, pilot.seed, name, data_dir, threads, own, progress, server
    )
    runner = replace(runner, store=store, engine=pilot_engine(scenario, workers, runner))
    check_pilot_identity(pilot.identity, empty.identity, pilot.path)
    note_changed_code(pilot, empty)
    law = pilot.fit()
    reached = pilot.reached(pilot.target)
    if not reached:
        raise BadInput("every setting that got to the target also blew up: lower learning.rate")
    settings = validation_settings(reached, pilot.tried)
    most = most_rounds(scenario, rounds)
    empty = replace(empty, what="validation")
    made = empty
    with holding(path):
        made = empty if path is None else resumed_from(Path(path), empty)
        known = {(trial.setting, trial.seed) for trial in made.trials}
        seeds = trial_seeds(pilot.seed, validation=True)
        asked = _in_turn(settings, seeds, most, known)
        end = begin + seconds - made.seconds
        before = made.seconds
        least = sum((setting, seeds[0]) not in known for setting in settings)
        for trial in _trials(runner, _until(asked, end, least)):
            if _cut(trial, most) and time.monotonic() >= end:
                continue  # by the budget: it says nothing of the law
            made = made.with_trial(trial)
            made = replace(made, seconds=round(before + time.monotonic() - begin, 1))
            if path is not None:
                made.save(path)
            if report is not None:
                report(trial, made.seconds)
    judges = [trial for trial in made.trials if trial.setting in settings]
    return Validation(name=name, checks=check_law(law, judges, pilot.target))


def _trials(runner: PilotRunner, asked: Iterator[Ask]) -> Iterator[Trial]:
    """Trials as they end; those that a store holds are taken from there."""
    stored: deque[Trial] = deque()

    def missing() -> Iterator[Ask]:
        for ask in asked:
            trial = runner.stored(ask)
            if trial is None:
                yield ask
            else:
                stored.append(trial)

    for trial in runner.run_all(missing()):
        while stored:
            yield stored.popleft()
        yield trial
    yield from stored


def _cut(trial: Trial, most: int) -> bool:
    """Whether a trial ended before it got there, blew up or had all its rounds."""
    open_end = trial.rounds_to(trial.target) is None and not trial.diverged
    return open_end and len(trial.losses) < most


def _in_turn(
    settings: Sequence[Setting], seeds: Sequence[int], rounds: int, known: set[tuple[Setting, int]]
) -> Iterator[Ask]:
    """Every setting once for each seed."""
    for seed in seeds:
        for setting in settings:
            if (setting, seed) not in known:
                yield Ask(setting, seed, rounds)


def _until(asked: Iterator[Ask], end: float, least: int) -> Iterator[Ask]:
    """What there is time for; one of each setting in any case."""
    for place, ask in enumerate(asked):
        if place >= least and time.monotonic() >= end:
            return
        yield ask if place < least else replace(ask, deadline=end)
