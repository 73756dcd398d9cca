"""A plan over a federation: who is there, then round after round, into a folder as a run's."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import write_text
from fedcell.core.streams import check_count
from fedcell.deploy.exchanges import Exchange, ExchangeFile, Outcome, past_exchanges
from fedcell.deploy.options import FederationOptions, Scheduled, check_chosen
from fedcell.deploy.round_tables import RoundTable, T
from fedcell.deploy.scores import ScoreFile
from fedcell.learning.custom import digest
from fedcell.learning.engines.engine import Engine, vector_width
from fedcell.learning.setup import TrainingSetup
from fedcell.network.physics.link import uploads_per_second
from fedcell.network.policies.names import policies_by_name
from fedcell.planning.adaptive.run import adaptive
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.setting import Region
from fedcell.scenario.identity import run_identity
from fedcell.scenario.scenario import Scenario, with_goal
from fedcell.scenario.target import Target
from fedcell.simulation.checks import goal_of
from fedcell.simulation.compute import Observer
from fedcell.simulation.execution import execute, initial_state
from fedcell.simulation.prepared import PreparedRun, Segment, metrics_identity
from fedcell.simulation.run import scenario_to_run
from fedcell.simulation.summary import RoundReport, RunResult

from .adaptive import adapt_to_devices
from .federation import Federation
from .join import join_devices
from .presence import listed, round_line


def run_federation(
    grid: Any,
    scenario: Scenario,
    *,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    options: FederationOptions = FederationOptions(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> RunResult:
    """Run a scenario on the devices of a Flower grid, with its K and E_l.

    With `options.arrays`, devices run a ClientApp of your own: it finds local-steps, batch-size, lr
    and its share and frequency in the record "config", and answers a query with its profile
    (`fedcell.deploy.flower.introduce`).

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The connected devices.
    scenario : Scenario
        The scenario; `plan.apply_to()` makes that of a plan.
    rounds : int, optional
        Rounds after which the run ends. Default: plan.rounds.
    target : Target or float, optional
        Stop here: a training loss, or `Target(accuracy=0.9)`. Default: the scenario's.
    seed : int, optional
        Random seed.
    folder : str or Path, optional
        Folder of the run, as `run` has it, with exchanges.csv and scores.csv beside.
    resume : bool, optional
        Continue the run that the folder holds.
    options : FederationOptions, optional
        Deadlines, policy, evaluation, keys, adaptation.
    observer : Observer, optional
        `observer.round` gets a `RoundReport`, `observer.message` a line for each round.

    Returns
    -------
    RunResult
        As `run` returns it.
    """
    scenario = scenario_to_run(scenario, folder, resume)
    rounds = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    home = None if folder is None else Path(folder)
    if resume and home is not None:
        check_chosen(home, options.chosen())
    log = _Log(home, ExchangeFile, repeats=True)  # devices introduce themselves each time
    options = _with_files(options, home, log)
    met = join_devices(
        *(grid, scenario, options.arrays, seed, options.join_timeout, options.data_path, log.add),
        *(options.start_with, options.keys),
    )
    setup, federation = met.federation(options, seed, options.judged_by, options.data_path)
    past = past_exchanges(home) if resume and home is not None else []
    if past:
        federation.remember(past)
    goal = goal_of(scenario.goal(target), federation)
    prepared = _prepared(scenario, setup, federation, rounds, goal, options, seed)
    if options.adaptation is not None:
        prepared = _adapting(prepared, federation, options, log, past)
    if observer.message is not None:
        if absent := met.absent:
            observer.say(f"begins with {len(met.profiles)} devices; absent: {listed(absent)}")
        observer = observer.with_round(_Telling(observer.message, log).report)
    return execute(prepared, home, resume, observer)


def _with_files(
    options: FederationOptions, home: Path | None, log: "_Log[Exchange]"
) -> FederationOptions:
    """Return the options with callbacks that also write exchanges, scores and schedules."""
    scores = _Log(home, ScoreFile, repeats=False)
    if options.on_exchanges is not None:
        log.listeners.append(options.on_exchanges)
    if options.on_scores is not None:
        scores.listeners.append(options.on_scores)
    options = replace(options, on_exchanges=log.add, on_scores=scores.add)
    if options.schedule_file is not None:
        options = replace(options, on_schedule=_writer(Path(options.schedule_file)))
    return options


def _prepared(
    scenario: Scenario,
    setup: TrainingSetup,
    federation: Federation,
    rounds: int,
    goal: Target | None,
    options: FederationOptions,
    seed: int,
) -> PreparedRun:
    """Return the run of a federation, ready to be executed."""
    ready = with_goal(setup.scenario, goal)
    used = ready.using(plan={"rounds": rounds}, clients={"sizes": scenario.clients.sizes})
    learner = None
    if options.arrays is not None:
        learner = {"name": "flower", "start": digest(federation.start())}
    strategy = options.strategy
    server = None if strategy is None else federation.by_strategy
    server_name = None if strategy is None else type(strategy).__name__
    return PreparedRun(
        setup=setup,
        first=Segment(scenario=ready, fleet=federation.fleet, learner=federation),
        used=used,
        policies=policies_by_name([options.policy]),
        rounds=rounds,
        goal=goal,
        start=initial_state(federation, ready, server),
        identity=run_identity(used, setup.fingerprint, seed, learner, server_name)
        | metrics_identity(federation)
        | {"federation": options.chosen()},
        learner_of=lambda world: federation.under(world, federation.fleet),
        vector_width=vector_width() if isinstance(federation.judge, Engine) else None,
        server=server,
    )


def _adapting(
    run: PreparedRun,
    federation: Federation,
    options: FederationOptions,
    log: "_Log[Exchange]",
    past: Sequence[Exchange],
) -> PreparedRun:
    """Return the run with a controller that corrects devices by measurements and, where there is a
    target, re-plans K and E_l."""
    adaptation = options.adaptation
    assert adaptation is not None
    if run.goal is not None:
        start = adaptation.start
        law = start.law if isinstance(start, TrainingPlan) else start
        if not isinstance(law, RoundsLaw | None):
            raise BadInput("`adaptation`: expected a plan or a law to start from")
        region = Region() if adaptation.region is None else adaptation.region
        if region.policy is None:
            region = replace(region, policy=options.policy)
        run = adaptive(run, law, every=adaptation.every, region=region)
    run, watching = adapt_to_devices(run, federation, adaptation.every, [*past, *log.early])
    log.listeners.append(watching.observe)
    return run


class _Log(Generic[T]):
    """A table of a run that is begun with the first round: the folder is made after the devices
    have introduced themselves. What comes before the first round `repeats` where a run is resumed,
    or is that of its beginning."""

    def __init__(
        self, home: Path | None, kind: Callable[[Path], RoundTable[T]], repeats: bool
    ) -> None:
        self._home, self._kind, self._repeats = home, kind, repeats
        self._file: RoundTable[T] | None = None
        self.early: list[T] = []  # of before the first round
        self.listeners: list[Callable[[Sequence[T]], None]] = []

    def add(self, lines: Sequence[T]) -> None:
        for listener in self.listeners:
            listener(lines)
        if self._file is None and lines and lines[0].round == 0:
            self.early += lines
        if self._home is None or not lines or lines[0].round == 0:
            return
        if self._file is None:
            self._file = self._kind(self._home)
            kept = self._file.begin(lines[0].round - 1)
            if self._repeats or not kept:
                self._file.add(self.early)
        self._file.add(lines)


class _Telling:
    """Tells of each round that is done, with the devices whose uploads did not come."""

    def __init__(self, tell: Callable[[str], None], log: _Log[Exchange]) -> None:
        self._tell, self._rows = tell, list[Exchange]()
        log.listeners.append(self._note)

    def _note(self, exchanges: Sequence[Exchange]) -> None:
        self._rows += exchanges

    def report(self, done: RoundReport) -> None:
        called = sum(
            row.share is not None and row.outcome != Outcome.DUPLICATE for row in self._rows
        )
        self._tell(round_line(done.round, done.train_loss, done.received, called, self._rows))
        self._rows.clear()


def _writer(path: Path) -> Callable[[Scheduled], None]:
    """Return a callback that writes the schedule of each round to a file."""

    def write(scheduled: Scheduled) -> None:
        answer, problem = scheduled.schedule, scheduled.problem
        content = {
            "round": scheduled.round,
            "clients": list(scheduled.clients),
            "share": answer.share.tolist(),
            "freq": answer.freq.tolist(),
            **({} if answer.power is None else {"power": answer.power.tolist()}),
            # a_j B r_j^0 over z_m: the part of a model that goes up in a second
            "uploads_per_second": uploads_per_second(problem, answer).tolist(),
        }
        write_text(path, json.dumps(content))

    return write
