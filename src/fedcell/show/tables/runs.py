"""Print runs and partitions: scores, cost, and the samples of each client."""

import os
from collections.abc import Sequence
from math import isnan

import numpy as np
from rich.console import Console

from fedcell.core.showing import client_title
from fedcell.experiments.seeds import SeedsResult
from fedcell.learning.learner import Scores
from fedcell.learning.partition_report import PartitionReport
from fedcell.network.participation import MAX_NAMED_CLIENTS
from fedcell.scenario.learning import Deliver
from fedcell.simulation.folder.listing import RunEntry
from fedcell.simulation.summary import PolicyOutcome, RunResult, RunSummary, shared_policies

from .console import counted, digits, plus_minus, print_notes, print_table

MAX_OWNERS = 50  # clients in a table
SCORES = {"train_loss": "training loss", "test_loss": "test loss", "accuracy": "accuracy"}

DELIVERED: dict[Deliver, str] = {
    "last": "the last model",
    "average": "the average of the last models",
}
_OTHER: dict[Deliver, Deliver] = {"last": "average", "average": "last"}


def print_run(out: Console, result: RunResult, name: str = "scenario") -> None:
    """Print the scores of a run, and its cost under each policy."""
    run, rows = result.outcome, result.outcome.policies
    if run.local_epochs:
        work = f"each trains for {run.local_epochs} passes over its data"
    else:
        samples = "a batch" if run.samples_per_step == "batch" else "all its data"
        work = f"each trains for {run.local_steps} steps, {samples} each"
    out.print(
        f"{name}: {run.cohort} {counted(run.cohort, 'client')} a round, {work}"
        f"{', at first' if run.changes else ''};\n"
        f"{run.model_bits / 1e6:.3g} Mbit per upload, "
        f"{run.cycles_per_sample:.3g} cycles per sample"
    )
    if not rows:
        out.print("no round was done")
        return
    first, scores, target = rows[0], rows[0].scores, run.target
    out.print(f"evaluated and delivered: {DELIVERED[run.deliver]}")
    out.print(f"after {first.total.rounds} rounds: {_scores(scores)}")
    out.print(f"{DELIVERED[_OTHER[run.deliver]]}: {_scores(run.other)}")
    if run.swing:
        out.print(run.swing)
    if isnan(scores.train_loss) and run.complete:  # else it may only not be evaluated
        out.print("the training loss is not a number: training diverged; lower learning.rate")
    if first.discarded_uploads:
        out.print(f"{first.discarded_uploads} uploads were not finite and were left out")
    goal = all(row.to_target for row in rows)
    if target is not None and not goal:
        out.print(f"{target} {target.definition} was not reached")
    taken = [(row.to_target or row.total) if goal else row.total for row in rows]
    columns = {
        "policy": [row.policy for row in rows],
        "rounds": [str(t.rounds) for t in taken],
        "time [s]": [digits(t.duration) for t in taken],
        "energy [J]": [digits(t.energy) for t in taken],
        "cost [s]": [digits(t.cost) for t in taken],
    }
    if all(row.total.rounds == t.rounds for row, t in zip(rows, taken, strict=True)):
        most = [digits(row.highest_client_energy) for row in rows]
        columns["top client [J]"] = most  # known for all rounds only
    title = f"To {target} {target.definition}" if target is not None and goal else "In all"
    print_table(out, f"{title}, with common random numbers", columns)
    for sentence in _highest_energy(rows):
        out.print(sentence)
    if {"optimal", "optimal-staged"} <= set(columns["policy"]):
        out.print(
            "optimal-staged minimises this cost; optimal minimises one in which no client "
            "waits for others before uploading"
        )
    _print_changes(out, run)
    print_notes(out, run.notes)


def _scores(scores: Scores) -> str:
    """Return the training loss of a model, and what else was measured, in words."""
    values = {"training loss": scores.train_loss}
    tested = {"test loss": scores.test_loss, "accuracy": scores.accuracy}
    values |= {words: value for words, value in tested.items() if not isnan(value)}
    values |= scores.metrics
    return ", ".join(f"{words} {digits(value)}" for words, value in values.items())


def _print_changes(out: Console, run: RunSummary) -> None:
    """Print the changes of the plan during the run, with reasons."""
    if not run.changes:
        return
    columns = {
        "from round": [str(change.round) for change in run.changes],
        "clients": [str(change.cohort) for change in run.changes],
        "steps": ["-" if c.local_steps is None else str(c.local_steps) for c in run.changes],
    }
    print_table(out, "Changes of the plan", columns)
    for change in run.changes:
        out.print(f"round {change.round}: {change.why}")


def _highest_energy(rows: Sequence[PolicyOutcome]) -> list[str]:
    """Return sentences on the clients with the highest energy use and with depleted batteries."""
    payers: dict[str, list[str]] = {}
    for row in rows:
        if row.highest_client is None:  # a run that was loaded while in progress
            return []
        title = client_title(row.highest_client, row.highest_client_name)
        payers.setdefault(title, []).append(row.policy)
    most = list(payers)
    if len(payers) > 1:
        most = [f"{client} (under {', '.join(policies)})" for client, policies in payers.items()]
    sentences = [f"highest energy use: {', '.join(most)}"]
    for row in rows:
        if row.empty_batteries:
            named = [
                f"{client_title(empty.client, empty.name)} in round {empty.round}"
                for empty in row.empty_batteries[:MAX_NAMED_CLIENTS]
            ]
            more = len(row.empty_batteries) - len(named)
            rest = f" and {more} more" if more else ""
            sentences.append(f"under {row.policy}, depleted batteries: {', '.join(named)}{rest}")
    return sentences


def print_seeds(out: Console, result: SeedsResult, name: str = "scenario") -> None:
    """Print the mean cost of a scenario over seeds, under each policy."""
    every, target = len(result.finished), result.target
    if not every:
        out.print("no run was finished")
        return
    run = next(iter(result.runs.values())).outcome
    clients = f"{run.cohort} {counted(run.cohort, 'client')} a round"
    work = f"{run.local_epochs} epochs" if run.local_epochs else f"{run.local_steps} steps"
    out.print(f"{name}: {clients}, {work} each, {every} {counted(every, 'seed')}")
    scores = result.scores()
    named = SCORES | {name: name for name in scores if name not in (*SCORES, "majority")}
    known = [(words, scores[key]) for key, words in named.items() if not isnan(scores[key].value)]
    out.print(f"evaluated and delivered: {DELIVERED[run.deliver]}")
    out.print("\n".join(f"{words} at the end: {plus_minus(score)}" for words, score in known))
    goal = target is not None and result.reached == every
    if target is not None and not goal:
        missed = every - result.reached
        out.print(
            f"{target} {target.definition} was not reached in {result.rounds} rounds by {missed} "
            f"of {every} {counted(every, 'seed')}: counted as what they took, so means are at least"
        )
    estimates = result.estimates()
    columns = {
        "policy": [row.policy for row in estimates],
        "rounds": [plus_minus(row.rounds.mean) for row in estimates],
        "time [s]": [plus_minus(row.duration) for row in estimates],
        "energy [J]": [plus_minus(row.energy) for row in estimates],
        "cost [s]": [plus_minus(row.cost) for row in estimates],
    }
    title = "In all" if target is None else f"To {target} {target.definition}"
    print_table(out, f"{title}, means with 95 % intervals", columns)


def print_runs(out: Console, entries: Sequence[RunEntry], policy: str | None = None) -> None:
    """Print several runs in two tables that fit a terminal."""
    known = [(entry, entry.outcome) for entry in entries if entry.outcome is not None]
    shared = shared_policies([outcome for _, outcome in known])
    policy = policy or next(iter(shared), None)  # one that all have, so that they can be compared
    names = {id(entry): name for entry, name in zip(entries, _short_names(entries), strict=True)}
    if known:
        scores = [outcome.policies[0].scores for _, outcome in known]
        columns = {
            "run": [names[id(entry)] for entry, _ in known],
            "state": [entry.status for entry, _ in known],
            "seed": [str(run.seed) for _, run in known],
            "clients": [str(run.cohort) for _, run in known],
            "steps": [_work(run) for _, run in known],
            "rounds": [f"{entry.rounds}/{entry.most_rounds}" for entry, _ in known],
            "loss": [digits(score.train_loss) for score in scores],
            **_metric_columns(scores),
            "trained": [entry.trained for entry, _ in known],
        }
        title = f"{len(known)} {counted(len(known), 'run')}"
        if len(set(columns["trained"])) == 1:
            title += f" of {columns.pop('trained')[0]}"
        print_table(out, title, columns)
    taken = [(entry, priced) for entry in entries if (priced := entry.under(policy)) is not None]
    if taken:
        goals = [priced.to_target for _, priced in taken]
        columns = {
            "run": [names[id(entry)] for entry, _ in taken],
            "policy": [priced.policy for _, priced in taken],
            "time [s]": [digits(priced.total.duration) for _, priced in taken],
            "energy [J]": [digits(priced.total.energy) for _, priced in taken],
            "to target": ["-" if goal is None else f"{goal.rounds} rounds" for goal in goals],
            "[s]": [digits(goal.duration if goal else None) for goal in goals],
            "[J]": [digits(goal.energy if goal else None) for goal in goals],
        }
        print_table(out, "What they took", columns)
    elif known:
        out.print(f"none of them was priced under {policy}")
    for entry in entries:
        if entry.fault is not None:
            out.print(f"note: {entry.fault}", soft_wrap=True)


def _metric_columns(scores: Sequence[Scores]) -> dict[str, list[str]]:
    """Return the columns of metrics on test data that runs have."""
    named = list(dict.fromkeys(name for score in scores for name in score.metrics))
    values = {name: [score.of(name) for score in scores] for name in ("accuracy", *named)}
    if all(map(isnan, values["accuracy"])):
        del values["accuracy"]
    return {name: [digits(value) for value in column] for name, column in values.items()}


def _work(run: RunSummary) -> str:
    return f"{run.local_epochs} epochs" if run.local_epochs else str(run.local_steps)


def _short_names(entries: Sequence[RunEntry]) -> list[str]:
    """Return folders without the part that all share."""
    paths = [entry.folder for entry in entries]
    if len(paths) == 1:
        return [paths[0].name or str(paths[0])]
    shared = os.path.commonpath(paths) if len({p.is_absolute() for p in paths}) == 1 else ""
    return [os.path.relpath(path, shared or ".") if shared else str(path) for path in paths]


def print_partition(out: Console, report: PartitionReport) -> None:
    """Print the partition of a scenario's data."""
    numbers = report.statistics
    how = "as given" if report.given else f"{report.kind}, {report.sizes} sizes"
    out.print(
        f"{report.name}: {numbers.samples} samples of {report.dataset} over {numbers.clients} "
        f"clients, {how}\n"
        f"each has {numbers.smallest} to {numbers.largest} samples, {digits(numbers.mean)} on "
        f"average, of {digits(numbers.classes_per_client)} classes\n"
        f"label skew (mean total variation): {numbers.skew:.2f}; dealt evenly it would be "
        f"{numbers.skew_if_iid:.2f} by chance"
    )
    if report.given:  # its notes were printed when the data was read
        _print_owners(out, report)
    else:
        print_notes(out, numbers.notes)


def _print_owners(out: Console, report: PartitionReport) -> None:
    """Print the samples of each client; of many clients, the first ones."""
    counts = report.label_counts[:MAX_OWNERS]
    commonest, samples = counts.max(1), counts.sum(1)
    names = report.names or [str(j) for j in range(len(report.label_counts))]
    common = [
        f"{label} ({most / held:.0%})" if held else "-"
        for label, most, held in zip(counts.argmax(1), commonest, samples, strict=True)
    ]
    columns = {
        "client": list(names[:MAX_OWNERS]),
        "samples": [str(held) for held in samples],
        "classes": [str(held) for held in (counts > 0).sum(1)],
        "commonest": common,
        "skew": ["-" if np.isnan(each) else f"{each:.2f}" for each in report.skews[:MAX_OWNERS]],
    }
    print_table(out, "Samples by client", columns)
    if (more := len(report.label_counts) - len(counts)) > 0:
        out.print(f"and {more} more, which JSON lists")
