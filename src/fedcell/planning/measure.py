"""Theorem 1's constants along a real training, beside the rounds that it really took."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput, printable
from fedcell.core.showing import Showable
from fedcell.core.targets import Target, as_target
from fedcell.learning.gradients import Probe, probe
from fedcell.learning.learner import Differentiable, KnownOptimum, Learner, warm_up
from fedcell.learning.own import unguarded
from fedcell.learning.setup import TrainingSetup, require_learning
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.participation import mean_loss_rate
from fedcell.simulation.history import State
from fedcell.simulation.run import Progress
from fedcell.simulation.train import at_target, train_rounds

from .constants import MeasuredConstants, estimate_constants

PROBED = (0, *(2**i for i in range(11)))  # rounds after which gradients are taken


@dataclass(frozen=True, kw_only=True)
class Theorem1Rounds:
    """Rounds that Theorem 1 says with the measured constants."""

    corrected: float
    printed: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantsReport(Showable):
    """The constants of a training, what Theorem 1 makes of them, and what it really took."""

    name: str  # of the scenario
    measured: MeasuredConstants
    target: Target | None
    theorem_1: Theorem1Rounds | None  # None where there is no target above the least loss
    rounds_taken: int | None  # to the target; None where it was not reached

    @property
    def diversity(self) -> dict[str, float]:
        """lambda along the training: the most, its 90 % quantile and its median."""
        lambdas = np.array(self.measured.diversities)
        quantiles = {"p90": 0.9, "median": 0.5}
        values = {name: float(np.quantile(lambdas, q)) for name, q in quantiles.items()}
        return {"max": float(lambdas.max()), **values}

    def rows(self) -> list[dict[str, Any]]:
        """One row for each constant."""
        return [constant.to_dict() for constant in self.measured.estimates]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `fedcell constants --json` prints them."""
        measured = self.measured
        return {
            "constants": asdict(measured.constants),
            "estimates": self.rows(),
            "rounds": list(measured.rounds),
            "losses": list(measured.losses),
            "lambdas": list(measured.diversities),
            "pl_ratios": list(measured.pl_ratios),
            "lambda": self.diversity,
            "doubts": measured.doubts,
            "target": None if self.target is None else self.target.value,
            "theorem_1": None if self.theorem_1 is None else asdict(self.theorem_1),
            "rounds_taken": self.rounds_taken,
        }

    def __repr__(self) -> str:
        values = ", ".join(f"{c.symbol} {c.estimate.value:.3g}" for c in self.measured.estimates)
        return f"<ConstantsReport: {values}>"


def measure_constants(
    setup: TrainingSetup,
    rounds: int | None = None,
    target: Target | float | None = None,
    *,
    every: int | None = None,
    clients: int = 10,
    draws: int = 8,
    threads: int | None = None,
    learner: Learner | None = None,
    name: str = "scenario",
    progress: Progress = Progress(),  # noqa: B008
) -> ConstantsReport:
    """Trains for at most `rounds` rounds or to a `target`, and measures along the way.

    Gradients of all clients are taken before training, after 1, 2, 4, 8, ... rounds or `every`
    so many, and at the end; `clients` of them draw `draws` batches each, for C_1 and sigma^2.
    A `learner` of your own, for the scenario of `setup`, must show its gradients.
    """
    scenario, seed = setup.scenario, setup.seed
    rounds = scenario.rounds if rounds is None else rounds
    learning = require_learning(scenario) if learner is None else scenario.learning
    goal = as_target(target, hold=scenario.hold)
    if learner is None:
        learner = setup.learner(threads, test=goal is not None and goal.accuracy is not None)
    if not isinstance(learner, Differentiable):
        raise BadInput("the learner has no method gradients, from which constants are measured")
    shown: Differentiable = learner
    with progress.compile():
        warm_up(shown)
    fleet = draw_fleet(scenario, seed)
    trace = draw_trace(scenario, fleet, rounds, seed)
    probes: list[Probe] = []

    def take(state: State) -> Probe:
        batch = scenario.task.batch_size
        return probe(shown, state.model, state.rounds, batch, clients, draws)

    rules = [at_target(goal, learning.evaluate_every if learning else 1)]
    for state in train_rounds(scenario, shown, fleet, trace, stop=rules):
        if state.rounds % every == 0 if every else state.rounds in PROBED:
            probes.append(take(state))
    if probes[-1].round < state.rounds:
        probes.append(take(state))
    itself = unguarded(shown)
    least = itself.least_loss if isinstance(itself, KnownOptimum) else 0.0
    measured = estimate_constants(probes, np.asarray(shown.sizes, float), least)
    reached = None if goal is None else goal.reached_by(state.history.scored())
    return ConstantsReport(
        name=printable(name),
        measured=measured,
        target=goal,
        theorem_1=_theorem_1(setup, measured, None if goal is None else goal.loss, least),
        rounds_taken=reached,
    )


def _theorem_1(
    setup: TrainingSetup, measured: MeasuredConstants, target: float | None, least: float
) -> Theorem1Rounds | None:
    if target is None or target <= least:
        return None
    scenario = setup.scenario
    where = scenario.plan.cohort, scenario.mean_local_steps

    def rounds(printed: bool) -> float:
        law = measured.constants.law(target - least, printed=printed)
        return float(law.rounds(*where, mean_loss_rate(scenario), scenario.cell.loss_kind))

    return Theorem1Rounds(corrected=rounds(False), printed=rounds(True))
