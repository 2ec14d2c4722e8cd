"""The jobs of an encoding in parts: the pieces of the files, by their sizes alone, and which are encoded together."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from chainfold.errors import BadFile, BadSetting, ChainfoldError, EmptyInput
from chainfold.features.numbers import needs_fit
from chainfold.features.schema import Schema, reader_of
from chainfold.features.spec import InputSpec
from chainfold.features.template import Template
from chainfold.readers.columns import Stretch
from chainfold.readers.csv_tsv import CsvReader
from chainfold.readers.formats import TEXT, Format, InputReader, are_files
from chainfold.readers.inputs import UTF8, Input, Inputs, Meter, Stream
from chainfold.readers.parquet import group_sizes
from chainfold.readers.pieces import CutPlaces, FilePiece, PieceReader, PlannedFile, changed_at

Pieces = tuple[list[FilePiece], int | None]  # and a place enough rows before the end, where that has to be known

PART_SIZE = 64 << 20  # bytes of input
_PIECE = 1 << 22
WORKING = ".encoding-"


@dataclass(frozen=True)
class PartsEncoding:
    """The jobs of an encoding, and all that is needed to do one of them anywhere; `plan` makes one."""

    output: str  # the folder of the chain, a path or a URI
    spec: InputSpec
    files: tuple[PlannedFile, ...]
    jobs: tuple[tuple[FilePiece, ...], ...]  # consecutive pieces
    template: Template
    run: str  # what tells its working files from those of others

    @property
    def needs_survey(self) -> bool:
        """Whether there are scales or bins to be found first."""
        return needs_fit(self.template)

    @property
    def size(self) -> int:
        """Bytes of all inputs."""
        return sum(file.size for file in self.files)

    @property
    def folder(self) -> str:
        """The folder of its working files in the output."""
        return f"{WORKING}{self.run}"

    def working(self, kind: str, job: int) -> str:
        """The name of a working file."""
        return f"{self.folder}/{kind}-{job:06}.arrow"

    def reader(self, progress: Meter | None = None, numbered: bool = False) -> PieceReader:
        """A reader of its pieces."""
        return PieceReader(reader_of(self.spec), self.files, self.spec.encoding or UTF8, progress, numbered)

    def schema(self, first: Stretch) -> Schema:
        """The columns and their roles; first: rows with these columns."""
        return replace(Schema.of(self.spec, first), template=self.template)

    def source(self, job: int) -> str:
        """The name of the file with which a job begins."""
        return self.files[self.jobs[job][0].file].name


def plan(inputs: Any, output: str | Path, *, part_size: int = PART_SIZE, **options: Any) -> PartsEncoding:
    """Cut files into the jobs of an encoding in parts: the same for the same files, whoever does them.

    inputs      paths, globs and URIs; each of them is a file
    output      the folder to write, a path or a URI
    part_size   bytes of input for each part, or so: larger files are cut, and consecutive smaller ones are put together
    options     the fields of `InputSpec`

    Text of UTF-8 that is not compressed is cut between lines, Parquet between row groups; other files are not cut. A
    CSV file that is to be cut is read once for quoted line ends. Raises `ChainfoldError`.
    """
    if not isinstance(part_size, int) or part_size < 1:
        raise BadSetting("part_size", part_size, "a number of bytes, at least 1")
    spec = InputSpec.of(**options)
    if not are_files(inputs):
        raise ChainfoldError("a chain in parts is encoded from files; write the table to Parquet, and give its name.")
    reader = reader_of(spec)
    sources = list(Inputs(inputs, spec.encoding or UTF8))
    files = list(_looked_at(sources, reader))
    pieces = PieceReader(reader, files, spec.encoding or UTF8)
    template = Schema.of(spec, pieces.first).template
    rows = max(template.left, 1)
    cut: list[FilePiece] = []
    for number, (source, file) in enumerate(zip(sources, files, strict=True)):
        some, before_end = _pieces(source, file, reader, part_size, rows)
        files[number] = file._replace(before_end=before_end)
        cut += [piece._replace(file=number) for piece in some]
    jobs = tuple(_together(cut, part_size))
    where = str(output)
    return PartsEncoding(where, spec, tuple(files), jobs, template, secrets.token_hex(8))


def _looked_at(sources: Sequence[Input], reader: InputReader) -> Iterator[PlannedFile]:
    """The files, and how each can be cut."""
    text: Format | None = None
    for source in sources:
        if source.source.address is None or source.source.size is None:
            raise BadFile(source.name, "is no file; a chain in parts is encoded from files with names.")
        with closing(source.open()) as stream:
            if not stream.peek(1):
                raise EmptyInput(source.name, "is empty.") if stream.failure is None else stream.failure
            form = reader.format_of(stream, text)
            text = form if form in TEXT else text
            cut, end = CutPlaces.NOWHERE, source.source.size
            if form is Format.PARQUET:
                cut, end = CutPlaces.GROUPS, len(group_sizes(stream, source.source.size))
            elif form in TEXT and stream.compression is None and stream.encoding == UTF8:
                cut = CutPlaces.LINES
        yield PlannedFile(source.name, source.source.address, form, cut, end, source.source.size, changed_at(source))


def _pieces(source: Input, file: PlannedFile, reader: InputReader, most: int, rows: int) -> Pieces:
    """The pieces of one file, none much larger than `most` bytes; rows: those to be known before each."""
    if file.size <= most or file.cut is CutPlaces.NOWHERE:
        return [FilePiece(0, 0, file.end, file.size)], None
    if file.cut is CutPlaces.GROUPS:
        with closing(source.open()) as stream:
            return _groups(group_sizes(stream, file.size), most), None
    places = [*range(0, file.size, most), file.size]
    lines = reader.text_reader(file.form)
    if isinstance(lines, CsvReader) and lines.spans_lines and _has_quote(source, file.size):
        with closing(source.open()) as stream:
            return _between_rows(lines, stream, places, rows)
    return [FilePiece(0, low, high, high - low) for low, high in pairwise(places)], None


def _groups(sizes: Sequence[int], most: int) -> list[FilePiece]:
    """Row groups in runs."""
    pieces, begin, size = [], 0, 0
    for group, bytes_in_it in enumerate(sizes):
        if size and size + bytes_in_it > most:
            pieces.append(FilePiece(0, begin, group, size))
            begin, size = group, 0
        size += bytes_in_it
    return [*pieces, FilePiece(0, begin, len(sizes), size)]


def _between_rows(lines: CsvReader, stream: Stream, places: Sequence[int], rows: int) -> Pieces:
    """Pieces that begin with the first rows from these places on."""
    recent = np.empty(0, np.int64)  # where the last rows began
    begins: list[int] = []
    before: list[int] = []
    left, first = list(places[:-1]), -1
    for begun in lines.row_places(stream):
        recent = np.concatenate([recent, begun])
        first = int(recent[0]) if first < 0 and recent.size else first
        while left and recent.size and recent[-1] >= left[0]:
            row = int(np.searchsorted(recent, left.pop(0)))
            if not begins or recent[row] > begins[-1]:
                begins.append(int(recent[row]) if begins else 0)
                before.append(int(recent[max(row - rows, 0)]))
        recent = recent[-rows:]
    if not begins:
        return [FilePiece(0, 0, places[-1], places[-1])], None
    ends = [*begins[1:], places[-1]]
    before = [place if place > first else 0 for place in (*before, int(recent[0]))]  # the first row may be a header
    cut = zip(begins, ends, before[:-1], strict=True)
    return [FilePiece(0, low, high, high - low, place) for low, high, place in cut], before[-1]


def _has_quote(source: Input, size: int) -> bool:
    with closing(source.part(0, size)) as stream:
        return any(b'"' in piece for piece in iter(lambda: stream.read(_PIECE), b""))


def _together(pieces: Sequence[FilePiece], most: int) -> Iterator[tuple[FilePiece, ...]]:
    """Consecutive pieces of different files in jobs of at most `most` bytes, or of one piece."""
    job: list[FilePiece] = []
    for piece in pieces:
        if job and sum(before.size for before in job) + piece.size > most:
            yield tuple(job)
            job = []
        job.append(piece)
    yield tuple(job)
