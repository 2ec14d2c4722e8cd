"""A template at work: stretches of columns in, attributes of positions out, in two steps that may run at once.

    Attributes   finds the codes of each feature at each row
    FeatureIds     gives ids to what was found, and names to what is new

Everything is done on codes, a whole stretch at a time. A column's distinct texts have codes; a factor is a column's
codes after its steps, shifted; a combination of factors is a code for each distinct pair of codes, taken two by two.
The text of an attribute is put together once, when its code is first seen, and given to the vocabulary.

Rows whose right context has not come yet wait for the next stretch, with the left context of the first of them; where
their sequence is known to have ended, they do not wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chainfold.chain.block import frozen
from chainfold.chain.builder import Names
from chainfold.chain.entries import without_gaps
from chainfold.chain.strings import PairTable, StringTable
from chainfold.errors import BadLines, ChainfoldError
from chainfold.features.functions import Step, apply, longest
from chainfold.features.numbers import bin_codes, bin_name, numbers_of
from chainfold.features.template import Border, Factor, Feature, Template
from chainfold.jit.attribute_kernels import borders, name_bags, name_rows, order_by_row, shift, unseen
from chainfold.jit.string_kernels import paste
from chainfold.readers.columns import SYMBOL, VALUES_SUFFIX, Stretch

Codes = NDArray[np.int32]
Offsets = NDArray[np.int64]
Floats = NDArray[np.float64]

NOTHING = -1


class Entries(NamedTuple):
    """The attributes of a stretch of positions: ids[offsets[t] : offsets[t + 1]], values likewise or empty."""

    offsets: Offsets
    ids: Codes
    values: Floats

    @classmethod
    def none(cls, rows: int = 0) -> Self:
        """Positions without any."""
        return cls(np.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0))


class ContextWindow:
    """The rows that can be done now, among those at hand, and how far each is from the borders of its sequence."""

    def __init__(self, starts: NDArray[np.bool_], low: int, high: int) -> None:
        self.low, self.high = low, high
        self.back, self.ahead = np.empty(high - low, np.int32), np.empty(high - low, np.int32)
        borders(starts, low, high, self.back, self.ahead)

    def shifted(self, codes: Codes, offset: int, before: Codes, after: Codes) -> Codes:
        """The codes `offset` rows away, or those of the border symbols where the sequence does not reach so far."""
        if offset == 0:
            return codes[self.low : self.high]
        out = np.empty(self.high - self.low, np.int32)
        shift(codes, self.low, offset, self.back, self.ahead, before, after, out)
        return out


class Symbols:
    """The codes of a column after its steps, and the texts that they stand for."""

    def __init__(self, column: str, steps: tuple[Step, ...], border: Border, reach: int) -> None:
        self._column, self._border, self._reach = column, border, reach
        self._edges = np.array(steps[0].arguments, float) if steps and steps[0].name == "bins" else None
        self._steps = tuple(step for step in steps if step.name not in ("bins", "symbol"))
        self._longest = longest(self._steps)
        self.codes = np.empty(0, np.int32)
        self._begin()

    def _begin(self) -> None:
        """Empty tables, but for the bins and the border symbols."""
        self.table = StringTable()
        self._given = StringTable() if self._steps else self.table
        self._derived = np.empty(0, np.int32)  # code of each given text after its steps
        if self._edges is not None:
            for code in range(self._edges.size + 1):
                self.table.code(bin_name(self._edges, code))
        self.before = self._symbols([self._border.text(-1 - k) for k in range(self._reach)])
        self.after = self._symbols([self._border.text(1 + k) for k in range(self._reach)])

    def _symbols(self, texts: Sequence[str | None]) -> Codes:
        given = iter(apply(self._steps, [text for text in texts if text is not None]))
        return np.array([NOTHING if text is None else self.table.code(next(given)) for text in texts], np.int32)

    def check(self, stretch: Stretch) -> None:
        """Raise what `read` would raise."""
        if self._edges is not None:
            numbers_of(stretch, self._column)
        elif self._longest is not None:
            self._check_lengths(stretch, self._longest)

    def _check_lengths(self, stretch: Stretch, longest: int) -> None:
        """Raise if a text is longer than a regular expression may be applied to."""
        texts = stretch.batch.column(self._column)
        if texts.type != SYMBOL or (pc.max(pc.utf8_length(texts.dictionary)).as_py() or 0) <= longest:
            return
        lengths = pc.fill_null(pc.utf8_length(texts.cast(pa.string())), 0).to_numpy()
        wrong = np.flatnonzero(lengths > longest)
        if wrong.size:
            place = f"{stretch.place(int(wrong[0]))}, column {self._column!r}"
            problem = f"a text of {lengths[wrong[0]]:,} characters, of which a regular expression of the template"
            remedy = f"can search {longest:,}; shorten it, or search a prefix({self._column},{longest})"
            raise BadLines(stretch.source, f"{place}: {problem} {remedy}.", lambda: stretch.lines[wrong])

    def extend(self, codes: Codes) -> None:
        """Put the codes of further rows behind those at hand."""
        self.codes = np.concatenate([self.codes, codes])

    def read(self, stretch: Stretch) -> Codes:
        """The codes of further rows."""
        if self._edges is not None:
            numbers, missing = numbers_of(stretch, self._column)
            return np.where(missing, np.int32(NOTHING), bin_codes(numbers, self._edges))
        self.check(stretch)
        return self._derive(symbol_codes(stretch.batch.column(self._column), self._given))

    def _derive(self, codes: Codes) -> Codes:
        if not self._steps:
            return codes
        known = self._derived.size
        new = [self.table.code(text) for text in apply(self._steps, self._given.strings(known).to_pylist())]
        self._derived = np.concatenate([self._derived, np.array(new, np.int32)])
        return np.where(codes >= 0, self._derived[codes], np.int32(NOTHING)) if self._derived.size else codes

    def drop(self, rows: int) -> None:
        """Free the first rows at hand."""
        self.codes = self.codes[rows:].copy()

    def forget(self) -> None:
        """Begin with empty tables; the rows at hand keep their texts."""
        texts = [None if code == NOTHING else self.table.text(code) for code in self.codes.tolist()]
        self._begin()
        self.codes = np.array([NOTHING if text is None else self.table.code(text) for text in texts], np.int32)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self._given.nbytes + self._derived.nbytes


def symbol_codes(column: Any, table: StringTable) -> Codes:
    """The codes of a column of symbols, or of the texts of a column of numbers; -1 where a value is missing."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    codes = table.codes_of(column.dictionary)
    if column.null_count == 0:
        values: Codes = codes[column.indices.to_numpy()]
        return values
    missing = column.is_null().to_numpy(zero_copy_only=False)
    indices = column.indices.fill_null(0).to_numpy()
    return np.where(missing, np.int32(NOTHING), codes[indices] if codes.size else np.int32(NOTHING))


class Reals:
    """The values of a column, scaled, and whether each is there (code 0) or missing (code -1)."""

    nbytes = 0  # of tables

    def __init__(self, column: str, steps: tuple[Step, ...], reach: int) -> None:
        self._column = column
        self._mean, self._deviation = (0.0, 1.0)
        if steps and steps[0].name == "scale":
            self._mean, self._deviation = (float(number) for number in steps[0].arguments)
        self.codes, self._values = np.empty(0, np.int32), np.empty(0)
        self.before = self.after = np.full(reach, NOTHING, np.int32)

    def check(self, stretch: Stretch) -> None:
        self.read(stretch)

    def read(self, stretch: Stretch) -> tuple[Codes, Floats]:
        numbers, missing = numbers_of(stretch, self._column)
        with np.errstate(over="ignore"):
            values = (numbers - self._mean) / self._deviation
        if not np.isfinite(values).all():
            wrong = np.flatnonzero(~np.isfinite(values))
            row = int(wrong[0])
            raise BadLines(
                stretch.source,
                f"{stretch.place(row)}, column {self._column!r}: {numbers[row]} is too large to be scaled; correct it.",
                lambda: stretch.lines[wrong],
            )
        return np.where(missing, np.int32(NOTHING), np.int32(0)), values

    def extend(self, read: tuple[Codes, Floats]) -> None:
        self.codes = np.concatenate([self.codes, read[0]])
        self._values = np.concatenate([self._values, read[1]])

    def values(self, window: ContextWindow, offset: int) -> Floats:
        rows = np.arange(window.low + offset, window.high + offset)
        return self._values[np.clip(rows, 0, self._values.size - 1)]

    def drop(self, rows: int) -> None:
        self.codes, self._values = self.codes[rows:].copy(), self._values[rows:].copy()

    def forget(self) -> None:
        """Do nothing: there are no tables."""


class Bags:
    """A column with any number of attributes at each row."""

    def __init__(self, column: str) -> None:
        self._column = column
        self.table = StringTable()
        self._counts, self._codes, self._values = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0)

    def check(self, stretch: Stretch) -> None:
        pass

    def read(self, stretch: Stretch) -> tuple[Offsets, Codes, Floats]:
        """How many there are at each row, their codes, and their values unless all are one."""
        bags = stretch.batch.column(self._column)
        counts = pc.list_value_length(bags).fill_null(0).to_numpy()
        codes = symbol_codes(bags.flatten(), self.table)
        valued = self._column + VALUES_SUFFIX in stretch.batch.schema.names
        values = stretch.batch.column(self._column + VALUES_SUFFIX).flatten().to_numpy() if valued else np.empty(0)
        return counts, codes, values

    def extend(self, read: tuple[Offsets, Codes, Floats]) -> None:
        counts, codes, values = read
        if values.size or self._values.size:
            values = values if values.size else np.ones(codes.size)
            self._values = np.concatenate([self._values if self._values.size else np.ones(self._codes.size), values])
        self._counts = np.concatenate([self._counts, counts])
        self._codes = np.concatenate([self._codes, codes])

    def entries(self, window: ContextWindow) -> Entries:
        """The bags of the rows to be done, codes for ids."""
        offsets = np.concatenate([[0], np.cumsum(self._counts[: window.high])])[window.low :]
        part = slice(offsets[0], offsets[-1])
        return Entries(offsets - offsets[0], self._codes[part], self._values[part])

    def drop(self, rows: int) -> None:
        entries = int(self._counts[:rows].sum())
        self._counts, self._codes = self._counts[rows:].copy(), self._codes[entries:].copy()
        self._values = self._values[entries:].copy()

    def forget(self) -> None:
        texts = self.table.strings().take(pa.array(self._codes))
        self.table = StringTable()
        self._codes = self.table.codes_of(texts)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes


class FeatureCodes(NamedTuple):
    """One feature at the rows to be done: its codes, which of them are new, and the texts of these."""

    codes: Codes
    rows: NDArray[np.int64] | None  # the row that each code belongs to; None: a code for each row
    values: Floats | None
    new: NDArray[np.int64]  # the first place of each code that was not seen before
    text: NDArray[np.uint8]  # of the new ones, one after another
    ends: Offsets  # where the text of each begins and ends


class FeatureBatch(NamedTuple):
    """All features of one kind, state or edge, at some rows."""

    rows: int
    dense: list[FeatureCodes]  # a code for each row
    bags: list[tuple[FeatureCodes, Offsets]]  # any number of codes for each row
    afresh: bool  # whether codes begin anew


class NewCodes:
    """Which codes of the features of one kind were seen before."""

    def __init__(self) -> None:
        self._seen: list[NDArray[np.bool_]] = []

    def feature(
        self,
        index: int,
        codes: Codes,
        size: int,
        literals: tuple[str, ...],
        parts: list[tuple[StringTable, Codes]],
        values: Floats | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> FeatureCodes:
        """Feature number `index`, whose text is the literals with the texts of the parts between them.

        size: codes are below it.
        """
        while len(self._seen) <= index:
            self._seen.append(np.zeros(0, np.bool_))
        seen = self._seen[index] = _extended(self._seen[index], size, False)
        places = np.empty(codes.size, np.int64)
        new = places[: unseen(frozen(codes, np.int32), seen, places)].copy()
        if not new.size:
            return FeatureCodes(codes, rows, values, *_NOTHING_NEW)
        return FeatureCodes(codes, rows, values, new, *_texts(literals, parts, new))


_NOTHING_NEW = np.empty(0, np.int64), np.empty(0, np.uint8), np.zeros(1, np.int64)


def _extended(table: NDArray[Any], size: int, filling: Any) -> NDArray[Any]:
    """The table with room for `size` codes."""
    if size <= table.size:
        return table
    larger = np.full(max(size, 2 * table.size), filling, table.dtype)
    larger[: table.size] = table
    return larger


def _texts(
    literals: tuple[str, ...], parts: list[tuple[StringTable, Codes]], places: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], Offsets]:
    """The texts at some places: one run of bytes, and offsets into it."""
    fixed = _fixed(literals)
    chosen = [(table.arrays.blob, table.arrays.ends, codes[places]) for table, codes in parts]
    offsets = np.empty(places.size + 1, np.int64)
    lengths = offsets[1:]
    offsets[0], lengths[:] = 0, sum(literal.size for literal, _ in fixed)
    for _, ends, codes in chosen:
        lengths += ends[1:][codes]
        lengths -= ends[codes]
    np.cumsum(lengths, out=lengths)
    buffer, at = np.empty(int(offsets[-1]), np.uint8), offsets[:-1].copy()
    same = np.zeros(places.size, np.int32)
    for index, (literal, span) in enumerate(fixed):
        if literal.size:
            paste(literal, span, same, buffer, at)
        if index < len(chosen):
            blob, ends, codes = chosen[index]
            paste(blob, ends, codes, buffer, at)
    return buffer, offsets


@cache
def _fixed(literals: tuple[str, ...]) -> list[tuple[NDArray[np.uint8], Offsets]]:
    """The bytes of each literal, and where they begin and end."""
    texts = [np.frombuffer(literal.encode(), np.uint8).copy() for literal in literals]
    return [(literal, np.array([0, literal.size])) for literal in texts]


class FeatureIds:
    """Features of one kind, state or edge, and the ids of those seen so far."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._ids: list[Codes] = []  # for each feature: the id of each of its codes

    def entries(self, findings: FeatureBatch) -> Entries:
        """Ids for all that was found, new attributes named in the order of their rows."""
        rows, dense, bags, afresh = findings
        everything = [*dense, *(feature for feature, _ in bags)]
        if not everything:
            return Entries.none(rows)
        if afresh or not self._ids:
            self._ids = [np.empty(0, np.int32) for _ in everything]
        self._name(everything, rows)
        counts = np.full(rows, len(dense), np.int64)
        for _, offsets in bags:
            counts += np.diff(offsets)
        begins = np.concatenate([[0], np.cumsum(counts)])
        ids = np.empty(int(begins[-1]), np.int32)
        values = np.ones(ids.size if any(feature.values is not None for feature in everything) else 0)
        for place, feature in enumerate(dense):
            name_rows(feature.codes, self._ids[place], begins, place, ids)
            if feature.values is not None:
                values[begins[:-1] + place] = feature.values
        place_in_row = np.full(rows, len(dense), np.int64)
        for index, (feature, offsets) in enumerate(bags):
            name_bags(offsets, feature.codes, self._ids[len(dense) + index], begins, place_in_row, ids)
            counts = np.diff(offsets)
            if feature.values is not None:
                targets = np.repeat(begins[:-1] + place_in_row - offsets[:-1], counts) + np.arange(offsets[-1])
                values[targets] = feature.values
            place_in_row += counts
        return Entries(*without_gaps(begins, ids, values))

    def _name(self, everything: list[FeatureCodes], rows: int) -> None:
        """Give ids to the new codes, by row, and in a row by feature."""
        if not any(feature.new.size for feature in everything):
            return
        in_rows = np.concatenate([f.new if f.rows is None else f.rows[f.new] for f in everything])
        order = np.empty(in_rows.size, np.int64)
        order_by_row(in_rows, np.concatenate([[0], np.cumsum(np.bincount(in_rows, minlength=rows))]), order)
        buffer, begins, ends = _joined([(feature.text, feature.ends) for feature in everything])
        new = np.empty(order.size, np.int32)
        new[order] = self._names.ids(buffer, begins[order], ends[order])
        done = 0
        for index, feature in enumerate(everything):
            codes = feature.codes[feature.new]
            ids = self._ids[index] = _extended(self._ids[index], int(codes.max(initial=-1)) + 1, -1)
            ids[codes] = new[done : done + codes.size]
            done += codes.size


def _joined(texts: list[tuple[NDArray[np.uint8], Offsets]]) -> tuple[NDArray[np.uint8], Offsets, Offsets]:
    """Several runs of bytes as one, with where each text begins and ends."""
    bases = np.concatenate([[0], np.cumsum([buffer.size for buffer, _ in texts])])
    begins = [offsets[:-1] + base for (_, offsets), base in zip(texts, bases[:-1], strict=True)]
    ends = [offsets[1:] + base for (_, offsets), base in zip(texts, bases[:-1], strict=True)]
    return np.concatenate([buffer for buffer, _ in texts]), np.concatenate(begins), np.concatenate(ends)


class Recipe(NamedTuple):
    """A feature with the columns that its codes are made from."""

    source: Symbols | Reals | Bags | None  # of its first factor
    offset: int
    pieces: tuple[str, ...]
    factors: list[tuple[Symbols, int, int, int]]  # with their offset, and slots of their codes alone and combined


class Attributes:
    """A resolved and fitted template over the columns of the given kinds ("symbol", "number" or "bag")."""

    def __init__(self, template: Template, kinds: Mapping[str, str], most_cached: int | None) -> None:
        self._border = template.border
        self._marks = self._border.marks
        self.left = template.left  # rows that are still needed after they are done
        # rows that have to come before one can be done; one at least, to see that it is the last of its sequence
        self.right = max(template.right, 0 if self._marks is None else 1)
        self._sources: dict[tuple[str, tuple[Step, ...]], Symbols | Reals | Bags] = {}
        for feature in template.features:
            for factor in feature.factors:
                self._prepare(factor, feature, kinds)
        slots: dict[tuple[Factor, ...], int] = {}
        self._recipes = {
            edge: [self._recipe(feature, slots) for feature in template.features if feature.edge == edge]
            for edge in (False, True)
        }
        self._most_cached = most_cached  # bytes of tables; beyond them one begins with empty ones. None: never
        self._novelties = {edge: NewCodes() for edge in (False, True)}
        self._afresh = False
        self._pairs: dict[int, PairTable] = {}  # by slot
        self._starts = np.empty(0, np.bool_)
        self._done = 0  # rows at hand that are there only as left context

    def _prepare(self, factor: Factor, feature: Feature, kinds: Mapping[str, str]) -> None:
        column, steps = str(factor.column), factor.steps
        reach = max(self.left, self.right)
        if kinds[column] == "bag":
            if feature.factors != (Factor(factor.column),):
                raise ChainfoldError(f"column {column!r} holds lists of attributes, which are taken only as they are.")
            self._sources.setdefault((column, steps), Bags(column))
        elif feature.real:
            self._sources.setdefault((column, steps), Reals(column, steps, reach))
        else:
            self._sources.setdefault((column, steps), Symbols(column, steps, self._border, reach))

    def check(self, stretch: Stretch) -> None:
        """Raise what `add` would raise; nothing is changed."""
        for source in self._sources.values():
            source.check(stretch)

    def add(
        self, stretch: Stretch, starts: NDArray[np.bool_], ended: bool = False
    ) -> tuple[FeatureBatch, FeatureBatch]:
        """Further rows; finds the state and the edge attributes of the rows that can now be done.

        ended: the sequence is known to end with them. Where something is wrong with a row, nothing is changed.
        """
        self._hold(stretch, starts)
        settled = self._starts.size if ended else int(np.flatnonzero(self._starts)[-1]) if self._starts.any() else 0
        return self._do(max(self._starts.size - self.right, settled, self._done))

    def _hold(self, stretch: Stretch, starts: NDArray[np.bool_]) -> None:
        read: list[Any] = [source.read(stretch) for source in self._sources.values()]
        for source, part in zip(self._sources.values(), read, strict=True):
            source.extend(part)
        self._starts = np.concatenate([self._starts, starts])

    def _hold_all(self, stretches: Iterable[Stretch], starts: NDArray[np.bool_]) -> None:
        low = 0
        for stretch in stretches:
            self._hold(stretch, starts[low : low + stretch.starts.size])
            low += stretch.starts.size

    @property
    def at_hand(self) -> tuple[NDArray[np.bool_], int]:
        """The start marks of the last rows that came and are still needed, and how many of these are done."""
        return self._starts, self._done

    def restore(self, stretches: Iterable[Stretch], starts: NDArray[np.bool_], done: int) -> None:
        """Begin with these rows at hand, the first of which are done."""
        self._hold_all(stretches, starts)
        self._done = done

    def finish(self) -> tuple[FeatureBatch, FeatureBatch]:
        """The rows still waiting: no more will come."""
        return self._do(self._starts.size)

    def finish_before(
        self, stretches: Iterable[Stretch], starts: NDArray[np.bool_]
    ) -> tuple[FeatureBatch, FeatureBatch]:
        """The rows still waiting: these follow them, and are context alone."""
        waiting = self._starts.size
        self._hold_all(stretches, starts)
        return self._do(waiting)

    def foreseen(self) -> tuple[FeatureBatch, FeatureBatch]:
        """The attributes that `finish` would find; the rows still wait."""
        return self._look(self._starts.size)

    def _look(self, high: int) -> tuple[FeatureBatch, FeatureBatch]:
        window = ContextWindow(self._starts, self._done, high)
        made: dict[int, Codes] = {}
        state, edge = (self._findings(kind, window, made) for kind in (False, True))
        self._afresh = False
        return state, edge

    def _do(self, high: int) -> tuple[FeatureBatch, FeatureBatch]:
        state, edge = self._look(high)
        behind = max(high - self.left, 0)
        for source in self._sources.values():
            source.drop(behind)
        self._starts, self._done = self._starts[behind:].copy(), high - behind
        if self._most_cached is not None and self._nbytes > self._most_cached:
            self._forget()
        return state, edge

    def _findings(self, edge: bool, window: ContextWindow, made: dict[int, Codes]) -> FeatureBatch:
        rows = window.high - window.low
        novelties, recipes = self._novelties[edge], self._recipes[edge]
        dense, bags = [], []
        for index, recipe in enumerate(recipes):
            source, pieces = recipe.source, recipe.pieces
            if isinstance(source, Bags):
                offsets, codes, values = source.entries(window)
                row = np.repeat(np.arange(rows), np.diff(offsets))
                parts = [(source.table, codes)]
                some = values if values.size else None
                bags.append((novelties.feature(index, codes, len(source.table), pieces, parts, some, row), offsets))
            elif isinstance(source, Reals):
                codes = window.shifted(source.codes, recipe.offset, source.before, source.after)
                dense.append(novelties.feature(index, codes, 1, pieces, [], source.values(window, recipe.offset)))
            else:
                codes, size, parts = self._symbolic(recipe, window, made)
                dense.append(novelties.feature(index, codes, size, pieces, parts))
        if self._marks is not None and not edge:
            for mark, distance in zip(self._marks, (window.back, window.ahead), strict=True):
                codes = np.where(distance == 0, np.int32(0), np.int32(NOTHING))
                dense.append(novelties.feature(len(recipes) + len(dense), codes, 1, (mark,), []))
        return FeatureBatch(rows, dense, bags, self._afresh)

    def _symbolic(
        self, recipe: Recipe, window: ContextWindow, made: dict[int, Codes]
    ) -> tuple[Codes, int, list[tuple[StringTable, Codes]]]:
        """The codes of a feature, below what they are, and the parts of its text."""
        codes, size, parts = np.zeros(0, np.int32), 1, []
        for source, offset, alone, slot in recipe.factors:
            if alone not in made:
                made[alone] = window.shifted(source.codes, offset, source.before, source.after)
            parts.append((source.table, made[alone]))
            if slot != alone:
                if slot not in self._pairs:
                    self._pairs[slot] = PairTable()
                if slot not in made:
                    made[slot] = self._pairs[slot].codes(codes, made[alone])
            codes, size = made[slot], len(source.table if slot == alone else self._pairs[slot])
        return codes if parts else np.zeros(window.high - window.low, np.int32), size, parts

    def _recipe(self, feature: Feature, slots: dict[tuple[Factor, ...], int]) -> Recipe:
        factors = feature.factors
        sources: list[Any] = [self._sources[str(factor.column), factor.steps] for factor in factors]
        prefixes = [factors[:count] for count in range(1, len(factors) + 1)]
        places = [
            (source, factor.offset, slots.setdefault((factor,), len(slots)), slots.setdefault(prefix, len(slots)))
            for source, factor, prefix in zip(sources, factors, prefixes, strict=True)
        ]
        return Recipe(sources[0] if sources else None, factors[0].offset if factors else 0, feature.pieces, places)

    @property
    def _nbytes(self) -> int:
        return sum(table.nbytes for table in (*self._sources.values(), *self._pairs.values()))

    def _forget(self) -> None:
        """Free all tables: an attribute has the same id whenever it occurs."""
        for source in self._sources.values():
            source.forget()
        self._pairs = {}
        self._novelties = {edge: NewCodes() for edge in (False, True)}
        self._afresh = True
