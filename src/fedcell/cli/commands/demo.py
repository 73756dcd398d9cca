"""The whole job on what comes with the package, as the commands that a user would type."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import app, check_folder, out
from fedcell.core.quantities import parse_duration

from .partition import partition
from .pilot import pilot_command
from .plan import plan
from .run import run_command


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Where results go; made if it is not there.")
    ] = Path("fedcell-demo"),
    budget: Annotated[str, typer.Option(help="Time for the pilot's runs.")] = "30s",
) -> None:
    """The whole job on what comes with the package, in under two minutes: pilot, plan, run.

    What is there already is gone on with, not done again.
    """
    parse_duration(budget, "--budget")
    check_folder(folder, "--out")
    pilot_file, plan_file, run_folder = folder / "pilot.json", folder / "plan.json", folder / "run"

    _announce("How is the data dealt?", "partition digits --figure", folder / "partition.png")
    partition("digits", figure=folder / "partition.png")

    _announce("How many rounds will it take?", f"pilot digits --budget {budget} --out", pilot_file)
    pilot_command("digits", budget=budget, out_path=pilot_file, store=folder / "runs")

    words = ["plan digits --pilot", pilot_file, "--out", plan_file, "--figure", folder / "plan.png"]
    _announce("How many clients, how many steps?", *words)
    plan("digits", pilot=pilot_file, out_path=plan_file, figure=folder / "plan.png")

    _announce("Was that right?", "run --plan", plan_file, "--out", run_folder)
    run_command(plan=plan_file, folder=run_folder, resume=(run_folder / "run.json").exists())
    out.print("\nNext: `fedcell scenario digits > mine.toml`, edit it, `fedcell pilot mine.toml`.")


def _announce(question: str, *command: object) -> None:
    words = " ".join(part if isinstance(part, str) else shlex.quote(str(part)) for part in command)
    out.print(f"\n{question}\n$ fedcell {words}", style="bold", soft_wrap=True)
