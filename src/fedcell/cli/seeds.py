"""Running a scenario on several seeds, and what several runs share on the command line."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput, printable
from fedcell.experiments.seeds import run_seeds
from fedcell.scenario.scenario import Scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.run import Progress
from fedcell.simulation.summary import RoundReport
from fedcell.simulation.trackers import Tracker

from .app import draw, out
from .progress import progress_bars
from .signals import exit_code

MakeTrackers = Callable[[int], list[Tracker]]  # of a seed


def trackers_of(
    asked: Sequence[str], world: Scenario, name: str, run_name: str, seed: int
) -> list[Tracker]:
    """Whoever is told of the rounds of a run."""
    plan = world.plan
    about = {"scenario": printable(name), "seed": seed, "cohort": plan.cohort}
    about |= {"local_epochs": plan.local_epochs} if plan.local_epochs else {}
    about |= {"local_steps": plan.local_steps, "clients": world.clients.count}
    return [Tracker(each, printable(run_name), about) for each in asked]


@contextmanager
def watched(what: str, trackers: Sequence[Tracker]) -> Iterator[Progress]:
    """Bars or lines for whoever looks, and reports to trackers."""
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bars(what))
        listeners: list[Callable[[RoundReport], None]] = [
            stack.enter_context(tracker) for tracker in trackers
        ]
        if progress.round:
            listeners.insert(0, progress.round)

        def tell(report: RoundReport) -> None:
            for listener in listeners:
                listener(report)

        yield replace(progress, round=tell)


def run_on_seeds(
    world: Scenario,
    name: str,
    folder: Path,
    seeds: range,
    *,
    workers: int | None,
    track: Sequence[str],
    as_json: bool,
    **options: Any,
) -> None:
    """Runs, prints the means, and draws them."""
    if track and workers not in (None, 1):
        raise BadInput("--track and --workers: a run in another process is not tracked: leave one")

    @contextmanager
    def watch(seed: int) -> Iterator[Progress]:
        trackers = trackers_of(track, world, name, f"{folder.name}/seed{seed}", seed)
        with watched(f"seed {seed}: ", trackers) as progress:
            yield progress

    result = run_seeds(
        world, seeds=list(seeds), folder=folder, workers=workers, watch=watch, **options
    )
    if as_json:
        print_json(result.to_dict())
    elif result.finished:
        print_result(out, result, name=printable(name))
    if result.finished and not as_json:
        out.print(f"written to {folder}: seed{seeds[0]}, ..., summary.json", soft_wrap=True)
    if result.finished and draw(result, folder / "loss.png") and not as_json:
        out.print(f"figure: {folder / 'loss.png'}", soft_wrap=True)
    if not result.complete:
        how = f"give the same command with --resume --out {shlex.quote(str(folder))}"
        print(f"fedcell: interrupted; to go on, {how}", file=sys.stderr)
        sys.exit(exit_code())
