"""Regular expressions of templates: what Python's `re` finds, in linear time, and one sentence for what is left out."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainfold.errors import ChainfoldError
from chainfold.features.regex import LONGEST, _Expression, _read, check_expression, matched, occurs
from chainfold.features.template import Template, parse_attributes, parse_template

pytestmark = pytest.mark.quick

TEXTS = [
    *("", "a", "b", "ab", "aab", "abab", "Chain", "CHAIN", "U.S.", "1,234.5", "don't", "a_b", "x-y-z", "[a+]", "{2}"),
    *(
        "a b\tc",
        "a\nb",
        " lead",
        "\x1c",
        "\x00",
        "über",
        "ÉCOLE",
        "école",
        "ΣΊΣΥΦΟΣ",
        "σίσυφος",
        "٣٤",
        "数字",
        "½",
        "ⅷ",
    ),
    *("naïve café", "e\u0301", "a\u00a0b", "\u2028", "🙂", "Straße", "k\u212a", "ſs", "::alpha::]", "e-mail@x.org"),
    *("İstanbul", "ıssız", "éfoo", "foo é_b", "_", "__", "_é_", "ü-b", "aü b", "東京 tower", "x́y", "ΐ", "ﬅ", "𝟘"),
]
PATTERNS = [
    *(
        "",
        "a",
        "a*",
        "a+?b",
        "(a|ab)(b|)",
        "(?P<found>a)b",
        "(?P<x>a)|b",
        "^",
        "^a|b",
        "a|",
        "(|a)+",
        "(a*)*",
        "(a|b)*?b",
    ),
    *(
        r"\d",
        r"\D+",
        r"\w+",
        r"\W+",
        r"\s",
        r"\S+",
        r"[\w.]+",
        r"[^\w]",
        r"[\W\d]+",
        r"[^\Wa]+",
        r"[\S\t]+",
        r"[^\S ]",
        ".",
    ),
    *(r"[\D]", r"[^\D]", r"(?a)\w+", r"(?a)\s+", r"(?a:\w)\W", r"(?a)[^\s]+", r"(?i)[a-z]+", "(?i)école", "(?i)straße"),
    *(
        "(?i)σ",
        "(?i)[^a]+",
        r"(?i)\w+",
        r"(?i)\W",
        "(?i:c)H",
        "(?i)(?-i:c)h",
        "(?s).+",
        "(?m)^b",
        "(?m)a$",
        "(?x) a  b # no",
    ),
    *(
        "a{2}",
        "a{,2}b",
        "a{1,}",
        "(ab){2,3}?",
        "a{",
        r"\{2}",
        "a{x}",
        "[[:alpha:]]",
        "[]a]",
        "[a-]",
        r"[\]\[]",
        r"[\b]",
    ),
    *(
        r"\x41|\u00fc",
        r"\n",
        r"\t",
        r"\.",
        r"\A\w",
        "^[A-Z][a-z]*",
        "[0-9]+(,[0-9]{3})*",
        r"[^\x00-\x7f]",
        "\x00",
        "🙂|½",
        "-",
    ),
    *(
        r"\bü",
        r"\bfoo\b",
        r"\b\w+\b",
        r"\w\b",
        r"\b",
        r"\b.",
        r"\b[^a]",
        r"(?:\b|x)_",
        r"_\b",
        r"(?i)\bÉ",
        r"(?m)^\b.+\b$",
        r"(?s)\b.+",
        r"\b(\w+-?)+\b",
        r"(?a)\bb",
        r"(?a)\w\b.",
    ),
    *("(?i)i", "(?i)İ", "(?i)ı+", "(?i)[h-j]", "(?i)[^h-j]", "(?i)ΐ", "(?i)ﬆ", "(?i)[à-ö]+", "(?ia)[k-s]+", "(?i)[İ]"),
    *("[^é-ü]+", "[\ud7ff\ue000]|a", "[b-\U0010ffff]+", "[^\U0010ffff]", "[\x80-\U0010fffe]"),
]


@contextmanager
def re2_alone() -> Iterator[None]:
    """As for many texts, or long ones: `re` is not asked."""
    with patch.object(_Expression, "harmless", return_value=False):
        yield


def expected(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return None if found is None else found[0]


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.parametrize("texts", [TEXTS, [text for text in TEXTS if text.isascii()]], ids=["all", "ascii"])
def test_what_python_finds_is_found(texts: list[str]) -> None:
    for pattern in PATTERNS:
        check_expression(pattern)
        wanted = [expected(pattern, text) for text in texts]
        assert matched(pattern, texts) == [one or "" for one in wanted], pattern
        assert occurs(pattern, texts) == [one is not None for one in wanted], pattern
        for text, one in zip(texts, wanted, strict=True):
            assert matched(pattern, [text]) == [one or ""], (pattern, text)
            assert occurs(pattern, [text]) == [one is not None], (pattern, text)
        with re2_alone():
            assert matched(pattern, texts) == [one or "" for one in wanted], pattern
            assert occurs(pattern, texts) == [one is not None for one in wanted], pattern


def test_no_border_of_words_is_in_an_empty_text_too() -> None:
    assert occurs(r"\B", ["", "a", "ab", "éa"]) == [True, False, True, True]
    assert occurs(r"\B", [""] * 1000) == [True] * 1000
    assert matched(r"\B\w+", ["éab", "a", "-é"]) == ["ab", "", ""]


@pytest.mark.parametrize("pattern", [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"(?a)\W", r"(?i)[^\W_]", r"\b", "."])
def test_classes_have_pythons_characters(pattern: str) -> None:
    some = [*range(0x3000), *range(0x3000, 0xD800, 17), *range(0xE000, sys.maxunicode, 17)]
    texts = list(map(chr, some))
    search = re.compile(pattern).search
    assert occurs(pattern, texts) == [search(text) is not None for text in texts]


def test_letters_of_either_case_are_pythons() -> None:
    cased = [
        letter for letter in map(chr, range(sys.maxunicode + 1)) if letter.lower() != letter or letter.upper() != letter
    ]
    for letter in [*"iIkKsSßẞſµμσςıİΐΐﬅﬆåÅθϴǅꭰᲀ", *cased[::400]]:
        for pattern in (f"(?i){letter}", f"(?i)[{letter}]", f"(?i)[^{letter}]", f"(?ia){letter}"):
            assert occurs(pattern, cased) == [re.search(pattern, text) is not None for text in cased], pattern


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [r"\b.{998}", r"\b[^a]{998}", r"\b\w{90}", r"\b\W{90}", r"(?i)\b[\W\d]{47}"])
def test_the_largest_expressions_are_small_enough_for_re2(pattern: str) -> None:
    check_expression(pattern)
    some = [*range(0xD800), *range(0xE000, 0x20000)]
    texts = ["".join(map(chr, some[low : low + 200])) for low in range(0, len(some), 200)]
    assert occurs(pattern, texts) == [re.search(pattern, text) is not None for text in texts]


def test_the_end_is_the_very_end() -> None:
    for times in (1, 100):
        assert occurs("b$", ["ab", "ab\n", "abc"] * times) == [True, False, False] * times
        assert occurs("(?m)b$", ["ab", "ab\n", "b\nc"] * times) == [True, True, True] * times


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


def may_be_empty(pattern: str) -> bool:
    """Is something repeated that can be nothing? There engines differ in when they stop."""
    return any(re.fullmatch(part, "") for part in _repeated(pattern))


def _repeated(pattern: str) -> list[str]:
    parts, opened = [], []
    for at, letter in enumerate(pattern):
        if letter == "(":
            opened.append(at)
        elif letter == ")":
            begin = opened.pop()
            if pattern[at + 1 : at + 2] in ("*", "+", "{", "?"):
                parts.append(pattern[begin : at + 1])
    return parts


@given(expressions, st.lists(st.text("abyé1_ \n-", max_size=8), min_size=1, max_size=4))
def test_any_expression_of_the_common_ones(pattern: str, texts: list[str]) -> None:
    wanted = [expected(pattern, text) for text in texts]
    assert occurs(pattern, texts) == [one is not None for one in wanted]
    with re2_alone():
        assert occurs(pattern, texts) == [one is not None for one in wanted]
    if not may_be_empty(pattern):
        assert matched(pattern, texts) == [one or "" for one in wanted]
        with re2_alone():
            assert matched(pattern, texts) == [one or "" for one in wanted]


@given(expressions, st.text("abyé1_ \n-", max_size=8))
def test_many_texts_have_the_answers_of_few(pattern: str, text: str) -> None:
    assert matched(pattern, [text]) == matched(pattern, [text] * 65)[:1]
    with re2_alone():
        assert matched(pattern, [text, "é" * 70]) == [*matched(pattern, [text]), *matched(pattern, ["é" * 70])]


COMMON = [
    r"^[A-Z]",
    r"\w+ing$",
    r"\d",
    r"[^\w\s]",
    r"(?i)^[a-z]+$",
    r"\bfoo\b",
    "^[0-9]+([.,][0-9]+)?$",
    "a|b|c",
    ".{3}$",
]


@pytest.mark.parametrize("pattern", COMMON)
def test_few_short_texts_are_no_work_for_re2(pattern: str) -> None:
    with patch("chainfold.features.regex.pc", None):
        assert occurs(pattern, ["Fooing", "ü" * 16]) == [
            re.search(pattern, text) is not None for text in ("Fooing", "ü" * 16)
        ]


HOSTILE = [
    "^(a+)+$",
    "(a|a)*b",
    "(a*)*b",
    "a*a*a*a*a*a*a*b",
    "(a?){40}a{40}b",
    "(a|aa)+$",
    r"\b(\w+-?)+\b!",
    "(.{1,9}){1,9}b",
]


@pytest.mark.parametrize("pattern", [*HOSTILE, "(?:a?b?)*c", "(a{1,30}){1,30}b", "(a+?)+?b", "(?i)((A|a)+)+b"])
@pytest.mark.parametrize("letter", ["a", "á"])
def test_no_short_text_takes_long(pattern: str, letter: str) -> None:
    begun = time.perf_counter()
    for size in range(70):
        occurs(pattern, ["a" * size + letter])
    assert time.perf_counter() - begun < 2.0
    assert not _read(pattern).harmless(["a" * 30])


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*=(.*)*,", "a*a*a*a*a*a*a*b", "(x+x+)+y"])
def test_nothing_takes_longer_than_its_text_is_long(pattern: str) -> None:
    begun = time.perf_counter()
    assert occurs(pattern, ["a" * 50_000 + "!", "x" * 50_000]) == [False, False]
    assert matched(pattern, ["a" * 50_000 + "!"]) == [""]
    assert time.perf_counter() - begun < 2.0


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("(?=a)", "looks ahead or behind; this is not supported"),
        ("(?<!a)b", "looks ahead or behind"),
        ("a(?!)", "looks ahead or behind"),
        (r"(a)\1", "refers back to a group"),
        ("(a)?(?(1)b|c)", "refers back to a group"),
        ("(?>a*)b", "has an atomic group"),
        ("a*+b", "has a possessive repetition"),
        (r"(?a:\b)a\b", "has borders of words, \\b or \\B, with the flag (?a) and without; take one of the two"),
        ("(?i)[\x80-\U0010ffff\x81-\U0010ffff]", "has 1311 parts"),
        ("a{1001}", "has 1001 parts with its repetitions written out; the limit is 1000"),
        ("((a{20}){20}){20}", "has 8000 parts"),
        (r"\w{200}", "has 2200 parts"),
        ("(?:){5000}", "has 5000 parts"),
        ("(", "cannot be read: missing"),
        ("a**", "cannot be read: multiple repeat"),
        ("a{99999999999}", "cannot be read: the repetition number is too large"),
        ("(" * 480 + ")" * 480, "is nested too deeply"),
        ("a" * (LONGEST + 1), f"has {LONGEST + 1} characters; the limit is {LONGEST}"),
    ],
)
def test_what_is_left_out_is_one_sentence(pattern: str, sentence: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(ChainfoldError, match=re.escape(sentence)) as caught:
        parse_attributes(f'test(0,"{pattern}")')
    assert str(caught.value).endswith(".")
    assert time.perf_counter() - begun < 1.0


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
