"""A whole run with its folder: train once, price under each policy, write the results.

Training does not depend on the policy (common random numbers), so policies are compared on one
training.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.core.streams import check_count
from fedcell.learning.custom import (
    CustomLearner,
    Sources,
    code_of,
    name_of,
    sources_of,
    unguarded,
)
from fedcell.learning.engines.engine import Engine, vector_width
from fedcell.learning.learner import Learner
from fedcell.learning.server_optimizer import ServerOptimizer
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet
from fedcell.network.policies.names import NAMED, Policies, policies_by_name
from fedcell.network.selectors.names import given_code
from fedcell.scenario.identity import run_identity
from fedcell.scenario.scenario import Scenario, check_scenario, with_goal
from fedcell.scenario.target import Target
from fedcell.simulation.folder.run_folder import resumable

from .checks import goal_of, learning_of, own_learner_setup
from .compute import Compute, Observer
from .execution import execute, initial_state
from .prepared import PreparedRun, Segment, metrics_identity
from .selecting.live import under_policy
from .summary import RunResult


def run(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    *,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    resume: bool = False,
    compute: Compute = Compute(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> RunResult:
    """Train a scenario until a target or for a number of rounds, priced under each policy.

    Parameters
    ----------
    scenario : Scenario
        The scenario; with `compute.learner` it needs no [learning].
    policies : sequence of str or callable, or mapping of names to callables, optional
        Allocation policies that price the same rounds. Default: all built-in ones.
    rounds : int, optional
        Rounds after which the run ends. Default: plan.rounds.
    target : Target or float, optional
        Stop here: a training loss, or `Target(accuracy=0.9)`. Default: the scenario's.
    seed : int, optional
        Random seed of fleet, channels, losses and training.
    folder : str or Path, optional
        Folder for a checkpoint and ledger.csv after each round, and for clients.csv and
        summary.json at the end. Ctrl-C ends the run cleanly.
    resume : bool, optional
        Continue the run that the folder holds, under its policies too. Give the same custom
        learner and server.
    compute : Compute, optional
        Data folder, threads, custom learner and server.
    observer : Observer, optional
        Callbacks for progress; `observer.round` gets a `RoundReport` after each round.

    Returns
    -------
    RunResult
        Ledgers by policy and a summary; `result.plot("loss.png")` draws the loss, and
        `load_run(folder)` reads it back.

    Raises
    ------
    BadInput
        An argument, or the scenario, cannot be used.
    BadFile
        The folder holds something else, or another run.

    Examples
    --------
    >>> from fedcell import load_scenario, run
    >>> result = run(load_scenario("digits"), ["even", "optimal"], rounds=3)
    >>> result.ledgers["optimal"].rounds, result.complete
    (3, True)
    """
    scenario = scenario_to_run(scenario, folder, resume)
    prepared = prepare_run(
        *(scenario, policies),
        rounds=rounds,
        target=target,
        seed=seed,
        compute=compute,
        observer=observer,
    )
    return execute(prepared, folder, resume, observer)


def scenario_to_run(scenario: Scenario, folder: str | Path | None, resume: bool) -> Scenario:
    """Return the scenario of a run; of one that is resumed, with what its folder says of it."""
    check_scenario(scenario)
    if not resume:
        return scenario
    if folder is None:
        raise BadInput("`resume` needs the folder of the run: give `folder`")
    return resumable(scenario, Path(folder))


def prepare_run(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    *,
    rounds: int | None = None,
    target: Target | float | None = None,
    seed: int = 0,
    compute: Compute = Compute(),  # noqa: B008
    observer: Observer = Observer(),  # noqa: B008
) -> PreparedRun:
    """Return a run that is ready for `execute`: data, fleet and learner are loaded, and nothing
    is trained or written yet. The parameters are those of `run`."""
    check_scenario(scenario)
    rounds = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    custom, server = CustomLearner.of(compute.learner), compute.server
    learning = learning_of(scenario, custom)
    ServerOptimizer.of(learning, server)  # refuses two of them at once
    known = policies_by_name(policies)
    scenario = under_policy(scenario, list(known))
    mine = None if custom is None else custom(scenario, seed)
    if mine is None:
        setup = prepare_training(scenario, seed, compute.data_path, observer.download)
    else:
        setup = own_learner_setup(scenario, mine, seed)
    # Where sizes are left out, they follow from the rest.
    sizes, world = scenario.clients.sizes, scenario
    trained = setup.learner(compute.threads) if mine is None else mine
    goal = goal_of(world.goal(target), trained)
    scenario = with_goal(setup.scenario, goal)
    used = scenario.using(plan={"rounds": rounds}, clients={"sizes": sizes})

    def learner_of(other: Scenario) -> Learner:
        if custom is not None:
            return custom(other, seed)
        return replace(setup, scenario=other).learner(compute.threads)

    learner_identity = None if custom is None else custom.identity(trained)
    server_name = None if server is None else name_of(server)
    return PreparedRun(
        setup=setup,
        first=Segment(scenario=scenario, fleet=draw_fleet(scenario, seed), learner=trained),
        used=used,
        policies=known,
        rounds=rounds,
        goal=goal,
        start=initial_state(trained, scenario, server),
        identity=run_identity(used, setup.fingerprint, seed, learner_identity, server_name)
        | metrics_identity(trained),
        learner_of=learner_of,
        vector_width=vector_width() if isinstance(unguarded(trained), Engine) else None,
        code={**code_of(custom, server), **_selector_code(scenario)},
        server=server,
    )


def _selector_code(scenario: Scenario) -> dict[str, Sources]:
    """Return the sources of a selector of the user's; empty for a built-in one."""
    if ":" not in scenario.plan.selection:
        return {}
    code, name = given_code(scenario.plan.selection)
    return {"selector": sources_of(code, name)}
