"""The schedule that minimises (22) over share, clock and transmit power, with its certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Array
from fedcell.network.physics.discrete.link import DiscreteLink
from fedcell.network.physics.power.certificate import certify_power
from fedcell.network.physics.power.link import Link
from fedcell.network.physics.power.problem import FreePower
from fedcell.network.physics.terms import Terms
from fedcell.network.round import Problem, Schedule

from .joint.modes import best_powers
from .joint.solve import JointSplit, joint_split
from .optimal import Optimal

FILLED = 1e-9  # by how much the shares of a split may exceed the band before they are scaled


@dataclass(frozen=True)
class OptimalPower:
    """The schedule that minimises (22) over share, clock and transmit power of each client.

    Powers are limited by radio.power_max, spectral efficiencies by radio.spectral_cap and
    radio.snr_min_db. No schedule of any power law costs less.

    Parameters
    ----------
    minimise : "cost", "time" or "energy"
        (22); the length of the round; or the joules of all clients in rounds with a `deadline`.
    deadline : float, optional
        The longest that a round may take [s], its download apart.

    Examples
    --------
    >>> from fedcell.network import load_round
    >>> best = OptimalPower()(load_round("docs/round.json"))
    >>> bool(best.certificate.gap < 1e-9)
    True
    """

    minimise: Literal["cost", "time", "energy"] = "cost"
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.minimise not in ("cost", "time", "energy"):
            raise BadInput(f"`minimise` = {self.minimise!r}: expected cost, time or energy")
        if self.minimise == "energy" and self.deadline is None:
            raise BadInput(
                "slower rounds take less energy, without end: give the longest, `deadline`"
            )

    def __call__(self, problem: Problem, /) -> Schedule:
        if isinstance(link := problem.link, DiscreteLink):
            if self != OptimalPower():
                raise BadInput(
                    "radio.rate_table gives rates with steps: only (22) without a deadline is "
                    "minimised over them"
                )
            return best_powers(problem, link, Optimal()(problem))
        if self.minimise == "time":
            problem = replace(problem, energy_weight=0.0)
        terms = None
        if self.minimise == "energy":
            problem = replace(problem, energy_weight=1.0)
            terms = Terms.of(problem, summed=True)
            terms = replace(terms, second=terms.second - 1)  # a second costs nothing but joules
        power = FreePower.of(problem, terms)
        if self.deadline is None:
            return _schedule(problem, power, joint_split(power))
        return _schedule(problem, power, *self._in_time(power, self.deadline))

    def _in_time(self, power: FreePower, deadline: float) -> tuple[JointSplit, Array]:
        """Return the best split that keeps the deadline, and how long rounds may be for it."""
        length = np.full(power.y.shape[:-1], deadline)
        if (power.terms.second > 0).all():
            found = joint_split(power)
            length = np.minimum(length, (power.terms.m + found.train + found.upload).max(-1))
        found = joint_split(power, length)
        ends = (power.terms.m + found.train + found.upload).max(-1)
        shares = (power.y / (found.x * found.upload)).sum(-1)
        if (late := ~((shares <= 1 + FILLED) & (ends <= deadline * (1 + FILLED)))).any():
            raise BadInput(
                f"`deadline` = {deadline:g} s: {int(late.sum())} of {late.size} rounds cannot end "
                "by then, with all the power and the highest clocks"
            )
        return found, length


def _schedule(
    problem: Problem, power: FreePower, found: JointSplit, length: Array | None = None
) -> Schedule:
    """Return the schedule of a split; its certificate is the dual bound at the prices."""
    link = Link.of(problem)
    share = power.y / (found.x * found.upload)
    total = share.sum(-1, keepdims=True)
    share = np.where((total > 1) | (found.R[..., None] > 0), share / total, share)
    freq = np.clip(problem.cycles / found.train, problem.freq_min, problem.freq_max)
    schedule = Schedule(share, freq, power=link.power(share, found.x))
    proof = certify_power(problem, power, schedule, (found.beta, found.R), length)
    return replace(schedule, certificate=proof)
