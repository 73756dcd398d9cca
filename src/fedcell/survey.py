"""Policies side by side on the same dice, as tidy rows: what tables and figures are made of."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from .ledger import Ledger, interval, simulate_network
from .scenario import Scenario

Row = dict[str, Any]
MEASURES = ("upload", "compute", "staged", "objective", "duration", "energy")


Track = Callable[[Sequence[Any]], Iterable[Any]]  # wraps what is gone through, for progress


def compare(
    scenario: Scenario, policies: Sequence[str], rounds: int, seed: int, track: Track = iter
) -> list[Row]:
    """Every policy on the same rounds: means with intervals, and differences to the first.

    The differences are paired, round by round, so that the luck of the dice cancels.
    """
    rows: list[Row] = []
    first: Ledger | None = None
    for policy in track(policies):
        ledger = simulate_network(scenario, policy, rounds, seed)
        first = first or ledger
        rows.append(
            {
                "policy": policy,
                "rounds": rounds,
                **{name: asdict(interval(getattr(ledger, name))) for name in MEASURES},
                "against": policies[0],
                "difference": {
                    name: asdict(interval(getattr(ledger, name) - getattr(first, name)))
                    for name in MEASURES
                },
                "called": float(ledger.called.mean()),
                "received": float(ledger.received.mean()),
                "weak": float(ledger.weak.mean()),
                "poor": float(ledger.poor.mean()),
                "shrunk": int((ledger.called < scenario.plan.cohort).sum()),
            }
        )
    return rows


def axes(scenario: Scenario) -> dict[str, list[int]]:
    """The values of K and E_l that Fig. 6 runs over, as far as there are clients."""
    count = scenario.clients.count
    cohorts = sorted({max(1, round(count * part)) for part in (0.05, *np.arange(1, 6) / 10)})
    return {"cohort": cohorts, "local_steps": [5, 10, 20, 30, 40, 50]}


def sweep(
    scenario: Scenario,
    policies: Sequence[str],
    spreads: Sequence[float],
    rounds: int,
    seed: int,
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
        rows += [here | row for row in compare(world, policies, rounds, seed)]
    return rows
