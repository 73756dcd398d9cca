"""Print rounds: one round by client, a comparison of policies, the summary of a ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from fedcell.core.showing import shortened
from fedcell.network.compare import Comparison, CostSweep
from fedcell.network.ledger import Ledger
from fedcell.network.physics.pricing import client_energy
from fedcell.network.schedule import ScheduledRound
from fedcell.scenario.scenario import Scenario

from .console import digits, plus_minus, print_notes, print_table

MAX_CLIENTS = 100  # rows of a table
NAME_WIDTH = 18  # characters of a name, so that the table fits 80


def client_titles(scheduled: ScheduledRound) -> list[str]:
    """Return the names or numbers of the clients of a round."""
    of = scheduled.of
    numbers = range(scheduled.schedule.share.size) if of is None else of.clients
    return list(of.names) if of is not None and of.names else [str(j) for j in numbers]


def print_schedule(out: Console, scheduled: ScheduledRound) -> None:
    """Print one round by client, as `fedcell schedule` does."""
    given, cost, of = scheduled.columns(), scheduled.cost, scheduled.of
    columns = {
        "client": [shortened(title, NAME_WIDTH) for title in client_titles(scheduled)],
        "air [%]" if scheduled.in_turn else "band [%]": [
            digits(100 * share) for share in given["share"]
        ],
        "CPU [MHz]": [digits(freq / 1e6) for freq in given["freq"]],
        **({"send [mW]": [digits(1e3 * p) for p in given["power"]]} if "power" in given else {}),
        "train [s]": list(map(digits, given["compute_time"])),
        "upload [s]": list(map(digits, given["upload_time"])),
        "train [J]": list(map(digits, given["compute_energy"])),
        "upload [J]": list(map(digits, given["upload_energy"])),
    }
    if "power" in given or (of is not None and of.names is not None):  # all energies in a column
        columns = {name: c for name, c in columns.items() if not name.endswith("[J]")}
        columns["energy [J]"] = [digits(joules) for joules in client_energy(cost).tolist()]
    shown = {heading: cells[:MAX_CLIENTS] for heading, cells in columns.items()}
    which = "One round" if of is None else f"Round {of.round}, seed {of.seed}"
    print_table(out, f"{which}, policy {scheduled.policy}", shown)
    if (more := len(columns["client"]) - MAX_CLIENTS) > 0:
        out.print(f"and {more} clients more")
    _print_levels(out, scheduled)
    out.print(
        f"the round takes {digits(float(cost.duration))} s and {digits(float(cost.energy))} J"
    )
    if scheduled.has_devices:
        out.print(energy_parts(scheduled.timeline.by_part))
    if of is not None and of.broadcast_time:
        out.print(f"before it, {digits(of.broadcast_time)} s to send the model to all")
    out.print(
        f"cost, in seconds + l_0 x joules: joint (22) {digits(float(cost.objective))} s;\n"
        f"staged (20) {digits(float(cost.upload_cost))} s to upload + "
        f"{digits(float(cost.compute_cost))} s to compute"
    )
    if proof := scheduled.certificate:
        out.print(
            f"certificate (0 at the optimum): gap {float(proof.gap):.1e}, "
            f"primal {float(proof.primal):.1e}, dual {float(proof.dual):.1e}"
        )
        if scheduled.has_steps:
            out.print(
                "rates have steps, so the gap is to a bound over all of them: no schedule costs "
                f"less by more than {100 * max(float(proof.gap), 0.0):.2g} %"
            )


def _print_levels(out: Console, scheduled: ScheduledRound) -> None:
    """Print the two clock levels that each client shares its time between."""
    if scheduled.levels is None or scheduled.any_clock is None:
        return
    below, above, share = scheduled.levels
    clients = zip(client_titles(scheduled), below, above, share, strict=True)
    cells = [
        (
            shortened(title, NAME_WIDTH),
            digits(low / 1e6),
            digits(high / 1e6) if x > 0 else "-",
            digits(100 * x) if x > 0 else "-",
        )
        for title, low, high, x in list(clients)[:MAX_CLIENTS]
    ]
    headings = ("client", "level [MHz]", "next level [MHz]", "time at it [%]")
    columns = {
        heading: list(c) for heading, c in zip(headings, zip(*cells, strict=True), strict=True)
    }
    print_table(out, "Clock levels", columns)
    less = 1 - scheduled.any_clock / float(scheduled.cost.objective)
    out.print(
        f"with any clock instead of levels, the policy would cost {100 * less:.2g} % less (22)"
    )


def energy_parts(parts: Mapping[str, Any], whose: str = "of these joules") -> str:
    """Return joules by part in a line, without those of nothing."""
    named = {"wait": "waiting", "train": "training", "upload": "uploading"}
    some = {named.get(part, part): float(joules) for part, joules in parts.items()}
    least = 1e-9 * sum(some.values())  # below it is rounding
    return f"{whose}: " + ", ".join(f"{p} {digits(j)}" for p, j in some.items() if j > least)


def _counted(world: Scenario) -> str:
    """Return which joules are summed and which averaged over the clients, in words."""
    if world.device is not None and world.device.count_energy == "sum":
        return "all joules\nof the clients are summed (device.count_energy)"
    begin = "of the joules, those of\n"
    if world.radio is not None or world.device is not None:
        return f"{begin}the radio are summed and those of training and waiting averaged"
    return f"{begin}uploading are summed and those of training averaged, as the paper does"


def print_comparison(out: Console, comparison: Comparison, name: str = "scenario") -> None:
    """Print a comparison of policies, as `fedcell cost` does."""
    world, policies = comparison.scenario, comparison.policies
    plan, names = world.plan, [costs.policy for costs in policies]
    averaged_over = "the rounds of this fleet"
    if comparison.fleets > 1:
        averaged_over = f"the means of {comparison.fleets} fleets"
    elif world.cell.recorded is not None:
        averaged_over += ", as if they were independent"
    out.print(
        f"{name}: K = {plan.cohort} of {world.clients.count} clients; {_work(world)}\n"
        f"{comparison.rounds} rounds; ± 95 % over {averaged_over}"
    )

    def means(measure: str) -> list[str]:
        return [plus_minus(costs.mean[measure]) for costs in policies]

    def changes(measure: str) -> list[str]:
        return [plus_minus(costs.difference[measure]) for costs in policies[1:]]

    print_table(
        out,
        "Cost of a round: upload, compute, staged (20), and joint (22)",
        {
            "policy": names,
            "C_u [s]": means("upload_cost"),
            "C_n [s]": means("compute_cost"),
            "C_u + C_n [s]": means("staged_cost"),
            "(22) [s]": means("objective"),
        },
    )
    out.print(
        f"costs are seconds + l_0 x joules, l_0 = {digits(world.task.energy_weight)} s/J; "
        f"{_counted(world)}"
    )
    spent = {"policy": names, "time [s]": means("duration"), "energy [J]": means("energy")}
    print_table(out, "Spent in a round", spent)
    if len(policies) > 1:
        columns = {
            "policy": names[1:],
            "C_u + C_n [s]": changes("staged_cost"),
            "(22) [s]": changes("objective"),
            "time [s]": changes("duration"),
            "energy [J]": changes("energy"),
        }
        print_table(out, f"Change against {names[0]}, with common random numbers", columns)
    out.print(
        f"clients per round: {comparison.called:.4g} called, {comparison.received:.4g} received;\n"
        f"asked and passed over: {comparison.excluded_by_channel:.3g} with a weak channel; "
        f"never called: {comparison.excluded_by_data:.3g} with little data"
    )
    _print_remarks(out, comparison)


def _print_remarks(out: Console, comparison: Comparison) -> None:
    """Print what else there is to say of a comparison."""
    plan = comparison.scenario.plan
    if grams := comparison.grams:
        each = ", ".join(f"{name} {digits(value)}" for name, value in grams.items())
        out.print(f"CO2 of a round [g]: {each}")
    if plan.cohort_drawn == "after-training":
        out.print("all eligible clients train; the energy includes theirs")
    if comparison.short_rounds:
        out.print(
            f"in {comparison.short_rounds} of {comparison.rounds * comparison.fleets} rounds fewer "
            f"than {plan.cohort} clients could be called;\nin {comparison.empty_rounds} none, "
            "which the means leave out"
        )
    print_notes(out, comparison.notes)


def _work(world: Scenario) -> str:
    """Return the work of a client in a round, in words."""
    if world.plan.local_epochs:
        return f"{world.plan.local_epochs} local epochs"
    charged = f"a batch of {world.task.batch_size}"
    samples = "all data" if world.samples_per_step == "dataset" else charged
    return f"E_l = {world.plan.local_steps} local steps, each over {samples}"


def print_sweep(out: Console, sweep: CostSweep) -> None:
    """Print the staged cost of a round over K and over E_l, for each policy."""
    for axis in dict.fromkeys(point.axis for point in sweep.points):
        points = [point for point in sweep.points if point.axis == axis]
        names = [costs.policy for costs in points[0].comparison.policies]
        columns: dict[str, Sequence[str]] = {
            axis: [str(point.value) for point in points],
            "spread": [f"{point.spread:g}" for point in points],
        }
        columns |= {
            f"{name} [s]": [plus_minus(p.comparison[name].mean["staged_cost"]) for p in points]
            for name in names
        }
        print_table(out, f"C_u + C_n of a round over {axis}", columns)


def print_ledger(out: Console, ledger: Ledger) -> None:
    """Print totals and means of a ledger."""
    if not ledger.rounds:
        out.print("no rounds")
        return
    out.print(
        f"{ledger.rounds} rounds: {digits(float(ledger.duration.sum()))} s, "
        f"{digits(float(ledger.energy.sum()))} J, cost {digits(float(ledger.cost.sum()))} s"
    )
    out.print(
        f"a round on average: {digits(float(ledger.duration.mean()))} s, "
        f"{digits(float(ledger.energy.mean()))} J; {ledger.called.mean():.4g} clients called, "
        f"{ledger.received.mean():.4g} received"
    )
    if parts := ledger.energy_by_part:
        out.print(energy_parts(parts))
    if ledger.trained:
        out.print(f"training loss after the last round: {digits(float(ledger.train_loss[-1]))}")
