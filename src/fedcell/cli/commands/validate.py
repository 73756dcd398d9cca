"""Compare a pilot's law with runs that it has not seen."""

from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import (
    RUNS,
    app,
    check_folder,
    draw_if_asked,
    figure_target,
    file_stem,
    out,
)
from fedcell.cli.options import (
    AsJson,
    DataDir,
    LearnerName,
    ScenarioName,
    StoreFolder,
    Threads,
    Workers,
    worker_count,
)
from fedcell.cli.progress import progress_bars, trial_bar
from fedcell.cli.signals import keeping_what_is_done
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration
from fedcell.experiments.store import Store
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.validation import validate_pilot
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

from .pilot import RunRounds


@app.command()
def validate(
    scenario: ScenarioName,
    pilot: Annotated[Path, typer.Option(help="The pilot that is to be judged.")],
    budget: Annotated[
        str, typer.Option(help="Time to run for, if one run of each setting takes no longer.")
    ] = "60s",
    out_path: Annotated[
        Path | None,
        typer.Option("--out", help="File of the runs. Default: validation-SCENARIO.json."),
    ] = None,
    rounds: RunRounds = None,
    learner: LearnerName = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw predicted against measured rounds to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Workers = None,
    store: StoreFolder = RUNS,
) -> None:
    """Judge a pilot by runs that it has not seen: other K and E_l, and other seeds.

    Each setting is run once whatever the budget; then seed after seed until it is used up.
    """
    seconds, picture = parse_duration(budget, "--budget"), figure_target(figure)
    out_path = out_path or Path(f"validation-{file_stem(scenario)}.json")
    file = check_target(out_path, ("json",))
    check_folder(store, "--store")
    known = load_pilot(pilot)
    with keeping_what_is_done(), progress_bars() as progress, trial_bar(seconds) as report:
        validation = validate_pilot(
            load_scenario(scenario),
            known,
            seconds,
            file,
            rounds=rounds,
            name=scenario,
            data_dir=data_dir,
            threads=threads,
            workers=workers if learner else worker_count(workers, threads, seconds),
            store=Store(store),
            learner=learner,
            progress=progress,
            report=report,
        )
    if as_json:
        print_json(validation.to_dict())
    else:
        print_result(out, validation)
        words = f"runs written to {out_path}; more of them with a larger --budget"
        out.print(words, soft_wrap=True)
    draw_if_asked(validation, picture, figure, quiet=as_json)
