"""A scenario: its tables, and what follows from them. Nothing is random."""

from typing import Annotated, Any, Literal, Self

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import LARGE, SMALL, Doc, Table, documented, replace_fields
from fedcell.core.showing import shortened
from fedcell.core.types import Array

from .arrays import ClientTable
from .channel.laws import LAWS
from .channel.spec import PAPER, ChannelSpec
from .hardware.device import Device
from .hardware.radio import FIXED_BANDS, Radio, RateTable
from .learning import DELIVER, HOLDS, Deliver, Learning, goal_keys
from .tables import DEFAULT_COUNT, PAPER_BITS, PAPER_CYCLES, Cell, Clients, RoundPlan, Task
from .target import Target, as_target

TABLE_NAMES = ("cell", "clients", "task", "plan", "radio", "device", "learning")


@documented
class Scenario(Table, frozen=True, kw_only=True):
    """A scenario: cell, clients, task, plan and learning. The defaults are the paper's (Sec. V).

    >>> scenario = Scenario().using(plan={"cohort": 20}, cell={"bandwidth": 5e6})
    >>> scenario.plan.cohort, scenario.cell.bandwidth, scenario.model_bits
    (20, 5000000.0, 30000.0)
    """

    cell: Annotated[Cell, Doc("the radio cell")] = Cell()
    clients: Annotated[Clients, Doc("the clients")] = Clients()
    task: Annotated[Task, Doc("what is learnt, as the network sees it")] = Task()
    plan: Annotated[RoundPlan, Doc("how the rounds are run: K, E_l, how many")] = RoundPlan()
    radio: Annotated[Radio | None, Doc("the radios, if not those of the paper")] = None
    device: Annotated[Device | None, Doc("the devices, if not those of the paper")] = None
    learning: Annotated[Learning | None, Doc("what is trained, if anything is")] = None

    def faults(self) -> list[str]:
        faults = []
        table = None if self.learning is None else self.clients.table
        if table is not None and np.isfinite(table.filled("samples", np.nan)).any():
            faults.append(
                "clients.table has samples, but learning.partition sets them where a model is "
                "trained: leave the column out"
            )
        faults += self._power_faults()
        faults += self._hardware_faults()
        if self._count_follows:
            return faults  # checked when the data is loaded
        faults += self._distance_faults()
        cohort, count, recorded = self.plan.cohort, self.clients.count, self.cell.recorded
        if cohort > count:
            faults.append(
                f"plan.cohort = {cohort} is more than the {count} clients there are: "
                f"choose 1 to {count}"
            )
        if self.cell.gains is not None and self.cell.gains.values.shape[1] != count:
            faults.append(
                f"cell.gains has {self.cell.gains.values.shape[1]} columns for {count} clients: "
                "give one column per client"
            )
        elif recorded is not None and (columns := recorded.values.shape[1]) != count:
            faults.append(
                f"cell.channel.measured has {columns} devices for {count} clients: set "
                f"clients.count = {columns}"
            )
        if self.has_rates and self.cell.channel != ChannelSpec():
            faults.append(
                "cell.channel has no effect on clients whose rate is in clients.table: leave one "
                "of them out"
            )
        measured, names = self.cell.channel.measured, self.clients.names
        if measured is not None and None not in (measured.names, names) and measured.names != names:
            faults.append(
                "cell.channel.measured names other devices than clients.table, or in another "
                f"order: {shortened(', '.join(measured.names), 60)}"
            )
        return faults

    def _distance_faults(self) -> list[str]:
        """Return the faults of clients at distances at which the path loss is not known."""
        channel, table = self.cell.channel, self.clients.table
        if channel.model not in LAWS or channel.measured is not None or self.has_rates:
            return []
        distance = np.array(self.cell.ring)
        if table is not None:
            own = np.broadcast_to(table.filled("distance", np.nan), table.count)
            known = np.broadcast_to(table.filled("gain", np.nan), table.count)
            own = own[np.isnan(known)]  # a path loss is computed for these
            distance = own if not np.isnan(own).any() else np.append(own, distance)
            distance = distance[~np.isnan(distance)]
        try:
            channel.propagation(distance)
        except BadInput as error:
            return list(error.faults)
        return []

    def _power_faults(self) -> list[str]:
        """Return the fault of a power over the whole band with a density out of range."""
        table, band = self.clients.table, self.cell.bandwidth
        if table is None or table.power_w is None:
            return []
        density = table.power_density(band)
        wrong = (density < SMALL) | (density > LARGE)
        if not wrong.any():
            return []
        j = int(np.argmax(wrong))
        return [
            f"clients.table.power_w: {table.name_of(j)} has {table.power_w[j]:g} W, in a band of "
            f"{band:g} Hz {density[j]:g} W/Hz: expected {SMALL:g} to {LARGE:g}"
        ]

    def _hardware_faults(self) -> list[str]:
        """Return what is wrong between [radio] and the other tables."""
        if (radio := self.radio) is None:
            return []
        faults = []
        limits = None if self.clients.table is None else self.clients.table.power_max
        listed = limits is not None and not np.isnan(limits).any()
        if radio.power_law == "full" and radio.power_max is None and not listed:
            faults.append('radio.power_law = "full" needs radio.power_max, as 0.2 (W)')
        table, band = radio.rate_table, self.cell.bandwidth
        if table is not None and band != FIXED_BANDS.get(table, band):
            faults.append(
                f'radio.rate_table = "{table}" is for cell.bandwidth = {FIXED_BANDS[table]:g} (Hz)'
                f", and it is {band:g}"
            )
        if radio.downlink != "constant" and self.cell.broadcast_time:
            faults.append(
                f"cell.broadcast_time = {self.cell.broadcast_time:g} and radio.downlink = "
                f'"{radio.downlink}" both give the time to send the model: leave one out'
            )
        return faults

    @property
    def _count_follows(self) -> bool:
        """Return whether N is the number of owners of the data, which may not be loaded yet."""
        clients = self.clients
        given = clients.count != DEFAULT_COUNT or clients.table is not None
        known = given or clients.sizes is not None
        return not known and self.learning is not None and self.learning.owners_may_be_given

    @property
    def model_bits(self) -> float:
        """Return z_m, the size of an upload [bit]; the paper's where the task leaves it out."""
        return PAPER_BITS if self.task.model_bits is None else self.task.model_bits

    @property
    def cycles_per_sample(self) -> float:
        """Return alpha_0 [cycle]; the paper's where the task leaves it out."""
        cycles = self.task.cycles_per_sample
        return PAPER_CYCLES if cycles is None else cycles

    @property
    def samples_per_step(self) -> Literal["dataset", "batch"]:
        """Return what a local step is charged; where left out, a batch if a model is trained."""
        return self.task.samples_per_step or ("dataset" if self.learning is None else "batch")

    @property
    def deliver(self) -> Deliver:
        """Which model is judged and handed over: learning.deliver, or its default."""
        return DELIVER if self.learning is None else self.learning.deliver

    @property
    def hold(self) -> int:
        """Return the rounds of the moving average that must reach a target without `hold`."""
        return HOLDS[DELIVER] if self.learning is None else self.learning.held_rounds

    def goal(self, given: Target | float | None = None) -> Target | None:
        """Return the target at which a run stops: `given`, which may be a training loss, else that
        of [learning]; None if there is neither."""
        own = None if self.learning is None else self.learning.goal
        return as_target(given, own, self.hold)

    @property
    def local_work(self) -> int:
        """Return E_l, or the local epochs where these are set."""
        return self.plan.local_epochs or self.plan.local_steps

    @property
    def work(self) -> float:
        """Return E_l alpha_0, cycles per sample in a round [cycle]."""
        return self.local_work * self.cycles_per_sample

    def step_samples(self, samples: Array) -> Array:
        """Return the samples of a local step (or of a local epoch, where these are set) on
        average, for clients that hold `samples`."""
        if self.plan.local_epochs or self.samples_per_step == "dataset":
            return samples
        # E_l batches of passes over the data; the last batch of a pass is the rest.
        steps, batch = self.plan.local_steps, self.task.batch_size
        each = np.maximum(1, np.ceil(samples / batch))  # batches of a pass; 1 without data
        passes, more = np.divmod(steps, each)
        return np.asarray((passes * samples + more * batch) / steps)

    @property
    def mean_local_steps(self) -> int:
        """Return E_l; where epochs are set, the mean steps of a client."""
        if not self.plan.local_epochs:
            return self.plan.local_steps
        sizes = self.clients.sizes
        samples = np.array([self.clients.samples]) if sizes is None else sizes.values
        passes = float(np.ceil(samples[samples > 0] / self.task.batch_size).mean())
        return round(self.plan.local_epochs * passes)

    @property
    def rounds(self) -> int:
        """Return the default number of rounds: plan.rounds, or all measured rounds."""
        recorded = self.cell.recorded
        return self.plan.rounds if recorded is None else len(recorded.values)

    @property
    def min_gain(self) -> float:
        """Return the channel gain below which a client is in outage (DECISIONS.md, 9)."""
        cell, table = self.cell, self.clients.table
        measured = cell.channel.measured
        if self.has_rates or (measured is not None and measured.quantity != "gain"):
            return 0.0  # no rate, no upload
        if measured is not None:
            mean = measured.median  # the mean is that of the few best ones
        elif cell.gains is not None:
            mean = cell.gains.mean
        elif table is None or (table.gain is None and table.distance is None):
            mean = cell.mean_gain(cell.ring[1])
        else:
            names = ("distance", "reference_gain", "reference_distance", "path_loss_exponent")
            known_by = (*(getattr(cell, name) for name in names), repr(cell.channel))
            mean = table.remembered(known_by, lambda: _median_gain(cell, table))
        return float(cell.gain_threshold * mean)

    @property
    def has_rates(self) -> bool:
        """Return whether the clients of a table have rates of their own."""
        return self.clients.table is not None and self.clients.table.rate is not None

    @property
    def rate_table(self) -> RateTable | None:
        """Return the table that gives the rates of uploads; None where these are given, or follow
        from Shannon's formula."""
        measured = self.cell.channel.measured
        given = self.has_rates or (measured is not None and measured.quantity == "rate")
        return None if self.radio is None or given else self.radio.rate_table

    def require_sizes(self) -> None:
        """Refuse a scenario that trains a model and has no D_j yet."""
        if self.learning is not None and self.clients.sizes is None:
            raise BadInput(
                "D_j are not known: take the scenario of `prepare_training`, which also has the "
                "bits and cycles of the model"
            )

    def with_plan(self, cohort: int, local_steps: int) -> Self:
        """Return this scenario with another K and E_l, counted in steps and not in epochs."""
        plan = {"cohort": cohort, "local_steps": local_steps, "local_epochs": None}
        return self.using(plan=plan)

    def using(self, **changes: Any) -> Self:
        """Return this scenario with other values: `scenario.using(plan={"cohort": 20})`.

        Only the given values are read and checked; other tables are the same objects as before.
        Checks between tables run on the result.

        Parameters
        ----------
        **changes
            By table: a dict of the values that change, or a whole table.

        Returns
        -------
        Scenario
            The changed scenario.

        Raises
        ------
        BadInput
            If a key or a value is wrong; or if the partition, the dataset or the architecture
            changes in a scenario that has the D_j of the former ones.
        """
        tables: dict[str, Any] = {}
        faults: list[str] = []
        for name, values in changes.items():
            before = getattr(self, name) if name in self.__struct_fields__ else None
            if before is not None and isinstance(values, dict):
                if "table" in values:
                    values = {"count": DEFAULT_COUNT} | values  # it was that of the table before
                try:
                    values = replace_fields(before, values)
                except BadInput as error:
                    faults += error.faults
                    continue
            tables[name] = values
        changed = replace_fields(self, tables, faults)
        self._check_dealt(changed)
        return changed

    def __repr__(self) -> str:
        cell, clients, plan, learning = self.cell, self.clients, self.plan, self.learning
        epochs = f"{plan.local_epochs} local epochs"
        local = epochs if plan.local_epochs else f"E_l = {plan.local_steps} local steps"
        gains = "" if cell.recorded is None else f", {cell.recorded!r}"
        if cell.channel.model != PAPER:
            gains += f", channel {cell.channel.model} at {cell.channel.carrier / 1e9:g} GHz"
        trained = "nothing is trained" if learning is None else _described_learning(learning)
        return (
            f"<Scenario, {clients.count} clients{'' if clients.table is None else ' of a table'}: "
            f"K = {plan.cohort} a round, {local}, {self.rounds} rounds,\n  "
            f"band {cell.bandwidth:.4g} Hz, loss rate {cell.loss_rate:g}{gains},\n  "
            f"upload {self.model_bits:.4g} bit, {self.cycles_per_sample:.4g} cycle/sample, "
            f"energy_weight {self.task.energy_weight:g} s/J,\n  {trained}>"
        )

    def _check_dealt(self, after: "Scenario") -> None:
        """Refuse a change that makes the D_j, or the bits and cycles of the model, wrong."""
        before, now = self.learning, after.learning
        kept = self.clients.sizes is not None and after.clients.sizes is self.clients.sizes
        if before is None or now is None or before.analytic or not kept:
            return
        names = ("dataset", "partition", "architecture")
        changed = [f"learning.{n}" for n in names if getattr(before, n) != getattr(now, n)]
        if self.clients.names != after.clients.names:
            changed.append("the names of clients.table")
        if changed:
            raise BadInput(
                f"{' and '.join(changed)}: the data of this scenario is dealt, and clients.sizes "
                "and the task follow from it: change the scenario that `prepare_training` was given"
            )


def _median_gain(cell: Cell, table: ClientTable) -> float:
    """Return the mean channel gain of the median client of a table."""
    distance = table.filled("distance", cell.ring[1])
    if table.gain is None:
        return float(cell.mean_gain(float(np.median(distance))))
    return float(np.median(table.filled("gain", cell.mean_gain(distance))))


def _described_learning(learning: Learning) -> str:
    """Return model, data and target in a line."""
    model = learning.model if learning.layers is None else "its own layers"
    data = "" if learning.analytic else f" on {shortened(learning.dataset, 60)}"
    return f"{model}{data}, {learning.goal or 'no target'}"


def with_goal(scenario: Scenario, goal: Target | None) -> Scenario:
    """Return a scenario with runs that stop at a goal; the same one if it trains nothing."""
    return scenario if scenario.learning is None else scenario.using(learning=goal_keys(goal))


def check_scenario(given: Any) -> Scenario:
    """Return `given` if it is a scenario; refuse anything else."""
    if not isinstance(given, Scenario):
        raise BadInput(f"`scenario` = {given!r}: expected a Scenario, as load_scenario gives one")
    return given
