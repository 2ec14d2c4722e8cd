"""Explanations of labels: the score of the best labelling less that of the best one with another label there.

    y* = argmax_y score(y)                      the best labelling of the sequence
    y' = argmax_{y: y_t ≠ y*_t} score(y)        the best labelling with another label at position t
    d  = score(y*) - score(y')

Both are paths through the same lattice. With the best scores before and after a position,

    δ_t(j) = s_t(j) + max_i δ_{t-1}(i) + e_t(i,j)        ρ_t(i) = max_j e_{t+1}(i,j) + s_{t+1}(j) + ρ_{t+1}(j)

the label of y' at t is k = argmax_{j ≠ y*_t} δ_t(j) + ρ_t(j), and its other labels follow from the maxima. y' leaves y*
at some position before t and meets it again after t; between the two every label differs. There the difference is the
sum of its terms, and elsewhere all terms are zero:

    d = Σ_s Σ_a x_s(a) (W[a, y*_s] - W[a, y'_s])                                 attributes
      + Σ_s V[y*_{s-1}, y*_s] - V[y'_{s-1}, y'_s]                                transitions
      + Σ_s Σ_b z_s(b) (U[b, y*_{s-1}, y*_s] - U[b, y'_{s-1}, y'_s])             edge attributes

Maxima are normalised at every position, so that long sequences lose no digits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import Block, Source, join_blocks
from chainfold.chain.vocabulary import label_names, names_of
from chainfold.engines.ranges import Ranges
from chainfold.errors import BadSetting
from chainfold.inference.decoder import Scored, Scorer
from chainfold.inference.tagger import Tagger, blocks_of
from chainfold.model.layout import Floats
from chainfold.model.model import Model

ATTRIBUTE, TRANSITION, EDGE_ATTRIBUTE = "attribute", "transition", "edge attribute"
_PIECE = 1024  # positions that are scored at once


@dataclass(frozen=True)
class Term:
    """One term of the difference of two labellings: value · (weight - other_weight).

    kind           "attribute", "transition" or "edge attribute"
    name           of the attribute; "" for a transition
    position       where the attribute is, or where the transition leads to
    value          of the attribute; 1 for a transition
    labels         of the best labelling: the label, or the labels from and to
    other_labels   of the other labelling
    weight         of the attribute or transition with `labels`
    other_weight   with `other_labels`

    >>> Term("attribute", "word=cat", 1, 1.0, ("N",), ("D",), 1.5, -0.5).contribution
    2.0
    """

    kind: str
    name: str
    position: int
    value: float
    labels: tuple[str, ...]
    other_labels: tuple[str, ...]
    weight: float
    other_weight: float

    @property
    def contribution(self) -> float:
        """The share of the term in the difference."""
        return self.value * (self.weight - self.other_weight)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "contribution": self.contribution}


@dataclass(frozen=True)
class Explanation:
    """The explanation of a position's label; see `explain`.

    position       the position
    start          the first position of its sequence
    label          its label in the best labelling
    other          its label in the best labelling with another label here; None if no other label is possible
    difference     score of the best labelling less that of the other one, the sum of all contributions; infinite if
                   no other label is possible
    terms          that are not zero in both labellings: first those of the position itself
    changed        the first and the last position at which the two labellings differ
    labels         of the best labelling there
    other_labels   of the other labelling there

    >>> import chainfold as cf
    >>> crf = cf.CRF().fit([[["word=the"], ["word=cat"]]], [["D", "N"]])
    >>> explanation = crf.explain([["word=the"], ["word=cat"]])[1]
    >>> explanation.label, explanation.other, [term.kind for term in explanation.terms]
    ('N', 'D', ['attribute', 'transition'])
    """

    position: int
    start: int
    label: str
    other: str | None
    difference: float
    terms: tuple[Term, ...]
    changed: tuple[int, int]
    labels: tuple[str, ...]
    other_labels: tuple[str, ...]

    def strongest(self, top: int | None = None) -> list[Term]:
        """The terms with the largest contributions, for or against the label, largest first."""
        return sorted(self.terms, key=lambda term: -abs(term.contribution))[:top]

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON has it; the difference is None where it is infinite."""
        terms = [term.to_json() for term in self.terms]
        return {**vars(self), "difference": _finite(self.difference), "terms": terms}


def explain(model: Model, source: Source, positions: Collection[int] | None = None) -> list[Explanation]:
    """Explain the labels of positions of a chain.

    For each position the best labelling of its sequence is compared with the best labelling that has another label
    there. The difference of their scores is the logarithm of the ratio of their probabilities. It is the sum of the
    contributions of attributes, transitions and edge attributes where the two labellings differ.

    model       a model
    source      a chain; its numbers may differ from the model's (`Model.aligned`)
    positions   those to explain, from 0; default: all

    Returns an `Explanation` for each of them, in order. A sequence is held in memory, with 24 bytes for each label
    and position. Raises `BadSetting` for a position that the chain does not have.

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(100, 3, 10, 2)
    >>> model = cf.Model(cf.Layout.full(3, 10), chain.true_weights())
    >>> explanation = cf.explain(model, chain, [7])[0]
    >>> abs(sum(term.contribution for term in explanation.terms) - explanation.difference) < 1e-12
    True
    """
    for position in positions or ():
        if not 0 <= position < source.positions:
            raise BadSetting("positions", position, f"from 0 to {source.positions - 1}")
    return list(explanations(model, blocks_of(model.aligned(source)), positions))


def explanations(
    model: Model, blocks: Iterable[Block], positions: Collection[int] | None = None
) -> Iterator[Explanation]:
    """The explanations of a chain that comes in blocks with the numbers of the model, a sequence at a time."""
    scorer, tagger = Scorer(model), Tagger(model)
    wanted = None if positions is None else np.unique(np.fromiter(positions, np.int64))
    for start, block in _sequences(blocks):
        if wanted is not None and (not wanted.size or wanted[-1] < start):
            return
        here = list(range(block.labels.size))
        if wanted is not None:
            here = [int(place) - start for place in wanted if start <= place < start + block.labels.size]
        if len(here):
            paths = _Paths(model, scorer, tagger, start, block)
            yield from (paths.explanation(t) for t in here)


def _sequences(blocks: Iterable[Block]) -> Iterator[tuple[int, Block]]:
    """The first position of each sequence, and the sequence."""
    start, parts = 0, list[Block]()
    for block in blocks:
        low = 0
        for begin in [*np.flatnonzero(block.starts).tolist(), block.labels.size]:
            if begin > low:
                parts.append(block.part(low, begin))
            if parts and begin < block.labels.size:
                sequence = join_blocks(parts)
                yield start, sequence
                start, parts = start + sequence.labels.size, []
            low = begin
    if parts:
        yield start, join_blocks(parts)


class _Paths:
    """The best paths through a sequence: over all, and through each label of each position."""

    def __init__(self, model: Model, scorer: Scorer, tagger: Tagger, start: int, block: Block) -> None:
        self._block, self._start, self._size = block, start, block.labels.size
        self._n = model.layout.n_labels
        self._terms = _Terms(model, start, block)
        self._best: list[int] = np.concatenate([part.labels for part in tagger.run([block])]).tolist()
        self._scorer = scorer
        self._before, self._from = self._forward()
        self._after, self._to = self._backward()

    def explanation(self, t: int) -> Explanation:
        """The explanation of position t of the sequence."""
        names, best = self._terms.labels, self._best
        through = self._before[t] + self._after[t]
        through[best[t]] = -np.inf
        label = int(np.argmax(through))
        if through[label] == -np.inf:
            at, named = self._start + t, names[best[t]]
            return Explanation(at, self._start, named, None, math.inf, (), (at, at), (named,), ())
        low, others = self._other(t, label)
        high = low + len(others)
        chosen = best[low:high]
        terms = self._terms.of(t, low, best[max(low - 1, 0) : high + 1], others)
        return Explanation(
            position=self._start + t,
            start=self._start,
            label=names[best[t]],
            other=names[label],
            difference=math.fsum(term.contribution for term in terms),
            terms=tuple(terms),
            changed=(self._start + low, self._start + high - 1),
            labels=tuple(names[j] for j in chosen),
            other_labels=tuple(names[j] for j in others),
        )

    def _other(self, t: int, label: int) -> tuple[int, list[int]]:
        """Where the best path through a label leaves the best of all, and its labels up to where they meet again."""
        low, labels = t, [label]
        while low > 0 and (before := int(self._from[low, labels[0]])) != self._best[low - 1]:
            low, labels = low - 1, [before, *labels]
        high = t
        while high + 1 < self._size and (after := int(self._to[high, labels[-1]])) != self._best[high + 1]:
            high += 1
            labels.append(after)
        return low, labels

    def _forward(self) -> tuple[Floats, NDArray[np.int32]]:
        """δ [T, N], and the label before on the path to each label."""
        best, previous = np.empty((self._size, self._n)), np.zeros((self._size, self._n), np.int32)
        delta = np.zeros(self._n)
        for low, scored in self._pieces(reverse=False):
            for k, (states, edges) in enumerate(self._scores(scored)):
                t = low + k
                if t > 0:
                    paths = delta[:, None] + edges
                    previous[t] = paths.argmax(axis=0)
                    delta = paths.max(axis=0)
                delta = delta + states
                best[t] = delta = delta - delta.max()
        return best, previous

    def _backward(self) -> tuple[Floats, NDArray[np.int32]]:
        """ρ [T, N], and the label after on the path from each label."""
        best, following = np.zeros((self._size, self._n)), np.zeros((self._size, self._n), np.int32)
        for low, scored in self._pieces(reverse=True):
            for k, (states, edges) in reversed(list(enumerate(self._scores(scored)))):
                t = low + k
                if t > 0:
                    paths = edges + (states + best[t])
                    following[t - 1] = paths.argmax(axis=1)
                    rest = paths.max(axis=1)
                    best[t - 1] = rest - rest.max()
        return best, following

    def _pieces(self, reverse: bool) -> Iterator[tuple[int, Scored]]:
        ranges = list(Ranges(0, self._size, _PIECE))
        for low, high in reversed(ranges) if reverse else ranges:
            yield low, self._scorer.score(self._start + low, self._block.part(low, high), high == self._size)

    def _scores(self, scored: Scored) -> Iterator[tuple[Floats, Floats]]:
        """State scores [N] and edge scores [N, N] of each position."""
        n = self._n
        for k in range(scored.starts.size):
            edges = scored.edges[k if scored.own else 0].reshape(n, -1)[:, :n]
            yield scored.states[k, :n], edges


class _Terms:
    """The terms by which two labellings of a sequence differ."""

    def __init__(self, model: Model, start: int, block: Block) -> None:
        layout = model.layout
        self.labels = label_names(model.vocabulary, layout.n_labels)
        self._model, self._start, self._block = model, start, block
        pairs = model.weights[layout.n_state :].reshape(-1, layout.n_labels, layout.n_labels)
        self._transitions, self._edges = pairs[0], pairs[1:]

    def of(self, t: int, low: int, around: list[int], others: list[int]) -> list[Term]:
        """The terms where labels differ, those of position t first.

        around: the best labels of these positions, and of the neighbours that the sequence has; others: the labels of
        the other path from position `low` on.
        """
        first = max(low - 1, 0)
        best = dict(enumerate(around, first))
        other = best | dict(enumerate(others, low))
        terms: list[Term] = []
        for s in [t, *(s for s in range(low, low + len(others)) if s != t)]:
            terms += self._attributes(s, best[s], other[s])
            for after in (s, s + 1) if s == t else (s + 1,) if s > t else (s,):  # each transition once
                if first < after and after in best:
                    labels = best[after - 1], best[after]
                    terms += self._into(after, labels, (other[after - 1], other[after]))
        return terms

    def _attributes(self, s: int, label: int, other: int) -> Iterator[Term]:
        block, layout, weights = self._block, self._model.layout, self._model.weights
        low, high = int(block.offsets[s]), int(block.offsets[s + 1])
        ids, values = block.ids[low:high], _values(block.values, low, high)
        vocabulary = self._model.vocabulary
        names = names_of(None if vocabulary is None else vocabulary.attributes, ids, "attribute")
        for attribute, value, name in zip(ids.tolist(), values, names, strict=True):
            own, its = layout.index(attribute, label), layout.index(attribute, other)
            pair = tuple(0.0 if place is None else float(weights[place]) for place in (own, its))
            if value and any(pair):
                yield self._term(ATTRIBUTE, name, s, value, ((label,), (other,)), pair)

    def _into(self, s: int, labels: tuple[int, int], others: tuple[int, int]) -> Iterator[Term]:
        """The transition to position s, and its edge attributes."""
        block = self._block
        pair = float(self._transitions[labels]), float(self._transitions[others])
        yield self._term(TRANSITION, "", s, 1.0, (labels, others), pair)
        if not block.edge_offsets.size:
            return
        low, high = int(block.edge_offsets[s]), int(block.edge_offsets[s + 1])
        ids, values = block.edge_ids[low:high], _values(block.edge_values, low, high)
        vocabulary = self._model.vocabulary
        names = names_of(None if vocabulary is None else vocabulary.edge_attributes, ids, "edge attribute")
        for attribute, value, name in zip(ids.tolist(), values, names, strict=True):
            pair = float(self._edges[(attribute, *labels)]), float(self._edges[(attribute, *others)])
            if value and any(pair):
                yield self._term(EDGE_ATTRIBUTE, name, s, value, (labels, others), pair)

    def _term(self, kind: str, name: str, s: int, value: float, labels: Any, weights: Any) -> Term:
        own, other = (tuple(self.labels[j] for j in side) for side in labels)
        return Term(kind, name, self._start + s, value, own, other, *weights)


def _values(values: Floats, low: int, high: int) -> list[float]:
    return values[low:high].tolist() if values.size else [1.0] * (high - low)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
