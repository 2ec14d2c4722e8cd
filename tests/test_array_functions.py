"""`chainfold.arrays` beside the enumeration of all labellings, finite differences, and at length."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import chainfold as cf
from batch_oracle import Batch, enumerate_batch
from chainfold import arrays as functions
from chainfold.errors import ChainfoldError
from tolerances import AT_LENGTH, DIFFERENCES, ORACLE

pytestmark = pytest.mark.quick

arrays: Any = functions  # called with tuples of arguments
ALL: dict[str, Any] = {
    "viterbi": arrays.viterbi,
    "nbest": lambda *given, **more: arrays.viterbi(*given, k=3, **more),
    "marginals": arrays.marginals,
    "log_partition": arrays.log_partition,
    "log_likelihood": lambda scores, *given, **more: arrays.log_likelihood(
        scores, np.zeros(np.shape(scores)[:-1], int), *given, **more
    ),
    "sample": arrays.sample,
}
EVERY = pytest.mark.parametrize("name", ALL)
LENGTHS = np.array([4, 0, 1, 3, 2])
UNKNOWN = -100  # of the oracle


def scores_of(n: int, seed: int, forbidden: float = 0.0, dtype: Any = np.float64) -> tuple[NDArray[Any], Any]:
    """Scores of a batch, and the transitions with the scores of first and last labels; label 0 is never forbidden."""
    random = np.random.default_rng(seed)
    shapes = (LENGTHS.size, LENGTHS.max(), n), (n, n), (n,), (n,)
    scores, *others = (2.0 * random.normal(size=shape) for shape in shapes)
    for array in (scores, *others):
        array[random.random(array.shape) < forbidden] = -np.inf
        array[..., 0] = np.where(array[..., 0] > -np.inf, array[..., 0], 0.5)
    return scores.astype(dtype), tuple(others)


def labels_of(n: int, seed: int, unknown: float = 0.0) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    labels = random.integers(n, size=(LENGTHS.size, LENGTHS.max()))
    labels[random.random(labels.shape) < unknown] = -1
    return labels


def oracle(scores: NDArray[Any], others: Any, labels: NDArray[np.int64] | None = None) -> Any:
    mask = np.arange(scores.shape[1]) < LENGTHS[:, None]
    tags = np.zeros(mask.shape, np.int64) if labels is None else np.where(labels < 0, UNKNOWN, labels)
    transitions, start, end = others
    return enumerate_batch(Batch(scores.astype(np.float64), transitions, start, end, mask, tags))


CASES = pytest.mark.parametrize("forbidden", [0.0, 0.3])
SIZES = pytest.mark.parametrize("n", [1, 2, 3, 4, 5])


@CASES
@SIZES
def test_all_labellings_agree(n: int, forbidden: float) -> None:
    scores, others = scores_of(n, n, forbidden)
    labels = labels_of(n, n)
    truth = oracle(scores, others, labels)
    given = (*others, LENGTHS)

    found = arrays.viterbi(scores, *given)
    ends = np.arange(LENGTHS.max()) >= LENGTHS[:, None]
    for s, length in enumerate(LENGTHS):
        assert found.labels[s, :length].tolist() == truth.best[s]
    assert (found.labels[ends] == -1).all()
    np.testing.assert_allclose(found.scores, [scores[0] if scores else 0.0 for scores in truth.scores], rtol=ORACLE)

    np.testing.assert_allclose(arrays.marginals(scores, *given), truth.marginals, rtol=ORACLE, atol=ORACLE)
    np.testing.assert_allclose(arrays.log_partition(scores, *given), truth.log_z, rtol=ORACLE, atol=ORACLE)
    result = arrays.log_likelihood(scores, labels, *given)
    np.testing.assert_allclose(result.log_likelihood, truth.log_likelihood, rtol=ORACLE, atol=ORACLE)
    expected = np.where(ends[..., None], 0.0, (np.arange(n) == labels[..., None]) - truth.marginals)
    np.testing.assert_allclose(result.scores, expected, rtol=ORACLE, atol=ORACLE)


@CASES
@SIZES
def test_the_k_best_are_those_of_the_enumeration_in_order(n: int, forbidden: float) -> None:
    k = 7
    scores, others = scores_of(n, 10 + n, forbidden)
    truth, found = oracle(scores, others), arrays.viterbi(scores, *others, LENGTHS, k=k)
    assert found.labels.shape == (LENGTHS.size, k, LENGTHS.max())
    for s, length in enumerate(LENGTHS):
        there = truth.scores[s][:k]
        np.testing.assert_allclose(found.scores[s], there + [-np.inf] * (k - len(there)), rtol=ORACLE, atol=ORACLE)
        paths = found.labels[s, : len(there)]
        assert len({tuple(path) for path in paths.tolist()}) == len(there)
        assert (found.labels[s, len(there) :] == -1).all()
        for path, score in zip(paths[:, :length], there, strict=True):
            assert score_of(scores[s, :length], path, others) == pytest.approx(score, rel=ORACLE)


def score_of(scores: NDArray[Any], path: NDArray[Any], others: Any) -> float:
    if not path.size:
        return 0.0
    transitions, start, end = others
    moves = transitions[path[:-1], path[1:]].sum()
    return float(scores[np.arange(path.size), path].sum() + moves + start[path[0]] + end[path[-1]])


def test_equal_labellings_are_told_apart_from_the_end_on() -> None:
    assert arrays.viterbi(np.zeros((3, 2)), np.zeros((2, 2))).labels.tolist() == [0, 0, 0]
    ranked = arrays.viterbi(np.zeros((2, 2)), np.zeros((2, 2)), k=4)
    assert ranked.labels.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]


@pytest.mark.parametrize("first", [0, -1])
@pytest.mark.parametrize("n", [2, 5])
def test_a_sequence_has_the_bits_that_it_has_in_a_batch(n: int, first: int) -> None:
    scores, others = scores_of(n, 20 + n)
    labels, given = labels_of(n, 1), (*others, LENGTHS)
    labels[:, 0] = first  # known in all sequences, or in none
    for s, length in enumerate(LENGTHS):
        alone = scores[s, :length]
        whole = arrays.log_likelihood(scores, labels, *given)
        single = arrays.log_likelihood(alone, labels[s, :length], *others)
        assert single.log_likelihood.shape == ()
        assert single.log_likelihood == whole.log_likelihood[s]
        np.testing.assert_array_equal(single.scores, whole.scores[s, :length])
        np.testing.assert_array_equal(arrays.marginals(alone, *others), arrays.marginals(scores, *given)[s, :length])
        assert arrays.log_partition(alone, *others) == arrays.log_partition(scores, *given)[s]
        for k in (1, 3):
            best, batch = arrays.viterbi(alone, *others, k=k), arrays.viterbi(scores, *given, k=k)
            np.testing.assert_array_equal(best.labels, batch.labels[s, ..., :length])
            np.testing.assert_array_equal(best.scores, batch.scores[s])


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_constraints_forbid_what_minus_infinity_forbids(scheme: str) -> None:
    names = {"BIO": ["O", "B-X", "I-X"], "BIOES": ["O", "B-X", "I-X", "E-X", "S-X"]}[scheme]
    constraints, n = cf.Constraints.of(names, scheme), len(names)
    scores, (transitions, start, end) = scores_of(n, 30 + n)
    masks = (constraints.allowed, transitions), (constraints.first, start), (constraints.last, end)
    others: Any = tuple(np.where(mask, array, -np.inf) for mask, array in masks)
    truth = oracle(scores, others)
    given = (scores, transitions, start, end, LENGTHS, constraints)
    np.testing.assert_allclose(arrays.log_partition(*given), truth.log_z, rtol=ORACLE, atol=ORACLE)
    np.testing.assert_allclose(arrays.marginals(*given), truth.marginals, rtol=ORACLE, atol=ORACLE)
    for s, length in enumerate(LENGTHS):
        assert arrays.viterbi(*given).labels[s, :length].tolist() == truth.best[s]
        for path in arrays.sample(*given, k=20)[s, :, :length]:
            assert np.isfinite(score_of(scores[s, :length], path, others))
    forbidden = arrays.log_likelihood(scores[0], [2, 1, 1, 0], transitions, constraints=constraints)
    assert forbidden.log_likelihood == -np.inf


@CASES
@SIZES
def test_unknown_labels_are_summed_over(n: int, forbidden: float) -> None:
    scores, others = scores_of(n, 40 + n, forbidden)
    labels = np.where(labels_of(n, 2, 0.5) >= 0, 0, -1)
    found = arrays.log_likelihood(scores, labels, *others, LENGTHS).log_likelihood
    np.testing.assert_allclose(found, oracle(scores, others, labels).log_likelihood, rtol=ORACLE, atol=ORACLE)
    nothing = arrays.log_likelihood(scores, np.full_like(labels, -1), *others, LENGTHS)
    np.testing.assert_allclose(nothing.log_likelihood, 0.0, atol=ORACLE)
    np.testing.assert_allclose(nothing.scores, 0.0, atol=ORACLE)


@pytest.mark.parametrize("unknown", [0.0, 0.4])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_gradients_are_those_of_finite_differences(n: int, unknown: float) -> None:
    scores, others = scores_of(n, 50 + n)
    inputs, labels, step = [scores, *others], labels_of(n, 3, unknown), 1e-5

    def total() -> float:
        return float(arrays.log_likelihood(inputs[0], labels, *inputs[1:], LENGTHS).log_likelihood.sum())

    result = arrays.log_likelihood(scores, labels, *others, LENGTHS)
    for array, gradient in zip(inputs, result[1:], strict=True):
        assert gradient.shape == array.shape
        differences = np.empty_like(array)
        for place in np.ndindex(array.shape):
            before = array[place]
            array[place] = before + step
            above = total()
            array[place] = before - step
            differences[place] = (above - total()) / (2.0 * step)
            array[place] = before
        np.testing.assert_allclose(gradient, differences, rtol=DIFFERENCES, atol=DIFFERENCES)


def test_float32_is_computed_in_doubles() -> None:
    scores, others = scores_of(4, 60, dtype=np.float32)
    labels, wide = labels_of(4, 4), scores.astype(np.float64)
    narrow, exact = (arrays.log_likelihood(given, labels, *others, LENGTHS) for given in (scores, wide))
    assert narrow.scores.dtype == np.float32
    assert exact.scores.dtype == np.float64
    np.testing.assert_array_equal(narrow.log_likelihood, exact.log_likelihood)
    np.testing.assert_array_equal(narrow.transitions, exact.transitions)
    np.testing.assert_allclose(narrow.scores, exact.scores, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(arrays.marginals(scores, *others), arrays.marginals(wide, *others))
    np.testing.assert_array_equal(arrays.viterbi(scores, *others).labels, arrays.viterbi(wide, *others).labels)


def test_whole_numbers_and_lists_are_scores_too() -> None:
    assert arrays.viterbi([[0, 2], [1, 0]], [[0, 0], [0, 0]]).labels.tolist() == [1, 0]


def test_labels_are_drawn_from_their_distribution() -> None:
    k = 40_000
    scores, others = scores_of(3, 70)
    drawn = arrays.sample(scores, *others, LENGTHS, k=k, seed=1)
    assert drawn.shape == (LENGTHS.size, k, LENGTHS.max())
    for s, length in enumerate(LENGTHS):
        counts = Counter(map(tuple, drawn[s, :, :length].tolist()))
        log_z = arrays.log_partition(scores[s, :length], *others)
        for path, count in counts.items():
            chance = np.exp(score_of(scores[s, :length], np.array(path, int), others) - log_z)
            assert abs(count / k - chance) < 5.0 * np.sqrt(chance / k)
        assert (drawn[s, :, length:] == -1).all()
    np.testing.assert_array_equal(drawn, arrays.sample(scores, *others, LENGTHS, k=k, seed=1))
    assert (drawn != arrays.sample(scores, *others, LENGTHS, k=k, seed=2)).any()


def test_one_long_sequence() -> None:
    length, n = 200_000, 5
    random = np.random.default_rng(80)
    scores, transitions = random.normal(size=(length, n)), random.normal(size=(n, n))
    labels, score = arrays.viterbi(scores, transitions)
    log_z = arrays.log_partition(scores, transitions)
    result, marginals = arrays.log_likelihood(scores, labels, transitions), arrays.marginals(scores, transitions)
    assert result.log_likelihood <= 0.0
    assert result.log_likelihood == pytest.approx(score - log_z, rel=AT_LENGTH)
    assert score_of(scores, labels, (transitions, np.zeros(n), np.zeros(n))) == pytest.approx(score, rel=AT_LENGTH)
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=AT_LENGTH)
    np.testing.assert_allclose(result.scores, (np.arange(n) == labels[:, None]) - marginals, atol=AT_LENGTH)
    assert result.transitions.sum() == pytest.approx(0.0, abs=length * AT_LENGTH)
    halves = np.stack([scores[: length // 2], scores[length // 2 :]])  # as two sequences
    assert arrays.log_partition(halves, transitions).sum() < log_z + np.abs(transitions).max()
    drawn = arrays.sample(scores, transitions, k=2)
    shares = np.array([(drawn == label).mean() for label in range(n)])
    np.testing.assert_allclose(shares, marginals.mean(axis=0), atol=0.01)


def test_one_label() -> None:
    scores = np.array([[1.0], [2.0], [-4.0]])
    assert arrays.viterbi(scores, [[0.5]], [1.0], [2.0]).scores == 3.0
    assert arrays.log_partition(scores, [[0.5]], [1.0], [2.0]) == 3.0
    assert arrays.marginals(scores, [[0.5]]).tolist() == [[1.0]] * 3
    assert arrays.log_likelihood(scores, [0, 0, 0], [[0.5]]).log_likelihood == 0.0
    assert arrays.viterbi(scores, [[0.5]], k=3).scores.tolist() == [0.0, -np.inf, -np.inf]


def test_a_thousand_labels() -> None:
    length, n = 6, 1000
    random = np.random.default_rng(90)
    scores, transitions = random.normal(size=(length, n)), random.normal(size=(n, n))
    best, forward = scores[0], scores[0]
    for row in scores[1:]:
        best = (best[:, None] + transitions).max(axis=0) + row
        forward = np.logaddexp.reduce(forward[:, None] + transitions, axis=0) + row
    labels, score = arrays.viterbi(scores, transitions)
    log_z, none = np.logaddexp.reduce(forward), np.zeros(n)
    assert score == pytest.approx(best.max(), rel=ORACLE)
    assert score_of(scores, labels, (transitions, none, none)) == pytest.approx(best.max(), rel=ORACLE)
    assert arrays.log_partition(scores, transitions) == pytest.approx(log_z, rel=ORACLE)
    marginals = arrays.marginals(scores, transitions)
    np.testing.assert_allclose(marginals[-1], np.exp(forward - log_z), rtol=ORACLE, atol=ORACLE)
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=ORACLE)
    result = arrays.log_likelihood(scores, labels, transitions)
    assert result.log_likelihood == pytest.approx(score - log_z, rel=ORACLE)
    np.testing.assert_allclose(result.transitions.sum(), 0.0, atol=ORACLE)


def test_arrays_are_not_changed() -> None:
    scores, others = scores_of(3, 95)
    before = [array.copy() for array in (scores, *others)]
    for function in ALL.values():
        function(scores, *others, LENGTHS)
    for array, kept in zip((scores, *others), before, strict=True):
        np.testing.assert_array_equal(array, kept)


@EVERY
def test_empty_input_has_empty_results(name: str) -> None:
    for shape in ((0, 3), (0, 4, 3), (2, 0, 3)):
        ALL[name](np.zeros(shape), np.zeros((3, 3)))
    ALL[name](np.zeros((2, 4, 3)), np.zeros((3, 3)), lengths=[0, 0])
    assert arrays.log_partition(np.zeros((0, 3)), np.zeros((3, 3))) == 0.0


@EVERY
def test_what_is_after_the_end_of_a_sequence_is_never_read(name: str) -> None:
    scores = np.zeros((2, 3, 2))
    scores[0, 2], scores[1, 1:] = np.nan, np.inf
    labels = np.array([[0, 1, 99], [1, -7, 99]])
    ALL[name](scores, np.zeros((2, 2)), lengths=[2, 1])
    assert np.isfinite(arrays.log_likelihood(scores, labels, np.zeros((2, 2)), lengths=[2, 1]).log_likelihood).all()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "scores of one axis": ({"scores": [1.0, 2.0]}, r"^the shape of scores is \[2\], but must be \[T, N\], or \[B, T,"),
    "no labels": ({"scores": np.zeros((3, 0))}, "^N, the last size of scores is 0, but must be from 1 to 65535"),
    "texts": ({"scores": [["a", "b"]]}, "^the type of scores is '<U1', but must be one of numbers"),
    "rows of two lengths": ({"scores": [[1.0], [1.0, 2.0]]}, "^scores cannot be an array: its rows differ in length"),
    "transitions": ({"transitions": np.zeros((2, 3))}, r"^the shape of transitions is \[2, 3\], but must be \[2, 2\]"),
    "start": ({"start": np.zeros(3)}, r"^the shape of start is \[3\], but must be \[2\]"),
    "end": ({"end": 0.0}, r"^the shape of end is \[\], but must be \[2\]"),
    "no number": ({"scores": [[0, 0], [0, np.nan]]}, r"^a score at position 1 is NaN or \+inf; scores are numbers, or"),
    "infinite": ({"scores": [[np.inf, 0], [0, 0]]}, r"^a score at position 0 is NaN or \+inf; scores are numbers, or"),
    "no number in a batch": (
        {"scores": [[[0, 0], [0, 0]], [[0, 0], [0, np.nan]]]},
        r"^a score at sequence 1, position 1 is NaN or \+inf",
    ),
    "no number in transitions": ({"transitions": [[0, np.nan], [0, 0]]}, r"^a score in transitions is NaN or \+inf"),
    "no number in end": ({"end": [0.0, np.inf]}, r"^a score in end is NaN or \+inf; scores are numbers, or -inf"),
    "beyond a double": ({"scores": np.full((2, 2), 1e308)}, "^the scores of the sequence add up to more than a double"),
    "too long": ({"lengths": [3]}, "^the length of sequence 0 is 3, but must be from 0 to 2, its positions"),
    "negative length": (
        {"scores": np.zeros((2, 2, 2)), "lengths": [1, -1]},
        "^the length of sequence 1 is -1, but must be from 0 to 2, its positions",
    ),
    "lengths of others": ({"lengths": [1, 1]}, r"^the shape of lengths is \[2\], but must be \[1\]"),
    "broken lengths": ({"lengths": [1.5]}, "^the type of lengths is 'float64', but must be one of whole numbers"),
    "a scheme": ({"constraints": "BIO"}, "^constraints is 'BIO', but must be made by `Constraints.of"),
    "constraints on other labels": (
        {"constraints": cf.Constraints.of(["O", "B-X", "I-X"], "BIO")},
        "^constraints are on 3 labels, but scores have 2",
    ),
}


@pytest.mark.parametrize("case", BAD)
@EVERY
def test_bad_input_is_one_sentence(name: str, case: str) -> None:
    wrong, sentence = BAD[case]
    given: dict[str, Any] = {"scores": np.zeros((2, 2)), "transitions": np.zeros((2, 2)), **wrong}
    if case == "rows of two lengths" and name == "log_likelihood":
        given["labels"], name = [0, 0], "any labels"
    with pytest.raises(ChainfoldError, match=sentence):
        ALL.get(name, arrays.log_likelihood)(given.pop("scores"), **given)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([0, 2], "^the label at position 1 is 2, but labels go from 0 to 1"),
        ([-2, 0], "^the label at position 0 is -2, but labels go from 0 to 1 .-1: unknown."),
        ([0], r"^the shape of labels is \[1\], but must be \[2\]"),
        ([0.0, 1.0], "^the type of labels is 'float64', but must be one of whole numbers"),
        ([[0], [0, 1]], "^labels cannot be an array: its rows differ in length"),
    ],
)
def test_bad_labels_are_one_sentence(labels: Any, sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=sentence):
        arrays.log_likelihood(np.zeros((2, 2)), labels, np.zeros((2, 2)))


def test_labels_beyond_a_double_are_one_sentence() -> None:
    scores = np.array([[0.0, -1e308]] * 3)
    with pytest.raises(ChainfoldError, match=r"^the scores of the sequence add up to more than a double can hold"):
        arrays.log_likelihood(scores, [1, 1, 1], np.zeros((2, 2)))


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_k_is_a_whole_number(k: Any) -> None:
    for function in (arrays.viterbi, arrays.sample):
        with pytest.raises(ChainfoldError, match=r"^k is .*, but must be a whole number, at least 1"):
            function(np.zeros((2, 2)), np.zeros((2, 2)), k=k)


@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ChainfoldError, match=r"^seed is .*, but must be a whole number, at least 0"):
        arrays.sample(np.zeros((2, 2)), np.zeros((2, 2)), seed=seed)


@pytest.mark.parametrize("name", ["viterbi", "nbest", "marginals", "sample"])
@pytest.mark.parametrize("where", ["scores", "transitions", "start", "end"])
def test_a_sequence_without_a_labelling(name: str, where: str) -> None:
    shapes = {"scores": (2, 2), "transitions": (2, 2), "start": 2, "end": 2}
    given: dict[str, Any] = {argument: np.zeros(shape) for argument, shape in shapes.items()}
    given[where] = np.full_like(given[where], -np.inf)
    with pytest.raises(ChainfoldError, match=r"^no labelling is possible: .* forbid every label at position [01]"):
        ALL[name](**given)
    assert arrays.log_partition(**given) == -np.inf
    result = arrays.log_likelihood(given.pop("scores"), [0, 0], **given)
    assert np.isnan(result.log_likelihood)
    assert np.isnan(result.scores).all()
