"""Policies side by side on the same dice, as tidy rows: what tables and figures are made of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.network.policies.base import Policy
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario

from .draw import replicates
from .ledger import Ledger, interval, simulate_network

Row = dict[str, Any]
MEASURES = ("upload", "compute", "staged", "objective", "duration", "energy")
Policies = Sequence[str | Policy] | Mapping[str, str | Policy]  # a mapping names them
Track = Callable[[Sequence[Any]], Iterable[Any]]  # wraps what is gone through, for progress


def compare(
    scenario: Scenario,
    policies: Policies,
    rounds: int,
    seed: int,
    fleets: int = 1,
    track: Track = iter,
) -> list[Row]:
    """Every policy on the same dice: means with intervals, and differences to the first.

    The differences are paired, so that the luck of the dice cancels. With one fleet the
    intervals are over its rounds: what these clients will see. With several, each drawn
    anew, they are over the means of the fleets: what clients like these will see. Rounds
    that nobody could join are counted and left out.
    """
    known = _by_name(policies)
    _check_fleets(scenario, fleets)
    rows: list[Row] = []
    first: dict[str, Array] = {}
    for name in track(list(known)):
        ledgers = [
            simulate_network(scenario, known[name], rounds, s) for s in replicates(seed, fleets)
        ]
        values = {measure: _values(ledgers, measure) for measure in MEASURES}
        first = first or values
        rows.append(
            {"policy": name, "rounds": rounds, "fleets": fleets}
            | {measure: asdict(interval(values[measure])) for measure in MEASURES}
            | {
                "against": next(iter(known)),
                "difference": {m: asdict(interval(values[m] - first[m])) for m in MEASURES},
            }
            | {
                count: float(np.mean([getattr(ledger, count) for ledger in ledgers]))
                for count in ("called", "received", "weak", "poor")
            }
            | {
                "short": sum(int((x.draws < scenario.plan.cohort).sum()) for x in ledgers),
                "empty": sum(int((x.called == 0).sum()) for x in ledgers),
            }
        )
    return rows


def _by_name(policies: Policies) -> dict[str, str | Policy]:
    if isinstance(policies, Mapping):
        return dict(policies)
    listed = [policies] if isinstance(policies, str) else list(policies)
    named = {p if isinstance(p, str) else getattr(p, "__name__", repr(p)): p for p in listed}
    if len(named) < len(listed) or not named:
        raise BadInput("policies: give each once, and at least one")
    return named


def _check_fleets(scenario: Scenario, fleets: int) -> None:
    if not isinstance(fleets, int) or fleets < 1:
        raise BadInput(f"fleets = {fleets!r}: expected a whole number above 0")
    if fleets > 1 and (scenario.clients.table is not None or scenario.cell.gains is not None):
        raise BadInput(f"fleets = {fleets}: there is one fleet where clients or gains are listed")


def _values(ledgers: Sequence[Ledger], measure: str) -> Array:
    joined = [getattr(ledger, measure)[ledger.called > 0] for ledger in ledgers]
    return joined[0] if len(joined) == 1 else np.array([values.mean() for values in joined])


def axes(scenario: Scenario) -> dict[str, list[int]]:
    """K and E_l as in Fig. 6: up to half of the clients, and around the planned steps."""
    count, plan = scenario.clients.count, scenario.plan
    work = "local_epochs" if plan.local_epochs else "local_steps"
    steps = getattr(plan, work)
    cohorts = {max(1, round(count * part)) for part in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)}
    times = {max(1, round(steps * part)) for part in (0.25, 0.5, 1, 1.5, 2, 2.5)}
    return {"cohort": sorted(cohorts | {scenario.plan.cohort}), work: sorted(times)}


def sweep(
    scenario: Scenario,
    policies: Policies,
    spreads: Sequence[float],
    rounds: int,
    seed: int,
    fleets: int = 1,
    track: Track = iter,
) -> list[Row]:
    """The costs of a round over K and over E_l, the content of Fig. 6 a and b."""
    points = [
        (axis, value, spread)
        for axis, values in axes(scenario).items()
        for value in values
        for spread in spreads
    ]
    rows = []
    for axis, value, spread in track(points):
        world = scenario.using(plan={axis: value}, clients={"spread": spread})
        here = {"axis": axis, "value": value, "spread": spread}
        rows += [here | row for row in compare(world, policies, rounds, seed, fleets)]
    return rows
