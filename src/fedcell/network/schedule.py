"""Schedule one round: share of the band and CPU frequency of each client."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from fedcell.core.errors import BadFile, BadInput
from fedcell.core.files.formats import naming, read_tables
from fedcell.core.schema import Count, Doc, Gain, NotNegative, Positive, Table, decode, documented
from fedcell.core.showing import Showable, rows_from
from fedcell.core.streams import check_count
from fedcell.core.types import Array
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import PolicyLike, policy_name, resolve_policy
from fedcell.scenario.scenario import TABLE_NAMES, Scenario
from fedcell.scenario.tables import Cell, Clients, RoundPlan, Task

from .certificate import certify
from .draw import draw_fleet, draw_trace
from .physics.discrete.modes import Modes
from .physics.pricing import DeviceCost
from .physics.timeline import STATES, Timeline
from .round import Certificate, Cost, Problem, Schedule, make_problem, price
from .simulate import pose
from .trace import Fleet, Trace

COLUMNS = ("upload_time", "compute_time", "upload_energy", "compute_energy")
TOTALS = ("duration", "energy", "objective", "upload_cost", "compute_cost")


@dataclass(frozen=True, kw_only=True)
class RoundOf:
    """The run, the round and the clients of a scheduled round."""

    round: int  # counted from 1, as in a ledger
    seed: int
    clients: tuple[int, ...]
    names: tuple[str, ...] | None  # of the clients, where a table has them
    broadcast_time: float  # T_d, before the round [s]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScheduledRound(Showable):
    """One round with its schedule and what it costs."""

    policy: str
    schedule: Schedule
    cost: Cost
    certificate: Certificate | None  # if the policy claims the optimum; computed here
    of: RoundOf | None = None  # where it is a round of a scenario
    in_turn: bool = False  # shares are of airtime, at the whole band, and not of the band
    any_clock: float | None = None  # (22) of the policy if its levels did not matter [s]

    def columns(self) -> dict[str, list[float]]:
        """What each client is given, and what that takes, by name."""
        share = self.schedule.share
        given = {"share": share, "freq": self.schedule.freq}
        if self.schedule.power is not None:
            given["power"] = self.schedule.power
        given |= {name: getattr(self.cost, name) for name in COLUMNS}
        if self.has_devices:
            line = self.timeline
            given |= {f"{state}_begin": line.begin[state] for state in STATES}
            given |= {f"{state}_end": line.end[state] for state in STATES}
            given |= {f"{part}_energy": line.energy[part] for part in ("download", "wait", "tail")}
        if (shared := self.levels) is not None:
            given |= dict(zip(("level_below", "level_above", "level_share"), shared, strict=True))
        return {name: np.broadcast_to(v, share.shape).tolist() for name, v in given.items()}

    @property
    def levels(self) -> tuple[Array, Array, Array] | None:
        """The clock levels below and above the average clock of each client, and the share of its
        training at the upper one; None where no device has levels."""
        if not isinstance(self.cost, DeviceCost) or self.cost.extras.levels is None:
            return None
        return self.cost.extras.levels.around(self.schedule.freq)

    @property
    def timeline(self) -> Timeline:
        """What each client does when, and the joules of it."""
        return Timeline.of(self.cost, 0.0 if self.of is None else self.of.broadcast_time)

    @property
    def has_devices(self) -> bool:
        """Whether radios or devices are declared, beyond what the paper has."""
        return isinstance(self.cost, DeviceCost)

    @property
    def has_steps(self) -> bool:
        """Whether the rate of uploads has steps that depend on the share or the power."""
        extras = self.cost.extras if isinstance(self.cost, DeviceCost) else None
        return extras is not None and isinstance(extras.limit, Modes)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each client."""
        rows = rows_from(self.columns(), "client", first=0)
        if self.of is None:
            return rows
        for row, client in zip(rows, self.of.clients, strict=True):
            row["client"] = client
        return (
            rows
            if self.of.names is None
            else [
                {"client": row.pop("client"), "name": name, **row}
                for row, name in zip(rows, self.of.names, strict=True)
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell schedule --json` prints them."""
        answer: dict[str, Any] = {"policy": self.policy}
        if self.of is not None:
            answer |= asdict(self.of)
        answer |= self.columns()
        answer |= {name: float(getattr(self.cost, name)) for name in TOTALS}
        if self.any_clock is not None:
            answer["objective_any_clock"] = self.any_clock
        if self.certificate is not None:
            answer["certificate"] = {n: float(v) for n, v in asdict(self.certificate).items()}
        return answer

    def __repr__(self) -> str:
        cost, clients = self.cost, self.schedule.share.size
        words = f"{clients} clients, {float(cost.duration):.4g} s, {float(cost.energy):.4g} J"
        return f"<ScheduledRound, {self.policy}: {words}>"


def schedule_round(
    problem: Problem | Scenario,
    policy: PolicyLike = "optimal",
    *,
    round: int | None = None,
    seed: int = 0,
) -> ScheduledRound:
    """Schedule one round under a policy, check the schedule and price it.

    Parameters
    ----------
    problem : Problem or Scenario
        One round, or a scenario.
    policy : str, Policy or class
        Name of a policy, a callable, or a class of one.
    round : int, optional
        Round of a scenario, counted from 1 as in a ledger.
    seed : int
        Random seed of the scenario's run.

    Returns
    -------
    ScheduledRound
        Schedule, cost and certificate.

    Examples
    --------
    >>> from fedcell import Scenario
    >>> from fedcell.network import load_round
    >>> schedule_round(load_round("docs/round.json"), "optimal")
    <ScheduledRound, optimal: 3 clients, 27.9 s, 105.1 J>
    >>> schedule_round(Scenario(), "even", round=7).of.clients[:3]
    (16, 76, 56)
    """
    if isinstance(problem, Scenario):
        return _round_of(
            problem, policy, check_count(1 if round is None else round, "`round`"), seed
        )
    if round is not None:
        raise BadInput("`round` is for a scenario: this is one round already")
    if problem.band_time.ndim != 1:
        raise BadInput("`problem` holds many rounds: take one, as problem[0]")
    return _scheduled(problem, policy, Broadcast.among(problem))


def _round_of(scenario: Scenario, policy: PolicyLike, round: int, seed: int) -> ScheduledRound:
    scenario.require_sizes()
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, range(round - 1, round), seed)
    ((_, part),) = trace.by_size()
    clients = tuple(part.cohort[0].tolist())
    if not clients:
        raise BadInput(f"`round` = {round}: all clients sit it out, with too weak a channel")
    names = scenario.clients.names
    problem = pose(scenario, fleet, part)[0]
    return replace(
        _scheduled(problem, policy, Broadcast.to(scenario, fleet)),
        of=RoundOf(
            round=round,
            seed=seed,
            clients=clients,
            names=None if names is None else tuple(names[j] for j in clients),
            broadcast_time=scenario.cell.broadcast_time,
        ),
    )


def _scheduled(problem: Problem, policy: PolicyLike, broadcast: Broadcast) -> ScheduledRound:
    name = policy_name(policy)
    answer = resolve_policy(policy, broadcast)(problem)
    cost = price(problem, answer)
    values = [answer.share, answer.freq, *(getattr(cost, n) for n in (*COLUMNS, *TOTALS))]
    if not all(np.isfinite(value).all() for value in values):
        raise BadInput("the numbers are too far apart to be computed with: check the units (SI)")
    proof = None if answer.certificate is None else certify(problem, answer)
    smooth = None
    if problem.extras is not None and problem.extras.levels is not None:
        free = replace(problem, extras=replace(problem.extras, levels=None))
        smooth = float(price(free, resolve_policy(policy, broadcast)(free)).objective)
    return ScheduledRound(
        policy=name,
        schedule=answer,
        cost=cost,
        certificate=proof,
        in_turn=problem.link is not None and problem.link.in_turn,
        any_clock=smooth,
    )


@documented
class RoundClient(Table, frozen=True, kw_only=True):
    """A client of one round."""

    table_name: ClassVar[str] = "client"

    samples: Annotated[Positive, Doc("size of its data", "D_j")]
    kappa: Annotated[Positive, Doc("a cycle at f costs kappa f^2 joules", "kappa_j", "J s^2")]
    power: Annotated[Positive, Doc("transmit power per unit of band", "p_j^0", "W/Hz")]
    gain: Annotated[Gain, Doc("channel power gain, linear", "h_j")]
    freq_min: Annotated[Positive, Doc("least CPU frequency", unit="cycle/s")]
    freq_max: Annotated[Positive, Doc("highest CPU frequency", unit="cycle/s")]

    def faults(self) -> list[str]:
        if self.freq_min > self.freq_max:
            return [f"freq_min = {self.freq_min:g} is above its freq_max = {self.freq_max:g}"]
        return []


@documented
class RoundFile(Table, frozen=True, kw_only=True):
    """One round, as `fedcell schedule` reads it."""

    bandwidth: Annotated[Positive, Doc("band that the clients share", "B", "Hz")]
    noise: Annotated[Positive, Doc("noise density", "N_0", "W/Hz")]
    model_bits: Annotated[Positive, Doc("size of an upload", "z_m", "bit")]
    cycles_per_sample: Annotated[Positive, Doc("cycles for one sample", "alpha_0", "cycle")]
    local_steps: Annotated[Count, Doc("SGD steps, each over all data", "E_l")]
    energy_weight: Annotated[NotNegative, Doc("what a joule is worth in seconds", "l_0", "s/J")]
    clients: Annotated[tuple[RoundClient, ...], Doc("the clients of the round")]

    def faults(self) -> list[str]:
        return [] if self.clients else ["clients = []: expected at least one table"]

    def problem(self) -> Problem:
        """This round as a policy sees it."""

        def column(name: str) -> Array:
            return np.array([getattr(client, name) for client in self.clients])

        n, gain = len(self.clients), column("gain")
        scenario = Scenario(
            cell=Cell(bandwidth=self.bandwidth, noise=self.noise),
            clients=Clients(count=n),
            task=Task(
                model_bits=self.model_bits,
                cycles_per_sample=self.cycles_per_sample,
                energy_weight=self.energy_weight,
            ),
            plan=RoundPlan(cohort=n, local_steps=self.local_steps),
        )
        names = ("samples", "kappa", "power", "freq_min", "freq_max")
        columns: dict[str, Any] = {name: column(name) for name in names}
        fleet = Fleet(**columns, mean_gain=gain)
        return make_problem(scenario, fleet, Trace.of(gain[None]))[0]


def is_round_file(path: Path) -> bool:
    """Return whether a file holds one round, and not a scenario."""
    if not path.exists() or path.is_dir():  # a shipped scenario, or nothing that can be read
        return False
    given = read_tables(path)
    tables = ({*TABLE_NAMES} - {"clients"}) & given.keys()
    return "bandwidth" in given or not (tables or isinstance(given.get("clients"), dict))


def load_round(path: str | Path) -> Problem:
    """Load the problem of one round from a TOML or JSON file (see docs/reference/files.md).

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Problem
        Vectors of shape (client,).

    Examples
    --------
    >>> load_round("docs/round.json").clients
    3
    """
    given = read_tables(Path(path))
    if "bandwidth" not in given and ({*TABLE_NAMES} - {"clients"}) & given.keys():
        raise BadFile(f"{path}: is a scenario, not a single round: give it to `load_scenario`")
    with naming(Path(path)):
        return decode(RoundFile, given).problem()
