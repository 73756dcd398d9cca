"""The links of a fleet: where each client is, whether it is in sight or in a building, and its path
loss in any round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, uniform
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.channel.laws import (
    INDOOR_SLOPE,
    WALL_SPREAD,
    Propagation,
    wall_loss,
    with_spec,
)
from fedcell.scenario.channel.spec import PAPER, ChannelSpec
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.tables import Cell

from .motion import Paths, normals, process

PLACES = 2**20  # (round, client) states in memory at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """Positions and states of the clients of a fleet.

    Attributes
    ----------
    distance : ndarray, shape (N,)
        Horizontal distance in round 0 [m].
    in_sight : ndarray of bool
        Line of sight in round 0.
    indoor_loss : ndarray
        Wall and way inside a building [dB]; 0 outdoors.
    loss : ndarray
        Path loss with shadowing and building in round 0 [dB].
    moves : bool
        Whether the loss changes from round to round.
    """

    cell: Cell
    seed: int
    paths: Paths
    distance: Array
    indoor_loss: Array
    given: Bools  # clients with a mean gain of their own: they have no path loss, and stay
    in_sight: Bools = field(init=False)
    loss: Array = field(init=False)

    def __post_init__(self) -> None:
        everyone = np.arange(self.distance.size)
        loss, sight = self._states(range(1), everyone)
        object.__setattr__(self, "loss", loss[0])
        object.__setattr__(self, "in_sight", sight[0])

    @property
    def moves(self) -> bool:
        """Return whether path losses change from round to round."""
        return self.spec.move > 0

    @property
    def spec(self) -> ChannelSpec:
        """Return the table [cell.channel]."""
        return self.cell.channel

    def remembered(self, what: Any, compute: Callable[[], Array]) -> Array:
        """Return an array that depends on these links and on `what`; keep the last one."""
        if what not in self._remembered:
            self._remembered.clear()
            self._remembered[what] = compute()
        return self._remembered[what]

    @cached_property
    def _remembered(self) -> dict[Any, Array]:
        return {}

    def change(self, rounds: range, clients: Ints) -> tuple[Array, Bools]:
        """Return the gains of some clients of each round over those of round 0, and their lines of
        sight, (round, place)."""
        if not self.moves:
            return np.ones(clients.shape), self.in_sight[clients]
        places = clients.shape[1]
        step = max(1, PLACES // self.distance.size, isqrt(PLACES // places))
        parts = [
            self._changed(range(start, min(start + step, rounds.stop)), clients[start - first :])
            for first in [rounds.start]
            for start in range(first, rounds.stop, step)
        ]
        if not parts:
            return np.ones(clients.shape), np.ones(clients.shape, bool)
        gains, sights = zip(*parts, strict=True)
        return np.concatenate(gains), np.concatenate(sights)

    def _changed(self, rounds: range, clients: Ints) -> tuple[Array, Bools]:
        clients = clients[: len(rounds)]
        some, place = np.unique(clients, return_inverse=True)
        loss, sight = self._states(rounds, some, place.reshape(clients.shape))
        return np.asarray(10 ** ((self.loss[clients] - loss) / 10)), sight

    def _states(self, rounds: range, some: Ints, place: Ints | None = None) -> tuple[Array, Bools]:
        """Return path losses [dB] and lines of sight in some rounds: of all of `some` clients,
        (round, client), or of those at some places in it, (round, place)."""
        if place is None:
            place = np.broadcast_to(np.arange(some.size), (len(rounds), some.size))
        who = some[place]
        spec, n = self.spec, self.distance.size
        distance = self.distance[who]
        if self.moves:
            t = np.arange(rounds.start, rounds.stop, dtype=float)[:, None]
            distance = np.where(self.given[who], distance, self.paths.at(t, who))
        found = propagation(self.cell, distance)

        def state(purpose: Purpose, over: float) -> Array:
            values = process(purpose, self.seed, rounds, some, n, spec.move / over)
            return np.asarray(np.take_along_axis(values, place, axis=1))

        loss, sight = found.los, np.ones(who.shape, bool)
        shadow = np.asarray(found.shadow_los)
        if shadow.any():
            loss = loss + shadow * state(Purpose.SHADOW_SIGHT, found.correlation_los)
        if found.nlos is not None:
            from scipy.special import ndtr

            chance = ndtr(state(Purpose.LINE_OF_SIGHT, found.correlation_state))
            sight = chance < found.los_probability
            blocked = found.nlos
            if (shadow := np.asarray(found.shadow_nlos)).any():
                over = found.correlation_nlos
                blocked = blocked + shadow * state(Purpose.SHADOW_NO_SIGHT, over)
            loss = np.where(sight, loss, blocked)
        return np.where(self.given[who], 0.0, loss + self.indoor_loss[who]), sight


def propagation(cell: Cell, distance: Array) -> Propagation:
    """Return the path loss at some distances [m], by the law of [cell.channel] or the paper's."""
    if cell.channel.model != PAPER:
        return cell.channel.propagation(distance)
    return with_spec(Propagation(los=-10 * np.log10(cell.mean_gain(distance))), cell.channel)


def draw_links(scenario: Scenario, distance: Array, given: Bools, seed: int) -> Links:
    """Return the links of clients at some distances [m]; `given` ones have gains of their own."""
    cell, n = scenario.cell, distance.size
    spec = cell.channel
    if spec.move and np.isinf(_farthest_correlation(scenario, distance)):
        raise BadInput(
            f'cell.channel.correlation_distance is missing: "{spec.model}" has none, and clients '
            "with shadowing move"
        )
    placed = distance[~given] if not given.all() else distance
    listed = scenario.clients.table is not None and scenario.clients.table.distance is not None
    near, far = (placed.min(), placed.max()) if listed else cell.ring
    heading = np.ravel(uniform(Purpose.HEADING, seed, range(1), n))
    is_indoor, depth = uniform(Purpose.INDOOR, seed, range(2), n)
    inside = (is_indoor < spec.indoor_share) & ~given
    spread = normals(Purpose.INDOOR, seed, range(2, 3), np.arange(n), n)[0]
    wall = wall_loss(spec.building, spec.carrier) + WALL_SPREAD[spec.building] * spread
    return Links(
        cell=cell,
        seed=seed,
        paths=Paths.of(distance, heading, float(near), float(far), spec.move),
        distance=distance,
        indoor_loss=np.where(inside, wall + INDOOR_SLOPE * spec.indoor_depth * depth, 0.0),
        given=given,
    )


def _farthest_correlation(scenario: Scenario, distance: Array) -> float:
    """Return the longest correlation distance of a state that is drawn; 0 if there is none."""
    found = propagation(scenario.cell, distance)
    lengths = [found.correlation_los] if np.any(found.shadow_los) else []
    if found.nlos is not None:
        lengths += [found.correlation_state]
        lengths += [found.correlation_nlos] if np.any(found.shadow_nlos) else []
    return max(lengths, default=0.0)
