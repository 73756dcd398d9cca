"""Local training in plain NumPy, as one would write it on a board: what the engine must equal.

In double precision, sample by sample where that is clearer. Weights stand as in
fedcell.learning.neural: kernels (output, row, column, channel), dense (input, output).
"""

from typing import Any

import numpy as np


def unpack(network, weights):
    """(kernel or matrix, bias) of each layer, as views."""
    parts, at = [], 0
    for shape in network.shapes:
        k, inputs, outputs = shape.kernel, shape.channels, shape.outputs
        size = (outputs, k, k, inputs) if shape.conv else (inputs, outputs)
        end = at + shape.weights - outputs
        parts.append((weights[at:end].reshape(size), weights[end : end + outputs]))
        at = end + outputs
    return parts


def logits(network, weights, image):
    """What the last layer says of one image."""
    x = image
    for shape, (w, b) in zip(network.shapes, unpack(network, weights), strict=True):
        if shape.conv:
            x = convolved(shape, w, b, x)[-1]
        else:
            x = x.reshape(-1) @ w + b
            x = x if shape is network.shapes[-1] else np.maximum(x, 0)
    return x


def convolved(shape, w, b, x):
    """The padded input, its padding, the four pixels of each window, and their pooled ReLU."""
    pad = (shape.height - x.shape[0]) // 2
    x = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[1:3], axis=(0, 1))
    full = np.einsum("yxcij,oijc->yxo", patches, w) + b
    height, width = shape.pooled
    blocks = full[: 2 * height, : 2 * width].reshape(height, 2, width, 2, -1)
    blocks = blocks.transpose(0, 2, 4, 1, 3).reshape(height, width, -1, 4)
    return x, pad, blocks, np.maximum(blocks.max(-1), 0)


def gradient(network, weights, images, labels):
    """The gradient of the mean cross-entropy, and the loss of each sample."""
    layers = unpack(network, weights)
    grad = np.zeros_like(weights)
    losses = []
    for image, label in zip(images, labels, strict=True):
        kept: list[Any] = []
        x = image
        for shape, (w, b) in zip(network.shapes, layers, strict=True):
            if shape.conv:
                x, pad, blocks, y = convolved(shape, w, b, x)
                kept.append((x, pad, blocks, y))
            else:
                x = x.reshape(-1)
                y = x @ w + b
                last = shape is network.shapes[-1]
                kept.append((x, y))
                y = y if last else np.maximum(y, 0)
            x = y
        p = np.exp(x - x.max())
        p /= p.sum()
        losses.append(-np.log(p[label]))
        d = p.copy()
        d[label] -= 1
        d /= len(labels)
        for i in reversed(range(len(layers))):
            (w, _), (gw, gb) = layers[i], unpack(network, grad)[i]
            if network.shapes[i].conv:
                d = conv_back(kept[i], d, w, gw, gb)
            else:
                x, y = kept[i]
                d = d if i == len(layers) - 1 else d * (y > 0)
                gw += np.outer(x, d)
                gb += d
                d = w @ d
            if i:
                before = kept[i - 1][-1]
                d = d.reshape(before.shape)
    return grad, np.array(losses)


def conv_back(kept, d, w, gw, gb):
    """Adds to the gradients of a kernel and bias; returns that of the input."""
    x, pad, blocks, y = kept
    k, dx = w.shape[1], np.zeros_like(x)
    for py, px, o in zip(*np.nonzero(y), strict=True):
        q = blocks[py, px, o].argmax()
        row, column = 2 * py + q // 2, 2 * px + q % 2
        gw[o] += d[py, px, o] * x[row : row + k, column : column + k]
        dx[row : row + k, column : column + k] += d[py, px, o] * w[o]
        gb[o] += d[py, px, o]
    end = [x.shape[axis] - pad for axis in (0, 1)]
    return dx[pad : end[0], pad : end[1]]


def train(network, weights, images, labels, order, sizes, rates, momentum=0.0):
    """Weights after SGD steps."""
    weights, velocity = weights.astype(float), np.zeros(weights.size)
    for index, rate in zip(np.split(order, np.cumsum(sizes)[:-1]), rates, strict=True):
        grad, _ = gradient(network, weights, images[index].astype(float), labels[index])
        velocity = momentum * velocity + grad
        weights = weights - rate * velocity
    return weights
