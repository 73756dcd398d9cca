"""Sentences on Figs. 3 and 4: how many rounds it takes."""

from collections.abc import Iterator

import numpy as np

from fedcell.core.estimates import Estimate, mean_estimate
from fedcell.core.types import Array
from fedcell.experiments.table import SweepTable
from fedcell.paper.judging import (
    Outcome,
    Verdict,
    change,
    dataset,
    larger,
    percent,
    series,
    small,
    where,
)

FITS = 0.15  # a law that is nowhere further off fits


# Fig. 3(a).


def falls_as_one_over_k(table: SweepTable) -> Iterator[Verdict]:
    """G is a + b / K, and falls."""
    for others, found in series(table, "plan.cohort").items():
        x = np.array([np.ones(len(found.x)), 1 / np.array(found.x)]).T
        (a, b), *_ = np.linalg.lstsq(x, found.means, rcond=None)
        off = float(np.abs(x @ (a, b) / found.means - 1).max())
        falls = change(found.each[0], found.each[-1])
        outcome: Outcome = larger(falls)
        if outcome == "held" and off > FITS:
            outcome = "not held"
        share = a / found.means[0]
        yield Verdict(
            claim="G falls as a + b / K",
            where=where(others),
            outcome=outcome,
            number=f"a = {a:.1f}, b = {b:.0f}: at most {100 * off:.0f} % off; a is "
            f"{100 * share:.0f} % of G at K = {found.x[0]:.0f}; from the most K to the least "
            f"{percent(falls)}",
        )


def fewer_clients_need_fewer_rounds(table: SweepTable) -> Iterator[Verdict]:
    """N = 50 is below N = 100: more data a client."""
    for data, moved in _twice_the_clients(table):
        yield Verdict(
            claim="N = 50 needs fewer rounds than N = 100",
            where=data,
            outcome=larger(moved),
            number=f"from N = 50 to 100, mean over K: {percent(moved)}",
        )


def _twice_the_clients(table: SweepTable) -> Iterator[tuple[str, Estimate]]:
    """What N = 100 takes against N = 50, by dataset, mean over the other axes."""
    changes: dict[str, list[Array]] = {}
    for others, one in series(table, "clients.count").items():
        if {50.0, 100.0} <= set(one.x):
            more = (one.at(100) - one.at(50)) / one.at(50).mean()
            changes.setdefault(dataset(others), []).append(more)
    for data, found in changes.items():
        yield data, mean_estimate(np.mean(found, axis=0))


# Fig. 3(b).


def little_effect_of_k(table: SweepTable) -> Iterator[Verdict]:
    """Where data are alike, K has little effect."""
    for others, found in series(table, "plan.cohort").items():
        moved = change(found.each[0], found.each[-1])
        yield Verdict(
            claim="i.i.d.: K has little effect",
            where=where(others),
            outcome=small(moved),
            number=f"from K = {found.x[-1]:.0f} to {found.x[0]:.0f}: {percent(moved)}",
        )


def little_effect_of_d(table: SweepTable) -> Iterator[Verdict]:
    """Where data are alike, D has little effect."""
    for data, moved in _twice_the_clients(table):
        yield Verdict(
            claim="i.i.d.: D has little effect",
            where=data,
            outcome=small(moved),
            number=f"half the data, mean over K: {percent(moved)}",
        )


# Fig. 3(c).


def minimum_in_steps(table: SweepTable) -> Iterator[Verdict]:
    """G has a minimum in E_l: its least lies inside, and both ends are above it."""
    for others, found in series(table, "plan.local_steps").items():
        best = int(found.means.argmin())
        few, many = (change(found.each[end], found.each[best]) for end in (0, -1))
        ends = {larger(few), larger(many)}
        outcome: Outcome = "inconclusive"
        if best in (0, len(found.x) - 1):
            outcome = "not held"
        elif ends == {"held"}:
            outcome = "held"
        yield Verdict(
            claim="G has a minimum in E_l",
            where=where(others),
            outcome=outcome,
            number=f"least at E_l = {found.x[best]:.0f}; at {found.x[0]:.0f} {percent(few)}, at "
            f"{found.x[-1]:.0f} {percent(many)}",
        )


def less_sensitive(table: SweepTable, axis: str, claim: str) -> Iterator[Verdict]:
    """MNIST moves less than CIFAR-10 along an axis."""
    spans = {}
    for others, found in series(table, axis).items():
        low, high = found.means.argmin(), found.means.argmax()
        spans[dataset(others)] = (found.each[high] - found.each[low]) / found.means[low]
    if {"MNIST", "CIFAR-10"} <= set(spans):
        gain = mean_estimate(spans["CIFAR-10"] - spans["MNIST"])
        yield Verdict(
            claim=claim,
            where="MNIST, CIFAR-10",
            outcome=larger(gain),
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
            outcome=larger(moved),
            number=f"from gamma = {found.x[0]:g} to {found.x[-1]:g}: {percent(moved)}",
        )


def compensated_by_k(table: SweepTable) -> Iterator[Verdict]:
    """K / (1 - gamma) clients at gamma need what K need without losses."""
    found = {
        (dataset(o), dict(o).get("cell.loss_rate")): s
        for o, s in series(table, "plan.cohort").items()
    }
    for data in dict.fromkeys(data for data, _ in found):
        lossless, lossy = found.get((data, 0.0)), found.get((data, 0.3))
        if lossless is None or lossy is None:
            continue
        changes = [
            (lossy.at(more) - lossless.at(k)) / lossless.at(k).mean()
            for k in lossless.x
            if (more := float(round(k / 0.7))) in lossy.x
        ]
        if changes:
            moved = mean_estimate(np.mean(changes, axis=0))
            yield Verdict(
                claim="K / (1 - gamma) makes up for gamma = 0.3",
                where=data,
                outcome=small(moved, 0.1),
                number=f"mean over {len(changes)} K: {percent(moved)}",
            )
