"""Before trials are run: the engine warm, the file held, and what it has already."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fedcell.core.errors import BadFile, BadInput, FedcellWarning, printable
from fedcell.core.files.formats import naming
from fedcell.core.files.locks import locked
from fedcell.core.quantities import parse_duration, readable_duration
from fedcell.core.streams import check_count
from fedcell.experiments.executors import Executor, LocalProcesses, leave_if_started_by_a_script
from fedcell.experiments.store import Store
from fedcell.learning.custom import CustomLearner, changed_sources, code_of, costs_of, name_of
from fedcell.learning.learner import ACCURACY, measured_by, warm_up
from fedcell.learning.server_optimizer import ServerOptimizer
from fedcell.planning.setting import Region, Setting, trial_seeds
from fedcell.scenario.identity import differences, pilot_identity
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.scenario.target import Target
from fedcell.simulation.checks import learning_of, own_learner_setup
from fedcell.simulation.compute import Compute, Observer

from .candidates import search_space
from .loop import MAX_ROUNDS, MAX_TRIALS, PilotLoop
from .pilot import Pilot
from .pilotfile import load_pilot
from .runner import PilotRunner, TrainedBy, TrialJob
from .trial import Trial


def most_rounds(scenario: Scenario, rounds: int | None) -> int:
    """Rounds that a run ends after: those that are measured, or more than are wanted."""
    if rounds is not None:
        return check_count(rounds, "`rounds`")
    return (
        scenario.rounds if scenario.cell.recorded is not None else max(MAX_ROUNDS, scenario.rounds)
    )


def pilot_engine(scenario: Scenario, workers: int | None, runner: PilotRunner) -> Executor | None:
    """Return processes that run trials, where they pay: not for quadratics. Custom code runs in
    this process alone: no name of it is sent to another one."""
    if runner.trained_by is not None:
        return None
    if runner.learner is not None or runner.server is not None:
        if workers not in (None, 1):
            warnings.warn(
                "runs with a learner or a server of your own are made one after the other, in this "
                "process: `workers` changes nothing",
                FedcellWarning,
                stacklevel=3,
            )
        return None
    analytic = scenario.learning is not None and scenario.learning.analytic
    return None if analytic or workers in (None, 1) else LocalProcesses(workers, ahead=1)


@contextmanager
def holding(path: str | Path | None) -> Iterator[None]:
    """Keeps other processes from the file meanwhile, if there is one."""
    if path is None:
        yield
        return
    file = Path(path)
    with locked(file.with_name(f".{file.name}.lock"), str(file)):
        yield


def prepare_pilot(
    scenario: Scenario,
    target: Target | float | None,
    seed: int,
    name: str,
    compute: Compute,
    observer: Observer,
    trained_by: TrainedBy | None = None,
) -> tuple[PilotRunner, Pilot, Scenario]:
    """Return a runner of trials with its engine compiled, a pilot without trials, and the scenario
    with its D_j, z_m and alpha_0."""
    leave_if_started_by_a_script()
    whose, server = CustomLearner.of(compute.learner), compute.server
    learning = learning_of(scenario, whose)
    ServerOptimizer.of(learning, server)  # or says why that cannot be
    goal = scenario.goal(target)
    if goal is None:
        raise BadInput(f"{name}: there is no loss to reach: set learning.target or `target`")
    runner = PilotRunner(
        scenario=scenario,
        target=goal,
        data_dir=compute.data_path,
        threads=compute.threads,
        download=observer.download,
        learner=whose,
        server=server,
        trained_by=trained_by,
        store=None if compute.store is None else Store(Path(compute.store)),
    )
    runner = replace(runner, engine=pilot_engine(scenario, compute.workers, runner))
    mine = None if whose is None else whose(scenario, seed)
    measured = ACCURACY if mine is None else measured_by(mine)
    costs = {} if mine is None else costs_of(mine)
    goal = goal.with_directions(measured)
    runner = replace(runner, target=goal)
    if mine is None:
        plan, gamma = scenario.plan, scenario.cell.loss_rate
        setup = runner.setup(Setting(plan.cohort, plan.local_steps, gamma), seed)
        with observer.compile():
            warm_up(setup.learner(compute.threads))
        settled, fingerprint, sizes = setup.scenario, setup.fingerprint, None
    else:
        settled, fingerprint = own_learner_setup(scenario, mine, seed).scenario, None
        sizes = tuple(settled.clients.sizes.values.tolist())
    empty = Pilot(
        identity=pilot_identity(settled, fingerprint),
        target=goal,
        seed=seed,
        kind=scenario.cell.loss_kind,
        name=printable(name),
        sizes=sizes,
        learner=None if whose is None else whose.name,
        server=None if server is None else name_of(server),
        code=code_of(whose, server),
        model_bits=costs.get("model_bits"),
        cycles_per_sample=costs.get("cycles_per_sample"),
    )
    return runner, empty, settled


def resumed_from(path: Path, empty: Pilot) -> Pilot:
    """The pilot with the runs that its file holds already, if it is the same pilot's. One to
    another target begins with the same runs, and with a budget that is not used yet."""
    if not path.exists():
        return empty
    before = load_pilot(path, empty.what)
    if named := differences(before.identity, empty.identity):
        raise BadFile(
            f"{path}: holds a {empty.what} with other settings ({named}): choose another `path`"
        )
    with naming(path):
        check_same_code(before, empty.learner, empty.server)
        if before.sizes != empty.sizes:
            raise BadFile("holds runs of a learner with other sizes: choose another `path`")
    for what, name in (("seed", "`seed`"), ("kind", "cell.loss_kind")):
        was, now = getattr(before, what), getattr(empty, what)
        if was != now:
            raise BadFile(f"{path}: is of {name} {was}, not {now}: choose another `path`")
    if before.target != empty.target and empty.what == "validation":
        raise BadFile(
            f"{path}: is a validation to {before.target} {before.target.definition}, not to "
            f"{empty.target} {empty.target.definition}: choose another `path`"
        )
    note_changed_code(before, empty)
    spent = before.seconds if before.target == empty.target else 0.0
    return replace(empty, trials=before.trials, seconds=spent, code=before.code or empty.code)


def note_changed_code(pilot: Pilot, now: Pilot) -> None:
    """Says which source files of a learner or a server changed since a pilot began."""
    if changed := changed_sources(pilot.code, now.code):
        where = "" if pilot.path is None else f"{pilot.path}: "
        warnings.warn(
            f"{where}{' and '.join(changed)} changed since the {pilot.what} began: its runs are "
            "of other code than those to come",
            FedcellWarning,
            stacklevel=3,
        )


def check_same_code(pilot: Pilot, learner: str | None, server: str | None) -> None:
    """Refuse to continue or validate a pilot with another learner or server than its own, by
    name."""
    for what, now in (("learner", learner), ("server", server)):
        was = getattr(pilot, what)
        if was is None and what == "learner" and pilot.sizes and now is not None:
            continue  # of a version that did not keep the name
        if was is not None and now is None:
            raise BadInput(
                f"this {pilot.what} was run with the {what} {was}: give `{what}` {was} if you "
                "trust it"
            )
        if was != now:
            ours = "ours" if was is None else was
            raise BadInput(
                f"this {pilot.what} was run with another {what} ({ours}, not {now}): choose "
                "another `path`"
            )


Report = Callable[[Trial, float], None]  # called with each trial and the seconds spent so far
Message = Callable[[str], None]  # called with a sentence for the user
MIN_ROUNDS = 40  # that a budget must allow at the first setting
PREPARING_SHARE = 0.25  # of a budget, from which preparing is named as a reason
MIN_BUDGET_LEFT = 0.05  # part of a budget below which no trial is started
UNREACHABLE_LOSS = 1e-300
UNREACHABLE = 1e300  # of another metric, on its better side
SAVE_INTERVAL = 1.0  # [s] between two writes of the file


def run_pilot(
    scenario: Scenario,
    budget: float | str = 60.0,
    path: str | Path | None = None,
    *,
    target: Target | float | None = None,
    region: Region = Region(),  # noqa: B008
    seed: int = 0,
    name: str = "the scenario",
    compute: Compute = Compute(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> Pilot:
    """Measure by short runs how many rounds training takes, where the plan is likely to be.

    The cost of a round follows from the scenario, so trials are made where the cost to the target
    may be lowest, until the budget is spent.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    budget : float or str, optional
        Wall-clock time of the whole pilot: seconds, or text such as "5min".
    path : str or Path, optional
        File that gets the trials as they end. A pilot continues from the trials of its file. With
        another target, stored trials are used as far as they went, others are repeated where they
        are needed, and the budget starts again.
    target : Target or float, optional
        Training loss to reach, or `Target(accuracy=...)`. Default: the scenario's.
    region : Region, optional
        Clients, steps and rounds of a trial, the objective, and the policy that prices rounds.
    seed : int, optional
        Random seed.
    name : str, optional
        Name of the scenario, for messages and the file.
    compute : Compute, optional
        Data folder, threads, processes, store of finished trainings, custom learner and server.
        Trials with custom code run in this process, one after the other.
    observer : Observer, optional
        Callbacks for progress: `download`, `compile`, `trial`, `message`.

    Returns
    -------
    Pilot
        The trials; `pilot.fit()` is the law of rounds that `plan_training` uses.

    Raises
    ------
    BadInput
        An argument cannot be used, or the budget is too small for a trial.
    NotReached
        No trial reached the target; the file keeps them.

    Examples
    --------
    >>> from fedcell import Learning, Region, RoundPlan, Scenario, run_pilot
    >>> learning = Learning(model="quadratic-apart", target=1.0, rate=0.02)
    >>> scenario = Scenario(learning=learning, plan=RoundPlan(local_steps=4, rounds=300))
    >>> pilot = run_pilot(scenario, "5s", region=Region(clients=(1, 20), steps=(1, 16)))
    >>> pilot.fit().settings > 2
    True
    """
    return run_pilot_with(
        None, scenario, budget, path, target, region, seed, name, compute, observer
    )


def run_pilot_with(
    trained_by: TrainedBy | None,
    scenario: Scenario,
    budget: float | str,
    path: str | Path | None,
    target: Target | float | None,
    region: Region,
    seed: int,
    name: str,
    compute: Compute,
    observer: Observer,
) -> Pilot:
    """Run a pilot whose trials `trained_by` trains, to the same bits as the engine: a real
    federation; None for the engine."""
    begin = time.monotonic()
    check_scenario(scenario)
    seconds = parse_duration(budget, "`budget`")
    runner, empty, world = prepare_pilot(
        scenario, target, seed, name, compute, observer, trained_by
    )
    ready = time.monotonic()
    space = search_space(world, region, seed)
    most = most_rounds(scenario, region.rounds)
    seeds = trial_seeds(seed)
    with holding(path):
        pilot = empty if path is None else resumed_from(Path(path), empty)
        if any(trial.target != pilot.target for trial in pilot.trials):
            observer.say(_reused(pilot))
        if path is not None:
            pilot.save(path)  # what cannot be written is known before the trials
        end = begin + seconds - pilot.seconds
        if end > begin and not pilot.trials:
            _check_budget(runner, space.first()[0], seeds[-1], seconds, end, observer)
        if end - begin < MIN_BUDGET_LEFT * seconds:
            end = begin
        looking = PilotLoop(runner, pilot, space, seeds, most, end, seconds)
        made = run_within_budget(looking, begin, path, observer.trial, ready - begin)
    if len(made.trials) >= MAX_TRIALS:
        observer.say(f"stopped at {MAX_TRIALS} trials: further ones would not change the plan")
    return made


def run_within_budget(
    looking: PilotLoop,
    begin: float,
    path: str | Path | None,
    report: Report | None,
    preparing: float = 0.0,  # [s] of the budget
) -> Pilot:
    """All runs that the budget allows, saved now and then and at the end if there is a path."""
    pilot = looking.pilot
    before, saved = pilot.seconds, time.monotonic()
    try:
        for trial, each in looking.trials():
            pilot = replace(each, seconds=round(before + time.monotonic() - begin, 1))
            if path is not None and time.monotonic() - saved > SAVE_INTERVAL:
                pilot.save(path)
                saved = time.monotonic()
            if report is not None:
                report(trial, pilot.seconds)
    finally:
        pilot = _in_order(pilot, looking.seeds)
        if path is not None:
            pilot = replace(pilot, path=Path(path))
            pilot.save(path)
    if not pilot.trials:
        raise BadInput(
            "the `budget` ran out before the first trial finished: give a larger one"
            + _repeatable(preparing, looking.budget)
        )
    pilot.fit()  # or says why that cannot be
    return pilot


def _repeatable(preparing: float, budget: float) -> str:
    """Say that a second attempt has more time, if compiling took much of the first."""
    if preparing < PREPARING_SHARE * budget:
        return ""
    return (
        f", or try again: loading data and compiling took {readable_duration(preparing)} of it, "
        "and what is compiled is kept"
    )


def _reused(pilot: Pilot) -> str:
    """What becomes of runs that were made for another target."""
    known, every = sum(t.answers(pilot.target) for t in pilot.trials), len(pilot.trials)
    rest = "" if known == every else "; others are run again where they are needed"
    return (
        f"{known} of {every} runs made before tell of {pilot.target} "
        f"{pilot.target.definition}{rest}"
    )


def _in_order(pilot: Pilot, seeds: Sequence[int]) -> Pilot:
    """Return the pilot with its trials seed by seed, whichever ended first."""
    order = {seed: i for i, seed in enumerate(seeds)}
    first = {setting: i for i, setting in enumerate(pilot.tried)}
    place = lambda trial: (order.get(trial.seed, len(order)), first[trial.setting])
    return replace(pilot, trials=tuple(sorted(pilot.trials, key=place)))


def _unreachable(target: Target) -> float:
    """Return a level of a metric that no model reaches."""
    return UNREACHABLE_LOSS if target.loss is not None else -target.sign * UNREACHABLE


def _check_budget(
    runner: PilotRunner,
    setting: Setting,
    seed: int,
    seconds: float,
    end: float,
    observer: Observer,
) -> None:
    """Says what a budget is for, by the time that a round takes; refuses one that is for too
    little, after a few rounds."""
    threads = 1 if runner.engine else runner.threads
    unreachable = (
        replace(runner.target, level=1.0, hold=1000)
        if runner.target.accuracy is not None
        else replace(runner.target, level=_unreachable(runner.target))
    )
    here = replace(runner, engine=None, store=None, threads=threads, target=unreachable)
    # The first makes the engine and the data ready.
    tries = [here.run(TrialJob(setting, seed, n, end)) for n in (1, 1, 6)]
    made = len(tries[2].losses) - 1
    slowest = max(tries[1].wall_seconds, 1e-4)
    each = max(tries[2].wall_seconds - tries[1].wall_seconds, 1e-4) / made if made else slowest
    count = seconds * runner.workers / each
    if count < MIN_ROUNDS:
        least = readable_duration(1.1 * MIN_ROUNDS * each / runner.workers + slowest)
        raise BadInput(
            f"`budget` = {seconds:.3g} s is for {count:.0f} rounds, of {each:.2g} s each here, and "
            f"a pilot needs {MIN_ROUNDS} at the least: give `budget` {least} or more"
        )
    observer.say(
        f"training a round ({setting}) takes {each:.2g} s here: "
        f"{readable_duration(seconds)}{_by(runner.workers)} are for about {count:.0f} of them"
    )


def _by(workers: int) -> str:
    return "" if workers == 1 else f" of {workers} processes"
