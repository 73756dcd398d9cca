"""Running a pilot: trials until the budget is used up, each saved as it ends."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fedcell.core.dice import check_count
from fedcell.core.errors import BadFile, BadInput, printable
from fedcell.core.locks import locked
from fedcell.core.quantities import check_target_loss, parse_duration
from fedcell.experiments.engines import LocalProcesses, SweepEngine
from fedcell.experiments.store import Store
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import require_learning
from fedcell.scenario.identity import check_pilot_identity, differences, pilot_identity
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.simulation.checks import with_learner_sizes
from fedcell.simulation.run import Progress

from .design import Setting, pilot_settings, trial_seeds, validation_settings
from .pilot import Pilot
from .pilotfile import load_pilot
from .trials import LearnerFactory, PilotRunner, Trial, run_trials
from .validate import Validation, check_law

Report = Callable[[Trial, float], None]  # hears of each trial, and of the seconds spent so far


def run_pilot(
    scenario: Scenario,
    budget: float | str = 60.0,
    path: str | Path | None = None,
    *,
    target: float | None = None,
    rounds: int | None = None,
    seed: int = 0,
    name: str = "the scenario",
    data_dir: Path | None = None,
    threads: int | None = None,
    workers: int | None = None,
    store: Store | None = None,
    learner: LearnerFactory | None = None,
    progress: Progress = Progress(),  # noqa: B008
    report: Report | None = None,
) -> Pilot:
    """Finds out by short runs how many rounds training takes, as a law in K, E_l and gamma.

    Six settings around the scenario's plan are run, seed after seed, until `budget` (seconds,
    or text such as "5min") is used up; two seeds in any case, unless the first reaches nothing.
    With a `path`, each run is saved as it ends, and what is there already is gone on with. `target`
    is the training loss to reach (learning.target where left out), `rounds` what a run ends after
    at the latest. Runs are made here, one after the other on `threads`, or by so many `workers`,
    each a process; those that a `store` holds, a sweep's or another pilot's, are taken from there.
    A `learner` of your own is a function of a scenario and a seed.

    >>> from fedcell import Learning, RoundPlan, Scenario
    >>> learning = Learning(model="quadratic-apart", target=1.0, rate=0.02)
    >>> scenario = Scenario(learning=learning, plan=RoundPlan(local_steps=4, rounds=300))
    >>> run_pilot(scenario, budget="1s").fit().settings
    6
    """
    check_scenario(scenario)
    seconds = parse_duration(budget, "`budget`")
    runner, empty, sized = prepare_pilot(
        scenario, target, rounds, seed, name, data_dir, threads, learner, progress
    )
    runner.store, runner.engine = store, _engine(scenario, workers)
    settings = pilot_settings(sized, seed)
    with _held(path):
        pilot = run_within_budget(
            runner, empty, settings, trial_seeds(seed), seconds, path, settings[0], report
        ).fitted()
        if path is not None:
            pilot.save(path)
    return pilot


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
    progress: Progress = Progress(),  # noqa: B008
    report: Report | None = None,
) -> Validation:
    """Judges a pilot by runs that it has not seen: other K, E_l and gamma, and other seeds.

    The arguments are those of `run_pilot`; with a `path` the runs are kept, and gone on with.
    """
    seconds = parse_duration(budget, "`budget`")
    runner, empty, _ = prepare_pilot(
        scenario, pilot.target, rounds, pilot.seed, name, data_dir, threads, None, progress
    )
    runner.store, runner.engine = store, _engine(scenario, workers)
    check_pilot_identity(pilot.identity, empty.identity, pilot.path)
    law = pilot.fit()
    settings = validation_settings(pilot.tried)
    seeds = trial_seeds(pilot.seed, validation=True)
    empty = replace(empty, what="validation")
    with _held(path):
        made = run_within_budget(runner, empty, settings, seeds, seconds, path, None, report)
    judges = [t for t in made.trials if t.setting in settings and t.answers_for(pilot.target)]
    return Validation(name=name, checks=check_law(law, judges, pilot.target))


def _engine(scenario: Scenario, workers: int | None) -> SweepEngine | None:
    """Processes where they are asked for and pay, which for quadratics they do not."""
    analytic = scenario.learning is not None and scenario.learning.analytic
    return None if analytic or workers in (None, 1) else LocalProcesses(workers)


@contextmanager
def _held(path: str | Path | None) -> Iterator[None]:
    """Keeps other processes from the file meanwhile, if there is one."""
    if path is None:
        yield
        return
    file = Path(path)
    with locked(file.with_name(f".{file.name}.lock"), str(file)):
        yield


def prepare_pilot(
    scenario: Scenario,
    target: float | None,
    rounds: int | None,
    seed: int,
    name: str,
    data_dir: Path | None,
    threads: int | None,
    learner: LearnerFactory | None,
    progress: Progress,
) -> tuple[PilotRunner, Pilot, Scenario]:
    """Whoever runs the trials, with the engine warm, a pilot without any, and the scenario with
    its D_j."""
    if target is None and (learner is None or scenario.learning is not None):
        target = require_learning(scenario).target
    target = check_target_loss(target, "`target`")
    if target is None:
        raise BadInput(f"{name}: there is no loss to reach: set learning.target or `target`")
    runner = PilotRunner(
        scenario=scenario,
        target=target,
        rounds=check_count(scenario.rounds if rounds is None else rounds, "`rounds`"),
        data_dir=data_dir,
        threads=threads,
        download=progress.download,
        learner=learner,
    )
    if learner is None:
        plan, cell = scenario.plan, scenario.cell
        setup = runner.setup(Setting(plan.cohort, plan.local_steps, cell.loss_rate), seed)
        with progress.compile():
            warm_up(setup.learner(threads))
        settled, fingerprint, sizes = setup.scenario, setup.fingerprint, None
    else:
        settled, fingerprint = with_learner_sizes(scenario, learner(scenario, seed)), None
        sizes = tuple(settled.clients.sizes.values.tolist())
    empty = Pilot(
        identity=pilot_identity(settled, fingerprint),
        target=target,
        seed=seed,
        kind=scenario.cell.loss_kind,
        name=printable(name),
        sizes=sizes,
    )
    return runner, empty, scenario.using(clients={"sizes": settled.clients.sizes})


def run_within_budget(
    runner: PilotRunner,
    empty: Pilot,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    budget: float,
    path: str | Path | None,
    measured: Setting | None = None,
    report: Report | None = None,
) -> Pilot:
    """All runs that the budget allows, each saved as it ends if there is a path."""
    pilot = empty
    if path is not None:
        pilot = _resumed_from(Path(path), empty)
        pilot.save(path)  # what cannot be written is known before the runs
    for trial in run_trials(runner, settings, seeds, budget, pilot.trials, measured):
        pilot = pilot.with_trial(trial)
        if path is not None:
            pilot.save(path)
        if report is not None:
            report(trial, sum(t.wall_seconds for t in pilot.trials))
        reached = (t.rounds_to(empty.target) for t in pilot.trials)
        if len(pilot.trials) >= len(settings) and not any(reached):
            break  # more of this would say no more
    asked = {ask: i for i, ask in enumerate(itertools.product(seeds, settings))}
    place = lambda trial: asked.get((trial.seed, trial.setting), len(asked))
    return replace(pilot, trials=tuple(sorted(pilot.trials, key=place)))  # whoever ended first


def _resumed_from(path: Path, empty: Pilot) -> Pilot:
    """The pilot with the runs that its file holds already, if it is the same pilot's."""
    if not path.exists():
        return empty
    before = load_pilot(path, empty.what)
    if named := differences(before.identity, empty.identity):
        raise BadFile(
            f"{path}: holds a {empty.what} with other settings ({named}): choose another `path`"
        )
    for what, name in (("seed", "`seed`"), ("kind", "cell.loss_kind")):
        was, now = getattr(before, what), getattr(empty, what)
        if was != now:
            raise BadFile(f"{path}: is of {name} {was}, not {now}: choose another `path`")
    return replace(empty, trials=before.trials)
