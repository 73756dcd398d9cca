"""Compare the cost model with shaped links and processors of this machine."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fedcell.cli.app import command, draw_if_asked, figure_target
from fedcell.cli.app import out as screen
from fedcell.cli.federation import RunWatch, check_policy, with_devices
from fedcell.cli.options import (
    BUILT_IN,
    AsJson,
    DataDir,
    RoundDeadline,
    Seed,
    TrainingRounds,
    figure_of,
    name_of,
    number,
    out_folder,
)
from fedcell.core.errors import NoTestbed
from fedcell.core.quantities import parse_duration
from fedcell.deploy.testbed.cleanup import remove_leftovers
from fedcell.deploy.testbed.emulate import emulate, usual_world
from fedcell.deploy.testbed.testbed import why_not
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json

SmallScenario = Annotated[
    str | None,
    typer.Argument(
        help="Scenario file with few clients. Default: four devices, a band with some Mbit/s for "
        "each, a model of a megabyte."
    ),
]
Devices = Annotated[int | None, number("Number of devices. Default: the scenario's.", most=50)]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        metavar="HZ", help="Band of the cell, which the links share. Default: cell.bandwidth."
    ),
]
Policy = Annotated[str, name_of(f"{BUILT_IN}.")]
OutFolder = Annotated[
    Path | None, out_folder("Keep the run and the logs in this folder. Default: neither is kept.")
]
Figure = Annotated[Path | None, figure_of("measured and modelled uploads")]


@command("fedcell testbed --rounds 5", "fedcell testbed mine.toml --devices 4 --figure uploads.png")
def on_testbed(
    scenario: SmallScenario = None,
    devices: Devices = None,
    bandwidth: Bandwidth = None,
    policy: Policy = "distributed",
    rounds: TrainingRounds = None,
    seed: Seed = 0,
    deadline: RoundDeadline = "5min",
    folder: OutFolder = None,
    figure: Figure = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run a federation over shaped links of this machine; compare uploads with the model.

    Linux only, as root. The server and each device get a network of their own; in every round each
    link is set to its share of the band (a_j B r_j^0), and each processor to its frequency (f_j).
    Inside runs the same Flower app as in `fedcell deploy`. At the end the machine is as before; the
    next testbed removes the leftovers of a killed one.
    """
    target = figure_target(figure)
    check_policy(policy)
    world = usual_world() if scenario is None else load_scenario(scenario)
    world = with_devices(world, devices, any_number=False)
    if bandwidth is not None:
        world = world.using(cell={"bandwidth": bandwidth})
    seconds = parse_duration(deadline, "--deadline")
    tell = _print_nothing if as_json else _print_progress
    for name in remove_leftovers():
        tell(f"removed the leftovers of a killed testbed: {name}")
    if (reason := why_not()) is not None:
        raise NoTestbed(reason)
    with tempfile.TemporaryDirectory(prefix="fedcell-testbed-") as scratch:
        place = Path(scratch) / "testbed" if folder is None else folder
        watch = RunWatch(place / "run", tell)
        report = emulate(
            world,
            place,
            rounds=rounds,
            seed=seed,
            policy=policy,
            deadline=seconds,
            data_dir=data_dir,
            message=tell,
            pause=watch.look,
        )
        watch.look()
    if as_json:
        print_json(report.to_dict())
    else:
        print_result(screen, report)
    draw_if_asked(report, target, figure, quiet=as_json)


def _print_progress(words: str) -> None:
    """Print a line of progress to stderr."""
    print(f"fedcell: {words}", file=sys.stderr, flush=True)


def _print_nothing(_: str) -> None:
    """Print no progress, for --json."""
