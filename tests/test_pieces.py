"""A gradient in pieces, put aside in a file between them, is that of the whole chain to the last bit."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapes
from chainfold import Chain, ChainfoldError, Evaluation, Layout, Model, PiecewiseGradient, SyntheticChain, evaluate
from chainfold.data.chain import Block, Source
from test_never_forget import UNFORGETTING
from test_never_forget import problem as unforgetting
from test_weights import WEIGHTS

SETTINGS = [{"block": 1, "lookahead": 1}, {"block": 3}, {"block": 2, "lookahead": 5}, {}]


def pieces(chain: Chain, places: list[int]) -> Iterator[Chain]:
    """The chain cut before each place; each piece begins as the chain goes on there."""
    for low, high in itertools.pairwise([0, *places, chain.positions]):
        yield piece(chain, low, high)


def piece(source: Source, low: int, high: int) -> Chain:
    block = source.block(low, high)
    entries, edges = (slice(*o[[0, -1]]) if o.size else slice(0) for o in (block.offsets, block.edge_offsets))
    return Chain(
        *block._replace(
            offsets=block.offsets - entries.start,
            ids=block.ids[entries],
            values=block.values[entries],
            edge_offsets=block.edge_offsets - (edges.start or 0),
            edge_ids=block.edge_ids[edges],
            edge_values=block.edge_values[edges],
        ),
        source.n_labels,
        source.n_attributes,
        source.n_edge_attributes,
    )


def in_pieces(model: Model, chain: Chain, places: list[int], token: Path, saves: Any, **settings: Any) -> Evaluation:
    part = PiecewiseGradient(model, **settings)
    for k, some in enumerate(pieces(chain, places)):
        part.add(some)
        if saves(k):
            part.save(token)
            part = PiecewiseGradient.load(token, model)
    assert part.positions == chain.positions
    return part.finish()


def same(found: Evaluation, whole: Evaluation) -> None:
    """To the last bit."""
    assert found.log_z == whole.log_z
    assert found.log_likelihood == whole.log_likelihood
    assert found.report == whole.report
    assert found.expected.tobytes() == whole.expected.tobytes()
    assert (found.gradient is None) == (whole.gradient is None)
    if found.gradient is not None and whole.gradient is not None:
        assert found.gradient.tobytes() == whole.gradient.tobytes()


def solved(name: str) -> tuple[Model, Chain, np.random.Generator]:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return *shapes.CASES[name](random), random


def check(model: Model, chain: Chain, random: np.random.Generator, token: Path, **settings: Any) -> None:
    """One position at a time, and cut anywhere."""
    whole = evaluate(model, chain, "stream", **settings)
    same(in_pieces(model, chain, list(range(1, chain.positions)), token, lambda k: k % 2, **settings), whole)
    inner = np.arange(1, chain.positions)
    places = sorted(random.choice(inner, min(2, inner.size), replace=False).tolist())
    same(in_pieces(model, chain, places, token, lambda k: True, **settings), whole)


@pytest.mark.parametrize("case", shapes.CASES)
def test_every_shape_cut_anywhere(case: str, tmp_path: Path) -> None:
    model, chain, random = solved(case)
    for settings in SETTINGS:
        check(model, chain, random, tmp_path / "token", **settings)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("case", ["3 labels", "start marks in pairs", "edge attributes", "weights of 50"])
def test_weights_of_positions(case: str, kind: str, tmp_path: Path) -> None:
    model, chain, random = solved(case)
    chain = replace(chain, weights=WEIGHTS[kind](random, chain))
    for settings in SETTINGS[:2]:
        check(model, chain, random, tmp_path / "token", **settings)


@pytest.mark.parametrize("case", ["3 labels", "start marks in pairs", "start marks at the ends", "edge attributes"])
def test_labels_that_may_not_start_or_end_a_sequence(case: str, tmp_path: Path) -> None:
    model, chain, random = solved(case)
    chain = replace(chain, labels=np.zeros_like(chain.labels))
    model = replace(model, first=np.arange(3) < 2, last=np.arange(3) != 1)
    for settings in SETTINGS:
        check(model, chain, random, tmp_path / "token", **settings)


@pytest.mark.parametrize("starts", [False, True], ids=["one sequence", "several"])
@pytest.mark.parametrize("name", UNFORGETTING)
def test_chains_that_never_forget(name: str, starts: bool, tmp_path: Path) -> None:
    model, chain = unforgetting(*UNFORGETTING[name], positions=5000, starts=starts)
    settings = {"block": 100, "lookahead": 200}
    whole = evaluate(model, chain, "stream", **settings)
    assert whole.report.carried_blocks > 0
    places = sorted(np.random.default_rng(0).choice(np.arange(1, 5000), 6, replace=False).tolist())
    same(in_pieces(model, chain, places, tmp_path / "token", lambda k: True, **settings), whole)


def long_chain(random: np.random.Generator, positions: int, often: float) -> tuple[Model, Chain]:
    starts = random.random(positions) < often
    source = shapes.chain(random, positions, 3, 40, starts=starts, values="one")
    return shapes.model(random, source, 0.5, Layout.observed(source)), source


@pytest.mark.parametrize("often", [0.05, 0.0005, 0.0], ids=["sentences", "long and short", "one sequence"])
def test_long_chains(often: float, tmp_path: Path) -> None:
    """Whole sequences go together here, and sums are folded on the way."""
    random = np.random.default_rng(1)
    model, chain = long_chain(random, 90_000, often)
    whole = evaluate(model, chain, "stream")
    starts = np.flatnonzero(chain.starts)
    places = sorted({*random.integers(1, 90_000, 5).tolist(), int(starts[starts.size // 2]), 40_000, 40_001} - {0})
    same(in_pieces(model, chain, places, tmp_path / "token", lambda k: True), whole)
    same(in_pieces(model, chain, places, tmp_path / "token", lambda k: False), whole)


def test_little_memory(tmp_path: Path) -> None:
    """The block is chosen for the attributes a position has; where they are the same, it is the same block."""
    random = np.random.default_rng(2)
    chain = Chain.from_arrays(
        offsets=2 * np.arange(8001), ids=random.integers(0, 5, 16_000), labels=random.integers(0, 3, 8000)
    )
    model = shapes.model(random, chain, 0.2)
    whole = evaluate(model, chain, "stream", memory=200_000)
    assert whole.report.blocks > 10
    same(in_pieces(model, chain, [777, 778, 5000], tmp_path / "token", lambda k: True, memory=200_000), whole)
    with pytest.raises(ChainfoldError, match="needs about"):
        PiecewiseGradient(model, memory=1000).add(chain)


def test_a_piece_that_continues_whatever_its_mark_says() -> None:
    model, chain, _ = solved("3 labels")
    part = PiecewiseGradient(model)
    for k, some in enumerate(pieces(chain, [2, 3])):
        marked = np.append(True, some.starts[1:])
        part.add(replace(some, starts=marked), continues=k > 0)
    same(part.finish(), evaluate(model, chain))


def test_without_values_or_edge_attributes_among_others() -> None:
    model, chain, _ = solved("edge attributes")
    low, high = pieces(chain, [3])
    bare = replace(low, values=low.values[:0], edge_offsets=low.edge_offsets[:0], edge_ids=low.edge_ids[:0])
    bare = replace(bare, edge_values=low.edge_values[:0], n_edge_attributes=0)
    part = PiecewiseGradient(model)
    part.add(bare)
    part.add(high)
    full = replace(
        chain,
        values=np.append(np.ones(low.values.size), high.values),
        edge_offsets=np.append(np.zeros(3, int), high.edge_offsets),
        edge_ids=high.edge_ids,
        edge_values=high.edge_values,
    )
    found, whole = part.finish(), evaluate(model, full)
    np.testing.assert_array_equal(found.expected, whole.expected)
    assert found.log_likelihood == whole.log_likelihood


def test_a_label_that_turns_out_unknown_leaves_the_expected_counts(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    labels = chain.labels.copy()
    labels[5] = -1
    chain = replace(chain, labels=labels)
    for settings in SETTINGS:
        found = in_pieces(model, chain, [2, 4, 6], tmp_path / "token", lambda k: True, **settings)
        same(found, evaluate(model, chain, **settings))
        assert found.gradient is None


def test_not_to_observe_is_remembered(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    found = in_pieces(model, chain, [2, 4], tmp_path / "token", lambda k: True, observe=False)
    same(found, evaluate(model, chain, observe=False))


class Watched:
    """A source that tells what is read of it, and whether it ever goes far back."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.most = self.furthest = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def block(self, low: int, high: int) -> Block:
        assert low >= self.furthest - 20_000, "a pipe would not have it any more"
        self.furthest, self.most = max(self.furthest, low), max(self.most, high - low)
        return self._source.block(low, high)


def test_a_long_piece_is_never_gathered(tmp_path: Path) -> None:
    chain = SyntheticChain(300_000, 3, 10, 2, seed=4)
    model = Model.random(Layout.full(3, 10))
    watched = Watched(chain)
    part = PiecewiseGradient(model)
    part.add(piece(chain, 0, 100))
    part.add(piece(chain, 100, 300_000 - 50))
    same_piece = PiecewiseGradient(model)
    same_piece.add(watched)  # type: ignore[arg-type]
    assert watched.most <= 20_000
    part.add(piece(chain, 300_000 - 50, 300_000))
    same_piece.save(tmp_path / "token")
    assert (tmp_path / "token").stat().st_size < 1_000_000
    whole = evaluate(model, chain)
    same(part.finish(), whole)
    same(same_piece.finish(), whole)


def test_the_same_state_is_the_same_file(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    for name, places in (("a", [1, 2, 3]), ("b", [5])):
        part = PiecewiseGradient(model, block=2)
        for some in pieces(chain, places):
            part.add(some)
        part.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    weighted = replace(chain, weights=np.ones(chain.positions))
    unknown = replace(weighted, labels=np.full_like(chain.labels, -1))
    part = PiecewiseGradient(model)
    for act in (part.finish, lambda: part.save(tmp_path / "token")):
        with pytest.raises(ChainfoldError, match="no positions"):
            act()
    with pytest.raises(ChainfoldError, match="nothing before the first piece"):
        part.add(chain, continues=True)
    part.add(chain)
    with pytest.raises(ChainfoldError, match="only one side has weights"):
        part.add(weighted)
    part.add(chain)
    part.finish()
    for act in (part.finish, lambda: part.save(tmp_path / "token"), lambda: part.add(chain)):
        with pytest.raises(ChainfoldError, match=r"is finished|no positions"):
            act()
    part = PiecewiseGradient(model)
    part.add(weighted)
    for other in (chain, unknown):
        with pytest.raises(ChainfoldError, match="only one side has weights"):
            part.add(other)
    with pytest.raises(ChainfoldError, match="the model knows"):
        part.add(shapes.chain(np.random.default_rng(0), 3, 9))
    assert not (tmp_path / "token").exists()


def test_a_piece_that_fails_is_not_gone_on_with(tmp_path: Path) -> None:
    model, chain, _ = solved("3 labels")
    part = PiecewiseGradient(model, block=1)
    part.add(chain)
    part.save(tmp_path / "token")
    before = (tmp_path / "token").read_bytes()
    with pytest.raises(ChainfoldError, match=f"position {chain.positions + 3}"):
        part.add(replace(chain, values=np.where(np.arange(chain.values.size) < chain.offsets[3], 1.0, np.inf)))
    for act in (lambda: part.add(chain), part.finish, lambda: part.save(tmp_path / "token")):
        with pytest.raises(ChainfoldError, match="not worked through"):
            act()
    assert (tmp_path / "token").read_bytes() == before
    resumed = PiecewiseGradient.load(tmp_path / "token", model)
    assert resumed.positions == chain.positions
    same(resumed.finish(), evaluate(model, chain, block=1))


def test_another_model_is_refused(tmp_path: Path) -> None:
    model, chain, _ = solved("sparse layout")
    part = PiecewiseGradient(model)
    part.add(chain)
    part.save(tmp_path / "token")
    weights = model.weights.copy()
    weights[3] = np.nextafter(weights[3], 1.0)
    labels = model.layout.row_labels
    assert labels is not None
    others = [
        replace(model, weights=weights),
        replace(model, first=np.arange(4) < 3),
        replace(model, last=np.arange(4) < 3),
        replace(model, layout=replace(model.layout, row_labels=labels[::-1].copy())),
    ]
    for other in others:
        with pytest.raises(ChainfoldError, match="another model"):
            PiecewiseGradient.load(tmp_path / "token", other)
    PiecewiseGradient.load(tmp_path / "token", replace(model, training={"said": "nothing that matters"}))


def test_a_damaged_token_is_one_sentence(tmp_path: Path) -> None:
    model, chain, random = solved("3 labels")
    part = PiecewiseGradient(model, block=2)
    part.add(chain)
    part.save(tmp_path / "token")
    content = (tmp_path / "token").read_bytes()
    for at in [*random.integers(0, len(content), 30).tolist(), len(content) - 1]:
        broken = bytearray(content)
        broken[at] ^= 1 << int(random.integers(8))
        (tmp_path / "token").write_bytes(broken)
        with pytest.raises(ChainfoldError):
            PiecewiseGradient.load(tmp_path / "token", model)
    for size in (0, 7, len(content) // 2, len(content) - 1):
        (tmp_path / "token").write_bytes(content[:size])
        with pytest.raises(ChainfoldError, match="cut short or damaged"):
            PiecewiseGradient.load(tmp_path / "token", model)
    with pytest.raises(ChainfoldError, match="no such file"):
        PiecewiseGradient.load(tmp_path / "nothing", model)
