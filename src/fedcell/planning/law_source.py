"""The source of a plan's rounds: the law of a pilot, or a given one."""

from dataclasses import dataclass
from math import isclose

from fedcell.core.errors import BadInput
from fedcell.network.participation import mean_loss_rate
from fedcell.planning.choice.grid import MOST_STEPS
from fedcell.planning.law.base import RoundsLaw
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.scenario.identity import check_pilot_identity, pilot_identity
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target, as_target

from .setting import Setting


@dataclass(frozen=True, kw_only=True)
class LawSource:
    """The law that a plan is made with, and the settings of its pilot."""

    law: RoundsLaw
    paper: GivenLaw  # with the paper's three coefficients
    target: Target | None
    most_steps: int = MOST_STEPS
    tried: tuple[Setting, ...] | None = None  # settings of a pilot that reached the target
    notes: tuple[str, ...] = ()


def law_source(
    world: Scenario,
    fingerprint: str | None,
    pilot: Pilot | None,
    law: RoundsLaw | None,
    given: Target | float | None,
    other_loss_rate: bool = False,
) -> LawSource:
    """Return the law of a pilot, or a given one, with its target and notes; with `other_loss_rate`
    also of a pilot that tried other loss rates."""
    if (pilot is None) == (law is None):
        raise BadInput("a plan needs a `pilot` (`run_pilot` makes one) or a `law`, and not both")
    own = world.goal()
    if law is not None:
        if not isinstance(law, RoundsLaw):
            raise BadInput(f"`law` = {law!r}: expected a law of rounds, as GivenLaw")
        paper = GivenLaw.of(law.coefficients)
        return LawSource(law=law, paper=paper, target=world.goal(given))
    assert pilot is not None
    if world.learning is None and pilot.sizes is None:
        raise BadInput(
            "this scenario trains nothing (no [learning] table): a pilot cannot belong to it"
        )
    check_pilot_identity(pilot.identity, pilot_identity(world, fingerprint), pilot.path)
    target = pilot.with_direction(as_target(given, pilot.target, pilot.target.hold))
    notes = []
    if given is None and own is not None and own != target:
        notes.append(
            f"the scenario's own target is {own} {own.definition}, and this plan is for {target} "
            f"{pilot.target.definition}: {own.argument} chooses"
        )
    fitted = pilot.fit(target)
    gamma = mean_loss_rate(world)
    if world.cell.loss_kind != pilot.kind and gamma > 0:
        raise BadInput(
            f"the pilot lost uploads as cell.loss_kind {pilot.kind}, and this scenario has "
            f"{world.cell.loss_kind}: run `run_pilot` for it"
        )
    if not pilot.reached(target):
        raise BadInput(
            "every setting that reached the target diverged on another seed: lower learning.rate"
        )
    tried, note = _tried(pilot, target, gamma, other_loss_rate)
    notes += [
        *note,
        *(f"training diverged in the pilot with {setting}" for setting in pilot.diverged),
    ]
    return LawSource(
        law=fitted,
        paper=pilot.fit_paper(target),
        target=target,
        most_steps=max(s.local_steps for s in tried),
        tried=tuple(tried),
        notes=tuple(notes),
    )


def _tried(
    pilot: Pilot, target: Target, gamma: float, other_loss_rate: bool
) -> tuple[list[Setting], list[str]]:
    """Return the settings of a pilot that may be planned, and a note where these lost another share
    of uploads than gamma."""
    tried = [s for s in pilot.reached(target) if isclose(s.loss_rate, gamma)]
    if tried:
        return tried, []
    rates = ", ".join(f"{g:g}" for g in sorted({s.loss_rate for s in pilot.tried}))
    known = f"the pilot tried cell.loss_rate {rates}, and this scenario has {gamma:g}"
    if not other_loss_rate:
        raise BadInput(f"{known}: run `run_pilot` for it")
    return list(pilot.reached(target)), [f"{known}: the rounds follow from its law, not from runs"]
