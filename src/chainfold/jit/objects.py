"""Python's own objects in kernels, through CPython's C interface: an object is its address, `id(object)`.

    type_at(o)               the address of its type
    entry_after(d, place)    (place, key, value) of a dict's entry after a place, 0 at first; place -1: there is none
    list_size, list_item, tuple_size, tuple_item
    utf8_at(s)               (address, bytes) of the UTF-8 text of a str; address 0: it has none
    float_at(f), int_at(i)   the number, NaN where it is too large for a double
    copy_bytes(source, target, bytes)     between addresses

    dict_like(d)             a new dict with the same keys and values; 0 where there is no memory
    set_number(d, key, x)    d[key] = x; False where there is no memory
    give(l, index, o)        l[index] = o, which belongs to the list from now on

Kernels that use them hold the interpreter lock (`kernel(lock=True)`), and their caller holds the objects. None of those
that read runs code of Python's, so that nothing changes or is freed as long as a kernel reads. Indices are not checked.
"""

from __future__ import annotations

import ctypes
import math
import sysconfig
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from chainfold.jit.intrinsics import intrinsic

_TYPE = object.__basicsize__ - 8  # the type is what the head of an object ends with
_WORD, _INT, _NUMBER = ir.IntType(64), ir.IntType(32), ir.DoubleType()
_POINTER = cgutils.voidptr_t


@cache
def are_readable() -> bool:
    """Are objects where this module looks for them, and does the interpreter lock keep others from changing them?"""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    samples: list[Any] = ["a", {}, [], (), 1.5, 2, True]
    return all(ctypes.c_uint64.from_address(id(one) + _TYPE).value == id(type(one)) for one in samples)


def _call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """Call a function of CPython's."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _clear_if(builder: Any, failed: Any) -> None:
    """Clear the error that a call has set, if it failed: kernels do not raise."""
    with builder.if_then(failed, likely=False):
        _call(builder, "PyErr_Clear", ir.VoidType(), [])


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _POINTER)


@intrinsic
def type_at(typing_context: Any, thing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.add(arguments[0], _WORD(_TYPE))
        return builder.load(builder.inttoptr(place, _WORD.as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def copy_bytes(typing_context: Any, source: Any, target: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target, size = arguments
        _call(builder, "memcpy", _POINTER, [_pointer(builder, target), _pointer(builder, source), size])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def entry_after(typing_context: Any, mapping: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, key, value = (cgutils.alloca_once(builder, _WORD) for _ in range(3))
        builder.store(arguments[1], place)
        things = [builder.bitcast(slot, _POINTER.as_pointer()) for slot in (key, value)]
        more = _call(builder, "PyDict_Next", _INT, [_pointer(builder, arguments[0]), place, *things])
        after = builder.select(builder.icmp_signed("!=", more, _INT(0)), builder.load(place), _WORD(-1))
        return context.make_tuple(builder, signature.return_type, [after, builder.load(key), builder.load(value)])

    return types.UniTuple(types.int64, 3)(types.int64, types.int64), generate


@intrinsic
def utf8_at(typing_context: Any, text: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = cgutils.alloca_once(builder, _WORD)
        data = _call(builder, "PyUnicode_AsUTF8AndSize", _POINTER, [_pointer(builder, arguments[0]), size])
        _clear_if(builder, cgutils.is_null(builder, data))
        found = [builder.ptrtoint(data, _WORD), builder.load(size)]
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.int64, 2)(types.int64), generate


def _number(name: str) -> Any:
    @intrinsic
    def number_at(typing_context: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            found = cgutils.alloca_once_value(builder, _call(builder, name, _NUMBER, [_pointer(builder, arguments[0])]))
            perhaps = builder.fcmp_ordered("==", builder.load(found), _NUMBER(-1.0))
            with builder.if_then(perhaps, likely=False):
                error = _call(builder, "PyErr_Occurred", _POINTER, [])
                with builder.if_then(cgutils.is_not_null(builder, error), likely=False):
                    _call(builder, "PyErr_Clear", ir.VoidType(), [])
                    builder.store(_NUMBER(math.nan), found)
            return builder.load(found)

        return types.float64(types.int64), generate

    return number_at


def _size(name: str) -> Any:
    @intrinsic
    def size(typing_context: Any, things: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _call(builder, name, _WORD, [_pointer(builder, arguments[0])])

        return types.int64(types.int64), generate

    return size


def _item(name: str) -> Any:
    @intrinsic
    def item(typing_context: Any, things: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            found = _call(builder, name, _POINTER, [_pointer(builder, arguments[0]), arguments[1]])
            return builder.ptrtoint(found, _WORD)

        return types.int64(types.int64, types.int64), generate

    return item


float_at, int_at = _number("PyFloat_AsDouble"), _number("PyLong_AsDouble")
list_size, list_item = _size("PyList_Size"), _item("PyList_GetItem")
tuple_size, tuple_item = _size("PyTuple_Size"), _item("PyTuple_GetItem")


@intrinsic
def dict_like(typing_context: Any, mapping: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = _call(builder, "PyDict_Copy", _POINTER, [_pointer(builder, arguments[0])])
        _clear_if(builder, cgutils.is_null(builder, made))
        return builder.ptrtoint(made, _WORD)

    return types.int64(types.int64), generate


@intrinsic
def set_number(typing_context: Any, mapping: Any, key: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        mapping, key, number = arguments
        done = cgutils.alloca_once_value(builder, _INT(-1))
        made = _call(builder, "PyFloat_FromDouble", _POINTER, [number])
        with builder.if_then(cgutils.is_not_null(builder, made)):
            things = [_pointer(builder, mapping), _pointer(builder, key), made]
            builder.store(_call(builder, "PyDict_SetItem", _INT, things), done)
            _call(builder, "Py_DecRef", ir.VoidType(), [made])
        failed = builder.icmp_signed("!=", builder.load(done), _INT(0))
        _clear_if(builder, failed)
        return builder.not_(failed)

    return types.boolean(types.int64, types.int64, types.float64), generate


@intrinsic
def give(typing_context: Any, things: Any, index: Any, thing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        things, index, thing = arguments
        _call(builder, "PyList_SetItem", _INT, [_pointer(builder, things), index, _pointer(builder, thing)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate
