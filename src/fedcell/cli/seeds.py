"""Runs of one seed or several: what they share on the command line, and several seeds."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedcell.core.errors import BadInput, printable
from fedcell.experiments.seeds import run_seeds
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.compute import Compute, Observer
from fedcell.simulation.trackers import Tracker

from .app import draw, out
from .progress import progress_bars
from .signals import exit_code, print_interrupted


@dataclass(frozen=True)
class RunJob:
    """What `fedcell run` trains, the same for one seed and for several."""

    name: str  # of the scenario
    world: Scenario
    policies: list[str]
    rounds: int | None
    target: Target | None
    folder: Path
    resume: bool
    track: Sequence[str] | None
    compute: Compute

    def trackers(self, run_name: str, seed: int) -> list[Tracker]:
        """Return the experiment trackers of the run of one seed."""
        plan = self.world.plan
        about = {"scenario": printable(self.name), "seed": seed, "cohort": plan.cohort}
        about |= {"local_epochs": plan.local_epochs} if plan.local_epochs else {}
        about |= {"local_steps": plan.local_steps, "clients": self.world.clients.count}
        return [Tracker(each, printable(run_name), about) for each in self.track or ()]


@contextmanager
def watched(what: str, trackers: Sequence[Tracker]) -> Iterator[Observer]:
    """Return progress callbacks that show each round and report it to the trackers."""
    with ExitStack() as stack:
        observer = stack.enter_context(progress_bars(what))
        for tracker in trackers:
            observer = observer.with_round(stack.enter_context(tracker))
        yield observer


def run_on_seeds(job: RunJob, seeds: range, as_json: bool) -> None:
    """Run a job on several seeds, print the means, and draw them."""
    elsewhere = "--workers" if job.compute.cluster is None else "--cluster"
    if job.track and (job.compute.workers not in (None, 1) or elsewhere == "--cluster"):
        raise BadInput(
            f"--track and {elsewhere}: a run in another process is not tracked: leave one"
        )

    @contextmanager
    def watch(seed: int) -> Iterator[Observer]:
        trackers = job.trackers(f"{job.folder.name}/seed{seed}", seed)
        with watched(f"seed {seed}: ", trackers) as observer:
            yield observer

    result = run_seeds(
        job.world,
        job.policies,
        seeds=list(seeds),
        rounds=job.rounds,
        target=job.target,
        folder=job.folder,
        resume=job.resume,
        compute=job.compute,
        observer=watch,
    )
    picture = job.folder / "loss.png"
    if as_json:
        print_json(result.to_dict())
    elif result.finished:
        print_result(out, result, name=printable(job.name))
        out.print(f"written to {job.folder}: seed{seeds[0]}, ..., summary.json", soft_wrap=True)
    if result.finished and draw(result, picture) and not as_json:
        out.print(f"figure: {picture}", soft_wrap=True)
    if not result.complete:
        print_interrupted(job.folder)
        sys.exit(exit_code())
