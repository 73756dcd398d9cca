"""Tables for people: units in every heading, no digits that mean nothing. JSON for programs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedcell.network.compare import Row
from fedcell.scenario.load import as_json
from fedcell.scenario.tables import Scenario

MOST_CLIENTS = 100  # that a table shows


def print_schedule(out: Console, result: Row) -> None:
    """One round, client by client, as `fedcell schedule` answers it."""
    columns = {
        "client": [str(j) for j in range(len(result["share"]))],
        "band [%]": [digits(100 * share) for share in result["share"]],
        "CPU [MHz]": [digits(freq / 1e6) for freq in result["freq"]],
        "train [s]": list(map(digits, result["compute_time"])),
        "upload [s]": list(map(digits, result["upload_time"])),
        "train [J]": list(map(digits, result["compute_energy"])),
        "upload [J]": list(map(digits, result["upload_energy"])),
    }
    shown = {heading: cells[:MOST_CLIENTS] for heading, cells in columns.items()}
    print_table(out, table(f"One round, policy {result['policy']}", shown))
    if (more := len(columns["client"]) - MOST_CLIENTS) > 0:
        out.print(f"and {more} clients more; --json shows all")
    out.print(f"the round takes {digits(result['duration'])} s and {digits(result['energy'])} J")
    out.print(
        f"cost, in seconds + l_0 x joules: joint (22) {digits(result['objective'])} s;\n"
        f"staged (20) {digits(result['upload_cost'])} s to upload + "
        f"{digits(result['compute_cost'])} s to compute"
    )
    if proof := result.get("certificate"):
        out.print(
            f"certificate (0 at the optimum): gap {proof['gap']:.1e}, "
            f"primal {proof['primal']:.1e}, dual {proof['dual']:.1e}"
        )


def print_comparison(out: Console, name: str, world: Scenario, rows: Sequence[Row]) -> None:
    """Policies side by side, as `fedcell cost` answers them."""
    plan, first = world.plan, rows[0]
    policies = [row["policy"] for row in rows]
    means = {
        "policy": policies,
        "C_u [s]": [plus_minus(row["upload"]) for row in rows],
        "C_n [s]": [plus_minus(row["compute"]) for row in rows],
        "C_u + C_n [s]": [plus_minus(row["staged"]) for row in rows],
        "(22) [s]": [plus_minus(row["objective"]) for row in rows],
    }
    spent = {
        "policy": policies,
        "time [s]": [plus_minus(row["duration"]) for row in rows],
        "energy [J]": [plus_minus(row["energy"]) for row in rows],
    }
    changes = {"policy": policies[1:]} | {
        heading: [plus_minus(row["difference"][name]) for row in rows[1:]]
        for heading, name in [
            ("C_u + C_n [s]", "staged"),
            ("(22) [s]", "objective"),
            ("time [s]", "duration"),
            ("energy [J]", "energy"),
        ]
    }
    over = "the rounds of this fleet"
    if first["fleets"] > 1:
        over = f"the means of {first['fleets']} fleets"
    elif world.cell.gains is not None:
        over += ", as if they were independent"
    task = world.task
    out.print(
        f"{name}: K = {plan.cohort} of {world.clients.count} clients; {_work(world)}\n"
        f"{first['rounds']} rounds; ± 95 % over {over}"
    )
    print_table(out, table("Cost of a round: upload, compute, staged (20), and joint (22)", means))
    out.print(
        f"costs are seconds + l_0 x joules, l_0 = {digits(task.energy_weight)} s/J; of the joules, "
        "those of\nuploading are summed and those of training averaged, as the paper does"
    )
    print_table(out, table("Really spent in a round", spent))
    if len(rows) > 1:
        print_table(out, table(f"Change against {policies[0]}, on the same dice", changes))
    out.print(
        f"clients per round: {first['called']:.4g} called, {first['received']:.4g} received;\n"
        f"sat out: {first['weak']:.3g} with a weak channel, {first['poor']:.3g} with little data"
    )
    if plan.drawn == "after":
        out.print("all who may be called train; their joules are in the energy")
    if first["short"]:
        out.print(
            f"in {first['short']} of {first['rounds'] * first['fleets']} rounds fewer than "
            f"{plan.cohort} clients could be called;\nin {first['empty']} nobody, "
            "which the means leave out"
        )


def _work(world: Scenario) -> str:
    """What a client computes in a round, in words."""
    if world.plan.local_epochs:
        return f"{world.plan.local_epochs} local epochs"
    steps, batch = world.plan.local_steps, world.task.batch_size
    dataset = world.of_task("samples_per_step") == "dataset"
    return f"E_l = {steps} local steps, each over " + (
        "all data" if dataset else f"a batch of {batch}"
    )


def print_partition(out: Console, name: str, said: Mapping[str, Any]) -> None:
    """How the data of a scenario is dealt."""
    out.print(
        f"{name}: {said['samples']} samples of {said['dataset']} over {said['clients']} clients, "
        f"{said['kind']}, {said['sizes']} sizes\n"
        f"each has {said['smallest']} to {said['largest']} samples, {digits(said['mean'])} on "
        f"average, of {digits(said['classes_per_client'])} classes\n"
        f"label skew (mean total variation): {said['skew']:.2f}; dealt evenly it would be "
        f"{said['skew_if_iid']:.2f} by chance"
    )
    for note in said["notes"]:
        out.print(f"note: {note}")


def print_run(out: Console, name: str, said: Mapping[str, Any]) -> None:
    """What a run reached, and what it took under each policy."""
    rows = said["policies"]
    first, target = rows[0], said["target"]
    if said["local_epochs"]:
        work = f"{said['local_epochs']} local epochs, charged as passes over the data"
    else:
        charged = "a batch" if said["samples_per_step"] == "batch" else "all data"
        work = f"{said['local_steps']} local steps, a step charged as {charged}"
    out.print(
        f"{name}: K = {said['cohort']}, {work};\n"
        f"{said['model_bits'] / 1e6:.3g} Mbit per upload, "
        f"{said['cycles_per_sample']:.3g} cycles per sample"
    )
    shown = {
        measure: "-" if first[measure] is None else digits(first[measure])
        for measure in ("train_loss", "test_loss", "accuracy")
    }
    out.print(
        f"after {first['rounds']} rounds: training loss {shown['train_loss']}, test loss "
        f"{shown['test_loss']}, accuracy {shown['accuracy']}"
    )
    if first["train_loss"] is None and said["complete"]:  # else it may only not be evaluated
        out.print("the training loss is not a number: training diverged; lower learning.rate")
    if first["excluded"]:
        out.print(f"{first['excluded']} uploads were not finite and were left out")
    goal = all(row["to_target"] for row in rows)
    if target is not None and not goal:
        out.print(f"the training loss did not reach the target {digits(target)}")
    where = [row["to_target"] if goal else row for row in rows]
    columns = {
        "policy": [row["policy"] for row in rows],
        "rounds": [str(row["rounds"]) for row in where],
        "time [s]": [digits(row["seconds"]) for row in where],
        "energy [J]": [digits(row["joules"]) for row in where],
        "cost (12) [s]": [digits(row["cost"]) for row in where],
    }
    if all(row["rounds"] == there["rounds"] for row, there in zip(rows, where, strict=True)):
        most = [digits(row["joules_per_client"]["most"]) for row in rows]
        columns["most of a client [J]"] = most  # known for all rounds only
    title = f"To training loss {digits(target)}" if goal else "In all"
    print_table(out, table(f"{title}, on the same dice", columns))
    if {"optimal", "optimal-staged"} <= set(columns["policy"]):
        out.print("optimal minimises the joint cost (22) of a round, optimal-staged that of (12)")


def print_json(value: Any) -> None:
    """As JSON, in which NaN becomes null."""
    print(as_json(value), end="")


def plus_minus(value: Mapping[str, float]) -> str:
    """A mean and half its interval, to the last digit that means something."""
    mean, half = value["mean"], (value["high"] - value["low"]) / 2
    if not half > 0:  # a single value, or all the same
        return digits(mean)
    places = -math.floor(math.log10(half))
    if places > 6 or abs(mean) >= 1e6:
        return f"{mean:.4g} ± {half:.1g}"
    places = max(0, places)
    return f"{mean:.{places}f} ± {half:.{places}f}"


def digits(value: float) -> str:
    return f"{value:.4g}"


def print_table(out: Console, made: Table) -> None:
    """Prints a table as wide as it is: a clipped digit would be a wrong number."""
    wide = out.measure(made, options=out.options.update(max_width=1000)).maximum
    Console(file=out.file, width=max(wide, out.width), markup=False, highlight=False).print(made)


def table(title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    made = Table(
        title=Text("\n" + title),
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        show_edge=False,
        pad_edge=False,
    )
    for i, heading in enumerate(columns):
        made.add_column(Text(heading), justify="left" if i == 0 else "right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        made.add_row(*map(Text, row))
    return made
