"""Eight bytes at a time, from anywhere in an array of bytes: strings are hashed, compared and copied word by word.

word(array, offset)   put_word(array, offset, value)   nothing checks the bounds
prefetch(array, index)                                 begin to bring array[index] near, and do not wait for it
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

intrinsic: Any = extending.intrinsic  # what it decorates is called without the typing context, and from kernels alone

WORD = 8
"""Bytes in a word."""


def _address(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), ir.IntType(64).as_pointer())


@intrinsic
def word(typing_context: Any, array: Any, offset: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = builder.load(_address(context, builder, signature.args[0], *arguments))
        loaded.align = 1
        return loaded

    return types.uint64(array, types.int64), generate


@intrinsic
def put_word(typing_context: Any, array: Any, offset: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, offset, value = arguments
        stored = builder.store(value, _address(context, builder, signature.args[0], array, offset))
        stored.align = 1
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(function, [place, number(0), number(3), number(1)])  # to read, into every cache, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate
