"""Pack the trainings of experiments/store for the repository, and count them and their hours.

    python experiments/pack.py

results/store.tar.xz depends only on the trainings; results/store.json has their number and the
hours of one processor that they took, each counted once, however many panels share it.
"""

import json
import tarfile
from pathlib import Path

from fedcell.experiments.store import Store

HERE = Path(__file__).parent
STORE, RESULTS = HERE / "store", HERE / "results"


def bare(info):
    """Drop owner and time, which differ between machines."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


def counted(folder):
    """Count the trainings of a store, and the hours that they took."""
    keys = {file.stem for file in folder.glob("??/*.json") if "-" not in file.stem}
    return {"trainings": len(keys), "hours": round(Store(folder).seconds(keys) / 3600, 1)}


if __name__ == "__main__":
    with tarfile.open(RESULTS / "store.tar.xz", "w:xz", preset=9) as archive:
        for file in sorted(STORE.rglob("*")):
            archive.add(file, f"store/{file.relative_to(STORE)}", recursive=False, filter=bare)
    (RESULTS / "store.json").write_text(json.dumps(counted(STORE)) + "\n")
