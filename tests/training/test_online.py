"""Learning as data arrives: exact shares, sparse steps, growing labels, drift, and states to go on from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chainfold.chain.block import Block
from chainfold.chain.chain import Chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.engines.log_likelihood import log_likelihood
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.inference.tagger import Tagger
from chainfold.model.layout import Floats, Layout
from chainfold.model.model import Model
from chainfold.training.online.adagrad import OnlineSettings, OnlineWeights
from chainfold.training.online.prequential import Interval, Prequential
from chainfold.training.online.trainer import BatchResult, OnlineTrainer
from shapes import chain as random_chain

pytestmark = pytest.mark.quick


def pieces(chain: Chain, sizes: list[int]) -> list[Block]:
    """A chain cut into blocks, the sizes taken in turn."""
    found, low, k = [], 0, 0
    while low < chain.positions:
        high = min(low + sizes[k % len(sizes)], chain.positions)
        found.append(chain.block(low, high))
        low, k = high, k + 1
    return found


def learnt_by(trainer: OnlineTrainer, blocks: list[Block]) -> list[BatchResult]:
    found: list[BatchResult] = []
    for block in blocks:
        trainer.add(block)
        found += trainer.learn()
    return found + list(trainer.learn(ended=True))


def same(a: OnlineTrainer, b: OnlineTrainer) -> bool:
    one, other = a.state(), b.state()
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def names(chain: Chain) -> Vocabulary:
    labels = tuple(f"L{k}" for k in range(chain.n_labels))
    nothing = pa.array([], pa.large_string())
    return Vocabulary(labels, None, nothing, np.empty(0, np.int64), np.empty((0, 1), np.uint64))


def a_chain(positions: int = 3000, n_labels: int = 3, starts: float = 0.02, seed: int = 0, **how: Any) -> Chain:
    random = np.random.default_rng(seed)
    return random_chain(random, positions, n_labels, 40, starts=random.random(positions) < starts, **how)


# The gradient


class Frozen(OnlineWeights):
    """Weights that stay as they are, and add up the gradients that they are given."""

    rows_sum: Floats
    pairs_sum: Floats

    def step(self, ids: Any, gradient: Any, transitions: Any, positions: int) -> None:
        self.time += positions
        self.rows_sum[ids] += gradient
        self.pairs_sum += transitions


def frozen_trainer(model: Model, batch: int) -> tuple[OnlineTrainer, Frozen]:
    layout = model.layout
    rows, pairs = np.split(model.weights, [layout.n_state])
    n, size = layout.n_labels, layout.n_attributes
    trainer = OnlineTrainer(size, OnlineSettings(batch=batch))
    weights = Frozen.of_state(
        {
            "ids": np.arange(size, dtype=np.int32),
            "weights": rows.reshape(size, n),
            "sums": np.zeros((size, n)),
            "stamps": np.zeros(size, np.int64),
            "counts": np.zeros(size, np.int64),
            "seen": np.zeros((size, n), bool),
            "transitions": pairs.reshape(n, n),
            "transition_sums": np.zeros((n, n)),
            "time": np.array(0),
        },
        size,
        trainer.settings,
    )
    weights.rows_sum, weights.pairs_sum = np.zeros((size, n)), np.zeros((n, n))
    trainer.weights = weights
    return trainer, weights


@pytest.mark.parametrize("starts", [0.0, 0.001, 0.2])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_shares_add_up_to_the_gradient_of_the_whole(starts: float, batch: int) -> None:
    chain = a_chain(positions=60 if batch == 1 else 1500, starts=starts)
    model = Model.random(Layout.full(3, 40))
    trainer, weights = frozen_trainer(model, batch)
    learnt = learnt_by(trainer, pieces(chain, [1, 300, 17]))
    whole = log_likelihood(model, chain)
    assert whole.gradient is not None
    assert whole.log_likelihood is not None
    found = np.concatenate([weights.rows_sum.ravel(), weights.pairs_sum.ravel()])
    assert np.abs(found + whole.gradient).max() < 1e-10 * max(1.0, np.abs(whole.gradient).max())
    assert sum(one.loss for one in learnt) == pytest.approx(-whole.log_likelihood, rel=1e-11)
    assert trainer.totals.approximate == 0
    assert sum(one.positions for one in learnt) == chain.positions == trainer.positions
    if starts == 0.0:
        assert len(learnt) == -(-chain.positions // batch), "sequences are cut into batches, not at their ends"


def test_before_anything_is_learnt_from_a_batch_it_is_tagged() -> None:
    chain, model = a_chain(), Model.random(Layout.full(3, 40))
    learnt = learnt_by(frozen_trainer(model, 100)[0], pieces(chain, [1000]))
    best = np.concatenate([tagged.labels for tagged in Tagger(model).run([chain.block(0, chain.positions)])])
    assert sum(one.right for one in learnt) == np.count_nonzero(best == chain.labels)


def test_a_chain_that_does_not_forget_is_learnt_from_all_the_same_and_counted() -> None:
    positions = 10_000
    chain = Chain.from_arrays(offsets=np.zeros(positions + 1, int), ids=[], labels=[0] * positions, n_labels=2)
    weights = np.array([60.0, 0.0, 0.0, 60.0])  # whatever label there is stays
    trainer, _ = frozen_trainer(Model(Layout.full(2, 0), weights), 1000)
    learnt_by(trainer, pieces(chain, [1000]))
    assert trainer.positions == positions
    assert trainer.totals.approximate > 0


# What is learnt


def test_it_does_not_matter_how_rows_are_cut_into_blocks() -> None:
    chain = a_chain(starts=0.003, values="one")
    trainers = [OnlineTrainer(40, OnlineSettings(batch=100, forget=1000.0, c2=1.0)) for _ in range(3)]
    for trainer, sizes in zip(trainers, ([3000], [1], [5, 700, 64, 1]), strict=True):
        learnt_by(trainer, pieces(chain, sizes))
    assert same(trainers[0], trainers[1])
    assert same(trainers[0], trainers[2])


def test_steps_that_leave_rows_alone_are_those_of_the_dense_recursion() -> None:
    random, size, n = np.random.default_rng(0), 30, 3
    settings = OnlineSettings(rate=0.2, c2=300.0, forget=500.0)
    weights = OnlineWeights(size, n, settings)
    w, q = np.zeros((2, size, n))
    v, p = np.zeros((2, n, n))
    for _ in range(400):
        positions = int(random.integers(1, 200))
        ids = random.choice(size, 3, replace=False).astype(np.int32)
        rows, pairs = random.normal(size=(3, n)), random.normal(size=(n, n))
        everything = np.arange(size, dtype=np.int32)
        assert np.abs(weights.current(everything) - w).max() < 1e-12
        weights.note(ids, np.zeros(3, np.int32))
        weights.step(ids, rows, pairs, positions)
        g = np.zeros((size, n))
        g[ids] = rows
        for x, sums, gradient in ((w, q, g), (v, p, pairs)):
            sums *= 0.5 ** (positions / 500.0)
            sums += gradient**2
            x *= np.exp(-300.0 * positions / 1e6)
            x -= 0.2 * gradient / np.sqrt(sums + 0.1)
    assert np.abs(weights.current(everything) - w).max() < 1e-12
    assert np.abs(weights.transitions - v).max() < 1e-12
    assert np.abs(w).max() > 0.1


def test_new_labels_and_attributes_get_weights_when_they_come() -> None:
    random = np.random.default_rng(0)
    labels = np.minimum(random.integers(0, 4, 4000), np.arange(4000) // 1000).astype(np.int32)
    ids = labels + 10 * random.integers(0, 2, 4000)
    chain = Chain.from_arrays(offsets=np.arange(4001), ids=ids, labels=labels, n_labels=4, n_attributes=20)
    trainer = OnlineTrainer(20, OnlineSettings(batch=50))
    known = []
    for block in pieces(chain, [1000]):
        learnt_by(trainer, [block])
        known.append((trainer.weights.n_labels, trainer.weights.ids.size))
    assert known == [(1, 2), (2, 4), (3, 6), (4, 8)]
    model = trainer.model(names(chain))
    best = next(iter(Tagger(model).run([chain.block(0, 4000)]))).labels
    assert np.count_nonzero(best == labels) > 3960
    assert model.vocabulary is not None
    assert model.vocabulary.labels == ("L0", "L1", "L2", "L3")
    assert np.array_equal(model.vocabulary.counts, np.bincount(ids, minlength=20))
    offsets, marked = model.vocabulary.pairs()
    assert [marked[offsets[a] : offsets[a + 1]].tolist() for a in (0, 1, 4, 13)] == [[0], [1], [], [3]]


# Going on


@pytest.mark.parametrize("rows", [0, 1, 99, 150, 2777])
def test_a_state_is_all_that_is_needed_to_go_on(rows: int) -> None:
    chain, settings = a_chain(starts=0.003), OnlineSettings(batch=100, forget=5000.0, c2=10.0)
    whole = OnlineTrainer(40, settings)
    learnt_by(whole, pieces(chain, [250]))
    first = OnlineTrainer(40, settings)
    first.add(chain.block(0, rows))
    for k, _ in enumerate(first.learn()):
        if k == 5:
            break  # in the midst of what has come
    again = OnlineTrainer.of_state({name: array.copy() for name, array in first.state().items()}, 40, 3, settings)
    learnt_by(again, pieces(chain, [250])[rows // 250 :] if rows % 250 == 0 else [chain.block(rows, 3000)])
    assert same(whole, again)


# What is told


def test_intervals_have_their_own_counts_and_those_until_then() -> None:
    told: list[Interval] = []
    prequential = Prequential(told.append, 100)
    for right, loss in ((50, 6.0), (30, 12.0), (60, 0.0), (6, 6.0)):
        prequential.add(BatchResult(60, right, loss))
    prequential.add(BatchResult(10, 10, 1.0))
    prequential.close()
    prequential.close()
    assert told == [
        Interval(120, 80 / 120, 80 / 120, 18 / 120),
        Interval(240, 66 / 120, 146 / 240, 6 / 120),
        Interval(250, 1.0, 156 / 250, 0.1),
    ]


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"rate": 0.0}, "rate is 0.0, but must be a finite number above zero."),
        ({"batch": 0}, "batch is 0, but must be a whole number, at least 1."),
        ({"c2": -1.0}, "c2 is -1.0, but must be a finite number, zero or more."),
        ({"forget": 0}, "forget is 0, but must be a finite number above zero."),
    ],
)
def test_settings_that_make_no_sense(how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadSetting) as raised:
        OnlineSettings(**how)
    assert str(raised.value) == sentence


def test_rows_that_cannot_be_learnt_from() -> None:
    trainer, chain = OnlineTrainer(40), a_chain(10)
    trainer.add(chain.block(0, 5))
    labels = chain.labels.copy()
    labels[7] = -1
    with pytest.raises(ChainfoldError, match="row 8 has no label"):
        trainer.add(chain.block(5, 10)._replace(labels=labels[5:10]))
    with pytest.raises(ChainfoldError, match="weights of sequences"):
        trainer.add(chain.block(5, 10)._replace(weights=np.ones(5)))
    edges = random_chain(np.random.default_rng(0), 50, 2, n_edge_attributes=2)
    with pytest.raises(ChainfoldError, match="edge attributes"):
        trainer.add(edges.block(0, 50))


@pytest.mark.parametrize(("scale", "rate"), [(1e300, 0.3), (-1e200, 0.3), (1.0, 1e300)])
def test_numbers_that_become_too_large_end_it_at_once(scale: float, rate: float) -> None:
    blocks = [block._replace(values=block.values * scale) for block in pieces(a_chain(50), [50])]
    trainer = OnlineTrainer(40, OnlineSettings(rate=rate))
    with pytest.raises(ChainfoldError, match="the gradient of rows 1 to 50 leads to weights that are too large"):
        learnt_by(trainer, blocks)
    assert not trainer.positions
    assert not trainer.weights.transitions.any()
