"""Table of a link: rate against SNR."""

import numpy as np
from rich.console import Console

from fedcell.network.physics.discrete.curve import LinkCurve

from .console import print_table

LINES = 12  # of the table


def print_link(out: Console, curve: LinkCurve) -> None:
    """Print the rate by each law at some SNR."""
    some = np.linspace(0, len(curve.snr_db) - 1, LINES).round().astype(int)
    columns = {"SNR [dB]": [f"{snr:.1f}" for snr in curve.snr_db[some]]}
    for name, values in curve.efficiency.items():
        columns[name] = [f"{value:.3g}" for value in values[some]]
    print_table(out, "Rate [bit/s/Hz]", columns)
