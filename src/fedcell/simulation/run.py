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
from fedcell.core.files import as_json
from fedcell.core.showing import Showable
from fedcell.core.targets import HOLD, Target, as_target
from fedcell.learning.data.download import Report
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
from .model import input_of
from .summary import RunSummary, summarise
from .train import at_target, train_rounds, with_training


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Whom to tell what is going on; nobody, unless said otherwise."""

    download: Report | None = None
    compile: Callable[[], Any] = nullcontext  # a context while the engine is made ready
    round: Callable[[State, Ledger, int], None] | None = None  # state, network, rounds in all


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
    progress: Progress = Progress(),  # noqa: B008
) -> RunResult:
    """Trains until a `target` (the scenario's where left out) or for `rounds` rounds. A number is
    a training loss; `Target(accuracy=0.9)` is the other kind.

    With a `folder` there is a checkpoint after each round, and at the end ledger.csv,
    clients.csv and summary.json; `resume` goes on with the run that is there. An interrupt
    (Ctrl-C) ends the run in good order. `result.plot("loss.png")` draws the loss.

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
    networks = {
        name: require_usable(price_trace(scenario, fleet, trace, policy, seed))
        for name, policy in known.items()
    }
    first = next(iter(networks.values()))
    trained = setup.learner(threads) if mine is None else mine
    start = State.start(trained, serving)
    home, records = None, None
    with ExitStack() as held:
        if folder is not None:
            known_by = None if own is None else own.identity(trained)
            whose = None if server is None else name_of(server)
            identity = run_identity(used, setup.fingerprint, seed, known_by, whose)
            width = vector_width() if isinstance(unguarded(trained), Engine) else None
            home = RunFolder.find(Path(folder), identity, width, resume)
            held.enter_context(home.held())
            records = home.records(start, rounds, resume)
        initial = evaluated(trained, start.model)
        check_scored(goal, initial)
        state = (records.state if records else None) or start
        with progress.compile():
            warm_up(trained)
        if home:
            home.begin(used, input_of(setup))
        complete, rules = True, [at_target(goal, learning.evaluate_every if learning else 1)]
        try:
            states = train_rounds(scenario, trained, fleet, trace, state, rules, server)
            state = next(states)
            for after in states:
                state = after  # what an interrupt leaves
                if records:
                    records.save(state)
                if progress.round:
                    progress.round(state, first, rounds)
        except KeyboardInterrupt:
            complete = False
        ledgers = {n: with_training(net, state) for n, net in networks.items() if state.rounds}
        outcome = summarise(
            setup,
            fleet,
            initial,
            evaluated(trained, state.average),
            ledgers,
            goal,
            complete,
        )
        if home and records and ledgers:
            records.finish(state)
            home.write_ledgers(ledgers, scenario.clients.table)
            home.write_text("summary.json", as_json(outcome.to_dict()))
    return RunResult(ledgers=ledgers, outcome=outcome, state=state)
