"""The constants of Theorem 1, measured along a training: each with its formula, how sure it
is, and whether the assumption that it belongs to is seen to hold."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.estimates import Estimate
from fedcell.core.showing import Showable
from fedcell.core.streams import Purpose, stream
from fedcell.core.types import Array, Ints
from fedcell.learning.custom import unguarded
from fedcell.learning.gradients import Probe, probe
from fedcell.learning.learner import Differentiable, KnownOptimum, Learner, warm_up
from fedcell.learning.setup import TrainingSetup, require_learning
from fedcell.network.draw import draw_fleet, draw_trace
from fedcell.network.participation import mean_loss_rate
from fedcell.planning.law.theory import Constants
from fedcell.scenario.target import Target, as_target
from fedcell.simulation.compute import Observer
from fedcell.simulation.state import State
from fedcell.simulation.train import at_target, train_rounds

RESAMPLED = 200
STEADY = 3.0  # a "constant" that changes by more than this along a training is doubted


@dataclass(frozen=True, kw_only=True)
class MeasuredConstant:
    """One constant. Its interval is a bootstrap over clients and their batches; it has no width
    where nothing was drawn."""

    symbol: str
    estimate: Estimate
    formula: str
    doubt: str = ""  # in what the assumption visibly fails

    def to_dict(self) -> dict[str, Any]:
        """Return plain values in one row."""
        row = {"symbol": self.symbol, **asdict(self.estimate)}
        return row | {"formula": self.formula, "doubt": self.doubt}


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredConstants:
    """Theorem 1's constants along a training."""

    constants: Constants
    estimates: Sequence[MeasuredConstant]
    rounds: Sequence[int]  # at which gradients were taken
    losses: Sequence[float]
    diversities: Sequence[float]  # lambda at each of them
    pl_ratios: Sequence[float]  # |grad f|^2 / (2 (f - f*)) at each of them

    @property
    def doubts(self) -> list[str]:
        """Return in what the assumptions visibly fail."""
        doubts = [estimate.doubt for estimate in self.estimates if estimate.doubt]
        if not self.losses[-1] < self.losses[0]:
            begin, end = self.losses[0], self.losses[-1]
            doubts.append(
                f"the loss goes from {begin:.3g} to {end:.3g}: this training does not learn"
            )
        return doubts


def estimate_constants(
    probes: Sequence[Probe], samples: Array, least_loss: float = 0.0
) -> MeasuredConstants:
    """Return the constants from gradients along a training, first to last; `samples` are D_j.

    f* is taken to be `least_loss`: a cross-entropy cannot be below 0, and what a long
    training reaches is not known before.
    """
    if len(probes) < 2 or not all(np.isfinite(p.square) for p in probes):
        raise BadInput("constants need finite gradients at two or more models of a training")
    if not all(p.clients.size for p in probes):
        raise BadInput("constants need the batches of some clients: probe(clients=...)")
    path = _Path.of(probes, samples, least_loss)
    points = _Points.of(probes, samples)
    asked = points.square.shape[1]
    C1, noise, factor = _noise(points, np.arange(asked))
    drawn = stream(Purpose.BOOTSTRAP, 1).integers(asked, size=(RESAMPLED, asked))
    resampled = [path.constants(*_noise(points, some)[:2]) for some in drawn]
    return MeasuredConstants(
        constants=path.constants(factor * C1, factor * noise),  # bounds, not means
        estimates=_estimates(path, path.constants(C1, noise), resampled, factor),
        rounds=[p.round for p in probes],
        losses=[p.loss for p in probes],
        diversities=path.lambdas.tolist(),
        pl_ratios=path.ratios.tolist(),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Path:
    """What gradients of all clients show along a training."""

    lambdas: Array  # at each model
    ratios: Array  # |grad f|^2 / (2 (f - f*)) at each model
    smoothness: float  # largest |grad f(w) - grad f(v)| / |w - v| of neighbours
    weighted: float  # largest |grad f|^2
    largest: float  # as well, or with clients of equal weight
    initial: float  # |grad f(w_0)|^2
    samples: float  # D, mean of D_j
    least_loss: float  # f*

    @classmethod
    def of(cls, probes: Sequence[Probe], samples: Array, least_loss: float) -> "_Path":
        secants = [s for a, b in pairwise(probes) if np.isfinite(s := _secant(a, b))]
        if not secants:
            raise BadInput("constants need models that differ: the training did not move")
        weighted = max(p.square for p in probes)
        return cls(
            lambdas=np.array([p.diversity for p in probes]),
            ratios=np.array([p.square / (2 * max(p.loss - least_loss, 1e-12)) for p in probes]),
            smoothness=max(secants),
            weighted=weighted,
            largest=max(weighted, max(p.even for p in probes)),
            initial=probes[0].square,
            samples=float(np.mean(samples[samples > 0])),
            least_loss=least_loss,
        )

    def constants(self, C1: float, noise: float) -> Constants:
        """Return all constants for a C_1, of which at least a trace as it divides, and sigma^2."""
        C1 = max(C1, 1e-12)
        lam = float(self.lambdas.max())
        G2 = C1 * self.largest + noise / lam  # (34), with equality where it is largest
        return Constants(
            smoothness=self.smoothness,
            convexity=float(self.ratios.min()),
            diversity=lam,
            gradients=G2,
            relative_noise=C1,
            noise=noise,
            ratio=G2 / (C1 * self.weighted),  # (35)
            initial=self.initial / G2,
            samples=self.samples,
        )

    def doubts(self, factor: float) -> dict[str, str]:
        """Return in what the assumptions visibly fail, by symbol."""
        lambdas, ratios = self.lambdas, self.ratios
        doubts, spread = {}, ratios.max() / ratios.min()
        if spread > STEADY:
            doubts["mu"] = (
                f"P-L is not confirmed with one mu: |grad f|^2 / (2 f) changes {spread:.3g}-fold "
                f"along the training ({ratios[0]:.3g} first, {ratios[-1]:.3g} last)"
            )
        if lambdas.max() > STEADY * lambdas.min():
            doubts["lambda"] = (
                f"lambda is no constant: it is {lambdas.min():.3g} to {lambdas.max():.3g} along "
                "the training"
            )
        if factor > STEADY:
            doubts["C_1"] = (
                f"as a bound, Assumption 3 needs C_1 and sigma^2 {factor:.3g} times as large for "
                "the noisiest client and model"
            )
        return doubts


def _estimates(
    path: _Path, fitted: Constants, resampled: Sequence[Constants], factor: float
) -> list[MeasuredConstant]:
    """Return each constant with its bootstrap interval, its formula and its doubt."""
    formulas = {  # symbol: field of Constants, and how it is measured
        "L": ("smoothness", "max |grad f(w) - grad f(v)| / |w - v| along the path"),
        "mu": ("convexity", f"min |grad f|^2 / (2 (f - {path.least_loss:g})) along the path"),
        "lambda": ("diversity", "max sum q_j |g_j|^2 / |sum q_j g_j|^2 along the path"),
        "C_1": ("relative_noise", "D_j E|g~ - g|^2 = C_1 |g|^2 + sigma^2, fitted"),
        "sigma^2": ("noise", "the same fit"),
        "G^2": ("gradients", "max C_1 |grad f|^2 + sigma^2 / lambda"),
        "phi_0": ("ratio", "G^2 / (C_1 max |grad f|^2)"),
        "f_0": ("initial", "|grad f(w_0)|^2 / G^2"),
    }
    doubts = path.doubts(factor)
    estimates = []
    for symbol, (field, formula) in formulas.items():
        low, high = np.quantile([getattr(each, field) for each in resampled], [0.05, 0.95])
        estimate = Estimate(getattr(fitted, field), float(low), float(high))
        doubt = doubts.get(symbol, "")
        estimates.append(
            MeasuredConstant(symbol=symbol, estimate=estimate, formula=formula, doubt=doubt)
        )
    return estimates


@dataclass(frozen=True, eq=False)
class _Points:
    """|g_j|^2 and D_j E|g~_j - g_j|^2, (model, client)."""

    square: Array
    variance: Array

    @classmethod
    def of(cls, probes: Sequence[Probe], samples: Array) -> "_Points":
        square = np.stack([p.squares[p.clients] for p in probes])
        variance = np.stack([samples[p.clients] * p.variances for p in probes])
        return cls(square, variance)


def _noise(points: _Points, some: Ints) -> tuple[float, float, float]:
    """Return C_1 and sigma^2 of some clients by relative least squares, and by how much the largest
    point is above. Clients whose batch is all their data have no noise and do not count."""
    from scipy.optimize import nnls

    square, variance = points.square[:, some].ravel(), points.variance[:, some].ravel()
    seen = variance > 0
    if not seen.any():
        return 0.0, 0.0, 1.0
    square, variance = square[seen], variance[seen]
    law = variance
    for _ in range(20):  # relative to the law, as it becomes
        columns = np.stack([square, np.ones(square.size)], 1)
        (C1, noise), _ = nnls(columns / law[:, None], variance / law)
        law = np.maximum(C1 * square + noise, 1e-300)
    return float(C1), float(noise), float((variance / law).max())


def _secant(a: Probe, b: Probe) -> float:
    moved = np.linalg.norm(b.model.astype(float) - a.model)
    turned = np.linalg.norm(b.gradient.astype(float) - a.gradient)
    return float(turned / moved) if moved > 0 else float("nan")


PROBED = (0, *(2**i for i in range(11)))  # rounds after which gradients are taken


@dataclass(frozen=True, kw_only=True)
class Theorem1Rounds:
    """Rounds by Theorem 1 with the measured constants, corrected and as printed."""

    corrected: float
    printed: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantsReport(Showable):
    """The constants of a training, the rounds of Theorem 1 with them, and the rounds it took.

    Attributes
    ----------
    measured : MeasuredConstants
        The constants, each with its interval, formula and doubt.
    theorem_1 : Theorem1Rounds or None
        None where there is no target above the least loss.
    rounds_taken : int or None
        To the target; None where it was not reached.
    """

    measured: MeasuredConstants
    target: Target | None
    theorem_1: Theorem1Rounds | None  # None where there is no target above the least loss
    rounds_taken: int | None  # to the target; None where it was not reached
    name: str = "scenario"

    @property
    def diversity(self) -> dict[str, float]:
        """Return lambda along the training: its maximum, 90 % quantile and median."""
        lambdas = np.array(self.measured.diversities)
        quantiles = {"p90": 0.9, "median": 0.5}
        values = {name: float(np.quantile(lambdas, q)) for name, q in quantiles.items()}
        return {"max": float(lambdas.max()), **values}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each constant."""
        return [constant.to_dict() for constant in self.measured.estimates]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as `fedcell constants --json` prints them."""
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
    observer: Observer = Observer(),  # noqa: B008
) -> ConstantsReport:
    """Train, and measure the constants of Theorem 1 along the way.

    Gradients of all clients are taken before training, after 1, 2, 4, 8, ... rounds, and at the
    end.

    Parameters
    ----------
    setup : TrainingSetup
        What is trained.
    rounds : int, optional
        Rounds at most; default: those of the scenario.
    target : Target or float, optional
        Where training ends.
    every : int, optional
        Rounds between two measurements, in place of powers of 2.
    clients, draws : int
        Clients that draw batches for C_1 and sigma^2, and batches of each.
    threads : int, optional
        Threads of the training; default: all processors.
    learner : Learner, optional
        Your own, for the scenario of `setup`; it must have the method `gradients`.
    observer : Observer, optional
        Its `compile` is used.
    """
    scenario, seed = setup.scenario, setup.seed
    rounds = scenario.rounds if rounds is None else rounds
    learning = require_learning(scenario) if learner is None else scenario.learning
    goal = as_target(target, hold=scenario.hold)
    if learner is None:
        learner = setup.learner(threads, test=goal is not None and goal.needs_test)
    if not isinstance(learner, Differentiable):
        raise BadInput("the learner has no method gradients, from which constants are measured")
    shown: Differentiable = learner
    with observer.compile():
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
