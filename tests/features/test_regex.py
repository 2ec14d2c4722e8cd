"""Regular expressions of templates: what Python's `re` finds, and one sentence for those that could take hours."""

from __future__ import annotations

import re
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainfold as cf
from chainfold.errors import BadFile, ChainfoldError
from chainfold.features import functions
from chainfold.features.regex import LONGEST, check_expression, expression
from chainfold.features.template import Template, parse_attributes, parse_template

pytestmark = pytest.mark.quick

_TEXTS = r"""
a b ab aab abab Chain CHAIN U.S. 1,234.5 don't a_b x-y-z [a+] {2} über ÉCOLE école ΣΊΣΥΦΟΣ σίσυφος ٣٤ 数字 ½ ⅷ é
🙂 Straße kK ſs ::alpha::] e-mail@x.org İstanbul ıssız éfoo _ __ _é_ ü-b x́y ΐ ﬅ 𝟘
"""
_SPACED = [
    "",
    "a b\tc",
    "a\nb",
    " lead",
    "\x1c",
    "\x00",
    "naïve café",
    "a\xa0b",
    "\u2028",
    "foo é_b",
    "aü b",
    "東京 tower",
]
TEXTS = [*_TEXTS.split(), *_SPACED]
_PATTERNS = r"""
a a* a+?b (a|ab)(b|) (?P<found>a)b (?P<x>a)|b ^ ^a|b a| \d \D+ \w+ \W+ \s \S+ [\w.]+ [^\w] [\W\d]+ [^\Wa]+
[\S\t]+ . [\D] [^\D] (?a)\w+ (?a)\s+ (?a:\w)\W (?a)[^\s]+ (?i)[a-z]+ (?i)école (?i)straße (?i)σ (?i)[^a]+
(?i)\w+ (?i)\W (?i:c)H (?i)(?-i:c)h (?s).+ a{2} a{,2}b a{1,} (ab){2,3}? a{ \{2} a{x} [[:alpha:]] []a] [a-]
[\]\[] [\b] \x41|\u00fc \n \t \. \A\w ^[A-Z][a-z]* [0-9]+(,[0-9]{3})* [^\x00-\x7f] 🙂|½ - \bü \bfoo\b \b\w+\b
\w\b \b \b. \b[^a] (?:\b|x)_ _\b (?i)\bÉ (?s)\b.+ (?a)\bb (?a)\w\b. (?i)i (?i)İ (?i)ı+ (?i)[h-j] (?i)[^h-j]
(?i)ΐ (?i)ﬆ (?i)[à-ö]+ (?ia)[k-s]+ (?i)[İ] [^é-ü]+
"""
_ODD = ["", "[^\\S ]", "\x00", "[\ud7ff\ue000]|a", "[b-\U0010ffff]+", "[^\U0010ffff]", "[\x80-\U0010fffe]"]
PATTERNS = [*_PATTERNS.split(), *_ODD]


def expected(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return None if found is None else found[0]


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_what_python_finds_is_found() -> None:
    for pattern in PATTERNS:
        check_expression(pattern)
        wanted = [expected(pattern, text) for text in TEXTS]
        assert functions.matches(TEXTS, pattern) == [one or "" for one in wanted], pattern
        assert functions.tests(TEXTS, pattern) == ["false" if one is None else "true" for one in wanted], pattern


def test_no_border_of_words_is_in_an_empty_text_too() -> None:
    assert functions.tests(["", "a", "ab", "éa"], r"\B") == ["true", "false", "true", "true"]
    assert functions.matches(["éab", "a", "-é"], r"\B\w+") == ["ab", "", ""]


def test_the_end_is_the_very_end() -> None:
    assert functions.tests(["ab", "ab\n", "abc"], "b$") == ["true", "false", "false"]
    assert functions.tests(["b$", "b", "b\n"], r"b[$]|b\$") == ["true", "false", "false"]


atoms = st.sampled_from(
    ["a", "b", "é", ".", r"\d", r"\w", r"\W", r"\s", "[ab]", "[^a]", "[a-y1]", "[^é]", "(?i:É)", "^", r"\b", ""]
)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


@given(expressions, st.lists(st.text("abyé1_ -", max_size=8), min_size=1, max_size=4))
def test_an_expression_is_pythons_or_refused(pattern: str, texts: list[str]) -> None:
    try:
        check_expression(pattern)
    except ChainfoldError:
        assert re.search(r"[*+?}|]", pattern)
        return
    wanted = [expected(pattern, text) for text in texts]
    assert functions.tests(texts, pattern) == ["false" if one is None else "true" for one in wanted]
    assert functions.matches(texts, pattern) == [one or "" for one in wanted]


HOSTILE = [
    "^(a+)+$",
    "(a|a)*b",
    "(a*)*b",
    "a*a*a*b",
    "(a?){40}a{40}b",
    "a?" * 40 + "a" * 40,
    "(a|a)" * 40 + "b",
    "(a|aa)+$",
    r"\b(\w+-?)+\b!",
    "(.{1,9}){1,9}b",
    "a{0,30}" * 6 + "b",
    "(((a{99}){99}){99}){99}",
    "(?i)((A|a)+)+b",
    "(?P<x>(?:(?s:a*)))+b",
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_what_could_take_hours_is_refused(pattern: str) -> None:
    with pytest.raises(ChainfoldError, match=r"in a repeat can take forever|unbounded repeats|could take hours"):
        check_expression(pattern)


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        (r"^\w$", 65_536),
        (r"\d", 65_536),
        (r"\w+ing$", 65_536),
        (r"https?://(www\.)?[a-z]+", 46_340),
        (r"[0-9]{1,3}(,[0-9]{3})*", 30_893),
        (r"\w+@\w+", 2953),
        ("a?a?a?a?a*a*b", 1172),
    ],
)
def test_the_more_choices_the_shorter_the_text(pattern: str, longest: int) -> None:
    assert expression(pattern).longest == longest
    begun = time.perf_counter()
    assert bool(expression(pattern).search("a" * 300)) == bool(re.search(pattern, "a" * 300))
    assert time.perf_counter() - begun < 2.0


def test_a_text_that_is_too_long_is_named_by_its_row() -> None:
    table = pa.table({"w": ["x", "a" * 3000, "y"], "l": ["A", "B", "A"]})
    options: dict[str, Any] = {"attributes": 'test(w,"a+a+b")'}
    with pytest.raises(BadFile, match=r"the table: row 2, column 'w': a text of 3,000 characters.* search 2,953;.*\.$"):
        cf.chain_from_table(table, **options)
    options["attributes"] = 'test(prefix(w,2953),"a+a+b")'
    assert cf.chain_from_table(table.slice(0, 1), **options).positions == 1


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(?=a)", "(?= is not supported, nor are look-around"),
        ("(?<!a)b", "(?<"),
        (r"(a)\1", r"\1 is not supported"),
        ("(a)?(?(1)b|c)", "(?( is not supported"),
        ("(?>a*)b", "(?> is not supported"),
        ("a*+b", "*+ is not supported"),
        ("a{2}+b", "{2}+ is not supported"),
        ("(?x)a #(", "(?x) is not supported"),
        ("(?sm:a$)", "(?sm: is not supported"),
        ("(", "cannot be used: missing"),
        ("a**", "cannot be used: multiple repeat"),
        ("a{99999999999}", "cannot be used: the repetition number is too large"),
        ("(" * 480 + ")" * 480, "is nested too deeply"),
        ("a" * (LONGEST + 1), f"has {LONGEST + 1} characters; the limit is {LONGEST}"),
    ],
)
def test_what_is_left_out_is_one_sentence(pattern: str, sentence: str) -> None:
    with pytest.raises(ChainfoldError, match=re.escape(sentence)) as caught:
        parse_attributes(f'test(0,"{pattern}")')
    assert str(caught.value).endswith(".")


def test_a_template_has_so_many_expressions_at_most() -> None:
    many = parse_attributes(" ".join(f'test(0,"a{k}")' for k in range(1000)))
    with pytest.raises(ChainfoldError, match="1001 regular expressions; the limit is 1000"):
        Template((*many.features, *parse_attributes('test(0,"b")').features), many.border)


@pytest.mark.parametrize(
    "line",
    ["U:%x[" + " " * 100_000, "U:%x[0,0" + " " * 100_000, 'U:%t[0,0,"' + "\\a" * 100_000, "U:" + "%x[0,0]" * 20_000],
)
def test_templates_are_read_in_linear_time(line: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(ChainfoldError) as caught:
        parse_template(line + "%", "template")
    assert len(str(caught.value)) < 300
    assert time.perf_counter() - begun < 1.0


def test_numbers_of_any_length_are_no_traceback() -> None:
    with pytest.raises(ChainfoldError, match="cannot read"):
        parse_template(f"U:%x[0,{'9' * 5000}]", "template")
    assert parse_attributes("9" * 5000).features[0].columns == ("9" * 5000,)
