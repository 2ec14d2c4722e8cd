"""What is measured: the settings, the algorithms, and the sizes of a full and a quick run.

The paper does not give its labels and attributes. There are four settings here: normal against attack, or five classes,
and a few attributes or many. A few attributes are real numbers that every position has, as which we read the
paper's reduced sparsity; many are words, one of many for each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Setting(NamedTuple):
    """Which labels, and which attributes."""

    n_labels: int
    many: bool

    @property
    def title(self) -> str:
        return f"{self.n_labels} labels, {'many' if self.many else 'few'} attributes"


SETTINGS = {
    "2-few": Setting(2, False),
    "5-few": Setting(5, False),
    "2-many": Setting(2, True),
    "5-many": Setting(5, True),
}
MAIN = "2-few"  # the one that goes to any length


class Line(NamedTuple):
    """An engine, and where the sequence is held: in memory or on disk."""

    engine: str
    held: str


FB, EMP_HELD, RECOMPUTE_HELD = Line("fb-log", "memory"), Line("emp", "memory"), Line("fb-log-recompute", "memory")
EMP, RECOMPUTE, SPILL = Line("emp", "disk"), Line("fb-log-recompute", "disk"), Line("fb-log-spill", "disk")
CHECKPOINT, STREAM = Line("checkpoint", "disk"), Line("stream", "disk")
STREAM_HELD, SCALED = Line("stream", "memory"), Line("fb", "memory")


@dataclass(frozen=True)
class RunPlan:
    """The sizes of a run."""

    quick: bool
    memory_limit: int  # bytes, the largest under which something is run
    rows: int  # of the invented log, where there is no data
    lengths: Mapping[str, tuple[int, ...]]  # (b) by setting
    limited: Mapping[int, tuple[int, ...]]  # (b) of the main setting, by memory limit
    rounds: int  # (b, d) times that a short point is measured
    budget: float  # (b) seconds; a point that would take longer is left out
    numeric_length: int  # (c) the longest chain
    most_weights: int  # (d)
    boundaries: int  # (e) at which the certificate is looked at
    entropy_positions: int  # (f)
    samples: int  # (f)

    @property
    def max_length(self) -> int:
        return max(max(lengths, default=0) for lengths in (*self.lengths.values(), *self.limited.values()))


LEAST_LIMIT = 32_000_000  # bytes: room for a block and what is read ahead
_LIMITS = (64_000_000, 256_000_000, 1_000_000_000)  # bytes, beside the one asked for
_FILLED = 137  # bytes a position of FB in the main setting: 64 that it keeps, and 73 of the sequence
_TEN_PERCENT, _WHOLE = 494_021, 4_898_405  # positions of KDD's 10 % file, and of its surrogate of the full length


def full_plan(memory_limit: int, max_length: int) -> RunPlan:
    """Everything, to `max_length` positions; about three quarters of an hour on two cores at fifty million."""
    million = 1_000_000
    few = (100_000, 200_000, _TEN_PERCENT, million, 2 * million, 3 * million, 4 * million, _WHOLE)
    other = (100_000, _TEN_PERCENT, million, 2 * million, _WHOLE)
    many = (10_000, 30_000, 100_000, 200_000, _TEN_PERCENT)
    longer = (10 * million, 25 * million, 50 * million)
    limits = (*(limit for limit in _LIMITS if limit < memory_limit), memory_limit)
    beyond = (max_length,) if max_length > longer[-1] else ()
    return RunPlan(
        quick=False,
        memory_limit=memory_limit,
        rows=_TEN_PERCENT,
        lengths={
            "2-few": _within((*few, *longer, *beyond), max_length),
            "5-few": _within(other, max_length),
            "2-many": _within(many, max_length),
            "5-many": _within(many, max_length),
        },
        limited={limit: _filling(limit, _shares(limit), max_length) for limit in limits},
        rounds=3,
        budget=150.0,
        numeric_length=min(20_000, max_length),
        most_weights=200_000,
        boundaries=5_000,
        entropy_positions=min(10_000, max_length),
        samples=10_000,
    )


def quick_plan(memory_limit: int, max_length: int) -> RunPlan:
    """The same in small, in under three minutes on two cores."""
    million = 1_000_000
    return RunPlan(
        quick=True,
        memory_limit=memory_limit,
        rows=100_000,
        lengths={
            "2-few": _within((50_000, million, 3 * million), max_length),
            "5-many": _within((10_000,), max_length),
        },
        limited={memory_limit: _filling(memory_limit, (0.5, 2), max_length)},
        rounds=1,
        budget=8.0,
        numeric_length=min(2_000, max_length),
        most_weights=3_000,
        boundaries=500,
        entropy_positions=1_000,
        samples=1_000,
    )


def _shares(limit: int) -> tuple[float, ...]:
    """Multiples of the length at which FB fills the limit; few where it takes long."""
    if limit >= _LIMITS[-1]:
        return (0.5, 1, 2)
    return (0.5, 1, 1.5, 2, 4) if limit > _LIMITS[0] else (0.5, 1, 1.5, 2, 4, 12)


def _filling(limit: int, shares: tuple[float, ...], longest: int) -> tuple[int, ...]:
    """The lengths, to three digits, as far as they are allowed."""
    lengths = (round(float(f"{share * limit / _FILLED:.2e}")) for share in shares)
    return tuple(length for length in lengths if length <= longest)


def _within(lengths: tuple[int, ...], longest: int) -> tuple[int, ...]:
    """The lengths that are allowed, and the longest allowed one if it leaves some out."""
    kept = tuple(length for length in lengths if length <= longest)
    return kept if len(kept) == len(lengths) or (kept and kept[-1] == longest) else (*kept, longest)
