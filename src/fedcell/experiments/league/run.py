"""Run a league: each training once, priced under each policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.version import versions
from fedcell.experiments.executors import Executor
from fedcell.experiments.experiment import Experiment
from fedcell.experiments.result import SweepResult, trace_of
from fedcell.experiments.store import Store
from fedcell.experiments.sweep import SweepProgress, run_sweep
from fedcell.experiments.training import Curve
from fedcell.network.draw import draw_fleet
from fedcell.network.ledger import Ledger
from fedcell.network.policies.names import Policies, policies_by_name
from fedcell.network.selectors.base import reads_policy
from fedcell.network.selectors.names import SelectorLike, selector_by_name, text_of
from fedcell.network.simulate import price_trace
from fedcell.scenario.learning import goal_keys
from fedcell.scenario.scenario import Scenario, check_scenario, with_goal
from fedcell.scenario.target import Target
from fedcell.simulation.selecting.live import with_policy

from .league import Entry, EntryRun, League, Limit

ZOO = (  # rules that need the network alone, so that one training serves all policies
    *("uniform", "weighted", "by-data", "by-data-unbiased", "round-robin", "best-channel"),
    *("proportional-fair", "fedcs", "tifl"),
)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """How the entries of a league are compared.

    Parameters
    ----------
    seeds
        Random seeds, from 0 on.
    rounds
        Rounds of a training at most; None: plan.rounds.
    target
        Loss or accuracy to reach; None: the scenario's.
    limit
        Time [s] or energy [J] at which the accuracy is compared instead.
    """

    seeds: int = 10
    rounds: int | None = None
    target: Target | float | None = None
    limit: Limit = field(default_factory=Limit)


def compare_selectors(
    scenario: Scenario,
    select: Sequence[SelectorLike],
    policies: Policies = ("optimal",),
    contest: Contest = Contest(),  # noqa: B008
    *,
    store: Store,
    executor: Executor | None = None,
    data_dir: Path | None = None,
    retry: bool = False,
    report: Callable[[SweepProgress], None] | None = None,
) -> League:
    """Compare selectors under policies on the same seeds: same data, channels and losses.

    A selector that reads the network alone is trained once for all policies; one that reads
    durations or energies is trained under each of them.

    Parameters
    ----------
    scenario : Scenario
        The scenario, with [learning].
    select : sequence of str, Selector or class
        The selectors; differences are to the first, under the first policy.
    policies : sequence or mapping
        The policies.
    contest : Contest
        Seeds, rounds, target, and time or energy limit.
    store : Store
        Folder of finished trainings, which are not repeated.
    executor, data_dir, retry, report
        As of `run_sweep`.

    Returns
    -------
    League
        Rounds, seconds and joules to the target, fairness, and paired differences.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from fedcell import Learning, RoundPlan, Scenario
    >>> from fedcell.experiments.executors import Inline
    >>> learning = Learning(model="quadratic-apart", target=3.0, rate=0.02)
    >>> world = Scenario(learning=learning, plan=RoundPlan(rounds=60, local_steps=4))
    >>> league = compare_selectors(
    ...     world, ["uniform", "best-channel"], ["even"], Contest(seeds=2),
    ...     store=Store(mkdtemp()), executor=Inline(),
    ... )
    >>> [entry.name for entry in league.entries]
    ['uniform, even', 'best-channel, even']
    """
    known, target = policies_by_name(policies), scenario.goal(contest.target)
    sides = check_contest(scenario, select, policies, contest)
    world = with_goal(scenario, target).using(learning={"evaluate_every": 1})
    if contest.limit.given:  # trained to the end, so that all have the accuracy at the limit
        world = world.using(learning=goal_keys(None))
    experiment = Experiment.sweep(
        world,
        {"plan.selection": list(dict.fromkeys(text for text, _ in sides))},
        seeds=contest.seeds,
        rounds=contest.rounds,
        policies=known,
        title="selectors",
    )
    tested = _has_tests(scenario) and (contest.limit.given or target is None)
    result = run_sweep(
        replace(experiment, tested=tested),
        *(store, executor),
        data_dir=data_dir,
        retry=retry,
        report=report,
    )
    return _league(result, sides, target, contest.limit)


def check_contest(
    scenario: Scenario, select: Sequence[SelectorLike], policies: Policies, contest: Contest
) -> list[tuple[str, str]]:
    """Return the entries of a league, plan.selection and policy each; refuse what cannot be
    compared."""
    if check_scenario(scenario).learning is None:
        raise BadInput("the scenario has no [learning]: there is nothing to train and to compare")
    known, target = policies_by_name(policies), scenario.goal(contest.target)
    if target is None and not contest.limit.given and not _has_tests(scenario):
        raise BadInput("there is no target to reach: give `target`, or a deadline or energy")
    return _sides(select, list(known))


def _has_tests(scenario: Scenario) -> bool:
    """Return whether models have an accuracy: quadratic losses have none."""
    return scenario.learning is not None and not scenario.learning.analytic


def _sides(select: Sequence[SelectorLike], policies: Sequence[str]) -> list[tuple[str, str]]:
    """Return each selector under each policy, as plan.selection and the name of the policy."""
    if not select:
        raise BadInput("`select`: name at least one selector")
    sides = []
    for given in select:
        text = text_of(given)
        for policy in policies:
            own = text_of(with_policy(text, policy)) if _reads_policy(text) else text
            rule = selector_by_name(own)
            if not _reads_policy(text) or getattr(rule, "policy", policy) == policy:
                sides.append((own, policy))
    if len(set(sides)) < len(sides):
        raise BadInput("`select`: give each selector once")
    return sides


def _reads_policy(text: str) -> bool:
    rule = selector_by_name(text)
    return rule is not None and reads_policy(rule)


def _league(
    result: SweepResult, sides: Sequence[tuple[str, str]], target: Target | None, limit: Limit
) -> League:
    """Return the league of the trainings of a sweep, on the seeds that all entries have."""
    experiment = result.experiment
    place = {point.scenario.plan.selection: i for i, point in enumerate(experiment.points)}
    seeds = tuple(
        seed
        for seed in experiment.seeds
        if all((place[text], seed) in result.curves for text, _ in sides)
    )
    if not seeds:
        raise BadInput("no seed was trained by all selectors: see `retry`")
    column = "train_loss" if target is None else target.column
    runs: dict[tuple[str, str], list[EntryRun]] = {side: [] for side in sides}
    for text, policy in sides:
        for seed in seeds:
            reached = result.curves[place[text], seed].reached(target)
            ledger = _ledger(result, place[text], seed, policy)
            runs[text, policy].append(EntryRun.of(seed, ledger, reached, limit, column))
    entries = tuple(
        Entry(select=_short(text, policy), policy=policy, runs=tuple(each))
        for (text, policy), each in runs.items()
    )
    about: dict[str, Any] = {"asked": experiment.asked, "versions": versions()}
    return League(
        entries=entries,
        seeds=seeds,
        target=target,
        limit=limit,
        notes=tuple(_notes(entries, sides, result.failures, limit)),
        about=about,
    )


def _short(text: str, policy: str) -> str:
    """Return a plan.selection without the policy, which stands beside it."""
    for ending in (f"(policy={policy})", f", policy={policy})"):
        if text.endswith(ending):
            return text.removesuffix(ending) + (")" if ending[0] == "," else "")
    return text


def _ledger(result: SweepResult, point: int, seed: int, policy: str) -> Ledger:
    """Return the rounds of a training under a policy, with its scores."""
    curve = result.curves[point, seed]
    scenario = result.prepared.get(result.experiment.points[point].training(seed))
    fleet = draw_fleet(scenario, seed)
    chosen = curve.chosen or None
    trace = trace_of(scenario, fleet, curve.rounds, seed, chosen)
    priced = price_trace(scenario, fleet, trace, result.experiment.policies[policy], seed)
    return replace(
        priced,
        train_loss=np.array(curve.train_loss),
        accuracy=_accuracies(curve),
        metrics={name: np.array(values) for name, values in curve.metrics.items()},
    )


def _accuracies(curve: Curve) -> Any:
    if curve.accuracies:
        return np.array(curve.accuracies)
    known = np.full(curve.rounds, math.nan)
    if curve.accuracy is not None:
        known[-1] = curve.accuracy
    return known


def _notes(
    entries: Sequence[Entry],
    sides: Sequence[tuple[str, str]],
    failures: Mapping[str, str],
    limit: Limit,
) -> list[str]:
    notes = []
    joint = sorted({text.partition("(")[0] for text, _ in sides if "policy=" in text})
    if joint:
        notes.append(
            f"{', '.join(joint)} reads durations or energies, so it is trained once for each policy"
        )
    missed = [f"{e.name} ({e.missed} of {len(e.runs)})" for e in entries if e.missed]
    if missed and not limit.given:
        words = "; ".join(missed)
        notes.append(
            "runs that missed the target count with all their rounds, and in differences as the "
            f"slowest run of their seed: {words}"
        )
    short = sum(
        run.times.size == run.done and run.times[-1] < limit.seconds
        for entry in entries
        for run in entry.runs
        if math.isfinite(limit.seconds) and run.times.size
    )
    if short:
        notes.append(f"{short} trainings ended before the deadline: give more `rounds`")
    if failures:
        where, why = next(iter(failures.items()))
        notes.append(f"{len(failures)} trainings failed, the first at {where}: {why}")
    return notes
