"""Cells of tables that are too large: refused before their memory is taken, with the row and the column."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import chainfold as cf
from chainfold.errors import BadFile
from chainfold.readers import parquet, table_sizes, tables

MB = 1 << 20
CELL = "a" * (2 * MB)
LABELS = ["A", "B", "A"]


def repeated(text: str, count: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def lists(entries: Any, *offsets: int) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries)


def refused(path: Path, table: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """What is said of a table that is written and read, and that nothing of it is read for that."""
    for limit, size in (("LONGEST_LINE", MB), ("_SLACK", 0), ("_MOST_IN_PAGE", 4 * MB)):
        monkeypatch.setattr(table_sizes, limit, size)
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    else:
        feather.write_feather(table, path, compression="zstd", **options)
    monkeypatch.setattr(tables, "normal", lambda batch, *others: batch if not batch.num_rows else pytest.fail("read"))
    before = pa.total_allocated_bytes()
    with pytest.raises(BadFile) as error:
        cf.encode(path, path.with_name("chain"))
    assert pa.total_allocated_bytes() - before < MB
    return str(error.value).partition(": ")[2]


@pytest.mark.parametrize("dictionary", [False, True])
def test_a_huge_cell_of_parquet(dictionary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"w": [CELL], "l": LABELS[:1]})
    where = "column 'w'" if dictionary else "row 1, column 'w'"
    options = {"use_dictionary": dictionary, "dictionary_pagesize_limit": 1 << 30}
    said = refused(tmp_path / "x.parquet", table, monkeypatch, **options)
    assert said == f"{where}: a cell has more than 64 MB; shorten it, or leave the column out."


def test_lists_that_are_short_in_the_file_and_long_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = lists(repeated("b", MB), 0, 1, MB)
    said = refused(tmp_path / "x.parquet", pa.table({"w": many, "l": LABELS[:2]}), monkeypatch)
    assert "rows 1 to 2, column 'w': a page with 1,048,576 values takes 5 MB in memory, more than 4" in said
    large = lists(repeated("b" * 100_000, 300), 0, 1, 300)
    options = {"dictionary_pagesize_limit": 1 << 30}
    said = refused(tmp_path / "y.parquet", pa.table({"w": large, "l": LABELS[:2]}), monkeypatch, **options)
    assert "a page with 300 values takes 28 MB in memory" in said


def test_a_huge_cell_of_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"w": [CELL], "l": LABELS[:1]})
    said = refused(tmp_path / "x.arrow", table, monkeypatch)
    assert said == "row 1: a cell has more than 64 MB; shorten it, or leave the column out."
    monkeypatch.setattr(table_sizes, "_MOST_IN_BATCH", MB)
    table = pa.table({"w": ["a" * 100_000] * 20, "l": ["A"] * 20})
    assert "rows 1 to 20: a compressed batch of 1 MB, more than 1 MB" in refused(
        tmp_path / "x.arrow", table, monkeypatch
    )


def test_a_huge_cell_of_an_arrow_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sizes, "LONGEST_LINE", MB)
    monkeypatch.setattr(table_sizes, "_SLACK", 0)
    small, large = (pa.table({"w": [text], "l": ["A"]}) for text in ("x", CELL))
    path = tmp_path / "x.arrows"
    for options in (pa.ipc.IpcWriteOptions(compression="zstd"), pa.ipc.IpcWriteOptions()):
        with pa.ipc.new_stream(path, small.schema, options=options) as writer:
            writer.write_table(small)
        assert cf.encode(path, tmp_path / "chain", format="arrow").positions == 1
        with pa.ipc.new_stream(path, small.schema, options=options) as writer:
            for table in (small, small, large):
                writer.write_table(table)
        with pytest.raises(BadFile, match=r"row 3.*: (a|the) cell has more than 64 MB"):
            cf.encode(path, tmp_path / "chain", format="arrow")
    monkeypatch.setattr(table_sizes, "_MOST_IN_BATCH", MB)
    (tmp_path / "x.arrows.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(BadFile, match="from row 3 on: a batch of 2 MB, more than 1 MB"):
        cf.encode(tmp_path / "x.arrows.gz", tmp_path / "chain", format="arrow")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", "a" * 200, "y"]),
        pa.array([None, "a" * 200, "y"], pa.large_string()),
        pa.array(["x", "a" * 200, "y"]).dictionary_encode(),
        lists(pa.array(["x"] * 150), 0, 1, 149, 150),
        lists(pa.array(["x", "a" * 90, "b" * 90, "c"]).dictionary_encode(), 0, 1, 3, 4),
    ],
    ids=["text", "large", "dictionary", "list", "bag"],
)
def test_a_cell_that_is_found_too_large_when_it_is_read(column: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_sizes, "LONGEST_LINE", 100)
    table = pa.table({"w": column, "l": LABELS})
    with pytest.raises(BadFile, match="row 2, column 'w': the cell has more than 64 MB"):
        cf.chain_from_table(table)
    assert cf.chain_from_table(table.slice(2)).positions == 1


def test_large_rows_are_read_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.parquet"
    words = [f"{k}" * 1000 for k in range(500)]
    table = pa.table({"w": words, "b": [[word] for word in words], "l": ["A", "B"] * 250})
    pq.write_table(table, path, row_group_size=200, data_page_size=10_000)
    whole = cf.encode(path, tmp_path / "whole")
    monkeypatch.setattr(table_sizes, "MOST_AT_ONCE", 100_000)
    sizes, stretches = [], tables.stretches_of_batches

    def passed(batches: Any) -> Any:
        for batch in batches:
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(parquet, "stretches_of_batches", lambda batches, *others: stretches(passed(batches), *others))
    parts = cf.encode(path, tmp_path / "parts")
    assert 1 < max(sizes) < 100
    assert (tmp_path / "whole").read_bytes()[:1000] == (tmp_path / "parts").read_bytes()[:1000]
    assert whole.positions == parts.positions == 500


def test_headers_of_pages_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"w": ["x", "y"], "l": ["A", "B"]}), path)
    data = bytearray(path.read_bytes())
    data[4:24] = b"\xff" * 20
    path.write_bytes(data)
    with pytest.raises(BadFile, match="cannot be read as Parquet: the header of a page is damaged"):
        cf.encode(path, tmp_path / "chain")
