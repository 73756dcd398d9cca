"""Every random draw of the network, made here and kept as data.

Each purpose has a counter-based stream of its own, keyed by (purpose, seed), in which
every round owns the same number of places. So any round can be drawn alone, in a chunk
or in a whole run with the same result; two policies meet the same clients, fading and
losses; and since every client has its place, a larger cohort extends a smaller one and a
higher loss rate loses the same uploads and more.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import SMALL
from fedcell.scenario.arrays import Array
from fedcell.scenario.tables import Scenario

from .trace import Bools, Fleet, Ints, Trace

CHUNK = 2**21  # (round, client) places drawn at a time; no more are in memory at once


class Purpose(IntEnum):
    """What a stream is for. Its number is its key: append, never renumber."""

    SAMPLES = 0
    KAPPA = 1
    POWER = 2
    PLACE = 3
    SELECTION = 4
    FADING = 5
    LOSS = 6
    SEED = 7
    PARTITION = 8
    MODEL = 9
    BATCHES = 10
    EVALUATION = 11
    NOISE = 12
    BOOTSTRAP = 13
    PROBE = 14


def stream(purpose: Purpose, seed: int, client: int = 0, round: int = 0) -> np.random.Generator:
    """Dice of one client in one round: the same whoever else rolls, and in whatever order."""
    return _generator(purpose, seed, np.array([0, 0, client, round], np.uint64))


def uniform(purpose: Purpose, seed: int, rounds: range, count: int) -> Array:
    """Numbers in [0, 1), (round, client): the same for a round however it is asked for."""
    blocks = -(-count // 4)  # Philox makes four numbers at a time; a round starts on a fresh four
    return _generator(purpose, seed, rounds.start * blocks).random((len(rounds), 4 * blocks))[
        :, :count
    ]


def _generator(purpose: Purpose, seed: int, counter: Any) -> np.random.Generator:
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise BadInput(f"seed = {seed!r}: expected a whole number from 0 to 2^64 - 1")
    key = np.array([seed, purpose], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def replicates(seed: int, count: int) -> list[int]:
    """Seeds of independent replicates; the first is `seed` itself."""
    more = uniform(Purpose.SEED, seed, range(1), count)[0, 1:] * 2.0**53
    return [seed, *map(int, more)]


def draw_fleet(scenario: Scenario, seed: int = 0) -> Fleet:
    """The clients of a scenario: those of its table, or drawn as Section V-C says."""
    clients, cell, n = scenario.clients, scenario.cell, scenario.clients.count
    listed = {} if clients.table is None else clients.table.columns()

    def dice(purpose: Purpose) -> Array:
        return np.ravel(uniform(purpose, seed, range(1), n))

    def spread(mean: float, purpose: Purpose) -> Array:
        var = 0.0 if clients.table is not None else clients.spread
        return np.asarray(mean * (1 + var * (2 * dice(purpose) - 1)))  # uniform in mean (1 -+ Var)

    if "distance" in listed:
        distance = listed.pop("distance")
    else:  # evenly over the area of the ring, which may be a circle
        near, far = cell.ring
        distance = np.sqrt(near * near + (far * far - near * near) * dice(Purpose.PLACE))
    if "gain" in listed:
        listed["mean_gain"] = listed.pop("gain")
    if clients.sizes is not None:
        listed["samples"] = clients.sizes.values
    drawn = {
        "samples": spread(clients.samples, Purpose.SAMPLES),
        "kappa": spread(clients.kappa, Purpose.KAPPA),
        "power": spread(clients.power, Purpose.POWER),
        "mean_gain": cell.mean_gain(distance),
        "freq_min": np.full(n, clients.freq_min),
        "freq_max": np.full(n, clients.freq_max),
    }
    fleet = Fleet(**drawn | listed)
    if not ((fleet.mean_gain >= SMALL) & (fleet.mean_gain <= 1)).all():
        raise BadInput(
            "the mean channel gain is not between 0 and 1 for some clients: check "
            "cell.distance, cell.reference_gain and cell.path_loss_exponent"
        )
    return fleet


def draw_trace(
    scenario: Scenario, fleet: Fleet, rounds: int | range | None = None, seed: int = 0
) -> Trace:
    """The rounds of a run, or the part of them that a range names."""
    every = as_range(scenario.rounds if rounds is None else rounds)
    if fleet.count != scenario.clients.count:
        raise BadInput(
            f"the fleet has {fleet.count} clients and the scenario {scenario.clients.count}: "
            "draw it from this scenario"
        )
    return Trace.join([_draw(scenario, fleet, part, seed) for part in chunks(every, fleet.count)])


def candidates(
    scenario: Scenario, fleet: Fleet, rounds: int | range, seed: int = 0
) -> Iterator[Bools]:
    """Who may be called, (round, client), in chunks of rounds."""
    for part in chunks(as_range(rounds), fleet.count):
        yield _heard(scenario, fleet, part, seed)[0] & rich(scenario, fleet)


def _draw(scenario: Scenario, fleet: Fleet, rounds: range, seed: int) -> Trace:
    cell, plan, n = scenario.cell, scenario.plan, fleet.count
    heard, fading = _heard(scenario, fleet, rounds, seed)
    enough = rich(scenario, fleet)
    dice = uniform(Purpose.SELECTION, seed, rounds, n)
    if plan.selection == "uniform":
        cohort, count = _select_uniform(dice, heard & enough, plan.cohort)
    else:
        cohort, count = _select_weighted(dice, (heard & enough) * fleet.samples, plan.cohort)
    present = cohort >= 0
    gain = np.take_along_axis(fading, cohort, axis=1)  # -1 reads the last client; masked below
    if cell.gains is None:
        gain = fleet.mean_gain[cohort] * -np.log1p(-gain)  # exponential power gain, Sec. V-A
    luck = np.take_along_axis(uniform(Purpose.LOSS, seed, rounds, n), cohort, axis=1)
    if cell.loss_kind == "independent":
        lost = luck < cell.loss_rate
    else:  # as many as K_gamma >= K(1 - gamma) allows (Sec. II-B-1), the unluckiest first
        drawn = count.sum(1, keepdims=True)
        losses = np.minimum(np.floor(cell.loss_rate * drawn + 1e-9), drawn - 1)
        order = np.where(present, luck, np.inf).argsort(1)
        lost = np.empty_like(present)
        so_far = np.take_along_axis(count, order, axis=1).cumsum(1)
        np.put_along_axis(lost, order, so_far <= losses, axis=1)
    return Trace(
        cohort=cohort,
        gain=np.where(present, gain, 0.0),
        lost=lost & present,
        count=count,
        weak=(enough & ~heard).sum(1),
        poor=np.full(len(rounds), n - enough.sum()),
    )


def _heard(scenario: Scenario, fleet: Fleet, rounds: range, seed: int) -> tuple[Bools, Array]:
    """Whose channel is good enough, and the numbers that it was judged by, (round, client)."""
    min_gain = scenario.min_gain
    if scenario.cell.gains is not None:
        values = scenario.cell.gains.values
        if rounds.stop > len(values):
            raise BadInput(
                f"cell.gains holds {len(values)} rounds and {rounds.stop} are asked for: "
                "bring more of them or run fewer rounds"
            )
        gain = values[rounds.start : rounds.stop]
        return (gain >= min_gain) & (gain > 0), gain
    dice = uniform(Purpose.FADING, seed, rounds, fleet.count)
    # The fading -log(1 - dice) is below min_gain / mean_gain when dice is below this.
    return dice >= -np.expm1(-min_gain / fleet.mean_gain), dice


def rich(scenario: Scenario, fleet: Fleet) -> Bools:
    """Who has enough data to be called at all."""
    return fleet.samples >= scenario.clients.min_samples


def _select_uniform(dice: Array, may: Bools, cohort: int) -> tuple[Ints, Ints]:
    """The `cohort` candidates with the smallest dice, in that order."""
    dice = np.where(may, dice, 2.0)
    if cohort < dice.shape[1]:
        first = np.argpartition(dice, cohort - 1, axis=1)[:, :cohort]
    else:
        first = np.broadcast_to(np.arange(cohort), dice.shape)
    order = np.take_along_axis(dice, first, axis=1).argsort(1, kind="stable")
    chosen = np.take_along_axis(first, order, axis=1)
    present = np.take_along_axis(dice, chosen, axis=1) < 2
    return np.where(present, chosen, -1), present.astype(np.int64)


def _select_weighted(dice: Array, weight: Array, cohort: int) -> tuple[Ints, Ints]:
    """`cohort` draws by weight with replacement; a client drawn again counts where it first was."""
    chosen = np.full((len(dice), cohort), -1)
    count = np.zeros_like(chosen)
    for t, (die, total) in enumerate(zip(dice[:, :cohort], weight.cumsum(1), strict=True)):
        if total[-1] == 0:
            continue
        drawn = np.searchsorted(total, die * total[-1], side="right")
        who, first, times = np.unique(drawn, return_index=True, return_counts=True)
        order = first.argsort()
        chosen[t, : who.size], count[t, : who.size] = who[order], times[order]
    return chosen, count


def chunks(rounds: range, count: int) -> Iterator[range]:
    """The rounds in parts small enough to be held for all clients at once."""
    step = max(1, CHUNK // count)
    for start in range(rounds.start, rounds.stop, step):
        yield range(start, min(start + step, rounds.stop))


def as_range(rounds: int | range) -> range:
    """The rounds that a number or a range stands for."""
    part = range(int(rounds)) if isinstance(rounds, int | np.integer) else rounds
    if not isinstance(part, range) or not part or part.step != 1 or part.start < 0:
        raise BadInput(f"rounds = {rounds!r}: expected a whole number above 0, or a range of them")
    return part
