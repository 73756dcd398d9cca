"""A whole run with its folder: train once, price under each policy, write what came out.

Training does not depend on the policy (the dice are the same), so policies are compared on
one training.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcell.core.dice import check_count
from fedcell.core.errors import BadInput
from fedcell.core.showing import Showable
from fedcell.core.targets import HOLD, Target, as_target
from fedcell.learning.data.download import Report as Download
from fedcell.learning.engine import Engine, vector_width
from fedcell.learning.learner import evaluated, warm_up
from fedcell.learning.own import LearnerLike, OwnLearner, name_of, unguarded
from fedcell.learning.server import OwnServer, Server
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.ledger import Ledger, require_usable
from fedcell.network.policies.names import NAMED, Policies, policies_by_name
from fedcell.network.simulate import price_trace
from fedcell.scenario.identity import run_identity
from fedcell.scenario.scenario import Scenario, check_scenario, with_goal

from .checks import check_scored, learning_of, own_learner_setup
from .folder import RunFolder
from .history import State
from .ledgerfile import LedgerFile, check_known, check_same_prices, policies_before
from .model import input_of
from .report import Report, Reporter
from .summary import RunSummary, summarise
from .train import at_target, train_rounds, with_training


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Whom to tell what is going on; nobody, unless said otherwise."""

    download: Download | None = None
    compile: Callable[[], Any] = nullcontext  # a context while the engine is made ready
    round: Report | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RunResult(Showable):
    """What a run gave: a ledger for each policy, and its outcome in a few values."""

    ledgers: Mapping[str, Ledger]  # by policy
    outcome: RunSummary
    state: State  # with the trained model

    @property
    def complete(self) -> bool:
        """False if it was interrupted."""
        return self.outcome.complete

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        return self.outcome.to_dict()

    def rows(self) -> list[dict[str, Any]]:
        """One row for each policy and round."""
        return [
            {"policy": policy} | row
            for policy, ledger in self.ledgers.items()
            for row in ledger.rows()
        ]

    def __repr__(self) -> str:
        first = next(iter(self.ledgers.items()), None)
        words = "no round done" if first is None else f"{first[0]}: {first[1]!r}"
        return f"<RunResult, {len(self.ledgers)} policies; {words}>"


def run(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    *,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    threads: int | None = None,
    learner: LearnerLike | None = None,
    server: OwnServer | None = None,
    report: Report | None = None,
    progress: Progress = Progress(),  # noqa: B008
) -> RunResult:
    """Trains until a `target` (the scenario's where left out) or for `rounds` rounds. A number is
    a training loss; `Target(accuracy=0.9)` is the other kind.

    With a `folder` there is a checkpoint and a line for each policy in ledger.csv after each round,
    and at the end clients.csv and summary.json; `resume` goes on with the run that is there, under
    the policies that it was priced under before, too. An interrupt (Ctrl-C) ends the run in good
    order. `report` is called with a `RoundReport` after each round. `result.plot("loss.png")` draws
    the loss; `load_run(folder)` gives the result back.

    A `learner` of your own is a function of a scenario and a seed, or its name, "module:callable";
    with one, the scenario needs no [learning]. A `server` of your own, a function
    (old, mean) -> new, makes the next model instead of learning.server. A run that is resumed asks
    for the same ones.

    >>> from fedcell import load_scenario, run
    >>> result = run(load_scenario("digits"), ["even", "optimal"], rounds=3)
    >>> result.ledgers["optimal"].rounds, result.complete
    (3, True)
    """
    check_scenario(scenario)
    rounds = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    own = OwnLearner.of(learner)
    learning = learning_of(scenario, own)
    serving = Server.of(learning, server)
    goal = as_target(target, *((learning.goal, learning.hold) if learning else (None, HOLD)))
    known = policies_by_name(policies)
    if resume and folder is None:
        raise BadInput("`resume` needs the folder of the run: give `folder`")
    mine = None if own is None else own(scenario, seed)
    if mine is None:
        setup = prepare_training(scenario, seed, data_dir, progress.download)
    else:
        setup = own_learner_setup(scenario, mine, seed)
    # Where sizes are left out, they follow from the rest.
    sizes, scenario = scenario.clients.sizes, with_goal(setup.scenario, goal)
    used = scenario.using(plan={"rounds": rounds}, clients={"sizes": sizes})
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, rounds, seed)
    trained = setup.learner(threads) if mine is None else mine
    start = State.start(trained, serving)
    home, records, before = None, None, {}
    with ExitStack() as held:
        if folder is not None:
            known_by = None if own is None else own.identity(trained)
            whose = None if server is None else name_of(server)
            identity = run_identity(used, setup.fingerprint, seed, known_by, whose)
            width = vector_width() if isinstance(unguarded(trained), Engine) else None
            home = RunFolder.find(Path(folder), identity, width, resume)
            held.enter_context(home.held())
            before = policies_before(home.path) if resume else {}
            check_known(before, known, home.path)
            records = home.records(start, rounds, resume)
        networks = {
            name: require_usable(price_trace(scenario, fleet, trace, known.get(name, name), seed))
            for name in dict.fromkeys([*before, *known])
        }
        if home:
            check_same_prices(before, networks, home.path)
        initial = evaluated(trained, start.model)
        check_scored(goal, initial)
        state = (records.state if records else None) or start
        with progress.compile():
            warm_up(trained)
        listeners = [listener for listener in (progress.round, report) if listener]
        reporter, lines = Reporter(networks), home and LedgerFile(home.path, networks)

        def result(state: State, complete: bool) -> RunResult:
            ledgers = {n: with_training(net, state) for n, net in networks.items() if state.rounds}
            average = evaluated(trained, state.average)
            outcome = summarise(setup, fleet, initial, average, ledgers, goal, complete)
            return RunResult(ledgers=ledgers, outcome=outcome, state=state)

        if home:
            home.begin(used, input_of(setup))
        complete, rules = True, [at_target(goal, learning.evaluate_every if learning else 1)]
        try:
            states = train_rounds(scenario, trained, fleet, trace, state, rules, server)
            state = next(states)
            if home and lines:
                home.write_outcome(result(state, complete=False).outcome)
                lines.begin(state)
            for after in states:
                state = after  # what an interrupt leaves
                if records and lines:
                    lines.add(state)
                    records.save(state)
                for listener in listeners:
                    listener(reporter.report(state))
        except KeyboardInterrupt:
            complete = False
        found = result(state, complete)
        if home and lines and records and found.ledgers:
            records.finish(state)
            lines.finish(state)
            table = scenario.clients.table
            home.finish(found.ledgers, found.outcome, setup.client_names, table)
    return found
