"""A gradient in pieces is that of the whole chain, to the last bit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shapes
from chainfold import (
    Chain,
    ChainfoldError,
    Evaluation,
    Layout,
    Model,
    PiecewiseGradient,
    SyntheticChain,
    log_likelihood,
)
from chainfold.chain.block import Block, Source, frozen, join_blocks
from engines.test_never_forget import UNFORGETTING
from engines.test_never_forget import problem as unforgetting

SETTINGS: list[dict[str, Any]] = [{"block": 1, "lookahead": 1}, {"block": 3}, {"block": 2, "lookahead": 5}, {}]


def pieces(chain: Chain, places: list[int]) -> Iterator[Chain]:
    """The chain cut before each place; each piece begins as the chain goes on there."""
    for low, high in itertools.pairwise([0, *places, chain.positions]):
        yield piece(chain, low, high)


def piece(source: Source, low: int, high: int) -> Chain:
    rows = join_blocks([source.block(low, high)])
    return Chain(*rows, source.n_labels, source.n_attributes, source.n_edge_attributes)


def in_pieces(model: Model, chain: Chain, places: list[int], **settings: Any) -> Evaluation:
    gradient = PiecewiseGradient(model, **settings)
    for some in pieces(chain, places):
        gradient.add(some)
    return gradient.finish()


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
    random = shapes.generator(name)
    return *shapes.CASES[name](random), random


def check(model: Model, chain: Chain, random: np.random.Generator, **settings: Any) -> None:
    """One position at a time, and cut anywhere."""
    whole = log_likelihood(model, chain, "stream", **settings)
    same(in_pieces(model, chain, list(range(1, chain.positions)), **settings), whole)
    inner = np.arange(1, chain.positions)
    places = sorted(random.choice(inner, min(2, inner.size), replace=False).tolist())
    same(in_pieces(model, chain, places, **settings), whole)


@pytest.mark.parametrize("case", shapes.CASES)
def test_every_shape_cut_anywhere(case: str) -> None:
    model, chain, random = solved(case)
    for settings in SETTINGS:
        check(model, chain, random, **settings)


@pytest.mark.parametrize("case", ["3 labels", "start marks in pairs", "start marks at the ends", "edge attributes"])
def test_weights_of_sequences_and_labels_that_may_not_start_or_end_one(case: str) -> None:
    model, chain, random = solved(case)
    weights = random.uniform(0.0, 3.0, chain.positions)[np.cumsum(chain.starts) - 1]
    labels = np.zeros(chain.positions)
    chain = replace(chain, weights=frozen(weights, np.float64), labels=frozen(labels, np.int32))
    model = replace(model, first=np.arange(3) < 2, last=np.arange(3) != 1)
    for settings in SETTINGS:
        check(model, chain, random, **settings)


@pytest.mark.parametrize("starts", [False, True], ids=["one sequence", "several"])
@pytest.mark.parametrize("name", UNFORGETTING)
def test_chains_that_never_forget(name: str, starts: bool) -> None:
    model, chain = unforgetting(*UNFORGETTING[name], positions=5000, starts=starts)
    settings: dict[str, Any] = {"block": 100, "lookahead": 200}
    whole = log_likelihood(model, chain, "stream", **settings)
    assert whole.report.carried_blocks > 0
    places = sorted(np.random.default_rng(0).choice(np.arange(1, 5000), 6, replace=False).tolist())
    same(in_pieces(model, chain, places, **settings), whole)


def long_chain(random: np.random.Generator, positions: int, often: float) -> tuple[Model, Chain]:
    starts = random.random(positions) < often
    source = shapes.chain(random, positions, 3, 40, starts=starts, values="one")
    return shapes.model(random, source, 0.5, Layout.observed(source)), source


@pytest.mark.parametrize("often", [0.05, 0.0005, 0.0], ids=["sentences", "long and short", "one sequence"])
def test_long_chains(often: float) -> None:
    """Whole sequences go together here, and sums are folded on the way."""
    random = np.random.default_rng(1)
    model, chain = long_chain(random, 90_000, often)
    whole = log_likelihood(model, chain, "stream")
    starts = np.flatnonzero(chain.starts)
    places = sorted({*random.integers(1, 90_000, 5).tolist(), int(starts[starts.size // 2]), 40_000, 40_001} - {0})
    same(in_pieces(model, chain, places), whole)


def test_little_memory() -> None:
    """The block is chosen for the attributes a position has; where they are the same, it is the same block."""
    random = np.random.default_rng(2)
    chain = Chain.from_arrays(
        offsets=2 * np.arange(8001), ids=random.integers(0, 5, 16_000), labels=random.integers(0, 3, 8000)
    )
    model = shapes.model(random, chain, 0.2)
    whole = log_likelihood(model, chain, "stream", memory=200_000)
    assert whole.report.blocks > 10
    same(in_pieces(model, chain, [777, 778, 5000], memory=200_000), whole)
    with pytest.raises(ChainfoldError, match="needs about"):
        PiecewiseGradient(model, memory=1000).add(chain)


def test_a_piece_that_continues_whatever_its_mark_says() -> None:
    model, chain, _ = solved("3 labels")
    part = PiecewiseGradient(model)
    for k, some in enumerate(pieces(chain, [2, 3])):
        marked = frozen(np.append(True, some.starts[1:]), np.bool_)
        part.add(replace(some, starts=marked), continues=k > 0)
    same(part.finish(), log_likelihood(model, chain))


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
        values=frozen(np.append(np.ones(low.values.size), high.values), np.float64),
        edge_offsets=frozen(np.append(np.zeros(3), high.edge_offsets), np.int64),
        edge_ids=high.edge_ids,
        edge_values=high.edge_values,
    )
    found, whole = part.finish(), log_likelihood(model, full)
    np.testing.assert_array_equal(found.expected, whole.expected)
    assert found.log_likelihood == whole.log_likelihood


def test_a_label_that_turns_out_unknown_leaves_the_expected_counts() -> None:
    model, chain, _ = solved("3 labels")
    labels = np.where(np.arange(chain.positions) == 5, -1, chain.labels)
    chain = replace(chain, labels=frozen(labels, np.int32))
    for settings in SETTINGS:
        found = in_pieces(model, chain, [2, 4, 6], **settings)
        same(found, log_likelihood(model, chain, **settings))
        assert found.gradient is None


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


def test_a_long_piece_is_never_gathered() -> None:
    chain = SyntheticChain(300_000, 3, 10, 2, seed=4)
    model = Model.random(Layout.full(3, 10))
    watched = Watched(chain)
    part = PiecewiseGradient(model)
    part.add(piece(chain, 0, 100))
    part.add(piece(chain, 100, 300_000 - 50))
    same_piece = PiecewiseGradient(model)
    same_piece.add(watched)
    assert watched.most <= 20_000
    part.add(piece(chain, 300_000 - 50, 300_000))
    whole = log_likelihood(model, chain)
    same(part.finish(), whole)
    same(same_piece.finish(), whole)


def test_pieces_that_cannot_follow_are_one_sentence() -> None:
    model, chain, _ = solved("3 labels")
    weighted = replace(chain, weights=frozen(np.ones(chain.positions), np.float64))
    unknown = replace(weighted, labels=frozen(np.full(chain.positions, -1), np.int32))
    gradient = PiecewiseGradient(model)
    with pytest.raises(ChainfoldError, match="no positions"):
        gradient.finish()
    with pytest.raises(ChainfoldError, match="the first piece cannot continue"):
        gradient.add(chain, continues=True)
    gradient.add(chain)
    with pytest.raises(ChainfoldError, match="give all pieces weights and labels, or none of them weights"):
        gradient.add(weighted)
    with pytest.raises(ChainfoldError, match="the model knows"):
        gradient.add(shapes.chain(np.random.default_rng(0), 3, 9))
    gradient.add(chain)
    gradient.finish()
    for act in (gradient.finish, lambda: gradient.add(chain)):
        with pytest.raises(ChainfoldError, match="is finished"):
            act()
    gradient = PiecewiseGradient(model)
    gradient.add(weighted)
    for other in (chain, unknown):
        with pytest.raises(ChainfoldError, match="give all pieces weights and labels"):
            gradient.add(other)


def test_a_piece_that_fails_ends_the_gradient() -> None:
    model, chain, _ = solved("3 labels")
    gradient = PiecewiseGradient(model, block=1)
    gradient.add(chain)
    values = np.where(np.arange(chain.values.size) < chain.offsets[3], 1.0, np.inf)
    endless = replace(chain, values=frozen(values, np.float64))
    with pytest.raises(ChainfoldError, match=f"position {chain.positions + 3}"):
        gradient.add(endless)
    for act in (lambda: gradient.add(chain), gradient.finish):
        with pytest.raises(ChainfoldError, match="a piece failed"):
            act()
