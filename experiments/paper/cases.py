"""(b) Cases I to IV: time and memory against the length of the chain, for the paper's algorithms and ours.

Every point is measured in a process of its own. Points that would take too long or too much memory are left out, and
say so; each is judged by the shorter ones of its line, which have been measured before it. Those under a memory limit
are held to it by `paging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from chainfold.errors import ChainfoldError
from experiments.formatting import size
from experiments.ledger import Result, RunPiece
from experiments.machine import memory_info
from experiments.paper.measurement import Point, measure, predicted_bytes, unmeasured, warm_up
from experiments.paper.run_plan import (
    CHECKPOINT,
    EMP,
    EMP_HELD,
    FB,
    MAIN,
    RECOMPUTE,
    RECOMPUTE_HELD,
    SCALED,
    SETTINGS,
    SPILL,
    STREAM,
    STREAM_HELD,
    Line,
    RunPlan,
)

if TYPE_CHECKING:
    from experiments.paper.corpus import Corpus


LINES = (FB, EMP_HELD, RECOMPUTE_HELD, RECOMPUTE, SPILL, EMP, CHECKPOINT, STREAM, STREAM_HELD, SCALED)
BRIEFLY = (FB, EMP_HELD, STREAM_HELD, SCALED)  # in the other settings
LIMITED = (FB, EMP_HELD, RECOMPUTE_HELD, RECOMPUTE, SPILL, EMP)

_SHORT, _SHORT_LIMITED = 5.0, 1.0  # seconds: a point that takes less is measured in several rounds
_SHARE, _RUNTIME = 0.85, 400_000_000  # of the memory available; bytes that Python and the libraries take
_PATIENCE = 4  # budgets, after which a point under a limit is stopped


def key(setting: str, line: Line, positions: int, limit: int | None = None) -> str:
    """Key of a piece."""
    return f"{'scaling' if limit is None else f'limited/{limit}'}/{setting}/{line.engine}/{line.held}/{positions}"


def pieces(plan: RunPlan, corpus: Corpus) -> list[RunPiece]:
    """All points, the shortest first, and then those under a memory limit, the smallest first."""
    made = [_piece(_Work(plan, corpus, *place, None)) for place in _places(plan)]
    for limit, lengths in plan.limited.items():
        places = [(MAIN, line, positions) for positions in lengths for line in LIMITED]
        made += [_piece(_Work(plan, corpus, *place, limit)) for place in places]
    return made


class _Work(NamedTuple):
    """A point, and what is needed to measure it."""

    plan: RunPlan
    corpus: Corpus
    setting: str
    line: Line
    positions: int
    limit: int | None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of all points of its line."""
        return self.plan.lengths[self.setting] if self.limit is None else self.plan.limited[self.limit]

    def key(self, positions: int | None = None) -> str:
        return key(self.setting, self.line, positions or self.positions, self.limit)

    def shorter(self, done: Mapping[str, Result]) -> list[Result]:
        """The points of its line that were done before it, the longest first."""
        keys = (self.key(positions) for positions in sorted(self.lengths, reverse=True) if positions < self.positions)
        return [done[name] for name in keys if name in done]


def _places(plan: RunPlan) -> Iterator[tuple[str, Line, int]]:
    for setting, lengths in plan.lengths.items():
        for positions in sorted(lengths):
            yield from ((setting, line, positions) for line in (LINES if setting == MAIN else BRIEFLY))


def _piece(work: _Work) -> RunPiece:
    where = "in memory" if work.line.held == "memory" else "from disk"
    under = f", within {size(work.limit)}" if work.limit else ""
    title = f"{SETTINGS[work.setting].title}: {work.line.engine} {where}, {work.positions:,} positions{under}"
    return RunPiece(work.key(), title, partial(_run, work))


def _short(work: _Work) -> float:
    return _SHORT if work.limit is None else _SHORT_LIMITED


def _run(work: _Work, done: Mapping[str, Result]) -> Result:
    point = Point(
        engine=work.line.engine,
        positions=work.positions,
        held=work.line.held,
        chain=str(work.corpus.chain(work.setting, work.positions)),
        model=str(work.corpus.model(work.setting)),
    )
    predicted = predicted_bytes(point)
    found = _left_out(work, work.shorter(done), predicted) or _measured(work, point)
    seconds = found.pop("seconds")
    if found["predicted_bytes"] is None:
        found["predicted_bytes"] = predicted
    return {
        "setting": work.setting,
        "engine": point.engine,
        "held": point.held,
        "positions": point.positions,
        "limit": work.limit,
        "outcome": found.pop("outcome"),
        "reason": found.pop("reason"),
        "seconds": seconds or [],
        **found,
    }


def _left_out(work: _Work, shorter: list[Result], predicted: int) -> Result | None:
    """Result of a point that is not to be run, with the reason; None if it is."""
    if shorter:
        before = shorter[0]
        already = f"already {before['positions']:,} positions"
        if before["outcome"] == "too long":
            return unmeasured("too long", f"{already} were too long.")
        if before["outcome"] in ("killed", "too large"):
            return unmeasured("too large", f"{already} take more memory than free.")
        seconds = median(before["seconds"]) * work.positions / before["positions"]
        if seconds > work.plan.budget:
            reason = f"it would take about {seconds:,.0f} seconds, and {work.plan.budget:,.0f} are allowed."
            return unmeasured("too long", reason)
    if work.limit is not None:
        return None
    room = memory_info().get("MemAvailable")
    if room is not None and predicted + _RUNTIME > _SHARE * room:
        reason = f"it would take about {(predicted + _RUNTIME) / 1e9:.1f} GB, and {room / 1e9:.1f} GB are free."
        return unmeasured("too large", reason)
    return None


def _measured(work: _Work, point: Point) -> Result:
    """The figures of the first round with the seconds of all; one round, if it is a long one.

    What compiles kernels holds more memory than what loads them: the first points have that done here, not in a child.
    """
    if work.setting == next(iter(work.plan.lengths)) and work.positions == min(work.lengths) and work.limit is None:
        warm_up(point)
    timeout = _PATIENCE * work.plan.budget if work.limit else None
    found = measure(point, work.limit, timeout)
    if found["outcome"] != "measured":
        return found
    seconds = [found["seconds"]]
    while len(seconds) < work.plan.rounds and seconds[0] < _short(work):
        again = measure(point, work.limit, timeout)
        if again["outcome"] != "measured":
            return again
        for name in ("log_z", "gradient_sha256"):
            if again[name] != found[name]:
                raise ChainfoldError(f"{work.key()}: {name} is {again[name]}, and was {found[name]} the time before.")
        seconds.append(again["seconds"])
    return {**found, "seconds": seconds}
