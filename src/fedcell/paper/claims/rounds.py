"""Sentences on Figs. 3 and 4: how many rounds it takes."""

from collections.abc import Iterator

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array
from fedcell.experiments.statistics import relative_change
from fedcell.experiments.table import SweepTable
from fedcell.paper.optimum import one_over_k
from fedcell.paper.verdicts import (
    FITS,
    LITTLE,
    PROPORTIONAL,
    Outcome,
    Series,
    Verdict,
    all_of,
    change,
    chosen_by_others,
    dataset,
    larger,
    percent,
    series,
    small,
    unless_cut,
    where,
)

# Fig. 3(a).


def falls_as_one_over_k(table: SweepTable) -> Iterator[Verdict]:
    """G is a + b / K, as Theorem 1 has it, and falls."""
    for others, found in series(table, "plan.cohort").items():
        a, b = one_over_k(found, found.means)
        off = float(np.abs((a + b / np.array(found.x)) / found.means - 1).max())
        falls = change(found.each[0], found.each[-1])
        outcome: Outcome = larger(falls)
        if outcome == "held" and off > FITS:
            outcome = "not held"
        yield Verdict(
            claim="G falls as a + b / K",
            where=where(others),
            outcome=unless_cut(outcome, found.known()),
            number=f"a = {a:.1f}, b = {b:.0f}: at most {100 * off:.0f} % off; a is "
            f"{100 * a / found.means[0]:.0f} % of G at K = {found.x[0]:.0f}; from K = "
            f"{found.x[-1]:.0f} to {found.x[0]:.0f} {percent(falls)}{found.told}",
        )


def inverse_to_k(table: SweepTable) -> Iterator[Verdict]:
    """G is approximately inversely proportional to K: K times as many clients, 1 / K the rounds."""
    for others, found in series(table, "plan.cohort").items():
        slopes = np.polyfit(np.log(found.x), np.log(found.each), 1)[0]  # of each seed
        power = mean_estimate(-slopes)
        near = Estimate(power.value - 1, power.low - 1, power.high - 1, power.level)
        yield Verdict(
            claim="G is approximately inversely proportional to K",
            where=where(others),
            outcome=unless_cut(small(near, LITTLE), found.known()),
            number=f"G goes with K to the power {-power.value:.2f} ({-power.high:.2f} to "
            f"{-power.low:.2f}), inversely would be -1{found.told}",
        )


def fewer_clients_need_fewer_rounds(table: SweepTable) -> Iterator[Verdict]:
    """N = 50 is below N = 100: more data a client."""
    for data, (changes, known) in _twice_the_clients(table).items():
        moved = mean_estimate(np.mean(changes, axis=0))
        yield Verdict(
            claim="N = 50 needs fewer rounds than N = 100",
            where=data,
            outcome=unless_cut(larger(moved), known),
            number=f"from N = 50 to 100, mean over K: {percent(moved)}",
        )


def _twice_the_clients(table: SweepTable) -> dict[str, tuple[list[Array], bool]]:
    """What N = 100 takes against N = 50 at each K, seed by seed, by dataset; and whether nearly all
    runs got there."""
    found: dict[str, tuple[list[Array], bool]] = {}
    for others, one in series(table, "clients.count").items():
        if {50.0, 100.0} <= set(one.x):
            more = relative_change(one.at(100), one.at(50))
            before, known = found.get(dataset(others), ([], True))
            found[dataset(others)] = [*before, more], known and one.known()
    return found


# Fig. 3(b).


def little_effect_of_k(table: SweepTable) -> Iterator[Verdict]:
    """Where data are alike, K has little effect."""
    for others, found in series(table, "plan.cohort").items():
        moved = change(found.each[0], found.each[-1])
        yield Verdict(
            claim="i.i.d.: K has little effect",
            where=where(others),
            outcome=unless_cut(small(moved), found.known(0, -1)),
            number=f"from K = {found.x[-1]:.0f} to {found.x[0]:.0f}: {percent(moved)}{found.told}",
        )


def little_effect_of_d(table: SweepTable) -> Iterator[Verdict]:
    """Where data are alike, D has little effect, at any K."""
    for data, (changes, known) in _twice_the_clients(table).items():
        moved = [mean_estimate(each) for each in changes]
        largest = max(moved, key=lambda estimate: abs(estimate.value))
        mean = mean_estimate(np.mean(changes, axis=0))
        yield Verdict(
            claim="i.i.d.: D has little effect",
            where=data,
            outcome=unless_cut(all_of([small(estimate) for estimate in moved]), known),
            number=f"half the data, mean over K: {percent(mean)}; at most {percent(largest)}",
        )


# Fig. 3(c).


def minimum_in_steps(table: SweepTable) -> Iterator[Verdict]:
    """G has a minimum in E_l: both ends are above the least between them."""
    for others, found in series(table, "plan.local_steps").items():
        if len(found.x) < 3:
            continue
        seeds = np.arange(found.each.shape[1])
        inner = chosen_by_others(found, range(1, len(found.x) - 1), "least")
        least = found.each[inner, seeds]
        few, many = (change(found.each[end], least) for end in (0, -1))
        best = int(found.means.argmin())
        yield Verdict(
            claim="G has a minimum in E_l",
            where=where(others),
            # An end that was cut is at least so far above; the least must be known.
            outcome=unless_cut(all_of([larger(few), larger(many)]), found.known(*set(inner))),
            number=f"least at E_l = {found.x[best]:.0f}; against the best between the ends, at "
            f"{found.x[0]:.0f} {percent(few)}, at {found.x[-1]:.0f} {percent(many)}{found.told}",
        )


def _span(found: Series) -> Array:
    """From the least to the most along an axis, seed by seed, in parts of the least."""
    seeds, every = np.arange(found.each.shape[1]), range(len(found.x))
    low, high = (chosen_by_others(found, every, best) for best in ("least", "most"))
    least, most = found.each[low, seeds], found.each[high, seeds]
    return relative_change(most, least)


def insensitive(table: SweepTable, axis: str, claim: str) -> Iterator[Verdict]:
    """MNIST hardly moves along an axis."""
    for others, found in series(table, axis).items():
        if dataset(others) == "MNIST":
            span = mean_estimate(_span(found))
            yield Verdict(
                claim=claim,
                where=where(others),
                outcome=unless_cut(small(span), found.known()),
                number=f"from the least to the most {percent(span)}{found.told}",
            )


def less_sensitive(table: SweepTable, axis: str, claim: str) -> Iterator[Verdict]:
    """MNIST moves less than CIFAR-10 along an axis."""
    found = {dataset(others): one for others, one in series(table, axis).items()}
    if {"MNIST", "CIFAR-10"} <= set(found):
        spans = {name: _span(one) for name, one in found.items()}
        gain = mean_estimate(spans["CIFAR-10"] - spans["MNIST"])
        known = all(one.known() for one in found.values())
        yield Verdict(
            claim=claim,
            where="MNIST, CIFAR-10",
            outcome=unless_cut(larger(gain), known),
            number=", ".join(f"{n}: {100 * s.mean():.0f} %" for n, s in spans.items())
            + " from the least to the most",
        )


# Fig. 4.


def rises_with_losses(table: SweepTable) -> Iterator[Verdict]:
    """G rises with gamma from 0 to 0.5."""
    for others, found in series(table, "cell.loss_rate").items():
        moved = change(found.each[-1], found.each[0])
        yield Verdict(
            claim="G rises with gamma",
            where=where(others),
            outcome=unless_cut(larger(moved), found.known(0)),
            number=f"from gamma = {found.x[0]:g} to {found.x[-1]:g}: {percent(moved)}{found.told}",
        )


def compensated_by_k(table: SweepTable) -> Iterator[Verdict]:
    """K / (1 - gamma) clients at gamma need what K need without losses, at any K."""
    found = {
        (dataset(o), dict(o).get("cell.loss_rate")): s
        for o, s in series(table, "plan.cohort").items()
    }
    for data in dict.fromkeys(data for data, _ in found):
        lossless, lossy = found.get((data, 0.0)), found.get((data, 0.3))
        if lossless is None or lossy is None:
            continue
        changes = [
            relative_change(lossy.at(more), lossless.at(k))
            for k in lossless.x
            if (more := float(round(k / 0.7))) in lossy.x
        ]
        if changes:
            moved = mean_estimate(np.mean(changes, axis=0))
            each = [mean_estimate(at) for at in changes]
            largest = max(each, key=lambda estimate: abs(estimate.value))
            known = lossless.known() and lossy.known()
            yield Verdict(
                claim="K / (1 - gamma) makes up for gamma = 0.3",
                where=data,
                outcome=unless_cut(small(moved, PROPORTIONAL), known),
                number=f"mean over {len(changes)} K: {percent(moved)}; at most {percent(largest)}",
            )
