"""WiFi and IEEE 802.15.4: rates, least SNR, frames and their losses."""

from __future__ import annotations

from math import comb

import numpy as np

from fedcell.core.types import Array

from .mcs import tail_point

WIFI_BAND = 20e6  # [Hz], one stream
HT_RATES = np.array([6.5, 13, 19.5, 26, 39, 52, 58.5, 65]) * 1e6  # guard interval 800 ns [bit/s]
HE_RATES = np.array([8.6, 17.2, 25.8, 34.4, 51.6, 68.8, 77.4, 86, 103.2, 114.7, 129, 143.4]) * 1e6
# SNR at which 10 % of frames of 1458 bytes are lost in white noise [dB]: ns-3,
# error-rate-tables.cc, convolutional codes for HT and LDPC for HE.
HT_SNR = np.array([0.86, 3.89, 6.37, 9.63, 12.72, 17.02, 18.31, 19.58])
HE_SNR = np.array([-0.67, 2.34, 4.81, 7.87, 10.89, 15.08, 16.46, 17.99, 21.64, 23.47, 26.78, 28.86])
WIFI_FRAME = 8 * 1458.0  # [bit]
WIFI_WIDTH = 0.36  # of the curves [dB]: 10 % and 1 % are 0.3 to 0.45 dB apart

# [Hz] of a channel of IEEE 802.15.4 at 2.4 GHz, with the noise of which ns-3 (lr-wpan) compares:
# its ideal sensitivity is -106.6 dBm.
CHANNEL_BAND = 5e6
SYMBOL = 16e-6  # [s]
BIT_RATE = 250e3  # [bit/s] of a frame
FRAME_BYTES, PHY_BYTES, MAC_BYTES = 127, 6, 11  # largest frame, its header below, header within
ACK_SYMBOLS = 22  # 11 bytes
# Symbols of a frame beside its own: backoff (3.5 units of 20), clear channel (8), turnaround (12),
# again before the acknowledgement, the acknowledgement, and the pause after a long frame (40).
OTHER_SYMBOLS = 70 + 8 + 12 + 12 + ACK_SYMBOLS + 40


def wifi_thresholds(snr_db: Array, loss: float) -> Array:
    """Return the SNR at which the share `loss` of frames is lost [dB].

    >>> wifi_thresholds(HT_SNR, 0.1)[7].round(2), wifi_thresholds(HT_SNR, 0.01)[7].round(2)
    (np.float64(19.58), np.float64(19.96))
    """
    return snr_db + WIFI_WIDTH * (tail_point(loss) - tail_point(0.1))


def zigbee_bit_errors(snr: Array | float) -> Array:
    """Return the bit error rate of IEEE 802.15.4 at 2.4 GHz at an SNR (linear):
    (8/15) (1/16) sum_k (-1)^k C(16, k) exp(20 SNR (1/k - 1)), k = 2 to 16."""
    snr = np.asarray(snr, float)
    total = np.zeros(snr.shape)
    for k in range(2, 17):
        total = total + (-1) ** k * comb(16, k) * np.exp(20 * snr * (1 / k - 1))
    return np.asarray(np.clip(8 / 15 / 16 * total, 0.0, 0.5))


def zigbee_frame_loss(snr: Array | float, size: int = FRAME_BYTES) -> Array:
    """Return the share of frames of some bytes that are lost, headers of the radio included."""
    bits = 8 * (size + PHY_BYTES)
    return np.asarray(-np.expm1(bits * np.log1p(-zigbee_bit_errors(snr))))


def zigbee_threshold(loss: float, size: int = FRAME_BYTES) -> float:
    """Return the SNR (linear) at which the share `loss` of frames is lost."""
    low, high = 1e-3, 1e3
    for _ in range(100):
        middle = float(np.sqrt(low * high))
        many = float(zigbee_frame_loss(middle, size)) > loss
        low, high = (middle, high) if many else (low, middle)
    return high


def zigbee_frame_time(size: int = FRAME_BYTES) -> float:
    """Return the time of an acknowledged frame of some bytes on an idle channel [s].

    >>> f"{1e3 * zigbee_frame_time():.2f} ms"
    '6.88 ms'
    """
    return 8 * (size + PHY_BYTES) / BIT_RATE + OTHER_SYMBOLS * SYMBOL


def zigbee_frames(bits: float) -> int:
    """Return the frames of an upload."""
    return int(np.ceil(bits / (8 * (FRAME_BYTES - MAC_BYTES))))


def zigbee_air_time(bits: float) -> float:
    """Return the time of an upload [s]: full frames, and a last one with the rest.

    >>> f"{1e6 / zigbee_air_time(1e6) / 1e3:.0f} kbit/s"
    '135 kbit/s'
    """
    payload = 8 * (FRAME_BYTES - MAC_BYTES)
    full = zigbee_frames(bits) - 1
    rest = int(np.ceil((bits - full * payload) / 8))
    return full * zigbee_frame_time() + zigbee_frame_time(rest + MAC_BYTES)
