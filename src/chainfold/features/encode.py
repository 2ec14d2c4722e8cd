"""Files, tables and Python's own sequences to a chain, on disk or in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, Unpack

from chainfold.chain.chain import Chain, gather
from chainfold.chain.stored import PipedChain, StoredChain, open_chain, write_chain
from chainfold.errors import AlreadyAppended, BadFile, BadSetting, ChainfoldError
from chainfold.features.encoder import Progress, spooled
from chainfold.features.schema import Encoding
from chainfold.features.spool import SpooledChain
from chainfold.features.template import Border, Template, parse_attributes, parse_template
from chainfold.readers.columns import Choice, Columns, Stretch
from chainfold.readers.formats import Reading, format_called, read, read_table
from chainfold.readers.inputs import Inputs
from chainfold.readers.row_digest import RowDigest
from chainfold.readers.sequences import LABEL, WEIGHT, stretches_of
from chainfold.system.outputs import claimed


class ReadOptions(TypedDict, total=False):
    """How to read an input; everything has a default."""

    format: str | None  # conll, conllu, crfsuite, csv, tsv, parquet or arrow; recognised unless given
    columns: Sequence[str] | None  # names for columns that have none in the input
    symbols: Sequence[str]  # columns of tables that are symbols even if they look like numbers
    header: bool | None  # does the first line of a CSV or TSV file name the columns? Guessed unless given
    encoding: str  # of text; UTF-8 unless given
    unknown: str | None  # a text that stands for an unknown label, as an empty one does
    comments: str | None  # what lines begin with that are comments, in CoNLL and CRFsuite's lines; "" if none are
    group: str | None  # a new sequence starts where this column changes; else at blank lines, and at each file
    groups_return: bool | None  # may a group come again after another, as a sequence of its own?
    progress: Progress  # who wants to know how far things are


class Options(ReadOptions, total=False):
    """What to make of an input; everything has a default."""

    template: str | Path | Template | None  # a CRF++ or Wapiti file, or a template
    attributes: str | None  # expressions, as in "word[-1] word shape(word)"; every column as it is unless given
    border: str | None  # what they see beyond a sequence: crfsuite (nothing, the default), crfpp or wapiti
    numbers: str | None  # of columns as they are: quantile (16 bins, the default), log, real, standard or symbol
    label: str | None  # the column of labels; the one called `label`, else the last, unless given
    labels: bool  # False: there are none
    weight: str | None  # a column of numbers, the weights of the positions; all weigh one unless given
    one_sequence: bool  # nothing starts a new sequence
    min_count: int  # attributes that occur less often are left out
    hash_bits: int | None  # hash attributes to so many bits: memory that does not grow, and no names


def encode(
    inputs: Any,
    output: str | Path,
    *,
    append: bool = False,
    again: bool = False,
    origin: str | None = None,
    **options: Unpack[Options],
) -> StoredChain:
    """Encode files or a table into a chain on disk, in bounded memory, and open it.

    The inputs are paths, globs, `-` for standard input, an open binary file, or a table (Arrow, pandas, polars, NumPy).
    With `append` the positions are put behind those that the output has already; rows that were appended before are
    refused unless `again` is given. `origin` is a text to find in the chain's header again. `Options` lists the
    options.
    """
    with claimed([output], [inputs, options.get("template")]):
        encoding = encoding_of(options)
        if not append:
            with _spooled(inputs, options, encoding, folder=Path(output).parent) as source:
                write_chain(output, source, origin)
            return StoredChain(output)
        before = _to_continue(output) if Path(output).exists() else None
        if before is not None:
            encoding = _continuing(before, output, encoding)
        appended = () if before is None else before.header.appended
        digest = RowDigest()
        with _spooled(inputs, options, encoding, before, Path(output).parent, digest) as source:
            if digest.text in appended and not again:
                raise AlreadyAppended(output, digest.rows)
            write_chain(output, source, origin, (*appended, digest.text))
        return StoredChain(output)


def encode_to(stream: BinaryIO, inputs: Any, **options: Unpack[Options]) -> None:
    """Encode files or a table, and write the chain to a pipe when its numbers are final."""
    with _spooled(inputs, options, encoding_of(options)) as source:
        write_chain(stream, source)


def encode_sequences(
    sequences: Iterable[Any],
    labels: Iterable[Any] | None,
    output: str | Path,
    *,
    weights: Iterable[float] | None = None,
    min_count: int = 1,
    hash_bits: int | None = None,
) -> StoredChain:
    """Encode sequences, as `chain_from_sequences` takes them, into a chain on disk; iterators are read once."""
    with _of_sequences(sequences, labels, weights, min_count, hash_bits, Path(output).parent) as source:
        write_chain(output, source)
    return StoredChain(output)


def chain_from_sequences(
    sequences: Iterable[Any],
    labels: Iterable[Any] | None = None,
    *,
    weights: Iterable[float] | None = None,
    min_count: int = 1,
    hash_bits: int | None = None,
) -> Chain:
    """A chain in memory from sequences of items; labels are sequences of strings.

    An item is a dict of strings, numbers and bools, or a collection of strings. A weight is that of a sequence.
    Iterators are read once. `encode_sequences` writes the chain to disk instead.
    """
    with _of_sequences(sequences, labels, weights, min_count, hash_bits) as source:
        return gather(source)


def chain_from_table(table: Any, **options: Unpack[Options]) -> Chain:
    """A chain in memory from a table of Arrow, pandas, polars or NumPy; the options are those of `encode`."""
    with _spooled(table, options, encoding_of(options)) as source:
        return gather(source)


def _of_sequences(
    sequences: Iterable[Any],
    labels: Iterable[Any] | None,
    weights: Iterable[float] | None,
    min_count: int,
    hash_bits: int | None,
    folder: Path | None = None,
) -> AbstractContextManager[SpooledChain]:
    settings = Encoding(
        label=None if labels is None else LABEL,
        labels=labels is not None,
        weight=None if weights is None else WEIGHT,
        min_count=min_count,
        hash_bits=hash_bits,
    )
    return spooled(stretches_of(sequences, labels, weights), settings, folder=folder)


def _spooled(
    inputs: Any,
    options: Options,
    encoding: Encoding,
    before: StoredChain | None = None,
    folder: Path | None = None,
    digest: RowDigest | None = None,
) -> AbstractContextManager[SpooledChain]:
    progress = _progress(options)
    rows = stretches(inputs, options, encoding.texts)
    if digest is not None:
        rows = digest.of(rows)
    return spooled(rows, encoding, before=before, folder=folder, progress=progress)


def _progress(options: ReadOptions) -> Progress:
    return options.get("progress") or Progress()


def check_options(options: Mapping[str, Any], kind: type) -> None:
    """Raise unless all of them are options of this kind."""
    for name in options.keys() - kind.__annotations__.keys():
        raise ChainfoldError(f"there is no option {name!r}; the options are {', '.join(kind.__annotations__)}.")


def encoding_of(options: Options) -> Encoding:
    """The options that say what to make of columns."""
    check_options(options, Options)
    return Encoding(
        template=_template(options.get("template"), options.get("attributes"), options.get("border")),
        numbers=options.get("numbers"),
        symbols=frozenset(options.get("symbols", ())),
        label=options.get("label"),
        labels=options.get("labels", True),
        unknown=options.get("unknown"),
        group=options.get("group"),
        groups_return=bool(options.get("groups_return")),
        comments=options.get("comments"),
        weight=options.get("weight"),
        one_sequence=options.get("one_sequence", False),
        min_count=options.get("min_count", 1),
        hash_bits=options.get("hash_bits"),
        header=options.get("header"),
    )


def _template(template: str | Path | Template | None, attributes: str | None, border: str | None) -> Template | None:
    if template is not None and attributes is not None:
        raise ChainfoldError("attributes come from a template file or from expressions: give one of the two.")
    if border is not None and attributes is None:
        raise ChainfoldError("a border is chosen for expressions; a template file has its own: leave it out.")
    if border is not None and border not in list(Border):
        raise BadSetting("border", border, f"one of {', '.join(Border)}")
    if attributes is not None:
        if not isinstance(attributes, str):
            raise BadSetting("attributes", attributes, "one text, expressions with white space between them")
        return parse_attributes(attributes, Border(border or Border.CRFSUITE))
    if template is None or isinstance(template, Template):
        return template
    try:
        return parse_template(Path(template).read_text(encoding="utf-8"), str(template))
    except OSError as error:
        raise BadFile(template, f"cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise BadFile(template, f"byte {error.start} is not UTF-8; a template is a text.") from None


def _to_continue(path: str | Path) -> StoredChain:
    before = open_chain(path)
    if isinstance(before, PipedChain):
        raise BadFile(path, "was written as a stream and cannot be appended to; encode it into a file with -o.")
    return before


def _continuing(before: StoredChain, path: str | Path, encoding: Encoding) -> Encoding:
    """The settings with which the chain was made that is to be continued."""
    vocabulary = before.vocabulary
    if vocabulary is None or vocabulary.template is None:
        raise BadFile(path, "cannot be appended to: it was not encoded from columns; encode it anew.")
    if encoding.label not in (None, vocabulary.label):
        raise BadFile(path, f"has its labels from column {vocabulary.label!r}; append without another --label.")
    if (encoding.template, encoding.numbers, encoding.hash_bits, encoding.min_count) != (None, None, None, 1):
        raise BadFile(path, "has its template, --numbers, --min-count and --hash-bits already; append without them.")
    weight = None if vocabulary.columns is None else Columns.from_json(vocabulary.columns).weight
    if before.weighted and weight is None:
        raise BadFile(path, "has weights that came from no column; encode it anew.")
    if encoding.weight not in (None, weight):
        has, what = ("no weights", "a") if weight is None else (f"its weights from column {weight!r}", "another")
        raise BadFile(path, f"has {has}; append without {what} --weight.")
    return replace(
        encoding,
        weight=weight,
        template=Template.from_json(vocabulary.template),
        label=vocabulary.label,
        labels=vocabulary.label is not None,
        hash_bits=vocabulary.hash_bits,
        min_count=vocabulary.min_count,
    )


def stretches(inputs: Any, options: ReadOptions, texts: Choice) -> Iterator[Stretch]:
    """The rows of files or a table; `texts` chooses the columns that are symbols whatever they look like."""
    columns = options.get("columns")
    reading = Reading(
        format=format_called(options.get("format")),
        columns=None if columns is None else tuple(str(name) for name in columns),
        header=options.get("header"),
        symbols=texts,
        comments=options.get("comments"),
    )
    return rows_of(inputs, reading, options)


def rows_of(inputs: Any, reading: Reading, options: ReadOptions) -> Iterator[Stretch]:
    """The rows of files or a table, read in a certain way."""
    if not are_files(inputs):
        return read_table(inputs, reading)
    progress = _progress(options)
    files = inputs if isinstance(inputs, Inputs) else Inputs(inputs, options.get("encoding", "utf-8"), progress.read)
    progress.total(files.total_bytes)
    return read(files, reading)


def are_files(inputs: Any) -> bool:
    """Are they to be opened and read, and not a table?"""
    if isinstance(inputs, (str, Path, Inputs)) or hasattr(inputs, "read"):
        return True
    return isinstance(inputs, (list, tuple)) and all(are_files(one) for one in inputs)
