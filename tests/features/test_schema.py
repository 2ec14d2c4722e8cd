"""What options resolve to for given columns, and what a vocabulary keeps of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chainfold.errors import ChainfoldError
from chainfold.features.schema import Schema, kept_columns, label_column, text_columns
from chainfold.features.spec import InputSpec
from chainfold.features.template import parse_attributes
from chainfold.readers.columns import Stretch
from chainfold.readers.conll import CONLLU_COLUMNS
from rows import encoded, stretches

pytestmark = pytest.mark.quick

KEPT = (
    '{"kinds": {"w": "symbol", "g": "symbol", "y": "symbol"}, "group": "g", "weight": null, "unknown": "?", '
    '"one_sequence": false, "header": null, "comments": "# ", "groups_return": true}'
)
SPEC = InputSpec(group="g", unknown="?", comments="# ", groups_return=True, attributes="w[-1]", min_count=2)


def first() -> Stretch:
    return next(stretches([[("a", "1", "X")]], ["w", "g", "y"]))


def test_the_kept_text_is_the_same_byte_for_byte() -> None:
    schema = Schema.of(SPEC, first())
    assert schema.columns_json() == KEPT
    assert (schema.label, schema.template) == ("y", parse_attributes("w[-1]"))


def test_a_vocabulary_gives_its_schema_back() -> None:
    chain = encoded([[("a", "1", "X"), ("a", "1", "X")]], ["w", "g", "y"], SPEC)
    assert chain.vocabulary is not None
    assert chain.vocabulary.columns == KEPT
    assert Schema.of_vocabulary(chain.vocabulary) == Schema.of(SPEC, first())


def test_texts_of_earlier_versions_are_read() -> None:
    assert kept_columns('{"kinds": {"w": "bag"}}') == {"kinds": {"w": "bag"}}


@pytest.mark.parametrize(
    "change",
    [{"kinds": 3}, {"kinds": {"w": 1}}, {"group": 0}, {"header": "yes"}, {"one_sequence": None}, {"more": 1}],
)
def test_other_texts_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ChainfoldError, match="not columns as chainfold writes them"):
        kept_columns(json.dumps(json.loads(KEPT) | change))
    for text in ("", "[]", "{}", "[" * 100_000):
        with pytest.raises(ChainfoldError, match="not columns as chainfold writes them"):
            kept_columns(text)


@pytest.mark.parametrize(
    ("options", "columns", "label"),
    [
        ({}, ("a", "label", "b"), "label"),
        ({}, ("a", "b"), "b"),
        ({"weight": "b"}, ("a", "b"), "a"),
        ({"group": "a", "weight": "b"}, ("a", "b"), None),
        ({"label": "a"}, ("a", "label"), "a"),
        ({"labels": False}, ("a", "label"), None),
        ({}, CONLLU_COLUMNS, "upos"),
    ],
)
def test_the_label_column(options: dict[str, Any], columns: tuple[str, ...], label: str | None) -> None:
    assert label_column(InputSpec(**options), columns) == label


def test_columns_that_are_texts() -> None:
    spec = InputSpec(attributes="a log(b)", symbols=["d"], group="e")
    assert text_columns(spec, ["a", "b", "c", "d", "e", "label"]) == {"a", "d", "e", "label"}
