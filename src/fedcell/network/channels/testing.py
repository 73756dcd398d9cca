"""Check a path-loss law of your own: call `check_channel` in a test."""

from __future__ import annotations

import numpy as np

from fedcell.core.types import Array
from fedcell.scenario.channel.laws import PathLossLaw, Propagation
from fedcell.scenario.channel.spec import ChannelSpec

MAX_LOSS = 300.0  # [dB]
PROBABILITIES, SPREADS = ("los_probability",), ("shadow_los", "shadow_nlos")
LENGTHS = ("correlation_los", "correlation_nlos", "correlation_state")
DELAYS = ("delay_los", "delay_nlos", "delay_indoor")


def check_channel(
    law: PathLossLaw, spec: ChannelSpec | None = None, near: float = 20.0, far: float = 400.0
) -> None:
    """Check that a path-loss law keeps its contract.

    Losses must be finite, between 0 and 300 dB, and not lower without line of sight; probabilities
    between 0 and 1; spreads, correlation distances and delays not negative. A client alone must
    have the same loss as among others, and the law must leave its argument as it is.

    Parameters
    ----------
    law : PathLossLaw
        The callable under test.
    spec : ChannelSpec, optional
        The options that it is given; the defaults where left out.
    near, far : float
        Distances between which the law holds [m].

    Raises
    ------
    AssertionError
        If the contract is broken, with the reason.

    Examples
    --------
    >>> check_channel(lambda d, spec: Propagation(los=32.4 + 30 * np.log10(d)))
    """
    options = spec or ChannelSpec()
    distance = np.geomspace(near, far, 24).reshape(4, 6)
    distance.flags.writeable = False
    found = law(distance, options)
    if not isinstance(found, Propagation):
        raise AssertionError(f"a {type(found).__name__} is returned: expected a Propagation")
    for name in ("los", "nlos"):
        if (loss := getattr(found, name)) is not None:
            _check_values(name, loss, distance.shape, MAX_LOSS)
            if np.shape(loss) != distance.shape:
                raise AssertionError(
                    f"{name} has shape {np.shape(loss)}: expected {distance.shape}"
                )
    if (np.asarray(found.obstructed) < found.los - 1e-9).any():
        raise AssertionError("nlos is below los: an obstacle does not help")
    for names, most in ((PROBABILITIES, 1.0), (SPREADS, 50.0), (LENGTHS, np.inf), (DELAYS, 1.0)):
        for name in names:
            if (values := getattr(found, name)) is not None:
                _check_values(name, values, distance.shape, most)
    alone = law(distance[1, 2:3], options)
    for name in ("los", "nlos", "los_probability", *SPREADS):
        whole, one = getattr(found, name), getattr(alone, name)
        if whole is not None and not np.allclose(_at(whole, distance.shape)[1, 2], one, rtol=1e-9):
            raise AssertionError(f"{name} of a client alone is not that among others")


def _at(values: Array | float, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.asarray(values, float), shape)


def _check_values(name: str, values: Array | float, shape: tuple[int, ...], most: float) -> None:
    """Refuse values out of range, or of a shape that does not go with the distances."""
    try:
        each = _at(values, shape)
    except ValueError as error:
        raise AssertionError(f"{name} has shape {np.shape(values)}: expected {shape}") from error
    if not ((each >= 0) & (each <= most)).all():
        raise AssertionError(f"{name} is not between 0 and {most:g} everywhere")
