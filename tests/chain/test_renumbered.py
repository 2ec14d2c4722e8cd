"""Chains under other numbers: the same names, whatever is missing or new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainfold import Chain, ChainfoldError
from chainfold.chain.block import check_block
from chainfold.chain.chain import gather
from chainfold.chain.renumbered import Renumbered, grown_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.features.encode import chain_from_sequences, chain_from_table
from rows import attributes_of

ITEM = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([1.0, 2.0, -0.5]), max_size=3)
SEQUENCES = st.lists(st.lists(st.tuples(ITEM, st.sampled_from("XYZ")), min_size=1, max_size=4), min_size=1, max_size=4)


def made(sequences: Any) -> Chain:
    items = [[item for item, _ in sequence] for sequence in sequences]
    return chain_from_sequences(items, [[label for _, label in sequence] for sequence in sequences])


def meaning(chain: Chain) -> Vocabulary:
    assert chain.vocabulary is not None
    return chain.vocabulary


def named(chain: Chain) -> list[tuple[str | None, bool, list[tuple[str, float]]]]:
    """Label, start mark and attributes of each position."""
    names, labels = meaning(chain).attributes.to_pylist(), [*meaning(chain).labels, None]
    values = chain.values if chain.values.size else np.ones(chain.ids.size)
    rows = []
    for t in range(chain.positions):
        part = slice(chain.offsets[t], chain.offsets[t + 1])
        entries = [(names[a], float(v)) for a, v in zip(chain.ids[part], values[part], strict=True)]
        rows.append((labels[chain.labels[t]], bool(chain.starts[t]), sorted(entries)))
    return rows


@given(SEQUENCES, SEQUENCES, st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_names_are_kept_and_what_is_unknown_is_left_out(ours: Any, theirs: Any, size: int) -> None:
    chain, other = made(ours), meaning(made(theirs))
    source = Renumbered(chain, other)
    known, labels = set(other.attributes.to_pylist()), other.labels
    expected = [
        (label if label in labels else None, start, [entry for entry in entries if entry[0] in known])
        for label, start, entries in named(chain)
    ]
    assert named(gather(source)) == expected
    assert source.labelled == all(label is not None for label, _, _ in expected)
    for low in range(0, source.positions, size):
        high = min(low + size, source.positions)
        block, gold, _ = source.known(low, high)
        check_block(block, low, high, source.n_labels, source.n_attributes, source.n_edge_attributes)
        assert ((gold >= len(labels)) == (block.labels < 0)).all()
        assert block.labels.tolist() == gather(source).labels[low:high].tolist()


@given(SEQUENCES, SEQUENCES)
@settings(deadline=None, max_examples=60)
def test_a_chain_that_continues_the_numbers_of_another(ours: Any, theirs: Any) -> None:
    chain, before = made(ours), meaning(made(theirs))
    found = grown_chain(chain, before)
    assert named(found) == named(chain)
    after = meaning(found)
    assert after.labels[: len(before.labels)] == before.labels
    names = after.attributes.to_pylist()
    assert names[: len(before.attributes)] == before.attributes.to_pylist()
    assert len(set(names)) == len(names) == found.n_attributes
    counts = {name: count for name, count in zip(names, after.counts.tolist(), strict=True) if count}
    own = meaning(chain)
    assert counts == dict(zip(own.attributes.to_pylist(), own.counts.tolist(), strict=True))
    assert np.bitwise_count(after.marks).sum() == np.bitwise_count(own.marks).sum()


def test_edge_attributes_and_weights(tmp_path: Any) -> None:
    (tmp_path / "a.crfsuite").write_text("A\tx\n\nB\ty\t@edge\tjoin\tcut\n")
    (tmp_path / "b.crfsuite").write_text("B\ty\n\nA\tx\t@edge\tcut\n")
    (tmp_path / "c.crfsuite").write_text("B\ty\n")
    a, b, c = (chain_from_table(tmp_path / f"{name}.crfsuite") for name in "abc")
    found = gather(Renumbered(a, meaning(b)))
    assert found.edge_ids.tolist() == [0]
    assert attributes_of(found) == attributes_of(a)
    assert Renumbered(a, meaning(c)).block(0, 2).edge_offsets.size == 0
    assert gather(Renumbered(c, meaning(a))).n_edge_attributes == 2
    assert grown_chain(b, meaning(a)).n_edge_attributes == 2
    weighted = chain_from_sequences([[["x"]], [["y"]]], [["A"], ["B"]], weights=[2.0, 3.0])
    assert gather(Renumbered(weighted, meaning(chain_from_sequences([[["y"]]], [["B"]])))).weights.tolist() == [
        2.0,
        3.0,
    ]


def test_names_and_hashes_do_not_mix() -> None:
    items: Any = [[["a"], ["b"]]]
    hashed, exact = chain_from_sequences(items, [["A", "B"]], hash_bits=4), chain_from_sequences(items, [["A", "B"]])
    with pytest.raises(ChainfoldError, match="attributes with names and the model attributes hashed to 4 bits"):
        Renumbered(exact, meaning(hashed))
    with pytest.raises(ChainfoldError, match="hashed to 4 bits and the model attributes with names"):
        grown_chain(hashed, meaning(exact))
    same = gather(Renumbered(hashed, meaning(hashed)))
    assert same.ids.tolist() == hashed.ids.tolist()
    assert grown_chain(hashed, meaning(hashed)).n_attributes == 16
