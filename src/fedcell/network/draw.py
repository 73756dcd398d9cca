"""Draw the fleet of a scenario, and the trace of its rounds.

Every random draw of the network is made here and kept as data, so that all policies have the same
clients, fading and losses.
"""

from __future__ import annotations

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.schema import SMALL
from fedcell.core.streams import (
    DENSE_RATIO,
    Purpose,
    as_range,
    chunks,
    spread_evenly,
    uniform,
    uniform_at,
)
from fedcell.core.types import Array, Bools, Ints
from fedcell.scenario.channel.spec import PAPER
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.selection import SIMPLE

from .channel import is_heard
from .channels.gains import channel_gains
from .channels.links import Links, draw_links
from .channels.rates import gains_of_rates
from .physics.discrete.losses import block_losses, joint_loss
from .physics.discrete.steps import loses_uploads
from .physics.hardware import Hardware, coefficients, power_densities
from .physics.outage import least_gains
from .selection import ask_by_weight, ask_uniformly, first_joined, merge_repeated
from .trace import Fleet, Trace, check_fleet


def draw_fleet(scenario: Scenario, seed: int = 0) -> Fleet:
    """Return the N clients of a scenario: those of its table, or drawn as in Section V-C.

    Parameters
    ----------
    scenario : Scenario
        The scenario; one that trains a model must come from `prepare_training`, which knows D_j.
    seed : int
        Random seed.

    Returns
    -------
    Fleet

    Examples
    --------
    >>> draw_fleet(Scenario(), seed=1).samples.shape
    (100,)
    """
    scenario.require_sizes()
    clients, cell, n = scenario.clients, scenario.cell, scenario.clients.count
    table = clients.table

    def spread(mean: float, purpose: Purpose) -> Array:
        var = 0.0 if table is not None else clients.spread
        return spread_evenly(mean, var, purpose, seed, n)

    def listed(column: str, default: Array) -> Array:
        return default if table is None else np.asarray(table.filled(column, default))

    def powers(default: Array) -> Array:
        given = None if table is None else table.power_density(cell.bandwidth)
        return default if given is None else np.where(np.isnan(given), default, given)

    def own(column: str, default: float) -> Array | None:
        given = None if table is None else getattr(table, column)
        return None if given is None else listed(column, np.full(n, default))

    # Evenly over the area of the ring, which may be a circle.
    near, far = cell.ring
    place = np.ravel(uniform(Purpose.PLACE, seed, range(1), n))
    distance = listed("distance", np.sqrt(near * near + (far * far - near * near) * place))
    samples = listed("samples", spread(clients.samples, Purpose.SAMPLES))
    charge = None if scenario.device is None else scenario.device.battery
    kappa = listed("kappa", spread(clients.kappa, Purpose.KAPPA))
    power, hardware = powers(spread(clients.power, Purpose.POWER)), Hardware.of(scenario)
    links, mean_gain = _mean_gains(scenario, distance, power, hardware, seed)
    clock = [listed(name, np.full(n, getattr(clients, name))) for name in ("freq_min", "freq_max")]
    low, high = clock if hardware is None else hardware.clocks(*clock)
    fleet = Fleet(
        samples=samples if clients.sizes is None else clients.sizes.values,
        kappa=coefficients(scenario, kappa),
        power=power_densities(scenario, power, mean_gain),
        mean_gain=mean_gain,
        freq_min=low,
        freq_max=high,
        cycles_per_sample=own("cycles_per_sample", scenario.cycles_per_sample),
        loss_rate=own("loss_rate", cell.loss_rate),
        battery=own("battery", np.inf) if charge is None else listed("battery", np.full(n, charge)),
        hardware=hardware,
        links=links,
    )
    if not ((fleet.mean_gain >= SMALL) & (fleet.mean_gain <= 1)).all():
        keys = "cell.distance, cell.reference_gain and cell.path_loss_exponent"
        if cell.channel.model != PAPER:
            keys = "cell.distance and cell.channel, whose carrier is in Hz"
        raise BadInput(
            f"the mean channel gain is not between 0 and 1 for some clients: check {keys}"
        )
    return fleet


def _mean_gains(
    scenario: Scenario, distance: Array, power: Array, hardware: Hardware | None, seed: int
) -> tuple[Links | None, Array]:
    """Return the links of the clients, None for the paper's law alone, and their mean gains."""
    cell, table = scenario.cell, scenario.clients.table
    if table is not None and table.rate is not None:
        return None, gains_of_rates(scenario, power, hardware, table.rate)
    known = np.full(distance.size, np.nan) if table is None else table.filled("gain", np.nan)
    known = np.broadcast_to(known, distance.shape)
    if cell.channel.is_paper or cell.recorded is not None:
        return None, np.where(np.isnan(known), cell.mean_gain(distance), known)
    links = draw_links(scenario, distance, ~np.isnan(known), seed)
    return links, np.where(np.isnan(known), 10 ** (-links.loss / 10), known)


def draw_trace(
    scenario: Scenario, fleet: Fleet, rounds: int | range | None = None, seed: int = 0
) -> Trace:
    """Draw the called clients, channel gains and lost uploads of some rounds.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    fleet : Fleet
        Its fleet.
    rounds : int or range, optional
        Number of rounds, or a range of them; default: those of the scenario.
    seed : int
        Random seed; a round is the same in every range.

    Returns
    -------
    Trace
        Arrays of shape (rounds, K).

    Examples
    --------
    >>> scenario = Scenario().using(plan={"cohort": 5})
    >>> draw_trace(scenario, draw_fleet(scenario), rounds=3).cohort.shape
    (3, 5)
    """
    every = as_range(scenario.rounds if rounds is None else rounds)
    check_fleet(scenario, fleet)
    cohort = scenario.plan.cohort
    if scenario.plan.selection not in SIMPLE:
        from .selectors.fold import selected_trace

        return selected_trace(scenario, fleet, every, seed)
    return _draw(scenario, fleet, every, seed, min(fleet.count, cohort + cohort // 8 + 8))


def draw_all(scenario: Scenario, fleet: Fleet, rounds: range, seed: int = 0) -> Trace:
    """Return rounds that call all clients that may be called: `draw_trace` with K = N, but with
    clients by number and not in the order in which they are asked."""
    everyone = np.broadcast_to(np.arange(fleet.count), (len(rounds), fleet.count))
    enough = has_enough_data(scenario, fleet)
    gain = channel_gains(scenario, fleet, rounds, everyone, seed)
    may = is_heard(scenario, gain, least_gains(scenario, fleet)) & enough
    # Clients that may be called come first, in their order.
    where, count = first_joined(may, fleet.count)
    present = count > 0
    cohort = np.where(present, where, -1)
    called_at = np.where(present, np.take_along_axis(gain, where, axis=1), 0.0)
    return Trace(
        cohort=cohort,
        gain=called_at,
        lost=lost_uploads(scenario, fleet, rounds, seed, (cohort, count, called_at)),
        count=count,
        excluded_by_channel=(enough & ~may).sum(1),
        excluded_by_data=np.full(len(rounds), fleet.count - enough.sum()),
        first_round=rounds.start,
    )


def has_enough_data(scenario: Scenario, fleet: Fleet) -> Bools:
    """Return which clients have enough data to be called, (client,)."""
    return (fleet.samples > 0) & (fleet.samples >= scenario.clients.min_samples)


def candidates(scenario: Scenario, fleet: Fleet, rounds: range, seed: int = 0) -> Bools:
    """Return which clients may be called, (round, client)."""
    everyone = np.broadcast_to(np.arange(fleet.count), (len(rounds), fleet.count))
    gain = channel_gains(scenario, fleet, rounds, everyone, seed)
    heard = is_heard(scenario, gain, least_gains(scenario, fleet))
    return heard & has_enough_data(scenario, fleet)


def _draw(scenario: Scenario, fleet: Fleet, rounds: range, seed: int, asks: int) -> Trace:
    """Return rounds of a trace: ask `asks` clients, and more where too few can join."""
    if len(parts := list(chunks(rounds, min(fleet.count, DENSE_RATIO * asks)))) > 1:
        return Trace.join([_draw(scenario, fleet, part, seed, asks) for part in parts])
    plan, n = scenario.plan, fleet.count
    enough = has_enough_data(scenario, fleet)
    asked = _asked(scenario, fleet, rounds, seed, asks)
    heard_at = channel_gains(scenario, fleet, rounds, asked, seed)
    is_weak = enough[asked] & ~is_heard(scenario, heard_at, least_gains(scenario, fleet, asked))
    may = enough[asked] & ~is_weak
    if asks < n and (may.sum(1) < plan.cohort).any():
        return _draw(scenario, fleet, rounds, seed, min(n, 2 * asks))
    # Clients after the last one that joined are not asked.
    is_weak &= may.cumsum(1) < plan.cohort
    where, count = first_joined(may, plan.cohort)
    if plan.selection == "weighted":
        where, count = merge_repeated(asked, where, count)
        weak = [np.unique(row[skipped]).size for row, skipped in zip(asked, is_weak, strict=True)]
    else:
        weak = is_weak.sum(1)
    present = count > 0
    cohort = np.where(present, np.take_along_axis(asked, where, axis=1), -1)
    gain = np.where(present, np.take_along_axis(heard_at, where, axis=1), 0.0)
    return Trace(
        cohort=cohort,
        gain=gain,
        lost=lost_uploads(scenario, fleet, rounds, seed, (cohort, count, gain)),
        count=count,
        excluded_by_channel=np.asarray(weak, np.int64),
        excluded_by_data=np.full(len(rounds), n - enough.sum()),
        first_round=rounds.start,
    )


def _asked(scenario: Scenario, fleet: Fleet, rounds: range, seed: int, asks: int) -> Ints:
    """Return the first clients that are asked in each round, (round, ask); more for weighted draws
    if these are not enough."""
    n, cohort = fleet.count, scenario.plan.cohort

    def draws(first: int, last: int, places: int) -> Array:
        every = np.broadcast_to(np.arange(first, last), (len(rounds), last - first))
        return uniform_at(Purpose.SELECTION, seed, rounds, every, places)

    if scenario.plan.selection == "uniform":
        return ask_uniformly(draws(0, asks, n), n)
    weight = np.where(has_enough_data(scenario, fleet), fleet.samples, 0.0)
    asked = ask_by_weight(draws(0, asks, 2 * n), weight)
    if asks < n:
        return asked
    # After N asks, only clients that can be called are drawn.
    can = candidates(scenario, fleet, rounds, seed) * weight
    more = zip(draws(n, n + cohort, 2 * n), can, strict=True)
    return np.hstack([asked, [ask_by_weight(*row) for row in more]])


def lost_uploads(
    scenario: Scenario, fleet: Fleet, rounds: range, seed: int, asked: tuple[Ints, Ints, Array]
) -> Bools:
    """Return which uploads are lost, (round, place): `asked` are cohort, count and gains. Rates of
    loss decide on the same draws, whatever they consist of."""
    cohort, count, gain = asked
    cell, present, client = scenario.cell, cohort >= 0, np.maximum(cohort, 0)
    by_blocks = loses_uploads(scenario)
    if fleet.loss_rate is None and cell.loss_rate == 0 and not by_blocks:
        return np.zeros(client.shape, bool)
    draws = uniform_at(Purpose.LOSS, seed, rounds, client, fleet.count)
    own = fleet.loss_rate
    rate = np.full(client.shape, cell.loss_rate) if own is None else own[client]
    if by_blocks:
        rate = joint_loss(rate, block_losses(scenario, fleet, gain, client))
    if cell.loss_kind == "independent":
        return present & (draws < rate)
    # As many as K_gamma >= K(1 - gamma) allows (Sec. II-B-1): first the clients with the lowest
    # draw relative to their rate.
    drawn = count.sum(1, keepdims=True)
    share = (rate * count).sum(1, keepdims=True)  # gamma K
    losses = np.minimum(np.floor(share + 1e-9), drawn - 1)
    luck = draws / np.maximum(rate, SMALL)
    order = np.where(present, luck, np.inf).argsort(1)
    lost = np.empty_like(present)
    so_far = np.take_along_axis(count, order, axis=1).cumsum(1)
    np.put_along_axis(lost, order, so_far <= losses, axis=1)
    return present & lost
