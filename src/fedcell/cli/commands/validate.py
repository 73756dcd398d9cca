"""Compare a pilot's predictions with trials that it has not seen."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from fedcell.cli.app import (
    DEFAULT_STORE,
    check_folder,
    command,
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
    TrialRounds,
    Workers,
    duration,
    figure_of,
    file,
    out_file,
)
from fedcell.cli.progress import progress_bars, trial_bar
from fedcell.cli.signals import keeping_finished_runs
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.pilot.validation import validate_pilot
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

from .pilot import trial_compute

PilotFile = Annotated[Path, file("Pilot to check: a file that fedcell pilot --out wrote.")]
Budget = Annotated[
    str, duration("Time for the trials, as 60s or 5min; one trial of each setting always runs.")
]
OutFile = Annotated[Path | None, out_file("File of the trials. Default: validation-SCENARIO.json.")]
Figure = Annotated[Path | None, figure_of("predicted against measured rounds")]


@command(
    "fedcell validate digits --pilot pilot-digits.json",
    "fedcell validate digits --pilot pilot-digits.json --budget 5min",
)
def validate(
    scenario: ScenarioName,
    pilot: PilotFile,
    budget: Budget = "60s",
    out_path: OutFile = None,
    rounds: TrialRounds = None,
    learner: LearnerName = None,
    figure: Figure = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    threads: Threads = None,
    workers: Workers = None,
    store: StoreFolder = DEFAULT_STORE,
) -> None:
    """Compare a pilot's predictions with trials that it has not seen.

    The trials have other K, E_l and seeds. Each setting is tried once whatever the budget, then on
    more seeds until the budget is used up.
    """
    seconds, picture = parse_duration(budget, "--budget"), figure_target(figure)
    out_path = out_path or Path(f"validation-{file_stem(scenario)}.json")
    target = check_target(out_path, ("json",))
    check_folder(store, "--store")
    known = load_pilot(pilot)
    with keeping_finished_runs(), progress_bars() as observer, trial_bar(seconds) as trial:
        validation = validate_pilot(
            load_scenario(scenario),
            known,
            seconds,
            target,
            rounds=rounds,
            name=scenario,
            compute=trial_compute(seconds, data_dir, threads, workers, store, learner),
            observer=replace(observer, trial=trial),
        )
    if as_json:
        print_json(validation.to_dict())
    else:
        print_result(out, validation)
        words = f"runs written to {out_path}; more of them with a larger --budget"
        out.print(words, soft_wrap=True)
    draw_if_asked(validation, picture, figure, quiet=as_json)
