"""What is learnt and how, as a user declares it: Section II-A and V-A."""

from typing import ClassVar, Literal

from fedcell.core.schema import Count, Fraction, NotNegative, Positive, Table, Text
from fedcell.learning.neural import MODELS, Layers
from fedcell.learning.partition import Split

QUADRATICS = ("quadratic-common", "quadratic-apart")


class Quadratic(Table, frozen=True, kw_only=True):
    """f_j(w) = c_j |w - h_j|^2 / 2 with noisy gradients (DECISIONS.md, 17)."""

    table_name: ClassVar[str] = "learning.quadratic"

    dimension: Count = 20
    curvature_min: Positive = 0.5  # mu_j: c_j are spread evenly from here
    curvature_max: Positive = 2.0  # L: to here
    distance: Positive = 1.0  # of the h_j from the origin, for quadratic-apart
    noise: NotNegative = 0.1  # of a gradient of one sample, standard deviation per coordinate

    def faults(self) -> list[str]:
        if self.curvature_min > self.curvature_max:
            return [f"curvature_min = {self.curvature_min:g} is above curvature_max"]
        return []


class Learning(Table, frozen=True, kw_only=True):
    """Data, its partition, the model and local SGD. The batch is task.batch_size."""

    table_name: ClassVar[str] = "learning"

    dataset: Text = "digits"  # or mnist, fashion-mnist, cifar10, or the path of an .npz
    partition: Split = Split()
    model: Literal[
        "cnn-small", "cnn-mcmahan", "mlp", "logistic", "quadratic-common", "quadratic-apart"
    ] = "mlp"
    layers: Layers | None = None  # a network of your own, instead of model
    quadratic: Quadratic = Quadratic()
    rate: Positive = 0.1  # eta of the first step
    rate_decay: NotNegative = (
        0.0  # eta_t = rate / (1 + rate_decay t), t in local steps; 0: constant
    )
    momentum: Fraction = 0.0  # of the local steps, from zero in each round
    aggregation: Literal["unbiased", "mean", "normalised"] | None = None  # see DECISIONS.md, 13
    target: Positive | None = None  # training loss (2) at which a run may stop
    evaluate_every: Count = 1  # rounds
    evaluate_samples: Count = 5000  # about so many, to train and to test; a fixed part, or all

    @property
    def architecture(self) -> Layers:
        return MODELS[self.model] if self.layers is None else self.layers

    @property
    def analytic(self) -> bool:
        """A quadratic, which needs no data."""
        return self.layers is None and self.model in QUADRATICS
