"""Run one scenario on several seeds: a run each, and means over them with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.files.formats import as_json, read_tables, write_text
from fedcell.core.showing import Showable
from fedcell.core.streams import check_count
from fedcell.learning.learner import Scores
from fedcell.network.policies.names import NAMED, Policies, policies_by_name
from fedcell.scenario.identity import differences
from fedcell.scenario.scenario import Scenario, check_scenario
from fedcell.scenario.target import Target
from fedcell.simulation.compute import Compute, Observer
from fedcell.simulation.folder.load import IDENTIFYING, load_runs
from fedcell.simulation.folder.run_folder import (
    IDENTITY,
    SCENARIO,
    SUMMARY,
    is_unstarted,
    read_identity,
)
from fedcell.simulation.run import prepare_run, run
from fedcell.simulation.summary import RunResult, shared_policies

from .executors import (
    DaskCluster,
    Executor,
    LocalProcesses,
    WorkerDiedError,
    leave_if_started_by_a_script,
)
from .experiment import MAX_SEEDS
from .jobs import quiet
from .statistics import RoundsEstimate, estimate_rounds

SUMS = ("rounds", "duration", "energy", "cost")


@dataclass(frozen=True, kw_only=True)
class SeedsEstimate:
    """What a policy takes over seeds: to the target, or in all where there is none.

    A seed that did not get there counts as all that it took, so means are then at least.
    """

    policy: str
    rounds: RoundsEstimate
    duration: Estimate  # [s]
    energy: Estimate  # of all clients [J]
    cost: Estimate  # (12) [s]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        rounds = asdict(self.rounds.mean) | {"median": self.rounds.median}
        rest = {name: asdict(getattr(self, name)) for name in ("duration", "energy", "cost")}
        return {"policy": self.policy, "rounds": rounds, **rest}


@dataclass(frozen=True, kw_only=True, eq=False)
class SeedsResult(Showable):
    """The runs of one scenario on several seeds."""

    runs: Mapping[int, RunResult]  # by seed
    rounds: int  # after which each ends at the latest
    complete: bool  # False if one was interrupted

    @property
    def target(self) -> Target | None:
        """What is to be reached."""
        return next((result.outcome.target for result in self.runs.values()), None)

    @property
    def finished(self) -> list[RunResult]:
        """The runs that went to their end: an interrupted one says nothing of what it takes."""
        return [result for result in self.runs.values() if result.complete]

    @property
    def reached(self) -> int:
        """Seeds that got to the target."""
        return sum(result.outcome.policies[0].to_target is not None for result in self.finished)

    @property
    def policies(self) -> list[str]:
        """Those that every run is priced under."""
        return shared_policies([result.outcome for result in self.finished])

    def estimates(self) -> list[SeedsEstimate]:
        """Rounds, time, energy and cost for each policy, means with 95 % intervals."""
        return [self._estimate(policy) for policy in self.policies]

    def _estimate(self, policy: str) -> SeedsEstimate:
        every = [
            next(outcome for outcome in result.outcome.policies if outcome.policy == policy)
            for result in self.finished
        ]
        means = {
            name: mean_estimate(
                np.array([getattr(o.to_target or o.total, name) for o in every], float)
            )
            for name in ("duration", "energy", "cost")
        }
        if self.target is None:
            found: list[int | None] = [outcome.total.rounds for outcome in every]
        else:
            found = [o.to_target.rounds if o.to_target else None for o in every]
        return SeedsEstimate(policy=policy, rounds=estimate_rounds(found, self.rounds), **means)

    def scores(self) -> dict[str, Estimate]:
        """Losses and accuracy of the last models, means over seeds."""
        last = [_flat(result.outcome.policies[0].scores) for result in self.finished]
        return {name: mean_estimate(np.array([row[name] for row in last])) for name in last[0]}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each seed and policy: in all, and to the target."""
        return [
            {"seed": seed, "policy": outcome.policy}
            | asdict(outcome.total)
            | _flat(outcome.scores)
            | {f"{name}_to_target": getattr(outcome.to_target, name, None) for name in SUMS}
            for seed, result in self.runs.items()
            for outcome in result.outcome.policies
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as summary.json holds them."""
        return {
            "complete": self.complete,
            "seeds": list(self.runs),
            "rounds": self.rounds,
            "target": None if self.target is None else self.target.to_dict(),
            "reached": self.reached,
            "policies": [estimate.to_dict() for estimate in self.estimates()],
            "runs": self.rows(),
        }

    def save(self, folder: Path) -> None:
        """Writes summary.json beside the folders of the seeds."""
        write_text(folder / SUMMARY, as_json(self.to_dict()))

    def __repr__(self) -> str:
        words = [f"{e.policy} {e.duration!r} s" for e in self.estimates()]
        return f"<SeedsResult, {len(self.runs)} seeds; {', '.join(words) or 'no round done'}>"


def _flat(scores: Scores) -> dict[str, float]:
    """Return all scores by name, metrics of the learner among them."""
    values = scores.to_dict()
    metrics = values.pop("metrics", {})
    return {**values, **metrics}


Watch = Callable[[int], AbstractContextManager[Observer]]  # the observer of each seed's run


@dataclass(frozen=True)
class _SeedRun:
    """A run on one seed, as a process gets it."""

    seed: int
    arguments: Mapping[str, Any]  # those of `run`


def _run_alone(job: _SeedRun) -> RunResult:
    with quiet():
        return run(**job.arguments, seed=job.seed)


def run_seeds(
    scenario: Scenario,
    policies: Policies = tuple(NAMED),
    *,
    seeds: int | Sequence[int] = 10,
    rounds: int | None = None,
    target: Target | float | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    compute: Compute = Compute(),  # noqa: B008
    observer: Observer | Watch = Observer(),  # noqa: B008
) -> SeedsResult:
    """Run a scenario on several seeds.

    Parameters
    ----------
    scenario, policies, rounds, target
        As in `run`.
    seeds : int or sequence of int, optional
        How many seeds, from 0 on, or the seeds themselves.
    folder : str or Path, optional
        Folder that gets a folder for each seed (seed0, seed1, ...) and a summary.json.
    resume : bool, optional
        Continue the runs that the folder holds, and make the others.
    compute : Compute, optional
        As in `run`; with `workers`, runs are made by that many processes, with `cluster` by the
        workers of a Dask cluster, else one after the other on `threads`. The folder is then one
        that all machines share.
    observer : Observer or callable, optional
        Callbacks for progress, or a function that returns, for a seed, a context manager with the
        `Observer` of its run. Not used with `workers`.

    Returns
    -------
    SeedsResult
        Means over seeds with intervals, and the runs. Ctrl-C ends the run in progress cleanly and
        starts no other.

    Examples
    --------
    >>> from fedcell import load_scenario, run_seeds
    >>> result = run_seeds(load_scenario("digits"), ["optimal"], seeds=3, target=1.0)
    >>> result.reached, result.estimates()[0].rounds.mean.low > 5
    (3, True)
    """
    leave_if_started_by_a_script()
    check_scenario(scenario)
    wanted = _checked_seeds(seeds)
    most = check_count(scenario.rounds if rounds is None else rounds, "`rounds`")
    if resume and folder is None:
        raise BadInput("`resume` needs the folder of the runs: give `folder`")
    custom = compute.learner is not None or compute.server is not None
    custom = custom or ":" in scenario.plan.selection
    if _elsewhere(compute) and custom:
        what = "workers" if compute.cluster is None else "cluster"
        raise BadInput(f"`{what}`: code of your own is run in this process alone: leave it out")
    home = None if folder is None else _found(Path(folder), wanted, resume)
    arguments: dict[str, Any] = {
        "scenario": scenario,
        "policies": policies_by_name(policies),
        "rounds": most,
        "target": target,
        "compute": compute,
    }
    if home is not None:
        with quiet():
            _check_others(home, wanted, arguments)
    runs = _run_all(wanted, arguments, home, observer)
    complete = set(runs) == set(wanted) and all(result.complete for result in runs.values())
    result = SeedsResult(
        runs={seed: runs[seed] for seed in wanted if seed in runs}, rounds=most, complete=complete
    )
    if home is not None and result.policies:
        result.save(home)
    return result


def _run_all(
    seeds: Sequence[int],
    arguments: Mapping[str, Any],
    home: Path | None,
    observer: Observer | Watch,
) -> dict[int, RunResult]:
    """Make the runs of all seeds, here or by processes; Ctrl-C keeps those that are done."""

    def place(seed: int) -> dict[str, Any]:
        inside = None if home is None else seed_folder(home, seed).absolute()
        return {"folder": inside, "resume": inside is not None and (inside / IDENTITY).exists()}

    compute: Compute = arguments["compute"]
    runs: dict[int, RunResult] = {}
    try:
        if _elsewhere(compute):
            alone = replace(compute, threads=1, cluster=None)
            jobs = [_SeedRun(s, {**arguments, **place(s), "compute": alone}) for s in seeds]
            runs |= _by_processes(jobs, compute)
            return runs
        for seed in seeds:
            watch = nullcontext(observer) if isinstance(observer, Observer) else observer(seed)
            with watch as own:
                runs[seed] = run(**arguments, **place(seed), seed=seed, observer=own)
            if not runs[seed].complete:
                break
    except KeyboardInterrupt:
        pass
    return runs


def _elsewhere(compute: Compute) -> bool:
    """Return whether the runs are made by other processes."""
    return compute.cluster is not None or compute.workers not in (None, 1)


def _by_processes(jobs: list[_SeedRun], compute: Compute) -> Iterator[tuple[int, RunResult]]:
    executor: Executor = LocalProcesses(compute.workers, ahead=1)
    if compute.cluster is not None:
        executor = DaskCluster(compute.cluster)
    for job, result in executor.run(_run_alone, jobs):
        if isinstance(result, WorkerDiedError):
            raise BadInput(
                f"the process of seed {job.seed} died: is there too little memory? Give fewer "
                "`workers`; with a `folder`, what is done is kept"
            )
        if isinstance(result, Exception):
            raise result
        yield job.seed, result


def _checked_seeds(seeds: int | Sequence[int]) -> list[int]:
    if isinstance(seeds, str) or not isinstance(seeds, Sequence):
        if (count := check_count(seeds, "`seeds`")) > MAX_SEEDS:
            raise BadInput(f"`seeds` = {count}: {MAX_SEEDS} at most")
        return list(range(count))
    if not seeds or len(set(seeds)) < len(seeds):
        raise BadInput("`seeds`: give how many, or a list of different whole numbers from 0")
    return list(seeds)


def seed_folder(folder: Path, seed: int) -> Path:
    """Where the run of a seed is."""
    return folder / f"seed{seed}"


def _found(folder: Path, seeds: Sequence[int], resume: bool) -> Path:
    """The folder of several runs, if it is one, or is to be made."""
    if folder.exists() and not folder.is_dir():
        raise BadFile(f"{folder}: is not a folder: choose another `folder`")
    if (folder / IDENTITY).exists():
        raise BadFile(f"{folder}: holds the run of one seed: choose another `folder`")
    there = [seed for seed in seeds if (seed_folder(folder, seed) / IDENTITY).exists()]
    if there and not resume:
        raise BadFile(f"{folder}: holds such runs already: give `resume` to go on, or remove it")
    if resume and not folder.is_dir():
        raise BadFile(f"{folder}: there are no runs to resume; leave `resume` out to start them")
    others = list(folder.iterdir()) if folder.is_dir() else []
    if others and not any((file / IDENTITY).exists() or is_unstarted(file) for file in others):
        raise BadFile(f"{folder}: holds other things than runs: choose another `folder`")
    return folder


def load_seeds(folder: str | Path) -> SeedsResult:
    """Read the runs of a folder that `run_seeds` made, as far as they have come.

    Parameters
    ----------
    folder : str or Path
        The folder, with seed0, seed1, ... in it.

    Returns
    -------
    SeedsResult
        Means over seeds with intervals, and the runs.

    Examples
    --------
    >>> import tempfile
    >>> from fedcell import load_scenario, load_seeds, run_seeds
    >>> folder = tempfile.mkdtemp() + "/runs"
    >>> _ = run_seeds(load_scenario("digits"), ["even"], seeds=2, rounds=2, folder=folder)
    >>> list(load_seeds(folder).runs)
    [0, 1]
    """
    home = Path(folder)
    found = _seeds_in(home)
    if not found:
        raise BadFile(f"{home}: holds no runs: expected seed0, seed1, ... in it")
    files = [file for _, file in found]
    runs = dict(zip((seed for seed, _ in found), load_runs(files), strict=True))
    most = _check_alike(home, runs)
    complete = all(result.complete for result in runs.values())
    return SeedsResult(runs=runs, rounds=most, complete=complete)


def _check_alike(home: Path, runs: Mapping[int, RunResult]) -> int:
    """The rounds after which the runs of a folder end at the latest; refuses runs that are not
    those of one scenario on the seeds of their names: their means would say nothing."""
    first: dict[str, Any] = {}
    for seed, result in runs.items():
        file = seed_folder(home, seed)
        known = _asked_of(result, _most_rounds(file / SCENARIO))
        first = first or known
        if changed := differences(first, known):
            raise BadFile(
                f"{file}: is not the same run on another seed as seed{next(iter(runs))} "
                f"({changed}): move it elsewhere, or give all seeds the same end with `resume`"
            )
        if (own := result.identity["seed"]) != seed:
            raise BadFile(f"{file}: holds the run of seed {own}: give it the name seed{own}")
    return int(first["rounds"])


def _asked_of(result: RunResult, rounds: int) -> dict[str, Any]:
    """What runs of one scenario on several seeds share, and where they end."""
    target = result.outcome.target
    ends = {"target": None if target is None else target.to_dict(), "rounds": rounds}
    return _but_seed(result.identity) | ends


def _but_seed(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a run without its seed and what a custom learner derives from it."""
    learner = identity.get("learner")
    name = learner.get("name") if isinstance(learner, Mapping) else None
    shared = {key: identity.get(key) for key in IDENTIFYING if key != "seed"}
    return shared | {"learner": name}


def _check_others(home: Path, seeds: Sequence[int], arguments: Mapping[str, Any]) -> None:
    """Refuses a folder that holds other seeds of another scenario."""
    others = [(seed, file) for seed, file in _seeds_in(home) if seed not in seeds]
    if not others:
        return
    now = _but_seed(prepare_run(**arguments, seed=seeds[0]).identity)
    for seed, file in others:
        content, _ = read_identity(file, "choose another `folder`")
        if changed := differences(_but_seed(content), now):
            raise BadFile(
                f"{home}: holds seed {seed} of another run ({changed}): choose another `folder`"
            )


def _seeds_in(home: Path) -> list[tuple[int, Path]]:
    """The runs of a folder by seed, in order."""
    return sorted(
        (int(file.name.removeprefix("seed")), file)
        for file in (home.iterdir() if home.is_dir() else ())
        if file.name.removeprefix("seed").isdecimal() and (file / IDENTITY).is_file()
    )


def _most_rounds(path: Path) -> int:
    try:
        return check_count(read_tables(path)["plan"]["rounds"], "plan.rounds")
    except (KeyError, TypeError, BadInput) as error:
        raise BadFile(f"{path}: is damaged: resume the run (`resume`)") from error
