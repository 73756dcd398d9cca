"""CPU time of rounds and plans in the shipped worlds with radios and devices of data sheets.

    python benchmarks/radio_worlds.py [REPEATS]

Per world, the least of REPEATS (3) measurements, after imports: 10,000 rounds of K = 10 drawn and
priced under three policies, and a plan for N = 1000 clients from the same law of rounds.
"""

import sys
import time
import warnings

import scipy.special  # noqa: F401  # its import takes as long as a plan

from fedcell import load_scenario, plan_training
from fedcell.core.errors import FedcellWarning
from fedcell.network import simulate_network
from fedcell.planning import GivenLaw

WORLDS = ("phones-5g", "factory", "meters", "pis-wifi")
POLICIES = ("even", "optimal-staged", "optimal")
LAW = GivenLaw(mixing=200, drift=0.1, start=200, floor=20)
ROUNDS, COHORT, CLIENTS, SAMPLES = 10_000, 10, 1000, 200


def least(call, repeats):
    """Return the least CPU time of some calls [s]."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        taken.append(time.process_time() - begin)
    return min(taken)


def main(repeats):
    """Print a row for each world."""
    print(f"| world | {' | '.join(POLICIES)} | plan, N = {CLIENTS} |")
    print("|---|" + "---|" * (len(POLICIES) + 1))
    for name in WORLDS:
        world = load_scenario(name).using(learning=None, clients={"samples": SAMPLES})
        drawn = world.using(plan={"cohort": COHORT})
        many = world.using(clients={"count": CLIENTS})
        seconds = [
            least(lambda w=drawn, policy=policy: simulate_network(w, policy, ROUNDS), repeats)
            for policy in POLICIES
        ]
        seconds.append(least(lambda many=many: plan_training(many, LAW), repeats))
        print(f"| {name} | {' | '.join(f'{s:.2f} s' for s in seconds)} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", FedcellWarning)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
