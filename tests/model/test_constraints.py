"""Constraints on labels: schemes against a grammar of well-formed taggings, entries by hand, and their sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest

from chainfold.errors import BadSetting, ChainfoldError
from chainfold.model.constraints import SCHEMES, Constraints

pytestmark = pytest.mark.quick

GRAMMARS = {
    "BIO": r"(?:O |B-(\S+) (?:I-\1 )*)+",
    "IOB1": r"(?!B-)(?:O |I-(\S+) (?:B-\1 |I-\1 )*(?!B-))+",
    "IOBES": r"(?:O |S-\S+ |B-(\S+) (?:I-\1 )*E-\1 )+",
    "BILOU": r"(?:O |U-\S+ |B-(\S+) (?:I-\1 )*L-\1 )+",
}
TAGS = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}


def permits(constraints: Constraints, path: Sequence[int]) -> bool:
    inner = all(constraints.allowed[before, after] for before, after in pairwise(path))
    return bool(constraints.first[path[0]] and constraints.last[path[-1]] and inner)


def labels_of(scheme: str) -> list[str]:
    return ["O", *(f"{tag}-{kind}" for kind in ("X", "a-b") for tag in TAGS[scheme])]


@pytest.mark.parametrize("scheme", GRAMMARS)
def test_every_short_path_is_allowed_if_and_only_if_it_is_well_formed(scheme: str) -> None:
    labels = labels_of(scheme)
    constraints = Constraints.of(labels, scheme)
    for length in (1, 2, 3):
        for path in product(range(len(labels)), repeat=length):
            text = "".join(f"{labels[k]} " for k in path)
            assert permits(constraints, path) == bool(re.fullmatch(GRAMMARS[scheme], text)), text


def test_the_names_of_a_scheme() -> None:
    for name, like in (("IOB2", "BIO"), ("bio", "BIO"), ("BIOES", "IOBES"), ("bilou", "BILOU")):
        labels = labels_of(like)
        same(Constraints.of(labels, name), Constraints.of(labels, like))
    assert set(SCHEMES) == {"BIO", "IOB2", "IOB1", "IOBES", "BIOES", "BILOU"}
    with pytest.raises(BadSetting, match="scheme is 'IOE1', but must be one of BIO, IOB2, IOB1, IOBES, BIOES, BILOU"):
        Constraints.of(["O"], "IOE1")


def test_tags_without_a_type_are_of_one_type() -> None:
    constraints = Constraints.of(["O", "B", "I"], "BIO")
    assert constraints.allowed.tolist() == [[True, True, False], [True, True, True], [True, True, True]]
    assert constraints.first.tolist() == [True, True, False]
    assert constraints.last.all()


@pytest.mark.parametrize("label", ["NN", "X-NP", "E-NP", "O-NP", "b-NP", ""])
def test_a_label_outside_the_scheme_is_named(label: str) -> None:
    with pytest.raises(ChainfoldError, match=f"label '{label}' is no tag of the scheme BIO, which knows O, B-TYPE"):
        Constraints.of(["O", "B-NP", label], "BIO")


def test_a_label_with_no_way_in_or_out_is_no_error() -> None:
    constraints = Constraints.of(["O", "I-NP"], "BIO")
    assert constraints.allowed.tolist() == [[True, False], [True, True]]
    assert not constraints.first[1]


# ---- by hand


def same(a: Constraints, b: Constraints) -> None:
    for name in ("allowed", "first", "last"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def forbidden(constraints: Constraints, labels: Sequence[str]) -> set[tuple[str, str]]:
    inner = {(labels[i], labels[j]) for i, j in np.argwhere(~constraints.allowed).tolist()}
    starts = {("^", labels[k]) for k in np.flatnonzero(~constraints.first).tolist()}
    return inner | starts | {(labels[k], "$") for k in np.flatnonzero(~constraints.last).tolist()}


AB = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("forbid", "allow", "expected"),
    [
        ([], [], set()),
        (["a>b"], [], {("a", "b")}),
        (["a>a", "b>c"], [], {("a", "a"), ("b", "c")}),
        (["^>a", "b>$"], [], {("^", "a"), ("b", "$")}),
        (["*>a"], [], {("a", "a"), ("b", "a"), ("c", "a")}),
        (["a>*"], [], {("a", "a"), ("a", "b"), ("a", "c")}),
        (["^>*"], ["^>b"], {("^", "a"), ("^", "c")}),
        (["*>$"], ["*>$"], set()),
        (["*>*"], ["*>a", "*>b"], {("a", "c"), ("b", "c"), ("c", "c")}),
        (["a>b"], ["b>a"], {("a", "b")}),
    ],
)
def test_entries(forbid: list[str], allow: list[str], expected: set[tuple[str, str]]) -> None:
    constraints = Constraints.of(AB, forbid=forbid, allow=allow)
    assert forbidden(constraints, AB) == expected
    assert constraints.forbidden is bool(expected)


def test_entries_change_a_scheme() -> None:
    labels = ["O", "B-X", "I-X"]
    constraints = Constraints.of(labels, "BIO", forbid=["O>O", "B-X>$"], allow=["^>I-X"])
    assert forbidden(constraints, labels) == {("O", "I-X"), ("O", "O"), ("B-X", "$")}


def test_labels_with_the_sign_of_a_transition_in_them() -> None:
    labels = ["a>b", ">", "c", ""]
    for entry, expected in (
        ("a>b>c", ("a>b", "c")),
        ("c>a>b", ("c", "a>b")),
        (">>c", (">", "c")),
        ("a>b>a>b", ("a>b", "a>b")),
        ("^>>", ("^", ">")),
        ("c>", ("c", "")),
    ):
        assert forbidden(Constraints.of(labels, forbid=[entry]), labels) == {expected}


def test_labels_called_like_a_sign_are_written_with_a_backslash() -> None:
    labels = ["$", "^", "*", "\\$", "NN"]
    for entry, expected in (
        ("NN>\\$", ("NN", "$")),
        ("\\^>\\*", ("^", "*")),
        ("NN>\\\\$", ("NN", "\\$")),
    ):
        constraints = Constraints.of(labels, forbid=[entry])
        assert [(labels[i], labels[j]) for i, j in np.argwhere(~constraints.allowed).tolist()] == [expected]
        assert constraints.first.all()
        assert constraints.last.all()
    assert not Constraints.of(labels, forbid=["NN>$"]).last[4]


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("a", "cannot read 'a' as a transition; write FROM>TO, for instance O>I-NP."),
        ("", "cannot read '' as a transition; write FROM>TO, for instance O>I-NP."),
        ("a>x", "cannot use 'a>x': there is no label 'x'."),
        ("x>a", "cannot use 'x>a': there is no label 'x'."),
        ("x>y", "cannot use 'x>y': there is no label 'x' and there is no label 'y'."),
        ("x>x", "cannot use 'x>x': there is no label 'x'."),
        ("a>x>b", "cannot use 'a>x>b': no cut at a '>' leaves a label on both sides."),
        ("a>^", "cannot use 'a>^': ^ can only stand before the '>' and $ only after it."),
        ("$>a", "cannot use '$>a': ^ can only stand before the '>' and $ only after it."),
        ("^>$", "cannot use '^>$': a sequence has a label at least between its start and its end."),
    ],
)
def test_entries_that_cannot_be_read(entry: str, sentence: str) -> None:
    for names in ({"forbid": [entry]}, {"allow": [entry]}):
        with pytest.raises(ChainfoldError) as raised:
            Constraints.of(AB, **names)  # type: ignore[arg-type]
        assert str(raised.value) == sentence


def test_an_entry_that_can_be_read_in_two_ways() -> None:
    with pytest.raises(ChainfoldError, match="'a>b>c' can mean 'a' before 'b>c' or 'a>b' before 'c'; rename"):
        Constraints.of(["a", "b>c", "a>b", "c"], forbid=["a>b>c"])


# ---- the class


def test_arrays_are_read_only_and_must_fit() -> None:
    constraints = Constraints.of(AB)
    with pytest.raises(ValueError, match="read-only"):
        constraints.allowed[0, 0] = False
    with pytest.raises(ChainfoldError, match=r"have shapes \(2, 2\), \(3,\) and \(3,\)"):
        Constraints(np.ones((2, 2), bool), np.ones(3, bool), np.ones(3, bool))
