"""The command that plans: K and E_l before training, limits and what-if."""

from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedcell.cli.app import app, draw_if_asked, figure_target, out
from fedcell.cli.options import (
    AsJson,
    Clients,
    DataDir,
    Details,
    Hold,
    ScenarioName,
    Seed,
    Steps,
    TargetAccuracy,
    parse_range,
    target_of,
)
from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import check_target
from fedcell.core.quantities import parse_duration, parse_energy
from fedcell.network.policies.names import NAMED
from fedcell.planning.choice.limits import Limits
from fedcell.planning.choice.planfile import is_plan_file
from fedcell.planning.law.given import GivenLaw
from fedcell.planning.pilot.pilotfile import load_pilot
from fedcell.planning.planner import plan_training
from fedcell.scenario.load import load_scenario
from fedcell.show.results import print_result
from fedcell.show.tables.console import print_json


def _coefficient(term: str, needed: bool = True) -> Any:
    end = "." if needed else "; 0 where left out."
    return typer.Option(help=f"Without a pilot: of the term {term}{end}")


@app.command()
def plan(
    scenario: ScenarioName,
    pilot: Annotated[
        Path | None, typer.Option(help="What fedcell pilot found out about the rounds.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(NAMED)}; or module:callable for your own. Default: the one of ours "
            "that makes least what is to be least."
        ),
    ] = None,
    minimise: Annotated[
        Literal["cost", "duration", "energy"],
        typer.Option(
            help="What is to be least: time and energy together (the cost), time, or energy."
        ),
    ] = "cost",
    target_loss: Annotated[
        float | None,
        typer.Option(help="Training loss to reach; the pilot's curves are fitted for it anew."),
    ] = None,
    target_accuracy: TargetAccuracy = None,
    hold: Hold = None,
    deadline: Annotated[
        str | None, typer.Option(help="The run may take no longer: 90s, 15min, 2h.")
    ] = None,
    energy_budget: Annotated[
        str | None,
        typer.Option(
            help="All clients together may spend no more: 500J, 2kJ, 100mWh; 5J/client: the one "
            "that pays most; 5J/client-mean: each, on average."
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Keep each limit with this chance, as 0.95. Default: as expected."),
    ] = None,
    solve_for: Annotated[
        Literal["bandwidth"] | None,
        typer.Option(help="bandwidth: the least band with which the deadline can be kept."),
    ] = None,
    what_if: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Show how the plan moves if twice the uploads are lost, the band halves, the "
            "model shrinks.",
        ),
    ] = False,
    clients: Clients = None,
    steps: Steps = None,
    mixing: Annotated[float | None, _coefficient("mixing / K")] = None,
    drift: Annotated[float | None, _coefficient("drift E")] = None,
    start: Annotated[float | None, _coefficient("start / E")] = None,
    floor: Annotated[float | None, _coefficient("floor", needed=False)] = None,
    dropped: Annotated[float | None, _coefficient("dropped / (K E)", needed=False)] = None,
    seed: Seed = 0,
    out_path: Annotated[
        Path | None, typer.Option("--out", help="Write the plan here, for fedcell run --plan.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the cost over clients and steps to this file.")
    ] = None,
    details: Details = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Plan before training: how many clients a round, how many steps each, how long, how many
    joules.

    How many rounds it takes comes from a pilot of the scenario (fedcell pilot); what a round takes
    follows from the scenario's devices and radio. The plan is the best of the settings that the
    pilot tried.

    Without a pilot the number of rounds may be given as a law, mixing / K + drift E + start / E +
    floor, for K clients a round (those whose uploads arrive) that do E steps each; then any K and E
    may be planned.
    """
    limits, picture = _limits(deadline, energy_budget, confidence), figure_target(figure)
    file = check_target(out_path, ("json",)) if out_path else None
    if file and file.exists() and not is_plan_file(file):
        raise BadFile(f"{out_path}: holds something else than a plan: choose another --out")
    given = {"mixing": mixing, "drift": drift, "start": start, "floor": floor, "dropped": dropped}
    world, known = load_scenario(scenario), None if pilot is None else load_pilot(pilot)
    target = None
    if known is None or (target_loss, target_accuracy, hold) != (None, None, None):
        own = None if known is None else known.target
        target = target_of(world, target_loss, target_accuracy, hold, own)
    best = plan_training(
        world,
        known,
        _given_law(pilot, {name: value for name, value in given.items() if value is not None}),
        policy=policy,
        minimise=minimise,
        target=target,
        limits=limits,
        clients=parse_range(clients, "--clients"),
        steps=parse_range(steps, "--steps"),
        solve_for=solve_for,
        what_if=what_if,
        seed=seed,
        name=scenario,
        data_dir=data_dir,
    )
    if file:
        best.save(file)
    if as_json:
        print_json(best.to_dict())
    else:
        print_result(out, best, details=details)
        if out_path:
            out.print(f"plan: {out_path}", soft_wrap=True)
    draw_if_asked(best, picture, figure, quiet=as_json)


def _given_law(pilot: Path | None, given: dict[str, float]) -> GivenLaw | None:
    """The law whose coefficients are given, if there is no pilot."""
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
