"""How fast the studio answers in a real browser: from a slider's event to the pixels.

Needs selenium and a Chromium (`make test-studio` installs selenium). The pilot is that of
benchmarks/results/planning. Each number is the median over changes, in a browser that was started
again several times; the least is that of the fastest change.

    python benchmarks/studio.py [--starts 3] [--changes 12] [--no-memory]
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.browsers import Page, browser  # noqa: E402

PILOT = ROOT / "benchmarks/results/planning/pilot-digits.json"
SLIDERS = {
    "loss rate": "cell.loss_rate",
    "deadline": "deadline",
    "energy budget": "energy",
    "band": "cell.bandwidth",
    "power": "clients.power",
}
GOALS = {"loss rate": 60, "deadline": 60, "band": 500, "power": 500, "first load": 1000}  # [ms]
MANY = 1000  # changes, over which the memory must not grow

# A change of a slider, timed from its event until the frame in which numbers and surface are new.
CHANGE = """
const [id, step, done] = arguments, slider = document.getElementById(`c-${id}`);
const totals = document.getElementById('totals'), port = new MessageChannel();
let begin = 0;
const seen = new MutationObserver(() => {
  if (document.getElementById('chip').textContent !== 'exact') return;
  seen.disconnect();
  port.port1.onmessage = () => done(performance.now() - begin);
  requestAnimationFrame(() => port.port2.postMessage(0));  // after the frame is painted
});
seen.observe(totals, {childList: true});
const now = Number(slider.value) + step;
slider.value = now > 1000 || now < 0 ? Number(slider.value) - step : now;
const start = () => {  // on a page at rest
  const answer = document.getElementById('answer');
  if (answer.getAttribute('aria-busy') === 'true') return setTimeout(start, 5);
  begin = performance.now();
  slider.dispatchEvent(new Event('input', {bubbles: true}));
};
start();
"""
LOADED = """
const done = arguments[0], look = () => document.getElementById('chip')?.textContent === 'exact'
  ? requestAnimationFrame(() => done(performance.now())) : setTimeout(look, 1);
look();
"""


def start(folder: str) -> tuple[subprocess.Popen[str], str]:
    """Start the studio of digits with its pilot; return it and its address."""
    words = ["studio", "digits", "--pilot", str(PILOT), "--no-browser", "--port", "0"]
    command = [sys.executable, "-u", "-m", "fedcell", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


def resident(pid: int) -> float:
    """Return the memory of a process [MB]."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def heap(page: Page) -> float:
    """Return the memory of the page's objects, after a collection [MB]."""
    page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    used = page.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"]
    return float(used) / 1e6


def timed(page: Page, name: str, count: int) -> list[float]:
    """Return the times of some changes of a slider [ms], the first left out."""
    step = -2 if name in ("deadline", "energy budget") else 7  # small: a plan must exist
    times = [
        page.driver.execute_async_script(CHANGE, SLIDERS[name], step) for _ in range(count + 1)
    ]
    page.click(f"[data-id='{SLIDERS[name]}'] button")
    page.settled()
    return times[1:]


def grown(page: Page, server: subprocess.Popen[str]) -> dict[str, list[float]]:
    """Return memory of server and page after a tenth of many changes, and after all of them."""
    found: dict[str, list[float]] = {"server": [], "page": []}
    for part in (MANY // 10, MANY - MANY // 10):
        for i in range(part):
            name = ("band", "loss rate", "power")[i % 3]
            page.driver.execute_async_script(CHANGE, SLIDERS[name], 3 if (i // 40) % 2 else -3)
        found["server"].append(resident(server.pid))
        found["page"].append(heap(page))
    return found


def measured(starts: int, changes: int, with_memory: bool) -> dict[str, Any]:
    """Return the times by name, and the memory."""
    times: dict[str, list[float]] = {"first load": []} | {name: [] for name in SLIDERS}
    memory: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for again in range(starts):
            server, address = start(folder)
            try:
                with browser(Path(folder)) as page:
                    page.driver.set_script_timeout(60)
                    page.driver.get(address)
                    times["first load"].append(page.driver.execute_async_script(LOADED))
                    page.settled()
                    for name in SLIDERS:
                        times[name] += timed(page, name, changes)
                    if again == starts - 1 and with_memory:
                        memory = grown(page, server)
            finally:
                server.terminate()
                server.wait()
    return {"times": times, "memory": memory}


def main() -> None:
    """Print the table, and write the numbers beside other results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--changes", type=int, default=12)
    parser.add_argument("--no-memory", action="store_true", help="keep the memory measured before")
    options = parser.parse_args()
    found = measured(options.starts, options.changes, not options.no_memory)
    target = ROOT / "benchmarks/results/studio.json"
    found["memory"] = found["memory"] or json.loads(target.read_text())["memory"]
    print(f"{'':16}{'least':>8}{'median':>8}{'goal':>8}  [ms]")
    for name, times in found["times"].items():
        goal = GOALS.get(name, "")
        print(f"{name:16}{min(times):8.0f}{statistics.median(times):8.0f}{goal!s:>8}")
    for name, (before, after) in found["memory"].items():
        print(f"{name}: {before:.1f} MB after {MANY // 10} changes, {after:.1f} MB after {MANY}")
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
