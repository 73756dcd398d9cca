"""Participation: how often each client can be reached and is called, and clients in outage."""

from __future__ import annotations

import numpy as np

from fedcell.core.showing import client_title
from fedcell.core.types import Array, Ints
from fedcell.scenario.scenario import Scenario
from fedcell.scenario.selection import SIMPLE

from .channel import is_heard
from .channels.gains import heard_gains, heard_share, sampled_gains
from .draw import draw_fleet, draw_trace, has_enough_data
from .physics.discrete.losses import block_losses, joint_loss
from .physics.discrete.steps import loses_uploads
from .physics.outage import least_gains
from .trace import MANY, Fleet

RARE_SHARE = 0.1  # of the best participation; a client below it barely counts
SAMPLED_ROUNDS = 500  # in which the calls of a selector are counted
NODES = 15  # of a Gauss-Hermite rule
MIN_CLASS_SHARE = 0.25  # of a class, held by rare clients, that is worth a note
MAX_NAMED_CLIENTS = 3  # named one by one in notes


def chance_heard(scenario: Scenario, fleet: Fleet) -> Array:
    """Return the share of rounds in which each client may be called; 0 with too little data.

    Exact for Gamma fading, so for that of Sec. V-A; of measured gains, the share of their rounds;
    of clients that move or have Rician fading, that of drawn rounds.
    """
    heard = heard_share(scenario, fleet)
    return np.where(has_enough_data(scenario, fleet), heard, 0.0)


def chance_called(scenario: Scenario, fleet: Fleet) -> Array:
    """Return the share of rounds in which each client trains and uploads, (client,).

    All clients that are not in outage are called equally often: in K of H cases if H are not in
    outage, or in K draws by D_j if draws are weighted. H, or the data of these clients, is
    approximated by a normal distribution; measured gains, and rounds of a selector, are counted.
    """
    if scenario.plan.selection not in SIMPLE:
        cohort = draw_trace(scenario, fleet, SAMPLED_ROUNDS).cohort
        return np.bincount(cohort[cohort >= 0], minlength=fleet.count) / len(cohort)
    p, K = chance_heard(scenario, fleet), scenario.plan.cohort
    weighted = scenario.plan.selection == "weighted"
    size = fleet.samples if weighted else np.ones(fleet.count)

    def called_of(heard_size: Array, size: Array) -> Array:
        """Return the chance to be called, given the total size of clients not in outage."""
        share = np.minimum(size / np.maximum(heard_size, size), 1 - 1e-16)
        chance = -np.expm1(K * np.log1p(-share)) if weighted else np.minimum(1.0, K * share)
        return np.asarray(chance)

    if scenario.cell.recorded is not None:
        gains = sampled_gains(scenario, fleet)
        assert gains is not None
        least = least_gains(scenario, fleet)
        heard = is_heard(scenario, gains, least) & has_enough_data(scenario, fleet)
        return np.asarray((heard * called_of((heard * size).sum(1, keepdims=True), size)).mean(0))
    if not weighted and np.count_nonzero(p) <= K:
        return p  # all clients not in outage are called
    mean = (p * size).sum() + (1 - p) * size  # given that the client itself is not in outage
    variance = (p * (1 - p) * size**2).sum() - p * (1 - p) * size**2
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    chance = np.zeros(fleet.count)
    for begin in range(0, fleet.count, MANY):
        some = slice(begin, begin + MANY)
        middle, spread = mean[some], np.sqrt(variance[some])
        for z, w in zip(nodes, weights, strict=True):
            chance[some] += w * called_of(middle + z * spread, size[some])
    return np.asarray(p * chance / weights.sum())


def mean_loss_rate(scenario: Scenario) -> float:
    """Return gamma of an upload: the cell's, or the mean over clients, weighted by how often each
    may be called (DECISIONS.md, 56)."""
    table = scenario.clients.table
    by_blocks = loses_uploads(scenario)
    if (table is None or table.loss_rate is None) and not by_blocks:
        return scenario.cell.loss_rate
    fleet = draw_fleet(scenario)
    heard = chance_heard(scenario, fleet)
    rate: Array = np.full(fleet.count, scenario.cell.loss_rate)
    if table is not None:
        rate = np.broadcast_to(table.filled("loss_rate", scenario.cell.loss_rate), fleet.count)
    if by_blocks:
        rate = joint_loss(rate, mean_block_losses(scenario, fleet))
    return float(np.average(rate, weights=heard if heard.any() else None))


def mean_block_losses(scenario: Scenario, fleet: Fleet) -> Array:
    """Return the share of uploads of each client that lost blocks spoil, a mean over the gains at
    which it is called, (client,)."""
    parts = []
    for begin in range(0, fleet.count, MANY):
        some = slice(begin, begin + MANY)
        means = [
            (weight * block_losses(scenario, fleet, gain, some)).sum(0)
            for gain, weight in heard_gains(scenario, fleet, some)
        ]
        parts.append(np.sum(means, axis=0))
    return np.concatenate(parts)


def rarely_heard(scenario: Scenario, fleet: Fleet, label_counts: Ints | None = None) -> list[str]:
    """Return sentences on clients that rarely take part, and on the class that depends on them most
    if `label_counts`, (client, class), is given."""
    heard, names = chance_heard(scenario, fleet), scenario.clients.names
    loss = np.zeros(fleet.count) if fleet.loss_rate is None else fleet.loss_rate
    counts = heard * (1 - loss)
    rare = np.flatnonzero(has_enough_data(scenario, fleet) & (counts < RARE_SHARE * counts.max()))
    rare = rare[np.argsort(counts[rare], kind="stable")]
    share = fleet.samples / fleet.samples.sum()
    sentences = []
    for j in rare[:MAX_NAMED_CLIENTS].tolist():
        title = client_title(j, None if names is None else names[j])
        lost = f" and loses {_percent(loss[j])} of its uploads" if loss[j] > 0.5 else ""
        sentences.append(
            f"{title} is in outage in {_percent(1 - heard[j])} of rounds{lost}: its "
            f"{fleet.samples[j]:.4g} samples ({_percent(share[j])}) barely influence the model"
        )
    if (more := rare[MAX_NAMED_CLIENTS:]).size:
        sentences.append(
            f"{more.size} more clients barely influence the model, with "
            f"{_percent(share[more].sum())} of all samples"
        )
    if label_counts is not None and rare.size:
        held = label_counts[rare].sum(0) / np.maximum(label_counts.sum(0), 1)
        worst = int(held.argmax())
        if held[worst] > MIN_CLASS_SHARE:
            sentences.append(
                f"they hold {_percent(held[worst])} of the samples of class {worst}: the model "
                "barely learns it"
            )
    return sentences


def _percent(share: float) -> str:
    if 0 < share < 1e-4:
        return "less than 0.01 %"
    if 1 - 1e-4 < share < 1:
        return "more than 99.99 %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
