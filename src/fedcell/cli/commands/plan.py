"""Plan K and E_l before training, with limits and what-if questions."""

from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedcell.cli.app import command, draw_if_asked, figure_target, out
from fedcell.cli.options import (
    AsJson,
    Clients,
    DataDir,
    Details,
    Hold,
    NamedTarget,
    ScenarioName,
    Seed,
    Select,
    Steps,
    TargetAccuracy,
    figure_of,
    file,
    out_file,
    parse_range,
    policy_of,
    real,
)
from fedcell.cli.targets import TargetOptions, target_of
from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration, parse_energy
from fedcell.network.selectors.names import selecting
from fedcell.planning.choice.limits import Limits
from fedcell.planning.choice.plan import TrainingPlan
from fedcell.planning.choice.planfile import is_plan_file
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.pilot.pilot import Pilot
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.planner import plan_training
from fedcell.planning.setting import Objective, Region
from fedcell.scenario.load import load_scenario
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.target import Target
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json
from fedcell.simulation.compute import Compute


def _coefficient(term: str, default: str = "") -> Any:
    """Declare an option for one coefficient of the law of rounds."""
    return real(f"Without a pilot: coefficient of the term {term}.{default}")


PilotFile = Annotated[
    Path | None, file("Pilot that fedcell pilot --out wrote: how many rounds training takes.")
]
Policy = Annotated[str | None, policy_of("the built-in policy with the lowest --minimise")]
Minimise = Annotated[
    Objective,
    typer.Option(help="Objective: cost (time and energy together), duration, or energy."),
]
TargetLoss = Annotated[
    float | None,
    real("Training loss to reach. Default: the pilot's target, else learning.target."),
]
LossRate = Annotated[
    float | None,
    real(
        "Plan for another share of lost uploads than the scenario's. Where the pilot has not tried "
        "it, the rounds follow from its law."
    ),
]
Deadline = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Longest duration of the run: 90s, 15min, 2h."),
]
EnergyBudget = Annotated[
    str | None,
    typer.Option(
        metavar="JOULES",
        help="Most energy of all clients together: 500J, 2kJ, 100mWh; 5J/client: of the client "
        "that pays most; 5J/client-mean: of a client on average.",
    ),
]
Confidence = Annotated[
    float | None,
    real("Probability of keeping each limit, as 0.95. Default: limits hold for expected values."),
]
SolveFor = Annotated[
    Literal["bandwidth", "power"] | None,
    typer.Option(help="Find the smallest band, or the least transmit power, for the deadline."),
]
Sensitivity = Annotated[
    bool,
    typer.Option(
        "--sensitivity",
        help="Show how the plan changes if twice the uploads are lost, the band halves, or the "
        "model shrinks.",
    ),
]
Front = Annotated[
    bool,
    typer.Option(
        "--front",
        help="Show the Pareto front: the plans that no other plan beats in both time and energy; "
        "with --json all of them.",
    ),
]
Mixing = Annotated[float | None, _coefficient("mixing / K")]
Drift = Annotated[float | None, _coefficient("drift E")]
Start = Annotated[float | None, _coefficient("start / E")]
Floor = Annotated[float | None, _coefficient("floor", " Default: 0.")]
Dropped = Annotated[float | None, _coefficient("dropped / (K E)", " Default: 0.")]
OutFile = Annotated[Path | None, out_file("Write the plan to this file, for fedcell run --plan.")]
Figure = Annotated[Path | None, figure_of("the cost over clients and steps")]


@command(
    "fedcell plan digits --pilot pilot-digits.json --out plan.json",
    "fedcell plan paper --mixing 300 --drift 0.1 --start 10 --deadline 2h",
)
def plan(
    scenario: ScenarioName,
    pilot: PilotFile = None,
    policy: Policy = None,
    select: Select = None,
    minimise: Minimise = "cost",
    named_target: NamedTarget = None,
    target_loss: TargetLoss = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    loss_rate: LossRate = None,
    deadline: Deadline = None,
    energy_budget: EnergyBudget = None,
    confidence: Confidence = None,
    solve_for: SolveFor = None,
    what_if: Sensitivity = False,
    front: Front = False,
    clients: Clients = None,
    steps: Steps = None,
    mixing: Mixing = None,
    drift: Drift = None,
    start: Start = None,
    floor: Floor = None,
    dropped: Dropped = None,
    seed: Seed = 0,
    out_path: OutFile = None,
    figure: Figure = None,
    details: Details = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Plan before training: clients a round, steps of each, time and energy.

    With a pilot, the plan is one of the settings that it tried. Without one, give the law of rounds
    for K clients with successful uploads and E steps: mixing / K + drift E + start / E + floor.
    """
    picture, saved = figure_target(figure), _check_plan_file(out_path)
    limits, ranges = _limits(deadline, energy_budget, confidence), _ranges(clients, steps)
    world = _world(scenario, loss_rate, select)
    known = None if pilot is None else load_pilot(pilot)
    options = TargetOptions(named_target, target_loss, target_accuracy, hold)
    law = _given_law(pilot, mixing=mixing, drift=drift, start=start, floor=floor, dropped=dropped)
    best = plan_training(
        world,
        law if known is None else known,
        target=_target(world, known, options),
        region=Region(
            **ranges, minimise=minimise, policy=policy, other_loss_rate=loss_rate is not None
        ),
        limits=limits,
        solve_for=solve_for,
        what_if=what_if,
        seed=seed,
        compute=Compute(data_dir=data_dir),
    ).named(scenario)
    if saved:
        best.save(saved)
    if as_json:
        print_json(best.to_dict() | _front(best, front))
    else:
        print_result(out, best, details=details, front=front)
        if out_path:
            out.print(f"plan: {out_path}", soft_wrap=True)
    draw_if_asked(best, picture, figure, quiet=as_json)


def _ranges(clients: str | None, steps: str | None) -> dict[str, Any]:
    """Return the ranges of a region from the options."""
    return {
        "clients": parse_range(clients, "--clients"),
        "steps": parse_range(steps, "--steps"),
    }


def _world(scenario: str, loss_rate: float | None, select: str | None) -> Scenario:
    """Return the scenario, with another loss rate or selector where one is asked for."""
    world = selecting(load_scenario(scenario), select)
    return world if loss_rate is None else world.using(cell={"loss_rate": loss_rate})


def _front(best: TrainingPlan, asked: bool) -> dict[str, Any]:
    """Return the Pareto front for --json, where it is asked for."""
    return {"front": [asdict(each) for each in best.front()]} if asked else {}


def _check_plan_file(path: Path | None) -> Path | None:
    """Return where the plan is written; refuse a file that holds something else."""
    file = check_target(path, ("json",)) if path else None
    if file and file.exists() and not is_plan_file(file):
        raise BadFile(f"{path}: holds something else than a plan: choose another --out")
    return file


def _target(world: Scenario, pilot: Pilot | None, options: TargetOptions) -> Target | None:
    """Return the target of the options; None: the pilot's own."""
    if pilot is not None and not options.given:
        return None
    return target_of(world, options, pilot.target if pilot else None)


def _given_law(pilot: Path | None, **coefficients: float | None) -> GivenLaw | None:
    """Return the law with the given coefficients, if there is no pilot."""
    given = {name: value for name, value in coefficients.items() if value is not None}
    if pilot is not None:
        if given:
            raise BadInput(f"--pilot and --{next(iter(given))}: give one of them")
        return None
    missing = [f"--{name}" for name in ("mixing", "drift", "start") if name not in given]
    if missing:
        raise BadInput(
            "there is no law of rounds: give --pilot (fedcell pilot makes one), or "
            f"{', '.join(missing)}"
        )
    return GivenLaw(**given)


def _limits(deadline: str | None, budget: str | None, confidence: float | None) -> Limits:
    """Return the limits of a plan from the options."""
    kinds = {
        "": "energy",
        "client": "energy_per_client",
        "client-mean": "mean_energy_per_client",
    }
    given = {}
    if budget is not None:
        amount, slash, per = budget.partition("/")
        if (kind := kinds.get(per.strip())) is None or (slash and not per.strip()):
            raise BadInput(
                f"--energy-budget = {budget}: expected as in 500J, 5J/client or 5J/client-mean"
            )
        given[kind] = parse_energy(amount, "--energy-budget")
    return Limits(
        deadline=inf if deadline is None else parse_duration(deadline, "--deadline"),
        confidence=confidence,
        **given,
    )
