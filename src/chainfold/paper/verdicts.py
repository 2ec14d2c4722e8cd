"""What the paper claims, and what the measurements say to it.

Each claim is confirmed, refuted, or held in part, with the numbers that decide; where they were not measured, it says
so. All of them are read from the results, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from chainfold.paper.plan import Result
from chainfold.paper.readings import (
    Line,
    Points,
    Results,
    elements,
    holds,
    least_squares,
    measured,
    points,
    reach,
    seconds_of,
    section,
    slope,
)
from chainfold.paper.words import count, duration, power, size, times

CONFIRMED, REFUTED, IN_PART, UNKNOWN = "confirmed", "refuted", "in part", "not measured"

SLOPE_TOLERANCE = 0.15  # of the predicted bytes a position
FLAT = 1.0  # bytes a position, below which memory does not grow with the length
_EVEN = 1.05  # times as long is still as long: times on a shared machine are not better than that
_PAGING = 1.25  # times as long a position as at the shortest length
_POWER = 0.35  # by which an exponent may be off
_LOGARITHMS = 1e-7  # relative; what is left of a double after tens of thousands of log-additions
_STANDARD_ERRORS = 4.0  # by which sampling may be off

FB, EMP_HELD = ("fb-log", "memory"), ("emp", "memory")
RECOMPUTE_HELD, RECOMPUTE = ("fb-log-recompute", "memory"), ("fb-log-recompute", "disk")
SPILL, EMP = ("fb-log-spill", "disk"), ("emp", "disk")
CHECKPOINT, STREAM = ("checkpoint", "disk"), ("stream", "disk")
STREAM_HELD, SCALED = ("stream", "memory"), ("fb", "memory")


class Verdict(NamedTuple):
    """A claim, and what became of it."""

    case: str
    claim: str
    verdict: str
    evidence: str


def verdicts(results: Results) -> list[Result]:
    """All claims, in the order of the paper, then ours."""
    claims = (_tables, _case_1, _case_2, _case_3, _case_4, _checkpointing, _labels, _range, _entropy, _ours)
    return [verdict._asdict() for claim in claims for verdict in claim(results)]


# The tables


def _tables(results: Results) -> Iterator[Verdict]:
    tables = section(results, "tables").values()
    cells = [cell for table in tables for cell in table["cells"] if cell["counted"] or cell["formula"]]
    if not cells:
        return
    differ = [cell for cell in cells if cell["counted"] != cell["formula"]]
    unexplained = [cell for cell in differ if not cell["why"]]
    evidence = (
        f"{len(cells) - len(differ)} of {len(cells)} cells are exactly what the algorithms execute; "
        f"{len(differ) - len(unexplained)} differ and are explained, {len(unexplained)} are not."
    )
    found = _judged(not differ, partly=not unexplained)
    yield Verdict(
        "Tables", "Operations and registers of Algorithms 1 and 2 are those of Tables 1 and 2.", found, evidence
    )


# The four cases


def _case_1(results: Results) -> Iterator[Verdict]:
    fb, emp = _line(results, FB), _line(results, EMP_HELD)
    claim = "In memory both grow linearly with the sequence; FB faster, by O(N²T), EMP by nothing else."
    fb_grown, emp_grown = _growth(fb), _growth(emp)
    if fb_grown is None or emp_grown is None:
        yield Verdict("I", claim, UNKNOWN, "It takes two lengths at least.")
    else:
        evidence = (
            f"FB takes {fb_grown[0]:.0f} bytes a position ({fb_grown[1]:.0f} predicted), EMP {emp_grown[0]:.0f} "
            f"({emp_grown[1]:.0f} predicted), which is the sequence itself."
        )
        right = _near(*fb_grown) and _near(*emp_grown) and fb_grown[0] > emp_grown[0]
        yield Verdict("I", claim, _judged(right), evidence)
    yield _compared("I", "While memory lasts, FB is quicker than EMP.", fb, emp, "FB", "EMP")
    claim = "FB's time bends upwards when its memory pages (at 3 million), and EMP overtakes it (at 4.5 million)."
    yield Verdict("I", claim, *_overtaking(results, FB))


def _case_2(results: Results) -> Iterator[Verdict]:
    claim = "FB that recomputes its matrices goes further, but beyond 5 million it is slower than EMP."
    yield Verdict("II", claim, *_overtaking(results, RECOMPUTE_HELD))


def _case_3(results: Results) -> Iterator[Verdict]:
    fb, emp = _line(results, RECOMPUTE), _line(results, EMP)
    claim = "From disk, FB reads the sequence twice and EMP once."
    if fb and emp:
        passes = fb[-1]["passes"], emp[-1]["passes"]
        evidence = f"FB reads it {passes[0]:.4g} times, EMP {passes[1]:.4g} times."
        yield Verdict("III", claim, _judged(passes == (2.0, 1.0)), evidence)
    yield _compared("III", "That makes EMP faster than FB from disk.", emp, fb, "EMP", "FB that reads from disk")


def _case_4(results: Results) -> Iterator[Verdict]:
    spill, recompute, emp = (_line(results, line) for line in (SPILL, RECOMPUTE, EMP))
    slower = _ratios(spill, recompute)
    if slower:
        longest = max(slower)
        evidence = (
            f"Its memory grows by {_grown(spill)}, that of Case III by {_grown(recompute)}; at {count(longest)} "
            f"positions it takes {slower[longest]:.2f} times as long as Case III."
        )
        flat = _flat(spill)
        claim = "With its forward vectors on disk FB's memory is constant, and it is slower than in Case III."
        yield Verdict("IV", claim, _judged(flat and slower[longest] > _EVEN, partly=flat), evidence)
    if emp:
        rates = [seconds_of(point) / point["positions"] for point in (emp[0], emp[-1])]
        evidence = f"{_ends(emp)}; {duration(rates[0])} and {duration(rates[1])} a position."
        claim = "EMP goes on in small constant memory, its time growing as in Case III."
        yield Verdict("IV", claim, _judged(_flat(emp)), evidence)
    yield _compared("IV", "EMP is faster than FB that keeps vectors on disk.", emp, spill, "EMP", "FB that spills")


def _overtaking(results: Results, fb: Line) -> tuple[str, str]:
    """Whether EMP overtakes FB once FB pages, and where; and whether it does without a limit."""
    free, pressed = _line(results, fb), points(results, limited=True).get(fb, [])
    crossed, longest = crossing(free, _line(results, EMP_HELD)), max((p["positions"] for p in free), default=0)
    said = f"overtakes at {count(crossed)} positions" if crossed else f"does not overtake up to {count(longest)}"
    parts = [f"Without a limit, nothing paged, EMP {said}."]
    if not pressed:
        full = reach(results, fb)
        parts.append(
            f"No memory limit could be set here; by its predicted memory FB would reach "
            f"{size(section(results, 'about').get('memory_limit') or 0)} at "
            f"{'no length' if full is None else f'{count(full)} positions'}."
        )
        return UNKNOWN, " ".join(parts)
    within = f"Within {size(pressed[0]['limit'])}"
    rates = [(p["positions"], seconds_of(p) / p["positions"]) for p in measured(pressed)]
    bent = next((length for length, rate in rates if rate > _PAGING * rates[0][1]), None)
    stopped = next((point for point in pressed if point["outcome"] == "killed"), None)
    crossed = crossing(measured(pressed), _line(results, EMP_HELD, limited=True))
    if bent:
        parts.append(f"{within} FB takes {_PAGING} times as long a position, or more, from {count(bent)} on.")
    if crossed:
        parts.append(f"{within} EMP overtakes at {count(crossed)} positions.")
    if stopped:
        parts.append(f"{within} FB is killed at {count(stopped['positions'])}: what it keeps does not fit.")
    if not (bent or crossed or stopped):
        parts.append(f"{within} neither happens up to {count(pressed[-1]['positions'])} positions.")
    return _judged(crossed is not None, partly=bool(bent or stopped)), " ".join(parts)


# What the text says


def _checkpointing(results: Results) -> Iterator[Verdict]:
    line = _line(results, CHECKPOINT)
    if len(line) < 2:
        return
    first, last = line[0], line[-1]
    grown = last["peak_rss"] - first["peak_rss"]
    evidence = (
        f"It is to keep {size(first['predicted_bytes'])} at {count(first['positions'])} positions and "
        f"{size(last['predicted_bytes'])} at {count(last['positions'])}, where √T is "
        f"{(last['positions'] / first['positions']) ** 0.5:.1f} times as large. Its peak grew by {size(grown)} in all, "
        f"pages of the file included, and by {_grown(line)} over the longer half."
    )
    yield Verdict("text", "Checkpointing needs O(N√T) memory.", _judged(_flat(line)), evidence)


def _labels(results: Results) -> Iterator[Verdict]:
    emp, older = exponent(results, "emp"), exponent(results, "forward-only")
    if emp is None or older is None:
        return
    evidence = (
        f"For each weight and position the time grows like N^{emp:.2f} with `emp` and like N^{older:.2f} with "
        "`forward-only`: N³ here, since each feature knows its label, and a factor N falls away."
    )
    right = abs(emp - 2) < _POWER and abs(older - 3) < _POWER
    yield Verdict("text", "The forward-only algorithm takes N⁴MT, EMP N²MT.", _judged(False, partly=right), evidence)


def exponent(results: Results, engine: str) -> float | None:
    """p, if the time for a weight and a position goes like N^p; from three points on without the fewest labels."""
    rows = [row for row in elements(results, "weights", "labels") if row["engine"] == engine and row["nanoseconds"]]
    rows = sorted(rows, key=lambda row: row["labels"])[1 if len(rows) > 2 else 0 :]
    return least_squares([(math.log(row["labels"]), math.log(row["nanoseconds"] / row["weights"])) for row in rows])


def _range(results: Results) -> Iterator[Verdict]:
    chains = elements(results, "numerics", "chains")
    if not chains:
        return
    ends = {f"{chain['name']} weights": _breaks(chain) for chain in chains}
    broken = [f"{name}, {' or '.join(how)}" for name, how in ends.items() if how]
    spared = [name for name, how in ends.items() if not how]
    stable = [chain["methods"][method] for chain in chains for method in ("fb-log", "emp")]
    held = all(status == "ok" for method in stable for status in method["status"])
    worst = max((error for method in stable for error in method["count_error"] if error), default=0.0)
    longest = count(max(max(chain["lengths"]) for chain in chains))
    evidence = (
        f"Both plain ones leave the range: {'; '.join(broken) or 'never'}. "
        + (f"Not so with {' and '.join(spared)}, to {longest} positions. " if spared else "")
        + f"In logarithms both hold to {longest}, the counts within {power(worst)}: the range is at stake, not digits."
    )
    claim = "The sum-product and plain expectation semirings are unstable, the log-domain ones are not."
    yield Verdict("text", claim, _judged(bool(broken) and held and not spared, partly=bool(broken) and held), evidence)


def _breaks(chain: Mapping[str, Any]) -> list[str]:
    """How and where the plain methods leave the range; one text if they do so together."""
    return sorted({f"{what['how']} at {count(what['length'])}" for what in chain["breaks"].values() if what})


def _entropy(results: Results) -> Iterator[Verdict]:
    found = section(results, "entropy")
    if not found:
        return
    exact, *others = found["exact"].values()
    spread = max(abs(other - exact) for other in others) / max(abs(exact), 1e-300)
    off = abs(found["estimates"][-1] - exact) / max(found["errors"][-1], 1e-300)
    evidence = (
        f"{exact:.6g} nats over {count(found['positions'])} positions by the entropy semiring. `emp` and chainfold's "
        f"own pass differ from it by {power(spread)} of it, {count(found['samples'][-1])} samples by {off:.1f} "
        "standard errors."
    )
    right = spread < _LOGARITHMS and off < _STANDARD_ERRORS
    yield Verdict("text", "The same algorithm with M = 1 gives the entropy of the labels.", _judged(right), evidence)


# Ours


def _ours(results: Results) -> Iterator[Verdict]:
    stream = _line(results, STREAM)
    if stream:
        claim = "The memory of `stream` does not grow with the length."
        yield Verdict("ours", claim, _judged(_flat(stream)), f"{_ends(stream)}; it grows by {_grown(stream)}.")
        claim = "`stream` takes no longer than FB, at any length"
        disk, held = _line(results, RECOMPUTE), _line(results, STREAM_HELD)
        yield _compared("ours", f"{claim}: from disk.", stream, disk, "stream", "FB as published")
        yield _compared("ours", f"{claim}: in memory.", held, _line(results, FB), "stream", "FB as published")
        rival = "`fb`, which is scaled instead of in logarithms"
        yield _compared("ours", f"{claim}: nor than FB of today.", held, _line(results, SCALED), "stream", rival)
    bounds = [row for row in elements(results, "certificate", "bound") if row["worst_error"] is not None]
    if bounds:
        kept, nearest = sum(map(holds, bounds)), max(bounds, key=lambda row: row["worst_error"] / row["tolerance"])
        evidence = (
            f"{kept} of {len(bounds)} combinations of chain, weights and tolerance keep to it; the nearest made "
            f"{power(nearest['worst_error'])} where {power(nearest['tolerance'])} is allowed."
        )
        yield Verdict(
            "ours", "The certificate's bound holds for every posterior.", _judged(kept == len(bounds)), evidence
        )


# Lines


def _line(results: Results, line: Line, limited: bool = False) -> Points:
    """The points of the main setting that were measured."""
    return measured(points(results, limited=limited).get(line))


def crossing(fb: Points, emp: Points) -> float | None:
    """The length from which FB takes longer than EMP: between two measured ones, or the first."""
    ratios = sorted(_ratios(fb, emp).items())
    if ratios and ratios[0][1] > 1:
        return float(ratios[0][0])
    for (before, low), (after, high) in pairwise(ratios):
        if low <= 1 < high:
            return float(before * (after / before) ** ((1 - low) / (high - low)))
    return None


def _ratios(one: Points, two: Points) -> dict[int, float]:
    """How many times as long the first takes as the second, at the lengths that both have."""
    there = {point["positions"]: seconds_of(point) for point in two}
    return {p["positions"]: seconds_of(p) / there[p["positions"]] for p in one if p["positions"] in there}


def _compared(case: str, claim: str, quick: Points, slow: Points, name: str, other: str) -> Verdict:
    """Whether the first is the quicker one: at every length, at some, or never."""
    ratios = _ratios(quick, slow)
    if not ratios:
        return Verdict(case, claim, UNKNOWN, "It was not measured.")
    low, high = min(ratios.values()), max(ratios.values())
    where = "" if len(ratios) == 1 else f", from {count(min(ratios))} to {count(max(ratios))} positions"
    span = times(low) if times(low) == times(high) else f"{times(low)} to {times(high)}"
    return Verdict(
        case, claim, _judged(high <= 1, partly=low <= 1), f"{name} takes {span} times as long as {other}{where}."
    )


def _growth(line: Points) -> tuple[float, float] | None:
    """Bytes a position, measured and predicted."""
    grown, predicted = slope(line, "peak_rss"), slope(line, "predicted_bytes")
    return None if grown is None or predicted is None else (grown, predicted)


def _near(grown: float, predicted: float) -> bool:
    return abs(grown - predicted) <= SLOPE_TOLERANCE * predicted


def _flat(line: Points) -> bool:
    grown = slope(line, "peak_rss")
    return grown is not None and abs(grown) < FLAT


def _grown(line: Points) -> str:
    grown = slope(line, "peak_rss")
    return "what one length does not tell" if grown is None else f"{grown:.2f} bytes a position"


def _ends(line: Points) -> str:
    """The peak at both ends of a line."""
    return " and ".join(f"{size(p['peak_rss'])} at {count(p['positions'])} positions" for p in (line[0], line[-1]))


def _judged(right: bool, partly: bool = False) -> str:
    return CONFIRMED if right else IN_PART if partly else REFUTED
