"""Turn the choice of a rule into the clients of a round; refuse one out of range."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array, Ints
from fedcell.network.selection import stable_order

from .base import Chances, Known, Race
from .drawing import first_of_race, systematic

TOLERANCE = 1e-9  # of probabilities and their sum


def resolved(choice: Any, known: Known, name: str) -> tuple[Ints, Array | None]:
    """Return the clients of a round, and the probability of each where the rule gives these.

    Parameters
    ----------
    choice : Race or Chances
        What the rule answered.
    known : Known
        What it knew.
    name : str
        Who it is, for messages, such as "the selector oort".
    """
    if isinstance(choice, Race):
        weight = np.where(known.may, _checked(choice.weight, "weights", known, name), 0.0)
        return first_of_race(weight, known.uniforms, known.cohort), None
    if not isinstance(choice, Chances):
        what = type(choice).__name__
        raise BadInput(f"{name} answered with a {what}: expected Race or Chances")
    p = _checked(choice.probability, "probabilities", known, name)
    if (p > 1 + TOLERANCE).any() or p.sum() > known.cohort * (1 + TOLERANCE):
        raise BadInput(f"{name} gave probabilities above 1, or that sum to more than K")
    if (p[~known.may] > 0).any():
        raise BadInput(f"{name} gave a client that is no candidate a probability")
    some = np.flatnonzero(p > 0)
    order = some[_random_order(known.uniforms(0)[some])]
    clients = systematic(p, order, float(known.numbers[0]))
    return clients, np.minimum(p[clients], 1.0) * choice.pool


def _random_order(uniforms: Array) -> Ints:
    """Return the order of numbers in [0, 1), by as many of their bits as `stable_order` takes."""
    bits = 61 - uniforms.size.bit_length()
    return stable_order((uniforms * 2.0**bits).astype(np.int64))


def _checked(values: Any, what: str, known: Known, name: str) -> Array:
    given = np.asarray(values, float)
    if given.shape != (known.count,):
        raise BadInput(
            f"{name} gave {what} of shape {given.shape}: expected one for each of the "
            f"{known.count} clients"
        )
    if not (given >= 0).all():
        raise BadInput(f"{name} gave {what} that are negative or not numbers")
    return given
