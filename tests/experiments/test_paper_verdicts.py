"""Verdicts on the paper's claims: each is decided by the numbers that it is about, and by no others."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.paper import counting
from experiments.paper.verdicts import CONFIRMED, IN_PART, REFUTED, UNKNOWN, crossing, exponent, verdicts
from paper_results import LINES, Result, point, scaling, stored

FB, EMP, STREAM = ("fb-log", "memory"), ("emp", "memory"), ("stream", "disk")
LENGTHS = (1_000_000, 2_000_000, 4_000_000)


def line(engine: str, held: str, limit: int | None = None, **changed: Any) -> list[Result]:
    return [point((engine, held), positions, limit) | changed for positions in LENGTHS]


def said(results: Result, claim: str) -> Result:
    (found,) = (one for one in verdicts(results) if claim in one["claim"])
    return found


def slower(points: list[Result], *factors: float) -> list[Result]:
    return [one | {"seconds": [factor]} for one, factor in zip(points, factors, strict=True)]


def test_all_claims_are_judged_with_evidence() -> None:
    found = verdicts(stored())
    assert {one["case"] for one in found} == {"Tables", "I", "II", "III", "IV", "text", "ours"}
    assert all(one["verdict"] in (CONFIRMED, REFUTED, IN_PART) for one in found)
    assert all(one["evidence"].endswith(".") and "nan" not in one["evidence"] for one in found)


def test_nothing_measured_is_nothing_claimed() -> None:
    for results in ({}, scaling()):
        assert {one["verdict"] for one in verdicts(results) if one["case"] != "Tables"} == {UNKNOWN}


@pytest.mark.parametrize(
    ("grown", "verdict"), [(137.0, CONFIRMED), (137.0 * 1.14, CONFIRMED), (137.0 * 1.16, REFUTED), (100.0, REFUTED)]
)
def test_fb_grows_as_predicted_within_fifteen_percent(grown: float, verdict: str) -> None:
    fb = [one | {"peak_rss": int(2e8 + grown * one["positions"])} for one in line(*FB)]
    assert said(scaling(*fb, *line(*EMP)), "grow linearly")["verdict"] == verdict


@pytest.mark.parametrize(("grown", "verdict"), [(0.0, CONFIRMED), (1.9, CONFIRMED), (2.1, REFUTED)])
def test_flat_is_less_than_two_bytes_a_position(grown: float, verdict: str) -> None:
    stream = [one | {"peak_rss": int(2e8 + grown * one["positions"])} for one in line(*STREAM)]
    assert said(scaling(*stream), "memory of `stream`")["verdict"] == verdict


@pytest.mark.parametrize(
    ("emp", "verdict"), [((2, 2, 2), CONFIRMED), ((2, 0.5, 2), IN_PART), ((0.5, 0.5, 0.5), REFUTED)]
)
def test_the_quicker_one_is_quicker_at_every_length(emp: tuple[float, ...], verdict: str) -> None:
    results = scaling(*slower(line(*FB), 1, 1, 1), *slower(line(*EMP), *emp))
    assert said(results, "FB is quicker than EMP")["verdict"] == verdict


def test_where_lines_cross() -> None:
    fb, emp = slower(line(*FB), 1, 2, 12), slower(line(*EMP), 2, 4, 8)
    assert crossing(fb, emp) == pytest.approx(2_000_000 * 2 ** ((1 - 0.5) / (1.5 - 0.5)))
    assert crossing(emp, emp) is None
    assert crossing(slower(emp, 3, 6, 13), fb) == 1_000_000
    assert crossing(fb[:1], emp) is None
    assert crossing([], emp) is None
    once = slower(line(*FB), 3, 2, 4), slower(line(*EMP), 2, 4, 8)
    assert crossing(*once) is None, "it did not last"


def test_overtaking_needs_a_limit_to_be_judged() -> None:
    free = [*slower(line(*FB), 1, 2, 4), *slower(line(*EMP), 2, 4, 8)]
    found = said(scaling(*free), "bends upwards")
    assert found["verdict"] == UNKNOWN
    assert "Nothing was run under a memory limit." in found["evidence"]
    limit = 10**8
    paged = [*slower(line(*FB, limit), 1, 2.6, 20), *slower(line(*EMP, limit), 2, 4, 8)]
    found = said(scaling(*free, *paged), "bends upwards")
    assert found["verdict"] == CONFIRMED
    assert "Within 100 MB, which FB fills at 729,927 positions: 5.0 times as long a position at 4" in found["evidence"]
    assert "million as at 1 million, with 336 bytes a position to and from the disk;" in found["evidence"]
    assert "its time bends at 2 million; EMP overtakes at 2.28 million." in found["evidence"]
    bent = [*slower(line(*FB, limit), 1, 2.6, 6), *slower(line(*EMP, limit), 2, 4, 8)]
    found = said(scaling(*free, *bent), "bends upwards")
    assert found["verdict"] == IN_PART
    assert "; EMP does not overtake." in found["evidence"]
    second = [one | {"engine": "fb-log-recompute"} if one["engine"] == "fb-log" else one for one in (*free, *bent)]
    assert said(scaling(*second), "recomputes its matrices")["verdict"] == REFUTED, "a bend is not claimed there"
    other = [one | {"limit": 10 * limit} for one in bent]
    assert said(scaling(*free, *paged, *other), "bends upwards")["verdict"] == IN_PART, "under every limit, or in part"
    even = [*slower(line(*FB, limit), 1, 2, 4), *slower(line(*EMP, limit), 2, 4, 8)]
    found = said(scaling(*free, *even), "bends upwards")
    assert found["verdict"] == REFUTED
    assert "its time does not bend; EMP does not overtake." in found["evidence"]
    unpaged = [one | {"dropped": 0} for one in bent]
    assert said(scaling(*free, *unpaged), "bends upwards")["verdict"] == REFUTED, "it was not for paging"


def test_how_slow_a_disk_would_have_to_be() -> None:
    moves = {"cpu_seconds": 1.0, "disk_read": 3 * 10**8, "disk_written": 10**8, "dropped": 10**8}
    fb = [one | moves for one in slower(line(*FB, 10**8), 1, 2, 4)]
    emp = [one | {"cpu_seconds": 3.0, "disk_read": 0, "disk_written": 0} for one in slower(line(*EMP, 10**8), 2, 4, 8)]
    found = said(scaling(*fb, *emp), "bends upwards")
    assert "with 100 bytes a position to and from the disk" in found["evidence"]
    assert "a disk of 200 MB a second would make them even at 4 million positions." in found["evidence"]
    assert found["evidence"].endswith(
        "With one of 100 MB a second EMP would overtake: within 100 MB from the shortest on."
    )
    there = [fb[0] | {"disk_read": 0, "disk_written": 0}, *fb[1:]]
    assert "would overtake: within 100 MB at 1.41 million." in said(scaling(*there, *emp), "bends upwards")["evidence"]
    fast = [one | {"cpu_seconds": 0.5} for one in emp]
    assert "a second" not in said(scaling(*fb, *fast), "bends upwards")["evidence"], "nothing could make it even"


def test_an_exponent_is_that_of_the_labels() -> None:
    rows: list[Result] = [
        {"engine": engine, "labels": n, "weights": 20 * n, "nanoseconds": 20 * n * 7.0 * n**power if n > 2 else 1.0}
        for engine, power in (("emp", 2), ("forward-only", 3))
        for n in (2, 4, 8, 16)
    ]
    results = {"weights": {"labels": rows}}
    assert exponent(results, "emp") == pytest.approx(2.0)
    assert exponent(results, "forward-only") == pytest.approx(3.0)
    assert exponent(results, "stream") is None
    found = said(results, "forward-only")
    assert found["verdict"] == IN_PART, "the forward-only algorithm here takes a power less"
    assert "N^2.00" in found["evidence"]
    assert "N^3.00" in found["evidence"]
    for row in rows:
        row["nanoseconds"] *= row["labels"] if row["engine"] == "forward-only" else 1
    assert said(results, "forward-only")["verdict"] == CONFIRMED
    for row in rows:
        row["nanoseconds"] *= row["labels"]
    assert said(results, "forward-only")["verdict"] == REFUTED


def test_a_broken_bound_refutes() -> None:
    row = {"tolerance": 1e-6, "worst_error": 9e-7}
    assert said({"certificate": {"bound": [row]}}, "certificate's bound")["verdict"] == CONFIRMED
    bad = [row, row | {"worst_error": 1.1e-6}, row | {"worst_error": None}]
    found = said({"certificate": {"bound": bad}}, "certificate's bound")
    assert found["verdict"] == REFUTED
    assert found["evidence"].startswith("1 of 2 ")


def test_a_cell_without_a_reason_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said({}, "Tables 1 and 2")["verdict"] == IN_PART
    monkeypatch.delitem(counting.EXPLAINED, (1, "α", "registers"))
    found = said({}, "Tables 1 and 2")
    assert found["verdict"] == REFUTED
    assert "1 differences are not explained" in found["evidence"]


def test_range_and_entropy() -> None:
    results = stored()
    chain = results["numerics"]["chains"][2]
    found = said(results, "plain expectation")
    assert found["verdict"] == IN_PART, "one of the two held"
    assert "balanced weights, sum-product FB: overflow at 10,241" in found["evidence"]
    assert "the expectation semiring with balanced weights" in found["evidence"]
    chain["breaks"]["expectation semiring"] = {"length": 9, "how": "overflow"}
    assert said(results, "plain expectation")["verdict"] == CONFIRMED
    chain["methods"]["emp"]["status"][-1] = "overflow"
    assert said(results, "plain expectation")["verdict"] == REFUTED
    entropy = results["entropy"]
    assert said(results, "entropy")["verdict"] == CONFIRMED
    entropy["estimates"][-1] = entropy["exact"]["entropy semiring"] + 5 * entropy["errors"][-1]
    assert said(results, "entropy")["verdict"] == REFUTED


def test_one_length_does_not_tell_whether_memory_grows() -> None:
    found = said(scaling(line(*STREAM)[0]), "memory of `stream`")
    assert found["verdict"] == UNKNOWN
    everything = [point(where, 1000) for where in LINES]
    assert not [one for one in verdicts(scaling(*everything)) if one["case"] == "IV" and "memory" in one["claim"]][1:]


def test_from_disk_the_limit_decides_where_there_is_one() -> None:
    fb, emp = ("fb-log-recompute", "disk"), ("emp", "disk")
    free = [*slower(line(*fb), 1, 2, 4), *slower(line(*emp), 2, 4, 8)]
    found = said(scaling(*free), "makes EMP faster")
    assert found["verdict"] == REFUTED
    assert "do not cross" in found["evidence"]
    assert "memory enough" in found["evidence"]
    held = [*slower(line(*fb, 10**9), 4, 8, 16), *slower(line(*emp, 10**9), 2, 4, 8)]
    found = said(scaling(*free, *held), "makes EMP faster")
    assert found["verdict"] == CONFIRMED
    assert "cross at 1 million" in found["evidence"]
    assert "Both read past the cache, within the memory limits." in found["evidence"]
    assert "FB has 2.0 times as many bytes from the disk as EMP" in said(scaling(*free, *held), "twice")["evidence"]
    other = [one | {"limit": 10**8} for one in (*slower(line(*fb), 1, 2, 4), *slower(line(*emp), 2, 4, 8))]
    assert said(scaling(*free, *held, *other), "makes EMP faster")["verdict"] == IN_PART, "not under every limit"


def test_spilling_is_compared_past_the_cache() -> None:
    lines = {name: ("fb-log-" + name, "disk") for name in ("spill", "recompute")}
    free = [*slower(line(*lines["spill"]), 1, 2, 3), *slower(line(*lines["recompute"]), 2, 4, 6)]
    found = said(scaling(*free), "slower than in Case III")
    assert found["verdict"] == IN_PART
    assert "it takes 0.50 times as long as Case III." in found["evidence"]
    past = [*slower(line(*lines["spill"], 10**9), 3, 6, 9), *slower(line(*lines["recompute"], 10**9), 2, 4, 6)]
    found = said(scaling(*free, *past), "slower than in Case III")
    assert found["verdict"] == CONFIRMED
    assert "it takes 1.5 times as long as Case III, both past the cache." in found["evidence"]
