"""What a network says of samples, as one compiled call."""

from pathlib import Path
from typing import Any

from numba import njit

from . import sgd
from .layer import FAST
from .sgd import forward, load


def compiled(stamp: str, cache: bool = True) -> Any:
    """The call, kept compiled on disk as those of sgd.py are."""
    cached: Any = njit(cache=cache, **FAST)

    @cached
    def predict(weights, images, scale, shift, index, batch, logits, layers, scratch):
        """The outputs of the last layer for each sample of `index`, to `logits`."""
        stamp  # noqa: B018
        arena, winner, packed = scratch[0], scratch[1], scratch[2]
        last = layers[-1]
        for begin in range(0, index.size, batch):
            some = index[begin : begin + batch]
            load(layers[0], images, some, scale, shift, arena)
            forward(layers, some.size, weights, arena, winner, packed)
            for n in range(some.size):
                logits[begin + n] = arena[
                    last.y + n * last.y_row : last.y + n * last.y_row + last.outputs
                ]

    return predict


_sources = sgd.sources() + Path(str(sgd.__file__)).read_text("utf-8")
try:
    predict = compiled(_sources)
except RuntimeError:  # numba found no folder to write to, as sgd.py says
    predict = compiled(_sources, cache=False)
