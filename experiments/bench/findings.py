"""The results of a section: tables, targets, notes and charts, as the ledger stores them.

Target        a number to be reached, and what was measured
ResultTable   columns and rows; a list of numbers in a cell is one number for each round
Chart         curves of a figure
SectionResults      all results of a section
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.bench.timing import median

Cell = str | float | list[float] | None


@dataclass(frozen=True)
class Target:
    """`what` has to be at least, or at most, so much; judged by the median."""

    what: str
    values: list[float]
    bar: float
    sense: str = "at least"
    aim: float | None = None  # what we hope for beyond it

    @property
    def met(self) -> bool | None:
        """None where nothing was measured."""
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
class Curve:
    """Points of a chart; dashed where they are calculated and not measured."""

    name: str
    points: list[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A picture with logarithmic axes, in NAME.png."""

    name: str
    title: str
    x: str
    y: str
    curves: list[Curve]


@dataclass(frozen=True)
class SectionResults:
    tables: list[ResultTable]
    bars: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> SectionResults:
        """From the file."""
        charts = [
            Chart(**{**one, "curves": [Curve(**curve) for curve in one["curves"]]}) for one in kept.get("charts", [])
        ]
        return cls(
            [ResultTable(**one) for one in kept["tables"]],
            [Target(**one) for one in kept.get("bars", [])],
            list(kept.get("notes", [])),
            charts,
        )
