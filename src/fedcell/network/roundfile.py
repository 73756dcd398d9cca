"""One round in a file: what `fedcell schedule` reads."""

from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from fedcell.core.errors import BadFile
from fedcell.core.files import naming, read_tables
from fedcell.core.schema import (
    Count,
    Doc,
    Gain,
    NotNegative,
    Positive,
    Table,
    decode,
    documented,
)
from fedcell.core.types import Array
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.tables import Cell, Clients, RoundPlan, Task

from .round import Problem, make_problem
from .trace import Fleet, Trace


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
        fleet = Fleet(**{name: column(name) for name in names}, mean_gain=gain)
        return make_problem(scenario, fleet, Trace.of(gain[None]))[0]


def is_round_file(path: Path) -> bool:
    """Whether a file is to be read as one round, and not as a scenario."""
    if not path.exists() or path.is_dir():  # a shipped scenario, or nothing that can be read
        return False
    given = read_tables(path)
    tables = {"cell", "task", "plan", "learning"} & given.keys()
    return "bandwidth" in given or not (tables or isinstance(given.get("clients"), dict))


def load_round(path: str | Path) -> Problem:
    """The problem of one round from a TOML or JSON file (docs/files.md has one).

    >>> load_round("docs/round.json").clients
    3
    """
    given = read_tables(Path(path))
    if "bandwidth" not in given and {"cell", "task", "plan"} & given.keys():
        raise BadFile(f"{path}: is a scenario, not a single round: give it to `load_scenario`")
    with naming(Path(path)):
        return decode(RoundFile, given).problem()
