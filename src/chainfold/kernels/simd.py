"""Vectors of doubles in registers, and rows of them.

A `Lanes` value is a vector of eight float64 that lives in a register, or a row of several such vectors. LLVM's
auto-vectoriser sees neither that our rows are padded to eight nor that a sum may stay in a register, and loses a factor
of two; saying it outright costs a page. LLVM lowers a vector to what the machine has: one AVX-512 register, two of
AVX2, four of SSE2 or NEON.

A row of labels is worked on in tiles of a few vectors, all of them in registers at once: one loop over the attributes
or the labels then feeds several sums that do not wait for one another. How many is part of the type, so that a kernel
is compiled for it: it is the length of the tuple `tile`.

Arrays are C-contiguous float64 of any rank, addressed by a flat offset in elements; nothing checks the bounds, nor
counts from the end where an offset is negative. `number` reads arrays of integers, too. A row of an array that changes
from step to step is a `place` in it: numba would count the references to a view, at each step.

    place(array, offset)  number(array or place, offset)  set_number(array or place, offset, x)
    load(array, offset)  load_tile(array, offset, tile)  store(array, offset, lanes)  splat(x)  zeros(tile)
    a + b   a - b   a * b   a / b   fma(a, b, c) = a·b + c   maximum(a, b)   minimum(a, b)
    where_positive(test, a, b)   sum_lanes(a)   max_lanes(a)   min_lanes(a)   exp(a)

`load`, `load_tile` and `store` take places, too. Where operands differ in length, one of them is a single vector, and
meets each vector of the other.

Functions that take a builder write LLVM's code; `rows_of_few` uses them, too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, overload, register_model

from chainfold.core.slots import WIDTH
from chainfold.jit.intrinsics import intrinsic


class LanesType(types.Type):  # type: ignore[misc]
    """Numba's name for a row of vectors, of eight doubles each unless there are fewer."""

    def __init__(self, vectors: int, lanes: int = WIDTH) -> None:
        self.vectors, self.lanes = vectors, lanes
        super().__init__(f"Lanes({vectors}, {lanes})")


lanes = LanesType(1)
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_INTEGERS = ir.VectorType(ir.IntType(64), WIDTH)
INDEX = ir.IntType(32)


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, front_end_type: Any) -> None:
        kind = ir.VectorType(ir.DoubleType(), front_end_type.lanes)
        super().__init__(manager, front_end_type, ir.ArrayType(kind, front_end_type.vectors))


def vectors_of(builder: Any, row: Any) -> list[Any]:
    """The vectors of a row."""
    return [builder.extract_value(row, k) for k in range(row.type.count)]


def joined(builder: Any, parts: list[Any]) -> Any:
    row = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        row = builder.insert_value(row, part, k)
    return row


def _each(builder: Any, rows: Any, make: Callable[..., Any]) -> Any:
    """What is made of the vectors of some rows, one of each; a row of one vector meets each of the others."""
    parts = [vectors_of(builder, row) for row in rows]
    longest = max(len(row) for row in parts)
    return joined(builder, [make(*(row[k % len(row)] for row in parts)) for k in range(longest)])


def _longest(*rows: Any) -> Any:
    return max(rows, key=lambda row: row.vectors)


def constant(value: float, kind: Any = _VECTOR) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


def call_llvm(builder: Any, name: str, arguments: list[Any]) -> Any:
    kind = arguments[0].type
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{kind.count}f64")
    return builder.call(function, arguments)


def shuffled(builder: Any, value: Any, lanes: list[int], other: Any = None) -> Any:
    """These lanes of a vector, or of two, the other's counted from the end of the first."""
    chosen = ir.Constant(ir.VectorType(INDEX, len(lanes)), lanes)
    return builder.shuffle_vector(value, value if other is None else other, chosen)


def number_address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    """The address of array[offset]; the array may be a place, too."""
    if isinstance(kind, types.Integer):
        data = builder.inttoptr(array, ir.DoubleType().as_pointer())
    else:
        data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    return builder.gep(data, [offset])


def vector_address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    return builder.bitcast(number_address(context, builder, kind, array, offset), _VECTOR.as_pointer())


def _element(builder: Any, address: Any, k: int) -> Any:
    return builder.gep(address, [ir.Constant(INDEX, k)])


def _load(builder: Any, address: Any, vectors: int) -> Any:
    parts = []
    for k in range(vectors):
        parts.append(builder.load(_element(builder, address, k)))
        parts[-1].align = 8
    return joined(builder, parts)


@intrinsic
def place(typing_context: Any, array: Any, offset: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(number_address(context, builder, signature.args[0], *arguments), ir.IntType(64))

    return types.int64(array, types.int64), generate


@intrinsic
def number(typing_context: Any, array: Any, offset: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(number_address(context, builder, signature.args[0], *arguments))
        return context.cast(builder, value, kind, result)

    kind = types.float64 if isinstance(array, types.Integer) else array.dtype
    result = kind if kind == types.float64 else types.int64
    return result(array, types.int64), generate


@intrinsic
def set_number(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, offset, value = arguments
        builder.store(value, number_address(context, builder, signature.args[0], array, offset))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.float64), generate


@intrinsic
def load(typing_context: Any, array: Any, offset: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, vector_address(context, builder, signature.args[0], *arguments), 1)

    return lanes(array, types.int64), generate


@intrinsic
def load_tile(typing_context: Any, array: Any, offset: Any, tile: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, vector_address(context, builder, signature.args[0], *arguments[:2]), tile.count)

    return LanesType(tile.count)(array, types.int64, tile), generate


@intrinsic
def store(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, offset, value = arguments
        parts = vectors_of(builder, value)
        first = number_address(context, builder, signature.args[0], array, offset)
        address = builder.bitcast(first, parts[0].type.as_pointer())
        for k, part in enumerate(parts):
            stored = builder.store(part, _element(builder, address, k))
            stored.align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, value), generate


@intrinsic
def splat(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(INDEX, 0))
        return joined(
            builder, [builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(INDEX, WIDTH), [0] * WIDTH))]
        )

    return lanes(types.float64), generate


@intrinsic
def zeros(typing_context: Any, tile: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return joined(builder, [constant(0.0)] * tile.count)

    return LanesType(tile.count)(tile), generate


def _arithmetic(instruction: str) -> Any:
    @intrinsic
    def apply(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            operation = getattr(builder, instruction)
            return _each(builder, arguments, lambda a, b: operation(a, b, flags=("contract",)))

        return _longest(a, b)(a, b), generate

    return apply


def _overload_operator(symbol: Any, apply: Any) -> None:
    @overload(symbol, strict=False)
    def choose(a: Any, b: Any) -> Any:
        if isinstance(a, LanesType) and isinstance(b, LanesType):
            return lambda a, b: apply(a, b)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _overload_operator(_symbol, _arithmetic(_instruction))


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _each(builder, arguments, lambda *parts: call_llvm(builder, "fma", list(parts)))

    return _longest(a, b, c)(a, b, c), generate


def greater(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def smaller(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _plus(builder: Any, a: Any, b: Any) -> Any:
    return builder.fadd(a, b)


def _lanewise(choose: Any) -> Any:
    @intrinsic
    def apply(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _each(builder, arguments, lambda a, b: choose(builder, a, b))

        return _longest(a, b)(a, b), generate

    return apply


maximum = _lanewise(greater)
minimum = _lanewise(smaller)


@intrinsic
def where_positive(typing_context: Any, test: Any, a: Any, b: Any) -> Any:
    """Lane by lane, a where test > 0 and b elsewhere (also where test is not a number)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def choose(test: Any, a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", test, constant(0.0, test.type)), a, b)

        return _each(builder, arguments, choose)

    return _longest(test, a, b)(test, a, b), generate


def folded(builder: Any, value: Any, combine: Any) -> Any:
    half = value.type.count // 2
    while half:
        low, high = (shuffled(builder, value, list(range(k, k + half))) for k in (0, half))
        value = combine(builder, low, high)
        half //= 2
    return builder.extract_element(value, ir.Constant(INDEX, 0))


def _reduction(combine: Any) -> Any:
    """Fold vector onto vector, then the eight lanes in halves, always in the same order."""

    @intrinsic
    def reduce(typing_context: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value, *others = vectors_of(builder, arguments[0])
            for other in others:
                value = combine(builder, value, other)
            return folded(builder, value, combine)

        return types.float64(row), generate

    return reduce


sum_lanes = _reduction(_plus)
max_lanes = _reduction(greater)
min_lanes = _reduction(smaller)


@intrinsic
def spread(typing_context: Any, row: Any, matrix: Any, offset: Any, rows: Any) -> Any:
    """Σ_i row(i) M(i, ·), i over the first `rows` numbers of a short row, each spread over the lanes of a register.

    The matrix begins at matrix[offset] and is as wide as the row. Even and odd numbers have sums of their own, which
    need not wait for one another.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, matrix, offset, rows = arguments
        vectors = vectors_of(builder, row)
        width = WIDTH * len(vectors)
        begin = number_address(context, builder, signature.args[1], matrix, offset)
        sums = [[cgutils.alloca_once_value(builder, constant(0.0)) for _ in vectors] for _ in range(2)]
        done = builder.append_basic_block("spread.done")
        for i in range(width):
            if i:
                more = builder.append_basic_block("spread.more")
                builder.cbranch(builder.icmp_signed("<", rows.type(i), rows), more, done)
                builder.position_at_end(more)
            lane = ir.Constant(ir.VectorType(INDEX, WIDTH), [i % WIDTH] * WIDTH)
            factor = builder.shuffle_vector(vectors[i // WIDTH], vectors[i // WIDTH], lane)
            address = builder.bitcast(builder.gep(begin, [rows.type(i * width)]), _VECTOR.as_pointer())
            line = vectors_of(builder, _load(builder, address, len(vectors)))
            for x, sum_ in zip(line, sums[i % 2], strict=True):
                builder.store(call_llvm(builder, "fma", [factor, x, builder.load(sum_)]), sum_)
        builder.branch(done)
        builder.position_at_end(done)
        return joined(
            builder, [builder.fadd(*(builder.load(part) for part in pair)) for pair in zip(*sums, strict=True)]
        )

    return row(row, matrix, types.int64, types.int64), generate


# exp(x) = 2^k · e^r with k = rint(x / ln 2), |r| <= ln 2 / 2, and e^r its Taylor series to r^13: the remainder,
# (ln 2 / 2)^14 / 14! = 4e-18, is below half a rounding. ln 2 is split so that k · LN2_HIGH is exact.
_LN2_HIGH = 6.93145751953125e-1
_LN2_LOW = 1.42860682030941723212e-6
_LEAST = -708.0  # exp(-708) = 3e-308: below this the result is zero, so that no subnormal is ever made


def _exp(builder: Any, x: Any) -> Any:
    in_range = builder.fcmp_unordered(">", x, constant(_LEAST))
    clamped = builder.select(in_range, x, constant(_LEAST))
    k = call_llvm(builder, "rint", [builder.fmul(clamped, constant(1.0 / math.log(2.0)))])
    r = call_llvm(builder, "fma", [k, constant(-_LN2_HIGH), clamped])
    r = call_llvm(builder, "fma", [k, constant(-_LN2_LOW), r])
    series = constant(1.0 / math.factorial(13))
    for order in range(12, -1, -1):
        series = call_llvm(builder, "fma", [r, series, constant(1.0 / math.factorial(order))])
    exponent = builder.add(builder.fptosi(k, _INTEGERS), ir.Constant(_INTEGERS, [1023] * WIDTH))
    power = builder.bitcast(builder.shl(exponent, ir.Constant(_INTEGERS, [52] * WIDTH)), _VECTOR)
    return builder.select(in_range, builder.fmul(series, power), constant(0.0))


@intrinsic
def exp(typing_context: Any, x: Any) -> Any:
    """e^x for x <= 0 in each lane, to within one rounding; zero below -708, not a number where x is none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _each(builder, arguments, lambda part: _exp(builder, part))

    return x(x), generate
