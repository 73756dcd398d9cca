"""Clip or leave out updates far outside the norm of the others."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedcell.core.types import Floats

Screen = Literal["none", "clip", "exclude"]
MIN_UPLOADS = 3  # for a median that means anything


def screened(
    uploads: Mapping[int, Floats], model: Floats, how: Screen, factor: float
) -> tuple[dict[int, Floats], dict[int, float]]:
    """Screen uploads by client: clip or exclude those with an update w_j - w more than `factor`
    times as long as the median update. Return the uploads that are kept, and for the screened
    clients the length of their update relative to the median."""
    kept = dict(uploads)
    if how == "none" or len(uploads) < MIN_UPLOADS:
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
            continue  # uploads that are not finite are left out later
        far[j] = norm / median
        if how == "exclude":
            del kept[j]
        else:
            step = (kept[j].astype(float) - model) * (factor * median / norm)
            kept[j] = (model + step).astype(np.float32)
    return kept, far
