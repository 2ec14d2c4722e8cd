"""Plans of the experiments: the settings, the algorithms, and the sizes of a full and a quick run.

The paper does not give its labels and attributes. There are four settings here: normal against attack, or five classes,
and a few attributes or many. A few attributes are real numbers that every position has, as which we read the
paper's reduced sparsity; many are words, one of many for each column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Setting(NamedTuple):
    """Labels and attributes."""

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
    """Sizes of a run."""

    quick: bool
    rows: int  # of the invented log, where there is no data
    lengths: Mapping[str, tuple[int, ...]]  # (b) by setting
    limited: Mapping[int, tuple[int, ...]]  # (b) of the main setting, by memory limit in bytes
    rounds: int  # (b, d) times that a short point is measured
    budget: float  # (b) seconds; a point that would take longer is left out
    iterations: int  # of training
    numeric_length: int  # (c) the longest chain
    most_weights: int  # (d)
    boundaries: int  # (e) at which the certificate is looked at
    entropy_positions: int  # (f)
    samples: int  # (f)

    def longest(self, setting: str) -> int:
        """Positions of the longest chain of a setting."""
        limited = self.limited.values() if setting == MAIN else ()
        return max((max(lengths, default=0) for lengths in (self.lengths.get(setting, ()), *limited)), default=0)


_K, _M = 1_000, 1_000_000
_TEN_PERCENT, _WHOLE = 494_021, 4_898_405  # positions of KDD's 10 % file, and of its surrogate of the full length
_MANY = (10 * _K, 30 * _K, 100 * _K, 200 * _K, _TEN_PERCENT)

FULL = RunPlan(
    quick=False,
    rows=_TEN_PERCENT,
    lengths={
        "2-few": (
            *(100 * _K, 200 * _K, _TEN_PERCENT, _M, 2 * _M, 3 * _M, 4 * _M),
            *(_WHOLE, 10 * _M, 25 * _M, 50 * _M),
        ),
        "5-few": (100 * _K, _TEN_PERCENT, _M, 2 * _M, _WHOLE),
        "2-many": _MANY,
        "5-many": _MANY,
    },
    limited={  # half the length at which FB fills the limit, that length, and more
        64 * _M: (234 * _K, 467 * _K, 701 * _K, 934 * _K, 1_870 * _K, 5_610 * _K),
        256 * _M: (934 * _K, 1_870 * _K, 2_800 * _K, 3_740 * _K, 7_470 * _K),
        1000 * _M: (3_650 * _K, 7_300 * _K, 14_600 * _K),
        3000 * _M: (10_900 * _K, 21_900 * _K, 43_800 * _K),
    },
    rounds=3,
    budget=150.0,
    iterations=30,
    numeric_length=20_000,
    most_weights=200_000,
    boundaries=5_000,
    entropy_positions=10_000,
    samples=10_000,
)
"""Everything, to fifty million positions; a little over an hour on two cores."""

QUICK = RunPlan(
    quick=True,
    rows=100_000,
    lengths={"2-few": (50 * _K, _M, 3 * _M), "5-many": (10 * _K,)},
    limited={64 * _M: (234 * _K, 934 * _K)},
    rounds=1,
    budget=8.0,
    iterations=15,
    numeric_length=2_000,
    most_weights=3_000,
    boundaries=500,
    entropy_positions=1_000,
    samples=1_000,
)
"""Everything in small, in under three minutes."""
