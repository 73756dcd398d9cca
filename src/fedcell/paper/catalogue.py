"""The panels of the paper and the claims that each one tests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from fedcell.experiments.table import SweepTable

from .claims import best_clients, costs, rounds, theory
from .verdicts import Verdict

Claim = Callable[[SweepTable], Iterator[Verdict]]
K, STEPS = "plan.cohort", "plan.local_steps"


@dataclass(frozen=True)
class Panel:
    """The claims of a panel, and whether the constants of Theorem 1 are measured for it."""

    claims: tuple[Claim, ...]
    constants: bool = False


FIG_5 = Panel(
    (
        best_clients.best_clients_rise,
        best_clients.best_clients_of_fewer,
        best_clients.best_clients_by_theorem_2,
    ),
    constants=True,
)


def _fig_6(axis: str, by: str, claim: str) -> Panel:
    return Panel(
        (
            partial(costs.cost_in_proportion, axis=axis, by=by, claim=claim),
            partial(costs.proposed_below_even, axis=axis),
            partial(costs.spread_is_handled, axis=axis),
        )
    )


PANELS: Mapping[str, Panel] = {
    "fig3a": Panel(
        (
            rounds.falls_as_one_over_k,
            rounds.inverse_to_k,
            rounds.fewer_clients_need_fewer_rounds,
        )
    ),
    "fig3b": Panel((rounds.little_effect_of_k, rounds.little_effect_of_d)),
    "fig3c": Panel(
        (
            rounds.minimum_in_steps,
            partial(rounds.insensitive, axis=STEPS, claim="MNIST is not sensitive to E_l"),
        )
    ),
    "fig3c-long": Panel((rounds.minimum_in_steps,)),
    "fig4a": Panel(
        (
            rounds.rises_with_losses,
            partial(
                rounds.less_sensitive,
                axis="cell.loss_rate",
                claim="MNIST is less sensitive to gamma",
            ),
        )
    ),
    "fig4b": Panel((rounds.compensated_by_k,)),
    "fig5a": FIG_5,
    "fig5b": FIG_5,
    "fig6a": _fig_6(K, "upload_cost", "C_u = K C_u0"),
    "fig6b": _fig_6(STEPS, "compute_cost", "C_n = E_l C_n0"),
    "skew": Panel((theory.effect_grows_with_diversity,), constants=True),
    "theory": Panel((theory.pl_is_visible, theory.bound_fits), constants=True),
    "laws": Panel((theory.laws_on_left_out_settings,)),
}

REGIMES = ("two-shards", "falling-rate")  # of panels/regimes, in place of the panels' own choices


def panel_verdicts(panel: str, table: SweepTable) -> list[Verdict]:
    """Return the verdicts of a panel on the claims of the paper.

    Parameters
    ----------
    panel : str
        One of `PANELS`.
    table : SweepTable
        The runs of the panel.
    """
    return [verdict for claim in PANELS[panel].claims for verdict in claim(table)]
