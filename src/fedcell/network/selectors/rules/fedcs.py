"""FedCS: as many clients as fit into a deadline.

Source: Nishio and Yonetani (IEEE ICC 2019, arXiv 1804.08333), read in SelecEval (a606770): of the
asked clients, take the one that lengthens the round least, t_UL + max(0, t_UD - Theta), as long as
the round stays within the deadline; one that does not fit is passed over. Uploads are in turn, each
with the whole band, while others train: Theta grows by the upload and by what it waits for.

Here: t_UD is the time to train at the client's own frequency (26) and t_UL that of an upload alone
in the band, so that the choice does not depend on the allocation policy. The round is then priced
under that policy, which may split the band: with "even" it can take longer than the deadline. The
model is sent to all at once, so T_d does not depend on the choice; `overhead` is the sum of T_cs,
T_d and T_agg. K clients are asked, drawn uniformly.

The deadline is the user's. The default, median training plus K median uploads, is ours: no constant
of the paper was seen.

Elsewhere: SelecEval leaves out T_cs and T_agg and, with a fixed number of clients, goes beyond the
deadline; CSFL-simulator (8c37ce2) fills up to K with clients that do not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcell.core.types import Array, Ints
from fedcell.network.selectors.base import Known, Race, drawn_by, surely


@dataclass(frozen=True)
class FedCS:
    """FedCS.

    Parameters
    ----------
    deadline : float
        T_round [s]; 0: median training plus K median uploads.
    overhead : float
        Seconds of the round besides training and uploads.
    """

    deadline: float = 0.0
    overhead: float = 0.0

    reads: ClassVar[tuple[str, ...]] = ("compute_time", "upload_time")
    keeps: ClassVar[bool] = False

    def __call__(self, known: Known) -> Race:
        asked = drawn_by(known, np.ones(known.count), known.cohort, 1)
        train, send = known.compute_time, known.upload_time
        deadline = self.deadline
        if not deadline and known.may.any():
            typical = float(np.median(send[known.may]))
            deadline = float(np.median(train[known.may])) + known.cohort * typical
        return Race(surely(fitting(asked, train, send, deadline - self.overhead), known.count))


def fitting(asked: Ints, train: Array, send: Array, deadline: float) -> Ints:
    """Return the clients that the greedy rule takes, in the order of their uploads.

    Parameters
    ----------
    asked : ndarray of int
        Clients that may be taken.
    train, send : ndarray, shape (N,)
        Seconds of training, and of an upload in the whole band.
    deadline : float
        Seconds until the last upload has ended, at most.
    """
    left = [(float(train[client]), float(send[client]), int(client)) for client in asked]
    taken, elapsed = [], 0.0
    while left:
        end, place = min((max(t, elapsed) + u, i) for i, (t, u, _) in enumerate(left))
        client = left.pop(place)[2]
        if end <= deadline:
            taken.append(client)
            elapsed = end
    return np.array(taken, np.int64)


def makespan(order: Ints, train: Array, send: Array) -> float:
    """Return the end of the last of some uploads in turn, in this order [s]."""
    end = 0.0
    for client in order:
        end = max(end, float(train[client])) + float(send[client])
    return end
