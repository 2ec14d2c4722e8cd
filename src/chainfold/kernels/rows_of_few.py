"""Rows of up to four labels, several of which fit into a register.

A row has two lanes or four: `few` is a tuple of that length. A packed register has the rows of consecutive positions
side by side; rows in memory are padded to eight as everywhere else.

    load_few(array, offset, few)   store_few(array, offset, row)   ones(few)   spread_few(x, few)
    load_packed(array, offset, last, few)   part(packed, k, few)   max_of_parts(packed, few)   lane(packed, k)
    load_square(array, offset, rows, few)   product(row, square)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from chainfold.kernels.simd import (
    _INDEX,
    LanesType,
    _address,
    _call,
    _constant,
    _greater,
    _joined,
    _number,
    _parts,
    _shuffled,
    intrinsic,
    lanes,
)
from chainfold.kernels.slots import WIDTH


def _kind(few: Any) -> Any:
    return ir.VectorType(ir.DoubleType(), few.count)


def _load_row(builder: Any, first: Any, offset: Any, few: Any) -> Any:
    row = builder.load(builder.bitcast(builder.gep(first, [offset]), _kind(few).as_pointer()))
    row.align = 8
    return row


@intrinsic
def load_few(typing_context: Any, array: Any, offset: Any, few: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _number(context, builder, signature.args[0], *arguments[:2])
        return _joined(builder, [_load_row(builder, first, ir.Constant(_INDEX, 0), few)])

    return LanesType(1, few.count)(array, types.int64, few), generate


@intrinsic
def store_few(typing_context: Any, array: Any, offset: Any, row: Any) -> Any:
    """The row and its padding, zeros."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, offset, value = arguments
        (vector,) = _parts(builder, value)
        count = vector.type.count
        padded = _shuffled(builder, vector, [min(k, count) for k in range(WIDTH)], _constant(0.0, vector.type))
        builder.store(padded, _address(context, builder, signature.args[0], array, offset)).align = 8
        return context.get_dummy_value()

    return types.void(array, types.int64, row), generate


@intrinsic
def spread_few(typing_context: Any, x: Any, few: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.insert_element(ir.Constant(_kind(few), ir.Undefined), arguments[0], ir.Constant(_INDEX, 0))
        return _joined(builder, [_shuffled(builder, first, [0] * few.count)])

    return LanesType(1, few.count)(types.float64, few), generate


@intrinsic
def load_packed(typing_context: Any, array: Any, t: Any, last: Any, few: Any) -> Any:
    """The rows of positions t, t + 1, …, of `last` where they are beyond it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, t, last, _ = arguments
        first = _number(context, builder, signature.args[0], array, t.type(0))
        rows = [_load_row(builder, first, at, few) for at in _offsets(builder, t, last, few)]
        while len(rows) > 1:
            rows = [
                _shuffled(builder, a, list(range(2 * a.type.count)), b)
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
        return _joined(builder, rows)

    return lanes(array, types.int64, types.int64, few), generate


@intrinsic
def store_packed(typing_context: Any, array: Any, t: Any, last: Any, packed: Any, few: Any) -> Any:
    """The parts to the rows of positions t, t + 1, … up to `last`, whose part is repeated behind it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, t, last, packed, _ = arguments
        first = _number(context, builder, signature.args[0], array, t.type(0))
        (value,) = _parts(builder, packed)
        for k, at in enumerate(_offsets(builder, t, last, few)):
            row = _shuffled(builder, value, list(range(k * few.count, (k + 1) * few.count)))
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
        (value,) = _parts(builder, arguments[0])
        half = few.count // 2
        while half:
            value = _greater(builder, value, _shuffled(builder, value, [k ^ half for k in range(WIDTH)]))
            half //= 2
        return _joined(builder, [value])

    return packed(packed, few), generate


@intrinsic
def lane(typing_context: Any, row: Any, k: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = _parts(builder, arguments[0])
        return builder.extract_element(value, arguments[1])

    return types.float64(row, types.int64), generate


@intrinsic
def load_square(typing_context: Any, array: Any, rows: Any, few: Any) -> Any:
    """The rows of a padded matrix, those beyond `rows` zeros."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, rows, _ = arguments
        first = _number(context, builder, signature.args[0], array, rows.type(0))
        square = []
        for i in range(few.count):
            inside = builder.icmp_signed("<", rows.type(i), rows)
            at = builder.select(inside, rows.type(i * WIDTH), rows.type(0))
            square.append(builder.select(inside, _load_row(builder, first, at, few), _constant(0.0, _kind(few))))
        return _joined(builder, square)

    return LanesType(few.count, few.count)(array, types.int64, few), generate


@intrinsic
def product(typing_context: Any, row: Any, square: Any) -> Any:
    """Σ_i row(i) M(i, ·), the even and the odd rows in sums of their own, as `simd.spread` adds them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = _parts(builder, arguments[0])
        sums = [_constant(0.0, value.type)] * 2
        for i, line in enumerate(_parts(builder, arguments[1])):
            factor = _shuffled(builder, value, [i] * value.type.count)
            sums[i % 2] = _call(builder, "fma", [factor, line, sums[i % 2]])
        return _joined(builder, [builder.fadd(*sums)])

    return row(row, square), generate
