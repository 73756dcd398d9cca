"""Updates far outside the others' norm: clipped or left out, where that is asked for."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedcell.core.types import Floats

Screen = Literal["none", "clip", "exclude"]
LEAST = 3  # uploads that have a median worth the name


def screened(
    uploads: Mapping[int, Floats], model: Floats, how: Screen, factor: float
) -> tuple[dict[int, Floats], dict[int, float]]:
    """Uploads by client, without or with shorter ones of those whose update w_j - w is more than
    `factor` times as long as the median update; and how many times as long these are."""
    kept = dict(uploads)
    if how == "none" or len(uploads) < LEAST:
        return kept, {}
    with np.errstate(all="ignore"):
        norms = {
            j: float(np.linalg.norm(w.astype(float) - model.astype(float)))
            for j, w in uploads.items()
        }
    finite = [norm for norm in norms.values() if np.isfinite(norm)]
    median = float(np.median(finite)) if finite else 0.0
    far: dict[int, float] = {}
    for j, norm in norms.items():
        if median == 0 or not np.isfinite(norm) or norm <= factor * median:
            continue  # what is not finite is left out anyway
        far[j] = norm / median
        if how == "exclude":
            del kept[j]
        else:
            step = (kept[j].astype(float) - model) * (factor * median / norm)
            kept[j] = (model + step).astype(np.float32)
    return kept, far
