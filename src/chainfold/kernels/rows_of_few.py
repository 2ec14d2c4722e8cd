"""Rows of up to four labels, several of which fit into a register.

A row has two lanes or four: `few` is a tuple of that length. A packed register has the rows of consecutive positions
side by side; rows in memory are padded to eight as everywhere else.

    load_few(array, offset, few)   store_few(array, offset, row)   ones(few)   spread_few(x, few)
    load_packed(array, offset, last, few)   part(packed, k, few)   max_of_parts(packed, few)   lane(packed, k)
    load_square(array, rows, few)   store_square(array, square)   product(row, square)
    scaled(row, square, factor)   times(left, right)   columns_agree(square, possible, ignore, tolerance, least)
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types

from chainfold.core.slots import WIDTH
from chainfold.jit.intrinsics import intrinsic
from chainfold.kernels.simd import (
    INDEX,
    LanesType,
    call_llvm,
    constant,
    folded,
    greater,
    joined,
    lanes,
    number_address,
    shuffled,
    smaller,
    vector_address,
    vectors_of,
)


def _kind(few: Any) -> Any:
    return ir.VectorType(ir.DoubleType(), few.count)


def _load_row(builder: Any, first: Any, offset: Any, few: Any) -> Any:
    row = builder.load(builder.bitcast(builder.gep(first, [offset]), _kind(few).as_pointer()))
    row.align = 8
    return row


@intrinsic
def load_few(typing_context: Any, array: Any, offset: Any, few: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = number_address(context, builder, signature.args[0], *arguments[:2])
        return joined(builder, [_load_row(builder, first, ir.Constant(INDEX, 0), few)])

    return LanesType(1, few.count)(array, types.int64, few), generate


@intrinsic
def store_few(typing_context: Any, array: Any, offset: Any, row: Any) -> Any:
    """The row and its padding, zeros."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, offset, value = arguments
        (vector,) = vectors_of(builder, value)
        count = vector.type.count
        padded = shuffled(builder, vector, [min(k, count) for k in range(WIDTH)], constant(0.0, vector.type))
        builder.store(padded, vector_address(context, builder, signature.args[0], array, offset)).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, row), generate


@intrinsic
def spread_few(typing_context: Any, x: Any, few: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.insert_element(ir.Constant(_kind(few), ir.Undefined), arguments[0], ir.Constant(INDEX, 0))
        return joined(builder, [shuffled(builder, first, [0] * few.count)])

    return LanesType(1, few.count)(types.float64, few), generate


@intrinsic
def load_packed(typing_context: Any, array: Any, t: Any, last: Any, few: Any) -> Any:
    """The rows of positions t, t + 1, …, of `last` where they are beyond it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, t, last, _ = arguments
        first = number_address(context, builder, signature.args[0], array, t.type(0))
        rows = [_load_row(builder, first, at, few) for at in _offsets(builder, t, last, few)]
        while len(rows) > 1:
            rows = [
                shuffled(builder, a, list(range(2 * a.type.count)), b)
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
        return joined(builder, rows)

    return lanes(array, types.int64, types.int64, few), generate


@intrinsic
def store_packed(typing_context: Any, array: Any, t: Any, last: Any, packed: Any, few: Any) -> Any:
    """The parts to the rows of positions t, t + 1, … up to `last`, whose part is repeated behind it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, t, last, packed, _ = arguments
        first = number_address(context, builder, signature.args[0], array, t.type(0))
        (value,) = vectors_of(builder, packed)
        for k, at in enumerate(_offsets(builder, t, last, few)):
            row = shuffled(builder, value, list(range(k * few.count, (k + 1) * few.count)))
            address = builder.bitcast(builder.gep(first, [at]), _kind(few).as_pointer())
            builder.store(row, address).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, packed, few), generate


def _offsets(builder: Any, t: Any, last: Any, few: Any) -> list[Any]:
    positions = [builder.add(t, t.type(k)) for k in range(WIDTH // few.count)]
    within = [builder.select(builder.icmp_signed("<", at, last), at, last) for at in positions]
    return [builder.mul(at, at.type(WIDTH)) for at in within]


@intrinsic
def max_of_parts(typing_context: Any, packed: Any, few: Any) -> Any:
    """In each lane the maximum of its part."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = vectors_of(builder, arguments[0])
        half = few.count // 2
        while half:
            value = greater(builder, value, shuffled(builder, value, [k ^ half for k in range(WIDTH)]))
            half //= 2
        return joined(builder, [value])

    return packed(packed, few), generate


@intrinsic
def lane(typing_context: Any, row: Any, k: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = vectors_of(builder, arguments[0])
        return builder.extract_element(value, arguments[1])

    return types.float64(row, types.int64), generate


@intrinsic
def load_square(typing_context: Any, array: Any, rows: Any, few: Any) -> Any:
    """The rows of a padded matrix, those beyond `rows` zeros."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, rows, _ = arguments
        first = number_address(context, builder, signature.args[0], array, rows.type(0))
        square = []
        for i in range(few.count):
            inside = builder.icmp_signed("<", rows.type(i), rows)
            at = builder.select(inside, rows.type(i * WIDTH), rows.type(0))
            square.append(builder.select(inside, _load_row(builder, first, at, few), constant(0.0, _kind(few))))
        return joined(builder, square)

    return LanesType(few.count, few.count)(array, types.int64, few), generate


@intrinsic
def product(typing_context: Any, row: Any, square: Any) -> Any:
    """Σ_i row(i) M(i, ·), the even and the odd rows in sums of their own, as `simd.spread` adds them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = vectors_of(builder, arguments[0])
        sums = [constant(0.0, value.type)] * 2
        for i, line in enumerate(vectors_of(builder, arguments[1])):
            factor = shuffled(builder, value, [i] * value.type.count)
            sums[i % 2] = call_llvm(builder, "fma", [factor, line, sums[i % 2]])
        return joined(builder, [builder.fadd(*sums)])

    return row(row, square), generate


@intrinsic
def store_square(typing_context: Any, array: Any, square: Any) -> Any:
    """The rows of a square to those of a padded matrix, without the padding."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = number_address(context, builder, signature.args[0], arguments[0], ir.Constant(INDEX, 0))
        for i, line in enumerate(vectors_of(builder, arguments[1])):
            address = builder.gep(first, [ir.Constant(INDEX, i * WIDTH)])
            builder.store(line, builder.bitcast(address, line.type.as_pointer())).align = 8
        return context.get_dummy_value()

    return types.void(array, square), generate


@intrinsic
def scaled(typing_context: Any, row: Any, square: Any, factor: Any) -> Any:
    """row(i) M(i, ·) factor(·)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,), lines, (factor,) = (vectors_of(builder, argument) for argument in arguments)
        count = value.type.count
        moved = [builder.fmul(shuffled(builder, value, [i] * count), line) for i, line in enumerate(lines)]
        return joined(builder, [builder.fmul(line, factor) for line in moved])

    return square(row, square, factor), generate


@intrinsic
def times(typing_context: Any, left: Any, right: Any) -> Any:
    """The product of two squares."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = (vectors_of(builder, argument) for argument in arguments)
        rows = []
        for value in left:
            sum_ = constant(0.0, value.type)
            for f, line in enumerate(right):
                sum_ = call_llvm(builder, "fma", [shuffled(builder, value, [f] * value.type.count), line, sum_])
            rows.append(sum_)
        return joined(builder, rows)

    return left(left, right), generate


@intrinsic
def columns_agree(typing_context: Any, square: Any, possible: Any, ignore: Any, tolerance: Any, least: Any) -> Any:
    """Do the columns f with possible(f) > 0 agree in each row, or is all of it below ignore(i)?"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lines, (possible,), (ignore,) = (vectors_of(builder, argument) for argument in arguments[:3])
        tolerance, least = arguments[3:]
        kept = builder.fcmp_ordered(">", possible, constant(0.0, possible.type))
        agree = ir.Constant(ir.IntType(1), 1)
        for i, line in enumerate(lines):
            low = folded(builder, builder.select(kept, line, constant(math.inf, line.type)), smaller)
            high = folded(builder, builder.select(kept, line, constant(0.0, line.type)), greater)
            small = builder.fcmp_ordered("<", high, builder.extract_element(ignore, ir.Constant(INDEX, i)))
            near = builder.fcmp_ordered("<=", builder.fsub(high, low), builder.fmul(tolerance, low))
            near = builder.and_(near, builder.fcmp_ordered(">", low, least))
            agree = builder.and_(agree, builder.or_(small, near))
        return agree

    return types.boolean(square, possible, ignore, types.float64, types.float64), generate
