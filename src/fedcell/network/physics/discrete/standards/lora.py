"""LoRa: time on air, payloads and least SNR by spreading factor (EU868, 125 kHz).

The formula is that of the SX127x data sheets, as in signetlabdei/lorawan, `lora-phy.cc`.
"""

from __future__ import annotations

import numpy as np

BAND = 125e3  # [Hz]
FACTORS = (7, 8, 9, 10, 11, 12)
SENSITIVITY = dict(zip(FACTORS, (-124.0, -127.0, -130.0, -133.0, -135.0, -137.0), strict=True))
PAYLOAD = dict(zip(FACTORS, (222, 222, 115, 51, 51, 51), strict=True))  # largest [byte], EU868
HEADERS = 13  # of LoRaWAN, beside the payload [byte]
NOISE_FIGURE = 6.0  # with which sensitivities are SNR [dB]
THERMAL = -174.0  # [dBm/Hz]
PREAMBLE = 8  # [symbol]


def symbol_time(factor: int, band: float = BAND) -> float:
    """Return 2^SF / BW [s]."""
    return float(2**factor / band)


def time_on_air(
    factor: int, size: int, band: float = BAND, *, coding: int = 1, preamble: int = PREAMBLE
) -> float:
    """Return the time of a frame with CRC and explicit header.

    Parameters
    ----------
    factor : int
        SF, 7 to 12.
    size : int
        Bytes of the physical layer: payload and headers of the layers above.
    band : float
        BW [Hz].
    coding : int
        Code rate 4 / (4 + coding).
    preamble : int
        Symbols.

    Returns
    -------
    float
        Seconds.

    Examples
    --------
    >>> f"{1e3 * time_on_air(12, 51 + 13):.1f} ms"
    '2793.5 ms'
    """
    slow = 1 if symbol_time(factor, band) > 0.016 else 0  # DE, low data rate optimisation
    bits = 8 * size - 4 * factor + 28 + 16  # 16 of the CRC, and no implicit header
    symbols = max(int(np.ceil(bits / (4 * (factor - 2 * slow)))) * (coding + 4), 0)
    return float((preamble + 4.25 + 8 + symbols) * symbol_time(factor, band))


def frames(bits: float, factor: int) -> int:
    """Return the frames of an upload."""
    return int(np.ceil(bits / (8 * PAYLOAD[factor])))


def air_time(bits: float, factor: int) -> float:
    """Return the time on air of an upload [s]: full frames, and a last one with the rest.

    >>> f"{air_time(53e6, 7) / 3600:.2f} h"
    '3.06 h'
    """
    full = frames(bits, factor) - 1
    rest = int(np.ceil((bits - full * 8 * PAYLOAD[factor]) / 8))
    whole = time_on_air(factor, PAYLOAD[factor] + HEADERS)
    return full * whole + time_on_air(factor, rest + HEADERS)


def least_snr_db(factor: int) -> float:
    """Return the SNR in the band of a channel at the sensitivity [dB]."""
    return SENSITIVITY[factor] - (THERMAL + 10 * float(np.log10(BAND)) + NOISE_FIGURE)
