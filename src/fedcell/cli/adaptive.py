"""Options of runs whose plan adapts."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedcell.core.errors import BadInput
from fedcell.core.targets import Target
from fedcell.planning.adaptive import EVERY
from fedcell.planning.plan import TrainingPlan

from .app import parse_range

Adaptive = Annotated[
    bool,
    typer.Option(
        "--adaptive",
        help="Plan anew on the way: the losses so far say which clients and steps make the rest of "
        "the cost least. Begins with --plan, with the plan of a --pilot, or with the scenario's "
        "own clients and steps.",
    ),
]
PilotFile = Annotated[
    Path | None,
    typer.Option(help="With --adaptive: what fedcell pilot found out about the rounds."),
]
Every = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10**6,
        help=f"With --adaptive: rounds from one look to the next. Default: {EVERY}.",
    ),
]
Minimise = Annotated[
    Literal["cost", "duration", "energy"] | None,
    typer.Option(
        help="With --adaptive: what is to be least, time and energy together (the cost), time, or "
        "energy. Default: what the plan has, else the cost."
    ),
]


def adaptive_options(
    asked: bool,
    seeds: int | None,
    plan: TrainingPlan | None,
    target: Target | None,
    pilot: Path | None,
    every: int | None,
    minimise: Literal["cost", "duration", "energy"] | None,
    clients: str | None,
    steps: str | None,
) -> dict[str, Any] | None:
    """What `run_adaptive` is asked for; None where a plan is to stay as it is."""
    given = {
        "--pilot": pilot,
        "--every": every,
        "--minimise": minimise,
        "--clients": clients,
        "--steps": steps,
    }
    if not asked:
        if named := [name for name, value in given.items() if value is not None]:
            raise BadInput(f"{', '.join(named)}: for a plan that adapts: give --adaptive as well")
        return None
    if seeds is not None:
        raise BadInput("--adaptive and --seeds: a run that adapts has one seed: give --seed")
    if plan is not None and pilot is not None:
        raise BadInput("--plan and --pilot: give one of them, or none")
    if target is None:
        raise BadInput(
            "--adaptive: a plan is one to a target: give --target-loss, --target-accuracy or "
            "learning.target"
        )
    return {
        "pilot": pilot,
        "plan": plan,
        "every": every or EVERY,
        "minimise": minimise,
        "clients": parse_range(clients, "--clients"),
        "steps": parse_range(steps, "--steps"),
    }
