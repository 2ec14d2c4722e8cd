"""The figures and the page of the paper's experiments: drawn from whatever results there are, and true to them."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from experiments.formatting import count, digits, duration, power, size, times
from experiments.paper import figures, series
from experiments.paper.figures import FIGURES, draw
from experiments.paper.report import TITLE, page
from experiments.paper.run_plan import EMP, FB, STREAM
from paper_results import BASE, LIMIT, point, sample

Result = dict[str, Any]


@pytest.fixture(scope="module")
def results() -> Result:
    return sample()


@pytest.fixture(scope="module")
def drawn(results: Result, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, str]]:
    """Each figure of the sample, and its SVG."""
    folder, made = tmp_path_factory.mktemp("figures"), {}

    def kept(name: str, make: Callable[[Result], Any], given: Result) -> Any:
        made[name] = make(given)
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        for name, make in FIGURES.items():
            patch.setitem(FIGURES, name, partial(kept, name, make))
        paths = draw(results, folder, formats=("svg",))
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in paths.values())
    return {name: (made[name], path.read_text()) for name, path in paths.items()}


@pytest.fixture(scope="module")
def pictures(drawn: dict[str, tuple[Any, str]]) -> dict[str, str]:
    return {name: text for name, (_, text) in drawn.items()}


@pytest.fixture(scope="module")
def shown(drawn: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    return {name: figure for name, (figure, _) in drawn.items()}


def words(figure: Any) -> list[str]:
    """Everything that is written in a figure."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def title(figure: Any) -> str:
    return str(figure.get_suptitle()).replace("\n", " ")


def prose(results: Result) -> str:
    """The page's text without its tags."""
    return re.sub(r"<[^>]*>", "", page(results, {}))


def test_every_figure_is_an_svg(pictures: dict[str, str]) -> None:
    assert list(pictures) == list(FIGURES)
    assert len(FIGURES) == 8
    for text in pictures.values():
        assert ElementTree.fromstring(text).tag.endswith("svg")


def test_png_too_and_always_the_same(tmp_path: Path) -> None:
    little = {"entropy": sample()["entropy"]}
    first: dict[str, bytes] = {}
    for _ in range(2):
        assert draw(little, tmp_path) == {"entropy": tmp_path / "entropy.svg"}
        found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert set(found) == {"entropy.svg", "entropy.png"}
        assert first in ({}, found)
        first = found
    assert first["entropy.png"].startswith(b"\x89PNG")


def scaling(*made: Result) -> Result:
    return {"scaling": {"points": list(made)}}


def failed(line: tuple[str, str], limit: int | None = None) -> Result:
    unmeasured: Result = {
        "outcome": "too large",
        "reason": "No room.",
        "seconds": [],
        "peak_rss": None,
        "before_rss": None,
    }
    return point("2-few", line, 1000, limit) | unmeasured


CHAIN = sample()["numerics"]["chains"][0]
NOTHING = {"log_z_error": [None], "count_error": [None], "status": ["overflow"]}
CERTIFIED, BOUND = sample()["certificate"]["chains"][0], sample()["certificate"]["bound"][0]
WEIGHT = sample()["weights"]["points"][0]

HOSTILE: dict[str, tuple[Result, set[str]]] = {
    "nothing": ({}, set()),
    "sections of nothing": (dict.fromkeys(sample()), set()),
    "empty lists": (
        {
            "scaling": {"points": []},
            "numerics": {"digits": 50, "chains": []},
            "weights": {"points": []},
            "certificate": {"tolerance": 1e-12, "chains": [], "bound": []},
            "entropy": {"exact": {}, "samples": [], "estimates": [], "errors": []},
            "verdicts": [],
            "tables": {},
        },
        set(),
    ),
    "one point": (scaling(point("2-few", STREAM, 1000)), {"cases", "settings"}),
    "another setting only": (scaling(point("5-many", STREAM, 1000)), {"settings"}),
    "nothing measured": (scaling(failed(FB), failed(EMP, LIMIT)), {"limit"}),
    "limited only": (scaling(point("2-few", EMP, 1000, LIMIT), failed(FB, LIMIT)), {"limit"}),
    "no memory, no time": (
        scaling(*(point("2-few", line, 1000) | {"peak_rss": None, "before_rss": None} for line in (FB, EMP)))
        | {"about": {"memory_limit": None}},
        {"cases", "settings"},
    ),
    "a clock that stood still": (scaling(point("2-few", FB, 9) | {"seconds": [0.0]}), set()),
    "numerics of one length, all broken": (
        {"numerics": {"chains": [CHAIN | {"lengths": [1], "methods": {"odd": NOTHING}, "breaks": {"odd": None}}]}},
        {"numerics"},
    ),
    "one weight point, one not measured": (
        {"weights": {"points": [WEIGHT, WEIGHT | {"engine": "stream", "nanoseconds": None, "peak_rss": None}]}},
        {"weights"},
    ),
    "never certified": (
        {
            "certificate": {
                "chains": [CERTIFIED | {"lookahead": [], "count": [], "mean": None, "median": None, "max": None}],
                "bound": [BOUND | {"worst_error": None, "median_error": None, "lookahead_mean": None}],
            }
        },
        {"certificate"},
    ),
    "bounds only": ({"certificate": {"tolerance": 1e-12, "bound": [BOUND]}}, {"certificate"}),
    "one sample": (
        {"entropy": {"exact": {"emp": 0.0}, "samples": [1], "estimates": [0.0], "errors": [0.0]}},
        {"entropy"},
    ),
    "no error of one sample": (
        {"entropy": {"exact": {"emp": 1.0}, "samples": [1], "estimates": [1.0], "errors": [None]}},
        set(),
    ),
}


@pytest.mark.parametrize(("given", "expected"), HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_missing_the_rest_is_shown(given: Result, expected: set[str], tmp_path: Path) -> None:
    drawn = draw(given, tmp_path, formats=("svg",))
    assert set(drawn) == expected
    assert Page(page(given, {name: path.read_text() for name, path in drawn.items()})).images == len(expected)


def test_odd_names_are_only_text(tmp_path: Path) -> None:
    odd = "<script>alert(1)</script> & $x_{$ \\frac --> \"'"
    cell = dict.fromkeys(("row", "column", "printed", "correct", "why"), odd) | {"formula": 3, "counted": 4}
    given = {
        "numerics": {"digits": 50, "chains": [CHAIN | {"name": odd, "title": odd}]},
        "certificate": {"chains": [CERTIFIED | {"setting": odd, "title": odd, "weights": odd}], "bound": []},
        "corpus": {"kind": odd, "title": odd, "file": odd},
        "about": {"machine": {"processor": odd}, "limit": {"sentence": odd}, "date": odd},
        "scaling": {"points": [failed(FB) | {"reason": odd}]},
        "verdicts": [{"case": odd, "claim": odd, "verdict": odd, "evidence": odd}],
        "entropy": sample()["entropy"] | {"title": odd},
        "tables": {"1": {"sizes": {odd: 3}, "columns": [odd], "rows": [odd], "cells": [cell], "asymptotic": []}},
    }
    drawn = {name: path.read_text() for name, path in draw(given, tmp_path, formats=("svg",)).items()}
    for text in drawn.values():
        ElementTree.fromstring(text)
    seen = Page(page(given, drawn))
    assert "script" not in seen.tags
    assert seen.text.count("<script>alert(1)</script>") >= 10


class Page(HTMLParser):
    """A page, which fails if it does not parse or asks for anything outside."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.images, self.text = 0, ""
        self.targets: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)
        self.close()
        assert self.open == []
        assert self.targets <= self.ids

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "br", "link"):
            self.open.append(tag)
        for name, given in attrs:
            value = given or ""
            assert not name.startswith("on"), "nothing runs"
            if name == "src":
                assert value.startswith("data:image/svg+xml;base64,")
                ElementTree.fromstring(base64.b64decode(value.partition(",")[2]))
                self.images += 1
            if name == "href":
                assert value.startswith("#")
                self.targets.add(value[1:])
            if name == "id":
                assert value not in self.ids
                self.ids.add(value)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone(results: Result, pictures: dict[str, str]) -> None:
    text = page(results, pictures)
    seen = Page(text)
    assert seen.images == len(FIGURES)
    assert len(text) < 6_000_000
    assert not {"script", "link", "iframe", "object"} & set(seen.tags)
    plain = re.sub(r"base64,[^\"]*", "", text)
    assert "default-src 'none'" in unescape(plain)
    assert not re.search(r"https?:|//\w|url\(|@import", plain)
    assert TITLE in seen.text
    for name in FIGURES:
        assert f"{name}.svg and {name}.png" in seen.text


def test_the_answer_comes_first(results: Result) -> None:
    text = prose(results)
    assert "Of 4 claims of the paper: 1 confirmed, 1 refuted, 1 in part, 1 not measured." in text
    places = [text.index(one["evidence"]) for one in results["verdicts"]]
    assert places == sorted(places)
    assert places[-1] < text.index("Machine and corpus: what differs")
    chips = re.findall(r'<span class="chip (\w+)">([^<]+)<', page(results, {}))
    assert chips == [("yes", "confirmed"), ("no", "refuted"), ("part", "in part"), ("none", "not measured")]


def test_our_own_claims_stand_apart(results: Result) -> None:
    own = {"case": "ours", "claim": "`stream` is <quick>.", "verdict": "confirmed", "evidence": "It took a second."}
    made = page(results | {"verdicts": [*results["verdicts"], own]}, {})
    assert "Of 4 claims of the paper: 1 confirmed" in made
    assert "<h3>And ours</h3>" in made
    assert "<code>stream</code> is &lt;quick&gt;." in made
    assert "<h3>And ours</h3>" not in page(results, {})


def test_tables_strike_out_what_is_wrong(results: Result) -> None:
    text = page(results, {})
    assert text.count('class="differs"') == 7
    assert "<s>NT</s> <b>NT+N</b> = 18" in text
    assert "<s>N²TA</s> <b>-</b>" in text
    assert '<td class="differs"><b>M</b> = 7' in text
    assert "N²TM+N²TA = 405" in text
    assert "T + 1 vectors" in text
    cell = {"row": "u", "column": "+", "printed": "N", "formula": 3, "counted": 0, "correct": None, "why": None}
    table = {"sizes": {"N": 3}, "columns": ["+"], "rows": ["u"], "cells": [cell], "asymptotic": []}
    assert '<td class="differs"><s>N</s> <b>?</b> = 0</td>' in page({"tables": {"1": table}}, {})


def test_sentences_say_what_was_measured(results: Result) -> None:
    text = prose(results)
    assert "Case I: at 25 million positions FB, in memory, took 30 s and 3.7 GB, and EMP, in memory, 45 s" in text
    assert "EMP is 1.5 times slower. EMP was faster at none of 7 lengths." in text
    assert "6.0 s and 208 MB at 50 million positions, where FB, in memory, took 60 s and 7.1 GB, 10 times" in text
    assert "Within 256 MB: FB, in memory, 2.6 µs a position at 3.74 million, 206 bytes moved; EMP, in memory" in text
    assert "What grows with the sequence was also held to 256 MB and 3.0 GB of memory." in text
    assert "It differs from the paging of a system: chunks" in text
    assert "2 labels, many attributes, time a position: FB 3.0 µs (at 494,021), EMP 405 µs (at 100,000)" in text
    assert "sum-product FB: overflow at 734 positions" in text
    assert "22 labels and 200,000 weights: EMP takes 2.9 s a position and stream 1.3 µs, at least 2.2 million" in text
    assert "within the tolerance, but for rounding, in 48 of 48 trials" in text
    assert "entropy semiring 182.3456789 nats" in text
    assert "too long: It would take about 90 s." in text


def test_a_case_in_which_emp_wins() -> None:
    slow = [point("2-few", FB, n) | {"seconds": [s]} for n, s in ((10, 1.0), (20, 9.0), (40, 20.0))]
    fast = [point("2-few", ("emp", "memory"), n) | {"seconds": [s]} for n, s in ((10, 2.0), (20, 3.0), (40, 5.0))]
    even = [point("2-few", (engine, "disk"), 10) | {"seconds": [1.0]} for engine in ("fb-log-spill", "emp")]
    text = prose(scaling(*slow, *fast, *even))
    assert "EMP is about as fast. EMP was not faster at the only length." in text
    assert "EMP is 4.0 times faster. EMP was faster at 2 of 3 lengths, first at 20 positions." in text
    assert "Case III: FB recomputing, from disk and EMP were not measured at the same length." in text


def test_without_a_limit_the_page_says_why() -> None:
    free = scaling(point("2-few", FB, 10)) | {"about": {"limit": {"sentence": "None could be set."}}}
    assert FIGURES["limit"](free) is None
    assert "None could be set." in prose(free)


def test_titles_say_only_what_is_so(shown: dict[str, Any]) -> None:
    assert title(shown["cases"]).startswith("FB's memory grows")
    assert title(shown["limit"]) == "Where FB's memory pages, EMP overtakes it: at 2.61 million positions within 256 MB"
    free = scaling(*(one | {"seconds": [1.0]} for one in sample()["scaling"]["points"] if one["engine"] != "emp"))
    assert (
        title(FIGURES["limit"](free)) == "Within 256 MB and 3.0 GB FB pages, and EMP does not overtake it on this disk"
    )
    assert title(shown["memory"]).endswith("to within 1.0 %")
    assert title(shown["numerics"]).startswith("sum-product FB and expectation semiring leave the range")
    assert title(shown["certificate"]).startswith("No error exceeds")
    assert title(shown["entropy"]).startswith("Sampling closes in")
    other = sample()
    for one in other["scaling"]["points"]:
        if (one["engine"], one["held"]) == EMP and one["peak_rss"]:
            one["peak_rss"] += 50 * one["positions"]
        if one["engine"] == "fb" and one["peak_rss"]:
            one["peak_rss"] *= 2
    for chain in other["numerics"]["chains"]:
        chain["breaks"] = {}
    other["certificate"]["bound"][0]["worst_error"] = 1.1 * other["certificate"]["bound"][0]["tolerance"]
    other["entropy"]["estimates"][-1] += 1.0
    assert title(FIGURES["cases"](other)) == "Time and memory against the length"
    assert title(FIGURES["memory"](other)) == "Memory a position, measured and predicted"
    assert title(FIGURES["numerics"](other)).startswith("How far each method")
    assert title(FIGURES["certificate"](other)).startswith("How far ahead")
    assert re.match(r"Sampling ends 9\.\d standard errors", title(FIGURES["entropy"](other)))
    assert "in 47 of 48 trials" in prose(other)


def test_what_could_not_be_measured_is_marked(shown: dict[str, Any]) -> None:
    limited = words(shown["limit"])
    assert limited.count("too long") == 2
    assert "FB fills it at 1.87 million" in limited
    assert "FB fills it at 21.9 million" in limited
    assert "FB recomputing fills it at 33.7 million" in limited
    broken = words(shown["numerics"])
    assert broken.count("overflow at T = 734") == 2
    assert "EMP: too long" in words(shown["settings"])
    assert "at least 500,000 ×" in words(shown["weights"])


def curve(axes: Any, colour: str, full: bool = True) -> list[tuple[float, float]]:
    """The points of the line in that colour, its markers full or open."""
    (line,) = (
        line
        for line in axes.get_lines()
        if line.get_color() == colour and line.get_marker() == "o" and (line.get_markerfacecolor() == colour) == full
    )
    return list(zip(*line.get_data(), strict=True))


def test_lines_are_where_the_numbers_are(shown: dict[str, Any]) -> None:
    above, below = shown["cases"].axes[0], shown["cases"].axes[3]
    colour = figures.LOOKS["fb-log"].colour
    assert curve(above, colour)[0] == pytest.approx((100_000, 0.12))
    assert curve(below, colour)[-1] == (50_000_000, BASE + 8_000_000 + int(1.01 * 137 * 50_000_000))
    (dotted,) = (line for line in below.get_lines() if line.get_linestyle() == ":")
    assert dotted.get_ydata()[-1] == pytest.approx(BASE + 137 * 50_000_000)
    rates = curve(shown["settings"].axes[0], figures.LOOKS["stream"].colour)
    assert all(height == pytest.approx(0.1e-6) for _, height in rates)
    steps = shown["certificate"].axes[0].get_lines()
    assert [line.get_ydata()[-1] for line in steps] == pytest.approx([100.0] * 7 + [99.94], abs=0.05)


def test_bars_go_from_least_to_most() -> None:
    seconds = [4.0, 1.0, 3.0]
    axes = FIGURES["cases"](scaling(point("2-few", FB, 10) | {"seconds": seconds})).axes[0]
    (bar,) = (part for container in axes.containers for part in container[2] if len(part.get_segments()))
    assert [y for _, y in bar.get_segments()[0]] == pytest.approx([1.0, 4.0])
    assert curve(axes, figures.LOOKS["fb-log"].colour) == [(10, 3.0)]


def test_growth_and_reach() -> None:
    made = [point("2-few", FB, n) for n in (1, 1000, 2000, 3000)]
    made[0]["peak_rss"] = 10**12  # in the shorter half
    found = series.slopes(scaling(*made))
    assert found[FB] == pytest.approx((1.01 * 137, 137), abs=0.01)
    given = scaling(*made) | {"about": {"memory_limit": LIMIT}}
    given["corpus"] = {"settings": {"2-few": {"bytes_a_position": 73.0}}}
    assert series.baseline(given) == BASE
    assert series.reach(given, FB, LIMIT) == pytest.approx(LIMIT / 137)
    assert series.reach(given, EMP, LIMIT) is None
    assert series.limits(scaling(point("2-few", FB, 9, 64), *made, point("2-few", FB, 9, 8))) == [8, 64]


@pytest.mark.parametrize(
    ("said", "number", "text"),
    [
        (count, 494_021, "494,021"),
        (count, 4_898_405, "4.9 million"),
        (count, 1.2e9, "1.2 billion"),
        (size, 3e9, "3.0 GB"),
        (size, 0, "0 bytes"),
        (size, 214_300_000, "214 MB"),
        (size, 999_700, "1.0 MB"),
        (duration, 1.8e-6, "1.8 µs"),
        (duration, 1.2e-7, "120 ns"),
        (duration, 0.9999, "1.0 s"),
        (duration, 93.4, "93 s"),
        (duration, 0.0, "0 ns"),
        (power, 1e-12, "10⁻¹²"),
        (power, 3.04e-13, "3.0·10⁻¹³"),
        (power, 0.0, "0"),
        (power, 1.0, "10⁰"),
        (times, 1.52, "1.5"),
        (times, 9123.0, "9,100"),
        (times, 2_200_055.0, "2.2 million"),
        (digits, 9.96, "10"),
        (digits, -12.34, "-12"),
    ],
)
def test_numbers_for_people(said: Callable[[float], str], number: float, text: str) -> None:
    assert said(number) == text
