"""A whole run with its folder: train once, price under each policy, write what came out.

Training does not depend on the policy (the dice are the same), so policies are compared on
one training.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.streams import check_count
from fedcell.learning.custom import LearnerLike, OwnLearner, code_of, name_of, unguarded
from fedcell.learning.data.download import Report as Download
from fedcell.learning.engines.engine import Engine, vector_width
from fedcell.learning.learner import Learner
from fedcell.learning.server_optimizer import OwnServer, Server
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet
from fedcell.network.policies.names import NAMED, Policies, policies_by_name
from fedcell.scenario.identity import run_identity
from fedcell.scenario.scenario import Scenario, check_scenario, with_goal
from fedcell.scenario.target import Target
from fedcell.simulation.folder.run_folder import resumable

from .checks import learning_of, own_learner_setup
from .execution import PreparedRun, Segment, carry_out, start_of
from .summary import Report, RunResult


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Whom to tell what is going on; nobody, unless said otherwise."""

    download: Download | None = None
    compile: Callable[[], Any] = nullcontext  # a context while the engine is made ready
    round: Report | None = None

    def listeners(self, report: Report | None = None) -> list[Report]:
        """Who hears of each round."""
        return [listener for listener in (self.round, report) if listener]


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
    if resume and folder is None:
        raise BadInput("`resume` needs the folder of the run: give `folder`")
    if resume and folder is not None:
        scenario = resumable(check_scenario(scenario), Path(folder))
    prepared = prepare_run(
        scenario,
        policies,
        rounds=rounds,
        target=target,
        seed=seed,
        data_dir=data_dir,
        threads=threads,
        learner=learner,
        server=server,
        download=progress.download,
    )
    return carry_out(prepared, folder, resume, progress.listeners(report), progress.compile)


def prepare_run(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    *,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    threads: int | None = None,
    learner: LearnerLike | None = None,
    server: OwnServer | None = None,
    download: Download | None = None,
) -> PreparedRun:
    """A run as `run` has it, ready to be carried out (`carry_out`): data, fleet and learner are
    there, and nothing is trained or written yet."""
    check_scenario(scenario)
    rounds = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    own = OwnLearner.of(learner)
    learning = learning_of(scenario, own)
    Server.of(learning, server)  # refuses two of them at once
    goal = scenario.goal(target)
    known = policies_by_name(policies)
    mine = None if own is None else own(scenario, seed)
    if mine is None:
        setup = prepare_training(scenario, seed, data_dir, download)
    else:
        setup = own_learner_setup(scenario, mine, seed)
    # Where sizes are left out, they follow from the rest.
    sizes, scenario = scenario.clients.sizes, with_goal(setup.scenario, goal)
    used = scenario.using(plan={"rounds": rounds}, clients={"sizes": sizes})
    trained = setup.learner(threads) if mine is None else mine

    def learner_of(other: Scenario) -> Learner:
        return own(other, seed) if own else replace(setup, scenario=other).learner(threads)

    known_by = None if own is None else own.identity(trained)
    whose = None if server is None else name_of(server)
    return PreparedRun(
        setup=setup,
        first=Segment(scenario=scenario, fleet=draw_fleet(scenario, seed), learner=trained),
        used=used,
        policies=known,
        rounds=rounds,
        goal=goal,
        start=start_of(trained, scenario, server),
        identity=run_identity(used, setup.fingerprint, seed, known_by, whose),
        learner_of=learner_of,
        vector_width=vector_width() if isinstance(unguarded(trained), Engine) else None,
        code=code_of(own, server),
        server=server,
    )
