"""Fading of a round: a factor with mean 1 on the mean gain of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.streams import Purpose, uniform_at
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.channel.laws import Propagation
from fedcell.scenario.channel.spec import NO_DELAY
from fedcell.scenario.scenario import Scenario

from .links import Links, propagation

Kind = Literal["gamma", "rician", "none"]
BRANCHES = 5.0  # independent branches in a band: 5 B times the delay spread


@dataclass(frozen=True, eq=False)
class Fading:
    """The distribution of the fading factor of each client.

    Parameters
    ----------
    kind : {"gamma", "rician", "none"}
        Its family.
    shape : ndarray or float
        Diversity order m, of Gamma(m, 1/m); or the Rician K-factor, linear, 0: exponential. Of
        each client, or of the called ones that move, (round, place).

    Examples
    --------
    >>> bool(np.isclose(Fading("gamma", 1.0).survival(np.array([0.5]))[0], np.exp(-0.5)))
    True
    """

    kind: Kind
    shape: Array | float = 1.0

    def of(self, clients: Any) -> Array | float:
        """Return the parameter of some clients."""
        if isinstance(self.shape, float) or self.shape.ndim == 2:
            return self.shape
        return np.asarray(self.shape[clients])

    def draw(self, seed: int, rounds: range, clients: Ints, count: int) -> Array:
        """Return factors of some of `count` clients of each round, (round, place)."""
        if self.kind == "none":
            return np.ones(clients.shape)
        draws = uniform_at(Purpose.FADING, seed, rounds, clients, count)
        shape = self.of(clients)
        if self.kind == "gamma":
            return _gamma(draws, shape)
        angle = 2 * np.pi * uniform_at(Purpose.FADING_PHASE, seed, rounds, clients, count)
        scattered = -np.log1p(-draws)  # |sqrt(K) + sqrt(E) e^(i angle)|^2 / (K + 1)
        cross = 2 * np.sqrt(shape * scattered) * np.cos(angle)
        return np.asarray((shape + scattered + cross) / (1 + shape))

    def survival(self, x: Array, clients: Any = slice(None)) -> Array:
        """Return the probability of a factor of at least x, for some clients on the last axis."""
        shape = self.of(clients)
        if self.kind == "none":
            return np.asarray(np.where(x <= 1, 1.0, 0.0))
        if self.kind == "gamma" and isinstance(shape, float) and shape == 1:
            return np.asarray(np.exp(-x))
        if self.kind == "gamma":
            from scipy.special import gammaincc

            return np.asarray(gammaincc(shape, shape * x))
        from scipy.special import chndtr

        return np.asarray(1 - chndtr(2 * (1 + shape) * x, 2, 2 * shape))

    def above(self, least: Array, draws: Array, clients: Any = slice(None)) -> Array:
        """Return factors of at least `least`, for uniform draws in [0, 1)."""
        shape = self.of(clients)
        if self.kind == "none":
            return np.ones(np.broadcast_shapes(np.shape(least), np.shape(draws)))
        if self.kind == "rician":
            raise BadInput("Rician fading has no quantiles in closed form: draw it")
        if isinstance(shape, float) and shape == 1:  # the excess over a threshold is exponential
            return np.asarray(least - np.log1p(-draws))
        from scipy.special import gammainccinv

        return np.asarray(gammainccinv(shape, (1 - draws) * self.survival(least, clients)) / shape)


def _gamma(draws: Array, shape: Array | float) -> Array:
    if isinstance(shape, float) and shape == 1:
        return np.asarray(-np.log1p(-draws))  # exponential, Sec. V-A
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(shape, draws) / shape)


def fading_of(
    scenario: Scenario, links: Links | None, moved: tuple[Ints, Bools] | None = None
) -> Fading:
    """Return the fading of the clients of a fleet, with the diversity of a share 1/K; or of some
    that have `moved`, by number and line of sight, (round, place)."""
    spec = scenario.cell.channel
    if scenario.has_rates:
        return Fading("none")
    if spec.fading == "none":
        return Fading("none")
    if spec.fading == "rician":
        return Fading("rician", _rician_factor(scenario, links, moved))
    if not isinstance(spec.diversity, str):
        return Fading("gamma", float(spec.diversity))
    return Fading("gamma", _diversity(scenario, links, moved))


def _rician_factor(
    scenario: Scenario, links: Links | None, moved: tuple[Ints, Bools] | None
) -> Array | float:
    """Return K of each client: 0 without line of sight."""
    spec = scenario.cell.channel
    if links is None:
        return float(10.0 ** ((spec.rician_db or 0.0) / 10))
    found = propagation(scenario.cell, links.distance)
    if found.rician_db is None:
        raise BadInput(f'cell.channel.rician_db is missing: "{spec.model}" sets none')
    in_sight = links.in_sight if moved is None else moved[1]
    return np.where(in_sight, 10.0 ** (found.rician_db / 10), 0.0)


def _diversity(
    scenario: Scenario, links: Links | None, moved: tuple[Ints, Bools] | None
) -> Array | float:
    """Return the branches of a share 1/K of the band, for each client, at least 1; with shares of
    airtime each has the whole band."""
    in_turn = scenario.radio is not None and scenario.radio.access == "time"
    share = scenario.cell.bandwidth / (1 if in_turn else scenario.plan.cohort)
    spec = scenario.cell.channel
    if links is None:
        if spec.delay_spread is None:
            raise BadInput(f'cell.channel.diversity = "auto": "{spec.model}" {NO_DELAY}')
        return max(1.0, share * BRANCHES * spec.delay_spread)
    delay = _delays(propagation(scenario.cell, links.distance), links, moved)
    if delay is None:
        raise BadInput(f'cell.channel.diversity = "auto": "{spec.model}" {NO_DELAY}')
    return np.maximum(1.0, share * BRANCHES * delay)


def _delays(found: Propagation, links: Links, moved: tuple[Ints, Bools] | None) -> Array | None:
    """Return the delay spread of each client [s]."""
    some, in_sight = (slice(None), links.in_sight) if moved is None else moved
    indoors = links.indoor_loss[some] != 0
    outdoors = found.delay_los if found.nlos is None else found.delay_nlos
    if outdoors is None or found.delay_los is None:
        return None
    delay = np.where(in_sight, found.delay_los, outdoors)
    return delay if found.delay_indoor is None else np.where(indoors, found.delay_indoor, delay)
