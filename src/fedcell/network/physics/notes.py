"""What a radio engineer would say of a scenario: rates, powers and shares that no radio has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcell.core.types import Array
from fedcell.network.draw import draw_trace
from fedcell.network.participation import mean_loss_rate
from fedcell.network.policies.base import Broadcast
from fedcell.network.policies.names import PolicyLike, resolve_policy
from fedcell.network.round import Cost, Schedule, make_problem, price
from fedcell.network.trace import Fleet
from fedcell.scenario.hardware.radio import FIXED_BANDS, NB_IOT, RESOURCE_BLOCK, Radio
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.tables import Clients

from .discrete.blocks import whole_blocks
from .discrete.standards.nbiot import TONES
from .discrete.steps import loses_uploads
from .link import PowerLimit

ROUNDS = 50  # sampled
SLOW, FAST = 0.2, 8.0  # bit/s/Hz; 256QAM at rate 948/1024 carries 7.41 (3GPP TS 38.214)
MANY_WATTS = 10.0  # of a device; 23 (dBm, of a power class 3 device) typed as watts is more
WORTH_NOTING = 0.1  # share of uploads


def radio_notes(
    scenario: Scenario, fleet: Fleet, policy: PolicyLike = "even", seed: int = 0
) -> list[str]:
    """Return sentences on powers, and with a [radio] table on spectral efficiency and shares.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    fleet : Fleet
        Its fleet.
    policy : str, Policy or class
        What divides the band.
    seed : int
        Random seed of the sampled rounds.

    Returns
    -------
    list of str
        Sentences; empty where there is nothing to say.
    """
    notes = _powers(scenario, fleet)
    if (radio := scenario.radio) is None:
        return notes
    notes += _losses(scenario)
    rounds = ROUNDS if scenario.cell.recorded is None else min(ROUNDS, scenario.rounds)
    chosen = resolve_policy(policy, Broadcast.to(scenario, fleet))
    efficiencies, widths, late, real, whole = [], [], [], 0.0, 0.0
    sizes = TONES if scenario.rate_table == NB_IOT else None
    blocks = int(scenario.cell.bandwidth // radio.block)
    for _, part in draw_trace(scenario, fleet, rounds, seed).by_size():
        if not (size := part.cohort.shape[1]) > 0:
            continue
        problem = make_problem(scenario, fleet, part)
        schedule = chosen(problem)
        cost = price(problem, schedule)
        efficiencies.append(_efficiency(scenario, schedule, cost).ravel())
        late.append(cost.upload_time.ravel())
        widths.append(schedule.share.ravel() * scenario.cell.bandwidth)
        if radio.resource_block is not None and radio.access == "band" and size <= blocks:
            rounded = Schedule(
                whole_blocks(schedule.share, blocks, sizes), schedule.freq, power=schedule.power
            )
            real += float(cost.objective.sum())
            whole += float(price(problem, rounded).objective.sum())
    if efficiencies:
        if radio.rate_table not in FIXED_BANDS:
            notes += _rates(np.concatenate(efficiencies))
        notes += _duty(radio, np.concatenate(late))
        if radio.access == "band":
            notes += _shares(radio.block, np.concatenate(widths))
    if real:
        notes.append(
            f"rounded to whole {'tones' if sizes else 'resource blocks'} of "
            f"{radio.block / 1e3:g} kHz ({blocks} in the band{', 1, 3, 6 or 12 each' * bool(sizes)}"
            f"), rounds cost {100 * (whole / real - 1):.2g} % more"
        )
    return notes


def power_notes(
    scenario: Scenario, fleet: Fleet, policies: Sequence[PolicyLike], seed: int = 0
) -> list[str]:
    """Return sentences on transmit powers that policies choose, or that power_max cuts.

    Parameters
    ----------
    scenario : Scenario
        The scenario.
    fleet : Fleet
        Its fleet.
    policies : sequence of str, Policy or class
        The policies to speak of.
    seed : int
        Random seed of the sampled rounds.

    Returns
    -------
    list of str
        Sentences; empty where there is nothing to say.
    """
    names = [policy for policy in policies if isinstance(policy, str)]
    unlimited = fleet.hardware is None or not np.isfinite(fleet.hardware.power_max).all()
    if "optimal-power" in names and unlimited:
        return [
            "optimal-power chooses transmit powers, and nothing limits them here "
            "(radio.power_max): they leave the density clients.power, which the others keep"
        ]
    if "optimal" not in names or unlimited or "optimal-power" in names:
        return []
    uploads = cut = 0
    for _, part in draw_trace(scenario, fleet, 1, seed).by_size():
        if not part.cohort.size:
            continue
        problem = make_problem(scenario, fleet, part)
        limit = None if problem.extras is None else problem.extras.limit
        if not isinstance(limit, PowerLimit):
            return []
        share = resolve_policy("optimal", Broadcast.to(scenario, fleet))(problem).share
        uploads += share.size
        cut += int((share > limit.cut).sum())
    if not cut:
        return []
    return [
        f"power_max cuts the density of {cut} of {uploads} uploads in a round: optimal is then "
        "the best of several splits, with no certificate; compare optimal-power, the exact optimum"
    ]


def _losses(scenario: Scenario) -> list[str]:
    """Return how many uploads lost blocks spoil."""
    if scenario.radio is not None and scenario.rate_table != scenario.radio.rate_table:
        return ["the rates of clients are given, so radio.rate_table has no effect"]
    if not loses_uploads(scenario):
        return []
    assert scenario.radio is not None
    lost, q = mean_loss_rate(scenario), scenario.radio.target_bler
    return [
        f'{100 * lost:.3g} % of uploads are lost, because radio.arq = "none" and each needs all of '
        f"its blocks; a first try loses {100 * q:.3g} % of them at the least SNR"
    ]


def _duty(radio: Radio, times: Array) -> list[str]:
    """Return how long a duty cycle makes uploads."""
    if radio.duty_cycle is None:
        return []
    seconds = float(np.median(times))
    many = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0}
    unit = next((name for name, size in many.items() if seconds > 2 * size), "s")
    return [
        f"with a duty cycle of {100 * radio.duty_cycle:g} % half of the uploads take more than "
        f"{seconds / many.get(unit, 1.0):.3g} {unit}"
    ]


def _efficiency(scenario: Scenario, schedule: Schedule, cost: Cost) -> Array:
    """Return the bits per second and hertz of each upload, of the usable band and time."""
    radio = scenario.radio
    assert radio is not None
    band = scenario.cell.bandwidth * radio.usable_share * radio.uplink_share
    return np.asarray(scenario.model_bits / (cost.upload_time * schedule.share * band))


def _powers(scenario: Scenario, fleet: Fleet) -> list[str]:
    """Return a note on powers that no device has; those of the paper, by default, are left."""
    law = "constant-density" if scenario.radio is None else scenario.radio.power_law
    table, hardware = scenario.clients.table, fleet.hardware
    usual = table is None and scenario.clients.power == Clients().power
    most = fleet.power * scenario.cell.bandwidth
    if usual and law == "constant-density":
        most = np.zeros(fleet.count)
    if hardware is not None:  # a limit that is never reached was typed as well
        limited = np.isfinite(hardware.power_max)
        most = np.where(limited, hardware.power_max, most)
        if law == "open-loop" and not limited.all() and (most[~limited] >= MANY_WATTS).any():
            watts = float(most[~limited].max())
            return [f"open-loop control makes a client send with {watts:.3g} W: set power_max"]
    if not (most >= MANY_WATTS).any():
        return []
    watts = float(most.max())
    return [
        f"a client sends with up to {watts:.3g} W: if that is {watts:.3g} dBm, give "
        f"{10 ** (watts / 10) / 1e3:.2g} W, or a column in dBm"
        if watts <= 60
        else f"a client sends with up to {watts:.3g} W: check the units of its power"
    ]


def _rates(efficiency: Array) -> list[str]:
    notes = []
    slow, fast = float((efficiency < SLOW).mean()), float((efficiency > FAST).mean())
    if slow > WORTH_NOTING:
        notes.append(
            f"{100 * slow:.0f} % of uploads are below {SLOW} bit/s/Hz: a narrower share, a "
            "shorter distance or more power would carry more"
        )
    if fast > WORTH_NOTING:
        notes.append(
            f"{100 * fast:.0f} % of uploads are above {FAST:g} bit/s/Hz, more than 256QAM "
            "carries (7.4): set radio.spectral_cap"
        )
    return notes


def _shares(block: float, widths: Array) -> list[str]:
    narrow = float((widths < block).mean())
    if narrow <= 0:
        return []
    unit = "" if block != RESOURCE_BLOCK else ", 12 subcarriers of 15 kHz"
    return [
        f"{max(1, round(100 * narrow))} % of shares are narrower than a resource block "
        f"({block / 1e3:g} kHz{unit})"
    ]
