"""A pilot, a plan and a run of a shipped scenario, as the commands that a user would type."""

import shlex
from pathlib import Path
from typing import Annotated

from fedcell.cli.app import check_folder, command, out
from fedcell.cli.options import duration, out_folder
from fedcell.cli.progress import progress_bars
from fedcell.core.quantities import parse_duration
from fedcell.learning.learner import warm_up
from fedcell.learning.setup import prepare_training
from fedcell.scenario.load import load_scenario

from .partition import partition
from .pilot import pilot_command
from .plan import plan
from .run import run_command

OutFolder = Annotated[Path, out_folder("Folder of the results; made if it does not exist.")]
Budget = Annotated[str, duration("Time for the trials of the pilot.")]


@command("fedcell demo", "fedcell demo --budget 10s --out first-try")
def demo(folder: OutFolder = Path("fedcell-demo"), budget: Budget = "30s") -> None:
    """Run a pilot, a plan and a training of the scenario digits, in under two minutes.

    Existing results are reused.
    """
    parse_duration(budget, "--budget")
    check_folder(folder, "--out")
    pilot_file, plan_file, run_folder = folder / "pilot.json", folder / "plan.json", folder / "run"

    _announce("How is the data dealt?", "partition digits --figure", folder / "partition.png")
    partition("digits", figure=folder / "partition.png")

    _announce("How many rounds will it take?", f"pilot digits --budget {budget} --out", pilot_file)
    with progress_bars() as observer, observer.compile():
        # Its time is not that of the pilot: on a new machine it may be longer than the budget.
        warm_up(prepare_training(load_scenario("digits")).learner())
    pilot_command("digits", budget=budget, out_path=pilot_file, store=folder / "runs")

    words = ["plan digits --pilot", pilot_file, "--out", plan_file, "--figure", folder / "plan.png"]
    _announce("How many clients, how many steps?", *words)
    plan("digits", pilot=pilot_file, out_path=plan_file, figure=folder / "plan.png")

    _announce("Was that right?", "run --plan", plan_file, "--out", run_folder)
    run_command(plan=plan_file, folder=run_folder, resume=(run_folder / "run.json").exists())
    out.print("\nNext: `fedcell scenario digits > mine.toml`, edit it, `fedcell pilot mine.toml`.")


def _announce(question: str, *command: object) -> None:
    """Print a question, and the command that answers it."""
    words = " ".join(part if isinstance(part, str) else shlex.quote(str(part)) for part in command)
    out.print(f"\n{question}\n$ fedcell {words}", style="bold", soft_wrap=True)
