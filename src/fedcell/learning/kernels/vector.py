"""What numba lacks for loops that run at the speed of the machine: sums kept in registers.

Where sums are read from memory and written back at each step, that takes longer than the
arithmetic. numba cannot keep a block of them in registers (arrays are written back, short
loops become scalar code), so the loops that do almost all the work of training are written
out here, for LLVM. Matrices lie inside flat arrays, at an offset, with a number of floats from row
to row. Nothing checks bounds, and whole vectors are read and written: SLACK floats must
stand behind every array.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from .registers import (
    BYTES,
    FLOAT,
    INT,
    LANES,
    NOTHING,
    VECTOR,
    add_product,
    by_width,
    load,
    multiply,
    spread,
    store,
    variable,
)

SLACK = 16 * LANES
WIDEST = 3  # vectors of a tile: times four rows, the twelve sums that 16 registers have room for
PATCHES = {1: 8, 2: 4, 3: 3, 4: 2, 6: 2, 8: 1}  # shapes, and how many patches at a time;
PATCHES |= {-2: 4, -3: 3, -4: 2, -5: 2, -6: 2, -7: 1}  # below 0: rows of one vector
ABREAST = max(PATCHES.values())


def make_tile(rows: int) -> Any:
    """The product of a matrix of `rows` rows with one that is 1 to WIDEST vectors wide.

    tile(vectors, out, to, out_row, x, at, x_row, step, w, begin, w_row, inner) adds, for
    r < rows and l < vectors * LANES,

        out[to + r * out_row + l] += sum over i < inner of
            x[at + r * x_row + i * step] * w[begin + i * w_row + l]
    """

    def tile(builder: Any, vectors: int, args: Sequence[Any]) -> None:
        out, to, out_row, x, at, x_row, step, w, begin, w_row, inner = args
        ends = [builder.add(to, builder.mul(out_row, INT(r))) for r in range(rows)]
        starts = [builder.add(at, builder.mul(x_row, INT(r))) for r in range(rows)]
        before = [[load(builder, out, end, v) for v in range(vectors)] for end in ends]
        sums = [[variable(builder, vector) for vector in row] for row in before]
        multiply(builder, sums, x, starts, step, w, variable(builder, begin), w_row, inner)
        for r in range(rows):
            for v in range(vectors):
                store(builder, builder.load(sums[r][v]), out, ends[r], v)

    @intrinsic
    def call(_, vectors, out, to, out_row, x, at, x_row, step, w, begin, w_row, inner):
        return by_width("iaiiaiiiaiii", (out, x, w), range(1, WIDEST + 1), tile)

    return call


@intrinsic
def window(_, vectors, y, to, winner, q, x, at, right, line, kernels, outer, inner):
    """A convolution at the four pixels of a pooling window, their maximum, and the ReLU.

    kernels is (1 + outer * inner, vectors * LANES), its first row the biases. With
    v[r] the convolution of pixel r at x[at + (r & 1) * right + (r >> 1) * line],

        y[to + l] = max(0, max_r v[r, l]),   winner[q + l] = the r of it, or 4 if y is 0
    """

    def pool(builder: Any, vectors: int, args: Sequence[Any]) -> None:
        y, to, winner, q, x, at, right, line, kernels, outer, inner = args
        bias = [load(builder, kernels, INT(0), v) for v in range(vectors)]
        sums = [[variable(builder, b) for b in bias] for _ in range(4)]
        wide = INT(vectors * LANES)
        along = variable(builder, wide)
        with cgutils.for_range(builder, outer) as a:
            first = builder.add(at, builder.mul(a.index, line))
            starts = [first, builder.add(first, right)]
            starts += [builder.add(start, line) for start in starts]
            multiply(builder, sums, x, starts, INT(1), kernels, along, wide, inner)
        for v in range(vectors):
            best, which = builder.load(sums[0][v]), BYTES([0] * LANES)
            for r in range(1, 4):
                other = builder.load(sums[r][v])
                larger = builder.fcmp_ordered(">", other, best)
                best = builder.select(larger, other, best)
                which = builder.select(larger, BYTES([r] * LANES), which)
            alive = builder.fcmp_ordered(">", best, NOTHING)
            store(builder, builder.select(alive, best, NOTHING), y, to, v)
            which = builder.select(alive, which, BYTES([4] * LANES))
            place = builder.gep(winner, [builder.add(q, INT(v * LANES))])
            builder.store(which, builder.bitcast(place, BYTES.as_pointer()), align=1)

    arrays = (y, winner, x, kernels)
    return by_width("iaiaiaiiiaii", arrays, range(1, WIDEST + 1), pool)


def make_dots(rows: int) -> Any:
    """Products of the rows of a matrix with 1 to WIDEST rows of another.

    dots(columns, out, to, out_row, x, at, x_row, w, begin, w_row, steps) sets, for r < rows
    and c < columns,

        out[to + r * out_row + c] = sum over i < steps * LANES of
            x[at + r * x_row + i] * w[begin + c * w_row + i]
    """

    def dots(builder: Any, columns: int, args: Sequence[Any]) -> None:
        out, to, out_row, x, at, x_row, w, begin, w_row, steps = args
        starts = [builder.add(at, builder.mul(x_row, INT(r))) for r in range(rows)]
        begins = [builder.add(begin, builder.mul(w_row, INT(c))) for c in range(columns)]
        sums = [[variable(builder, NOTHING) for _ in range(columns)] for _ in range(rows)]
        with cgutils.for_range(builder, steps) as step:
            ahead = builder.mul(step.index, INT(LANES))
            across = [load(builder, w, builder.add(place, ahead)) for place in begins]
            for r in range(rows):
                along = load(builder, x, builder.add(starts[r], ahead))
                for c in range(columns):
                    add_product(builder, sums[r][c], along, across[c])
        kind, name = ir.FunctionType(FLOAT, [FLOAT, VECTOR]), f"llvm.vector.reduce.fadd.v{LANES}f32"
        add_lanes = cgutils.get_or_insert_function(builder.module, kind, name)
        for r in range(rows):
            for c in range(columns):
                lanes = builder.load(sums[r][c])
                total = builder.call(add_lanes, [FLOAT(0.0), lanes], fastmath=("fast",))
                place = builder.add(builder.add(to, INT(c)), builder.mul(out_row, INT(r)))
                builder.store(total, builder.gep(out, [place]))

    @intrinsic
    def call(_, columns, out, to, out_row, x, at, x_row, w, begin, w_row, steps):
        return by_width("iaiiaiiaiii", (out, x, w), range(1, WIDEST + 1), dots)

    return call


@intrinsic
def gather(_, shape, out, to, out_row, x, at, line, where, value, begin, end):
    """Sums of patches that lie anywhere.

    A patch has one row of `shape` vectors, or, for a negative shape, -shape rows of one
    vector; PATCHES has the shapes. For each row r and its l-th float,

        out[to + r * out_row + l] += sum over begin <= i < end of
            value[i] * x[at + where[i] + r * line + l]

    Small patches go into several sums at a time, so that an addition need not wait for the
    one before: ABREAST zeros must stand behind each list.
    """

    def add(builder: Any, shape: int, args: Sequence[Any]) -> None:
        out, to, out_row, x, at, line, where, value, begin, end = args
        rows, vectors = (1, shape) if shape > 0 else (-shape, 1)
        places = [(r, v) for r in range(rows) for v in range(vectors)]
        sums = [[variable(builder, NOTHING) for _ in places] for _ in range(PATCHES[shape])]
        with cgutils.for_range_slice(builder, begin, end, INT(len(sums))) as (first, _):
            for u, some in enumerate(sums):
                i = builder.add(first, INT(u))
                patch = builder.add(at, builder.load(builder.gep(where, [i])))
                factor = spread(builder, value, i)
                for total, (r, v) in zip(some, places, strict=True):
                    row = builder.add(patch, builder.mul(line, INT(r)))
                    add_product(builder, total, factor, load(builder, x, row, v))
        for n, (r, v) in enumerate(places):
            place = builder.add(to, builder.mul(out_row, INT(r)))
            total = load(builder, out, place, v)
            for some in sums:
                total = builder.fadd(total, builder.load(some[n]), flags=("fast",))
            store(builder, total, out, place, v)

    return by_width("iaiiaiiaaii", (out, x, where, value), PATCHES, add)
