"""Commands of the network side: schedule a round, price many, print a scenario."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedcell.core.errors import BadInput
from fedcell.learning.setup import gather_material
from fedcell.network.certificate import certify, check_schedule
from fedcell.network.compare import Row, compare, sweep
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import NAMED, named
from fedcell.network.round import price
from fedcell.network.roundfile import load_round
from fedcell.scenario.load import SHIPPED, check_target, load_scenario, shipped, write_atomically
from fedcell.scenario.tables import Scenario
from fedcell.show.figures.rounds import FORMATS, cost_figure
from fedcell.show.tables.rounds import print_comparison, print_json, print_schedule

from .app import (
    AsJson,
    DataDir,
    Fleets,
    PolicyName,
    PolicyNames,
    Rounds,
    ScenarioName,
    Seed,
    app,
    out,
    progress,
)


@app.command()
def schedule(
    file: Annotated[Path, typer.Argument(help="One round, as TOML or JSON; see docs/files.md.")],
    policy: PolicyName = "optimal",
    as_json: AsJson = False,
) -> None:
    """Schedule one round: who gets which share of the band and which CPU frequency."""
    problem = load_round(file)
    answer = named(policy, Broadcast.among(problem))(problem)
    check_schedule(problem, answer)
    cost = price(problem, answer)
    columns = {
        "share": answer.share,
        "freq": answer.freq,
        "upload_time": cost.upload_time,
        "compute_time": cost.compute_time,
        "upload_energy": cost.upload_energy,
        "compute_energy": cost.compute_energy,
    }
    totals = {
        "duration": cost.duration,
        "energy": cost.energy,
        "objective": cost.objective,
        "upload_cost": cost.upload,
        "compute_cost": cost.compute,
    }
    if not all(np.isfinite(value).all() for value in (*columns.values(), *totals.values())):
        raise BadInput("the numbers are too far apart to be computed with: check the units (SI)")
    result: Row = {"policy": policy}
    result |= {name: np.broadcast_to(v, answer.share.shape).tolist() for name, v in columns.items()}
    result |= {name: float(value) for name, value in totals.items()}
    if answer.certificate is not None:  # claimed by the policy, so judged by us
        proof = certify(problem, answer)
        result["certificate"] = {n: float(getattr(proof, n)) for n in ("primal", "dual", "gap")}
    if as_json:
        print_json(result)
        return
    print_schedule(out, result)


@app.command()
def cost(
    scenario: ScenarioName,
    policy: PolicyNames = None,
    rounds: Rounds = None,
    seed: Seed = 0,
    fleets: Fleets = 1,
    as_json: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the cost over K and over E_l (Fig. 6) to this file.")
    ] = None,
    spread: Annotated[
        list[float] | None,
        typer.Option(help="Var of the figure's lines; repeat it. Default: clients.spread."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Price rounds by Monte Carlo: policies side by side on the same dice."""
    world = load_scenario(scenario)
    if world.learning is not None:  # D_j, z_m and alpha_0 are those of what is trained
        world = gather_material(world, seed, data_dir).scenario
    policies, rounds = policy or list(NAMED), rounds or world.rounds
    target = check_target(figure, FORMATS) if figure else None
    if spread and not figure:
        raise BadInput("--spread is for the lines of a figure: give --figure too")
    if spread and world.clients.table is not None:
        raise BadInput("--spread is for drawn clients: this scenario lists its own")
    rows = compare(world, policies, rounds, seed, fleets, progress)
    swept = target and draw_costs(world, policies, spread, rounds, seed, fleets, target)
    if as_json:
        print_json(
            {
                "scenario": scenario,
                "seed": seed,
                "cohort": world.plan.cohort,
                "local_steps": None if world.plan.local_epochs else world.plan.local_steps,
                "local_epochs": world.plan.local_epochs,
                "samples_per_step": world.of_task("samples_per_step"),
                "broadcast_time": world.cell.broadcast_time,
                "policies": rows,
            }
            | ({"sweep": swept} if swept else {})
        )
        return
    print_comparison(out, scenario, world, rows)
    if figure:
        out.print(f"figure: {figure}")


@app.command("scenario")
def print_scenario(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(SHIPPED)}.")] = "paper",
) -> None:
    """Print a shipped scenario file, commented, to start your own from."""
    print(shipped(name), end="")


def draw_costs(
    world: Scenario,
    policies: Sequence[str],
    spreads: Sequence[float] | None,
    rounds: int,
    seed: int,
    fleets: int,
    target: Path,
) -> list[Row]:
    """The figure of a sweep over K and E_l, and its rows."""
    spreads = spreads or [world.clients.spread]
    rows = sweep(world, policies, spreads, rounds, seed, fleets, progress)
    plan = world.plan
    work = f"{plan.local_epochs} epochs" if plan.local_epochs else f"$E_l$ = {plan.local_steps}"
    over = "rounds of one fleet" if fleets == 1 else f"{fleets} fleets"
    caption = (
        f"{rounds} rounds per point, bands: 95 % confidence over {over}; "
        f"left: {work}, right: K = {world.plan.cohort}"
    )
    write_atomically(target, lambda temporary: cost_figure(rows, caption, temporary))
    return rows
