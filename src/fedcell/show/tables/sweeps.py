"""The table of a sweep: rounds to the target at each point."""

import math

from rich.console import Console

from fedcell.experiments.sweep import SweepResult
from fedcell.paper.reproduce import Reproduction

from .console import digits, plus_minus, print_notes, print_table


def print_sweep_result(out: Console, result: SweepResult) -> None:
    """Points with their runs, and rounds to the target where there is one."""
    experiment = result.experiment
    every = range(len(experiment.points))
    names = list(dict.fromkeys(name for point in experiment.points for name in point.labels))
    columns = {
        name: [str(experiment.points[i].labels.get(name, "")) for i in every] for name in names
    } or {"point": [str(i) for i in every]}
    columns["runs"] = [str(len(result.curves_of(i))) for i in every]
    why = list(result.failures.values())
    notes = [f"{len(why)} trainings failed, the first of {why[0]}"] if why else []
    targeted = [
        i
        for i in every
        if experiment.points[i].until(1, 1).target is not None and result.curves_of(i)
    ]
    if targeted:
        found = {i: result.rounds(i) for i in targeted}
        cells = [found.get(i) for i in every]
        columns["reached"] = ["" if e is None else f"{e.reached}" for e in cells]
        columns["rounds"] = ["" if e is None else plus_minus(e.mean) for e in cells]
        medians = ["" if e is None else digits(e.median) for e in cells]
        columns["median"] = [
            f"> {experiment.rounds}" if e is not None and math.isinf(e.median) else text
            for e, text in zip(cells, medians, strict=True)
        ]
        if experiment.hold > 1:
            held = {i: result.rounds(i, experiment.hold) for i in targeted}
            columns[f"mean of {experiment.hold} there"] = [
                plus_minus(held[i].mean) if i in held else "" for i in every
            ]
        if any(e is not None and e.censored for e in cells):
            notes.append(
                f"runs that did not get there in {experiment.rounds} rounds count as "
                f"{experiment.rounds} in the mean: it is at least that"
            )
    print_table(out, f"{experiment.title}: rounds, ± 95 % over seeds", columns)
    print_notes(out, notes)


def print_reproduction(out: Console, found: Reproduction) -> None:
    """A panel, and the paper's sentences with what was found of each."""
    print_sweep_result(out, found.result)
    columns = {
        "claim": [v.claim for v in found.verdicts],
        "where": [v.where for v in found.verdicts],
        "verdict": [str(v.outcome) for v in found.verdicts],
    }
    print_table(out, f"{found.panel}: what the paper says of it", columns)
    for verdict in found.verdicts:
        out.print(f"{verdict.claim}, {verdict.where}: {verdict.number}", soft_wrap=True)
    if found.quick:
        print_notes(out, ["a rough version: other data, few seeds; it judges nothing for good"])
