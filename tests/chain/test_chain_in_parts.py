"""A chain in parts reads like the single chain, and what is wrong with a file is one sentence with its name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chain.test_stored import KINDS, contents, made, meaning
from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.batches import StoredChain
from chainfold.chain.block import Source
from chainfold.chain.chain import Chain
from chainfold.chain.part_index import INDEX, Part, WholeFile, packed_index, part_name, vocabulary_name
from chainfold.chain.parts import ChainInParts
from chainfold.chain.stored import write_chain, write_part, write_vocabulary
from chainfold.chain.views import View
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.errors import BadChain, BadFile
from chainfold.model.layout import Layout
from chainfold.model.model import Model
from chainfold.system.storage import LocalStorage

CUTS = [(), (25,), (1, 2, 3, 30, 31, 49)]


class Cut(View):
    """Positions low … high-1 of a chain, with what a chain says of itself."""

    def __init__(self, chain: Chain, low: int, high: int) -> None:
        super().__init__(chain)
        whole = chain.block(0, chain.positions)
        self.vocabulary, self._low = None, low
        self.positions, block = high - low, whole.part(low, high)
        self.entries = int(block.offsets[-1] - block.offsets[0])
        self.active = self.entries / self.positions
        self.sequences = int(block.starts.sum())
        self.valued, self.edge_valued = whole.values.size > 0, whole.edge_values.size > 0
        self.weighted = whole.weights.size > 0

    def block(self, low: int, high: int) -> Any:
        return super().block(self._low + low, self._low + high)


def cut_up(chain: Chain, folder: Path, *cuts: int) -> ChainInParts:
    """The chain in parts that end at these places."""
    storage, totals = LocalStorage(folder), Cut(chain, 0, chain.positions)
    totals.vocabulary = chain.vocabulary
    with storage.digested("vocabulary", vocabulary_name) as file:
        header = write_vocabulary(file, totals)
    whole = WholeFile(vocabulary_name(file.sha256), file.size, file.sha256)
    parts = []
    for number, (low, high) in enumerate(zip((0, *cuts), (*cuts, chain.positions), strict=True)):
        source = Cut(chain, low, high)
        with storage.digested("part", partial(part_name, number)) as file:
            write_part(file, source, low, header.vocabulary)
        sizes = source.positions, source.entries, source.sequences
        parts.append(Part(part_name(number, file.sha256), low, *sizes, file.size, file.sha256))
    (folder / INDEX).write_bytes(packed_index(whole, parts))
    return ChainInParts(folder)


def same(one: Source, other: Source) -> None:
    """Every block is the same."""
    for low in range(one.positions):
        for high in range(low + 1, one.positions + 1, 7):
            assert contents(one.block(low, high)) == contents(other.block(low, high))


@pytest.mark.quick
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_in_parts_reads_like_a_single_one(kind: str, cuts: tuple[int, ...], tmp_path: Path) -> None:
    chain = made(**KINDS[kind])
    write_chain(tmp_path / "single", chain)
    single, parts = open_chain(tmp_path / "single"), cut_up(chain, tmp_path / "parts", *cuts)
    same(single, parts)
    assert parts.header == single.header
    assert meaning(parts.vocabulary) == meaning(single.vocabulary)
    assert [part.first for part in parts.parts] == [0, *cuts]
    assert [parts.part_of(position) for position in (0, 49)] == [0, len(cuts)]
    assert parts.size == sum(path.stat().st_size for path in (tmp_path / "parts").iterdir() if path.name != INDEX)
    with pytest.raises(BadChain, match="positions 40 to 50 are not in the chain, which has 50"):
        parts.block(40, 51)


def test_the_gradient_has_the_same_bits(tmp_path: Path) -> None:
    chain = made(positions=20_000, values=True)
    write_chain(tmp_path / "single", chain)
    parts = cut_up(chain, tmp_path / "parts", 3000, 3001, 17_500)
    model = Model.random(Layout.full(3, 20))
    for threads in (1, 3):
        found, expected = (
            log_likelihood(model, source, "parallel", threads=threads, block=512)
            for source in (parts, open_chain(tmp_path / "single"))
        )
        assert found.log_z == expected.log_z
        np.testing.assert_array_equal(found.expected, expected.expected)


def test_a_folder_without_an_index_is_no_chain(tmp_path: Path) -> None:
    cut_up(made(), tmp_path / "parts", 10)
    assert is_chain(tmp_path / "parts")
    assert is_chain([str(tmp_path / "parts")])
    (tmp_path / "parts" / INDEX).unlink()
    assert not is_chain(tmp_path / "parts")
    with pytest.raises(BadFile, match=r"parts: is a folder without index\.json, so there is no chain in it"):
        open_chain(tmp_path / "parts")


def test_a_part_alone_is_no_chain(tmp_path: Path) -> None:
    (part, _) = cut_up(made(), tmp_path / "parts", 10).parts
    with pytest.raises(BadFile, match="is a part of a chain; name the folder that it is in"):
        open_chain(tmp_path / "parts" / part.name)


def test_it_can_be_sent_to_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = made()
    write_chain(tmp_path / "single", chain)
    cut_up(chain, tmp_path / "parts", 10)
    monkeypatch.chdir(tmp_path)
    for name in ("single", "parts"):
        data = pickle.dumps(open_chain(name))
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            assert contents(pickle.loads(data).block(5, 50)) == contents(chain.block(5, 50))
    data = pickle.dumps(open_chain("parts"))
    cut_up(chain, tmp_path / "parts", 11)
    with pytest.raises(BadFile, match="parts: is another chain than the one that was opened; open it anew"):
        pickle.loads(data)


def test_few_parts_are_open_and_data_of_two_are_held(tmp_path: Path) -> None:
    chain = made()
    parts = cut_up(chain, tmp_path / "parts", *range(1, 50))
    assert contents(parts.block(0, 50)) == contents(chain.block(0, 50))
    held = parts._held.parts
    assert len(held) <= 16
    assert sum(bool(getattr(part._held, "batches", {})) for part in held.values()) <= 2
    parts.release()
    assert contents(parts.block(7, 9)) == contents(chain.block(7, 9))


def test_a_batch_is_checked_once_however_often_its_part_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = cut_up(made(), tmp_path / "parts", *range(1, 50))
    checked = []
    check = StoredChain._checked

    def counting(part: StoredChain, *given: Any) -> Any:
        checked.append(part)
        return check(part, *given)

    monkeypatch.setattr(StoredChain, "_checked", counting)
    for _ in range(3):
        parts.block(0, 50)
    assert len(checked) == 50


# What may be wrong

Damage = Callable[[Path, list[Path]], None]


def second_part_changed(change: Callable[[bytes], bytes]) -> Damage:
    def changed(folder: Path, parts: list[Path]) -> None:
        parts[1].write_bytes(change(parts[1].read_bytes()))

    return changed


def exchanged(folder: Path, parts: list[Path]) -> None:
    one, other = parts[0].read_bytes(), parts[1].read_bytes()
    parts[0].write_bytes(other)
    parts[1].write_bytes(one)


def of_another_chain(chain: Chain, folder: Path, parts: list[Path]) -> None:
    """A part of the same size, from a chain with another vocabulary or other columns."""
    cut_up(chain, folder.parent / "other", 20)
    other = sorted((folder.parent / "other").glob("part*"))[1]
    parts[1].write_bytes(other.read_bytes())
    before = open_chain(folder)
    assert isinstance(before, ChainInParts)
    parts_of_it = [before.parts[0], before.parts[1]._replace(size=other.stat().st_size)]
    (folder / INDEX).write_bytes(packed_index(before._index.vocabulary, parts_of_it))


def another_vocabulary() -> Chain:
    chain = made()
    assert chain.vocabulary is not None
    return chain.with_vocabulary(replace(chain.vocabulary, min_count=1, counts=chain.vocabulary.counts + 1))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder, parts: parts[1].unlink(), r"part-000001-\w*\.arrow: there is no such file"),
        (second_part_changed(lambda data: data[:-9]), r"part-000001-\w*\.arrow: this is not a chain written by"),
        (second_part_changed(lambda data: b"x" * len(data)), r"part-000001-\w*\.arrow: this is not a chain written by"),
        (
            second_part_changed(lambda data: data.replace(b"\0\0\0\x02", b"\0\0\0\x01", 1)),
            r"part-000001-\w*\.arrow: (positions|this is not)",
        ),
        (exchanged, r"part-00000[01]-\w*\.arrow: .* bytes, but was written with"),
        (partial(of_another_chain, another_vocabulary()), r"part-000001-\w*\.arrow: is a part of another chain"),
        (partial(of_another_chain, made(values=True)), r"part-000001-\w*\.arrow: is a part of another chain"),
        (partial(of_another_chain, made(weights=True)), r"part-000001-\w*\.arrow: is a part of another chain"),
        (lambda folder, parts: (folder / INDEX).write_bytes(b""), r"index\.json: this is not the index of a chain"),
        (
            lambda folder, parts: (folder / INDEX).write_bytes((folder / INDEX).read_bytes()[:-20]),
            r"index\.json: this is not the index of a chain",
        ),
        (
            lambda folder, parts: next(folder.glob("vocabulary*")).write_bytes(b"ARROW1"),
            r"vocabulary-\w*\.arrow: this is not a chain",
        ),
        (lambda folder, parts: next(folder.glob("vocabulary*")).unlink(), r"vocabulary-\w*\.arrow: there is no such"),
    ],
)
def test_a_damaged_chain_is_one_sentence_with_the_name_of_the_file(
    damage: Damage, sentence: str, tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    cut_up(made(), folder, 20)
    damage(folder, sorted(folder.glob("part*")))
    with pytest.raises(BadFile, match=sentence) as caught:
        open_chain(folder).block(0, 50)
    assert str(caught.value).count("\n") == 0


def test_no_changed_byte_of_an_index_is_overlooked(tmp_path: Path) -> None:
    folder, dice = tmp_path / "parts", np.random.default_rng(0)
    cut_up(made(), folder, 20)
    data = (folder / INDEX).read_bytes()
    for place in dice.choice(len(data), 60, replace=False).tolist():
        (folder / INDEX).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(BadFile):
            open_chain(folder)


def test_an_index_names_files_of_its_folder_only(tmp_path: Path) -> None:
    chain = cut_up(made(), tmp_path / "parts", 20)
    part = chain.parts[1]
    for name in ("../part-000001-0123456789abcdef.arrow", "index.json", part_name(1, "0" * 64)):
        parts = [chain.parts[0], part._replace(name=name)]
        (tmp_path / "parts" / INDEX).write_bytes(packed_index(chain._index.vocabulary, parts))
        with pytest.raises(BadFile, match="this is not the index"):
            open_chain(tmp_path / "parts")


def test_a_part_that_is_changed_while_it_is_read_is_refused(tmp_path: Path) -> None:
    chain = cut_up(made(), tmp_path / "parts", *range(1, 50))
    chain.block(0, 50)
    path = tmp_path / "parts" / chain.parts[0].name
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    with pytest.raises(BadFile, match="was changed while the chain was read; open it anew"):
        chain.block(0, 1)
