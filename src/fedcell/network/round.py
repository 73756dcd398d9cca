"""One round: the problem (22), its schedule, and the cost of the schedule.

Clients are on the last axis; any axes may come before it (rounds, seeds, settings), so one call
prices one round or ten thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import SMALL
from fedcell.core.showing import described_axes, value_range
from fedcell.core.types import Array, check_number, range_faults, real_numbers, same_shape
from fedcell.scenario.scenario import Scenario

from .physics.discrete.link import links_of, uploads_of
from .physics.extras import Extras, extras
from .physics.power.link import Link
from .trace import Fleet, Trace, check_powers, check_samples

VECTORS = ("band_time", "upload_energy", "samples", "kappa", "freq_min", "freq_max")


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """All that a policy may know of the clients of a round: vectors of shape (..., client).

    Parameters
    ----------
    band_time : array_like
        u_j, time to upload with the whole band [s].
    upload_energy : array_like
        Energy of an upload [J], the same for any share.
    samples : array_like
        Samples of a local step: D_j, or the batch.
    kappa : array_like
        kappa_j [J s^2]: a cycle at frequency f costs kappa_j f^2 joules.
    freq_min, freq_max : array_like
        Bounds of the CPU frequency [cycle/s].
    work : float
        E_l alpha_0 [cycle/sample].
    energy_weight : float
        l_0 [s/J].
    extras : Extras, optional
        Further powers and times of the clients; None: those of the paper.
    link : Link, optional
        What an upload takes at other transmit powers; None: policies cannot choose powers.

    Examples
    --------
    >>> Problem(
    ...     band_time=[2.0, 3.0],
    ...     upload_energy=[20.0, 30.0],
    ...     samples=[500, 300],
    ...     kappa=[5e-27, 5e-27],
    ...     freq_min=[1e7, 1e7],
    ...     freq_max=[1e9, 1e9],
    ...     work=1e7,
    ...     energy_weight=1.0,
    ... ).cycles.tolist()
    [5000000000.0, 3000000000.0]
    """

    band_time: Array  # u_j = z_m / (B r_j^0), time to upload with the whole band [s]
    upload_energy: Array  # z_m p_j^0 / r_j^0 [J]
    samples: Array  # that a local step processes: D_j, or the batch (DECISIONS.md, 2)
    kappa: Array  # kappa_j [J s^2]
    freq_min: Array  # [cycle/s]
    freq_max: Array  # [cycle/s]
    work: float  # E_l alpha_0 [cycle/sample]
    energy_weight: float  # l_0 [s/J]
    extras: Extras | None = None  # powers and times that the paper does not have
    link: Link | None = None  # uploads at any transmit power

    def __post_init__(self) -> None:
        given = {name: real_numbers(name, getattr(self, name)) for name in VECTORS}
        check_number("work", self.work, SMALL)
        check_number("energy_weight", self.energy_weight, 0.0)
        faults = range_faults(given | {"work * samples": self.work * given["samples"]})
        arrays, shape_faults = same_shape(given)
        if not shape_faults and (arrays["freq_min"] > arrays["freq_max"]).any():
            shape_faults = ["freq_min is above freq_max for at least one client"]
        if faults or shape_faults:
            raise BadInput(*faults, *shape_faults)
        for name, array in arrays.items():  # read-only: a policy cannot change them
            object.__setattr__(self, name, array)

    @property
    def clients(self) -> int:
        """Return K, the clients of a round."""
        return int(self.kappa.shape[-1])

    @property
    def cycles(self) -> Array:
        """Return c_j = E_l alpha_0 D_j, cycles of one round of local training."""
        return self.work * self.samples

    @property
    def effort(self) -> Array:
        """Return w_j = (l_0 / K) kappa_j c_j^3 [s^3]: training for t costs w_j / t^2 in (22)."""
        weight = self.energy_weight / self.clients
        return np.asarray(weight * self.kappa * self.cycles**3)

    def __getitem__(self, where: Any) -> Problem:
        """Return some of the rounds or clients: index every vector."""
        vectors = {name: getattr(self, name)[where] for name in VECTORS}
        extras, link = self.extras and self.extras[where], self.link and self.link[where]
        return replace(self, **vectors, extras=extras, link=link)

    def __repr__(self) -> str:
        freq = np.array((self.freq_min.min(), self.freq_max.max()))
        return (
            f"<Problem, {described_axes(self.kappa.shape)}: "
            f"band_time {value_range(self.band_time, 's')}, "
            f"upload_energy {value_range(self.upload_energy, 'J')},\n  "
            f"samples {value_range(self.samples)}, kappa {value_range(self.kappa, 'J s^2')}, "
            f"freq {value_range(freq, 'cycle/s')},\n  "
            f"work {self.work:.4g} cycle/sample, energy_weight {self.energy_weight:.4g} s/J>"
        )


@dataclass(frozen=True, eq=False)
class Certificate:
    """How close a schedule is to the optimum of (22): relative residuals, all 0 there."""

    primal: Array  # by how much the constraints (22b), (22c) are broken
    dual: Array  # by how much the optimality conditions (86)-(88) are missed
    gap: Array  # between the objective and a lower bound on it, less the energy of uploading,
    # which no schedule can change, and relative to it

    def __repr__(self) -> str:
        worst = (f"{name} {np.max(getattr(self, name)):.2g}" for name in ("primal", "dual", "gap"))
        return f"<Certificate, largest residuals: {', '.join(worst)}>"


@dataclass(frozen=True, eq=False)
class Schedule:
    """Share of the band, CPU frequency and transmit power of each client, (..., client).

    Parameters
    ----------
    share : array_like
        a_j, above 0, with a sum of at most 1 over the clients.
    freq : array_like
        f_j [cycle/s].
    power : array_like, optional
        p_j [W], over the share of the band; None: that of the power law of the scenario.
    certificate : Certificate, optional
        From policies that claim the optimum of (22).

    Examples
    --------
    >>> Schedule(share=[0.5, 0.5], freq=[1e9, 1e9]).share.sum()
    np.float64(1.0)
    """

    share: Array  # a_j, above 0, sum at most 1
    freq: Array  # f_j [cycle/s]
    certificate: Certificate | None = None  # from policies that claim the optimum of (22)
    power: Array | None = None  # p_j [W]; None: the power law of the scenario

    def __post_init__(self) -> None:
        for name in ("share", "freq", "power"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, real_numbers(name, given))

    def __repr__(self) -> str:
        power = "" if self.power is None else f", power {value_range(self.power, 'W')}"
        certified = "" if self.certificate is None else ", with a certificate"
        return (
            f"<Schedule, {described_axes(self.share.shape)}: share {value_range(self.share)}, "
            f"freq {value_range(self.freq, 'cycle/s')}{power}{certified}>"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Cost:
    """Time and energy of each client of a round, (..., client), and how they add up.

    There are two objectives: `objective` is (22), where each client uploads as soon as it has
    trained; `upload_cost` + `compute_cost` is (20), where all wait for the slowest in between.

    Attributes
    ----------
    upload_time, compute_time : ndarray
        t_u,j and t_n,j [s].
    upload_energy, compute_energy : ndarray
        p_u,j and p_n,j [J].
    energy_weight : float
        l_0 [s/J].

    Examples
    --------
    >>> from fedcell.network import load_round
    >>> from fedcell.policies import Optimal
    >>> problem = load_round("docs/round.json")
    >>> cost = price(problem, Optimal()(problem))
    >>> cost.upload_time.shape, round(float(cost.energy), 1)
    ((3,), 105.1)
    """

    upload_time: Array  # t_u,j [s]
    compute_time: Array  # t_n,j [s]
    upload_energy: Array  # p_u,j [J]
    compute_energy: Array  # p_n,j [J]
    energy_weight: float  # l_0 [s/J]

    @property
    def duration(self) -> Array:
        """Return H, the length of the round [s]: (22a) at the slowest client."""
        return np.asarray((self.compute_time + self.upload_time).max(-1))

    @property
    def energy(self) -> Array:
        """Return the energy of all clients of the round [J]."""
        return np.asarray((self.compute_energy + self.upload_energy).sum(-1))

    @property
    def upload_cost(self) -> Array:
        """Return C_u,t (20a) [s]; its mean over rounds is (8)."""
        return np.asarray(
            self.upload_time.max(-1) + self.energy_weight * self.upload_energy.sum(-1)
        )

    @property
    def compute_cost(self) -> Array:
        """Return C_n,t (20b) [s]; its mean over rounds is (11). It averages energy; (20a) adds."""
        return np.asarray(
            self.compute_time.max(-1) + self.energy_weight * self.compute_energy.mean(-1)
        )

    @property
    def objective(self) -> Array:
        """Return the objective of (22) [s]."""
        energy = self.upload_energy.sum(-1) + self.compute_energy.mean(-1)
        return np.asarray(self.duration + self.energy_weight * energy)

    def __repr__(self) -> str:
        each = described_axes(np.broadcast_shapes(self.upload_time.shape, self.compute_time.shape))
        return (
            f"<Cost, {each}: duration {value_range(self.duration, 's')}, "
            f"energy {value_range(self.energy, 'J')}, objective (22) "
            f"{value_range(self.objective, 's')}>"
        )


def make_problem(scenario: Scenario, fleet: Fleet, trace: Trace) -> Problem:
    """Return the problems of the rounds of a trace: vectors of shape (round, client).

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    fleet : Fleet
        Its fleet.
    trace : Trace
        Rounds with cohorts of one size; `trace.by_size()` groups rounds of different sizes.

    Returns
    -------
    Problem
        One problem for each round.

    Examples
    --------
    >>> from fedcell.network import draw_fleet, draw_trace
    >>> scenario = Scenario()
    >>> fleet = draw_fleet(scenario)
    >>> make_problem(scenario, fleet, draw_trace(scenario, fleet, rounds=3)).band_time.shape
    (3, 10)
    """
    check_samples(scenario, fleet)
    cohort = trace.cohort
    if (cohort < 0).any():
        raise BadInput("some rounds have fewer clients than others: take them by trace.by_size()")
    check_powers(scenario, fleet, cohort)
    with np.errstate(all="ignore"):  # Problem refuses values out of range
        sent = uploads_of(scenario, fleet, trace)
        return Problem(
            band_time=sent.band_time,  # (6) at a_j = 1
            upload_energy=sent.energy,
            samples=fleet.step_samples(scenario, cohort),
            kappa=fleet.kappa[cohort],
            freq_min=fleet.freq_min[cohort],
            freq_max=fleet.freq_max[cohort],
            work=scenario.work,
            energy_weight=scenario.task.energy_weight,
            extras=extras(scenario, fleet, trace, sent),
            link=links_of(scenario, fleet, trace),
        )


def price(problem: Problem, schedule: Schedule) -> Cost:
    """Compute time and energy of each client under a schedule.

    Parameters
    ----------
    problem : Problem
        Rounds of shape (..., client).
    schedule : Schedule
        Shares and frequencies of the same shape.

    Returns
    -------
    Cost
        Seconds and joules of each client, (..., client).

    Raises
    ------
    BadInput
        If the shapes differ.

    Examples
    --------
    >>> from fedcell.network import load_round
    >>> from fedcell.policies import Optimal
    >>> problem = load_round("docs/round.json")
    >>> round(float(price(problem, Optimal()(problem)).duration), 1)
    27.9
    """
    u, c, kappa = problem.band_time, problem.cycles, problem.kappa
    a, f = schedule.share, schedule.freq
    if a.shape != u.shape or f.shape != u.shape:
        raise BadInput(f"the schedule has shapes {a.shape}, {f.shape}: expected {u.shape}")
    if problem.extras is not None:
        return problem.extras.price(problem, schedule)
    sent = u / a, problem.upload_energy  # (6), and (7), whatever the share
    if schedule.power is not None:
        sent = Link.of(problem).upload(a, schedule.power)
    return Cost(
        upload_time=sent[0],
        compute_time=c / f,  # (9)
        upload_energy=sent[1],
        compute_energy=training_energy(c, f, kappa),
        energy_weight=problem.energy_weight,
    )


def training_energy(cycles: Array | float, freq: Array | float, kappa: Array | float) -> Array:
    """Return p_n,j (10) [J]."""
    return np.asarray(kappa * freq**2 * cycles)
