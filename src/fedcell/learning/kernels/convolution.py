"""Convolution, 2 x 2 max pooling and ReLU as one layer, forward and backward."""

import numpy as np

from .layer import jit, vectors
from .registers import LANES
from .vector import ABREAST, PATCHES, WIDEST, gather, window

DEAD = np.uint8(4)  # a pooling winner that the ReLU stops: it carries no gradient
MOST = max(PATCHES)
# Vectors of the smallest gather that covers this number.
COVER = np.array([min(w for w in (0, *PATCHES) if w >= n) for n in range(MOST)])
TALLEST = -min(PATCHES)


@jit
def conv_forward(layer, batch, weights, arena, winner, kernels):
    """y = relu(maxpool2(conv(x, w) + b)); winner says which pixel of each window was largest.

    Whole vectors are written, so the last one spills over the channels of the next pixel.
    That is written later: pixels go forward, blocks of channels backward.
    """
    H, W, C, k, O = layer.height, layer.width, layer.channels, layer.kernel, layer.outputs
    P, Q, m = layer.pooled_height, layer.pooled_width, layer.margin
    block = WIDEST * LANES
    for first in range((O - 1) // block * block, -1, -block):
        size = min(WIDEST, vectors(O - first))
        wide, taps = size * LANES, k * k * C
        for o in range(min(wide, O - first)):  # side by side: a vector holds many channels
            kernels[o] = weights[layer.b + first + o]
            for j in range(taps):
                kernels[(1 + j) * wide + o] = weights[layer.w + (first + o) * taps + j]
        for n in range(batch):
            for py in range(P):
                y = layer.y + ((n * (P + 2 * m) + py + m) * (Q + 2 * m) + m) * O + first
                q = layer.winner + (n * P + py) * Q * O + first
                x = layer.x + (n * H + 2 * py) * W * C
                for _ in range(Q):
                    window(size, arena, y, winner, q, arena, x, C, W * C, kernels, k, k * C)
                    y, q, x = y + O, q + O, x + 2 * C
                if m > 0:  # spilt into the margin
                    arena[y - first : y - first + max(2 * m * O, LANES)] = 0


@jit
def conv_backward(layer, batch, weights, target, scale, arena, winner, framed, dw, lists):
    """Only pooling winners that pass the ReLU carry gradient, one pixel in four or fewer.

    They are listed, sample by sample: by output channel for the gradient of the weights,
    sum dy * (patch of x), and by window for that of x, sum dy * (kernel).
    """
    C, k, O, line = layer.channels, layer.kernel, layer.outputs, layer.width * layer.channels
    Q, row = layer.pooled_width, k * C
    windows = layer.pooled_height * Q
    where, value, ends, shift = lists
    width, wide = covered(row), covered(row + C)
    dw[: O * k * width * LANES] = 0
    if not layer.first:
        arena[layer.dx : layer.dx + batch * layer.x_row] = 0
        stride = frame(layer, weights, framed)
    for n in range(batch):
        x, long = layer.x + n * layer.x_row, windows + ABREAST
        list_by_channel(layer, n, arena, winner, where, value, ends, shift)
        for o in range(O):
            target[layer.b + o] += scale * value[o * long : ends[o]].sum()
            begin, end, to = o * long, ends[o], o * k * width * LANES
            if width == 1 and 1 < k <= TALLEST:  # a narrow kernel: all its rows at once
                gather(-k, dw, to, LANES, arena, x, line, where, value, begin, end)
                continue
            for ky in range(k):
                add_patches(width, dw, to, arena, x + ky * line, where, value, begin, end)
                to += width * LANES
        if not layer.first:
            dx, long = layer.dx + n * layer.x_row, O + ABREAST
            list_by_window(layer, n, stride, arena, winner, where, value, ends, shift)
            for r in range(k + 1):
                v = 0
                while v < wide:  # windows innermost: a slice of all kernels stays near
                    size = min(MOST, wide - v)
                    source, i = r * stride + v * LANES, 0
                    for py in range(layer.pooled_height):
                        to = dx + (2 * py + r) * line + v * LANES
                        for _ in range(Q):
                            begin, end = i * long, ends[i]
                            gather(size, arena, to, 0, framed, source, 0, where, value, begin, end)
                            to, i = to + 2 * C, i + 1
                    v += size
    for i in range(O * k):
        to, given = target[layer.w + i * row : layer.w + (i + 1) * row], dw[i * width * LANES :]
        for j in range(row):
            to[j] += scale * given[j]


@jit
def add_patches(width, out, to, x, at, where, value, begin, end):
    """out[to:] += sum over begin <= i < end of value[i] * x[at + where[i]:], `width` vectors."""
    v = 0
    while v < width:
        size = min(MOST, width - v)
        gather(size, out, to + v * LANES, 0, x, at + v * LANES, 0, where, value, begin, end)
        v += size


@jit
def list_by_channel(layer, n, arena, winner, where, value, ends, shift):
    """Where in x the winners of a channel stand, and their dy; lists end at ends[channel]."""
    C, W, O = layer.channels, layer.width, layer.outputs
    P, Q, m = layer.pooled_height, layer.pooled_width, layer.margin
    long = P * Q + ABREAST
    shift[0], shift[1], shift[2], shift[3] = 0, C, W * C, (W + 1) * C
    for o in range(O):
        ends[o] = o * long
    for py in range(P):
        q = layer.winner + (n * P + py) * Q * O
        dy = layer.dy + ((n * (P + 2 * m) + py + m) * (Q + 2 * m) + m) * O
        for px in range(Q):
            at, qs, dys = (2 * py * W + 2 * px) * C, winner[q : q + O], arena[dy : dy + O]
            for o in range(O):  # written always, counted if alive: no branch to guess wrong
                i = ends[o]
                where[i], value[i] = at + shift[qs[o]], dys[o]
                ends[o] = i + (qs[o] != DEAD)
            q, dy = q + O, dy + O
    for o in range(O):
        end_list(where, value, ends[o])


@jit
def list_by_window(layer, n, stride, arena, winner, where, value, ends, shift):
    """Where in the frames the kernels of a window's winners stand, and their dy."""
    C, k, O = layer.channels, layer.kernel, layer.outputs
    P, Q, m = layer.pooled_height, layer.pooled_width, layer.margin
    long = O + ABREAST
    shift[0], shift[1], shift[2], shift[3] = stride + C, stride, C, 0
    for py in range(P):
        q = layer.winner + (n * P + py) * Q * O
        dy = layer.dy + ((n * (P + 2 * m) + py + m) * (Q + 2 * m) + m) * O
        for px in range(Q):
            i, qs, dys = (py * Q + px) * long, winner[q : q + O], arena[dy : dy + O]
            for o in range(O):
                where[i], value[i] = o * (k + 2) * stride + shift[qs[o]], dys[o]
                i += qs[o] != DEAD
            end_list(where, value, i)
            ends[py * Q + px] = i
            q, dy = q + O, dy + O


@jit
def end_list(where, value, end):
    """Zeros behind a list, as far as a gather may read."""
    where[end : end + ABREAST] = 0
    value[end : end + ABREAST] = 0


@jit
def frame(layer, weights, framed):
    """Each kernel in a frame of zeros: to shift it by a pixel is to read from another place.
    Returns the floats from row to row."""
    C, k, row = layer.channels, layer.kernel, layer.kernel * layer.channels
    stride = C + covered(row + C) * LANES
    framed[: layer.outputs * (k + 2) * stride] = 0
    for o in range(layer.outputs):
        for ky in range(k):
            place, source = (o * (k + 2) + ky + 1) * stride + C, layer.w + (o * k + ky) * row
            framed[place : place + row] = weights[source : source + row]
    return stride


@jit
def covered(floats):
    """Return the vectors that gathers need for these floats: MOST at a time, then the rest."""
    return vectors(floats) // MOST * MOST + COVER[vectors(floats) % MOST]
