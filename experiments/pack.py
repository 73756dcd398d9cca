"""Packs the trainings of experiments/store for the repository, and counts what they took.

    python experiments/pack.py

results/store.tar.xz is the same for the same trainings; results/store.json has how many they are,
and the hours of one processor that they took, each once, however many panels share it.
"""

import json
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
STORE, RESULTS = HERE / "store", HERE / "results"


def bare(info):
    """Without what differs between machines and days."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def counted():
    """How many trainings there are, and what they took."""
    lines = [line.split(",") for line in (STORE / "times.csv").read_text().splitlines()]
    longest = {key: float(seconds) for key, _, seconds in lines}  # the last of each
    keys = {file.stem for file in STORE.glob("??/*.json") if "-" not in file.stem}
    hours = sum(seconds for key, seconds in longest.items() if key in keys) / 3600
    return {"trainings": len(keys), "hours": round(hours, 1)}


if __name__ == "__main__":
    with tarfile.open(RESULTS / "store.tar.xz", "w:xz", preset=9) as archive:
        for file in sorted(STORE.rglob("*")):
            archive.add(file, f"store/{file.relative_to(STORE)}", recursive=False, filter=bare)
    (RESULTS / "store.json").write_text(json.dumps(counted()) + "\n")
