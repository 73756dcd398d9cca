"""A plan over a federation: who is there, then round after round, into a folder as a run's."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from fedcell.core.errors import BadInput
from fedcell.core.files.formats import write_text
from fedcell.core.streams import check_count
from fedcell.deploy.exchanges import Exchange, ExchangeFile, Outcome, past_exchanges
from fedcell.deploy.options import Scheduled, Settings, check_chosen
from fedcell.deploy.round_tables import RoundTable, T
from fedcell.deploy.scores import ScoreFile
from fedcell.learning.custom import digest
from fedcell.learning.engines.engine import Engine, vector_width
from fedcell.network.policies.names import policies_by_name
from fedcell.planning.adaptive.controller import EVERY
from fedcell.planning.adaptive.run import adaptive as adapting
from fedcell.planning.law.base import RoundsLaw
from fedcell.scenario.identity import run_identity
from fedcell.scenario.scenario import Scenario, check_scenario, with_goal
from fedcell.scenario.target import Target
from fedcell.simulation.execution import PreparedRun, Segment, carry_out, start_of
from fedcell.simulation.folder.run_folder import resumable
from fedcell.simulation.summary import Report, RoundReport, RunResult

from .adaptive import adapt_to_devices
from .join import JOIN_TIMEOUT, join_devices
from .presence import listed, round_line


def run_federation(
    grid: Any,
    scenario: Scenario,
    *,
    arrays: Mapping[str, Any] | None = None,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    settings: Settings | None = None,
    join_timeout: float = JOIN_TIMEOUT,
    start_with: int | None = None,
    judged_by: str = "server",
    data_dir: Path | None = None,
    adaptive: bool = False,
    every: int = EVERY,
    law: RoundsLaw | None = None,
    report: Report | None = None,
    tell: Callable[[str], None] | None = None,
    schedule_file: str | Path | None = None,
    keys: str | Path | None = None,
) -> RunResult:
    """Runs a scenario on the devices of a Flower `grid`: its K and E_l, until a target or for
    `rounds` rounds; `plan.apply_to()` makes the scenario of a plan.

    Without `arrays` the devices run the ready ClientApp, with the data and model of [learning].
    With `arrays`, those of the first model by name (a state_dict as NumPy arrays), they run a
    ClientApp of your own, which is told local-steps, batch-size, lr and its share and frequency in
    the record "config", and answers a query with its profile (`fedcell.deploy.flower.introduce`).

    Models are judged by the server's own copy of the data, or, `judged_by="devices"` and always
    with named arrays, by all devices, each on its own samples (2): reports are clipped to
    the range of the others', and scores.csv has the means with and without that. `settings` say
    how long to wait, under which policy, and what to do about updates far outside the others' norm.
    `keys` is a table that binds the names of devices to their public keys. The folder is that of a
    run, with exchanges.csv beside; `resume` goes on with it.

    All devices have `join_timeout` seconds to introduce themselves; with `start_with` the run then
    begins with those that are there, if they are at least that many. The others count as absent
    in each round, and take their places when they come. `tell` gets one line for each round.

    With `adaptive`, measured trainings and uploads correct what is assumed of the devices, and K
    and E_l are planned anew after `every` few rounds, from a `law` (a plan's, or none); changes.csv
    says what changed and why.
    """
    check_scenario(scenario)
    settings = Settings() if settings is None else settings
    if judged_by not in ("server", "devices"):
        raise BadInput(f"`judged_by` = {judged_by!r}: expected server or devices")
    rounds = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    if resume and folder is None:
        raise BadInput("`resume` needs the folder of the run: give `folder`")
    if resume and folder is not None:
        scenario = resumable(scenario, Path(folder))
    goal = scenario.goal(target)
    home = None if folder is None else Path(folder)
    chosen = settings.chosen("devices" if arrays is not None else judged_by)
    if resume and home is not None:
        check_chosen(home, chosen)
    log = _Log(home, ExchangeFile, repeats=True)  # devices introduce themselves each time
    scores = _Log(home, ScoreFile, repeats=False)
    if settings.on_exchanges is not None:
        log.listeners.append(settings.on_exchanges)
    if settings.on_scores is not None:
        scores.listeners.append(settings.on_scores)
    settings = replace(settings, on_exchanges=log.add, on_scores=scores.add)
    if schedule_file is not None:
        settings = replace(settings, on_schedule=_writer(Path(schedule_file)))
    met = join_devices(
        *(grid, scenario, arrays, seed, join_timeout, data_dir, log.add, start_with, keys)
    )
    setup, federation = met.federation(settings, seed, judged_by, data_dir)
    if resume and home is not None:
        federation.remember(past_exchanges(home))
    ready = with_goal(setup.scenario, goal)
    used = ready.using(plan={"rounds": rounds}, clients={"sizes": scenario.clients.sizes})
    ours = arrays is None
    known_by = None if ours else {"name": "flower", "start": digest(federation.start())}
    server = None if settings.strategy is None else federation.by_strategy
    whose = None if settings.strategy is None else type(settings.strategy).__name__
    prepared = PreparedRun(
        setup=setup,
        first=Segment(scenario=ready, fleet=federation.fleet, learner=federation),
        used=used,
        policies=policies_by_name([settings.policy]),
        rounds=rounds,
        goal=goal,
        start=start_of(federation, ready, server),
        identity=run_identity(used, setup.fingerprint, seed, known_by, whose)
        | {"federation": chosen},
        learner_of=lambda world: federation.under(world, federation.fleet),
        vector_width=vector_width() if isinstance(federation.judge, Engine) else None,
        server=server,
    )
    if adaptive:
        planned = prepared
        if goal is not None:
            planned = adapting(prepared, law, every=every, policy=settings.policy)
        past = past_exchanges(home) if resume and home is not None else []
        prepared, watching = adapt_to_devices(planned, federation, every, [*past, *log.early])
        log.listeners.append(watching.observe)
    listeners = [] if report is None else [report]
    if tell is not None:
        if absent := met.absent:
            tell(f"begins with {len(met.profiles)} devices; absent: {listed(absent)}")
        listeners.append(_Telling(tell, log).report)
    return carry_out(prepared, home, resume, listeners)


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
    """Writes the schedule of each round to a file, for whoever gives out the band."""

    def write(told: Scheduled) -> None:
        answer, problem = told.schedule, told.problem
        content = {
            "round": told.round,
            "clients": list(told.clients),
            "share": answer.share.tolist(),
            "freq": answer.freq.tolist(),
            # a_j B r_j^0 over z_m: the part of a model that goes up in a second
            "uploads_per_second": (answer.share / problem.band_time).tolist(),
        }
        write_text(path, json.dumps(content))

    return write
