"""Training from mistakes against a slow reference: paths are enumerated, weights are numbers in a dict."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chainfold import Chain, ChainfoldError, Layout, Model
from chainfold.chain.block import frozen
from chainfold.errors import EmptyChain, ForbiddenLabel, ModelMismatch, ScoreNotFinite, ZeroProbability
from chainfold.training.perceptron import PerceptronSettings, PerceptronTrainer
from oracle import features

CLOSE = 1e-10
Floats = NDArray[np.float64]


def random_chain(
    seed: int, lengths: list[int], n_labels: int = 3, n_attributes: int = 9, n_edge: int = 0, valued: bool = True
) -> Chain:
    """Sequences of these lengths; two to four attributes a position, some twice, some values zero or negative."""
    rng = np.random.default_rng(seed)
    positions = sum(lengths)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 5, positions))])
    edges = np.concatenate([[0], np.cumsum(rng.integers(0, 3, positions))]) if n_edge else None
    values = np.where(rng.random(offsets[-1]) < 0.1, 0.0, rng.normal(size=offsets[-1])) if valued else None
    return Chain.from_arrays(
        offsets=offsets,
        ids=rng.integers(0, n_attributes, offsets[-1]),
        values=values,
        labels=rng.integers(0, n_labels, positions),
        starts=np.isin(np.arange(positions), np.cumsum([0, *lengths])),
        edge_offsets=edges,
        edge_ids=rng.integers(0, n_edge, edges[-1]) if edges is not None else None,
        edge_values=rng.normal(size=edges[-1]) if edges is not None and valued else None,
        n_labels=n_labels,
        n_attributes=n_attributes,
        n_edge_attributes=n_edge,
    )


def ragged_layout(chain: Chain) -> Layout:
    """Four labels: full rows, padded rows with holes, and sparse ones."""
    rows = [[0, 1, 2, 3], [0, 1, 2, 3], [1, 3], [0, 1, 3], [2], [], [0, 3], [1], [3]]
    offsets = np.cumsum([0, *map(len, rows)])
    layout = Layout(4, 9, chain.n_edge_attributes, offsets, np.array(list(itertools.chain(*rows)), np.int32))
    assert 2 < layout.dense < 9, "holes in the padded rows, and sparse rows as well"
    return layout


@dataclass
class Reference:
    """The algorithms as they are written on paper, for one piece at a time."""

    model: Model
    chain: Chain
    settings: PerceptronSettings
    seen: int = 0
    history: list[dict[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = dict(enumerate(self.model.weights.tolist()))
        self.variances = dict.fromkeys(self.weights, self.settings.variance)
        self.history = [dict(self.weights)]

    def features(self, low: int, path: tuple[int, ...]) -> dict[int, float]:
        total: dict[int, float] = {}
        for t, label in enumerate(path):
            for m, value in features(self.chain, self.model.layout, low + t, path[t - 1] if t else None, label):
                total[m] = total.get(m, 0.0) + value
        return total

    def score(self, low: int, path: tuple[int, ...]) -> float:
        """Added in the order of the chain, so that equal scores are equal."""
        positions = self.chain.positions
        first, last = self.model.first, self.model.last
        if first is not None and self.chain.starts[low] and not first[path[0]]:
            return -math.inf
        high = low + len(path)
        if last is not None and (high == positions or self.chain.starts[high]) and not last[path[-1]]:
            return -math.inf
        total = 0.0
        for t, label in enumerate(path):
            for m, value in features(self.chain, self.model.layout, low + t, path[t - 1] if t else None, label):
                total += value * self.weights[m] if value != 0.0 else 0.0
        return total

    def best(self, low: int, high: int) -> tuple[int, ...]:
        """Of equal paths the one with the smaller label at the last position where they differ."""
        paths = itertools.product(range(self.model.layout.n_labels), repeat=high - low)
        return max(sorted(paths, key=lambda path: path[::-1]), key=lambda path: self.score(low, path))

    def learn(self, low: int, high: int) -> float:
        s = self.settings
        gold = tuple(int(label) for label in self.chain.labels[low:high])
        found = self.best(low, high)
        wrong = sum(a != b for a, b in zip(gold, found, strict=True))
        weight = float(self.chain.weights[low]) if self.chain.weights.size else 1.0
        loss = wrong / (high - low)
        if wrong:
            delta = self.features(low, gold)
            for m, value in self.features(low, found).items():
                delta[m] = delta.get(m, 0.0) - value
            norm = sum(value**2 for value in delta.values())
            cost = self.score(low, found) - self.score(low, gold)
            if s.algorithm == "ap":
                self.move(delta, weight)
            elif s.algorithm == "pa":
                loss = cost = cost + (math.sqrt(wrong) if s.error_sensitive else 1.0)
                rates = cost / norm, min(s.c, cost / norm), cost / (norm + 1 / (2 * s.c))
                self.move(delta, weight * rates[s.type])
            else:
                loss = cost = cost + wrong
                beta = 1 / (sum(self.variances[m] * value**2 for m, value in delta.items()) + s.gamma)
                self.move({m: self.variances[m] * value for m, value in delta.items()}, weight * cost * beta)
                for m, value in delta.items():
                    self.variances[m] = 1 / (1 / self.variances[m] + weight * value**2 / s.gamma)
        self.history.append(dict(self.weights))
        return weight * loss

    def move(self, delta: dict[int, float], rate: float) -> None:
        for m, value in delta.items():
            if value != 0.0:
                self.weights[m] += rate * value

    def point(self) -> Floats:
        """The mean of all weights there were, the first ones included, or the last."""
        if self.settings.algorithm == "arow" or not self.settings.averaging:
            return np.array(list(self.weights.values()))
        return np.asarray(np.array([list(weights.values()) for weights in self.history]).mean(axis=0))


def expected(reference: Reference, blocks: list[list[tuple[int, int]]], epochs: int) -> tuple[Floats, list[float]]:
    """The weights after some epochs and the mean loss of each, the blocks of pieces given."""
    losses = []
    seed = reference.settings.seed
    for epoch in range(epochs):
        total, count = 0.0, 0
        for number in np.random.default_rng([seed, epoch, 0]).permutation(len(blocks)):
            pieces = blocks[number]
            for p in np.random.default_rng([seed, epoch, 1 + number]).permutation(len(pieces)):
                low, high = pieces[p]
                if (reference.chain.labels[low:high] >= 0).all():
                    total, count = total + reference.learn(low, high), count + 1
        losses.append(total / count)
    return reference.point(), losses


def trained(mistakes: PerceptronTrainer) -> tuple[Floats, list[float]]:
    losses = []
    while mistakes.finished is None:
        step = mistakes.advance()
        if step is not None:
            losses.append(step.value)
    return mistakes.point, losses


def pieces_of(chain: Chain) -> list[tuple[int, int]]:
    begins = [*np.flatnonzero(chain.starts).tolist(), chain.positions]
    return list(itertools.pairwise(begins))


def check(model: Model, chain: Chain, settings: PerceptronSettings, blocks: list[list[tuple[int, int]]]) -> None:
    weights, losses = expected(Reference(model, chain, settings), blocks, settings.max_iterations)
    found, found_losses = trained(PerceptronTrainer(model, chain, settings))
    assert len(found_losses) == settings.max_iterations
    np.testing.assert_allclose(found, weights, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(found_losses, losses, rtol=CLOSE, atol=CLOSE)


RULES: dict[str, dict[str, Any]] = {
    "ap": {"algorithm": "ap"},
    "ap, last weights": {"algorithm": "ap", "averaging": False},
    "pa 0": {"algorithm": "pa", "type": 0},
    "pa 1": {"algorithm": "pa", "type": 1, "c": 0.2},
    "pa 2": {"algorithm": "pa", "type": 2, "c": 0.3, "averaging": False},
    "pa, any error": {"algorithm": "pa", "error_sensitive": False},
    "arow": {"algorithm": "arow", "variance": 0.7, "gamma": 2.0},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_edge", [0, 2])
def test_every_rule_is_the_one_on_paper(rule: str, n_edge: int) -> None:
    chain = random_chain(1, [4, 1, 3, 2, 4, 3, 2], n_edge=n_edge)
    model = Model.random(Layout.full(3, 9, n_edge), seed=5)
    check(model, chain, PerceptronSettings(max_iterations=3, seed=7, **RULES[rule]), [pieces_of(chain)])


@pytest.mark.parametrize("rule", ["ap", "pa 1", "arow"])
@pytest.mark.parametrize("valued", [False, True])
def test_sparse_rows_and_holes_in_padded_ones(rule: str, valued: bool) -> None:
    chain = random_chain(2, [3, 4, 1, 1, 2, 3], n_labels=4, n_edge=1, valued=valued)
    model = Model.random(ragged_layout(chain), seed=6)
    check(model, chain, PerceptronSettings(max_iterations=4, **RULES[rule]), [pieces_of(chain)])


def test_equal_paths_from_zero_weights_go_to_the_smaller_label() -> None:
    chain = random_chain(3, [3, 4, 2, 3, 4, 1], valued=False)
    model = Model(Layout.full(3, 9), np.zeros(9 * 3 + 9))
    check(model, chain, PerceptronSettings(max_iterations=5), [pieces_of(chain)])


@pytest.mark.parametrize("rule", ["ap", "pa 2", "arow"])
def test_a_weight_multiplies_the_step(rule: str) -> None:
    lengths = [3, 4, 2, 1, 3]
    weights = np.repeat(np.random.default_rng(0).random(len(lengths)) * 2, lengths)
    chain = replace(random_chain(4, lengths), weights=frozen(weights, np.float64))
    model = Model.random(Layout.full(3, 9), seed=1)
    check(model, chain, PerceptronSettings(max_iterations=3, **RULES[rule]), [pieces_of(chain)])


def test_blocks_end_with_sequences_and_long_sequences_are_cut() -> None:
    """Blocks of 4 positions: two sequences, the long one in the midst and then with its rest, the others."""
    chain = random_chain(5, [2, 3, 9, 1, 2])
    labels = np.array([0, 2, 1, 1, 0, 1, 0, 1, 2, 2, 0, 1, 2, 2, 0, 0, 2])  # cuts come after a 1 and before a 2
    chain = replace(chain, labels=frozen(labels, np.int32))
    first, last = np.array([True, True, False]), np.array([True, False, True])
    model = replace(Model.random(Layout.full(3, 9), seed=2), first=first, last=last)
    blocks = [[(0, 2)], [(2, 5)], [(5, 8), (8, 9)], [(9, 12), (12, 13)], [(13, 14), (14, 15), (15, 17)]]
    settings = PerceptronSettings(algorithm="pa", max_iterations=3, block=4, longest=3, seed=3)
    check(model, chain, settings, blocks)


def test_a_piece_with_an_unknown_label_is_left_out() -> None:
    chain = random_chain(6, [3, 2, 3])
    labels = np.array(chain.labels)
    labels[4] = -1
    chain = replace(chain, labels=frozen(labels, np.int32))
    model = Model.random(Layout.full(3, 9), seed=2)
    check(model, chain, PerceptronSettings(max_iterations=2), [pieces_of(chain)])
    nothing = replace(chain, labels=frozen(np.full(8, -1), np.int32))
    with pytest.raises(ChainfoldError, match="nothing to learn from"):
        trained(PerceptronTrainer(model, nothing))


@pytest.mark.parametrize("rule", ["ap", "pa 1", "arow"])
def test_what_is_forbidden_is_never_used_nor_moved(rule: str) -> None:
    """Labels 0 1 2 0 1 2 …: only these moves are allowed, nothing but 0 may begin, nothing but 2 may end."""
    chain = random_chain(7, [3, 6, 3, 3])
    chain = replace(chain, labels=frozen(np.tile(np.arange(3), 5), np.int32))
    weights = np.random.default_rng(3).normal(size=36)
    transitions = weights[27:].reshape(3, 3)
    transitions[np.eye(3, k=1) + np.eye(3, k=-2) == 0] = -np.inf
    model = Model(Layout.full(3, 9), weights, first=np.array([True, True, True]), last=np.array([True, True, True]))
    check(model, chain, PerceptronSettings(max_iterations=2, epsilon=0.0, **RULES[rule]), [pieces_of(chain)])
    strict = replace(model, first=np.array([True, False, False]), last=np.array([False, False, True]))
    point, losses = trained(PerceptronTrainer(strict, chain, PerceptronSettings(**RULES[rule])))
    assert losses == [0.0], "only the right path is left"
    np.testing.assert_array_equal(point, model.weights)
    np.testing.assert_array_equal(np.isinf(point), np.isinf(weights))


def test_forbidden_attributes_stay_so() -> None:
    chain = random_chain(8, [3, 4, 3, 2], valued=False)
    weights = np.random.default_rng(3).normal(size=36)
    gold = {
        (int(a), int(chain.labels[t])) for t in range(12) for a in chain.ids[chain.offsets[t] : chain.offsets[t + 1]]
    }
    free = [a * 3 + y for a in range(9) for y in range(3) if (a, y) not in gold]
    weights[free] = -np.inf
    assert free
    check(Model(Layout.full(3, 9), weights), chain, PerceptronSettings(max_iterations=3), [pieces_of(chain)])


@pytest.mark.parametrize("rule", RULES)
def test_going_on_from_a_state_gives_the_same_bits(rule: str) -> None:
    chain = random_chain(9, [3, 5, 2, 4, 1, 3, 2, 5, 4, 2])
    model = Model.random(Layout.full(3, 9), seed=4)
    settings = PerceptronSettings(max_iterations=3, block=6, **RULES[rule])
    whole = PerceptronTrainer(model, chain, settings)
    points, states = [], []
    while whole.finished is None:
        states.append({name: array.copy() for name, array in whole.state().items()})
        points.append((whole.advance(), whole.point))
    assert len(states) > 12, "several blocks an epoch"
    last = whole.state()
    for at, state in enumerate(states):
        again = PerceptronTrainer(model, chain, settings)
        again.restore(state)
        for step, point in points[at:]:
            assert repr(again.advance()) == repr(step)
            np.testing.assert_array_equal(again.point, point)
        assert again.finished == whole.finished is not None
        assert again.advance() is None
    again = PerceptronTrainer(model, chain, settings)
    again.restore(last)
    assert again.finished == whole.finished
    assert again.state().keys() == last.keys()
    assert all(np.array_equal(again.state()[name], last[name]) for name in last)


def test_it_stops_when_told_and_reports_epochs() -> None:
    chain = random_chain(10, [3, 4, 5, 4], n_attributes=2)
    model = Model(Layout.full(3, 2), np.zeros(15))
    mistakes = PerceptronTrainer(model, chain, PerceptronSettings(max_iterations=4))
    steps = [mistakes.advance() for _ in range(4)]
    assert [step.iteration for step in steps if step is not None] == [1, 2, 3, 4]
    assert mistakes.finished is not None
    assert mistakes.advance() is None
    step = steps[-1]
    assert step is not None
    assert step.point_norm == pytest.approx(float(np.sqrt((mistakes.point**2).sum())))
    assert step.active == np.count_nonzero(mistakes.point)
    early = PerceptronTrainer(model, chain, PerceptronSettings(epsilon=1.0))
    assert early.advance() is not None
    assert early.finished is not None


@pytest.mark.parametrize("rule", RULES)
def test_one_label_is_always_right_and_one_position_is_enough(rule: str) -> None:
    settings = PerceptronSettings(**RULES[rule], max_iterations=3)
    single = random_chain(11, [2, 3], n_labels=1)
    model = Model.random(Layout.full(1, 9))
    point, losses = trained(PerceptronTrainer(model, single, settings))
    np.testing.assert_array_equal(point, model.weights)
    assert losses == [0.0]
    chain = Chain.from_arrays(offsets=[0, 2], ids=[1, 0], values=[-2.0, 0.5], labels=[2], n_labels=3)
    model = Model(Layout.full(3, 2), np.zeros(15))
    reference = Reference(model, chain, settings)
    point, losses = trained(PerceptronTrainer(model, chain, settings))
    wanted, wanted_losses = expected(reference, [[(0, 1)]], len(losses))
    np.testing.assert_allclose(point, wanted, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(losses, wanted_losses, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("rule", RULES)
def test_a_mistake_without_features_moves_nothing(rule: str) -> None:
    chain = Chain.from_arrays(offsets=[0, 0], ids=[], labels=[1], n_labels=2)
    point, losses = trained(
        PerceptronTrainer(Model(Layout.full(2, 0), np.zeros(4)), chain, PerceptronSettings(**RULES[rule]))
    )
    np.testing.assert_array_equal(point, np.zeros(4))
    assert losses == [1.0] * 100


def faulty(model: Model, labels: list[int], values: list[float] | None = None) -> PerceptronTrainer:
    offsets = np.arange(len(labels) + 1)
    chain = Chain.from_arrays(
        offsets=offsets,
        ids=np.zeros(len(labels), int),
        values=values,
        labels=labels,
        starts=[True, False, True, False],
        n_labels=2,
    )
    return PerceptronTrainer(model, chain, PerceptronSettings(max_iterations=3))


def test_labels_and_paths_that_cannot_be_are_told_with_their_position() -> None:
    layout = Layout.full(2, 1)
    no_change = Model(layout, np.array([0.0, 0.0, 0.0, -np.inf, -np.inf, 0.0]))
    with pytest.raises(ForbiddenLabel, match="position 3"):
        trained(faulty(no_change, [0, 0, 0, 1]))
    no_one = Model(layout, np.array([0.0, -np.inf, 0.0, 0.0, 0.0, 0.0]))
    with pytest.raises(ForbiddenLabel, match="position 1"):
        trained(faulty(no_one, [0, 1, 0, 0]))
    with pytest.raises(ScoreNotFinite, match="position 2"):
        trained(faulty(no_one, [0, 0, 0, 0], [1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(ZeroProbability, match="position 3"):
        trained(faulty(Model(layout, np.array([0.0, -np.inf, -np.inf, 0.0, 0.0, 0.0])), [0, 1, 0, 0], [1, 0, 1, 1]))
    free = Model(layout, np.zeros(6))
    with pytest.raises(ChainfoldError, match="position 2 may not start"):
        trained(faulty(replace(free, first=np.array([True, False])), [0, 0, 1, 0]))
    with pytest.raises(ChainfoldError, match="position 1 may not end"):
        trained(faulty(replace(free, last=np.array([True, False])), [0, 1, 0, 0]))


def test_forbidden_edge_attributes_with_negative_values_are_not_finite() -> None:
    chain = Chain.from_arrays(
        offsets=[0, 0, 0], ids=[], labels=[0, 0], n_labels=2, edge_offsets=[0, 0, 1], edge_ids=[0], edge_values=[-1.0]
    )
    weights = np.zeros(8)
    weights[5] = weights[1] = -np.inf
    with pytest.raises(ScoreNotFinite, match="position 1"):
        trained(PerceptronTrainer(Model(Layout.full(2, 0, 1), weights), chain))


def test_sources_that_do_not_fit_are_refused() -> None:
    chain = random_chain(12, [2, 2])
    with pytest.raises(ModelMismatch):
        PerceptronTrainer(Model.random(Layout.full(3, 8)), chain)

    class Empty:
        positions = 0

    with pytest.raises(EmptyChain):
        PerceptronTrainer(Model.random(Layout.full(3, 8)), Empty())  # type: ignore[arg-type]
