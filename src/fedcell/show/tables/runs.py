"""Runs and partitions as tables: what was reached, what it took, who holds what."""

from math import isnan

from rich.console import Console

from fedcell.experiments.seeds_result import SeedsResult
from fedcell.learning.setup import PartitionReport
from fedcell.simulation.run import RunResult

from .console import counted, digits, plus_minus, print_notes, print_table

SCORES = {"train_loss": "training loss", "test_loss": "test loss", "accuracy": "accuracy"}


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
        columns["most of a client [J]"] = most  # known for all rounds only
    title = f"To {target} {target.definition}" if target is not None and goal else "In all"
    print_table(out, f"{title}, on the same dice", columns)
    if {"optimal", "optimal-staged"} <= set(columns["policy"]):
        out.print("optimal minimises the joint cost (22) of a round, optimal-staged that of (12)")


def print_seeds(out: Console, result: SeedsResult, name: str = "scenario") -> None:
    """What a scenario takes on average over seeds, under each policy."""
    every, target = len(result.finished), result.target
    if not every:
        out.print("no run was finished")
        return
    run = next(iter(result.runs.values())).outcome
    work = f"{run.local_epochs} local epochs" if run.local_epochs else f"E_l = {run.local_steps}"
    out.print(f"{name}: K = {run.cohort}, {work}, {every} {counted(every, 'seed')}")
    scores = result.scores()
    known = [(words, scores[key]) for key, words in SCORES.items() if not isnan(scores[key].value)]
    out.print(
        "\n".join(f"{words} of the last models: {plus_minus(score)}" for words, score in known)
    )
    goal = target is not None and result.reached == every
    if target is not None and not goal:
        missed = every - result.reached
        out.print(
            f"{target} {target.definition} was not reached in {result.rounds} rounds by {missed} "
            f"of {every} {counted(every, 'seed')}: they count as what they took, so the means are low"
        )
    found = result.estimates()
    columns = {
        "policy": [row.policy for row in found],
        "rounds": [plus_minus(row.rounds.mean) for row in found],
        "time [s]": [plus_minus(row.duration) for row in found],
        "energy [J]": [plus_minus(row.energy) for row in found],
        "cost (12) [s]": [plus_minus(row.cost) for row in found],
    }
    title = "In all" if target is None else f"To {target} {target.definition}"
    print_table(out, f"{title}, means with 95 % intervals", columns)


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
