"""The law of rounds that a plan is made with: from a pilot, or by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcell.core.errors import BadInput
from fedcell.learning.data.dataset import Dataset
from fedcell.scenario.identity import check_identity, pilot_identity
from fedcell.scenario.tables import Scenario

from .fit import Fit
from .pilot import Setting
from .pilotfile import load_pilot
from .plan import Proposal
from .theory import Bound

SYMBOLS = {"cohort": "K", "local_steps": "E_l", "loss_rate": "gamma"}
MOST_STEPS = 200  # local steps that are tried where no pilot says how far it went


@dataclass(frozen=True, kw_only=True)
class Law:
    """What a plan is made with."""

    law: Bound | Fit
    paper: Bound  # with the paper's three coefficients
    target: float | None
    most_steps: int = MOST_STEPS
    tried: tuple[Setting, ...] = ()  # by the pilot
    notes: tuple[str, ...] = ()


def law_of(
    world: Scenario,
    data: Dataset | None,
    pilot: Path | None,
    given: dict[str, float | None],
    target: float | None,
) -> Law:
    """The law of rounds, from a pilot or from coefficients."""
    known = {name: value for name, value in given.items() if value is not None}
    if pilot is None:
        missing = [f"--{name}" for name in ("mixing", "drift", "start") if name not in known]
        if missing:
            raise BadInput(
                "there is no law of rounds: give --pilot (fedcell pilot makes one), or "
                f"{', '.join(missing)}"
            )
        law = Bound(**known)
        own = world.learning.target if world.learning else None
        return Law(law=law, paper=law, target=own if target is None else target)
    if known:
        raise BadInput(f"--pilot and --{next(iter(known))}: give one of them")
    found = load_pilot(pilot)
    if world.learning is None:
        raise BadInput(f"{pilot}: the scenario has no [learning], so no pilot is of it")
    check_identity(found.identity, pilot_identity(world, data), pilot)
    target = found.target if target is None else target
    fitted = found.fit(target)
    paper = fitted if fitted.form == "paper" else found.fit(target, "paper")
    notes = [
        f"training diverged in the pilot at K = {s.cohort}, E_l = {s.local_steps}"
        for s in found.diverged
    ]
    return Law(
        law=fitted,
        paper=paper.bound,
        target=target,
        most_steps=found.steps,
        tried=tuple({trial.setting for trial in found.trials}),
        notes=tuple(notes),
    )


def beyond(tried: Sequence[Setting], best: Proposal, loss_rate: float) -> list[str]:
    """In what a plan is beyond what its pilot tried, where its law was off by a third and more."""
    here = {"cohort": best.cohort.value, "local_steps": best.local_steps.value}
    said = []
    for name, value in (here | {"loss_rate": loss_rate}).items() if tried else ():
        seen = [getattr(setting, name) for setting in tried]
        if not min(seen) <= value <= max(seen) and not (name == "loss_rate" and value < min(seen)):
            said.append(
                f"the pilot tried {SYMBOLS[name]} from {min(seen):g} to {max(seen):g}, and "
                f"{value:g} is beyond: the law may be off there"
            )
    return said
