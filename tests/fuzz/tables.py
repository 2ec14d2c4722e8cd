"""Tables with columns of every Arrow type, in memory and in Parquet, Feather and Arrow files, whole and damaged."""

from __future__ import annotations

import datetime
import decimal
import io
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from chainfold import encode, tag_to
from chainfold.features.encode import chain_from_table
from fuzz.nasty import INTEGERS, REALS, damaged, word
from fuzz.texts import model

ROWS = 4
PLAIN: list[Any] = [pa.string(), pa.large_string(), pa.string_view(), pa.int8(), pa.int32(), pa.int64(), pa.uint64()]
PLAIN += [pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null(), pa.binary(), pa.large_binary(), pa.binary(3)]
PLAIN += [pa.binary_view(), pa.date32(), pa.date64(), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.time32("s")]
PLAIN += [pa.time64("us"), pa.duration("ms"), pa.decimal128(38, 2), pa.decimal256(70, -3), pa.month_day_nano_interval()]


class Odd(pa.ExtensionType):  # type: ignore[misc]
    """A type that no reader knows."""

    def __init__(self, storage: Any = None) -> None:
        super().__init__(storage or pa.int32(), "odd")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


def _type(dice: random.Random, depth: int = 2) -> Any:
    kind = dice.randrange(12) if depth else 0
    inner = _type(dice, depth - 1) if kind >= 5 else None
    if kind == 5:
        return pa.list_(inner)
    if kind == 6:
        return pa.large_list(inner)
    if kind == 7:
        return pa.dictionary(dice.choice([pa.int8(), pa.int32(), pa.uint16()]), pa.string())
    if kind == 8:
        return pa.struct({"a": inner, word(dice): pa.int32()})
    if kind == 9:
        return pa.list_(inner, 2)
    if kind == 10:
        return pa.map_(pa.string(), inner)
    if kind == 11:
        return Odd()
    return dice.choice([pa.string(), pa.float64(), pa.int64(), dice.choice(PLAIN)])


def _value(kind: Any, dice: random.Random) -> Any:
    """One of Python that Arrow may take for this type."""
    if dice.random() < 0.1 or pa.types.is_null(kind):
        return None
    if pa.types.is_integer(kind):
        return dice.choice(INTEGERS[:10])
    if pa.types.is_floating(kind):
        return dice.choice(REALS)
    if pa.types.is_boolean(kind):
        return dice.random() < 0.5
    if pa.types.is_temporal(kind):
        return (
            datetime.datetime(dice.choice([1, 1970, 2024, 9999]), 1, 1)
            if not pa.types.is_duration(kind)
            else datetime.timedelta(1)
        )
    if pa.types.is_decimal(kind):
        return decimal.Decimal(dice.choice(["1", "-2.5", "1e20"]))
    if pa.types.is_map(kind):
        return [(word(dice), _value(kind.item_type, dice))]
    if pa.types.is_struct(kind):
        return {"a": _value(kind.field(0).type, dice)}
    if pa.types.is_fixed_size_list(kind):
        return [_value(kind.value_type, dice) for _ in range(2)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(kind.value_type, dice) for _ in range(dice.choice([0, 1, 3]))]
    text = word(dice)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return dice.choice([b"abc", b"\xff\xfe\x00"])
    return text


def _column(dice: random.Random, rows: int) -> Any:
    kind = _type(dice)
    plain = kind.storage_type if isinstance(kind, Odd) else kind
    plain = plain.value_type if pa.types.is_dictionary(plain) else plain
    try:
        array = pa.array([_value(plain, dice) for _ in range(rows)], plain)
        array = pa.ExtensionArray.from_storage(kind, array) if isinstance(kind, Odd) else array.cast(kind)
        array.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError, NotImplementedError):
        array = pa.array([str(row) for row in range(rows)])
    return array


def _table(dice: random.Random) -> Any:
    rows = dice.choice([0, 1, ROWS, ROWS, ROWS])
    count = dice.choice([0, 1, 2, 2, 3])
    names = ["word", "n", "tag"] if dice.random() < 0.8 else [word(dice) for _ in range(3)]
    columns = [_column(dice, rows) for _ in range(count)]
    if dice.random() < 0.8:
        columns.append(pa.array([dice.choice(["A", "B"]) for _ in range(rows)]))
    names = [*names[:count], "label"][: len(columns)]
    table = pa.Table.from_arrays(columns, names=names)
    if dice.random() < 0.2 and rows:
        table = pa.concat_tables([table, table.slice(1)])
    return table


def _options(dice: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, values in (
        ("labels", [False]),
        ("label", ["tag", "word", word(dice)]),
        ("symbols", [["n"], ["word"], [word(dice)]]),
        ("group", ["word", "n"]),
        ("weight", ["n", "word"]),
        ("numbers", ["real", "log", "standard", "symbol"]),
        ("attributes", ["word n", "word[-1] real(n)", "bins(n,1,2)"]),
        ("hash_bits", [3]),
        ("columns", [["a", "b", "c"], ["a"]]),
    ):
        if dice.random() < 0.08:
            options[name] = dice.choice(values)
    return options


def in_memory(dice: random.Random, folder: Path) -> None:
    """A table that is already there."""
    chain_from_table(_table(dice), **_options(dice))


def arrays(dice: random.Random, folder: Path) -> None:
    """NumPy's structured arrays and matrices of odd types."""
    kind = dice.choice(["U3", "S3", "f8", "i8", "u8", "O", "M8[s]", "m8[s]", "c16", "?", "f2", "V4"])
    try:
        if dice.random() < 0.5:
            array = np.zeros(3, [("word", kind), ("label", dice.choice(["U2", "O", "i4"]))])
        else:
            array = np.zeros((dice.choice([0, 1, 3]), dice.choice([0, 1, 3])), kind)
    except TypeError:
        return
    chain_from_table(array, **_options(dice))


def _file(dice: random.Random, folder: Path) -> Path:
    table, sink = _table(dice), io.BytesIO()
    kind = dice.choice(["parquet", "feather", "arrow", "stream"])
    try:
        if kind == "parquet":
            pyarrow.parquet.write_table(table, sink, compression=dice.choice(["snappy", "zstd", "none"]))
        elif kind == "feather":
            pyarrow.feather.write_feather(table, sink, compression=dice.choice(["lz4", "uncompressed"]))
        else:
            new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
            with new(sink, table.schema) as writer:
                writer.write_table(table)
    except (pa.ArrowException, NotImplementedError, ValueError, TypeError, OSError):
        sink = io.BytesIO(b"PAR1")
    data = sink.getvalue()
    path = folder / "table"
    path.write_bytes(damaged(data, dice) if dice.random() < 0.5 else data)
    return path


def files(dice: random.Random, folder: Path) -> None:
    """Parquet, Feather, Arrow files and streams."""
    path = _file(dice, folder)
    given = dice.choice([None, None, "parquet", "arrow"])
    with suppress(pa.ArrowMemoryError):  # of a size that damage has made large
        if dice.random() < 0.8:
            encode(path, folder / "chain", format=given, **_options(dice))
        else:
            tag_to(io.BytesIO(), model(), path, format=given)


TARGETS = {"tables": in_memory, "arrays": arrays, "table-files": files}
