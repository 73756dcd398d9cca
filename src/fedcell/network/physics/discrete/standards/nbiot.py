"""NB-IoT uplink (NPUSCH): tones, transport blocks, repetitions, and the cycle of a device.

A device sends a block and waits for its acknowledgement and its next grant, since it has one HARQ
process: control 1 ms, a gap of 8 ms, the block, a gap of 3 ms (Cat-NB1). It draws its transmit
power while it sends, and others send in its gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcell.core.types import Array

TONES = (1, 3, 6, 12)  # of 15 kHz
TONE = 15e3  # [Hz]
ALL_TONES = 12
UNIT_TIME = {1: 8e-3, 3: 4e-3, 6: 2e-3, 12: 1e-3}  # of a resource unit [s]
GAPS = 12e-3  # of a cycle beside the block [s]
UNITS = (1, 2, 3, 4, 5, 6, 8, 10)  # resource units of a block
# 3GPP TS 36.213, Table 16.5.1.2-2 (Release 13): bits of a block by I_TBS and number of units.
BLOCK_BITS = (
    (16, 32, 56, 88, 120, 152, 208, 256),
    (24, 56, 88, 144, 176, 208, 256, 344),
    (32, 72, 144, 176, 208, 256, 328, 424),
    (40, 104, 176, 208, 256, 328, 440, 568),
    (56, 120, 208, 256, 328, 408, 552, 680),
    (72, 144, 224, 328, 424, 504, 680, 872),
    (88, 176, 256, 392, 504, 600, 808, 1000),
    (104, 224, 328, 472, 584, 712, 1000),
    (120, 256, 392, 536, 680, 808),
    (136, 296, 456, 616, 776, 936),
    (144, 328, 504, 680, 872, 1000),
    (176, 376, 584, 776, 1000),
    (208, 440, 680, 1000),
)
REPETITIONS = tuple(2**i for i in range(8))  # 1 to 128
SINGLE_TONE_MOST = 10  # highest I_TBS with one tone
GAP_DB = 3.0  # to Shannon: between an ideal receiver's 1.5 dB and 4.5 dB


@dataclass(frozen=True, eq=False)
class NbIotSteps:
    """The useful blocks with a number of tones, by rising SNR, (step,).

    Attributes
    ----------
    tones : int
        Tones of 15 kHz.
    snr : ndarray
        Least SNR in these tones (linear).
    bits : ndarray
        Of a block.
    on_air : ndarray
        Time of a block with its repetitions [s].
    """

    tones: int
    snr: Array
    bits: Array
    on_air: Array

    @property
    def cycle(self) -> Array:
        """Return the time from a block to the next [s]."""
        return self.on_air + GAPS

    @property
    def rate(self) -> Array:
        """Return the rate of a device on its own [bit/s]."""
        return self.bits / self.cycle


def nbiot_steps(tones: int, margin_db: float = 0.0) -> NbIotSteps:
    """Return the blocks with a number of tones that carry more than any with a lower least SNR.

    A block of b bits on T seconds and W hertz needs an SNR of (2^(b / T W) - 1) times the gap; with
    N repetitions an N-th of it.

    Examples
    --------
    >>> steps = nbiot_steps(12)
    >>> f"{steps.rate.max() / 1e3} kbit/s, on air {100 * (steps.on_air / steps.cycle)[-1]:.0f} %"
    '62.5 kbit/s, on air 25 %'
    """
    found = []
    for index, row in enumerate(BLOCK_BITS):
        if tones == 1 and index > SINGLE_TONE_MOST:
            continue
        bits, units = row[-1], UNITS[len(row) - 1]
        time = units * UNIT_TIME[tones]
        snr = np.expm1(bits / (time * tones * TONE) * np.log(2)) * 10 ** ((GAP_DB + margin_db) / 10)
        found += [(float(snr / n), float(bits), n * time) for n in REPETITIONS]
    kept, best = [], 0.0
    for step in sorted(found, key=lambda step: (step[0], -step[1] / (step[2] + GAPS))):
        if (rate := step[1] / (step[2] + GAPS)) > best:
            kept.append(step)
            best = rate
    return NbIotSteps(tones, *(np.array(column) for column in zip(*kept, strict=True)))


def upload_time(bits: float, tones: int = ALL_TONES) -> tuple[float, float]:
    """Return the time of an upload at the highest rate, and the time on air [s].

    >>> upload_time(53e6)
    (848.0, 212.0)
    """
    steps = nbiot_steps(tones)
    best = int(steps.rate.argmax())
    return float(bits / steps.rate[best]), float(bits / steps.bits[best] * steps.on_air[best])
