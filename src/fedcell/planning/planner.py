"""Plan a training: from a scenario and its pilot to K and E_l, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Ints
from fedcell.learning.setup import prepare_training
from fedcell.network.draw import draw_fleet
from fedcell.network.participation import rarely_heard
from fedcell.network.physics.notes import radio_notes
from fedcell.network.policies.names import PolicyLike
from fedcell.network.trace import Fleet
from fedcell.planning.choice.grid import PlanGrid
from fedcell.planning.choice.limits import Limits, has_batteries
from fedcell.planning.choice.plan import TrainingPlan, planned_identity
from fedcell.planning.costs.batteries import battery_lives, battery_notes, energy_by_part
from fedcell.planning.costs.memory import remembering
from fedcell.planning.costs.rounds import callable_clients
from fedcell.planning.costs.units import unit_costs
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.scenario.target import Target
from fedcell.simulation.checks import with_costs
from fedcell.simulation.compute import Compute

from .law_source import LawSource, law_source
from .question import Question
from .setting import Region, Setting
from .whatif import least_bandwidth, least_power, sensitivity, with_power

WORDS = {"cohort": "clients a round", "local_steps": "steps"}


@remembering()
def plan_training(
    scenario: Scenario,
    source: Pilot | RoundsLaw | str | Path | None = None,
    *,
    target: Target | float | None = None,
    region: Region = Region(),  # noqa: B008
    limits: Limits = Limits(),  # noqa: B008
    solve_for: Literal["bandwidth", "power"] | None = None,
    what_if: bool = False,
    seed: int = 0,
    compute: Compute = Compute(),  # noqa: B008
) -> TrainingPlan:
    """Choose K and E_l before training: clients a round, local steps, seconds and joules.

    Parameters
    ----------
    scenario : Scenario
        The scenario; it says what a round costs.
    source : Pilot, str, Path or RoundsLaw
        How many rounds training takes: a pilot of the scenario, its file, or a law. With a pilot
        the plan is one of the settings that it tried; with a law, any K and E_l up to 200.
    target : Target or float, optional
        Training loss to reach, or `Target(accuracy=...)`. Default: the pilot's.
    region : Region, optional
        Clients and steps that may be planned, the objective (the paper's cost (12), the duration
        or the energy), and the policy. Default: any, the cost, and the built-in policy with the
        lowest objective.
    limits : Limits, optional
        Deadline [s], energy [J] and confidence that the plan must keep.
    solve_for : {"bandwidth", "power"}, optional
        Find the narrowest band, or the least transmit power of all clients, that keeps the
        deadline.
    what_if : bool, optional
        Add how the plan changes in nearby worlds.
    seed : int, optional
        Random seed of the fleet and its data.
    compute : Compute, optional
        Its `data_dir` is used.

    Returns
    -------
    TrainingPlan
        The plan, with intervals; `plan.save("plan.json")`, `plan.apply_to()`.

    Raises
    ------
    NoPlan
        No K and E_l keep the limits.
    BadInput
        An argument cannot be used, or the pilot is of another scenario.

    Examples
    --------
    >>> from fedcell import GivenLaw, load_scenario, plan_training
    >>> law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    >>> plan = plan_training(load_scenario("digits"), law)
    >>> plan.cohort, plan.local_steps
    (5, 42)
    """
    _check_request(scenario, region, limits, solve_for)
    pilot, law = _checked_source(source)
    world, fingerprint, label_counts = _sized_world(scenario, pilot, seed, compute)
    rounds_from = law_source(world, fingerprint, pilot, law, target, region.other_loss_rate)
    fleet = draw_fleet(world, seed)
    question = _question(world, fleet, rounds_from, region, limits, seed)
    power = None
    if solve_for:
        if solve_for == "power":
            power = least_power(world, question)
            world, scenario = with_power(world, power), with_power(scenario, power)
        else:
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
        energy_by_part=energy_by_part(planned, fleet, best.grid.policy, seed, best.energy.value),
        bandwidth=world.cell.bandwidth if solve_for == "bandwidth" else None,
        power=power,
        learner=None if pilot is None else pilot.learner,
        server=None if pilot is None else pilot.server,
        notes=(
            *question.source.notes,
            *best.notes,
            *_edge_notes(question.tried, best, question.steps[1]),
            *rarely_heard(planned, fleet, label_counts),
            *_hardware_notes(planned, fleet, best.grid.policy, seed),
        ),
    )


@remembering()
def draft_plans(
    scenario: Scenario,
    source: Pilot | RoundsLaw,
    *,
    target: Target | float | None = None,
    region: Region = Region(),  # noqa: B008
    seed: int = 0,
    compute: Compute = Compute(),  # noqa: B008
) -> PlanGrid:
    """Return what plans take, for a picture while a question changes: no plan is chosen.

    Arguments are those of `plan_training`. In a memory with `DRAFT` nodes this takes a tenth of the
    time of a plan, and costs are up to a third off.
    """
    pilot, law = _checked_source(source)
    world, fingerprint, _ = _sized_world(scenario, pilot, seed, compute)
    rounds_from = law_source(world, fingerprint, pilot, law, target, region.other_loss_rate)
    fleet = draw_fleet(world, seed)
    question = _question(world, fleet, rounds_from, region, Limits(), seed)
    return question.evaluate(world, fleet=fleet)


def _check_request(
    scenario: Scenario, region: Region, limits: Limits, solve_for: str | None
) -> None:
    """Refuse arguments that do not go together."""
    check_scenario(scenario)
    if not isinstance(limits, Limits):
        raise BadInput(f"`limits` = {limits!r}: expected Limits(deadline=..., energy=...)")
    if not isinstance(region, Region):
        raise BadInput(f"`region` = {region!r}: expected Region(clients=..., steps=...)")
    if solve_for not in (None, "bandwidth", "power"):
        raise BadInput(f"`solve_for` = {solve_for}: expected bandwidth or power")
    if solve_for and limits.deadline == inf:
        raise BadInput(f"`solve_for` {solve_for}: give the deadline to keep (`limits`)")
    measured = scenario.cell.channel.measured
    given = "rate" if scenario.has_rates else measured and measured.quantity
    if (given == "rate" and solve_for) or (given == "snr" and solve_for == "power"):
        raise BadInput(
            f"`solve_for` {solve_for}: the {given} of each client is given, whatever the "
            f"{solve_for}: leave it out"
        )
    if limits.confidence is not None and not limits.any and not has_batteries(scenario):
        raise BadInput("`confidence`: give a deadline or an energy to keep (`limits`)")


def _hardware_notes(world: Scenario, fleet: Fleet, policy: PolicyLike, seed: int) -> list[str]:
    """What a radio engineer would say, and how long batteries last where devices are declared."""
    notes = radio_notes(world, fleet, policy, seed)
    if world.device is not None and fleet.battery is not None:
        notes += battery_notes(battery_lives(world, policy, seed, fleet))
    return notes


def _checked_source(
    source: Pilot | RoundsLaw | str | Path | None,
) -> tuple[Pilot | None, RoundsLaw | None]:
    """Return the pilot or the law that the rounds come from."""
    if source is None:
        raise BadInput("a plan needs a `pilot` (`run_pilot` makes one) or a `law`")
    if isinstance(source, str | Path):
        return load_pilot(source), None
    if isinstance(source, Pilot):
        return source, None
    if not isinstance(source, RoundsLaw):
        raise BadInput(
            f"`source` = {source!r}: expected a Pilot, the path of its file, or a law of rounds, "
            "as GivenLaw"
        )
    return None, source


def _sized_world(
    scenario: Scenario, pilot: Pilot | None, seed: int, compute: Compute
) -> tuple[Scenario, str | None, Ints | None]:
    """Return the scenario with D_j, z_m and alpha_0, its data's fingerprint, and label counts."""
    if pilot is not None and pilot.sizes is not None:  # D_j, z_m and alpha_0 of a custom learner
        known = {"model_bits": pilot.model_bits, "cycles_per_sample": pilot.cycles_per_sample}
        world = with_costs(scenario, {k: v for k, v in known.items() if v is not None})
        return world.using(clients={"sizes": np.array(pilot.sizes)}), None, None
    if scenario.learning is None:
        return scenario, None, None
    setup = prepare_training(scenario, seed, compute.data_path)
    return setup.scenario, setup.fingerprint, setup.label_counts


def _question(
    world: Scenario,
    fleet: Fleet,
    source: LawSource,
    region: Region,
    limits: Limits,
    seed: int,
) -> Question:
    """Return what is asked of every world: ranges, objective, policy and limits."""
    clients = region.clients_up_to(callable_clients(world, seed, fleet))
    short, long = region.steps_up_to(source.most_steps)
    long = min(long, source.most_steps) if source.tried else long
    return Question(
        source=source,
        clients=clients,
        steps=(short, long),
        tried=_within(source.tried, clients, (short, long)),
        policy=region.policy,
        minimise=region.minimise,
        limits=limits,
        seed=seed,
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
            f"no setting within `clients` and `steps` reached the target in the pilot (but "
            f"{nearest}): run it with the same ranges"
        )
    return found


def _edge_notes(tried: Sequence[Setting] | None, best: TrainingPlan, long: int) -> list[str]:
    """Whether the best lies at the edge of what was tried, and might lie beyond."""
    if tried is None:
        edge = best.local_steps == long
        return (
            [f"{long} steps are the most that were evaluated: `steps` allows more"] if edge else []
        )
    here = {"cohort": best.cohort, "local_steps": best.local_steps}
    notes = []
    for name, value in here.items():
        seen = sorted({getattr(s, name) for s in tried})
        if len(seen) > 1 and value in (seen[0], seen[-1]) and value > 1:
            end, more = ("most", "more") if value == seen[-1] else ("least", "fewer")
            notes.append(
                f"{value} {WORDS[name]} are the {end} that reached the target in the pilot: if "
                f"{more} are possible, give the pilot more time"
            )
    return notes
