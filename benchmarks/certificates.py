"""Are schedules proved also where uploads are short and devices far apart?

    python benchmarks/certificates.py            # or --json

Wild rounds: uploads down to 1e-24 of a training, clients free or held by their frequency
bounds at either end, alike or not. For each the gap that `certify` proves, and the gap by the
shares alone, (89), as the peer that it improves on.
"""

import argparse
import json

import numpy as np

from fedcell.network.certificate import certify, dual
from fedcell.network.round import price
from fedcell.policies import Optimal, Problem

TOO_FAR = 1e-9  # a gap above it proves too little


def wild_rounds(seed, rounds, clients):
    """Rounds of one size, drawn over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    each, whole = (rounds, clients), (rounds, 1)

    def orders(low, high, shape=each):
        return 10 ** rng.uniform(low, high, shape)

    def alike(values):
        """In some rounds all clients have the same."""
        return np.where(rng.random(whole) < 0.3, values[:, :1], values)

    cycles, middle = alike(orders(6, 10)), orders(8, 9.5)
    width = orders(0, 2, whole) ** rng.integers(0, 2, whole)
    low = alike(middle / width * orders(-0.3, 0))
    high = np.maximum(alike(middle * width), low)
    training = (cycles / high).max(1, keepdims=True)
    return Problem(
        band_time=training * orders(-12, 0, whole) * orders(-12, 0),
        upload_energy=np.ones(each),
        samples=cycles / 1e5,
        kappa=orders(-29, -25, whole) * orders(0, 2) * orders(-3, 3, whole),
        freq_min=low,
        freq_max=high,
        work=1e5,
        energy_weight=1.0,
    )


def gap_by_shares(problem, schedule):
    """The gap with prices read off the shares alone."""
    cost = price(problem, schedule)
    reached = cost.duration + problem.energy_weight * cost.compute_energy.mean(-1)
    prices = schedule.share**2 / problem.band_time  # (89)
    bound, _ = dual(problem, prices / prices.sum(-1, keepdims=True))
    return (reached - bound) / reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=1000, help="of 40 rounds for each size")
    asked = parser.parse_args()
    gaps, plain = [], []
    with np.errstate(all="ignore"):
        for clients in (1, 2, 5, 30):
            for seed in range(asked.seeds):
                problem = wild_rounds(seed, 40, clients)
                schedule = Optimal()(problem)
                gaps.append(certify(problem, schedule).gap)
                plain.append(gap_by_shares(problem, schedule))
    ours, theirs = np.concatenate(gaps), np.concatenate(plain)
    found = {
        "rounds": ours.size,
        "above": int((ours > TOO_FAR).sum()),
        "worst": float(ours.max()),
        "above_by_shares": int((theirs > TOO_FAR).sum()),
        "worst_by_shares": float(theirs.max()),
    }
    if asked.json:
        print(json.dumps(found, indent=1))
    else:
        print(f"{found['rounds']} wild rounds; gap above {TOO_FAR:g}, and the worst:")
        print(f"certify           {found['above']:6d}   {found['worst']:.1e}")
        print(f"by shares alone   {found['above_by_shares']:6d}   {found['worst_by_shares']:.1e}")


if __name__ == "__main__":
    main()
