"""Who takes part how often: heard in which share of rounds, called in which, and who hardly is."""

from __future__ import annotations

import numpy as np

from fedcell.core.showing import client_title
from fedcell.core.types import Array, Ints
from fedcell.scenario.scenario import Scenario

from .channel import is_heard
from .draw import draw_fleet, has_enough_data
from .trace import MANY, Fleet

RARE_SHARE = 0.1  # of what the client that is heard best is: who is below hardly counts
NODES = 15  # of a Gauss-Hermite rule
MIN_CLASS_SHARE = 0.25  # of a class, held by those who hardly count: it is said
MAX_NAMED_CLIENTS = 3  # clients that a sentence names; how many more there are is said


def chance_heard(scenario: Scenario, fleet: Fleet) -> Array:
    """The share of rounds in which each client may be called, (client,); 0 with too little data.

    Exact for the exponential fading of Sec. V-A; of measured gains, the share of their rounds.
    """
    if scenario.cell.gains is not None:
        heard = is_heard(scenario, scenario.cell.gains.values).mean(0)
    else:
        heard = np.exp(-scenario.min_gain / fleet.mean_gain)
    return np.where(has_enough_data(scenario, fleet), heard, 0.0)


def chance_called(scenario: Scenario, fleet: Fleet) -> Array:
    """The share of rounds in which each client trains and uploads, (client,).

    Who is heard is called as often as all others that are: in K of H cases where H are heard, or,
    where draws are weighted, in K draws by D_j. H, or the data of those heard, is taken to be
    normally distributed; measured gains are counted.
    """
    p, K = chance_heard(scenario, fleet), scenario.plan.cohort
    weighted = scenario.plan.selection == "weighted"
    size = fleet.samples if weighted else np.ones(fleet.count)

    def called_of(heard_size: Array, size: Array) -> Array:
        """The chance of clients that are heard, where all that are have this size together."""
        share = np.minimum(size / np.maximum(heard_size, size), 1 - 1e-16)
        chance = -np.expm1(K * np.log1p(-share)) if weighted else np.minimum(1.0, K * share)
        return np.asarray(chance)

    if scenario.cell.gains is not None:
        heard = is_heard(scenario, scenario.cell.gains.values) & has_enough_data(scenario, fleet)
        return np.asarray((heard * called_of((heard * size).sum(1, keepdims=True), size)).mean(0))
    if not weighted and np.count_nonzero(p) <= K:
        return p  # all that are heard are called
    mean = (p * size).sum() + (1 - p) * size  # where the client itself is heard
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
    """gamma of an upload: the cell's, or the mean over clients as often as each is heard
    (DECISIONS.md, 56)."""
    table = scenario.clients.table
    if table is None or table.loss_rate is None:
        return scenario.cell.loss_rate
    fleet = draw_fleet(scenario)
    heard, rate = chance_heard(scenario, fleet), table.filled("loss_rate", scenario.cell.loss_rate)
    return float(np.average(rate, weights=heard if heard.any() else None))


def rarely_heard(scenario: Scenario, fleet: Fleet, label_counts: Ints | None = None) -> list[str]:
    """Sentences on the clients that hardly ever take part, and on what that leaves out; which
    classes, where `label_counts`, (client, class), says who holds which."""
    heard, names = chance_heard(scenario, fleet), scenario.clients.names
    loss = np.zeros(fleet.count) if fleet.loss_rate is None else fleet.loss_rate
    counts = heard * (1 - loss)
    rare = np.flatnonzero(has_enough_data(scenario, fleet) & (counts < RARE_SHARE * counts.max()))
    rare = rare[np.argsort(counts[rare], kind="stable")]
    share = fleet.samples / fleet.samples.sum()
    sentences = []
    for j in rare[:MAX_NAMED_CLIENTS].tolist():
        who = client_title(j, None if names is None else names[j])
        lost = f" and loses {_percent(loss[j])} of its uploads" if loss[j] > 0.5 else ""
        sentences.append(
            f"{who} is heard in {_percent(heard[j])} of rounds{lost}: its {fleet.samples[j]:.4g} "
            f"samples ({_percent(share[j])} of all) hardly count"
        )
    if (more := rare[MAX_NAMED_CLIENTS:]).size:
        sentences.append(
            f"and {more.size} more that hardly count, with {_percent(share[more].sum())} of all "
            "samples"
        )
    if label_counts is not None and rare.size:
        held = label_counts[rare].sum(0) / np.maximum(label_counts.sum(0), 1)
        worst = int(held.argmax())
        if held[worst] > MIN_CLASS_SHARE:
            sentences.append(
                f"of class {worst}, {_percent(held[worst])} of the samples are theirs: the model "
                "will hardly see them"
            )
    return sentences


def _percent(share: float) -> str:
    if 0 < share < 1e-4:
        return "less than 0.01 %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
