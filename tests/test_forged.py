"""Files that somebody has made to do harm, or that change while they are read: one sentence, and never a crash."""

from __future__ import annotations

import copy
import errno
import io
import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

import chainfold as cf
from chainfold import errors
from chainfold.chain import arrow_messages as messages
from chainfold.chain import batches, flatbuffer
from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.batches import StoredChain
from chainfold.chain.stored import write_chain
from chainfold.engines.registry import ENGINES
from chainfold.features.template import parse_attributes
from fuzz.chains import TEXT, whole
from fuzz.forging import Forgery
from verbs import failed

DAMAGED = "not a chain written by chainfold, or it is cut short or damaged"


def forgery_of(kind: str, change: Callable[[Forgery], None]) -> Forgery:
    """A small chain, changed; its digests and checksums are right."""
    forgery = copy.deepcopy(whole(kind)[1])
    change(forgery)
    return forgery


def number(name: str, value: Any, at: int = 0, batch: int = 0) -> Callable[[Forgery], None]:
    """One number of a batch is another."""

    def change(forgery: Forgery) -> None:
        forgery.batches[batch][name][at] = value

    return change


def about(**values: Any) -> Callable[[Forgery], None]:
    """The header says something else."""

    def change(forgery: Forgery) -> None:
        forgery.about |= values
        forgery.about["active"] = values.get("active", forgery.about["entries"] / max(forgery.about["positions"], 1))

    return change


def marks(value: int) -> Callable[[Forgery], None]:
    def change(forgery: Forgery) -> None:
        forgery.marks[0, 0] |= np.uint64(value)

    return change


def counts(value: int) -> Callable[[Forgery], None]:
    def change(forgery: Forgery) -> None:
        forgery.counts[0] = value

    return change


def names(texts: Any) -> Callable[[Forgery], None]:
    def change(forgery: Forgery) -> None:
        forgery.names[""] = pa.array(texts(forgery.names[""].to_pylist()), pa.large_string())

    return change


def nulls(forgery: Forgery) -> None:
    forgery.batches[0]["label"] = pa.array(forgery.batches[0]["label"], mask=np.array([True, False, False, False]))


FORGED: dict[str, tuple[str, Callable[[Forgery], None], str]] = {
    "an id of 2^30": ("named", number("ids", 1 << 30), "have an attribute that is not from 0 to"),
    "an id below zero": ("hashed", number("ids", -1), "have an attribute that is not from 0 to"),
    "an edge id": ("edges", number("edge_ids", 1 << 30), "have an edge attribute that is not from 0 to"),
    "a later batch": ("named", number("ids", 99, batch=1), "positions 4 to 6 have an attribute"),
    "a label": ("named", number("label", 1 << 30), "have a label that is not from 0 to 2"),
    "a label below": ("named", number("label", -2), "have a label that is not from 0 to 2"),
    "an unknown label": ("named", number("label", -1), "unknown labels, and the chain says that all are known"),
    "a mark": ("named", number("start", 2), "start marks that are neither 0 nor 1"),
    "the first mark": ("named", number("start", 0), "the first position of a chain must be a start"),
    "offsets that fall": ("named", number("ids:offsets", 99, 1), "offsets, ids and values that do not belong together"),
    "offsets below": ("named", number("ids:offsets", -9, 1), "offsets, ids and values that do not belong together"),
    "offsets beyond": ("named", number("ids:offsets", 1 << 40, -1), "are damaged"),
    "other offsets": ("valued", number("values:offsets", 0, 1), "ids and values that do not belong together"),
    "a value": ("valued", number("values", np.nan), "values that are not finite"),
    "an infinite value": ("valued", number("values", np.inf), "values that are not finite"),
    "a weight": ("weighted", number("weight", -1.0), "weights that are negative or not finite"),
    "a weight of nan": ("weighted", number("weight", np.nan), "weights that are negative or not finite"),
    "nulls": ("named", nulls, "positions 0 to 3 are damaged"),
    "positions": ("named", about(positions=2**53), "damaged"),
    "positions as a text": ("named", about(labelled="yes"), DAMAGED),
    "positions as a flag": ("named", about(min_count=True), DAMAGED),
    "a batch of zero": ("named", about(batch=0), DAMAGED),
    "a batch of 2^40": ("named", about(batch=2**40), DAMAGED),
    "half a batch": ("named", about(batch=2), "damaged"),
    "entries": ("named", about(entries=-1), DAMAGED),
    "a mean": ("named", about(active=1e300), DAMAGED),
    "a mean of nan": ("named", about(active=float("nan")), DAMAGED),
    "no sequence": ("named", about(sequences=0), DAMAGED),
    "labels": ("named", about(n_labels=2**40), DAMAGED),
    "two labels alike": ("named", about(labels=["D", "N", "V", "V"]), DAMAGED),
    "labels as numbers": ("named", about(labels=[1, 2, 3, 4]), DAMAGED),
    "half a character": ("named", about(labels=["\ud800", "N", "V", "C"]), DAMAGED),
    "many attributes": ("named", about(n_attributes=2**31 - 1), "its vocabulary is damaged"),
    "few attributes": (
        "named",
        about(n_attributes=1),
        "its vocabulary is damaged|an attribute that is not from 0 to 0",
    ),
    "many hashes": ("hashed", about(n_attributes=2**31 - 1), DAMAGED),
    "hash bits": ("hashed", about(hash_bits=64), DAMAGED),
    "few hash bits": ("hashed", about(hash_bits=1), DAMAGED),
    "no hash bits": ("hashed", about(hash_bits=None), DAMAGED),
    "words": ("named", about(words=2**40), DAMAGED),
    "no words": ("named", about(words=0), DAMAGED),
    "some words": ("named", about(words=1000), "its vocabulary is damaged"),
    "a mark of no label": ("named", marks(1 << 63), "its vocabulary is damaged"),
    "a count": ("named", counts(-1), "its vocabulary is damaged"),
    "a name less": ("named", names(lambda texts: texts[:-1]), "its vocabulary is damaged"),
    "a name that is missing": ("named", names(lambda texts: [None, *texts[1:]]), "its vocabulary is damaged"),
    "another version": ("named", about(version=[]), DAMAGED),
}


def read_all(chain: Any, block: int = 1) -> None:
    for low in range(0, chain.positions, block):
        chain.block(low, min(low + block, chain.positions))
    _ = chain.vocabulary


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_chain_is_refused_in_a_file_and_in_a_pipe(case: str, tmp_path: Path) -> None:
    kind, change, sentence = FORGED[case]
    forgery = forgery_of(kind, change)
    path = forgery.stored(tmp_path / "chain")
    with pytest.raises(errors.BadFile, match=sentence):
        read_all(open_chain(path))
    with pytest.raises(errors.BadFile, match=sentence):
        read_all(open_chain(io.BytesIO(forgery.stream())))
    (tmp_path / "rows").write_text(TEXT)
    before = path.read_bytes()
    with pytest.raises(errors.ChainfoldError):
        cf.encode(tmp_path / "rows", path, format="conll", columns=["0", "1", "2", "3", "label"], append=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["named", "hashed", "valued", "weighted", "edges", "nameless"])
def test_a_chain_put_together_again_is_as_it_was(kind: str, tmp_path: Path) -> None:
    data, forgery = whole(kind)
    assert forgery.file() == data
    read_all(open_chain(forgery.stored(tmp_path / "chain")))
    read_all(open_chain(io.BytesIO(forgery.stream())))


def test_the_command_line_says_one_sentence_of_a_forged_chain(tmp_path: Path) -> None:
    path = forgery_of("named", number("ids", 1 << 30)).stored(tmp_path / "x.chain")
    for verb in (["data"], ["gradient"], ["data", "--decode"]):
        assert failed(*verb, path).startswith(f"{path}: the source's positions 0 to 3 have an attribute that is not")


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_bomb_is_not_unpacked(compression: str, tmp_path: Path) -> None:
    """A hundred million entries in a few kilobytes: neither a file nor a pipe may unpack them."""

    def change(forgery: Forgery) -> None:
        forgery.compression = compression
        for batch in forgery.batches[:1]:
            batch["ids"] = np.zeros(10**7, np.int32)
            batch["ids:offsets"][-1] = 10**7

    forgery = forgery_of("hashed", change)
    path, stream = forgery.stored(tmp_path / "chain"), io.BytesIO(forgery.stream())
    assert path.stat().st_size < 10**6
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(errors.BadFile, match="positions 0 to 0 are damaged"):
        open_chain(path).block(0, 1)
    with pytest.raises(errors.BadFile, match="positions 0 to 0 are damaged"):
        open_chain(stream).block(0, 1)
    assert pa.default_memory_pool().max_memory() == before


def places_of(path: Path) -> messages.MessageFile:
    with path.open("rb") as file:
        return messages.MessageFile(file)


@pytest.mark.parametrize("field", ["offset", "metadata", "body"])
@pytest.mark.parametrize("value", [-8, 2**31 - 8, 2**62])
def test_sizes_are_compared_with_the_file_before_anything_is_allocated(field: str, value: int, tmp_path: Path) -> None:
    path = tmp_path / "chain"
    path.write_bytes(whole("named")[0])
    place = places_of(path).batches[1].copy()
    old = place.tobytes()
    place[field] = value if field != "metadata" else min(value, 2**31 - 8)
    path.write_bytes(path.read_bytes().replace(old, place.tobytes()))
    assert not is_chain(path)
    with pytest.raises(errors.BadFile, match=DAMAGED):
        open_chain(path)


def test_a_stream_that_states_terabytes_takes_no_memory() -> None:
    data = whole("hashed")[1].stream()
    begin = data.index(messages.STREAM, 8) + 8  # of the first batch
    body = begin + flatbuffer.FlatTable.root(data[begin:])._place(3)  # where it states the size of its body
    for stated in (2**45, -1):
        forged = data[:body] + stated.to_bytes(8, "little", signed=True) + data[body + 8 :]
        with pytest.raises(errors.BadFile, match="are damaged"):
            open_chain(io.BytesIO(forged)).block(0, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_that_states_ever_so_many_positions_takes_no_time(engine: str) -> None:
    """Nothing is allocated or counted by their number before the stream has ended."""
    forgery = forgery_of("nameless", about(positions=2**53))
    chain = open_chain(io.BytesIO(forgery.stream()))
    model = cf.Model.random(cf.Layout.full(chain.n_labels, chain.n_attributes, chain.n_edge_attributes))
    with pytest.raises((errors.ChainfoldError, MemoryError)):
        cf.log_likelihood(model, chain, engine, block=1)


@cache
def long_chain() -> bytes:
    """Of four batches."""
    with tempfile.TemporaryDirectory() as folder:
        write_chain(Path(folder) / "chain", cf.SyntheticChain(200_000, 3, 20, 4))
        return (Path(folder) / "chain").read_bytes()


@pytest.mark.parametrize("how", ["cut", "other numbers", "longer", "touched"])
@pytest.mark.parametrize("held", [False, True])
def test_a_file_that_changes_while_it_is_read_is_one_sentence(how: str, held: bool, tmp_path: Path) -> None:
    path = tmp_path / "chain"
    path.write_bytes(long_chain())
    chain = open_chain(path)
    if held:
        read = [chain.block(low, low + 1) for low in (0, 70_000, 140_000)]
    size = path.stat().st_size
    if how == "cut":
        os.truncate(path, size // 2)
    elif how == "longer":
        os.truncate(path, size + 1)
    elif how == "other numbers":
        with path.open("r+b") as file:
            file.seek(size // 10)
            file.write(random.Random(0).randbytes(size // 2))
    os.utime(path, ns=(0, 0))
    with pytest.raises(errors.BadFile, match=r"chain: was changed while it was read; try again when nothing writes"):
        read_all(chain, 8192)
    if held:
        assert all(block.labels.size == 1 and int(block.ids.max(initial=0)) < 20 for block in read)


def test_a_chain_that_is_replaced_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    path, source = tmp_path / "chain", cf.SyntheticChain(200_000, 3, 20, 4)
    write_chain(path, source)
    chain = open_chain(path)
    chain.block(0, 1)
    write_chain(path, cf.SyntheticChain(10, 2, 4, 1))
    np.testing.assert_array_equal(chain.block(150_000, 200_000).labels, source.block(150_000, 200_000).labels)


def test_no_file_is_left_open(tmp_path: Path) -> None:
    write_chain(tmp_path / "chain", cf.SyntheticChain(10, 2, 4, 1))
    (tmp_path / "other").write_bytes(b"ARROW1 and nothing else")
    before = open_files()
    for _ in range(3):
        open_chain(tmp_path / "chain").block(0, 3)
        with pytest.raises(errors.BadFile):
            open_chain(tmp_path / "other")
    assert open_files() == before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


@pytest.mark.parametrize(("number", "sentence"), [(errno.EMFILE, "Too many open files"), (errno.EIO, "Input/output")])
def test_errors_of_the_system_are_not_taken_for_damage(number: int, sentence: str, tmp_path: Path) -> None:
    write_chain(tmp_path / "chain", cf.SyntheticChain(10, 2, 4, 1))
    with (
        mock.patch.object(Path, "open", side_effect=OSError(number, os.strerror(number))),
        pytest.raises(errors.BadFile, match=f"chain: cannot be read: {sentence}"),
    ):
        StoredChain(tmp_path / "chain")


def test_memory_that_is_not_there_is_not_taken_for_damage(tmp_path: Path) -> None:
    write_chain(tmp_path / "chain", cf.SyntheticChain(10, 2, 4, 1))
    with mock.patch.object(batches, "_block", side_effect=pa.lib.ArrowMemoryError("no")), pytest.raises(MemoryError):
        open_chain(tmp_path / "chain").block(0, 1)


def test_big_endian_chains_and_machines_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chain"
    path.write_bytes(whole("named")[0])
    number = flatbuffer.FlatTable.number
    with monkeypatch.context() as patch:
        patch.setattr(flatbuffer.FlatTable, "number", lambda *given: 1 if given[2] == "<h" else number(*given))
        for source in (path, io.BytesIO(whole("named")[1].stream())):
            with pytest.raises(errors.BadFile, match=DAMAGED):
                open_chain(source)
    monkeypatch.setattr(sys, "byteorder", "big")
    for use in (lambda: open_chain(path), lambda: write_chain(path, cf.SyntheticChain(10, 2, 4, 1))):
        with pytest.raises(errors.ChainfoldError, match="chains are stored little-endian, and this machine is not"):
            use()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"forbid": True}, "forbid is True, but must be a list of transitions"),
        ({"allow": [1]}, r"allow is \[1\], but must be a list of transitions"),
        ({"scheme": 1}, "scheme is 1, but must be one of"),
        ({"algorithm": ["x"]}, r"algorithm is \['x'\], but must be one of"),
    ],
)
def test_settings_that_are_none(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(errors.ChainfoldError, match=sentence):
        cf.CRF(**settings).fit([[{"w": "a"}, {"w": "b"}]], [["A", "B"]])


@pytest.mark.parametrize("role", ["group", "weight"])
def test_a_column_of_lists_is_neither_a_group_nor_a_weight(role: str) -> None:
    role_of: dict[str, Any] = {role: "bag"}
    table = pa.table({"word": ["a", "b"], "bag": [["x"], ["y"]], "label": ["A", "B"]})
    with pytest.raises(errors.BadFile, match=f"the {role} column 'bag' has lists of attributes; set another `{role}`"):
        cf.chain_from_table(table, **role_of)


def test_a_range_beyond_a_double_is_told_without_a_warning() -> None:
    chain = cf.Chain.from_arrays(offsets=[0, 1, 2], ids=[0, 0], values=[1e308, -1e308], labels=[0, 1])
    cf.log_likelihood(cf.Model(cf.Layout.full(2, 1), np.zeros(6)), chain)


@pytest.mark.parametrize("expression", ["bins(n,{})", "scale(n,0,{})", "log(n,{})"])
def test_numbers_too_large_for_a_double(expression: str) -> None:
    with pytest.raises(errors.ChainfoldError, match="this is not how"):
        parse_attributes(expression.format("1" * 400))
