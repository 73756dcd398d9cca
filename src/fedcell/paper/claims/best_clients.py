"""Claims on Fig. 5: the best K over the cost ratio."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedcell.experiments.table import SweepTable
from fedcell.paper.optimum import BestClients, best_clients
from fedcell.paper.verdicts import (
    Verdict,
    by_threshold,
    dataset,
    larger,
    over_resamples,
    percent,
    unless_cut,
    where,
)

CLOSE = 1.25  # factor within which K* agrees with a formula


def best_clients_rise(table: SweepTable) -> Iterator[Verdict]:
    """K* rises with the cost ratio."""
    for labels, best in best_clients(table).items():
        ratios = best.tried_again[:, -1] / best.tried_again[:, 0]
        rise = over_resamples(np.log(ratios), len(table.seeds))
        yield Verdict(
            claim="K* rises with the cost ratio",
            stated="as its square root (Theorem 2): tenfold",
            where=where(labels),
            finding=unless_cut(larger(rise), best.known),
            number=f"of the K tried, from ratio {best.ratios[0]:g} to {best.ratios[-1]:g}: "
            f"{best.tried[0]:g} to {best.tried[-1]:g}; by a + b / K: {best.by_law[0]:.1f} to "
            f"{best.by_law[-1]:.1f}",
        )


def best_clients_of_fewer(table: SweepTable) -> Iterator[Verdict]:
    """K* for N = 50 is below K* for N = 100."""
    by_count: dict[str, dict[Any, BestClients]] = {}
    for labels, best in best_clients(table).items():
        by_count.setdefault(dataset(labels), {})[dict(labels).get("clients.count")] = best
    for data, each in by_count.items():
        if {50, 100} <= set(each):
            more = (each[100].law_again / each[50].law_again).mean(1) - 1
            found_more = over_resamples(more, len(table.seeds))
            yield Verdict(
                claim="K* for N = 50 is below K* for N = 100",
                stated='"just below"; +41 % to N = 100 (Theorem 2)',
                where=data,
                finding=unless_cut(larger(found_more), each[50].known and each[100].known),
                number=f"by a + b / K, from N = 50 to 100, mean over ratios: {percent(found_more)}",
            )


def best_clients_by_theorem_2(table: SweepTable) -> Iterator[Verdict]:
    """K* is that of Theorem 2, as printed and exactly, with measured constants."""
    for labels, best in best_clients(table).items():
        for name, said in (("as printed", best.printed), ("exact", best.exact)):
            if said is not None:
                factor = float(np.median(said / best.by_law))
                close = 1 / CLOSE <= factor <= CLOSE
                yield Verdict(
                    claim=f"K* follows Theorem 2 ({name})",
                    stated="1 times",
                    where=where(labels),
                    finding=unless_cut(by_threshold(close), best.known),
                    number=f"with measured constants {said[0]:.3g} to {said[-1]:.3g}, the runs say "
                    f"{best.by_law[0]:.3g} to {best.by_law[-1]:.3g}: {factor:.2g} times",
                )
