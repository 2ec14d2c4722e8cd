"""Templates: what attributes mean in the words of CRF++, of Wapiti and our own, and what is said of bad ones."""

from __future__ import annotations

import json
import math
import string

import pytest

from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.functions import FUNCTIONS, Step, apply, python_pattern
from chainfold.features.template import (
    FARTHEST,
    NUMBER_STEPS,
    Border,
    Factor,
    Feature,
    Template,
    every_column,
    log_edges,
    parse_attributes,
    parse_template,
)

pytestmark = pytest.mark.quick

CRFPP = """\
# Unigram
U00:%x[-2,0]
U01:%x[0,1]
U05:%x[-1,0]/%x[0,0]

U:#%x[+1,1]
# Bigram
B
B01:%x[0,0]
"""


def attribute(expression: str) -> Feature:
    (feature,) = parse_attributes(expression).features
    return feature


def test_crfpp_file() -> None:
    template = parse_template(CRFPP, "template")
    assert template == Template(
        (
            Feature(("U00:", ""), (Factor(0, -2),)),
            Feature(("U01:", ""), (Factor(1),)),
            Feature(("U05:", "/", ""), (Factor(0, -1), Factor(0))),
            Feature(("U:#", ""), (Factor(1, 1),)),
            Feature(("B01:", ""), (Factor(0),), edge=True),
        ),
        Border.CRFPP,
    )
    assert (template.left, template.right) == (2, 1)


def test_wapiti_file() -> None:
    text = """\
*
U:wrd L=%X[-1,0]   # the word before
*:Pos X=%x[ 0,1]
u:Pre=%M[ 0,0,"^.?.?"]/%t[1,0,"\\u"]
b
B:%T[0,0,"\\"]"]
"""
    word_before = Feature(("u:wrd L=", ""), (Factor(0, -1, (Step("lower"),)),))
    tag = Feature(("*:Pos X=", ""), (Factor(1),))
    assert parse_template(text, "template") == Template(
        (
            Feature(("*",), ()),
            word_before,
            tag,
            tag._replace(edge=True),
            Feature(
                ("u:Pre=", "/", ""),
                (
                    Factor(0, 0, (Step("match", ("^.?.?",)), Step("lower"))),
                    Factor(0, 1, (Step("test", ("[A-Z]",)),)),
                ),
            ),
            Feature(("b:", ""), (Factor(0, 0, (Step("test", ('"\\]',)),)),), edge=True),
        ),
        Border.WAPITI,
    )


@pytest.mark.parametrize("line", ["u:%x[0,0]", "b", "*", "U:%X[0,0]", 'U:%t[0,0,"a"]', 'B:%m[0,0,"a"]'])
def test_one_line_that_only_wapiti_knows_makes_the_file_wapitis(line: str) -> None:
    template = parse_template(f"U00:%x[0,0]\n{line}\n", "template")
    assert template.border is Border.WAPITI
    assert template.features[0].pieces == ("u00:", "")


@pytest.mark.parametrize(
    ("wapiti", "text", "matched"),
    [
        ("^.?.?.?.?", "chains", "chai"),
        ("^.?.?.?.?", "of", "of"),
        (".?.?$", "chains", "ns"),
        (r"^\u\u*$", "CRF", "CRF"),
        (r"^\u\u*$", "CRFs", None),
        (r"\d*", "12", ""),  # the star takes as little as it can
        ("a.*b", "aXbYb", "aXb"),
        ("a?b", "cab", "ab"),
        (r"\p", "don't", "'"),
        (r"\P\P*$", "don't", "t"),
        (r"\w\W", "a-b", "a-"),
        (r"\a", "1é2x", "x"),
        (r"\A\L\S\D\U", "1A-bC", None),
        (r"\A\L\S\D\U", "1A-bc", "1A-bc"),
        (r"^\p*$", string.punctuation, string.punctuation),
        (r"\s", "a\tb", "\t"),
        ("b$", "b\n", None),
        ("a^$b", "a^$b", "a^$b"),
        (r"a\$", "a$", "a$"),
        (r"\.\*", "x.*", ".*"),
        ("[a+]", "x[a+]", "[a+]"),
        ("^$", "", ""),
        ("^$", "a", None),
    ],
)
def test_wapitis_expressions(wapiti: str, text: str, matched: str | None) -> None:
    pattern = python_pattern(wapiti)
    assert apply((Step("test", (pattern,)),), [text, text]) == ["false" if matched is None else "true"] * 2
    assert apply((Step("match", (pattern,)),), [text]) == [matched or ""]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is nothing in this template"),
        ("# only words\n\n", "there is nothing in this template"),
        ("U00:%x[0,0]\nV00:%x[0,0]", "line 2: it begins with 'V'"),
        ("\n U00:%x[0,0]", "line 2: it begins with ' '"),
        ("U00:%x[0]", r"line 1: cannot read '%x\[0\]'; write %x\[row,column\]"),
        ("U00:%x[0,-1]", "line 1: cannot read"),
        ("U00:100%", "line 1: cannot read '%'"),
        ("u:%y[0,0]", "line 1: cannot read"),
        ("u:%t[0,0]", "line 1: cannot read"),
        ('u:%x[0,0,"a"]', "line 1: cannot read"),
        ('u:%t[0,0,"a]', "line 1: cannot read"),
        ("u:%x[@1,0]", r"line 1: %x\[@1,0\] is absolute"),
        ("u:%x[*1,0]", r"line 1: %x\[\*1,0\] is indirect"),
        ('u:%t[0,0,"*"]', r"line 1: the expression '\*' has a \* with nothing to apply to"),
        ('u:%t[0,0,"a**"]', "has a . with nothing to apply to"),
        (f"U:%x[{FARTHEST + 1},0]", f"line 1: a row {FARTHEST + 1} away is too far"),
    ],
)
def test_bad_files_name_the_line(text: str, sentence: str) -> None:
    with pytest.raises(BadFile, match=f"^my.template: .*{sentence}.*\\.$"):
        parse_template(text, "my.template")


def test_borders() -> None:
    assert [Border.CRFPP.text(-1), Border.CRFPP.text(12)] == ["_B-1", "_B+12"]
    assert [Border.WAPITI.text(-k) for k in (1, 4, 5, 99)] == ["_x-1", "_x-4", "_x-#", "_x-#"]
    assert [Border.WAPITI.text(k) for k in (1, 4, 5, 99)] == ["_x+1", "_x+4", "_x+#", "_x+#"]
    assert [Border.CRFSUITE.text(-1), Border.CRFSUITE.text(1)] == [None, None]
    assert [border.marks for border in Border] == [None, None, ("__BOS__", "__EOS__")]


@pytest.mark.parametrize(
    ("expression", "factors"),
    [
        ("word", [Factor("word")]),
        ("word[-1]", [Factor("word", -1)]),
        ("word[-1]|word[0]", [Factor("word", -1), Factor("word")]),
        ("3[+2]", [Factor(3, 2)]),
        ("'3'", [Factor("3")]),
        ("shape(word)", [Factor("word", 0, (Step("shape"),))]),
        ("lower( word )[ -1 ]", [Factor("word", -1, (Step("lower"),))]),
        ("lower(word[-1])[-1]", [Factor("word", -2, (Step("lower"),))]),
        (
            "prefix(lower(word),2)[1]|pos[0]",
            [Factor("word", 1, (Step("lower"), Step("prefix", (2,)))), Factor("pos")],
        ),
        ("symbol(port)", [Factor("port", 0, (Step("symbol"),))]),
        ("quantile(duration)", [Factor("duration", 0, (Step("quantile", (16,)),))]),
        ("quantile(ms,8)", [Factor("ms", 0, (Step("quantile", (8,)),))]),
        ("bins(bytes, -1, 0, 1e3)", [Factor("bytes", 0, (Step("bins", (-1, 0, 1000.0)),))]),
    ],
)
def test_expressions(expression: str, factors: list[Factor]) -> None:
    title = f"{expression.replace(' ', '')}="
    assert attribute(expression) == Feature((title, *"|" * (len(factors) - 1), ""), tuple(factors))


@pytest.mark.parametrize(
    ("expression", "title", "factor"),
    [
        ('"my col"', '"my col"=', Factor("my col")),
        ('match(word,"[0-9]+ (x)")', 'match(word,"[0-9]+ (x)")=', Factor("word", 0, (Step("match", ("[0-9]+ (x)",)),))),
        ("real(x)", "x", Factor("x", 0, (Step("real"),))),
        ("standard(x)[-1]", "standard(x)[-1]", Factor("x", -1, (Step("standard"),))),
        ("scale(x,1.5,2)", "scale(x,1.5,2)", Factor("x", 0, (Step("scale", (1.5, 2)),))),
    ],
)
def test_expressions_with_other_titles(expression: str, title: str, factor: Factor) -> None:
    assert attribute(expression) == Feature((title, ""), (factor,))


def test_white_space_separates_attributes_but_not_within_brackets() -> None:
    template = parse_attributes("  word[-1]\tprefix(word, 3)\n'a b'  ")
    assert [feature.outline for feature in template.features] == ["word[-1]=…", "prefix(word,3)=…", "'a b'=…"]
    assert template.border is Border.CRFSUITE
    assert (template.left, template.right) == (1, 0)
    assert (parse_attributes("word[3]").left, parse_attributes("word[3]").right) == (0, 3)


def test_logarithms_are_bins_around_zero() -> None:
    (step,) = attribute("log(bytes)").factors[0].steps
    assert step == Step("bins", tuple([-(2.0**k) for k in range(62, -31, -1)] + [2.0**k for k in range(-30, 63)]))
    tens = log_edges(10)
    assert tens[0] <= -1e18
    assert {0.001, 1.0, 10.0, 1e18} <= set(tens)
    assert attribute("log(bytes,10)").factors[0].steps == (Step("bins", tens),)


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("", "there are no attributes"),
        (" \n", "there are no attributes"),
        (
            "word foo(word)",
            r"attribute 'foo\(word\)': there is no function 'foo'; the functions are lower, shape, .*bins",
        ),
        ("lower(word", r"attribute 'lower\(word': expected a \) at the end"),
        ("lower()", r"expected a column or a function before '\)'"),
        ("word|", r"attribute 'word\|': expected a column or a function at the end"),
        ("word | pos", r"attribute '\|': expected a column or a function before '\|'"),
        ("word)", r"attribute 'word\)': unexpected '\)'"),
        ("word[one]", "'one' is no number"),
        ("word[1.5]", "1.5 is no whole number of rows"),
        ("word[1", r"expected a \] at the end"),
        (f"word[-{FARTHEST + 1}]", "too far"),
        ('word "unclosed', 'a quotation mark is never closed: "unclosed'),
        ("prefix(word)", r"this is not how 'prefix' is used; write prefix\(column,characters\)"),
        ("prefix(word,0)", "not how 'prefix' is used"),
        ('suffix(word,"3")', "not how 'suffix' is used"),
        ("lower(word,3)", "not how 'lower' is used"),
        ('test(word,"(")', "cannot be used: missing \\)"),
        ("match(word,3)", "not how 'match' is used"),
        ("quantile(x,1)", "not how 'quantile' is used"),
        ("bins(x)", "not how 'bins' is used"),
        ("bins(x,1,1)", "not how 'bins' is used"),
        ("bins(x,1,inf)", "not how 'bins' is used"),
        ('bins(x,"0",1)', "not how 'bins' is used"),
        ("bins(x,nan)", "not how 'bins' is used"),
        ("log(x,1.05)", "not how 'log' is used"),
        ("log(x,2,3)", "not how 'log' is used"),
        ("log(x,inf)", "not how 'log' is used"),
        ("scale(x,0,0)", "not how 'scale' is used"),
        ("lower(quantile(x))", "quantile returns a number; text functions"),
        ("real(lower(x))", "real returns a number; text functions"),
        ("real(x)|word", "a real number cannot be joined"),
        ("lower(" * 3000 + "word" + ")" * 3000, "nested too deeply"),
    ],
)
def test_bad_expressions_are_pointed_at(expression: str, sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=f"{sentence}.*\\.$"):
        parse_attributes(expression)


def test_every_function_has_its_meaning() -> None:
    with pytest.raises(ChainfoldError) as caught:
        parse_attributes("f(x)")
    known = str(caught.value).split("functions are ")[1]
    assert set(known.removesuffix(".").split(", ")) == set(FUNCTIONS) | NUMBER_STEPS | {"log"}


@pytest.mark.parametrize(
    ("steps", "text", "result"),
    [
        (Step("lower"), "ÉCOLE", "école"),
        (Step("shape"), "McDonald's", "XxXx'x"),
        (Step("shape"), "U.S.--1987", "X.X.-d"),
        (Step("shape"), "", ""),
        (Step("prefix", (3,)), "chain", "cha"),
        (Step("prefix", (3,)), "of", "of"),
        (Step("suffix", (3,)), "chain", "ain"),
        (Step("suffix", (3,)), "of", "of"),
        (Step("test", ("^[A-Z]",)), "Chain", "true"),
        (Step("test", ("^[A-Z]",)), "aChain", "false"),
        (Step("match", ("[0-9]+",)), "a12b3", "12"),
        (Step("match", ("[0-9]+",)), "ab", ""),
        ([Step("shape"), Step("lower")], "Mc1", "xxd"),
        ([Step("lower"), Step("shape")], "Mc1", "xd"),
    ],
)
def test_functions_of_a_text(steps: Step | list[Step], text: str, result: str) -> None:
    assert apply([steps] if isinstance(steps, Step) else steps, [text, text]) == [result, result]


def test_every_column_as_it_is() -> None:
    template = every_column({"word": "symbol", "bytes": "number", "attributes": "bag"})
    assert [feature.pieces for feature in template.features] == [("word=", ""), ("bytes=", ""), ("", "")]
    assert [feature.factors[0] for feature in template.features] == [
        Factor("word"),
        Factor("bytes", 0, (Step("quantile", (16,)),)),
        Factor("attributes"),
    ]
    assert template.border.marks is None


def test_columns_are_found_by_name_and_by_index() -> None:
    template = parse_attributes("1 word lower(pos)[-1]|0")
    resolved = template.resolved(["word", "pos"])
    assert [f.column for feature in resolved.features for f in feature.factors] == ["pos", "word", "pos", "word"]
    assert [feature.pieces for feature in resolved.features] == [feature.pieces for feature in template.features]
    assert resolved.resolved(["word", "pos"]) == resolved
    assert parse_attributes("1").resolved(["1", "0"]).features[0].factors[0].column == "0"


def test_columns_that_are_not_there() -> None:
    with pytest.raises(ChainfoldError, match=r"'U:…/…' uses column 2, but there are 2 .* from 0: word, pos\.$"):
        parse_template("U:%x[0,0]/%x[0,2]", "t").resolved(["word", "pos"])
    with pytest.raises(ChainfoldError, match=r"'wrod=…' uses column 'wrod', but the columns are word, pos\.$"):
        parse_attributes("wrod").resolved(["word", "pos"])
    with pytest.raises(ChainfoldError, match=r"the columns are 0, 1; name the columns with `columns`\.$"):
        parse_attributes("word").resolved(["0", "1"])


def test_json_gives_the_same_template_back() -> None:
    bins = Step("bins", (-1e300, -0.1, 5e-324, 1 / 3))
    odd = Feature(('é|=["\n%€', ""), (Factor('a"\n', -FARTHEST, (bins,)),), edge=True)
    expressions = 'lower(word)[1]|3 prefix(pos,2) match(0,"é|[^ ]+") quantile(x,5) scale(y,0.1,2)'
    for template in (
        parse_template(CRFPP, "template"),
        parse_attributes(expressions),
        Template((odd, Feature(("*",), ())), Border.WAPITI),
    ):
        again = Template.from_json(template.to_json())
        assert again == template
        assert again.to_json() == template.to_json()


def damaged(change: object, *path: str | int) -> str:
    about = json.loads(parse_attributes("prefix(word,3)[-1]").to_json())
    part = about
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = change
    return json.dumps(about)


FACTOR = ("features", 0, "factors", 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        damaged("crf", "border"),
        damaged({}, "features"),
        damaged(1, "features", 0, "edge"),
        damaged([""], "features", 0, "pieces"),
        damaged("ab", "features", 0, "pieces"),
        damaged(True, *FACTOR, "column"),
        damaged("1", *FACTOR, "offset"),
        damaged(10**9, *FACTOR, "offset"),
        damaged("no", *FACTOR, "steps", 0, "name"),
        damaged([None], *FACTOR, "steps", 0, "arguments"),
        damaged([math.inf], *FACTOR, "steps", 0, "arguments"),
        damaged([{"name": "log", "arguments": [2]}], *FACTOR, "steps"),
    ],
)
def test_json_that_is_no_template(text: str) -> None:
    with pytest.raises(ChainfoldError, match=r"\.$"):
        Template.from_json(text)
