"""What a round takes in Flower's simulation under its own FedAvg loop and under ours, in one run.

    python benchmarks/flower.py [--clients 200] [--cohort 20] [--rounds 12] [--out FILE]

Needs the extra `flower`. The devices give the model back as it is, so what is measured is the way
there and back, and what the server does. The goal: less than 50 ms a round and 5 ms a client more.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from fedcell.deploy.local.federation import CONNECTION, LocalFederation, program

APP = Path(__file__).parent / "flower_app"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"clients": 200, "cohort": 20, "rounds": 12, "repeats": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--out", type=Path, help="keep the seconds in this file")
    asked = vars(parser.parse_args())
    out = asked.pop("out")
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        with LocalFederation(Path(folder)) as federation:
            federation.start_superlink(simulation=True)
            config = " ".join(f"{name}={value}" for name, value in asked.items())
            nodes = f"num-supernodes={asked['clients']} client-resources-num-cpus=1"
            command = [program("flwr"), "run", str(APP), CONNECTION]
            command += ["--run-config", f'{config} result="{result}"']
            federation.call("run", [*command, "--federation-config", nodes])
            federation.wait(result, 1800)
        taken = json.loads(result.read_text())
    if out is not None:
        out.write_text(json.dumps({**asked, "seconds": taken}, indent=1) + "\n")
    print("\n".join(told(asked, taken)))


def told(asked: Mapping[str, int], taken: Mapping[str, Sequence[float]]) -> list[str]:
    """What was measured, a line each."""
    lines = [f"{asked['clients']} clients, {asked['cohort']} a round, model of 21,840 floats"]
    for name, seconds in taken.items():
        lines.append(
            f"{name}: minimum {min(seconds):.3f} s, median {median(seconds):.3f} s of "
            f"{len(seconds)} rounds"
        )
    for name, pick in {"minimum": min, "median": median}.items():
        more = pick(taken["fedcell"]) - pick(taken["flower"])
        ratio = pick(taken["fedcell"]) / pick(taken["flower"])
        lines.append(
            f"{name}: ours takes {1e3 * more:+.0f} ms a round, "
            f"{1e3 * more / asked['cohort']:+.1f} ms a client; ratio {ratio:.2f}"
        )
    return lines


if __name__ == "__main__":
    main()
