"""Rounds of all kinds, for properties that every schedule has."""

import numpy as np
from hypothesis import strategies as st

from fedcell.policies import Problem


@st.composite
def problems(draw: st.DrawFn, max_clients: int = 8, rounds: int = 2, bounds: str = "any"):
    """Rounds with clients alike or very different, free or held by their frequency bounds."""
    k = draw(st.integers(1, max_clients))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    apart = draw(st.sampled_from([0.0, 0.5, 6.0]))  # orders of magnitude around the middle
    width = draw(st.sampled_from([0.0, 0.1, 1.0, 4.0] if bounds == "any" else [6.0]))

    def around(middle: float, orders: float) -> np.ndarray:
        return middle * 10 ** rng.uniform(-orders, orders, (rounds, k))

    freq = around(3e8, 0.7 if bounds == "any" else 0.0)
    return Problem(
        band_time=around(draw(st.sampled_from([1e-6, 1e-3, 1.0, 50.0])), apart),
        upload_energy=around(1.0, 1.0),
        samples=around(500, 0.5),
        kappa=around(5e-27, 0.5),
        freq_min=freq / 10**width,
        freq_max=freq * 10**width,
        work=1e7,
        energy_weight=draw(st.sampled_from([0.0, 0.01, 1.0, 30.0] if bounds == "any" else [1.0])),
    )
