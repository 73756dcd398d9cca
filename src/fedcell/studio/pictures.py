"""A plan as plain values for the pictures of the page: nothing is computed here."""

import base64
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.showing import client_title
from fedcell.core.types import Array
from fedcell.network.physics.timeline import PARTS, STATES
from fedcell.network.schedule import schedule_round
from fedcell.planning.choice.grid import PlanGrid
from fedcell.planning.choice.plan import TOLERANCE, TrainingPlan
from fedcell.planning.costs.devices import device_parts
from fedcell.planning.costs.rounds import MEASURES

FINE = 48  # values of K, and of E_l, of a surface
MOST_DOTS = 500  # settings that are marked
MOST_BARS = 60  # devices with a bar each, those that spend most
MOST_LANES = 60  # clients of a round with a lane each


def packed(values: Array) -> str:
    """Return numbers as the base64 text of 32-bit floats, which a page reads without parsing."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def surface(grid: PlanGrid) -> dict[str, Any]:
    """Return the totals over K and E_l, and the settings that may be planned."""
    found = grid.surface(FINE)
    i, j = np.nonzero(grid.candidates)
    marked = grid.of_pilot and i.size <= MOST_DOTS
    return {
        "cohorts": found.cohorts.tolist(),
        "steps": found.steps.tolist(),
        **{name: packed(getattr(found, name)) for name in ("rounds", *MEASURES)},
        "tried": [
            [int(grid.cohorts[a]), int(grid.steps[b])] for a, b in zip(i, j, strict=True) if marked
        ],
        "least": {name: float(getattr(grid, name)[grid.candidates].min()) for name in MEASURES},
    }


def pictures(plan: TrainingPlan, seed: int) -> dict[str, Any]:
    """Return what the page draws of a plan."""
    grid, allowed = plan.grid, plan.allowed
    assert grid is not None
    assert allowed is not None
    front = [asdict(each) for each in plan.front()]
    drawn = surface(grid)
    drawn["allowed"] = [bool(allowed[grid.at(k, e)]) for k, e in drawn["tried"]]
    return {
        "surface": drawn,
        "tolerance": TOLERANCE,
        "front": front,
        "round": _round(plan, grid, seed),
        "parts": _parts(plan, grid, seed),
        "law": _law(plan, grid),
    }


def _round(plan: TrainingPlan, grid: PlanGrid, seed: int) -> dict[str, Any] | None:
    """Return the first round of a run that clients take part in, as lanes of intervals."""
    world = grid.scenario.with_plan(plan.cohort, plan.local_steps)
    try:
        one = schedule_round(world, grid.policy, seed=seed)
    except BadInput as error:  # all clients sit it out
        return {"why": str(error)}
    line, share = one.timeline, one.schedule.share
    assert one.of is not None
    order = np.argsort(-share, kind="stable")[:MOST_LANES]
    names = one.of.names or [client_title(j, None) for j in one.of.clients]
    return {
        "round": one.of.round,
        "duration": float(line.duration),
        "energy": float(sum(part.sum() for part in line.by_part.values())),
        "clients": share.size,
        "lanes": [
            {
                "name": names[i],
                "share": float(share[i]),
                "freq": float(one.schedule.freq[i]),
                "states": {
                    s: [float(np.ravel(line.begin[s])[i]), float(np.ravel(line.end[s])[i])]
                    for s in STATES
                },
                "energy": {part: float(np.ravel(line.energy[part])[i]) for part in PARTS},
            }
            for i in order.tolist()
        ],
    }


def _parts(plan: TrainingPlan, grid: PlanGrid, seed: int) -> dict[str, Any]:
    """Return the expected joules of a run by device and part, the highest first."""
    world = grid.scenario.with_plan(plan.cohort, plan.local_steps)
    rounds, names = plan.rounds.value, world.clients.names
    parts = device_parts(world, grid.fleet, grid.policy, seed)
    total = sum(parts.values(), np.zeros(grid.fleet.count))
    order = np.argsort(-total, kind="stable")[:MOST_BARS].tolist()
    batteries = grid.fleet.batteries
    return {
        "clients": grid.fleet.count,
        "devices": [
            {
                "name": client_title(j, None if names is None else names[j]),
                "battery": float(batteries[j]) if math.isfinite(batteries[j]) else None,
                "parts": {name: rounds * float(joules[j]) for name, joules in parts.items()},
            }
            for j in order
        ],
    }


def _law(plan: TrainingPlan, grid: PlanGrid) -> dict[str, Any]:
    """Return the rounds to the target over E_l with the plan's K, with the interval of one run."""
    low, high = int(grid.steps[0]), int(grid.steps[-1])
    steps = np.unique(np.rint(np.geomspace(low, high, FINE)).astype(np.int64))
    cohort = np.full(steps.size, plan.cohort)
    bands = plan.law.predict(cohort, steps, grid.loss_rate, kind=grid.kind)
    mean, least, most = ([float(v) for v in np.maximum(band, 1.0)] for band in bands)
    return {
        "cohort": plan.cohort,
        "steps": steps.tolist(),
        "mean": mean,
        "low": least,
        "high": most,
    }
