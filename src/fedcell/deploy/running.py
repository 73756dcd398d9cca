"""A plan over a federation: who is there, then round after round, into a folder as a run's."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedcell.core.dice import check_count
from fedcell.core.errors import BadInput
from fedcell.core.files import write_text
from fedcell.core.targets import HOLD, Target, as_target
from fedcell.learning.engine import Engine, vector_width
from fedcell.learning.own import digest
from fedcell.network.policies.names import policies_by_name
from fedcell.planning.adapting import adaptive as adapting
from fedcell.planning.adaptive import EVERY
from fedcell.planning.rounds_law import RoundsLaw
from fedcell.scenario.identity import run_identity
from fedcell.scenario.scenario import Scenario, check_scenario, with_goal
from fedcell.simulation.drive import PreparedRun, Segment, carry_out, start_of
from fedcell.simulation.report import Report
from fedcell.simulation.result import RunResult

from .exchange import Exchange, ExchangeFile, past_exchanges
from .following import following
from .meeting import JOINING, meet
from .settings import Scheduled, Settings


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
    join_timeout: float = JOINING,
    judged_by: str = "server",
    data_dir: Path | None = None,
    adaptive: bool = False,
    every: int = EVERY,
    law: RoundsLaw | None = None,
    report: Report | None = None,
    schedule_file: str | Path | None = None,
) -> RunResult:
    """Runs a scenario on the devices of a Flower `grid`: its K and E_l, until a target or for
    `rounds` rounds; `plan.apply_to()` makes the scenario of a plan.

    Without `arrays` the devices run the ready ClientApp, with the data and model of [learning].
    With `arrays`, those of the first model by name (a state_dict as NumPy arrays), they run a
    ClientApp of your own, which is told local-steps, batch-size, lr and its share and frequency in
    the record "config", and answers a query with its profile (`fedcell.deploy.flower.introduce`).

    Models are judged by the server's own copy of the data, or, `judged_by="devices"` and always
    with arrays of one's own, by all devices, each on its own samples (2). `settings` say how long
    to wait, under which policy, and what to do about updates far outside the others' norm. The
    folder is that of a run, with exchanges.csv beside; `resume` goes on with it.

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
    learning = scenario.learning
    goal = as_target(target, *((learning.goal, learning.hold) if learning else (None, HOLD)))
    home = None if folder is None else Path(folder)
    log = _Log(home)
    settings = replace(settings, on_exchanges=log.add)
    if schedule_file is not None:
        settings = replace(settings, on_schedule=_writer(Path(schedule_file)))
    met = meet(grid, scenario, arrays, seed, join_timeout, data_dir, log.add)
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
        identity=run_identity(used, setup.fingerprint, seed, known_by, whose),
        learner_of=lambda world: federation.under(world, federation.fleet),
        vector_width=vector_width() if isinstance(federation.judge, Engine) else None,
        server=server,
    )
    if adaptive:
        planned = prepared
        if goal is not None:
            planned = adapting(prepared, law, every=every, policy=settings.policy)
        past = past_exchanges(home) if resume and home is not None else []
        prepared, watching = following(planned, federation, every, [*past, *log.early])
        log.listeners.append(watching.note)
    listeners = [] if report is None else [report]
    return carry_out(prepared, home, resume, listeners)


class _Log:
    """exchanges.csv of a run, begun with the first round: the folder is made after the devices have
    introduced themselves."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._file: ExchangeFile | None = None
        self.early: list[Exchange] = []  # of before the first round
        self.listeners: list[Callable[[Sequence[Exchange]], None]] = []

    def add(self, exchanges: Sequence[Exchange]) -> None:
        for listener in self.listeners:
            listener(exchanges)
        if self._file is None and exchanges and exchanges[0].round == 0:
            self.early += exchanges
        if self._home is None or not exchanges or exchanges[0].round == 0:
            return
        if self._file is None:
            self._file = ExchangeFile(self._home)
            self._file.begin(exchanges[0].round - 1)
            self._file.add(self.early)
        self._file.add(exchanges)


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
