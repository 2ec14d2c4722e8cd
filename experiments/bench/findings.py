"""Results of a section: tables, targets and notes, as the ledger stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.bench.timing import median

Cell = str | float | list[float] | None
"""Cell of a table; a list has one number for each round."""


@dataclass(frozen=True)
class Target:
    """A number to be reached, and what was measured in each round; judged by the median."""

    what: str
    values: list[float]
    bar: float
    sense: str = "at least"
    aim: float | None = None  # a hope beyond the bar

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the bar; None where nothing was measured."""
        if not self.values:
            return None
        found = median(self.values)
        return found >= self.bar if self.sense == "at least" else found <= self.bar


@dataclass(frozen=True)
class ResultTable:
    title: str
    columns: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class SectionResults:
    tables: list[ResultTable]
    bars: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> SectionResults:
        """Results from the ledger."""
        tables, bars = [ResultTable(**one) for one in kept["tables"]], [Target(**one) for one in kept["bars"]]
        return cls(tables, bars, kept["notes"])
