"""One round in a file: what `fedcell schedule` reads."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import Count, Gain, NotNegative, Positive, Table, decode
from fedcell.scenario.arrays import Array
from fedcell.scenario.load import naming, read_tables
from fedcell.scenario.tables import Cell, Clients, Plan, Scenario, Task

from .round import Problem, pose
from .trace import Fleet, Trace


class RoundClient(Table, frozen=True, kw_only=True):
    """A client of one round."""

    table_name: ClassVar[str] = "client"

    samples: Positive  # D_j
    kappa: Positive  # kappa_j [J s^2]
    power: Positive  # p_j^0 [W/Hz]
    gain: Gain  # h_j, power, linear
    freq_min: Positive  # [cycle/s]
    freq_max: Positive  # [cycle/s]

    def faults(self) -> list[str]:
        if self.freq_min > self.freq_max:
            return [f"freq_min = {self.freq_min:g} is above its freq_max = {self.freq_max:g}"]
        return []


class RoundFile(Table, frozen=True, kw_only=True):
    """One round, as `fedcell schedule` reads it."""

    bandwidth: Positive  # B [Hz]
    noise: Positive  # N_0 [W/Hz]
    model_bits: Positive  # z_m [bit]
    cycles_per_sample: Positive  # alpha_0 [cycle]
    local_steps: Count  # E_l
    energy_weight: NotNegative  # l_0 [s/J]
    clients: tuple[RoundClient, ...]

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
            plan=Plan(cohort=n, local_steps=self.local_steps),
        )
        names = ("samples", "kappa", "power", "freq_min", "freq_max")
        fleet = Fleet(**{name: column(name) for name in names}, mean_gain=gain)
        return pose(scenario, fleet, Trace.of(gain[None]))[0]


def load_round(path: str | Path) -> Problem:
    """The problem of one round from a TOML or JSON file."""
    given = read_tables(Path(path))
    if "bandwidth" not in given and {"cell", "task", "plan"} & given.keys():
        raise BadInput(f"{path}: is a scenario, not a single round: try fedcell cost")
    with naming(Path(path)):
        return decode(RoundFile, given).problem()
