"""Scores of taggings: against conlleval's rules followed line by line, scikit-learn, and counting by hand."""

from __future__ import annotations

import io
import json
from collections import Counter
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from chainfold.cli.scores import show
from chainfold.errors import BadChain, ChainfoldError
from chainfold.metrics import Count, Quality, Scores, are_chunk_tags
from chainfold.metrics import count as count_module

pytestmark = pytest.mark.quick

Sequences = list[list[tuple[str, str]]]  # gold and predicted label of each position


# ---- the reference: conlleval's rules, one line of its input after the other


def split(label: str) -> tuple[str, str]:
    tag, hyphen, kind = label.partition("-")
    return {"L": "E", "U": "S"}.get(tag, tag), kind if hyphen else ""


def ends(before: str, after: str) -> bool:
    (old, old_kind), (new, new_kind) = split(before), split(after)
    if old in ("[", "]", "S", "E"):
        return True
    if old in ("O", "."):
        return False
    if old_kind != new_kind:
        return True
    return old in ("B", "I") and new in ("B", "O", "S")


def starts(before: str, after: str) -> bool:
    (old, old_kind), (new, new_kind) = split(before), split(after)
    if new in ("[", "]", "S"):
        return True
    if new in ("O", "."):
        return False
    if old_kind != new_kind:
        return True
    if new == "B":
        return old in ("B", "I", "O", "E", "S")
    return new in ("I", "E") and old in ("O", "E", "S")


def conlleval(sequences: Sequences) -> dict[str, tuple[int, int, int]]:
    """Gold, found and correct spans of each type that occurs."""
    lines = [("O", "O")] + [line for sequence in sequences for line in [*sequence, ("O", "O")]]
    gold, found, correct = Counter[str](), Counter[str](), Counter[str]()
    in_correct = False
    for (gold_before, found_before), (gold_now, found_now) in pairwise(lines):
        gold_kind, found_kind = split(gold_now)[1], split(found_now)[1]
        gold_ends, found_ends = ends(gold_before, gold_now), ends(found_before, found_now)
        if in_correct:
            if gold_ends and found_ends and split(gold_before)[1] == split(found_before)[1]:
                in_correct = False
                correct[split(gold_before)[1]] += 1
            elif gold_ends != found_ends or gold_kind != found_kind:
                in_correct = False
        gold_starts, found_starts = starts(gold_before, gold_now), starts(found_before, found_now)
        if gold_starts and found_starts and gold_kind == found_kind:
            in_correct = True
        gold[gold_kind] += gold_starts
        found[found_kind] += found_starts
    if in_correct:
        correct[split(lines[-1][0])[1]] += 1
    kinds = (gold + found).keys()
    return {kind: (gold[kind], found[kind], correct[kind]) for kind in kinds}


# ---- from names to arrays


def counted(
    sequences: Sequences,
    labels: list[str],
    cuts: list[int] | None = None,
    spans: bool | None = None,
) -> Count:
    number = {label: k for k, label in enumerate(labels)} | {"?": -1}
    gold = np.array([number[g] for sequence in sequences for g, _ in sequence], np.int32)
    predicted = np.array([number[p] for sequence in sequences for _, p in sequence], np.int32)
    first = np.array([k == 0 for sequence in sequences for k in range(len(sequence))], bool)
    count = Count(labels, spans)
    for low, high in pairwise([0, *sorted(cuts or []), gold.size]):
        count.scores()  # whoever asks before the end changes nothing
        with mock.patch.object(count_module, "_AT_ONCE", 7):
            count.add(gold[low:high], predicted[low:high], first[low:high])
    return count


def scored(sequences: Sequences, labels: list[str], cuts: list[int] | None = None, spans: bool | None = None) -> Scores:
    return counted(sequences, labels, cuts, spans).scores()


def tagged(gold: str, predicted: str) -> Sequences:
    """Sequences from texts: labels between spaces, sequences between bars."""
    sides = zip(gold.split("|"), predicted.split("|"), strict=True)
    return [list(zip(g.split(), p.split(), strict=True)) for g, p in sides]


def triple(quality: Quality) -> tuple[int, int, int]:
    return quality.gold, quality.found, quality.correct


def span_triples(scores: Scores) -> dict[str, tuple[int, int, int]]:
    assert scores.spans is not None
    return {kind: triple(quality) for kind, quality in scores.spans.items() if quality.gold or quality.found}


# ---- spans

SCHEMES = {
    "IOB": ["O", "B-NP", "I-NP", "B-VP", "I-VP"],
    "IOE": ["O", "I-NP", "E-NP", "I-VP", "E-VP"],
    "IOBES": ["O", *(f"{tag}-{kind}" for kind in ("PER", "LOC-A") for tag in "BIES")],
    "BILOU": ["O", *(f"{tag}-{kind}" for kind in ("PER", "LOC-A") for tag in "BILU")],
    "brackets": ["O", "I-NP", "[-NP", "]-NP", "B-NP", "I-VP", "[-VP"],
    "no types": ["O", "B", "I", "E", "S"],
    "anything": ["O", "O-X", ".", ".-X", "B", "I-X", "X", "X-X", "BB", "-", "-BB", ""],
}


@st.composite
def taggings(draw: st.DrawFn) -> tuple[list[str], Sequences]:
    labels = SCHEMES[draw(st.sampled_from(sorted(SCHEMES)))]
    gold = st.sampled_from(labels)
    position = st.one_of(gold.map(lambda label: (label, label)), st.tuples(gold, gold))
    return labels, draw(st.lists(st.lists(position, min_size=1, max_size=12), max_size=5))


@settings(max_examples=400, deadline=None)
@given(taggings(), st.lists(st.integers(0, 30), max_size=6))
def test_spans_are_those_of_conlleval_however_the_chain_is_cut(
    tagging: tuple[list[str], Sequences], cuts: list[int]
) -> None:
    labels, sequences = tagging
    size = sum(map(len, sequences))
    scores = scored(sequences, labels, [min(cut, size) for cut in cuts], spans=True)
    assert span_triples(scores) == conlleval(sequences)


def test_the_figures_that_conlleval_prints() -> None:
    """10 tokens with 5 phrases; found: 7; correct: 4. accuracy 80.00, precision 57.14, recall 80.00, FB1 66.67."""
    gold = "B-NP I-NP B-VP O B-NP|B-PP B-NP I-NP O O"
    predicted = "B-NP I-NP B-VP B-NP B-NP|B-PP B-NP B-VP O O"
    scores = scored(tagged(gold, predicted), ["B-NP", "I-NP", "B-VP", "O", "B-PP"])
    overall = scores.spans_overall
    assert overall is not None
    assert scores.spans is not None
    assert (scores.tokens, scores.correct, scores.accuracy) == (10, 8, 0.8)
    assert triple(overall) == (5, 7, 4)
    assert (overall.precision, overall.recall) == (4 / 7, 0.8)
    assert overall.f1 == 2 / 3
    assert {kind: triple(each) for kind, each in scores.spans.items()} == {
        "NP": (3, 4, 2),
        "PP": (1, 1, 1),
        "VP": (1, 2, 1),
    }


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["O", "B-NP", "I-NP"], True),
        (["B-NP"], True),
        (["O", "U-X", "L-X", "E-Y", "S-Y"], True),
        (["O"], False),
        ([], False),
        (["O", "B-NP", "NN"], False),
        (["O", "B"], False),
        (["O", "X-NP"], False),
    ],
)
def test_labels_that_look_like_chunk_tags(labels: list[str], expected: bool) -> None:
    assert are_chunk_tags(labels) is expected
    assert (Count(labels).scores().spans is not None) is expected
    assert Count(labels, spans=False).scores().spans is None
    assert Count(labels, spans=True).scores().spans is not None


# ---- positions, sequences and labels


@st.composite
def plain_taggings(draw: st.DrawFn) -> tuple[list[str], Sequences]:
    labels = ["a", "b", "c", "never", "rare"]
    gold, predicted = st.sampled_from([*labels[:3], "rare", "?"]), st.sampled_from(labels[:3])
    same = predicted.map(lambda label: (label, label))
    position = st.one_of(same, same, st.tuples(gold, predicted))
    return labels, draw(st.lists(st.lists(position, min_size=1, max_size=6), max_size=8))


@settings(max_examples=150, deadline=None)
@given(plain_taggings(), st.lists(st.integers(0, 30), max_size=6))
def test_labels_and_sequences_by_hand_and_by_scikit_learn(
    tagging: tuple[list[str], Sequences], cuts: list[int]
) -> None:
    labels, sequences = tagging
    scores = scored(sequences, labels, [min(cut, sum(map(len, sequences))) for cut in cuts])
    known = [[(g, p) for g, p in sequence if g != "?"] for sequence in sequences]
    flat = [pair for sequence in known for pair in sequence]
    assert (scores.tokens, scores.correct) == (len(flat), sum(g == p for g, p in flat))
    assert scores.unknown == sum(map(len, sequences)) - len(flat)
    assert scores.sequences == sum(bool(sequence) for sequence in known)
    assert scores.sequences_correct == sum(bool(s) and all(g == p for g, p in s) for s in known)
    if flat:
        compare_with_scikit_learn(scores, *zip(*flat, strict=True))


def compare_with_scikit_learn(scores: Scores, gold: Any, predicted: Any) -> None:
    labels = list(scores.labels)
    np.testing.assert_array_equal(scores.confusion, confusion_matrix(gold, predicted, labels=labels))
    rows = zip(*precision_recall_fscore_support(gold, predicted, labels=labels, zero_division=0.0), strict=True)
    for label, (precision, recall, f1, support) in zip(labels, rows, strict=True):
        quality = scores.per_label[label]
        assert quality.support == support
        np.testing.assert_allclose([quality.precision, quality.recall, quality.f1], [precision, recall, f1], rtol=1e-14)
    for mean, average in ((scores.macro, "macro"), (scores.weighted, "weighted")):
        expected = precision_recall_fscore_support(gold, predicted, average=average, zero_division=0.0)[:3]
        np.testing.assert_allclose(mean, expected, rtol=1e-13)
    assert scores.accuracy == pytest.approx(accuracy_score(gold, predicted), rel=1e-15)


def test_nothing_counted_is_zero_and_not_a_division() -> None:
    scores = Count(["O", "B-X"]).scores()
    assert scores.accuracy == scores.sequence_accuracy == 0.0
    assert scores.macro == scores.weighted == (0.0, 0.0, 0.0)
    assert scores.per_label["O"] == Quality(0, 0, 0)
    assert scores.spans_overall == Quality(0, 0, 0)
    assert (Quality(0, 0, 0).precision, Quality(0, 0, 0).recall, Quality(0, 0, 0).f1) == (0.0, 0.0, 0.0)


def test_a_position_without_a_gold_label_breaks_spans_and_counts_nowhere() -> None:
    scores = scored(tagged("B-X I-X ? I-X|? ?", "B-X I-X I-X I-X|B-X O"), ["O", "B-X", "I-X"])
    assert span_triples(scores) == {"X": (2, 2, 2)}
    assert (scores.tokens, scores.unknown, scores.sequences, scores.sequences_correct) == (3, 3, 1, 1)


def test_counts_do_not_grow_with_the_chain() -> None:
    count = Count(SCHEMES["IOB"])
    labels, starts = np.zeros(1 << 18, np.int32), np.zeros(1 << 18, bool)
    for _ in range(3):
        count.add(labels, labels, starts)
    sizes = [value.nbytes for value in vars(count).values() if isinstance(value, np.ndarray)]
    assert sum(sizes) < 1000
    assert count.scores().tokens == 3 << 18


def test_confusions_are_the_most_frequent_mistakes() -> None:
    scores = scored(tagged("a a a b b c c c", "a b b c c a a a"), ["a", "b", "c"])
    assert scores.confusions() == [("c", "a", 3), ("a", "b", 2), ("b", "c", 2)]
    assert scores.confusions(1) == [("c", "a", 3)]


def test_json_has_everything() -> None:
    scores = scored(tagged("B-X I-X|O", "B-X O|O"), ["O", "B-X", "I-X"])
    facts = json.loads(json.dumps(scores.to_json()))
    assert (facts["tokens"], facts["correct"], facts["sequences"], facts["sequences_correct"]) == (3, 2, 2, 1)
    assert (facts["accuracy"], facts["sequence_accuracy"], facts["unknown"]) == (2 / 3, 0.5, 0)
    assert facts["labels"][1] == {
        "label": "B-X",
        "precision": 1.0,
        "recall": 1.0,
        "f1": 1.0,
        "support": 1,
        "found": 1,
        "correct": 1,
    }
    assert facts["confusion"] == [
        {"gold": "O", "predicted": "O", "positions": 1},
        {"gold": "B-X", "predicted": "B-X", "positions": 1},
        {"gold": "I-X", "predicted": "O", "positions": 1},
    ]
    assert facts["macro"] == {"precision": 0.5, "recall": 2 / 3, "f1": pytest.approx(5 / 9)}
    assert facts["spans"]["f1"] == 0.0
    assert facts["span_types"][0]["type"] == "X"
    assert scored([], ["a"]).to_json()["spans"] is None


# ---- what cannot be counted


def test_arrays_of_different_lengths() -> None:
    one, two = np.zeros(1, np.int32), np.zeros(2, np.int32)
    with pytest.raises(BadChain, match="1 gold labels, 2 predicted ones and 1 start marks"):
        Count(["a"]).add(one, two, np.zeros(1, bool))


@pytest.mark.parametrize(
    ("gold", "predicted", "sentence"),
    [
        (2, 0, "position 4 has label 2, but labels go from 0 to 1"),
        (-2, 0, "position 4 has label -2, but labels go from 0 to 1"),
        (0, 2, "position 4 has the predicted label 2, but predicted labels go from 0 to 1."),
        (0, -1, "position 4 has the predicted label -1, but predicted labels go from 0 to 1."),
    ],
)
def test_labels_out_of_range_name_the_position(gold: int, predicted: int, sentence: str) -> None:
    count, fine, starts = Count(["a", "b"]), np.zeros(3, np.int32), np.zeros(3, bool)
    count.add(fine, fine, starts)
    with pytest.raises(BadChain, match=sentence):
        count.add(np.array([0, gold, 0], np.int32), np.array([0, predicted, 0], np.int32), starts)


def test_a_label_given_twice() -> None:
    with pytest.raises(ChainfoldError, match="label 'b' is there twice"):
        Count(["a", "b", "c", "b"])


# ---- tables


def shown(scores: Scores, width: int = 120, confusion: bool = False) -> str:
    text = io.StringIO()
    show(scores, Console(file=text, width=width), confusion=confusion)
    return text.getvalue()


def cells(text: str, name: str) -> list[str]:
    """The row of a table that begins with a name."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    return next(row for row in rows if row and row[0] == name)


def test_tables_show_totals_labels_spans_and_mistakes() -> None:
    text = shown(scored(tagged("B-[b]X I-[b]X O O|? O", "B-[b]X O O O|O O"), ["O", "B-[b]X", "I-[b]X", "B-Y"]))
    assert text.startswith("5 positions, 80.00% correct; 2 sequences, 50.00% correct throughout; 1 positions without")
    assert cells(text, "O") == ["O", "75.00", "100.00", "85.71", "3"]
    assert cells(text, "macro average")[1:4] == ["58.33", "66.67", "61.90"]
    assert cells(text, "weighted average")[4] == "5"
    assert cells(text, "[b]X") == ["[b]X", "0.00", "0.00", "0.00", "1", "1", "0"]
    assert cells(text, "all spans")[4:] == ["1", "1", "0"]
    assert cells(text, "I-[b]X → O") == ["I-[b]X → O", "1"]
    assert "B-Y" not in text
    assert shown(Count(["a"]).scores()) == "0 positions, 0.00% correct.\n"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_confusion_matrix_is_whole_at_any_width(width: int) -> None:
    rng = np.random.default_rng(1)
    labels = [f"[b{k}]label" for k in range(12)]
    count = Count(labels)
    gold, predicted = rng.integers(0, 12, (2, 50_000)).astype(np.int32)
    count.add(gold, predicted, np.zeros(gold.size, bool))
    text = shown(count.scores(), width, confusion=True)
    matrix = text[text.index("┃ gold ↓ predicted →") :]
    rows = [line.split("│")[2:-1] for line in matrix.splitlines() if line.startswith("│ [b3]label")]
    assert [int(cell.replace(",", "")) for row in rows for cell in row] == count.scores().confusion[3].tolist()
    headings = [line.strip("┃").split("┃")[1:] for line in matrix.splitlines() if line.startswith("┃")]
    assert [cell.strip() for cells in headings for cell in cells] == labels
    assert all(len(line) <= width for line in text.splitlines())


def test_many_labels_are_cut_short_and_said_to_be() -> None:
    labels = [f"label {k}" for k in range(50)]
    count = Count(labels)
    every = np.arange(50, dtype=np.int32)
    count.add(every, every, np.ones(50, bool))
    text = shown(count.scores(), confusion=True)
    assert "The confusion matrix of 50 labels is too large" in text
    assert "Tables show 40 rows at most; --json has all 50." in text
    assert "label 39" in text
    assert "label 40" not in text
