"""Seconds and joules of clients that work for a selector: they evaluate the model, or train in
vain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.network.spending import Idle
from fedcell.network.trace import Fleet, Trace

FORWARD = 1 / 3  # of the cycles of a training step: one of its three passes


@dataclass(frozen=True, eq=False)
class Trainings:
    """Seconds and joules of one training, and of one evaluation, of each client, (N,)."""

    duration: Array  # of E_l local steps at its own frequency [s]
    energy: Array  # [J]
    samples: Array  # of a local step
    steps: float  # E_l

    def evaluations(self, fleet: Fleet) -> tuple[Array, Array]:
        """Return seconds and joules of evaluating the model on all samples of a client."""
        with np.errstate(invalid="ignore", divide="ignore"):
            part = FORWARD * fleet.samples / (self.steps * self.samples)
        part = np.nan_to_num(part, posinf=0.0)
        return part * self.duration, part * self.energy


def in_vain(
    trace: Trace, fleet: Fleet, trainings: Trainings | None, computing: Array
) -> tuple[Idle, Array] | None:
    """Return what clients spend for the selector of a trace, and the seconds that rounds are longer
    for it, (round,); None without `trainings`, where no client works for it.

    `computing` is the longest training of the called clients of each round [s]: a round waits for
    those that train longer.
    """
    if trainings is None:
        return None
    shape = (trace.rounds, fleet.count)
    busy, seconds, joules = np.zeros(shape, bool), np.zeros(shape), np.zeros(shape)
    longer = np.zeros(trace.rounds)
    if trace.evaluated is not None:
        evaluation = trainings.evaluations(fleet)
        longer += _add(trace.evaluated, *evaluation, busy, seconds, joules)
    if trace.trained is not None:
        training = trainings.duration, trainings.energy
        longest = _add(trace.trained, *training, busy, seconds, joules)
        longer += np.maximum(0.0, longest - computing)
    return Idle(trained=busy, duration=seconds, energy=joules), longer


def _add(
    clients: Ints, duration: Array, energy: Array, busy: Array, seconds: Array, joules: Array
) -> Array:
    """Add the work of these clients, (round, place), and return the longest of each round."""
    rounds, places = np.nonzero(clients >= 0)
    who = clients[rounds, places]
    busy[rounds, who] = True
    seconds[rounds, who] += duration[who]
    joules[rounds, who] += energy[who]
    each = np.where(clients >= 0, duration[np.maximum(clients, 0)], 0.0)
    return np.asarray(each.max(1, initial=0.0))
