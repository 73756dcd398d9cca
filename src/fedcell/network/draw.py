"""From a scenario to what the dice decide: the fleet once, and the trace of its rounds.

Every random draw of the network is made here and kept as data, so two policies meet the same
clients, fading and losses.
"""

from collections.abc import Iterator

import numpy as np

from fedcell.core.dice import Purpose, as_range, chunks, spread_evenly, uniform
from fedcell.core.errors import BadInput
from fedcell.core.schema import SMALL
from fedcell.core.types import Array, Bools
from fedcell.scenario.scenario import Scenario

from .channel import gains_of, usable_channels
from .selection import select_uniform, select_weighted
from .trace import Fleet, Trace


def draw_fleet(scenario: Scenario, seed: int = 0) -> Fleet:
    """The N clients of a scenario: those of its table, or drawn as Section V-C says.

    >>> draw_fleet(Scenario(), seed=1).samples.shape
    (100,)
    """
    clients, cell, n = scenario.clients, scenario.cell, scenario.clients.count
    listed = {} if clients.table is None else clients.table.columns()

    def spread(mean: float, purpose: Purpose) -> Array:
        var = 0.0 if clients.table is not None else clients.spread
        return spread_evenly(mean, var, purpose, seed, n)

    if "distance" in listed:
        distance = listed.pop("distance")
    else:  # evenly over the area of the ring, which may be a circle
        near, far = cell.ring
        place = np.ravel(uniform(Purpose.PLACE, seed, range(1), n))
        distance = np.sqrt(near * near + (far * far - near * near) * place)
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
    """Who is called, channel gains and lost uploads: `rounds` rounds, or those of a range.

    >>> scenario = Scenario().using(plan={"cohort": 5})
    >>> draw_trace(scenario, draw_fleet(scenario), rounds=3).cohort.shape
    (3, 5)
    """
    every = as_range(scenario.rounds if rounds is None else rounds)
    check_fleet(scenario, fleet)
    return Trace.join([_draw(scenario, fleet, part, seed) for part in chunks(every, fleet.count)])


def check_fleet(scenario: Scenario, fleet: Fleet) -> None:
    """Refuses a fleet that is not of this scenario's size."""
    if fleet.count != scenario.clients.count:
        raise BadInput(
            f"the fleet has {fleet.count} clients and the scenario {scenario.clients.count}: "
            "draw it from this scenario"
        )


def has_enough_data(scenario: Scenario, fleet: Fleet) -> Bools:
    """Who has enough data to be called at all, (client,)."""
    return fleet.samples >= scenario.clients.min_samples


def candidates(
    scenario: Scenario, fleet: Fleet, rounds: int | range, seed: int = 0
) -> Iterator[Bools]:
    """Who may be called, (round, client), in chunks of rounds."""
    for part in chunks(as_range(rounds), fleet.count):
        yield usable_channels(scenario, fleet, part, seed)[0] & has_enough_data(scenario, fleet)


def _draw(scenario: Scenario, fleet: Fleet, rounds: range, seed: int) -> Trace:
    cell, plan, n = scenario.cell, scenario.plan, fleet.count
    is_heard, channel_draws = usable_channels(scenario, fleet, rounds, seed)
    enough = has_enough_data(scenario, fleet)
    dice = uniform(Purpose.SELECTION, seed, rounds, n)
    if plan.selection == "uniform":
        cohort, count = select_uniform(dice, is_heard & enough, plan.cohort)
    else:
        cohort, count = select_weighted(dice, (is_heard & enough) * fleet.samples, plan.cohort)
    present = cohort >= 0
    gain = gains_of(scenario, fleet, cohort, channel_draws)
    loss_dice = np.take_along_axis(uniform(Purpose.LOSS, seed, rounds, n), cohort, axis=1)
    if cell.loss_kind == "independent":
        lost = loss_dice < cell.loss_rate
    else:  # as many as K_gamma >= K(1 - gamma) allows (Sec. II-B-1), the unluckiest first
        drawn = count.sum(1, keepdims=True)
        losses = np.minimum(np.floor(cell.loss_rate * drawn + 1e-9), drawn - 1)
        order = np.where(present, loss_dice, np.inf).argsort(1)
        lost = np.empty_like(present)
        so_far = np.take_along_axis(count, order, axis=1).cumsum(1)
        np.put_along_axis(lost, order, so_far <= losses, axis=1)
    return Trace(
        cohort=cohort,
        gain=np.where(present, gain, 0.0),
        lost=lost & present,
        count=count,
        excluded_by_channel=(enough & ~is_heard).sum(1),
        excluded_by_data=np.full(len(rounds), n - enough.sum()),
        first_round=rounds.start,
    )
