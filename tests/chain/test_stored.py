"""The chain on disk and in a pipe: it comes back as it was, or one sentence says that it does not."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shapes
from chainfold import Chain, ChainfoldError, Layout, Model, SyntheticChain, encode, errors, log_likelihood
from chainfold.chain import batches as reading
from chainfold.chain import header
from chainfold.chain import stored as store
from chainfold.chain.any_chain import open_chain
from chainfold.chain.batches import ChainReader, PipedChain, StoredChain
from chainfold.chain.block import Block, Source, vocabulary_of
from chainfold.chain.chain import gather
from chainfold.chain.stored import write_chain
from chainfold.chain.vocabulary import Vocabulary

SYNTHETIC = SyntheticChain(10_000, 4, 23, 5, seed=1)


def made(
    seed: int = 0,
    positions: int = 50,
    *,
    names: str = "exact",
    values: bool = False,
    edges: bool = False,
    weights: bool = False,
    labels: str = "known",
    n_labels: int = 3,
    most: int = 3,
) -> Chain:
    """A random chain: names exact, hashed or none; labels known, partly unknown, or none."""
    random = np.random.default_rng(seed)
    known = None if labels == "none" else random.integers(-1 if labels == "partly" else 0, n_labels, positions)
    starts = np.arange(positions) == 0
    starts |= random.random(positions) < 0.2
    numbers, n_edges = "real" if values else "one", 5 if edges else 0
    how: dict[str, Any] = {"most": most, "values": numbers, "n_edge_attributes": n_edges, "labels": known}
    chain = shapes.chain(random, positions, n_labels, 20, starts=starts, **how)
    if weights:
        chain = dataclasses.replace(chain, weights=random.exponential(size=positions)[np.cumsum(starts) - 1])
    return chain if names == "none" else described(chain, exact=names == "exact")


def described(chain: Chain, exact: bool = True) -> Chain:
    """The same chain with its vocabulary, counted from its data."""
    marks = np.zeros((chain.n_attributes, -(-chain.n_labels // 64)), np.uint64)
    for position, label in enumerate(chain.labels):
        for attribute in chain.ids[chain.offsets[position] : chain.offsets[position + 1]]:
            if label >= 0:
                marks[attribute, label // 64] |= np.uint64(1 << int(label % 64))

    def names(kind: str, count: int) -> Any:
        return pa.array([f"{kind}é{k}" for k in range(count)], pa.large_string()) if exact else None

    vocabulary = Vocabulary(
        labels=tuple(f"L{k}" for k in range(chain.n_labels)),
        attributes=names("w=", chain.n_attributes),
        edge_attributes=names("e=", chain.n_edge_attributes),
        counts=np.bincount(chain.ids, minlength=chain.n_attributes).astype(np.int64),
        marks=marks,
        hash_bits=None if exact else 12,
        min_count=2,
        template='{"features": []}',
    )
    return dataclasses.replace(chain, vocabulary=vocabulary)


KINDS: dict[str, dict[str, Any]] = {
    "named": {},
    "hashed": {"names": "hashed"},
    "valued": {"names": "none", "values": True},
    "with edges": {"values": True, "edges": True, "labels": "partly"},
    "unlabelled": {"edges": True, "labels": "none"},
    "weighted": {"weights": True},
}


def written(source: Source, target: Any, rows: int = 16) -> Any:
    """The target, with the source in it in small batches."""
    with mock.patch.object(store, "MOST_ROWS", rows):
        write_chain(target, source)
    if isinstance(target, io.BytesIO):
        target.seek(0)
    return target


def contents(block: Block) -> list[Any]:
    """The numbers of a block, whatever arrays they are parts of."""
    found: list[Any] = [block.labels.tolist(), block.starts.tolist(), block.weights.tobytes()]
    for offsets, ids, values in (
        (block.offsets, block.ids, block.values),
        (block.edge_offsets, block.edge_ids, block.edge_values),
    ):
        part = slice(offsets[0], offsets[-1]) if offsets.size else slice(0)
        found += [np.diff(offsets).tolist(), ids[part].tolist(), values[part].tobytes()]
    return found


def meaning(vocabulary: Vocabulary | None) -> list[Any]:
    if vocabulary is None:
        return []
    found: list[Any] = []
    for field in dataclasses.fields(vocabulary):
        value = getattr(vocabulary, field.name)
        found.append(value.tolist() if hasattr(value, "tolist") else value)
    return found


def everything(source: ChainReader, block: int = 7) -> list[Any]:
    """All that a stored chain can be asked for."""
    found: list[Any] = [source.header, meaning(source.vocabulary)]
    for low in range(0, source.positions, block):
        found.append(contents(source.block(low, min(low + block, source.positions))))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    positions=st.integers(1, 70),
    names=st.sampled_from(["exact", "hashed", "none"]),
    values=st.booleans(),
    edges=st.booleans(),
    weights=st.booleans(),
    labels=st.sampled_from(["known", "partly", "none"]),
    n_labels=st.sampled_from([1, 3, 64, 65, 130]),
    most=st.sampled_from([0, 3]),
    block=st.integers(1, 70),
)
def test_every_kind_comes_back_from_a_file_and_from_a_pipe(tmp_path: Path, block: int, **kind: Any) -> None:
    chain = made(**kind)
    stored = open_chain(written(chain, tmp_path / "chain"))
    (tmp_path / "stream").write_bytes(written(chain, io.BytesIO()).getvalue())
    piped = open_chain(tmp_path / "stream")
    assert isinstance(stored, StoredChain)
    assert isinstance(piped, PipedChain)
    for low in range(0, chain.positions, block):
        expected = contents(chain.block(low, min(low + block, chain.positions)))
        assert contents(stored.block(low, min(low + block, chain.positions))) == expected
        assert contents(piped.block(low, min(low + block, chain.positions))) == expected
    for source in (stored, piped):
        assert meaning(source.vocabulary) == meaning(chain.vocabulary)
        assert source.weighted == kind["weights"]
        assert source.active == chain.active
        assert source.entries == chain.ids.size
        assert source.sequences == chain.starts.sum()
        assert source.labelled == chain.labelled


def test_blocks_of_a_stored_chain_may_span_batches(tmp_path: Path) -> None:
    source = SyntheticChain(150_000, 3, 10, 2, seed=6, n_edge_attributes=2, mean_length=100)
    path = tmp_path / "chain.arrow"
    write_chain(path, source)
    stored = open_chain(path)
    for low, high in ((65_530, 65_540), (0, 65_536), (65_536, 65_537), (60_000, 140_000), (131_072, 150_000)):
        assert contents(stored.block(low, high)) == contents(source.block(low, high))
    model = Model.random(Layout.full(3, 10, 2))
    assert log_likelihood(model, stored).log_z == log_likelihood(model, source).log_z


def test_edge_offsets_without_edges_are_no_edges(tmp_path: Path) -> None:
    positions = 70_000
    chain = Chain.from_arrays(
        offsets=np.arange(positions + 1),
        ids=np.zeros(positions, int),
        labels=np.zeros(positions, int),
        edge_offsets=np.zeros(positions + 1),
    )
    write_chain(tmp_path / "chain", chain)
    model = Model.random(Layout.full(1, 1))
    found, stored = log_likelihood(model, chain, block=100), log_likelihood(model, open_chain(tmp_path / "chain"))
    assert found.log_z == pytest.approx(stored.log_z, rel=1e-14)
    assert found.report.bytes_read < 40 * positions


def test_a_chain_without_labels_needs_no_number_of_them(tmp_path: Path) -> None:
    chain = dataclasses.replace(made(labels="none", names="none"), n_labels=0)
    stored = open_chain(written(chain, tmp_path / "chain"))
    assert (stored.n_labels, stored.labelled) == (0, False)
    assert contents(stored.block(0, 50)) == contents(chain.block(0, 50))


def test_blocks_are_views_of_a_batch_that_is_held(tmp_path: Path) -> None:
    stored = open_chain(written(made(values=True, edges=True, weights=True), tmp_path / "chain"))
    for once, again in zip(stored.block(3, 9), stored.block(4, 8), strict=True):
        assert np.shares_memory(once, again)
        assert isinstance(once, np.ndarray)
        assert not once.flags.writeable


def test_any_arrow_tool_shows_the_names_and_they_are_written_once(tmp_path: Path) -> None:
    chain = made(edges=True)
    assert chain.vocabulary is not None
    reader = pa.ipc.open_file(written(chain, tmp_path / "chain"))
    table = reader.read_all()
    names = chain.vocabulary.attributes.take(pa.array(chain.ids)).to_pylist()
    assert [name for row in table.column("ids").to_pylist() for name in row] == names
    assert table.column("edge_ids").type.value_type.value_type == pa.large_string()
    assert table.column("label").to_pylist() == chain.labels.tolist()
    assert reader.stats.num_dictionary_batches == 2
    assert reader.stats.num_record_batches == 4


class Once:
    """A source that tells how many sequences it has, and can be read once."""

    def __init__(self, chain: Chain, **told: Any) -> None:
        self._chain, self._read = chain, 0
        for name in ("positions", "n_labels", "n_attributes", "n_edge_attributes", "active", "labelled", "vocabulary"):
            setattr(self, name, getattr(chain, name))
        self.sequences = int(chain.starts.sum())
        for name, value in told.items():
            setattr(self, name, value)

    def block(self, low: int, high: int) -> Block:
        assert low == self._read
        self._read = high
        block = self._chain.block(low, high)
        part = slice(block.offsets[0], block.offsets[-1])
        values = block.values[part] if (block.values[part] != 1.0).any() else np.empty(0)
        return block._replace(offsets=block.offsets - block.offsets[0], ids=block.ids[part], values=values)


def test_a_source_that_tells_its_sequences_is_read_once(tmp_path: Path) -> None:
    chain = made(values=True)
    stored = open_chain(written(Once(chain), tmp_path / "chain"))  # type: ignore[arg-type]
    assert contents(stored.block(0, 50)) == contents(chain.block(0, 50))
    assert stored.sequences == chain.starts.sum()


@pytest.mark.parametrize("field", ["values", "weights"])
def test_values_and_weights_may_come_late(field: str, tmp_path: Path) -> None:
    """A source that gave none at first must have said that there will be some."""
    chain = made(values=True, weights=True, names="none")
    numbers = getattr(chain, field).copy()
    numbers[: chain.offsets[16] if field == "values" else 16] = 1.0
    chain = dataclasses.replace(chain, **{field: numbers})

    class Late(Once):
        def block(self, low: int, high: int) -> Block:
            block = super().block(low, high)
            return block if low or field == "values" else block._replace(weights=np.empty(0))

    told = {"weighted": field == "values", "valued": field == "weights"}
    with pytest.raises(errors.BadChain, match=f"have {field}, and its first ones had none"):
        written(Late(chain, **told), tmp_path / "chain")  # type: ignore[arg-type]
    stored = open_chain(written(Late(chain, weighted=True, valued=True), tmp_path / "chain"))  # type: ignore[arg-type]
    assert contents(stored.block(0, 50)) == contents(chain.block(0, 50))
    assert stored.weighted


def test_where_a_chain_came_from_is_kept(tmp_path: Path) -> None:
    write_chain(tmp_path / "chain", made(), origin="here")
    assert open_chain(tmp_path / "chain").header.origin == "here"
    write_chain(tmp_path / "chain", made())
    assert open_chain(tmp_path / "chain").header.origin is None


@pytest.mark.parametrize("told", [{"sequences": 1}, {"active": 1.0}, {"labelled": True}])
def test_a_source_that_told_otherwise_is_not_stored(told: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(errors.BadChain, match="had said otherwise"):
        written(Once(made(labels="partly"), **told), tmp_path / "chain")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_source_with_numbers_out_of_range_is_not_stored(tmp_path: Path) -> None:
    chain = dataclasses.replace(made(names="none"), n_attributes=3)
    with pytest.raises(errors.BadChain, match="an attribute that is not from 0 to 2"):
        written(chain, tmp_path / "chain")
    with pytest.raises(errors.EmptyChain):
        written(mock.Mock(positions=0), tmp_path / "chain")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": ("A", "B")}, "it has 3 labels, but its vocabulary knows 2"),
        ({"counts": np.zeros(3, np.int64)}, "it has 20 attributes, but its vocabulary knows 3"),
        ({"attributes": pa.array(["a"], pa.large_string())}, "it has 20 attributes, but its vocabulary knows 1"),
        ({"attributes": pa.array([None] * 20, pa.large_string())}, "attributes without a name"),
    ],
)
def test_a_vocabulary_of_another_chain_is_not_stored(change: Any, sentence: str, tmp_path: Path) -> None:
    chain = made()
    assert chain.vocabulary is not None
    wrong = dataclasses.replace(chain, vocabulary=dataclasses.replace(chain.vocabulary, **change))
    with pytest.raises(errors.BadChain, match=sentence):
        written(wrong, tmp_path / "chain")


def test_a_vocabulary_beyond_what_arrow_can_hold_is_one_sentence(tmp_path: Path) -> None:
    with (
        mock.patch.object(header, "_MOST_METADATA", 100),
        pytest.raises(errors.BadChain, match=r"raise `min_count` or lower `hash_bits`\."),
    ):
        written(made(), tmp_path / "chain")


def test_the_digest_is_of_what_gives_ids_their_meaning() -> None:
    one, other = made(seed=1).vocabulary, made(seed=1).vocabulary
    assert one is not None
    assert other is not None
    assert header.digest_of(one) == header.digest_of(other)
    changes: list[dict[str, Any]] = [
        {"labels": ("L0", "L1", "X")},
        {"attributes": pa.array(["x"] * 20, pa.large_string())},
        {"edge_attributes": None},
        {"counts": one.counts + 1},
        {"marks": one.marks + np.uint64(1)},
        {"hash_bits": 3},
        {"template": None},
    ]
    digests = {header.digest_of(dataclasses.replace(one, **change)) for change in changes}
    assert len(digests | {header.digest_of(one)}) == len(changes) + 1
    sliced = pa.concat_arrays([pa.array(["before"], pa.large_string()), one.attributes])[1:]
    assert header.digest_of(dataclasses.replace(one, attributes=sliced)) == header.digest_of(one)


def test_a_vocabulary_goes_with_its_chain_into_memory_and_back(tmp_path: Path) -> None:
    chain = made()
    stored = open_chain(written(chain, tmp_path / "chain"))
    gathered = gather(stored)
    assert gathered.vocabulary is stored.vocabulary
    again = open_chain(written(gathered, tmp_path / "again"))
    assert again.header == stored.header
    assert vocabulary_of(SYNTHETIC) is None


@pytest.mark.parametrize("n_labels", [3, 64, 130])
@pytest.mark.parametrize("at_once", [1, 1 << 22])
def test_pairs_of_the_vocabulary_are_those_of_the_data(n_labels: int, at_once: int, tmp_path: Path) -> None:
    chain = made(positions=400, n_labels=n_labels, labels="partly")
    with mock.patch("chainfold.chain.vocabulary._BITS_AT_ONCE", at_once):
        known = Layout.observed(open_chain(written(chain, tmp_path / "chain")))
    read = Layout.observed(dataclasses.replace(chain, vocabulary=None))
    for name in ("row_offsets", "row_labels"):
        ours, theirs = getattr(known, name), getattr(read, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ChainfoldError, match="no labels from which to learn"):
        Layout.observed(made(labels="none"))


def test_files_that_are_no_chains(tmp_path: Path) -> None:
    with pytest.raises(errors.BadFile, match="no such file"):
        open_chain(tmp_path / "missing")
    for content in (b"not a chain", b"", b"ARROW1", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x08\x00\x00\x00abcdefgh"):
        (tmp_path / "text").write_bytes(content)
        with pytest.raises(errors.BadFile, match="not a chain written by chainfold"):
            open_chain(tmp_path / "text")
        with pytest.raises(errors.BadFile, match="standard input: this is not a chain written by chainfold"):
            open_chain(io.BytesIO(content))
    with pytest.raises(errors.BadFile, match=r"is a folder without index\.json"):
        open_chain(tmp_path)
    write_chain(tmp_path / "whole", SYNTHETIC)
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    with pytest.raises(errors.BadFile, match="cut short"):
        open_chain(tmp_path / "cut")
    with pytest.raises(errors.BadFile, match="cannot be written"):
        write_chain(tmp_path / "missing" / "chain", SYNTHETIC)


def arrow_file(path: Path, metadata: dict[bytes, bytes] | None) -> Path:
    table = pa.table({"label": [0]}).replace_schema_metadata(metadata)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


def test_other_arrow_files_and_other_versions(tmp_path: Path) -> None:
    with pytest.raises(errors.BadFile, match="not a chain written by chainfold"):
        open_chain(arrow_file(tmp_path / "other", None))
    for about in (b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"version": 4}'):
        with pytest.raises(errors.BadFile, match="not a chain written by chainfold"):
            open_chain(arrow_file(tmp_path / "other", {b"chainfold": about}))
    old = json.dumps({"version": 1, "positions": 1}).encode()
    with pytest.raises(errors.BadFile, match=r"its version is 1, and this chainfold reads 4; encode it anew\.$"):
        open_chain(arrow_file(tmp_path / "old", {b"chainfold": old}))


def replaced(path: Path, old: bytes, new: bytes) -> Path:
    """The file with some bytes changed wherever they are."""
    data = path.read_bytes()
    assert len(old) == len(new)
    assert old in data
    path.write_bytes(data.replace(old, new))
    return path


def test_names_that_were_changed_are_refused_and_the_numbers_are_not(tmp_path: Path) -> None:
    chain = made()
    stored = open_chain(replaced(written(chain, tmp_path / "chain"), "w=é13".encode(), "w=é14".encode()))
    assert contents(stored.block(0, 50)) == contents(chain.block(0, 50))
    with pytest.raises(errors.BadFile, match=r"its vocabulary is damaged\."):
        _ = stored.vocabulary


@pytest.mark.parametrize("field", ["labels", "starts", "offsets", "ids", "values", "edge_ids", "edge_values"])
def test_a_damaged_batch_is_named_and_the_others_are_read(field: str, tmp_path: Path) -> None:
    path = written(made(values=True, edges=True), tmp_path / "chain")
    data = bytearray(path.read_bytes())
    part = getattr(open_chain(path).block(16, 32), field).tobytes()
    data[data.index(part)] ^= 1  # of offsets, those of ids
    path.write_bytes(data)
    damaged = open_chain(path)
    assert damaged.block(0, 16).labels.size == 16
    for _ in range(2):
        with pytest.raises(errors.BadFile, match="positions 16 to 31 are damaged"):
            damaged.block(20, 21)
    assert damaged.block(32, 50).labels.size == 18


def test_batches_that_were_exchanged_are_refused(tmp_path: Path) -> None:
    path = written(made(), tmp_path / "chain")
    reader = pa.ipc.open_file(path)
    batches = [reader.get_batch_with_custom_metadata(k) for k in (1, 0, 2, 3)]
    with pa.ipc.new_file(tmp_path / "other", reader.schema) as writer:
        for batch, metadata in batches:
            writer.write_batch(batch, custom_metadata=metadata)
    stored = open_chain(tmp_path / "other")
    assert stored.block(32, 50).labels.size == 18
    with pytest.raises(errors.BadFile, match="positions 0 to 15 are damaged"):
        stored.block(0, 3)


def outcome(data: bytes, path: Path | None) -> list[Any] | None:
    """All that is in a file or a stream, or None if it is refused in one sentence."""
    try:
        if path is None:
            return everything(open_chain(io.BytesIO(data)))
        path.write_bytes(data)
        return everything(open_chain(path))
    except ChainfoldError as error:
        sentence = str(error)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_refused_or_changes_nothing(tmp_path: Path, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    piped = data.draw(st.booleans())
    whole = written(made(**KINDS[kind]), io.BytesIO() if piped else tmp_path / "chain")
    content = bytearray(whole.getvalue() if piped else whole.read_bytes())
    path = None if piped else tmp_path / "damaged"
    expected = outcome(bytes(content), path)
    assert expected is not None
    size = data.draw(st.integers(0, len(content)), "cut to")
    if data.draw(st.booleans()):
        assert outcome(bytes(content[:size]), path) in (None, expected)
    for at in data.draw(st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=5), "flipped"):
        content[at // 8] ^= 1 << at % 8
    assert outcome(bytes(content), path) in (None, expected)


@pytest.mark.parametrize("block", [None, 1, 7, 16, 40])
@pytest.mark.parametrize("kind", ["named", "valued", "with edges"])
def test_stream_reads_a_pipe_as_it_reads_memory(kind: str, block: int | None) -> None:
    chain = made(positions=200, **KINDS[kind])
    model = Model.random(Layout.full(chain.n_labels, chain.n_attributes, chain.n_edge_attributes))
    piped = open_chain(written(chain, io.BytesIO()))
    first = gather(piped, positions=2)
    assert contents(first.block(0, 2)) == contents(chain.block(0, 2))
    found, expected = (
        log_likelihood(model, piped, "stream", block=block),
        log_likelihood(model, chain, "stream", block=block),
    )
    assert found.log_z == expected.log_z
    np.testing.assert_array_equal(found.expected, expected.expected)
    if chain.labelled:
        assert found.log_likelihood == expected.log_likelihood
        np.testing.assert_array_equal(found.gradient, expected.gradient)


def test_a_pipe_holds_one_batch_back_and_no_more() -> None:
    chain = made(positions=200)
    piped = open_chain(written(chain, io.BytesIO()))
    assert isinstance(piped, PipedChain)
    piped.block(100, 101)
    assert len(piped._held) <= 2
    assert contents(piped.block(90, 150)) == contents(chain.block(90, 150))
    with pytest.raises(ChainfoldError, match="comes through a pipe and can be read only once; use `engine='stream'`"):
        piped.block(0, 1)
    assert contents(piped.block(150, 200)) == contents(chain.block(150, 200))
    assert meaning(piped.vocabulary) == meaning(chain.vocabulary)


def test_a_stream_that_is_cut_between_batches_says_so() -> None:
    chain = made(positions=200, names="none")
    data = written(chain, io.BytesIO()).getvalue()
    with pa.ipc.open_stream(data) as reader:
        batch, metadata = reader.read_next_batch_with_custom_metadata()
        schema = reader.schema
    out = io.BytesIO()
    with pa.ipc.new_stream(out, schema) as writer:
        writer.write_batch(batch, custom_metadata=metadata)
    piped = open_chain(io.BytesIO(out.getvalue()))
    assert piped.block(0, 16).labels.size == 16
    with pytest.raises(errors.BadFile, match="standard input: ends after 16 of 200 positions"):
        piped.block(16, 17)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_read_by_its_path(tmp_path: Path) -> None:
    chain, pipe = made(), tmp_path / "pipe"
    os.mkfifo(pipe)
    data = written(chain, io.BytesIO()).getvalue()
    sender = threading.Thread(target=pipe.write_bytes, args=(data,))
    sender.start()
    assert contents(open_chain(pipe).block(0, 50)) == contents(chain.block(0, 50))
    sender.join()


class Failing(io.RawIOBase):
    """A file that takes a few bytes, and fails."""

    def __init__(self, failure: OSError) -> None:
        self._failure, self._left = failure, 3

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._left -= 1
        if self._left < 0:
            raise self._failure
        return len(data)


def test_standard_output_that_fails() -> None:
    with pytest.raises(errors.BadFile, match=r"standard output: cannot be written: No space left on device\."):
        write_chain(Failing(OSError(28, "No space left on device")), made())  # type: ignore[arg-type]
    with pytest.raises(BrokenPipeError):
        write_chain(Failing(BrokenPipeError(32, "Broken pipe")), made())  # type: ignore[arg-type]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(SyntheticChain):
        def block(self, low: int, high: int) -> Block:
            if low:
                raise KeyboardInterrupt
            return super().block(low, high)

    with pytest.raises(KeyboardInterrupt):
        write_chain(tmp_path / "chain", Broken(100_000, 2, 4, 1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("most", "read"), [(2, [0, 1, 2, 3, 1, 0]), (16, [0, 1, 2, 3])])
def test_each_thread_holds_few_batches_and_reads_no_batch_twice_in_a_row(
    most: int, read: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST_HELD", most)
    stored = open_chain(written(made(), tmp_path / "chain"))
    assert isinstance(stored, StoredChain)
    with mock.patch.object(stored, "_read", wraps=stored._read) as read_batch:
        for low in [*range(50), *reversed(range(50))]:
            stored.block(max(low - 1, 0), low + 1)
    assert [call.args[0] for call in read_batch.call_args_list] == read
    assert len(stored._held.batches) == min(most, 4)


FORKED = """
import os, signal, sys, threading
import numpy as np
from chainfold.chain.any_chain import open_chain
chain = open_chain(sys.argv[1])
places = range(0, chain.positions, chain.batch)
right = [chain.block(low, min(low + 7, chain.positions)) for low in places]

def read(seed, times):
    for k in np.random.default_rng(seed).integers(0, len(places), times):
        found = chain.block(places[k], min(places[k] + 7, chain.positions))
        assert all(np.array_equal(one, other) for one, other in zip(found, right[k], strict=True)), k

threading.Thread(target=read, args=(0, 10**9), daemon=True).start()
children = []
for seed in range(1, 4):
    children.append(os.fork())
    if not children[-1]:
        signal.alarm(20)  # if it waits for a lock that nobody will release
        read(seed, 300)
        os._exit(0)
read(9, 300)
states = [os.waitpid(child, 0)[1] for child in children]
os._exit(any(states))
"""


def test_forked_processes_read_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_ROWS", 64)
    write_chain(tmp_path / "chain", SyntheticChain(5_000, 4, 23, 5, seed=1))
    done = subprocess.run([sys.executable, "-c", FORKED, tmp_path / "chain"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_batches_that_were_freed_are_read_again(tmp_path: Path) -> None:
    write_chain(tmp_path / "chain", SyntheticChain(1000, 2, 6, 3))
    chain = StoredChain(tmp_path / "chain")
    before = chain.block(100, 200)
    held = chain._held.batches
    chain.release()
    assert not hasattr(chain._held, "batches")
    assert chain.block(100, 200).ids.tolist() == before.ids.tolist()
    assert chain._held.batches is not held


def test_a_vocabulary_that_was_freed_is_read_again(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a X\nb Y\n")
    chain = encode(text, tmp_path / "chain")
    before = chain.vocabulary
    assert before is not None
    chain.release()
    assert chain.vocabulary is not before
    assert chain.vocabulary is not None
    assert chain.vocabulary.same_numbers(before)
    chain.release()
    (tmp_path / "chain").write_bytes((tmp_path / "chain").read_bytes()[:-8] + bytes(8))
    with pytest.raises(errors.BadFile, match="was changed while it was read"):
        _ = chain.vocabulary
