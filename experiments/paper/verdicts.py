"""Claims of the paper, judged by the measurements.

Each claim is confirmed, refuted, or held in part, with the numbers that decide; where they were not measured, it says
so. All of them are read from the results, but for the tables, which are counted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from experiments.formatting import count, power, size, times
from experiments.ledger import Result
from experiments.paper.counting import COLUMNS, EXAMPLE, EXPLAINED, QUOTIENT, TABLES, compare
from experiments.paper.run_plan import (
    CHECKPOINT,
    EMP,
    EMP_HELD,
    FB,
    RECOMPUTE,
    RECOMPUTE_HELD,
    SCALED,
    SPILL,
    STREAM,
    STREAM_HELD,
    Line,
)
from experiments.paper.series import (
    FLAT,
    OWN,
    Points,
    Results,
    elements,
    holds,
    least_squares,
    limits,
    measured,
    moved,
    on_a_disk,
    points,
    reach,
    seconds_of,
    section,
    slope,
    slopes,
)

CONFIRMED, REFUTED, IN_PART, UNKNOWN = "confirmed", "refuted", "in part", "not measured"

SLOPE_TOLERANCE = 0.15  # of the predicted bytes a position
_EVEN = 1.05  # times as long is still as long: times on a shared machine are not better than that
_PAGING = 1.25  # times as long a position as at the shortest length is a bend
_OLD_DISK = 100e6  # bytes a second, read or written in order: a good one of the paper's time
_POWER = 0.35  # by which an exponent may be off
_FEWEST = 4  # labels from which on the time goes like a power of them
_LOGARITHMS = 1e-6  # relative; what log-additions leave of a difference between ln Z and a number as large
_STANDARD_ERRORS = 4.0  # by which sampling may be off


class Verdict(NamedTuple):
    """A claim with its verdict and evidence."""

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
    every = [cell for number in TABLES for cell in compare(number, EXAMPLE)]
    cells = [cell for cell in every if cell.row != QUOTIENT and cell.printed != "-"]
    exact = sum(cell.equal for cell in cells)
    ends = [(number, "asymptotic", column) in EXPLAINED for number in TABLES for column in COLUMNS]
    unexplained = sum(not cell.equal and cell.correction is None for cell in every)
    evidence = (
        f"{exact} of {len(cells)} cells are exactly what the algorithms execute, and {ends.count(False)} of the "
        f"{len(ends)} asymptotic ones are its leading terms; {unexplained} differences are not explained."
    )
    claim = "Operations and registers of Algorithms 1 and 2 are those of Tables 1 and 2."
    yield Verdict("Tables", claim, _judged(exact == len(cells), partly=not unexplained), evidence)


# The four cases


def _case_1(results: Results) -> Iterator[Verdict]:
    fb, emp = _line(results, FB), _line(results, EMP_HELD)
    claim = "In memory both grow linearly with the sequence; FB faster, by O(N²T), EMP by nothing else."
    fb_grown, emp_grown = (slopes(results).get(line) for line in (FB, EMP_HELD))
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
    yield Verdict("I", claim, *_overtaking(results, FB, bending=True))


def _case_2(results: Results) -> Iterator[Verdict]:
    claim = "FB that recomputes its matrices is slower than EMP too, beyond 5 million."
    yield Verdict("II", claim, *_overtaking(results, RECOMPUTE_HELD, bending=False))


def _case_3(results: Results) -> Iterator[Verdict]:
    fb, emp = _line(results, RECOMPUTE), _line(results, EMP)
    claim = "From disk, FB reads the sequence twice and EMP once."
    if fb and emp:
        passes = fb[-1]["passes"], emp[-1]["passes"]
        evidence = f"FB reads it {passes[0]:.4g} times, EMP {passes[1]:.4g} times."
        pressed = _ratios(_pressed(results, RECOMPUTE), _pressed(results, EMP), lambda point: point["disk_read"])
        if pressed:
            longest = max(positions for _, positions in pressed)
            times_of = {place: ratio for place, ratio in pressed.items() if place[1] == longest}
            evidence += f" Past the cache FB has {_span(times_of)} times as many bytes from the disk as EMP."
        yield Verdict("III", claim, _judged(passes == (2.0, 1.0)), evidence)
    yield _from_disk(results, "III", "That makes EMP faster than FB.", RECOMPUTE, "FB")


def _case_4(results: Results) -> Iterator[Verdict]:
    spill, recompute, emp = (_line(results, line) for line in (SPILL, RECOMPUTE, EMP))
    flat = _flat(spill)
    past = _ratios(_pressed(results, SPILL), _pressed(results, RECOMPUTE))
    slower, where = (past, ", both past the cache") if past else (_ratios(spill, recompute), "")
    if slower and flat is not None:
        evidence = (
            f"Its memory grows by {_grown(spill)}, that of Case III by {_grown(recompute)}; it takes {_span(slower)} "
            f"times as long as Case III{where}."
        )
        claim = "With its forward vectors on disk FB's memory is constant, and it is slower than in Case III."
        yield Verdict("IV", claim, _judged(flat and min(slower.values()) > 1, partly=flat), evidence)
    if emp:
        yield Verdict("IV", "EMP goes on in small constant memory.", *_constant(emp))
    yield _from_disk(results, "IV", "EMP is faster than FB that keeps its vectors on disk.", SPILL, "FB that spills")


def _from_disk(results: Results, case: str, claim: str, fb: Line, name: str) -> Verdict:
    """EMP against FB, both from disk: past the system's cache, where that was possible."""
    limited = bool(_pressed(results, fb))
    emp, other = (_pressed(results, line) if limited else _line(results, line) for line in (EMP, fb))
    found = _compared(case, claim, emp, other, "EMP", name)
    if not _ratios(emp, other):
        return found
    crossed = [crossing(*pair) for pair in _pairs(results, fb, EMP)] if limited else [crossing(other, emp)]
    where = [f"The lines cross at {count(place)} positions." for place in crossed if place]
    parts = [found.evidence, *(where or ["The lines do not cross."])]
    if limited:
        parts += ["Both read past the cache, within the memory limits.", *_even(_pairs(results, fb, EMP))]
    else:
        parts.append(
            "There was memory enough to keep the file in the system's cache: what is read again is not read from the "
            "disk."
        )
    return found._replace(evidence=" ".join(parts))


def _overtaking(results: Results, fb: Line, bending: bool) -> tuple[str, str]:
    """Whether EMP overtakes FB once FB pages, and where; and whether it does without a limit.

    Where a bend of FB's time is claimed too, it is a part of the claim.
    """
    free = _line(results, fb)
    crossed, longest = crossing(free, _line(results, EMP_HELD)), max((p["positions"] for p in free), default=0)
    said = f"overtakes at {count(crossed)} positions" if crossed else f"does not overtake up to {count(longest)}"
    parts = [f"Without a limit, nothing paged, EMP {said}."]
    pairs = _pairs(results, fb, EMP_HELD)
    if not pairs:
        parts.append("Nothing was run under a memory limit.")
        return UNKNOWN, " ".join(parts)
    bent = [_bend(pair[0]) for pair in pairs] if bending else []
    crossings = [crossing(*pair) for pair in pairs]
    parts += [_told(results, fb, *pair) for pair in pairs]
    return _judged(all(crossings), partly=any(bent) or any(crossings)), " ".join([*parts, *_even(pairs)])


def _bend(line: Points) -> int | None:
    """The length from which on it pages and takes so much longer a position than at first."""
    rates = [(point, seconds_of(point) / point["positions"]) for point in line]
    return next((p["positions"] for p, rate in rates if p["dropped"] and rate > _PAGING * rates[0][1]), None)


def _told(results: Results, fb: Line, line: Points, emp: Points) -> str:
    """Sentence on FB and EMP under one limit."""
    limit, last = line[0]["limit"], line[-1]
    full, bent, crossed = reach(results, fb, limit), _bend(line), crossing(line, emp)
    slower = seconds_of(last) / last["positions"] * line[0]["positions"] / seconds_of(line[0])
    filled = "" if full is None else f", which FB fills at {count(full)} positions"
    bends = f"its time bends at {count(bent)}" if bent else "its time does not bend"
    crosses = f"EMP overtakes at {count(crossed)}" if crossed else "EMP does not overtake"
    return (
        f"Within {size(limit)}{filled}: {times(slower)} times as long a position at {count(last['positions'])} as at "
        f"{count(line[0]['positions'])}, with {moved(last) / last['positions']:.0f} bytes a position to and from the "
        f"disk; {bends}; {crosses}."
    )


def _even(pairs: list[tuple[Points, Points]]) -> Iterator[str]:
    """Sentences on the speed of a disk at which EMP is as fast as FB, and on a disk of the paper's time."""
    for fb, emp in ((fb[-1], emp[-1]) for fb, emp in reversed(pairs)):
        more, longer = moved(fb) - moved(emp), emp["cpu_seconds"] - fb["cpu_seconds"]
        if fb["positions"] == emp["positions"] < more and longer > 0:
            break
    else:
        return
    yield (
        f"By the processor's time and the bytes moved, a disk of {size(more / longer)} a second would make them even "
        f"at {count(fb['positions'])} positions."
    )
    places = [(pair[0][0]["limit"], crossing(*(on_a_disk(line, _OLD_DISK) for line in pair))) for pair in pairs]
    said = "; ".join(
        f"within {size(limit)} {_where(at, pair[0])}" for (limit, at), pair in zip(places, pairs, strict=True)
    )
    yield f"With one of {size(_OLD_DISK)} a second EMP would overtake: {said}."


def _where(crossed: float | None, line: Points) -> str:
    if crossed is None:
        return "not"
    return "from the shortest on" if crossed <= line[0]["positions"] else f"at {count(crossed)}"


# What the text says


def _checkpointing(results: Results) -> Iterator[Verdict]:
    line = _line(results, CHECKPOINT)
    flat = _flat(line)
    if flat is None:
        return
    first, last = line[0], line[-1]
    evidence = (
        f"By its √T blocks it keeps {size(first['predicted_bytes'])} at {count(first['positions'])} positions and "
        f"{size(last['predicted_bytes'])} at {count(last['positions'])}, too little to be told from the pages of the "
        f"file that it reads; in all, {_ends(line)}, and {_grown(line)} over the longer half."
    )
    yield Verdict("text", "Checkpointing needs O(N√T) memory.", _judged(flat), evidence)


def _labels(results: Results) -> Iterator[Verdict]:
    emp, older = exponent(results, "emp"), exponent(results, "forward-only")
    if emp is None or older is None:
        return
    evidence = (
        f"For each weight and position the time grows like N^{emp:.2f} with `emp` and like N^{older:.2f} with "
        "`forward-only`, whose features here each know their label: that spares one factor N of the paper's N⁴."
    )
    squared, fourth = abs(emp - 2) < _POWER, abs(older - 4) < _POWER
    claim = "The forward-only algorithm takes N⁴MT, EMP N²MT."
    yield Verdict("text", claim, _judged(squared and fourth, partly=squared), evidence)


def exponent(results: Results, engine: str) -> float | None:
    """p, if the time for a weight and a position goes like N^p; with fewer than four labels it does not yet."""
    rows = [row for row in elements(results, "weights", "labels") if row["engine"] == engine and row["nanoseconds"]]
    times_of = {row["labels"]: row["nanoseconds"] / row["weights"] for row in rows if row["labels"] >= _FEWEST}
    return least_squares([(math.log(labels), math.log(taken)) for labels, taken in times_of.items()])


def _range(results: Results) -> Iterator[Verdict]:
    chains = elements(results, "numerics", "chains")
    if not chains:
        return
    ends = [(chain, name, what) for chain in chains for name, what in chain["breaks"].items()]
    broken = [(chain["name"], name, f"{what['how']} at {count(what['length'])}") for chain, name, what in ends if what]
    spared = [f"the {name} with {chain['name']} weights" for chain, name, what in ends if not what]
    stable = [chain["methods"][method] for chain in chains for method in ("fb-log", "emp")]
    held = all(status == "ok" for method in stable for status in method["status"])
    longest = count(max(max(chain["lengths"]) for chain in chains))
    told = "; ".join(f"{weights} weights, {name}: {end}" for weights, name, end in broken) or "nothing"
    kept = f" Never, to {longest} positions: {'; '.join(spared)}." if spared else ""
    errors = ", ".join(
        f"{' and '.join(methods)} {power(max(_worst(chains, method) for method in methods))}"
        for methods in (("fb-log", "emp"), ("fb", "stream"))
    )
    evidence = (
        f"Out of range: {told}.{kept} In logarithms nothing leaves it, but digits are lost: worst count, {errors}."
    )
    claim = "The sum-product and plain expectation semirings are unstable, the log-domain ones are not."
    yield Verdict("text", claim, _judged(bool(broken) and held and not spared, partly=bool(broken) and held), evidence)


def _worst(chains: Points, method: str) -> float:
    """The largest relative error of a count."""
    return max((error for chain in chains for error in chain["methods"][method]["count_error"] if error), default=0.0)


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
        yield Verdict(OWN, "The memory of `stream` does not grow with the length.", *_constant(stream))
        claim = "At every length `stream` takes no longer than FB"
        disk, held = _line(results, RECOMPUTE), _line(results, STREAM_HELD)
        yield _compared(OWN, f"{claim} as published, from disk.", stream, disk, "`stream`", "FB", _EVEN)
        yield _compared(OWN, f"{claim} as published, in memory.", held, _line(results, FB), "`stream`", "FB", _EVEN)
        rival = "`fb`, which scales its numbers instead of taking logarithms"
        yield _compared(
            OWN, f"{claim} as it is done today, in memory.", held, _line(results, SCALED), "`stream`", rival, _EVEN
        )
    bounds = [row for row in elements(results, "certificate", "bound") if row["worst_error"] is not None]
    if bounds:
        kept, nearest = sum(map(holds, bounds)), max(bounds, key=lambda row: row["worst_error"] / row["tolerance"])
        evidence = (
            f"{kept} of {len(bounds)} combinations of chain, weights and tolerance keep to it; the nearest made "
            f"{power(nearest['worst_error'])} where {power(nearest['tolerance'])} is allowed."
        )
        yield Verdict(
            "ours",
            "The certificate's bound holds for every posterior at a boundary.",
            _judged(kept == len(bounds)),
            evidence,
        )


# Lines


def _line(results: Results, line: Line, limit: int | None = None) -> Points:
    """The points of the main setting that were measured."""
    return measured(points(results, limit=limit).get(line))


def _pressed(results: Results, line: Line) -> Points:
    """The points under any memory limit that were measured."""
    return [point for limit in limits(results) for point in _line(results, line, limit)]


def _pairs(results: Results, fb: Line, emp: Line) -> list[tuple[Points, Points]]:
    """Two lines under each memory limit, as far as both were measured there."""
    found = [(_line(results, fb, limit), _line(results, emp, limit)) for limit in limits(results)]
    return [pair for pair in found if all(pair)]


def crossing(fb: Points, emp: Points) -> float | None:
    """The length from which on FB takes longer than EMP: between two measured ones, or the first of several."""
    ratios = sorted((positions, ratio) for (_, positions), ratio in _ratios(fb, emp).items())
    if len(ratios) < 2:
        return None
    while len(ratios) > 1 and ratios[-1][1] > 1 and ratios[-2][1] > 1:
        ratios.pop()
    if not ratios or ratios[-1][1] <= 1:
        return None
    if len(ratios) == 1:
        return float(ratios[0][0])
    (before, low), (after, high) = ratios[-2:]
    return float(before * (after / before) ** ((1 - low) / (high - low)))


def _ratios(
    one: Points, two: Points, of: Callable[[Mapping[str, Any]], float] = seconds_of
) -> dict[tuple[int | None, int], float]:
    """Time of the first as a multiple of that of the second, at the limits and lengths that both have."""
    there = {(point["limit"], point["positions"]): of(point) for point in two}
    here = {(point["limit"], point["positions"]): of(point) for point in one}
    return {place: value / there[place] for place, value in here.items() if there.get(place)}


def _compared(
    case: str, claim: str, quick: Points, slow: Points, name: str, other: str, margin: float = 1.0
) -> Verdict:
    """Whether the first takes less time than the second, or than so many times it: always, sometimes, never."""
    ratios = _ratios(quick, slow)
    if not ratios:
        return Verdict(case, claim, UNKNOWN, "It was not measured.")
    low, high = min(ratios.values()), max(ratios.values())
    lengths = [positions for _, positions in ratios]
    where = "" if len(ratios) == 1 else f", from {count(min(lengths))} to {count(max(lengths))} positions"
    return Verdict(
        case,
        claim,
        _judged(high < margin, partly=low < margin),
        f"{name} takes {_span(ratios)} times as long as {other}{where}.",
    )


def _span(ratios: Mapping[tuple[int | None, int], float]) -> str:
    """Format a range: 1.4, or 1.4 to 1.6."""
    low, high = times(min(ratios.values())), times(max(ratios.values()))
    return low if low == high else f"{low} to {high}"


def _near(grown: float, predicted: float) -> bool:
    return abs(grown - predicted) <= SLOPE_TOLERANCE * predicted


def _flat(line: Points) -> bool | None:
    """Whether memory does not grow with the length; one length does not tell."""
    grown = slope(line, "peak_rss")
    return None if grown is None else abs(grown) < FLAT


def _constant(line: Points) -> tuple[str, str]:
    flat = _flat(line)
    if flat is None:
        return UNKNOWN, "It takes two lengths at least."
    return _judged(flat), f"{_ends(line)}; over the longer half it grows by {_grown(line)}."


def _grown(line: Points) -> str:
    grown = slope(line, "peak_rss")
    return "an unknown number of bytes" if grown is None else f"{grown:.2f} bytes a position"


def _ends(line: Points) -> str:
    """The peak at both ends of a line."""
    return " and ".join(f"{size(p['peak_rss'])} at {count(p['positions'])} positions" for p in (line[0], line[-1]))


def _judged(right: bool, partly: bool = False) -> str:
    return CONFIRMED if right else IN_PART if partly else REFUTED
