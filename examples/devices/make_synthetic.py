"""Write synthetic.csv: made-up measurements of a made-up board, to try `fedcell fit-device` on.

    python examples/devices/make_synthetic.py

The board idles at 2.7 W and works with 4.0 W + 0.5 W (f / GHz)^3. A step takes 1.7e7 cycles, a
sample 1.1e6 cycles and 0.2 ms at any clock. Every reading is off by 2 %, drawn at random.
"""

from pathlib import Path

import numpy as np

IDLE, BUSY, AT_ONE_GHZ, ALPHA = 2.7, 4.0, 0.5, 3.0  # W
OF_STEP, OF_SAMPLE, MEMORY = 1.7e7, 1.1e6, 2e-4  # cycles, cycles, s
CLOCKS, BATCHES, STEPS, TIMES = (0.6, 0.9, 1.2, 1.5, 1.8), (1, 4, 16), 200, 2
NOISE = 0.02


def main() -> None:
    rng = np.random.default_rng(1)

    def read(value: float) -> str:
        return f"{value * (1 + NOISE * rng.standard_normal()):.4g}"

    lines = [
        "# Synthetic: made up by make_synthetic.py, with errors of 2 %. No device was measured.",
        "clock_ghz,batch,steps,seconds,watts",
    ]
    lines += [f",,,,{read(IDLE)}" for _ in range(4)]  # without a clock: idle
    for clock in CLOCKS:
        for batch in BATCHES:
            for _ in range(TIMES):
                works = (OF_STEP + OF_SAMPLE * batch) / (clock * 1e9)
                step = works + MEMORY * batch
                watts = BUSY + AT_ONE_GHZ * clock**ALPHA * works / step
                lines.append(f"{clock},{batch},{STEPS},{read(STEPS * step)},{read(watts)}")
    target = Path(__file__).with_name("synthetic.csv")
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
