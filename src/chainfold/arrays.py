"""Chains on arrays: labels, probabilities and gradients of scores from elsewhere, such as an encoder's logits.

Scores are one sequence [T, N], or a batch [B, T, N] with `lengths` where its sequences are shorter, in float32 or
float64; the label pair (i, j) has the score transitions[i, j]. Results are exact at any length, computed in doubles.

    viterbi          the best labels, or the k best
    marginals        the probability of each label at each position
    log_partition    log Z
    log_likelihood   of given labels, with its gradients
    sample           labels drawn from their distribution
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chainfold.chain.block import MOST_LABELS, NO_LABEL
from chainfold.engines.emissions import (
    EmissionBatch,
    EmissionGradient,
    Numbers,
    Rows,
    Threads,
    add_gradients,
    log_partitions,
    tag_scores,
)
from chainfold.errors import BadSetting, ChainfoldError, ScoreNotFinite, ZeroProbability
from chainfold.inference import emission_paths
from chainfold.model.constraints import Constraints
from chainfold.model.layout import Floats

Result = TypeVar("Result")
Array = TypeVar("Array", NDArray[np.int64], Floats)

__all__ = ["ArrayLikelihood", "BestLabels", "log_likelihood", "log_partition", "marginals", "sample", "viterbi"]


class BestLabels(NamedTuple):
    """Best labellings and their scores.

    labels   [T], for k > 1 [k, T], best first; of a batch [B, T] or [B, k, T], with -1 after the end of a sequence
    scores   the score of each labelling; -inf where a sequence has fewer than k
    """

    labels: NDArray[np.int64]
    scores: Floats


class ArrayLikelihood(NamedTuple):
    """Log likelihoods, and the gradient of their sum.

    log_likelihood   of one sequence, or [B]
    scores           gradient by the scores, in their shape: observed labels minus their probabilities
    transitions      gradient by the transitions [N, N]
    start, end       gradient by the start and end scores [N]
    """

    log_likelihood: Floats
    scores: Numbers
    transitions: Floats
    start: Floats
    end: Floats


def viterbi(
    scores: ArrayLike,
    transitions: ArrayLike,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    constraints: Constraints | None = None,
    k: int = 1,
) -> BestLabels:
    """Best labels of sequences, of several equal ones those that are smaller from the end on.

    scores        [T, N] or [B, T, N]; -inf forbids a label
    transitions   [N, N]; -inf forbids a transition
    start, end    [N] scores of the first and the last label; 0 unless given
    lengths       [B] positions of each sequence; all of them unless given
    constraints   transitions, first and last labels that are allowed
    k             labellings of each sequence

    >>> import numpy as np
    >>> labels, score = viterbi(np.array([[1.0, 0.0], [0.0, 0.4], [1.0, 0.0]]), [[0.5, 0.0], [0.0, 0.5]])
    >>> labels.tolist(), float(score)
    ([0, 0, 0], 3.0)
    """
    table = _Table(scores, lengths)
    k, batch = _at_least("k", k, 1), table.batch(transitions, start, end, constraints)
    if k == 1:
        labels, best = table.named(emission_paths.best, batch)
        return BestLabels(table.spread(labels, NO_LABEL), table.of_sequences(table.finite(best)))
    found = table.named(emission_paths.ranked, batch, k)
    paths = np.full((k, batch.positions), NO_LABEL, np.int64)
    ranked = np.full((len(found), k), -np.inf)
    for s, (own, values) in enumerate(found):
        low, high = batch.layout.offsets[s : s + 2]
        paths[: len(own), low:high] = own
        ranked[s, : values.size] = values
    every = [table.spread(path, NO_LABEL) for path in paths]
    return BestLabels(np.stack(every, axis=-2), table.of_sequences(table.finite(ranked)))


def marginals(
    scores: ArrayLike,
    transitions: ArrayLike,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    constraints: Constraints | None = None,
) -> Floats:
    """Probability of each label at each position, in the shape of the scores; 0 after the end of a sequence.

    Arguments as for `viterbi`.

    >>> import numpy as np
    >>> marginals(np.zeros((2, 2)), np.zeros((2, 2))).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    table = _Table(scores, lengths)
    batch = table.batch(transitions, start, end, constraints)
    if not batch.positions:
        return np.zeros(table.shape)
    return table.spread(table.named(emission_paths.marginals, batch), 0.0)


def log_partition(
    scores: ArrayLike,
    transitions: ArrayLike,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    constraints: Constraints | None = None,
) -> Floats:
    """log Z of each sequence: the logarithm of the sum of exp(score) over all labellings; -inf where there is none.

    Arguments as for `viterbi`. Returns a number, or [B].

    >>> import numpy as np
    >>> bool(abs(log_partition(np.zeros((3, 2)), np.zeros((2, 2))) - np.log(8.0)) < 1e-14)
    True
    """
    table = _Table(scores, lengths)
    batch = table.batch(transitions, start, end, constraints)
    return table.of_sequences(table.finite(log_partitions(batch, np.empty((batch.positions, batch.width)))))


def log_likelihood(
    scores: ArrayLike,
    labels: ArrayLike,
    transitions: ArrayLike,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    constraints: Constraints | None = None,
) -> ArrayLikelihood:
    """Log likelihood of the labels of each sequence, with its gradients.

    labels: [T] or [B, T]; -1 where a label is unknown, and the likelihood is that of the known ones. Other arguments as
    for `viterbi`. Labels that are forbidden have -inf; where no labelling is possible, likelihood and gradient are NaN.

    >>> import numpy as np
    >>> result = log_likelihood(np.zeros((2, 2)), [0, 1], np.zeros((2, 2)))
    >>> bool(abs(result.log_likelihood - np.log(0.25)) < 1e-14), result.scores.tolist()
    (True, [[0.5, -0.5], [-0.5, 0.5]])
    """
    table = _Table(scores, lengths)
    batch = table.batch(transitions, start, end, constraints)
    given = table.labels(labels)
    own = given[batch.layout.rows]
    alpha, total = np.empty((batch.positions, batch.width)), EmissionGradient.of(batch)
    log_z, ones = table.finite(log_partitions(batch, alpha)), np.ones(batch.layout.lengths.size)
    if (own >= 0).all():
        score = table.finite(tag_scores(batch, given))
        add_gradients(batch, alpha, -ones, total, given)
    else:
        allowed = np.arange(batch.n_labels) == given[:, None]
        allowed[given < 0] = True
        known, again = table.batch(transitions, start, end, constraints, allowed), np.empty_like(alpha)
        score = table.finite(log_partitions(known, again))
        add_gradients(batch, alpha, -ones, total)
        add_gradients(known, again, ones, total)
    n = batch.n_labels
    with np.errstate(invalid="ignore", over="ignore"):  # no labelling at all; the labels' share is below all numbers
        likelihood = table.of_sequences(score - log_z)
    gradient: Numbers = total.emissions.reshape(table.shape)
    return ArrayLikelihood(likelihood, gradient, total.pairs[:, :n].copy(), total.ends[0, :n], total.ends[1, :n])


def sample(
    scores: ArrayLike,
    transitions: ArrayLike,
    start: ArrayLike | None = None,
    end: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    constraints: Constraints | None = None,
    k: int = 1,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Labellings drawn from their distribution, the same for the same seed: [k, T] or [B, k, T].

    Arguments as for `viterbi`; -1 after the end of a sequence.

    >>> import numpy as np
    >>> sample(np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.zeros((2, 2)), k=3).tolist()
    [[0, 1], [0, 1], [0, 1]]
    """
    table = _Table(scores, lengths)
    k, batch = _at_least("k", k, 1), table.batch(transitions, start, end, constraints)
    uniforms = np.random.default_rng(_at_least("seed", seed, 0)).random((batch.positions, k))
    drawn = table.named(emission_paths.drawn, batch, uniforms) if batch.positions else np.empty((0, k), np.int32)
    return np.stack([table.spread(path.astype(np.int64), NO_LABEL) for path in drawn.T], axis=-2)


class _Table:
    """Scores of one sequence or of a batch, checked."""

    def __init__(self, scores: ArrayLike, lengths: ArrayLike | None) -> None:
        array = _numbers("scores", scores)
        array = np.ascontiguousarray(array, np.float32 if array.dtype == np.float32 else np.float64)
        if array.ndim not in (2, 3):
            raise BadSetting("the shape of scores", list(array.shape), "[T, N], or [B, T, N] for a batch")
        if not 1 <= array.shape[-1] <= MOST_LABELS:
            raise BadSetting("N, the last size of scores", array.shape[-1], f"from 1 to {MOST_LABELS}")
        self.shape, self.single, n = array.shape, array.ndim == 2, array.shape[-1]
        self._rows: Numbers = array.reshape(-1, n)
        sequences, length = (1, array.shape[0]) if self.single else array.shape[:2]
        if lengths is None:
            self._layout = Rows.of_table(sequences, length, n)
        else:
            own = _whole_numbers("lengths", lengths, (sequences,))
            wrong = np.flatnonzero((own < 0) | (own > length))
            if wrong.size:
                s = int(wrong[0])
                raise BadSetting(f"the length of sequence {s}", int(own[s]), f"from 0 to {length}, its positions")
            self._layout = Rows.of_mask(np.arange(length) < own[:, None], n)

    def batch(
        self,
        transitions: ArrayLike,
        start: ArrayLike | None,
        end: ArrayLike | None,
        constraints: Constraints | None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> EmissionBatch:
        n = self.shape[-1]
        moves = _doubles("transitions", transitions, (n, n))
        first, last = (
            _doubles(name, np.zeros(n) if given is None else given, (n,))
            for name, given in (("start", start), ("end", end))
        )
        if constraints is not None:
            if not isinstance(constraints, Constraints):
                raise BadSetting("constraints", constraints, "made by `Constraints.of(labels, scheme)`")
            if constraints.first.size != n:
                raise ChainfoldError(f"constraints are on {constraints.first.size} labels, but scores have {n}.")
            moves = np.where(constraints.allowed, moves, -np.inf)
            first, last = np.where(constraints.first, first, -np.inf), np.where(constraints.last, last, -np.inf)
        return EmissionBatch(self._rows, moves, first, last, self._layout, allowed, threads=Threads())

    def labels(self, labels: ArrayLike) -> NDArray[np.int64]:
        """[R] given labels, -1 where unknown."""
        given = _whole_numbers("labels", labels, self.shape[:-1]).reshape(-1)
        own = given[self._layout.rows]
        wrong = np.flatnonzero((own < NO_LABEL) | (own >= self.shape[-1]))
        if wrong.size:
            place, label = self._place(int(wrong[0])), int(own[wrong[0]])
            most = self.shape[-1] - 1
            raise ChainfoldError(f"the label at {place} is {label}, but labels go from 0 to {most} (-1: unknown).")
        return given

    def spread(self, values: Array, fill: float) -> Array:
        """[P, …] in the shape of the scores' positions."""
        out = np.full_like(values, fill, shape=(self._rows.shape[0], *values.shape[1:]))
        out[self._layout.rows] = values
        return out.reshape(*self.shape[:-1], *values.shape[1:])

    def of_sequences(self, values: Floats) -> Floats:
        """[S, …], or that of the only sequence."""
        return np.asarray(values[0]) if self.single else values

    def finite(self, values: Floats) -> Floats:
        """[S, …] values of sequences, all of which have to be numbers, or -inf."""
        wrong = np.argwhere(np.isnan(values))
        if wrong.size:
            raise self._not_finite(int(wrong[0, 0]))
        return values

    def named(self, find: Callable[..., Result], batch: EmissionBatch, *arguments: Any) -> Result:
        """The result of a search; a position that has none is named."""
        try:
            return find(batch, *arguments)
        except ScoreNotFinite as error:
            offsets = self._layout.offsets
            raise self._not_finite(int(np.searchsorted(offsets, error.position, side="right")) - 1) from error
        except ZeroProbability as error:
            place = self._place(error.position)
            raise ChainfoldError(
                f"no labelling is possible: constraints or scores of -inf forbid every label at {place}."
            ) from error

    def _not_finite(self, s: int) -> ChainfoldError:
        """Why a sequence has a score that is no number."""
        low, high = self._layout.offsets[s : s + 2]
        wrong = np.flatnonzero(~(self._rows[self._layout.rows[low:high]] < np.inf).all(axis=1))
        if wrong.size:
            return ChainfoldError(
                f"a score at {self._place(int(low + wrong[0]))} is NaN or +inf; scores are numbers, or -inf to forbid "
                f"a label."
            )
        name = "the sequence" if self.single else f"sequence {s}"
        return ChainfoldError(f"the scores of {name} add up to more than a double can hold; scale them down.")

    def _place(self, position: int) -> str:
        row = int(self._layout.rows[position])
        return f"position {row}" if self.single else "sequence {}, position {}".format(*divmod(row, self.shape[1]))


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ChainfoldError(f"{name} cannot be an array: its rows differ in length.") from None
    if array.dtype.kind not in "fiub":
        raise BadSetting("the type of " + name, str(array.dtype), "one of numbers")
    return array


def _doubles(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Scores of this shape, none of which is NaN or +inf."""
    given = _numbers(name, values)
    if given.shape != shape:
        raise BadSetting(f"the shape of {name}", list(given.shape), f"{list(shape)}")
    array = np.ascontiguousarray(given, np.float64)
    if not (array < np.inf).all():
        raise ChainfoldError(f"a score in {name} is NaN or +inf; scores are numbers, or -inf to forbid a label.")
    return array


def _whole_numbers(name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.int64]:
    array = _numbers(name, values)
    if array.dtype.kind not in "iu" and array.size:
        raise BadSetting("the type of " + name, str(array.dtype), "one of whole numbers")
    if array.shape != shape:
        raise BadSetting(f"the shape of {name}", list(array.shape), f"{list(shape)}")
    return np.ascontiguousarray(array, np.int64)


def _at_least(name: str, value: int, least: int) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise BadSetting(name, value, f"a whole number, at least {least}")
    return int(value)
