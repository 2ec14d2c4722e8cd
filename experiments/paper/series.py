"""Lines, slopes and limits, read from the results for figures, page and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from experiments.paper.run_plan import (
    CHECKPOINT,
    EMP,
    EMP_HELD,
    FB,
    MAIN,
    RECOMPUTE,
    RECOMPUTE_HELD,
    SCALED,
    SPILL,
    STREAM,
    STREAM_HELD,
    Line,
)

Results = Mapping[str, Any]
Points = Sequence[Mapping[str, Any]]

CASES = {  # of the paper: FB, and EMP
    "I": (FB, EMP_HELD),
    "II": (RECOMPUTE_HELD, EMP_HELD),
    "III": (RECOMPUTE, EMP),
    "IV": (SPILL, EMP),
}
OURS = {  # beside them, by where they hold the sequence
    "memory": (SCALED, STREAM_HELD, STREAM),
    "disk": (CHECKPOINT, STREAM),
}

OWN = "ours"  # in place of a case, where a claim is not the paper's
FLAT = 2.0  # bytes a position, below which memory does not grow with the length; FB's is a hundred or so


def section(results: Results, *names: str) -> Mapping[str, Any]:
    """A part of the results, or nothing where it is missing."""
    for name in names:
        results = results.get(name) or {}
    return results


def elements(results: Results, *names: str) -> Points:
    """The last name is that of a list, which may be missing too."""
    return list(section(results, *names[:-1]).get(names[-1]) or [])


def points(results: Results, setting: str = MAIN, limit: float | None = None) -> Mapping[Line, Points]:
    """The points of each line, shortest first: those under a memory limit, or those without."""
    found: dict[Line, list[Mapping[str, Any]]] = {}
    for point in sorted(elements(results, "scaling", "points"), key=lambda point: point["positions"]):
        if point["setting"] == setting and point["limit"] == limit:
            found.setdefault(Line(point["engine"], point["held"]), []).append(point)
    return found


def limits(results: Results) -> list[int]:
    """The memory limits under which something was run, smallest first."""
    return sorted({point["limit"] for point in elements(results, "scaling", "points") if point["limit"] is not None})


def measured(line: Points | None) -> Points:
    return [point for point in line or [] if point["outcome"] == "measured" and min(point["seconds"], default=0) > 0]


def seconds_of(point: Mapping[str, Any]) -> float:
    return float(median(point["seconds"]))


def moved(point: Mapping[str, Any]) -> float:
    """Bytes that went to or from the disk."""
    return float((point.get("disk_read") or 0) + (point.get("disk_written") or 0))


def on_a_disk(line: Points, rate: float) -> Points:
    """Points with their times if the disk moved `rate` bytes a second, and nothing else were done meanwhile."""
    return [{**point, "seconds": [point["cpu_seconds"] + moved(point) / rate]} for point in line]


def slope(line: Points, key: str) -> float | None:
    """Growth of `key` in bytes a position over the longer half of the points, by least squares."""
    pairs = [(point["positions"], point[key]) for point in line if point[key] is not None]
    return least_squares(pairs[min(len(pairs) // 2, max(len(pairs) - 2, 0)) :])


def least_squares(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the line through the pairs, None where they are all at one place."""
    if len({x for x, _ in pairs}) < 2:
        return None
    middle, height = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return float(sum((x - middle) * (y - height) for x, y in pairs) / sum((x - middle) ** 2 for x, _ in pairs))


def slopes(results: Results) -> dict[Line, tuple[float, float]]:
    """Bytes a position of each line of the main setting: measured, and predicted."""
    found = {}
    for line, of_line in points(results).items():
        taken = [point for point in measured(of_line) if point["peak_rss"] and point["predicted_bytes"] is not None]
        grown, predicted = slope(taken, "peak_rss"), slope(taken, "predicted_bytes")
        if grown is not None and predicted is not None:
            found[line] = (grown, predicted)
    return dict(sorted(found.items(), key=lambda one: -one[1][1]))


def baseline(results: Results) -> float:
    """Bytes that a process takes before it holds anything of a chain."""
    held = section(results, "corpus", "settings", MAIN).get("bytes_a_position") or 0.0
    taken = [
        point["before_rss"] - (held * point["positions"] if point["held"] == "memory" else 0.0)
        for of_line in points(results).values()
        for point in measured(of_line)
        if point["before_rss"]
    ]
    return max(min(taken, default=0.0), 0.0)


def reach(results: Results, line: Line, limit: float) -> float | None:
    """The length at which a line is predicted to fill a memory limit, with all that grows with the sequence."""
    both = [*points(results, limit=limit).get(line, []), *points(results).get(line, [])]
    rates = {p["positions"]: p["predicted_bytes"] / p["positions"] for p in both if p["predicted_bytes"] is not None}
    return float(limit / rates[max(rates)]) if rates and rates[max(rates)] > 0 else None


def holds(row: Mapping[str, Any]) -> bool:
    """Whether the worst error is within the tolerance, but for rounding."""
    return row["worst_error"] is None or row["worst_error"] <= row["tolerance"] + 1e-13
