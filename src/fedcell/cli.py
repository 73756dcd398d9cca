"""The command line: thin, for people first and with --json for programs."""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from . import __version__
from .errors import BadInput, FedcellError
from .figures import cost_figure
from .files import SHIPPED, load_scenario, shipped, write_atomically
from .policies import NAMED, named
from .policy import Broadcast, mean_freq
from .round import check_schedule, price
from .roundfile import load_round
from .scenario import Scenario
from .survey import Row, compare, sweep
from .tables import print_comparison, print_schedule

app = typer.Typer(
    name="fedcell",
    help="Plan, simulate and run federated learning over wireless networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(markup=False, highlight=False), Console(stderr=True)

PolicyName = Annotated[
    str, typer.Option(help=f"{', '.join(NAMED)}; or module:callable for your own.")
]
PolicyNames = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help=f"{', '.join(NAMED)}; or module:callable for your own. Repeat it to compare; "
        "the first is what the others are compared with. Default: all of ours.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Seed = Annotated[int, typer.Option(min=0, help="The dice: same seed, same rounds.")]


@app.command()
def schedule(
    file: Annotated[Path, typer.Argument(help="One round, as TOML or JSON; see docs/files.md.")],
    policy: PolicyName = "optimal",
    as_json: AsJson = False,
) -> None:
    """Schedule one round: who gets which share of the band and which CPU frequency."""
    problem = load_round(file)
    told = Broadcast(
        mean_freq(float(problem.kappa.mean()), problem.energy_weight), float(problem.samples.mean())
    )
    answer = named(policy, told)(problem)
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
    _refuse_overflow([*columns.values(), *totals.values()])
    result: Row = {"policy": policy}
    result |= {name: np.broadcast_to(v, answer.share.shape).tolist() for name, v in columns.items()}
    result |= {name: float(value) for name, value in totals.items()}
    if answer.certificate is not None:
        result["certificate"] = {
            name: float(getattr(answer.certificate, name)) for name in ("primal", "dual", "gap")
        }
    if as_json:
        _print_json(result)
        return
    print_schedule(out, result)


@app.command()
def cost(
    scenario: Annotated[
        str, typer.Argument(help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}.")
    ],
    policy: PolicyNames = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds to draw. Default: plan.rounds.")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the cost over K and over E_l (Fig. 6) to this file.")
    ] = None,
    spread: Annotated[
        list[float] | None,
        typer.Option(help="Var of the figure's lines; repeat it. Default: clients.spread."),
    ] = None,
) -> None:
    """Price rounds by Monte Carlo: policies side by side on the same dice."""
    world = load_scenario(scenario)
    policies = policy or list(NAMED)
    rows = compare(world, policies, rounds or world.plan.rounds, seed, _progress)
    swept = _figure(world, policies, spread, rounds, seed, figure) if figure else None
    if as_json:
        _print_json(
            {
                "scenario": scenario,
                "seed": seed,
                "cohort": world.plan.cohort,
                "local_steps": world.plan.local_steps,
                "samples_per_step": world.task.samples_per_step,
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


@app.command()
def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Where the pictures go; made if it is not there.")
    ] = Path("fedcell-demo"),
) -> None:
    """The main job on what comes with the package: tables and pictures, in seconds."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be made: {error.strerror}") from error
    for name in SHIPPED:
        world = load_scenario(name)
        print_comparison(out, name, world, compare(world, list(NAMED), world.plan.rounds, seed=0))
        picture = folder / f"cost-{name}.png"
        _figure(world, list(NAMED), None, None, 0, picture)
        out.print(f"figure: {picture}\n")
    out.print("Next: `fedcell scenario > mine.toml`, edit it, `fedcell cost mine.toml`.")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: what we raise on purpose becomes sentences and exit code 2."""
    try:
        with np.errstate(all="ignore"):  # what overflows is found in the results and said in words
            app()
    except FedcellError as error:
        for line in str(error).splitlines():
            print(f"fedcell: {line}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _figure(
    world: Scenario,
    policies: Sequence[str],
    spreads: Sequence[float] | None,
    rounds: int | None,
    seed: int,
    path: Path,
) -> list[Row]:
    rounds = rounds or world.plan.rounds
    rows = sweep(world, policies, spreads or [world.clients.spread], rounds, seed, _progress)
    caption = (
        f"{rounds} rounds per point, bands: 95 % confidence of the mean; "
        f"left: $E_l$ = {world.plan.local_steps}, right: K = {world.plan.cohort}"
    )
    try:
        write_atomically(path, lambda temporary: cost_figure(rows, caption, temporary))
    except ValueError as error:  # matplotlib does not know the ending
        raise BadInput(f"{path}: cannot be drawn: {error}") from error
    return rows


def _progress(items: Sequence[Any]) -> Iterable[Any]:
    quiet = not err.is_terminal
    return track(items, "pricing rounds", console=err, transient=True, disable=quiet)


def _refuse_overflow(values: Iterable[Any]) -> None:
    if not all(np.isfinite(value).all() for value in values):
        raise BadInput("the numbers are too far apart to be computed with: check the units (SI)")


def _print_json(value: Any) -> None:
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """`value` with NaN, which JSON does not have, as null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
