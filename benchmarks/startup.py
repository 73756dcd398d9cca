"""CPU time of starting the command line: user and system seconds of the whole process.

Python keeps its compiled modules between runs, as it does for users.

Run with: python benchmarks/startup.py [RUNS]
Prints the minimum and the median of RUNS (10) processes for each command.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PILOT = Path(__file__).parent / "results" / "planning" / "pilot-digits.json"
COMMANDS = (
    ["--version"],
    ["--help"],
    ["plan", "--help"],
    ["plan", "digits", "--pilot", str(PILOT)],
)


def cpu_seconds(words: list[str], folder: str) -> float:
    """Run one command in a process of its own and return its CPU time [s]."""
    compiled = {"PYTHONPYCACHEPREFIX": folder}
    kept = {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "fedcell", *words],
        cwd=folder,
        capture_output=True,
        check=True,
        env=kept | compiled,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main(runs: int) -> None:
    """Measure each command and print a line for it."""
    print(f"CPU seconds (user + system), {runs} processes each\n  min  median  command")
    with tempfile.TemporaryDirectory() as folder:
        for words in COMMANDS:
            cpu_seconds(words, folder)  # writes what Python and numba cache
            times = [cpu_seconds(words, folder) for _ in range(runs)]
            shown = " ".join(Path(word).name if "/" in word else word for word in words)
            print(f"{min(times):5.2f}  {statistics.median(times):6.2f}  fedcell {shown}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
