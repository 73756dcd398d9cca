"""Dense layers, forward and backward."""

from .layer import ZERO, jit, vectors
from .registers import LANES
from .vector import WIDEST, make_dots, make_tile

tile_4, tile_2, tile_1 = make_tile(4), make_tile(2), make_tile(1)
dots_4, dots_1 = make_dots(4), make_dots(1)


@jit
def dense_forward(layer, batch, weights, arena):
    """y = x w + b, then ReLU if asked; w is (inputs, outputs)."""
    I, O, row = layer.channels, layer.outputs, layer.y_row
    for n in range(batch):
        arena[layer.y + n * row : layer.y + n * row + O] = weights[layer.b : layer.b + O]
    block = max(16, 4096 // O)  # rows of w that stay in the nearest cache while all samples pass
    for i in range(0, I, block):
        x, w = layer.x + i, layer.w + i * O
        some = min(block, I - i)
        add_products(arena, layer.y, row, arena, x, layer.x_row, 1, weights, w, O, batch, O, some)
    if layer.relu:
        y = arena[layer.y : layer.y + batch * row]
        for o in range(y.size):
            y[o] = max(y[o], ZERO)


@jit
def dense_backward(layer, batch, weights, target, scale, arena, scaled):
    """dx = dy w', and the gradient x' dy, a few rows of w at a time, while they are near."""
    I, O, row, some = layer.channels, layer.outputs, layer.y_row, 4 * WIDEST
    for n in range(batch):
        y, dy = arena[layer.y + n * row :], arena[layer.dy + n * row :]
        for o in range(row):
            dy[o] = dy[o] if o < O and (y[o] > 0 or not layer.relu) else ZERO
            scaled[n * row + o] = scale * dy[o]
        for o in range(O):
            target[layer.b + o] += scaled[n * row + o]
    for i in range(0, I, some):
        some, x, dx, w = min(some, I - i), layer.x + i, layer.dx + i, layer.w + i * O
        if not layer.first:
            row_products(
                arena, dx, layer.x_row, arena, layer.dy, row, weights, w, O, batch, some, vectors(O)
            )
        add_products(target, w, O, arena, x, 1, layer.x_row, scaled, 0, row, some, O, batch)


@jit
def add_products(out, to, out_row, x, at, x_row, step, w, begin, w_row, rows, width, inner):
    """out[r, :width] += sum over i < inner of x[r, i] * w[i, :width]."""
    for o in range(0, width, WIDEST * LANES):
        size, b, r = min(WIDEST, vectors(width - o)), begin + o, 0
        while r < rows:
            t, a = to + o + r * out_row, at + r * x_row
            if r + 4 <= rows:
                tile_4(size, out, t, out_row, x, a, x_row, step, w, b, w_row, inner)
                r += 4
            elif r + 2 <= rows:
                tile_2(size, out, t, out_row, x, a, x_row, step, w, b, w_row, inner)
                r += 2
            else:
                tile_1(size, out, t, 0, x, a, 0, step, w, b, w_row, inner)
                r += 1


@jit
def row_products(out, to, out_row, x, at, x_row, w, begin, w_row, rows, columns, steps):
    """out[r, c] = x[r] . w[c], `steps` vectors long."""
    for c in range(0, columns, WIDEST):
        size, b, r = min(WIDEST, columns - c), begin + c * w_row, 0
        while r < rows:
            t, a = to + r * out_row + c, at + r * x_row
            if r + 4 <= rows:
                dots_4(size, out, t, out_row, x, a, x_row, w, b, w_row, steps)
                r += 4
            else:
                dots_1(size, out, t, 0, x, a, 0, w, b, w_row, steps)
                r += 1
