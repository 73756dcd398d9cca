"""The command line: thin, for people first and with --json for programs."""

import io
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from . import __version__
from .certificate import certify, check_schedule
from .errors import BadInput, FedcellError
from .figures import FORMATS, cost_figure
from .files import (
    SHIPPED,
    check_target,
    load_scenario,
    shipped,
    shipped_scenario,
    write_atomically,
)
from .policies import NAMED, named
from .policy import Broadcast
from .round import price
from .roundfile import load_round
from .scenario import Scenario
from .survey import Row, compare, sweep
from .tables import print_comparison, print_json, print_schedule

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
Rounds = Annotated[
    int | None,
    typer.Option(
        min=1, max=10**7, help="Rounds to draw. Default: plan.rounds, or all that are measured."
    ),
]
Fleets = Annotated[
    int,
    typer.Option(
        min=1,
        max=10**4,
        help="Fleets to draw: with several, intervals are over fleets instead of rounds.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The dice: same seed, same rounds.")]


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
    scenario: Annotated[
        str, typer.Argument(help=f"A scenario file, or a shipped one: {', '.join(SHIPPED)}.")
    ],
    policy: PolicyNames = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**7, help="Rounds to draw. Default: plan.rounds, or all measured ones."
        ),
    ] = None,
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
) -> None:
    """Price rounds by Monte Carlo: policies side by side on the same dice."""
    world = load_scenario(scenario)
    policies, rounds = policy or list(NAMED), rounds or world.rounds
    target = check_target(figure, FORMATS) if figure else None
    if spread and not figure:
        raise BadInput("--spread is for the lines of a figure: give --figure too")
    if spread and world.clients.table is not None:
        raise BadInput("--spread is for drawn clients: this scenario lists its own")
    rows = compare(world, policies, rounds, seed, fleets, _progress)
    swept = target and _figure(world, policies, spread, rounds, seed, fleets, target)
    if as_json:
        print_json(
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
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        world = shipped_scenario(name)
        print_comparison(out, name, world, compare(world, list(NAMED), world.rounds, seed=0))
        picture = check_target(folder / f"cost-{name}.png", FORMATS)
        _figure(world, list(NAMED), None, world.rounds, 0, 1, picture)
        out.print(f"figure: {folder / picture.name}\n")
    out.print("Next: `fedcell scenario > mine.toml`, edit it, `fedcell cost mine.toml`.")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Entry point: what goes wrong becomes sentences and exit code 2."""
    sys.path.insert(0, "")  # for module:callable in the folder one is in
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no plus-minus
    try:
        with np.errstate(all="ignore"):  # what overflows is found in the results and said in words
            app()
    except FedcellError as error:
        _fail(str(error))
    except MemoryError:
        _fail("there is not enough memory: take fewer clients or rounds")
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'output'}: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(faults: str) -> NoReturn:
    for line in faults.splitlines():
        print(f"fedcell: {line}", file=sys.stderr)
    sys.exit(2)


def _figure(
    world: Scenario,
    policies: Sequence[str],
    spreads: Sequence[float] | None,
    rounds: int,
    seed: int,
    fleets: int,
    target: Path,
) -> list[Row]:
    spreads = spreads or [world.clients.spread]
    rows = sweep(world, policies, spreads, rounds, seed, fleets, _progress)
    over = "rounds of one fleet" if fleets == 1 else f"{fleets} fleets"
    caption = (
        f"{rounds} rounds per point, bands: 95 % confidence over {over}; "
        f"left: $E_l$ = {world.plan.local_steps}, right: K = {world.plan.cohort}"
    )
    write_atomically(target, lambda temporary: cost_figure(rows, caption, temporary))
    return rows


def _progress(items: Sequence[Any]) -> Iterable[Any]:
    if not err.is_terminal:
        return items
    return track(items, "pricing rounds", console=err, transient=True)
