"""Runs and partitions as tables: what was reached, what it took, who holds what."""

from collections.abc import Sequence
from math import isnan

from rich.console import Console

from fedcell.core.showing import client_title
from fedcell.learning.setup import PartitionReport
from fedcell.simulation.run import RunResult
from fedcell.simulation.summary import PolicyOutcome

from .console import digits, print_notes, print_table

MOST_NAMED = 3  # clients that a sentence names; how many more there are is said


def print_run(out: Console, result: RunResult, name: str = "scenario") -> None:
    """What a run reached, and what it took under each policy."""
    run, rows = result.outcome, result.outcome.policies
    if run.local_epochs:
        work = f"{run.local_epochs} local epochs, charged as passes over the data"
    else:
        charged = "a batch" if run.samples_per_step == "batch" else "all data"
        work = f"{run.local_steps} local steps, a step charged as {charged}"
    out.print(
        f"{name}: K = {run.cohort}, {work};\n"
        f"{run.model_bits / 1e6:.3g} Mbit per upload, "
        f"{run.cycles_per_sample:.3g} cycles per sample"
    )
    if not rows:
        out.print("no round was done")
        return
    first, scores, target = rows[0], rows[0].scores, run.target
    out.print(
        f"after {first.total.rounds} rounds: training loss {digits(scores.train_loss)}, test loss "
        f"{digits(scores.test_loss)}, accuracy {digits(scores.accuracy)}"
    )
    mean = run.average
    out.print(
        f"the average of the last models: training loss {digits(mean.train_loss)}, test loss "
        f"{digits(mean.test_loss)}, accuracy {digits(mean.accuracy)}"
    )
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
        "cost (12) [s]": [digits(t.cost) for t in taken],
    }
    if all(row.total.rounds == t.rounds for row, t in zip(rows, taken, strict=True)):
        most = [digits(row.highest_client_energy) for row in rows]
        columns["highest [J]"] = most  # of one client; known for all rounds only
    title = f"To {target} {target.definition}" if target is not None and goal else "In all"
    print_table(out, f"{title}, on the same dice", columns)
    for sentence in _who_pays(rows):
        out.print(sentence)
    if {"optimal", "optimal-staged"} <= set(columns["policy"]):
        out.print("optimal minimises the joint cost (22) of a round, optimal-staged that of (12)")
    print_notes(out, run.notes)


def _who_pays(rows: Sequence[PolicyOutcome]) -> list[str]:
    """The clients that spend most, and those whose battery would not have lasted."""
    payers: dict[str, list[str]] = {}
    for row in rows:
        title = client_title(row.highest_client, row.highest_client_name)
        payers.setdefault(title, []).append(row.policy)
    most = list(payers)
    if len(payers) > 1:
        most = [f"{who} (under {', '.join(policies)})" for who, policies in payers.items()]
    sentences = [f"the client that pays most (highest): {', '.join(most)}"]
    for row in rows:
        if row.empty_batteries:
            named = [
                f"{client_title(empty.client, empty.name)} in round {empty.round}"
                for empty in row.empty_batteries[:MOST_NAMED]
            ]
            more = len(row.empty_batteries) - len(named)
            rest = f" and {more} more" if more else ""
            sentences.append(
                f"under {row.policy}, batteries would have been empty: {', '.join(named)}{rest}"
            )
    return sentences


def print_partition(out: Console, report: PartitionReport) -> None:
    """How the data of a scenario is dealt."""
    numbers = report.statistics
    out.print(
        f"{report.name}: {numbers.samples} samples of {report.dataset} over {numbers.clients} "
        f"clients, {report.kind}, {report.sizes} sizes\n"
        f"each has {numbers.smallest} to {numbers.largest} samples, {digits(numbers.mean)} on "
        f"average, of {digits(numbers.classes_per_client)} classes\n"
        f"label skew (mean total variation): {numbers.skew:.2f}; dealt evenly it would be "
        f"{numbers.skew_if_iid:.2f} by chance"
    )
    print_notes(out, numbers.notes)
