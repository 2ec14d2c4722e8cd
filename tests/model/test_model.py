"""Layouts: which weights there are, and how they go into slots and back."""

from __future__ import annotations

import numpy as np
import pytest

from chainfold import Chain, Layout, SyntheticChain
from chainfold.engines.settings import Shape
from chainfold.errors import BadSetting

pytestmark = pytest.mark.quick


def observed_layout() -> Layout:
    random = np.random.default_rng(0)
    rows = [np.flatnonzero(random.random(5) < p) for p in np.linspace(0.95, 0.05, 40)]
    return Layout(
        5,
        40,
        2,
        np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64),
        np.concatenate(rows).astype(np.int32),
    )


LAYOUTS = {
    "full": Layout.full(5, 7, 2),
    "full, no edges": Layout.full(3, 4),
    "eight labels": Layout.full(8, 3),
    "observed": observed_layout(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_weights_come_back_from_their_slots(name: str) -> None:
    layout = LAYOUTS[name]
    weights = np.random.default_rng(1).normal(size=layout.size)
    flat = layout.pack(weights)
    assert flat.size == layout.slots
    np.testing.assert_array_equal(layout.unpack(flat), weights)


def test_more_entries_than_blocks_can_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainfold.model.layout._MOST_ENTRIES", 3)
    with pytest.raises(BadSetting, match="weights of rare attributes"):
        _ = Layout(20, 40, 0, np.arange(41), np.arange(40, dtype=np.int32) % 20).rows


def test_padding_cannot_be_entered() -> None:
    layout = Layout.full(5, 7, 2)
    slots = layout.view(layout.pack(np.ones(layout.size)))
    assert (slots.dense.reshape(7, 8)[:, 5:] == 0.0).all()
    assert (slots.transition.reshape(5, 8)[:, 5:] == -np.inf).all()
    assert (slots.edge.reshape(2, 5, 8)[:, :, 5:] == 0.0).all()


def test_observed_layout_has_the_pairs_that_occur() -> None:
    chain = Chain.from_arrays(offsets=[0, 2, 3, 5, 6], ids=[0, 2, 0, 0, 2, 1], labels=[1, 0, 1, -1], n_labels=3)
    layout = Layout.observed(chain)
    assert layout.row_offsets is not None
    assert layout.row_labels is not None
    assert layout.row_offsets.tolist() == [0, 2, 2, 3]
    assert layout.row_labels.tolist() == [0, 1, 1]
    assert layout.size == 3 + 9


def test_observed_pairs_of_a_vocabulary_too_large_to_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SyntheticChain(5_000, 4, 300, 3, seed=3)
    marked = Layout.observed(source)
    monkeypatch.setattr("chainfold.model.layout._MOST_MARKS", 10)
    monkeypatch.setattr("chainfold.model.layout._AT_ONCE", 100)
    sorted_ = Layout.observed(source)
    assert marked.row_offsets is not None
    assert sorted_.row_offsets is not None
    assert marked.row_offsets.tolist() == sorted_.row_offsets.tolist()
    assert marked.row_labels is not None
    assert sorted_.row_labels is not None
    assert marked.row_labels.tolist() == sorted_.row_labels.tolist()


def test_frequent_attributes_have_padded_rows_and_rare_ones_have_not() -> None:
    layout = LAYOUTS["observed"]
    assert 0 < layout.dense < 40
    assert layout.rows.label.size == layout.n_state - layout.row_offsets[layout.dense]  # type: ignore[index]


def test_names_of_weights() -> None:
    layout = Layout.full(2, 3, 1)
    assert layout.name(3) == "attribute 1, label 1"
    assert layout.name(6 + 1) == "transition 0 to 1"
    assert layout.name(6 + 4 + 2) == "edge attribute 0, transition 1 to 0"


def test_sizes_beyond_32_bits() -> None:
    """Shape arithmetic at ten billion positions, nothing allocated."""
    layout = Layout.full(100, 10**9)
    assert layout.size == 10**11 + 10**4
    shape = Shape(10**10, 100, layout.size, 20.0, 0)
    assert shape.positions * shape.pass_bytes == 10**10 * 2 * 8 * 112


@pytest.mark.parametrize("label", [-1, 2, 65536])
def test_rows_with_labels_that_do_not_exist(label: int) -> None:
    with pytest.raises(BadSetting, match=f"a label among row_labels is {label}, but must be from 0 to 1"):
        Layout(2, 1, 0, np.array([0, 2]), np.array([0, label], np.int32))
