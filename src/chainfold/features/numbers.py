"""Columns of numbers: reading them, putting them into bins, and fitting bins and scales in one pass.

Quantiles are found by counting. A double's sign, exponent and first 8 bits of mantissa are its cell: cells are in the
order of their numbers, whole numbers up to 512 have cells of their own, and no cell is wider than 0.4 % of its numbers.
There are about a million cells, so memory is bounded for columns of any length. Edges of bins are edges of
cells, so that a number falls into the bin that its cell was counted for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chainfold.chain.strings import PairTable
from chainfold.errors import BadFile, BadLines, ChainfoldError
from chainfold.features.functions import Step
from chainfold.features.template import Factor, Template
from chainfold.readers.columns import NUMBER, SYMBOL, Stretch
from chainfold.system.validate import MOST_WEIGHT

_DROPPED = 44  # bits of a double's mantissa that a cell does not see
_ZERO = 1 << 19  # the cell of 0.0
_MAGNITUDE = np.int64(2**63 - 1)
_MANTISSA, _PIECE = 53, (1 << 18) - 1  # bits of a double's mantissa; a third of them
_UNIT = 1126  # the least double is 2^-1073 by `frexp`'s exponent, and m has 53 bits below that
_AT_ONCE = 1 << 16  # numbers whose products of pieces are summed exactly
_FITTED = ("standard", "quantile")


def numbers_of(stretch: Stretch, column: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers of a column, and where one is missing: there it reads 0."""
    array = stretch.batch.column(column)
    if array.type not in (NUMBER, SYMBOL):
        raise BadFile(stretch.source, f"column {column!r} holds bags of attributes, which are no numbers.")
    numbers, missing = _read(array)
    if not np.isfinite(numbers).all():
        wrong = np.flatnonzero(~np.isfinite(numbers))
        row = int(wrong[0])
        raise BadLines(
            stretch.source,
            f"{stretch.place(row)}, column {column!r}: {array[row].as_py()!r} is no finite number; correct it, or take "
            f"the column as text with symbol({column}).",
            lambda: stretch.lines[wrong],
        )
    return numbers, missing


def weights_of(stretch: Stretch, column: str) -> NDArray[np.float64]:
    """The weights of rows; each of them is there, and from 0 to `MOST_WEIGHT`."""
    array = stretch.batch.column(column)
    weights, missing = _read(array)
    wrong = np.flatnonzero(missing | ~((weights >= 0.0) & (weights <= MOST_WEIGHT)))
    if wrong.size:
        row = int(wrong[0])
        weight = "the weight is missing" if missing[row] else f"the weight is {array[row].as_py()!r}"
        problem = f"{stretch.place(row)}, column {column!r}: {weight}; give a number from 0 to {MOST_WEIGHT}."
        raise BadLines(stretch.source, problem, lambda: stretch.lines[wrong])
    return weights


def _read(array: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers of an array, nan where a symbol spells none, and where one is missing: there it reads 0."""
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else np.zeros(len(array), np.bool_)
    if array.type == NUMBER:
        return (array.fill_null(0.0) if array.null_count else array).to_numpy(zero_copy_only=False), missing
    return _spelt_by(array), missing


def _spelt_by(symbols: Any) -> NDArray[np.float64]:
    """The numbers that symbols spell, nan where they spell none; each that occurs is read once."""
    codes = symbols.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.bincount(codes + 1, minlength=len(symbols.dictionary) + 1)[1:] > 0
    texts = symbols.dictionary.filter(pa.array(used))
    try:
        spelt = texts.cast(NUMBER).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        spelt = np.array([_spelt(text) for text in texts.to_pylist()])
    table = np.zeros(used.size + 1)  # its last entry is for code -1
    table[:-1][used] = spelt
    numbers: NDArray[np.float64] = table[codes]
    return numbers


def _spelt(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan


def bin_codes(numbers: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int32]:
    """How many edges are at most each number: 0 … len(edges)."""
    return np.searchsorted(edges, numbers, side="right").astype(np.int32)


def bin_name(edges: NDArray[np.float64], code: int) -> str:
    """A bin as an interval: "[-inf,0)", "[0,1)", "[1,inf)"."""
    low = edges[code - 1] if code > 0 else -math.inf
    high = edges[code] if code < len(edges) else math.inf
    return f"[{_short(low)},{_short(high)})"


def _short(number: float) -> str:
    """The fewest digits that read back as the number."""
    return repr(float(number) + 0.0).removesuffix(".0")


def needs_fit(template: Template) -> bool:
    """Whether there is a step whose numbers are still to be found."""
    return bool(_columns(template, *_FITTED))


def fit(template: Template, stretches: Iterable[Stretch]) -> Template:
    """The template with scales for `standard` and bins for `quantile`, by one pass over the numbers."""
    statistics = NumberStatistics(template)
    for stretch in stretches:
        statistics.add(stretch)
    return statistics.fitted(template)


class NumberStatistics:
    """Counts and sums for scales and bins; those of rows in several parts are merged, with the same result."""

    def __init__(self, template: Template) -> None:
        self._cells = {column: _Cells() for column in sorted(_columns(template, "quantile"))}
        self._moments = {column: _Moments() for column in sorted(_columns(template, "standard"))}

    def add(self, stretch: Stretch) -> None:
        """Count the numbers of further rows."""
        for column in self._cells.keys() | self._moments.keys():
            numbers, missing = numbers_of(stretch, column)
            present = numbers[~missing] if missing.any() else numbers
            if column in self._cells:
                self._cells[column].add(present)
            if column in self._moments:
                self._moments[column].add(present)

    def merge(self, other: NumberStatistics) -> None:
        """Count the numbers that another has counted."""
        for column, cells in self._cells.items():
            cells.merge(other._cells[column])
        for column, moments in self._moments.items():
            moments.merge(other._moments[column])

    def fitted(self, template: Template) -> Template:
        """The template with its scales and bins."""

        def fitted(factor: Factor) -> Factor:
            column, steps = str(factor.column), factor.steps
            if steps and steps[0].name == "quantile":
                return factor._replace(steps=(Step("bins", self._cells[column].edges(int(steps[0].arguments[0]))),))
            if steps and steps[0].name == "standard":
                return factor._replace(steps=(Step("scale", self._moments[column].scale(column)),))
            return factor

        features = (f._replace(factors=tuple(fitted(factor) for factor in f.factors)) for f in template.features)
        return Template(tuple(features), template.border)


def _columns(template: Template, *names: str) -> set[str]:
    """The columns to which one of the steps is applied."""
    return {
        str(factor.column)
        for feature in template.features
        for factor in feature.factors
        for step in factor.steps
        if step.name in names
    }


class _Moments:
    """Σ x and Σ x² of a column, exactly, so that they do not depend on how rows come or are cut into parts.

    x = m 2^e with a whole number m of 54 bits, which is cut into three of 18 bits, so that the sums of many products of
    two of them are exact. The totals are whole numbers of units, the least of which x may be a multiple.
    """

    def __init__(self) -> None:
        self._count = 0
        self._sum, self._squares = 0, 0  # in units of 2^-_UNIT and 2^-2·_UNIT

    def add(self, numbers: NDArray[np.float64]) -> None:
        self._count += numbers.size
        for low in range(0, numbers.size, _AT_ONCE):
            self._add(numbers[low : low + _AT_ONCE])

    def _add(self, numbers: NDArray[np.float64]) -> None:
        fractions, exponents = np.frexp(numbers)
        whole = np.ldexp(fractions, _MANTISSA).astype(np.int64)
        codes, groups = np.unique(exponents, return_inverse=True)
        a, b, c = (whole >> 36).astype(float), (whole >> 18 & _PIECE).astype(float), (whole & _PIECE).astype(float)

        def total(products: NDArray[np.float64], shift: int, power: int = 2) -> int:
            sums = zip(codes.tolist(), np.bincount(groups, products), strict=True)
            return sum(int(some) << shift + power * (code + _UNIT - _MANTISSA) for code, some in sums)

        self._sum += total(a, 36, 1) + total(b, 18, 1) + total(c, 0, 1)
        self._squares += total(a * a, 72) + total(a * b, 55) + total(a * c, 37)
        self._squares += total(b * b, 36) + total(b * c, 19) + total(c * c, 0)

    def merge(self, other: _Moments) -> None:
        """Add the sums of another."""
        self._count += other._count
        self._sum += other._sum
        self._squares += other._squares

    def scale(self, column: str) -> tuple[float, float]:
        """Mean and deviation; the latter is 1 where there is none but rounding."""
        count = max(self._count, 1)
        spread = count * self._squares - self._sum**2
        try:  # Python rounds the quotient of two whole numbers correctly
            mean, deviation = self._sum / (count << _UNIT), math.sqrt(spread / (count**2 << 2 * _UNIT))
        except OverflowError:
            problem = f"the numbers of column {column!r} are too large to be scaled; use log({column})."
            raise ChainfoldError(problem) from None
        rounding = 8 * np.finfo(np.float64).eps * abs(mean)
        return mean, deviation if deviation > rounding else 1.0


class _Cells:
    """How many numbers of a column fell into each cell."""

    def __init__(self) -> None:
        self._table = PairTable()
        self._counts = np.zeros(0, np.int64)

    def add(self, numbers: NDArray[np.float64]) -> None:
        cells = cells_of(numbers)
        codes = self._table.codes(np.zeros_like(cells), cells)
        counts = np.bincount(codes, minlength=len(self._table))
        counts[: self._counts.size] += self._counts
        self._counts = counts

    def merge(self, other: _Cells) -> None:
        """Add the counts of another."""
        cells = other._table.arrays.pairs[: len(other._table)].astype(np.int32)
        codes = self._table.codes(np.zeros_like(cells), cells)
        counts = np.zeros(len(self._table), np.int64)
        counts[: self._counts.size] = self._counts
        counts[codes] += other._counts
        self._counts = counts

    def edges(self, bins: int) -> tuple[float, ...]:
        """Where to cut so that the bins are as equal as can be; a number that fills a bin by itself gets it."""
        cells = self._table.arrays.pairs[: len(self._table)]
        order = np.argsort(cells)
        cells, counts = cells[order], self._counts[order]
        if not cells.size:
            return (0.0,)
        cuts = np.arange(min(1, cells.size - 1), cells.size) if cells.size <= bins else _equal_cuts(counts, bins)
        return tuple(_lower_bounds(cells[cuts]).tolist())


def _equal_cuts(counts: NDArray[np.int64], bins: int) -> NDArray[np.int64]:
    """The cells that begin a new bin. What a cell has beyond the share of a bin does not count for its neighbours."""
    heavy = np.zeros(counts.size, np.bool_)
    while True:
        share = counts[~heavy].sum() / (bins - heavy.sum())
        if not (counts[~heavy] > share).any():
            break
        heavy = counts > share
    before = np.concatenate([[0.0], np.cumsum(np.minimum(counts, share))[:-1]])  # weight below each cell
    targets = share * np.arange(1, bins)
    above = np.clip(np.searchsorted(before, targets), 1, counts.size - 1)
    nearest = above - (targets - before[above - 1] < before[above] - targets)
    order = np.arange(bins - 1)  # two targets have the same nearest cell only by rounding
    rising = np.maximum.accumulate(nearest - order) + order
    return np.minimum(rising, counts.size - bins + 1 + order)


def cells_of(numbers: NDArray[np.float64]) -> NDArray[np.int32]:
    """The cell of each number; numbers in order have cells in order."""
    bits = numbers.view(np.int64)
    ordered = np.where(bits >= 0, bits, -(bits & _MAGNITUDE))
    return ((ordered >> _DROPPED) + _ZERO).astype(np.int32)


def _lower_bounds(cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """The least number of each cell."""
    ordered = (cells - _ZERO) << _DROPPED
    bounds: NDArray[np.float64] = np.copysign(np.abs(ordered).view(np.float64), ordered)
    return bounds.clip(min=np.finfo(np.float64).min)
