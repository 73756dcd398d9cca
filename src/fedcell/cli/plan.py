"""The command that plans: K and E_l before training, limits and what-if."""

from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fedcell.core.errors import BadInput
from fedcell.core.quantities import joules, loss, seconds
from fedcell.learning.setup import gather_material
from fedcell.network.compare import Row
from fedcell.network.policies.names import NAMED
from fedcell.planning.law import MOST_STEPS, beyond, law_of
from fedcell.planning.limits import Limits, within_limits
from fedcell.planning.plan import under_policy
from fedcell.planning.planfile import TOTALS, is_plan, plan_row
from fedcell.planning.unit_costs import unit_costs
from fedcell.planning.whatif import Question, least_bandwidth, sensitivity
from fedcell.scenario.load import as_json as json_text
from fedcell.scenario.load import (
    check_target,
    load_scenario,
    read_tables,
    write_atomically,
    write_text,
)
from fedcell.scenario.tables import Scenario
from fedcell.show.figures.plans import plan_figure
from fedcell.show.figures.rounds import FORMATS
from fedcell.show.tables.plans import print_plan
from fedcell.show.tables.rounds import print_json

from .app import AsJson, DataDir, PolicyName, ScenarioName, Seed, app, out


def _coefficient(term: str, needed: bool = True) -> Any:
    end = "." if needed else "; 0 where left out."
    return typer.Option(help=f"Without a pilot: of the term {term}{end}")


@app.command()
def plan(
    scenario: ScenarioName,
    pilot: Annotated[
        Path | None, typer.Option(help="The law of rounds, as fedcell pilot found it.")
    ] = None,
    mixing: Annotated[float | None, _coefficient("mixing / K_gamma")] = None,
    drift: Annotated[float | None, _coefficient("drift E_l")] = None,
    start: Annotated[float | None, _coefficient("start / E_l")] = None,
    floor: Annotated[float | None, _coefficient("floor", needed=False)] = None,
    dropped: Annotated[float | None, _coefficient("dropped / (K_gamma E_l)", needed=False)] = None,
    policy: PolicyName = "optimal",
    minimise: Annotated[
        Literal["cost", "seconds", "joules"],
        typer.Option(help="What is to be least: the paper's cost (12), or time, or energy."),
    ] = "cost",
    target_loss: Annotated[
        float | None,
        typer.Option(help="Training loss to reach; the pilot's curves are fitted for it anew."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="The run may take no longer: 90s, 15min, 2h.")
    ] = None,
    energy_budget: Annotated[
        str | None,
        typer.Option(
            help="All clients together may spend no more: 500J, 2kJ; 5J/client: each, on average."
        ),
    ] = None,
    sure: Annotated[
        bool, typer.Option("--sure", help="Keep limits at the upper end of the 90 % interval.")
    ] = False,
    solve_for: Annotated[
        Literal["bandwidth"] | None,
        typer.Option(help="bandwidth: the least band with which the deadline can be kept."),
    ] = None,
    what_if: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Show how the plan moves if gamma doubles, the band halves, the model shrinks.",
        ),
    ] = False,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="The most local steps that a client may do. Default: what the pilot tried, or "
            f"{MOST_STEPS}.",
        ),
    ] = None,
    seed: Seed = 0,
    written: Annotated[
        Path | None, typer.Option("--out", help="Write the plan here, for fedcell run --plan.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the cost over K and E_l to this file.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Choose K and E_l before training: how many clients, how many steps, how long, how dear.

    The law of rounds comes from a pilot of the scenario (fedcell pilot), or is given:
    G = mixing / K_gamma + drift E_l + start / E_l + floor, where K_gamma is what stands for K
    when a share gamma of uploads is lost. What a round costs under the policy comes from the
    scenario. All whole K and E_l are compared.
    """
    limits = _limits(deadline, energy_budget, sure)
    if solve_for and limits.deadline == inf:
        raise BadInput("--solve-for bandwidth: give the --deadline that is to be kept")
    if sure and limits == Limits(sure=True):
        raise BadInput("--sure: give a --deadline or an --energy-budget that is to be kept")
    picture = check_target(figure, FORMATS) if figure else None
    file = check_target(written, ("json",)) if written else None
    if file and file.exists() and not is_plan(read_tables(file)):
        raise BadInput(f"{written}: holds something else than a plan: choose another --out")
    declared, data = load_scenario(scenario), None
    world = declared
    if world.learning is not None:
        material = gather_material(world, seed, data_dir)
        world, data = material.scenario, material.data  # with D_j, z_m and alpha_0
    given = {"mixing": mixing, "drift": drift, "start": start, "floor": floor, "dropped": dropped}
    law = law_of(world, data, pilot, given, loss(target_loss))
    question = Question(
        law=law.law,
        policy=policy,
        most_steps=max_steps or law.most_steps,
        limits=limits,
        aim=minimise,
        paper_law=law.paper,
        seed=seed,
    )
    if solve_for:
        world = least_bandwidth(world, question)
    over = question.chart(world)
    best = question.answer(over)
    others = {name: under_policy(world, name, best, seed) for name in NAMED if name != policy}
    own = {measure: getattr(best, measure) for measure in TOTALS}
    declared = declared.using(cell={"bandwidth": world.cell.bandwidth})
    said = plan_row(
        declared, scenario, policy, law.target, law.law, limits, best, {policy: own} | others
    )
    said |= {"seed": seed, "minimise": minimise}
    said["notes"] = [*law.notes, *said["notes"]]
    said["notes"] += beyond(law.tried, best, world.cell.loss_rate)
    if solve_for:
        said["bandwidth"] = world.cell.bandwidth
    said["unit_costs"] = _unit_costs(world, policy, said, seed)
    if what_if:
        said["sensitivity"] = sensitivity(world, question, best)
    if file:
        write_text(file, json_text(said))
    if picture:
        allowed = within_limits(over, limits)
        write_atomically(picture, lambda path: plan_figure(over, said, allowed, path))
    if as_json:
        print_json(said)
        return
    print_plan(out, said)
    for what, path in (("plan", written), ("figure", figure)):
        if path:
            out.print(f"{what}: {path}", soft_wrap=True)


def _limits(deadline: str | None, budget: str | None, sure: bool) -> Limits:
    energy = each = inf
    if budget is not None:
        amount, slash, per = budget.partition("/")
        if slash and per.strip() != "client":
            raise BadInput(f"--energy-budget = {budget}: expected as in 500J, or 5J/client")
        energy = joules(amount, "--energy-budget")
        if per:
            energy, each = inf, energy
    return Limits(
        deadline=inf if deadline is None else seconds(deadline, "--deadline"),
        energy=energy,
        energy_per_client=each,
        sure=sure,
    )


def _unit_costs(world: Scenario, policy: str, said: Row, seed: int) -> list[Row]:
    """The paper's unit costs at the plan, beside those of Monte Carlo."""
    there = world.planned(said["cohort"]["value"], said["local_steps"]["value"])
    return [
        {"way": way, "upload": unit.upload, "compute": unit.compute, "error": error}
        for way, (unit, error) in unit_costs(there, policy, seed).items()
    ]
