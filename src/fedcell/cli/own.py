"""Learners of one's own on the command line: the option, and what files may not decide."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.core.errors import BadInput
from fedcell.planning.plan import TrainingPlan

LearnerName = Annotated[
    str | None,
    typer.Option(
        "--learner",
        help="A learner of your own, module:callable: a function of a scenario and a seed. "
        "Default: ours, as [learning] says.",
    ),
]


def check_own_code(planned: TrainingPlan | None, file: Path | None, learner: str | None) -> None:
    """Asks for the learner of a plan again, if it is not one of ours: a file never names code."""
    if planned and planned.server:
        raise BadInput(
            f"{file}: was planned with a server of your own, {planned.server}: run it from Python"
        )
    if planned and planned.learner and learner is None:
        raise BadInput(
            f"{file}: was planned for the learner {planned.learner}: give --learner "
            f"{planned.learner} if you trust it"
        )
