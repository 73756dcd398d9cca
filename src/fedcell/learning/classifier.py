"""A trained network with its weights and the scale of its inputs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedcell.core.errors import BadInput
from fedcell.core.types import Floats, Ints

from .data.checks import as_images, as_labels, as_numbers, image_of
from .neural import NeuralNetwork, Workspace

BATCH = 64  # samples that are evaluated at a time


@dataclass(frozen=True)
class Evaluation:
    """Loss and accuracy of a model on labelled samples."""

    loss: float  # mean cross-entropy
    accuracy: float
    samples: int


@dataclass(frozen=True, eq=False)
class Classifier:
    """A network with its weights and the standardisation of its inputs.

    Attributes
    ----------
    network : NeuralNetwork
        The layers.
    weights : array of float32, (parameter,)
        Weights and biases, layer by layer.
    scale, shift : array of float32, (channel,)
        The network is fed x * scale + shift.
    kind : {"uint8", "float32"}
        The type of the samples that it was trained on.
    """

    network: NeuralNetwork
    weights: Floats
    scale: Floats
    shift: Floats
    kind: str

    def __post_init__(self) -> None:
        """Check the shapes: the kernels check nothing."""
        channels = self.network.image[2:]
        if self.weights.shape != (self.network.size,):
            raise BadInput(f"the network has {self.network.size} weights, not {self.weights.shape}")
        if self.scale.shape != channels or self.shift.shape != channels:
            raise BadInput(f"scale and shift have one number for each of {channels[0]} channels")

    def __repr__(self) -> str:
        return f"<Classifier of {self.kind} samples: {self.network!r}>"

    def logits(self, x: Any) -> Floats:
        """Return the outputs of the last layer.

        Parameters
        ----------
        x : array, (sample, height, width, channel)
            Or without channel, or (sample, feature); of the type that the model was trained on.
            Bytes are standardised here.

        Returns
        -------
        array of float32, (sample, class)
        """
        from .kernels.predict import predict

        images = self._images(x)
        height, width, channels = self.network.image
        rows = images.reshape(len(images), height, width * channels)
        standard = [np.tile(values, width) for values in (self.scale, self.shift)]
        for values in (rows, *standard):
            values.flags.writeable = False  # as the kernels are compiled for
        found = np.empty((len(rows), self.network.shapes[-1].outputs), np.float32)
        space = self._space
        space.weights[:] = self.weights
        ends = space.layers, space.scratch
        predict(space.weights, rows, *standard, np.arange(len(rows)), BATCH, found, *ends)
        return found

    @cached_property
    def _space(self) -> Workspace:
        return Workspace(self.network, BATCH)

    def _images(self, x: Any) -> Any:
        given = as_numbers("x", x)
        if given.ndim not in (2, 3, 4) or image_of(given) != self.network.image:
            raise BadInput(f"x has shape {given.shape}: expected samples of {self.network.image}")
        if (given.dtype == np.uint8) != (self.kind == "uint8"):
            raise BadInput(
                f"x holds {given.dtype}, and the model was trained on {self.kind}: give it as such"
            )
        return as_images("x", given).view()

    def predict(self, x: Any) -> Ints:
        """Return the class of each sample; x is as in `logits`."""
        return np.asarray(self.logits(x).argmax(1))

    def evaluate(self, x: Any, y: Any) -> Evaluation:
        """Return loss and accuracy on labelled samples; x is as in `logits`."""
        labels, logits = as_labels("y", as_numbers("y", y)), self.logits(x).astype(float)
        if labels.size != len(logits) or labels.max() >= logits.shape[1]:
            raise BadInput(
                f"y has {labels.size} labels up to {labels.max()}: expected {len(logits)} below "
                f"{logits.shape[1]}"
            )
        top, own = logits.max(1), logits[np.arange(labels.size), labels]
        # In this order: beside a huge logit the logarithm would be rounded away.
        losses = np.log(np.exp(logits - top[:, None]).sum(1)) + (top - own)
        hits = logits.argmax(1) == labels
        return Evaluation(float(losses.mean()), float(hits.mean()), labels.size)
