"""Plans, and what became of them, as tables for people."""

from collections.abc import Sequence
from math import isfinite

from rich.console import Console

from fedcell.core.estimates import Estimate
from fedcell.core.quantities import readable_duration
from fedcell.planning.choice.limits import BATTERIES, PER_CLIENT
from fedcell.planning.choice.plan import TOLERANCE, PlanOutcome, TrainingPlan, WhatIf
from fedcell.planning.costs.rounds import SAME
from fedcell.planning.law.base import LEVEL

from .console import counted, digits, print_notes, print_table, two_digits
from .pilots import print_law
from .rounds import energy_parts

MOST_OF_FRONT = 12  # plans of a Pareto front in a table

TOTALS = {  # heading: measure
    "rounds": "rounds",
    "time [s]": "duration",
    "energy of all clients [J]": "energy",
    "cost [s]": "cost",
}


def print_plan(
    out: Console, plan: TrainingPlan, details: bool = False, front: bool = False
) -> None:
    """A plan; with `details` also what stands behind it: the law, the paper's own choice and unit
    costs; with `front` also the Pareto front."""
    k, e = plan.cohort, plan.local_steps
    out.print(
        f"{plan.name}: call {k} {counted(k, 'client')} a round and let each "
        f"train for {e} {counted(e, 'step')}"
    )
    if plan.rounds.low < plan.rounds.high:  # the law comes from a pilot
        clients = _span(plan.cohort_interval, "client")
        steps = _span(plan.local_steps_interval, "step")
        out.print(f"({LEVEL:.0%} interval of the optimum: {clients}, {steps})".replace("%", " %"))
    totals = [getattr(plan, measure) for measure in TOTALS.values()]
    columns = {
        "": list(TOTALS),
        "expected": [digits(estimate.value) for estimate in totals],
        "90 % low": [digits(estimate.low) for estimate in totals],
        "high": [digits(estimate.high) for estimate in totals],
    }
    target = plan.target
    goal = "" if target is None else f" to {target} {target.definition}"
    print_table(out, f"One run{goal}", columns)
    out.print(f"that is {readable_duration(plan.duration.value)} of simulated time{_worth(plan)}")
    if plan.energy_by_part:
        out.print(energy_parts(plan.energy_by_part, "of the joules"))
    for sentence in (*_limits(plan), *_who_pays(plan)):
        out.print(sentence)
    if plan.bandwidth is not None:
        out.print(f"the least band for this: {digits(plan.bandwidth / 1e6)} MHz")
    if plan.power is not None:
        out.print(f"the least transmit power for this: {digits(plan.power)} times what is declared")
    if (grams := plan.grams) is not None:
        out.print(f"that energy is {digits(grams)} g of CO2")
    rows = plan.policies
    columns = {
        "policy": list(rows),
        "time [s]": [digits(row["duration"].value) for row in rows.values()],
        "energy [J]": [digits(row["energy"].value) for row in rows.values()],
        "cost [s]": [digits(row["cost"].value) for row in rows.values()],
    }
    print_table(out, "Under each policy: who gets how much band, at which CPU speed", columns)
    out.print(_why(plan))
    _print_worlds(out, plan.sensitivity)
    if front:
        _print_front(out, plan)
    if details:
        _print_details(out, plan)
    print_notes(out, plan.notes)


def _print_worlds(out: Console, worlds: Sequence[WhatIf]) -> None:
    """How the plan moves in nearby worlds, where these were asked for."""
    if not worlds:
        return
    columns = {
        "change": [world.change for world in worlds],
        "clients": [str(world.cohort or "-") for world in worlds],
        "steps": [str(world.local_steps or "-") for world in worlds],
        "rounds": [digits(world.rounds) for world in worlds],
        "time [s]": [digits(world.duration) for world in worlds],
        "energy [J]": [digits(world.energy) for world in worlds],
        "cost [s]": [digits(world.cost) for world in worlds],
        "cost if kept [s]": [digits(world.kept_cost) for world in worlds],
    }
    print_table(out, "How the plan moves", columns)
    said = [(w.change, text) for w in worlds for text in (w.why_no_plan, w.note) if text]
    print_notes(out, [f"{change}: {text}" for change, text in said])


def _print_front(out: Console, plan: TrainingPlan) -> None:
    """The plans that no other plan beats in time and energy; of many, some evenly among them."""
    every = plan.front()
    count = min(len(every), MOST_OF_FRONT)
    shown = [every[round(i * (len(every) - 1) / max(1, count - 1))] for i in range(count)]
    columns = {
        "clients": [str(each.cohort) for each in shown],
        "steps": [str(each.local_steps) for each in shown],
        "rounds": [digits(each.rounds) for each in shown],
        "time [s]": [digits(each.duration) for each in shown],
        "energy [J]": [digits(each.energy) for each in shown],
        "cost [s]": [digits(each.cost) for each in shown],
    }
    print_table(out, f"Pareto front of time and energy, under {plan.policy}", columns)
    if count < len(every):
        out.print(f"{count} of {len(every)} plans of the front, evenly among them")


def _span(estimate: Estimate, thing: str) -> str:
    """From the least to the most that it may be, or both where they are one."""
    low, high = int(estimate.low), int(estimate.high)
    return f"{high} {counted(high, thing)}" if low == high else f"{low} to {high} {thing}s"


def _print_details(out: Console, plan: TrainingPlan) -> None:
    """What stands behind a plan, in the paper's words."""
    print_law(out, plan.law)
    out.print(_beside(plan))
    out.print("the cost is (12), which optimal-staged minimises round by round; optimal: (22)")
    if units := plan.unit_costs:
        columns = {
            "way": [unit.way for unit in units],
            "C_u,0 [s]": [digits(unit.costs.upload) for unit in units],
            "C_n,0 [s]": [digits(unit.costs.compute) for unit in units],
            "a round off by [%]": [f"{100 * unit.error:+.1f}" for unit in units],
        }
        print_table(out, "Unit costs at this K and E_l", columns)


def _worth(plan: TrainingPlan) -> str:
    """What the cost is made of, in words; nothing where the scenario is not known."""
    if plan.scenario is None:
        return ""
    worth = digits(plan.scenario.task.energy_weight)
    return f"; the cost counts a joule as {worth} s\n(task.energy_weight)"


def _why(plan: TrainingPlan) -> str:
    """Why the plan has this policy, in a sentence."""
    least = min(plan.policies, key=lambda name: plan.policies[name][plan.minimised].value)
    what = {"cost": "the cost", "duration": "the time", "energy": "the energy"}[plan.minimised]
    own, other = (plan.policies[name][plan.minimised].value for name in (plan.policy, least))
    if (1 - SAME) * own > other:
        return f"{plan.policy} was asked for, or keeps the limits; {least} would make {what} least"
    more = "; optimal minimises another cost, in which no client waits for others before uploading"
    return f"{plan.policy} makes {what} least, so the plan has it" + (
        more if plan.minimised == "cost" else ""
    )


def _limits(plan: TrainingPlan) -> list[str]:
    """Which limits the plan keeps, and with what chance."""
    asked = {
        "deadline": (plan.limits.deadline, "s"),
        "energy budget": (plan.limits.energy, "J"),
        PER_CLIENT: (plan.limits.energy_per_client, "J"),
        "mean energy budget per client": (plan.limits.mean_energy_per_client, "J"),
    }
    sentences = [
        f"keeps the {name} of {digits(limit)} {unit} with a chance of {plan.chances[name]:.0%}"
        + (", as far as the client that pays most goes" if name == PER_CLIENT else "")
        for name, (limit, unit) in asked.items()
        if isfinite(limit) and name in plan.chances
    ]
    if BATTERIES in plan.chances:
        powered = [device for device in plan.devices if device.battery is not None]
        worst = max(powered, key=lambda device: device.battery_share)
        share = two_digits(worst.battery_share)
        sentences.append(
            f"keeps the batteries with a chance of {plan.chances[BATTERIES]:.0%}: {worst.title} "
            f"spends most of its own, {share} of {digits(worst.battery)} J"
        )
    return sentences


def _who_pays(plan: TrainingPlan) -> list[str]:
    """The client that is expected to spend most."""
    if not plan.devices:
        return []
    most = max(plan.devices, key=lambda device: device.energy)
    return [
        f"{most.title} pays most: {digits(most.energy)} J are expected, in the {most.called:.3g} "
        "rounds that call it"
    ]


def _beside(plan: TrainingPlan) -> str:
    """What the closed forms would have chosen, in a sentence."""
    paper = plan.paper
    if not isfinite(paper.cost):
        return (
            f"the paper's closed forms say K = {paper.cohort}, E_l = {paper.local_steps}, which "
            "never reaches the target"
        )
    more = paper.cost / plan.cost.value - 1
    sentence = (
        f"the paper's closed forms say K = {paper.cohort}, E_l = {paper.local_steps}: "
        f"cost {digits(paper.cost)} s, {more:+.1%}"
    )
    return f"{sentence}, as good" if 0 <= more <= TOLERANCE else sentence


def print_outcome(out: Console, outcome: PlanOutcome) -> None:
    """What was predicted beside what a run took."""
    if outcome.differing:
        out.print(
            f"this is not the run that was planned ({', '.join(outcome.differing)}): its numbers "
            "say nothing of the plan",
            soft_wrap=True,
        )
    if not outcome.measured:
        out.print("the target was not reached: there is nothing to compare the plan with")
        return
    headings = {m: h.replace(" of all clients", "") for h, m in TOTALS.items()}
    columns = {"policy": list(dict.fromkeys(m.policy for m in outcome.measured))}
    for measure, heading in headings.items():
        here = [m for m in outcome.measured if m.measure == measure]
        columns[heading] = [f"{digits(m.taken)} / {digits(m.predicted.value)}" for m in here]
    print_table(out, "The plan's predictions against this run: taken / expected", columns)
    outside = [
        f"{headings[m.measure]} under {m.policy} is outside {digits(m.predicted.low)} to "
        f"{digits(m.predicted.high)}"
        for m in outcome.measured
        if outcome.inside(m) is False
    ]
    if outcome.inside(outcome.measured[0]) is not None:
        for sentence in outside or ["all of it within the 90 % intervals of the plan"]:
            out.print(sentence)
