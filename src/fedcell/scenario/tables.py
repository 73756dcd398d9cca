"""The world as a user declares it: Sections II and V-A. SI units; nothing here is random."""

from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec
import numpy as np
from msgspec import Meta

from fedcell.core.errors import BadInput
from fedcell.core.schema import Count, Fraction, NotNegative, Positive, Table, decode

from .arrays import Array, ClientTable, Gains, Sizes
from .learning import Learning

Distance = Annotated[  # its range stands in Cell.faults: msgspec 0.22 crashes on constraints here
    float | tuple[float, float],
    Meta(description="a number above 0, or two of them, [nearest, farthest]"),
]
DEFAULT_COUNT = 100


class Cell(Table, frozen=True, kw_only=True):
    """The radio cell (Sec. II-B-1, V-A)."""

    table_name: ClassVar[str] = "cell"

    bandwidth: Positive = 20e6  # B [Hz]
    noise: Positive = 5e-20  # N_0 [W/Hz]
    reference_gain: Positive = 1e-4  # g_0, mean channel power gain at reference_distance
    reference_distance: Positive = 1.0  # d_0 [m]
    path_loss_exponent: Positive = 4.0  # theta
    distance: Distance = 200.0  # d [m]; two numbers: placed evenly over the ring between them
    gain_threshold: NotNegative = 0.05  # of the mean gain (DECISIONS.md, 9): below it, sit out
    loss_rate: Fraction = 0.0  # gamma, share of uploads that are lost
    loss_kind: Literal["independent", "worst-case"] = "independent"
    broadcast_time: NotNegative = 0.0  # T_d [s]
    gains: Any = None  # Gains; in a file: the path of a .npy or .csv of (round, client)

    def mean_gain(self, distance: Array | float) -> Array:
        """g_0 (d_0 / d)^theta, the mean channel power gain at a distance [m] (Sec. V-A)."""
        ratio = self.reference_distance / np.asarray(distance, float)
        return np.asarray(self.reference_gain * ratio**self.path_loss_exponent)

    @property
    def ring(self) -> tuple[float, float]:
        """The nearest and the farthest that a client may be [m]."""
        return self.distance if isinstance(self.distance, tuple) else (self.distance, self.distance)

    def __post_init__(self) -> None:
        if self.gains is not None and not isinstance(self.gains, Gains):
            msgspec.structs.force_setattr(self, "gains", Gains(self.gains))
        super().__post_init__()

    def faults(self) -> list[str]:
        near, far = self.ring
        if near <= 0:
            return [f"distance = {near:g}: expected a number above 0"]
        if near > far:
            return [f"distance = [{near:g}, {far:g}]: the nearest comes first"]
        return []


class Clients(Table, frozen=True, kw_only=True):
    """Who takes part: drawn evenly from mean * (1 -+ spread), or listed in a table."""

    table_name: ClassVar[str] = "clients"

    count: Count = DEFAULT_COUNT  # N
    samples: Positive = 500.0  # D, mean of D_j
    kappa: Positive = 5e-27  # mean of kappa_j; a cycle at f costs kappa f^2 joules [J s^2]
    power: Positive = 4e-7  # mean of p_j^0, transmit power per unit of band [W/Hz]
    spread: Fraction = 0.1  # Var (Sec. V-C)
    freq_min: Positive = 1e7  # [cycle/s]
    freq_max: Positive = 2e9  # [cycle/s]
    min_samples: NotNegative = 0.0  # clients with fewer sit all rounds out
    table: Any = None  # ClientTable; in a file: the path of a .csv, or a list of tables
    sizes: Any = (
        None  # Sizes: D_j themselves, instead of samples; where data is dealt, its partition's
    )

    def faults(self) -> list[str]:
        found = []
        if self.freq_min > self.freq_max:
            found.append(
                f"freq_min = {self.freq_min:g} is above clients.freq_max = {self.freq_max:g}"
            )
        if self.sizes is not None and self.sizes.values.size != self.count:
            found.append(f"sizes has {self.sizes.values.size} numbers for {self.count} clients")
        if self.table is not None:
            if self.count != self.table.count:
                found.append(
                    f"count = {self.count} and clients.table lists {self.table.count}: "
                    "leave count out"
                )
            low = self.freq_min if self.table.freq_min is None else self.table.freq_min
            high = self.freq_max if self.table.freq_max is None else self.table.freq_max
            if (wrong := np.atleast_1d(low > high)).any():
                found.append(f"table: client {int(np.argmax(wrong))} has freq_min above freq_max")
        return found

    def __post_init__(self) -> None:
        if isinstance(self.table, dict):
            msgspec.structs.force_setattr(self, "table", ClientTable.of(self.table))
        if not isinstance(self.table, ClientTable | None):
            raise BadInput(
                f"clients.table is a {type(self.table).__name__}: expected a ClientTable"
            )
        if self.table is not None and self.count == DEFAULT_COUNT:  # as good as not said
            msgspec.structs.force_setattr(self, "count", self.table.count)
        if self.sizes is not None and not isinstance(self.sizes, Sizes):
            msgspec.structs.force_setattr(self, "sizes", Sizes(self.sizes))
        super().__post_init__()


class Task(Table, frozen=True, kw_only=True):
    """What is learnt, as the network sees it (Sec. II-B-2)."""

    table_name: ClassVar[str] = "task"

    model_bits: Positive | None = None  # z_m [bit]; the trained model's, or the paper's
    cycles_per_sample: Positive | None = None  # alpha_0 [cycle]; likewise
    samples_per_step: Literal["dataset", "batch"] | None = None  # see DECISIONS.md, 2
    batch_size: Count = 10  # samples of one local step, where samples_per_step is "batch"
    energy_weight: NotNegative = 1.0  # l_0, what one joule is worth in seconds [s/J]


PAPER = {"model_bits": 3e4, "cycles_per_sample": 5e5, "samples_per_step": "dataset"}  # Sec. V-A


class Plan(Table, frozen=True, kw_only=True):
    """How the rounds are run; what the planner chooses."""

    table_name: ClassVar[str] = "plan"

    cohort: Count = 10  # K
    local_steps: Count = 20  # E_l, SGD steps (DECISIONS.md, 1)
    local_epochs: Count | None = None  # passes over a client's data, instead of local_steps
    rounds: Count = 50  # measured gains say themselves how many
    selection: Literal["uniform", "weighted"] = "uniform"  # weighted: by q_j, with replacement
    drawn: Literal["before", "after"] = "before"  # training; after: all who may be called train


class Scenario(Table, frozen=True, kw_only=True):
    """A world: cell, clients, task, plan and learning. The defaults are the paper's (Sec. V)."""

    cell: Cell = Cell()
    clients: Clients = Clients()
    task: Task = Task()
    plan: Plan = Plan()
    learning: Learning | None = None  # what is really trained

    def faults(self) -> list[str]:
        found = []
        if self.learning is not None and getattr(self.clients.table, "samples", None) is not None:
            found.append(
                "clients.table has samples, which are those of learning.partition where a model "
                "is trained: leave the column out"
            )
        cohort, count, gains = self.plan.cohort, self.clients.count, self.cell.gains
        if cohort > count:
            found.append(
                f"plan.cohort = {cohort} is more than the {count} clients there are: "
                f"choose 1 to {count}"
            )
        if gains is not None and gains.values.shape[1] != count:
            found.append(
                f"cell.gains has {gains.values.shape[1]} columns for {count} clients: "
                "give one column per client"
            )
        return found

    def of_task(self, name: str) -> Any:
        """A value of the task; where it is left out the paper's, or a batch for a step if a
        model is trained."""
        default = PAPER | ({"samples_per_step": "batch"} if self.learning is not None else {})
        value = getattr(self.task, name)
        return default[name] if value is None else value

    @property
    def work(self) -> float:
        """E_l alpha_0, cycles per sample in a round [cycle]."""
        steps = self.plan.local_epochs or self.plan.local_steps
        return steps * float(self.of_task("cycles_per_sample"))

    def step_samples(self, samples: Array) -> Array:
        """Samples that a local step processes on average (or a local epoch, where these are
        counted), for clients that hold `samples`."""
        if self.plan.local_epochs or self.of_task("samples_per_step") == "dataset":
            return samples
        # E_l batches of passes over the data; the last batch of a pass is what is left.
        steps, batch = self.plan.local_steps, self.task.batch_size
        each = np.ceil(samples / batch)  # batches of a pass
        return np.asarray((steps // each * samples + steps % each * batch) / steps)

    @property
    def rounds(self) -> int:
        """Rounds to run where nobody says: plan.rounds, or all that cell.gains holds."""
        gains = self.cell.gains
        return self.plan.rounds if gains is None else len(gains.values)

    @property
    def min_gain(self) -> float:
        """The absolute channel gain below which a client sits the round out (DECISIONS.md, 9)."""
        cell, table = self.cell, self.clients.table
        if cell.gains is not None:
            mean = cell.gains.values.mean()
        elif table is not None and table.gain is not None:
            mean = np.median(table.gain)
        elif table is not None and table.distance is not None:
            mean = cell.mean_gain(float(np.median(table.distance)))
        else:
            mean = cell.mean_gain(cell.ring[1])
        return float(cell.gain_threshold * mean)

    def planned(self, cohort: int, local_steps: int) -> Self:
        """This scenario with another K and E_l; local epochs give way to steps."""
        plan = {"cohort": cohort, "local_steps": local_steps, "local_epochs": None}
        return self.using(plan=plan)

    def using(self, **changes: Any) -> Self:
        """This scenario with other values: `scenario.using(plan={"cohort": 20})`."""
        tables: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        for name, values in changes.items():
            if isinstance(values, dict):
                before = tables.get(name)
                kept = {} if before is None else msgspec.structs.asdict(before)
                if "table" in values:
                    kept.pop("count", None)  # it was that of the table before
                values = kept | values
            tables[name] = values
        return decode(type(self), tables)
