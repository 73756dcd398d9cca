"""Claims on Figs. 3 and 4: rounds to the target."""

from collections.abc import Iterator

import numpy as np

from fedcell.core.types import Array
from fedcell.experiments.statistics import relative_change
from fedcell.experiments.table import SweepTable
from fedcell.paper.optimum import one_over_k
from fedcell.paper.verdicts import (
    FITS,
    LITTLE,
    NO_SIZE,
    PROPORTIONAL,
    Finding,
    Series,
    Verdict,
    all_of,
    change,
    chosen_by_others,
    dataset,
    effect_of,
    larger,
    percent,
    series,
    small,
    unless_cut,
    where,
)

NONE = "little; 0 % (Theorem 1 at lambda = 1)"

# Fig. 3(a).


def falls_as_one_over_k(table: SweepTable) -> Iterator[Verdict]:
    """G falls with K as a + b / K, the form of Theorem 1."""
    for others, curve in series(table, "plan.cohort").items():
        a, b = one_over_k(curve, curve.means)
        off = float(np.abs((a + b / np.array(curve.x)) / curve.means - 1).max())
        falls = change(curve.each[0], curve.each[-1])
        finding = larger(falls)
        if finding.outcome == "held" and off > FITS:
            finding = Finding("not held")
        yield Verdict(
            claim="G falls as a + b / K",
            where=where(others),
            finding=unless_cut(finding, curve.known()),
            stated="linear in 1 / K (Theorem 1)",
            number=f"a = {a:.1f}, b = {b:.0f}: at most {100 * off:.0f} % off; a is "
            f"{100 * a / curve.means[0]:.0f} % of G at K = {curve.x[0]:.0f}; from K = "
            f"{curve.x[-1]:.0f} to {curve.x[0]:.0f} {percent(falls)}{curve.cut_note}",
        )


def inverse_to_k(table: SweepTable) -> Iterator[Verdict]:
    """G is approximately inversely proportional to K: K times as many clients, 1 / K the rounds."""
    for others, curve in series(table, "plan.cohort").items():
        slopes = np.polyfit(np.log(curve.x), np.log(curve.each), 1)[0]  # of each seed
        power = effect_of(slopes).interval
        yield Verdict(
            claim="G is approximately inversely proportional to K",
            where=where(others),
            finding=unless_cut(small(effect_of(1 + slopes), LITTLE), curve.known()),
            stated="power -1",
            number=f"G goes with K to the power {power.value:.2f} ({power.low:.2f} to "
            f"{power.high:.2f}){curve.cut_note}",
        )


def fewer_clients_need_fewer_rounds(table: SweepTable) -> Iterator[Verdict]:
    """N = 50 needs fewer rounds than N = 100: each client has more data."""
    implied = _rounds_of_twice_b(table)
    for data, (changes, known) in _twice_the_clients(table).items():
        moved = effect_of(np.mean(changes, axis=0))
        yield Verdict(
            claim="N = 50 needs fewer rounds than N = 100",
            where=data,
            finding=unless_cut(larger(moved), known),
            stated=implied.get(data, NO_SIZE),
            number=f"from N = 50 to 100, mean over K: {percent(moved)}",
        )


def _rounds_of_twice_b(table: SweepTable) -> dict[str, str]:
    """Return how many more rounds a + 2 b / K are than the a + b / K of N = 50, mean over K."""
    more = {}
    for others, curve in series(table, "plan.cohort").items():
        if dict(others).get("clients.count") == 50:
            a, b = one_over_k(curve, curve.means)
            each = b / np.array(curve.x)
            rise = 100 * float(np.mean(each / (a + each)))
            more[dataset(others)] = f"{NO_SIZE}; b doubles, {rise:+.0f} % (Theorem 1)"
    return more


def _twice_the_clients(table: SweepTable) -> dict[str, tuple[list[Array], bool]]:
    """Return the relative change from N = 50 to N = 100 at each K and seed, by dataset.

    With it, whether nearly all runs reached the target.
    """
    by_dataset: dict[str, tuple[list[Array], bool]] = {}
    for others, one in series(table, "clients.count").items():
        if {50.0, 100.0} <= set(one.x):
            more = relative_change(one.at(100), one.at(50))
            before, known = by_dataset.get(dataset(others), ([], True))
            by_dataset[dataset(others)] = [*before, more], known and one.known()
    return by_dataset


# Fig. 3(b).


def little_effect_of_k(table: SweepTable) -> Iterator[Verdict]:
    """With i.i.d. data, K has little effect."""
    for others, curve in series(table, "plan.cohort").items():
        moved = change(curve.each[0], curve.each[-1])
        yield Verdict(
            claim="i.i.d.: K has little effect",
            stated=NONE,
            where=where(others),
            finding=unless_cut(small(moved), curve.known(0, -1)),
            number=f"from K = {curve.x[-1]:.0f} to {curve.x[0]:.0f}: {percent(moved)}"
            + curve.cut_note,
        )


def little_effect_of_d(table: SweepTable) -> Iterator[Verdict]:
    """With i.i.d. data, D has little effect, at any K."""
    for data, (changes, known) in _twice_the_clients(table).items():
        moved = [effect_of(each) for each in changes]
        largest = max(moved, key=lambda effect: abs(effect.interval.value))
        mean = effect_of(np.mean(changes, axis=0))
        yield Verdict(
            claim="i.i.d.: D has little effect",
            stated=NONE,
            where=data,
            finding=unless_cut(all_of([small(effect) for effect in moved]), known),
            number=f"half the data, mean over K: {percent(mean)}; at most {percent(largest)}",
        )


# Fig. 3(c).


def minimum_in_steps(table: SweepTable) -> Iterator[Verdict]:
    """G has a minimum in E_l: both ends are above the least between them."""
    for others, curve in series(table, "plan.local_steps").items():
        if len(curve.x) < 3:
            continue
        seeds = np.arange(curve.each.shape[1])
        inner = chosen_by_others(curve, range(1, len(curve.x) - 1), "least")
        least = curve.each[inner, seeds]
        few, many = (change(curve.each[end], least) for end in (0, -1))
        best = int(curve.means.argmin())
        yield Verdict(
            claim="G has a minimum in E_l",
            where=where(others),
            # A cut end is a lower bound; the minimum must be known.
            finding=unless_cut(all_of([larger(few), larger(many)]), curve.known(*set(inner))),
            number=f"least at E_l = {curve.x[best]:.0f}; against the best between the ends, at "
            f"{curve.x[0]:.0f} {percent(few)}, at {curve.x[-1]:.0f} {percent(many)}"
            + curve.cut_note,
        )


def _span(curve: Series) -> Array:
    """Return the change from minimum to maximum along an axis, by seed, relative to the minimum."""
    seeds, every = np.arange(curve.each.shape[1]), range(len(curve.x))
    low, high = (chosen_by_others(curve, every, best) for best in ("least", "most"))
    least, most = curve.each[low, seeds], curve.each[high, seeds]
    return relative_change(most, least)


def insensitive(table: SweepTable, axis: str, claim: str) -> Iterator[Verdict]:
    """MNIST hardly moves along an axis."""
    for others, curve in series(table, axis).items():
        if dataset(others) == "MNIST":
            span = effect_of(_span(curve))
            yield Verdict(
                claim=claim,
                where=where(others),
                finding=unless_cut(small(span), curve.known()),
                number=f"from the least to the most {percent(span)}{curve.cut_note}",
            )


def less_sensitive(table: SweepTable, axis: str, claim: str) -> Iterator[Verdict]:
    """MNIST moves less than CIFAR-10 along an axis."""
    curves = {dataset(others): one for others, one in series(table, axis).items()}
    if {"MNIST", "CIFAR-10"} <= set(curves):
        spans = {name: _span(one) for name, one in curves.items()}
        gain = effect_of(spans["CIFAR-10"] - spans["MNIST"])
        known = all(one.known() for one in curves.values())
        yield Verdict(
            claim=claim,
            where="MNIST, CIFAR-10",
            finding=unless_cut(larger(gain), known),
            number=", ".join(f"{n}: {100 * s.mean():.0f} %" for n, s in spans.items())
            + " from the least to the most",
        )


# Fig. 4.


def rises_with_losses(table: SweepTable) -> Iterator[Verdict]:
    """G rises with gamma from 0 to 0.5."""
    for others, curve in series(table, "cell.loss_rate").items():
        moved = change(curve.each[-1], curve.each[0])
        yield Verdict(
            claim="G rises with gamma",
            stated="b / (1 - gamma) for b (Theorem 1)",
            where=where(others),
            finding=unless_cut(larger(moved), curve.known(0)),
            number=f"from gamma = {curve.x[0]:g} to {curve.x[-1]:g}: {percent(moved)}"
            + curve.cut_note,
        )


def compensated_by_k(table: SweepTable) -> Iterator[Verdict]:
    """K / (1 - gamma) clients at gamma need what K need without losses, at any K."""
    curves = {
        (dataset(o), dict(o).get("cell.loss_rate")): s
        for o, s in series(table, "plan.cohort").items()
    }
    for data in dict.fromkeys(data for data, _ in curves):
        lossless, lossy = curves.get((data, 0.0)), curves.get((data, 0.3))
        if lossless is None or lossy is None:
            continue
        changes = [
            relative_change(lossy.at(more), lossless.at(k))
            for k in lossless.x
            if (more := float(round(k / 0.7))) in lossy.x
        ]
        if changes:
            moved = effect_of(np.mean(changes, axis=0))
            each = [effect_of(at) for at in changes]
            largest = max(each, key=lambda effect: abs(effect.interval.value))
            known = lossless.known() and lossy.known()
            yield Verdict(
                claim="K / (1 - gamma) makes up for gamma = 0.3",
                stated="in proportion: 0 %",
                where=data,
                finding=unless_cut(small(moved, PROPORTIONAL), known),
                number=f"mean over {len(changes)} K: {percent(moved)}; at most {percent(largest)}",
            )
