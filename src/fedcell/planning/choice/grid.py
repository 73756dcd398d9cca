"""What training to the target would take, for every K and E_l: the law of rounds times what a
round costs. (12)"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcell.core.errors import BadInput, NoPlan
from fedcell.core.types import Array, Bools, Ints
from fedcell.network.draw import draw_fleet
from fedcell.network.participation import mean_loss_rate
from fedcell.network.policies.names import PolicyLike
from fedcell.network.trace import Fleet
from fedcell.planning.costs.devices import DeviceCosts, price_devices, upload_moments
from fedcell.planning.costs.memory import remembered
from fedcell.planning.costs.rounds import MEASURES, RoundCosts, price_round_grid
from fedcell.planning.law.base import LossKind, Number, RoundsLaw
from fedcell.planning.setting import Setting
from fedcell.scenario.scenario import Scenario

MAX_ROUNDS = 1e9
EVERY = 1000  # K, or E_l, up to which all whole numbers are tried; above, steps of 1 %
MOST_STEPS = 200  # local steps that are evaluated with a given law


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanGrid:
    """Expected totals to the target over all (K, E_l) that are tried."""

    scenario: Scenario
    policy: PolicyLike
    seed: int
    law: RoundsLaw
    round_costs: RoundCosts
    cohorts: Ints
    steps: Ints
    rounds: Array  # (K, E_l)
    candidates: Bools  # (K, E_l) that may be planned: all, or those that were tried
    cost: Array  # (12) [s]
    duration: Array  # [s]
    energy: Array  # of all clients [J]
    fleet: Fleet
    of_pilot: bool = False  # whether the candidates are settings that a pilot tried

    @cached_property
    def loss_rate(self) -> float:
        """gamma."""
        return mean_loss_rate(self.scenario)

    @property
    def kind(self) -> LossKind:
        """How uploads are lost."""
        return self.scenario.cell.loss_kind

    def spread(self, measure: str, cohort: Number, steps: Number) -> Array:
        """Standard deviation of the logarithm of what a run takes."""
        k, e = np.asarray(cohort), np.asarray(steps)
        rounds = self.law.predict(k, e, self.loss_rate, kind=self.kind)[0]
        sd, se = (
            f(measure, k, e) for f in (self.round_costs.relative_sd, self.round_costs.relative_se)
        )
        unsure = self.law.spread(k, e, self.loss_rate, self.kind)
        return np.sqrt(unsure**2 + sd**2 / np.maximum(rounds, 1.0) + se**2)

    @cached_property
    def devices(self) -> DeviceCosts:
        """What a round takes from the clients that matter to limits."""
        nodes, world = self.round_costs, self.scenario
        at = (self.seed, nodes.cohorts.tobytes(), nodes.steps.tobytes())
        return remembered(
            *("device nodes", world.with_plan(1, 1), self.policy, at),
            lambda: price_devices(
                world, self.policy, nodes, self.seed, self.fleet, self.upload_moments
            ),
        )

    @cached_property
    def upload_moments(self) -> tuple[Array, Array]:
        """Of the energy of an upload of each client, whatever K and E_l."""
        return upload_moments(self.scenario, self.fleet)

    def surface(self, fine: int = 60) -> "PlanSurface":
        """Return expected totals over all K and E_l of the range, tried or not, at `fine` values of
        each, evenly over the logarithm."""
        k, e = (
            np.unique(np.rint(np.geomspace(v[0], v[-1], fine)).astype(np.int64))
            for v in (self.cohorts, self.steps)
        )
        kk, ee = np.meshgrid(k, e, indexing="ij")
        rounds = np.maximum(self.law.predict(kk, ee, self.loss_rate, kind=self.kind)[0], 1.0)
        each = {name: rounds * getattr(self.round_costs, name)(kk, ee) for name in MEASURES}
        return PlanSurface(cohorts=k, steps=e, rounds=rounds, **each)

    def at(self, cohort: int, steps: int) -> tuple[int, int]:
        """The place of a K and an E_l, or of the nearest that are tried."""
        return int(np.abs(self.cohorts - cohort).argmin()), int(np.abs(self.steps - steps).argmin())


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanSurface:
    """Expected totals to the target over K and E_l, finely enough to be drawn: (K, E_l)."""

    cohorts: Ints
    steps: Ints
    rounds: Array
    cost: Array  # (12) [s]
    duration: Array  # [s]
    energy: Array  # of all clients [J]


def evaluate_plans(
    scenario: Scenario,
    law: RoundsLaw,
    policy: PolicyLike = "optimal",
    most_steps: int = MOST_STEPS,
    seed: int = 0,
    tried: Sequence[Setting] | None = None,
    also: Sequence[int] = (),
    fleet: Fleet | None = None,
) -> PlanGrid:
    """Rounds, duration, energy and cost of every plan; or of those K and E_l that were `tried`.
    `also` has K that are evaluated even where not all are; `fleet` is the scenario's, where it is
    drawn already."""
    if most_steps < 1:
        raise BadInput(f"most_steps = {most_steps}: expected a whole number above 0")
    scenario.require_sizes()
    fleet = draw_fleet(scenario, seed) if fleet is None else fleet
    round_costs = price_round_grid(scenario, policy, most_steps, seed, fleet)
    if tried is None:
        cohorts, steps = _whole(int(round_costs.cohorts[-1]), also), _whole(most_steps)
        candidates = np.ones((cohorts.size, steps.size), bool)
    else:
        cohorts, steps = (
            np.unique([getattr(s, n) for s in tried]) for n in ("cohort", "local_steps")
        )
        candidates = np.zeros((cohorts.size, steps.size), bool)
        for s in tried:
            candidates[
                np.searchsorted(cohorts, s.cohort), np.searchsorted(steps, s.local_steps)
            ] = True
    k, e = np.meshgrid(cohorts, steps, indexing="ij")
    gamma, kind = mean_loss_rate(scenario), scenario.cell.loss_kind
    g = np.maximum(law.predict(k, e, gamma, kind=kind)[0], 1.0)
    if not np.isfinite(g[candidates]).any():
        raise NoPlan("no setting that was tried gets to the target here")
    if (least := float(g[candidates].min())) > MAX_ROUNDS:
        raise BadInput(f"the law says {least:.3g} rounds at least: check its coefficients")
    each = cohorts[:, None], steps[None, :]
    return PlanGrid(
        scenario=scenario,
        policy=policy,
        seed=seed,
        law=law,
        round_costs=round_costs,
        cohorts=cohorts,
        steps=steps,
        rounds=g,
        candidates=candidates,
        cost=np.asarray(g * round_costs.cost(*each)),  # (12)
        duration=np.asarray(g * round_costs.duration(*each)),
        energy=np.asarray(g * round_costs.energy(*each)),
        fleet=fleet,
        of_pilot=tried is not None,
    )


def _whole(most: int, also: Sequence[int] = ()) -> Ints:
    if most <= EVERY:
        return np.arange(1, most + 1)
    beyond = np.geomspace(EVERY, most, int(np.log(most / EVERY) / 0.01) + 2)
    parts = [np.arange(1, EVERY), np.rint(beyond).astype(np.int64), np.array(also, np.int64)]
    return np.unique(np.concatenate(parts))
