"""Before trials are run: the engine warm, the file held, and what it has already."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fedcell.core.dice import check_count
from fedcell.core.errors import BadFile, BadInput, FedcellWarning, printable
from fedcell.core.files import naming
from fedcell.core.locks import locked
from fedcell.core.targets import Target
from fedcell.experiments.engines import (
    LocalProcesses,
    SweepEngine,
    leave_if_started_by_a_script,
)
from fedcell.learning.learner import warm_up
from fedcell.learning.own import LearnerLike, OwnLearner, changed_sources, code_of, name_of
from fedcell.learning.server import OwnServer, Server
from fedcell.scenario.identity import differences, pilot_identity
from fedcell.scenario.scenario import Scenario
from fedcell.simulation.checks import learning_of, own_learner_setup
from fedcell.simulation.run import Progress

from .design import Setting
from .looking import MOST_ROUNDS
from .pilot import Pilot
from .pilotfile import load_pilot
from .trials import PilotRunner, TrainedBy


def most_rounds(scenario: Scenario, rounds: int | None) -> int:
    """Rounds that a run ends after: those that are measured, or more than are wanted."""
    if rounds is not None:
        return check_count(rounds, "`rounds`")
    return scenario.rounds if scenario.cell.gains is not None else max(MOST_ROUNDS, scenario.rounds)


def pilot_engine(
    scenario: Scenario, workers: int | None, runner: PilotRunner
) -> SweepEngine | None:
    """Processes where they are asked for and pay, which for quadratics they do not. Code of one's
    own is run here alone: no name of it is sent to another process."""
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
    data_dir: Path | None,
    threads: int | None,
    learner: LearnerLike | None,
    progress: Progress,
    server: OwnServer | None = None,
    trained_by: TrainedBy | None = None,
) -> tuple[PilotRunner, Pilot, Scenario]:
    """Whoever runs the trials, with the engine warm, a pilot without any, and the scenario with
    its D_j, z_m and alpha_0."""
    leave_if_started_by_a_script()
    whose = OwnLearner.of(learner)
    learning = learning_of(scenario, whose)
    Server.of(learning, server)  # or says why that cannot be
    goal = scenario.goal(target)
    if goal is None:
        raise BadInput(f"{name}: there is no loss to reach: set learning.target or `target`")
    runner = PilotRunner(
        scenario=scenario,
        target=goal,
        data_dir=data_dir,
        threads=threads,
        download=progress.download,
        learner=whose,
        server=server,
        trained_by=trained_by,
    )
    if whose is None:
        plan, gamma = scenario.plan, scenario.cell.loss_rate
        setup = runner.setup(Setting(plan.cohort, plan.local_steps, gamma), seed)
        with progress.compile():
            warm_up(setup.learner(threads))
        settled, fingerprint, sizes = setup.scenario, setup.fingerprint, None
    else:
        mine = whose(scenario, seed)
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
    """Refuses to go on with a pilot, or to judge it, with another learner or server than its own,
    by their names."""
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
