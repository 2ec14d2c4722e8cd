"""The options of an input: each is checked, and is in the JSON."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.spec import FOR_MODEL, READING, InputSpec
from chainfold.features.template import Border, Template, parse_attributes

pytestmark = pytest.mark.quick

EVERYTHING: dict[str, Any] = {
    "format": "csv",
    "columns": ("a", "b", "c"),
    "symbols": ("a",),
    "header": False,
    "delimiter": ";",
    "encoding": "latin-1",
    "unknown": "?",
    "comments": "",
    "group": "a",
    "groups_return": True,
    "one_sequence": False,
    "label": "c",
    "labels": True,
    "weight": "b",
    "attributes": "a[-1] b",
    "border": "crfpp",
    "min_count": 2,
}


@pytest.mark.parametrize("options", [EVERYTHING, {}, {"numbers": "log", "hash_bits": 3}, {"labels": False}])
def test_json_has_the_options_that_are_given(options: dict[str, Any]) -> None:
    assert InputSpec(**json.loads(InputSpec.of(**options).to_json())) == InputSpec(**options)


def test_a_template_file_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "template"
    path.write_text("U00:%x[0,0]/%x[-1,1]\n")
    spec = InputSpec(template=path)
    path.unlink()
    assert spec.parsed_template == spec.template
    assert spec == InputSpec(template=Template.from_json(json.dumps(json.loads(spec.to_json())["template"])))
    path.write_bytes(b"U\xff")
    with pytest.raises(BadFile, match="byte 1 is not UTF-8"):
        InputSpec(template=path)


def test_expressions_are_parsed_with_their_border() -> None:
    assert InputSpec(attributes="a b", border="wapiti").parsed_template == parse_attributes("a b", Border.WAPITI)
    assert InputSpec(attributes="a b").parsed_template == parse_attributes("a b", Border.CRFSUITE)
    with pytest.raises(ChainfoldError):
        InputSpec(attributes="a(")


def test_names_of_options() -> None:
    assert {field.name for field in fields(InputSpec)} == EVERYTHING.keys() | {"numbers", "hash_bits", "template"}
    assert set(READING) < set(FOR_MODEL) < {field.name for field in fields(InputSpec)}
    with pytest.raises(ChainfoldError, match="there is no option 'colums'; the options are format, columns, "):
        InputSpec.of(colums=["a"])
    with pytest.raises(ChainfoldError, match=r"there is no option 'label'; the options are .* weight\.$"):
        InputSpec.for_model(label="a")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": ["a", "a"]}, "all different"),
        ({"columns": "ab"}, "^columns is 'ab', but must be a list of names"),
        ({"symbols": "ab"}, "^symbols is 'ab', but must be a list of names"),
        ({"attributes": ["0"]}, "one text"),
        ({"labels": False, "label": "0"}, "`label` requires labels"),
        ({"min_count": 2.5}, "^min_count is 2.5, but must be a whole number"),
        ({"min_count": 0}, "^min_count is 0, but must be a whole number"),
        ({"hash_bits": 2.5}, "a whole number"),
        ({"hash_bits": 25}, "from 1 to 24"),
        ({"numbers": "roman"}, "one of quantile"),
        ({"format": "xml"}, "^format is 'xml', but must be one of conll"),
        ({"delimiter": ";;"}, "^delimiter is ';;'"),
        ({"delimiter": '"'}, "^delimiter is '\"'"),
        ({"border": "soft", "attributes": "0"}, "one of crfpp"),
        ({"border": "crfpp"}, "`border` requires `attributes`"),
        ({"template": "nowhere"}, "nowhere: cannot be read"),
        ({"template": "x", "attributes": "0"}, "`template` or `attributes`, not both"),
        ({"group": "0", "one_sequence": True}, "not both"),
        ({"min_count": 2, "hash_bits": 9}, "not both"),
        ({"numbers": "log", "attributes": "0"}, "give `numbers` without `template`"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=sentence):
        InputSpec.of(**options)


def test_options_of_further_input() -> None:
    spec = InputSpec.of(**EVERYTHING).reading(labels=True)
    assert spec == InputSpec(**{name: EVERYTHING[name] for name in READING}, labels=True)
