"""Files, tables and Python's own sequences to a chain, on disk or in memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.batches import StoredChain
from chainfold.chain.chain import Chain, gather
from chainfold.chain.stored import write_chain
from chainfold.errors import AlreadyAppended, BadFile
from chainfold.features.encoder import spooled
from chainfold.features.schema import Schema, reader_of
from chainfold.features.spec import InputSpec
from chainfold.features.spool import SpooledChain
from chainfold.features.template import Template
from chainfold.readers.columns import LABEL, WEIGHT
from chainfold.readers.progress import InputProgress
from chainfold.readers.row_digest import RowDigest
from chainfold.readers.sequences import stretches_of
from chainfold.system.outputs import claimed
from chainfold.system.storage import is_uri, shown


def encode(
    inputs: Any,
    output: str | Path,
    *,
    append: bool = False,
    again: bool = False,
    origin: str | None = None,
    progress: InputProgress | None = None,
    **options: Any,
) -> StoredChain:
    """Encode files or a table into a chain on disk, in bounded memory, and open it.

    inputs     paths, globs, `-` for standard input, an open binary file, or a table (Arrow, pandas, polars, NumPy)
    output     the file to write
    append     add the positions to those that the output has; rows that were appended before raise `AlreadyAppended`
    again      append them even so
    origin     a text to keep in the header of the chain
    progress   callbacks
    options    the fields of `InputSpec`, for instance `columns`, `attributes`, `label`

    Raises `BadFile` for an input that cannot be read, `ChainfoldError` for options that are wrong.

    >>> import io, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chain = encode(io.BytesIO(b"the D\\ncat N\\n"), f"{folder}/chain", columns=["word", "label"])
    ...     chain.positions, chain.vocabulary.labels
    (2, ('D', 'N'))
    """
    if is_uri(output) or (is_chain(output) and Path(output).is_dir()):
        raise BadFile(
            shown(output), "only a whole chain in parts can be written there; use `encode_in_parts` (--part-size)."
        )
    with claimed([output], [inputs, options.get("template")]):
        spec = InputSpec.of(**options)
        if not append:
            with _spooled(inputs, spec, progress, folder=Path(output).parent) as source:
                write_chain(output, source, origin)
            return StoredChain(output)
        before = open_chain(output) if Path(output).exists() else None
        if before is not None and not isinstance(before, StoredChain):
            raise BadFile(output, "was written as a stream and cannot be appended to; encode it into a file.")
        if before is not None:
            spec = _continuing(before, output, spec)
        appended = () if before is None else before.header.appended
        digest = RowDigest()
        with _spooled(inputs, spec, progress, before, Path(output).parent, digest) as source:
            if digest.text in appended and not again:
                raise AlreadyAppended(output, digest.rows)
            write_chain(output, source, origin, (*appended, digest.text))
        return StoredChain(output)


def encode_to(stream: BinaryIO, inputs: Any, *, progress: InputProgress | None = None, **options: Any) -> None:
    """Encode files or a table, and write the chain to a pipe once its numbers are final."""
    with _spooled(inputs, InputSpec.of(**options), progress) as source:
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
    """Encode sequences into a chain on disk, in bounded memory, and open it.

    The arguments are those of `chain_from_sequences`, and the file to write.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encode_sequences([[{"word": "the"}, {"word": "cat"}]], [["D", "N"]], f"{folder}/chain").positions
    2
    """
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
    """A chain in memory from sequences of items.

    sequences   lists of items; an item is a dict of strings, numbers and bools, or a collection of strings
    labels      a list of strings for each sequence
    weights     a number for each sequence
    min_count   attributes that occur less often are left out
    hash_bits   hash attributes to this many bits

    Iterators are read once. Raises `BadChain` if an item is of another type, or if lengths differ. `encode_sequences`
    writes the chain to disk instead.

    >>> chain_from_sequences([[{"word": "the"}, {"word": "cat"}]], [["D", "N"]]).positions
    2
    """
    with _of_sequences(sequences, labels, weights, min_count, hash_bits) as source:
        return gather(source)


def chain_from_table(table: Any, *, progress: InputProgress | None = None, **options: Any) -> Chain:
    """A chain in memory from a table of Arrow, pandas, polars or NumPy; the options are those of `encode`.

    >>> import pyarrow as pa
    >>> chain_from_table(pa.table({"word": ["the", "cat"], "label": ["D", "N"]})).positions
    2
    """
    with _spooled(table, InputSpec.of(**options), progress) as source:
        return gather(source)


def _of_sequences(
    sequences: Iterable[Any],
    labels: Iterable[Any] | None,
    weights: Iterable[float] | None,
    min_count: int,
    hash_bits: int | None,
    folder: Path | None = None,
) -> AbstractContextManager[SpooledChain]:
    spec = InputSpec(
        label=None if labels is None else LABEL,
        labels=labels is not None,
        weight=None if weights is None else WEIGHT,
        min_count=min_count,
        hash_bits=hash_bits,
    )
    return spooled(stretches_of(sequences, labels, weights), partial(Schema.of, spec), folder=folder)


def _spooled(
    inputs: Any,
    spec: InputSpec,
    progress: InputProgress | None,
    before: StoredChain | None = None,
    folder: Path | None = None,
    digest: RowDigest | None = None,
) -> AbstractContextManager[SpooledChain]:
    progress = progress or InputProgress()
    rows = reader_of(spec).rows(inputs, spec.encoding, progress)
    if digest is not None:
        rows = digest.of(rows)
    return spooled(rows, partial(Schema.of, spec), before=before, folder=folder, progress=progress)


def _continuing(before: StoredChain, path: str | Path, spec: InputSpec) -> InputSpec:
    """The options with those that the chain was made with."""
    vocabulary = before.vocabulary
    if vocabulary is None or vocabulary.template is None:
        raise BadFile(path, "cannot be appended to: it was not encoded from columns; encode it anew.")
    if spec.label not in (None, vocabulary.label):
        raise BadFile(path, f"has its labels from column {vocabulary.label!r}; append without another `label`.")
    if (spec.parsed_template, spec.numbers, spec.hash_bits, spec.min_count or 1) != (None, None, None, 1):
        raise BadFile(path, "has its template, `numbers`, `min_count` and `hash_bits`; append without them.")
    weight = Schema.of_vocabulary(vocabulary).weight
    if before.weighted and weight is None:
        raise BadFile(path, "has weights that came from no column; encode it anew.")
    if spec.weight not in (None, weight):
        has, other = ("no weights", "") if weight is None else (f"its weights from column {weight!r}", "another ")
        raise BadFile(path, f"has {has}; append without {other}`weight`.")
    return replace(
        spec,
        weight=weight,
        template=Template.from_json(vocabulary.template),
        label=vocabulary.label,
        labels=vocabulary.label is not None,
        hash_bits=vocabulary.hash_bits,
        min_count=vocabulary.min_count,
    )
