"""Before training: one call from a scenario and its pilot to a plan."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet
from fedcell.network.participation import rarely_heard
from fedcell.network.policies.names import PolicyLike
from fedcell.planning.choice.limits import Limits, has_batteries
from fedcell.planning.choice.plan import TrainingPlan, planned_identity
from fedcell.planning.costs.rounds import callable_clients
from fedcell.planning.costs.units import unit_costs
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.scenario.target import Target

from .law_source import law_source
from .question import Question
from .setting import Objective, Region, Setting, check_objective, check_range
from .whatif import least_bandwidth, sensitivity

WORDS = {"cohort": "clients a round", "local_steps": "steps"}


def plan_training(
    scenario: Scenario,
    pilot: Pilot | str | Path | None = None,
    law: RoundsLaw | None = None,
    *,
    policy: PolicyLike | None = None,
    minimise: Objective = "cost",
    target: Target | float | None = None,
    limits: Limits | None = None,
    clients: tuple[int, int] | None = None,
    steps: tuple[int, int] | None = None,
    solve_for: Literal["bandwidth"] | None = None,
    what_if: bool = False,
    seed: int = 0,
    name: str = "scenario",
    data_dir: Path | None = None,
) -> TrainingPlan:
    """Chooses K and E_l before training: how many clients, how many steps, how long, how many J.

    The rounds to the `target` come from a `pilot` of the scenario (its value, or its file) or from
    a `law`; what a round costs comes from the scenario, under a `policy`: where left out, ours that
    is best for what is to be least. That is the paper's cost (12), the duration or the energy,
    within the `limits`: `Limits(deadline=120.0, energy=50.0)`, in seconds and joules. With a pilot,
    the plan is one of the settings that it tried; with a law, any whole K and E_l up to 200.
    `clients` and `steps` restrict them: (3, 20). `solve_for="bandwidth"` finds the least band that
    keeps the deadline; `what_if` adds how the plan moves in nearby worlds.

    >>> from fedcell import GivenLaw, load_scenario
    >>> law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    >>> plan = plan_training(load_scenario("digits"), law=law, name="digits")
    >>> plan.cohort, plan.local_steps
    (5, 42)
    """
    check_scenario(scenario)
    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise BadInput(f"`limits` = {limits!r}: expected Limits(deadline=..., energy=...)")
    if solve_for not in (None, "bandwidth"):
        raise BadInput(f"`solve_for` = {solve_for}: expected bandwidth")
    if solve_for and limits.deadline == inf:
        raise BadInput("`solve_for` bandwidth: give the deadline that is to be kept (`limits`)")
    if limits.confidence is not None and not limits.any and not has_batteries(scenario):
        raise BadInput("`confidence`: give what is to be kept: a deadline or an energy (`limits`)")
    check_objective(minimise)
    if isinstance(pilot, str | Path):
        pilot = load_pilot(pilot)
    if not isinstance(pilot, Pilot | None):
        raise BadInput(f"`pilot` = {pilot!r}: expected a Pilot, or the path of its file")
    world, fingerprint, label_counts = scenario, None, None
    own_sizes = None if pilot is None else pilot.sizes  # D_j of a learner of one's own
    if own_sizes is not None:
        world = scenario.using(clients={"sizes": np.array(own_sizes)})
    elif scenario.learning is not None:
        setup = prepare_training(scenario, seed, data_dir)
        world, fingerprint = setup.scenario, setup.fingerprint  # with D_j, z_m and alpha_0
        label_counts = setup.label_counts
    source = law_source(world, fingerprint, pilot, law, target)
    fleet = draw_fleet(world, seed)
    most = callable_clients(world, seed, fleet)
    few, many = check_range(clients, "`clients`", most)
    short, long = Region(steps=steps).steps_up_to(source.most_steps)
    long = min(long, source.most_steps) if source.tried else long
    tried = _within(source.tried, (few, many), (short, long))

    question = Question(
        source=source,
        clients=(few, many),
        steps=(short, long),
        tried=tried,
        policy=policy,
        minimise=minimise,
        limits=limits,
        seed=seed,
        name=name,
    )
    if solve_for:
        world = least_bandwidth(world, question)
        fleet = draw_fleet(world, seed)
    best = question.best_plan(world, fleet)
    assert best.grid is not None
    planned = world.with_plan(best.cohort, best.local_steps)
    return replace(
        best,
        identity=planned_identity(scenario, best.apply_to(world), fingerprint),
        scenario=scenario.using(cell={"bandwidth": world.cell.bandwidth}),
        unit_costs=unit_costs(planned, best.grid.policy, seed, fleet),
        sensitivity=sensitivity(world, best, question) if what_if else (),
        bandwidth=world.cell.bandwidth if solve_for else None,
        learner=None if pilot is None else pilot.learner,
        server=None if pilot is None else pilot.server,
        notes=(
            *source.notes,
            *best.notes,
            *_edge_notes(tried, best, long),
            *rarely_heard(planned, fleet, label_counts),
        ),
    )


def _within(
    tried: Sequence[Setting] | None, cohorts: tuple[int, int], steps: tuple[int, int]
) -> tuple[Setting, ...] | None:
    """Those of the settings that were tried which may be planned; None with a law by hand."""
    if tried is None:
        return None
    found = tuple(
        s
        for s in tried
        if cohorts[0] <= s.cohort <= cohorts[1] and steps[0] <= s.local_steps <= steps[1]
    )
    if not found:
        nearest = "; ".join(str(setting) for setting in tried[:5])
        raise BadInput(
            f"the pilot tried nothing within `clients` and `steps` that got there (but {nearest}): "
            "run it with the same ranges"
        )
    return found


def _edge_notes(tried: Sequence[Setting] | None, best: TrainingPlan, long: int) -> list[str]:
    """Whether the best lies at the edge of what was tried, and might lie beyond."""
    if tried is None:
        edge = best.local_steps == long
        return (
            [f"{long} steps are the most that was looked at: `steps` allows more"] if edge else []
        )
    here = {"cohort": best.cohort, "local_steps": best.local_steps}
    notes = []
    for name, value in here.items():
        seen = sorted({getattr(s, name) for s in tried})
        if len(seen) > 1 and value in (seen[0], seen[-1]) and value > 1:
            end, more = ("most", "more") if value == seen[-1] else ("least", "fewer")
            notes.append(
                f"{value} {WORDS[name]} are the {end} that were tried and got there: if {more} "
                "are possible, a pilot with more time looks further"
            )
    return notes
