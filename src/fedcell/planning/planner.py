"""Before training: one call from a scenario and its pilot to a plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Literal

import numpy as np

from fedcell.core.dice import check_count
from fedcell.core.errors import BadInput
from fedcell.core.quantities import check_target_loss
from fedcell.learning.setup import prepare_training
from fedcell.network.policies.names import NAMED, PolicyLike
from fedcell.scenario.identity import check_pilot_identity, pilot_identity
from fedcell.scenario.scenario import Scenario, check_scenario

from .choose import choose_plan, totals_under
from .design import Setting
from .grid import MOST_STEPS, PlanGrid, evaluate_plans
from .law import GivenLaw, RoundsLaw
from .limits import Limits
from .pilot import Pilot
from .pilotfile import load_pilot
from .plan import Aim, TrainingPlan
from .unit_costs import unit_costs
from .whatif import least_bandwidth, sensitivity

SYMBOLS = {"cohort": "K", "local_steps": "E_l", "loss_rate": "gamma"}


def plan_training(
    scenario: Scenario,
    pilot: Pilot | str | Path | None = None,
    law: RoundsLaw | None = None,
    *,
    policy: PolicyLike = "optimal",
    minimise: Aim = "cost",
    target: float | None = None,
    limits: Limits | None = None,
    max_steps: int | None = None,
    solve_for: Literal["bandwidth"] | None = None,
    what_if: bool = False,
    seed: int = 0,
    name: str = "scenario",
    data_dir: Path | None = None,
) -> TrainingPlan:
    """Chooses K and E_l before training: how many clients, how many steps, how long, how dear.

    The rounds to the `target` loss come from a `pilot` of the scenario (its value, or its file)
    or from a `law`; what a round costs under the `policy` comes from the scenario. All whole K
    and E_l (up to `max_steps`) are compared, and what is to be least is the paper's cost (12),
    the duration or the energy, within the `limits`: `Limits(deadline=120.0, energy=50.0)`, in
    seconds and joules. `max_steps` is what the pilot tried where left out, or 200 with a law by
    hand; `target` is the pilot's. `solve_for="bandwidth"` finds the least band that keeps the
    deadline; `what_if` adds how the plan moves in nearby worlds.

    >>> from fedcell import GivenLaw, load_scenario
    >>> law = GivenLaw(mixing=50, drift=0.02, start=250, floor=12)
    >>> plan = plan_training(load_scenario("digits"), law=law, name="digits")
    >>> plan.cohort, plan.local_steps
    (4, 37)
    """
    check_scenario(scenario)
    limits = Limits() if limits is None else limits
    if not isinstance(limits, Limits):
        raise BadInput(f"`limits` = {limits!r}: expected Limits(deadline=..., energy=...)")
    if solve_for not in (None, "bandwidth"):
        raise BadInput(f"`solve_for` = {solve_for}: expected bandwidth")
    if solve_for and limits.deadline == inf:
        raise BadInput("`solve_for` bandwidth: give the deadline that is to be kept (`limits`)")
    if limits.sure and limits == Limits(sure=True):
        raise BadInput("to be sure, give what is to be kept: a deadline or an energy (`limits`)")
    if max_steps is not None:
        check_count(max_steps, "`max_steps`")
    target = check_target_loss(target, "`target`")
    if isinstance(pilot, str | Path):
        pilot = load_pilot(pilot)
    if not isinstance(pilot, Pilot | None):
        raise BadInput(f"`pilot` = {pilot!r}: expected a Pilot, or the path of its file")
    world, fingerprint = scenario, None
    own_sizes = None if pilot is None else pilot.sizes  # D_j of a learner of one's own
    if own_sizes is not None:
        world = scenario.using(clients={"sizes": np.array(own_sizes)})
    elif scenario.learning is not None:
        setup = prepare_training(scenario, seed, data_dir)
        world, fingerprint = setup.scenario, setup.fingerprint  # with D_j, z_m and alpha_0
    source = _law_source(world, fingerprint, pilot, law, target)
    most_steps = source.most_steps if max_steps is None else max_steps

    def evaluate(some_world: Scenario) -> PlanGrid:
        return evaluate_plans(some_world, source.law, policy, most_steps, seed)

    def choose(grid: PlanGrid) -> TrainingPlan:
        return choose_plan(grid, limits, minimise, source.paper, source.target, name)

    if solve_for:
        world = least_bandwidth(world, evaluate, choose)
    best = choose(evaluate(world))
    planned = world.with_plan(int(best.cohort.value), int(best.local_steps.value))
    others = {n: totals_under(world, n, best, seed) for n in NAMED if n != best.policy}
    steps = int(best.local_steps.value)
    edge = [f"E_l = {steps} is the most that was tried: {source.to_see_further}"]
    return replace(
        best,
        scenario=scenario.using(cell={"bandwidth": world.cell.bandwidth}),
        policies=dict(best.policies) | others,
        unit_costs=unit_costs(planned, policy, seed),
        sensitivity=sensitivity(world, best, evaluate, choose) if what_if else (),
        bandwidth=world.cell.bandwidth if solve_for else None,
        notes=(
            *source.notes,
            *(edge if steps == most_steps else []),
            *best.notes,
            *_extrapolation_notes(source.tried, best, world.cell.loss_rate),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class _LawSource:
    """The law that a plan is made with, and what its pilot knows."""

    law: RoundsLaw
    paper: GivenLaw  # with the paper's three coefficients
    target: float | None
    most_steps: int = MOST_STEPS
    to_see_further: str = "`max_steps` allows more"
    tried: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()


def _law_source(
    world: Scenario,
    fingerprint: str | None,
    pilot: Pilot | None,
    law: RoundsLaw | None,
    target: float | None,
) -> _LawSource:
    if (pilot is None) == (law is None):
        raise BadInput("a plan needs a `pilot` (`run_pilot` makes one) or a `law`, and not both")
    if law is not None:
        if not isinstance(law, RoundsLaw):
            raise BadInput(f"`law` = {law!r}: expected a law of rounds, as GivenLaw")
        own = world.learning.target if world.learning else None
        paper = GivenLaw.of(law.coefficients)
        return _LawSource(law=law, paper=paper, target=own if target is None else target)
    assert pilot is not None
    if world.learning is None and pilot.sizes is None:
        raise BadInput("the scenario has no [learning], so no pilot is of it")
    check_pilot_identity(pilot.identity, pilot_identity(world, fingerprint), pilot.path)
    asked = target is not None
    target = pilot.target if target is None else target
    own = None if world.learning is None else world.learning.target
    notes = []
    if not asked and own not in (None, target):
        notes.append(
            f"the scenario's own target is {own:g}, and this plan is for {target:g}: `target` "
            "chooses"
        )
    fitted = pilot.fit(target)
    paper_fit = fitted if fitted.form == "paper" else pilot.fit(target, "paper")
    notes += [
        f"training diverged in the pilot at K = {s.cohort}, E_l = {s.local_steps}"
        for s in pilot.diverged
    ]
    return _LawSource(
        law=fitted,
        paper=paper_fit.law,
        target=target,
        most_steps=pilot.most_steps,
        to_see_further="pilot again with a larger plan.local_steps to see further",
        tried=pilot.tried,
        notes=tuple(notes),
    )


def _extrapolation_notes(
    tried: Sequence[Setting], best: TrainingPlan, loss_rate: float
) -> list[str]:
    """In what a plan is beyond what its pilot tried, where its law was off by a third and more."""
    here = {"cohort": best.cohort.value, "local_steps": best.local_steps.value}
    notes = []
    for name, value in (here | {"loss_rate": loss_rate}).items() if tried else ():
        seen = [getattr(setting, name) for setting in tried]
        if not min(seen) <= value <= max(seen) and not (name == "loss_rate" and value < min(seen)):
            notes.append(
                f"the pilot tried {SYMBOLS[name]} from {min(seen):g} to {max(seen):g}, and "
                f"{value:g} is beyond: the law may be off there"
            )
    return notes
