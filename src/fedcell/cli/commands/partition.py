"""Show which client holds which training samples."""

from pathlib import Path
from typing import Annotated

from fedcell.cli.app import command, draw_if_asked, figure_target, out
from fedcell.cli.options import AsJson, DataDir, ScenarioName, Seed, figure_of
from fedcell.cli.progress import progress_bars
from fedcell.learning.partition_report import describe_partition
from fedcell.learning.setup import prepare_training
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

Figure = Annotated[Path | None, figure_of("labels and sizes of all clients")]


@command("fedcell partition digits", "fedcell partition mine.toml --seed 3 --figure partition.png")
def partition(
    scenario: ScenarioName,
    seed: Seed = 0,
    figure: Figure = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show how a scenario deals its training data to the clients."""
    target = figure_target(figure)
    with progress_bars() as progress:
        setup = prepare_training(load_scenario(scenario), seed, data_dir, progress.download)
    report = describe_partition(setup, scenario)
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(out, report)
    draw_if_asked(report, target, figure, quiet=as_json)
