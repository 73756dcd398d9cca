"""Code for LLVM: vectors of floats, and variables that stay in registers.

What makes a loop of `vector` out of these is the `intrinsic` of numba: a function that
writes instructions where it is called.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from fedcell.core.errors import BadInput

# Floats of a vector. Sums are rounded by it, so it is the same on every processor, which splits or
# fills its registers.
WIDTHS = ("4", "8", "16")
if (_given := os.environ.get("FEDCELL_LANES") or "8") not in WIDTHS:
    raise BadInput(f"FEDCELL_LANES = {_given}: expected one of {', '.join(WIDTHS)}, or unset it")
LANES = int(_given)

FLOAT, INT = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
BYTES = ir.VectorType(ir.IntType(8), LANES)
NOTHING = ir.Constant(VECTOR, [0.0] * LANES)

Emit = Callable[[Any, int, Sequence[Any]], None]


def by_width(
    kinds: str, arrays: Sequence[Any], widths: Iterable[int], emit: Emit
) -> tuple[Any, Any]:
    """Signature and code of an intrinsic with a first argument that says which of the loops to run,
    one for each width. `kinds` has a letter for each argument: an int or an array."""

    def code(context, builder, signature, args):
        values = [
            context.make_array(kind)(context, builder, value).data if letter == "a" else value
            for letter, kind, value in zip(kinds, signature.args, args, strict=True)
        ]
        end = builder.append_basic_block("end")
        choice = builder.switch(values[0], end)
        for width in widths:
            choice.add_case(INT(width), block := builder.append_basic_block())
            builder.position_at_end(block)
            emit(builder, width, values[1:])
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    given = iter(arrays)
    return types.void(*(next(given) if letter == "a" else types.intp for letter in kinds)), code


def multiply(
    builder: Any,
    sums: Any,
    x: Any,
    starts: Any,
    step: Any,
    w: Any,
    along: Any,
    row: Any,
    inner: Any,
) -> None:
    """sums[r] += sum over i < inner of x[starts[r] + i * step] * (the row of w at `along`)."""
    with cgutils.for_range(builder, inner) as i:
        here, ahead = builder.load(along), builder.mul(i.index, step)
        columns = [load(builder, w, here, v) for v in range(len(sums[0]))]
        for r, some in enumerate(sums):
            factor = spread(builder, x, builder.add(starts[r], ahead))
            for v, column in enumerate(columns):
                add_product(builder, some[v], factor, column)
        builder.store(builder.add(here, row), along)


def variable(builder: Any, value: Any) -> Any:
    """A variable, which LLVM keeps in a register."""
    return cgutils.alloca_once_value(builder, value)


def _vector_at(builder: Any, pointer: Any, place: Any, v: int) -> Any:
    begin = builder.gep(pointer, [builder.add(place, INT(v * LANES))])
    return builder.bitcast(begin, VECTOR.as_pointer())


def load(builder: Any, pointer: Any, place: Any, v: int = 0) -> Any:
    return builder.load(_vector_at(builder, pointer, place, v), align=4)


def store(builder: Any, vector: Any, pointer: Any, place: Any, v: int) -> None:
    builder.store(vector, _vector_at(builder, pointer, place, v), align=4)


def spread(builder: Any, pointer: Any, place: Any) -> Any:
    """One number in all lanes."""
    one = builder.load(builder.gep(pointer, [place]))
    vector = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), one, ir.IntType(32)(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(vector, vector, lanes)


def add_product(builder: Any, variable: Any, a: Any, b: Any) -> None:
    product = builder.fmul(a, b, flags=("fast",))
    builder.store(builder.fadd(builder.load(variable), product, flags=("fast",)), variable)
