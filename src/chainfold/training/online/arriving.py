"""Rows for online training, in blocks with hashed attributes: from files, a pipe, or a chain with hashed attributes.

Bins and scales of numbers are fitted on the first rows, which are held until there are enough. Rows that continue an
earlier pipe have its columns, attributes and labels; there may be none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain as chained
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.block import Block, vocabulary_of
from chainfold.chain.builder import HashedNames
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError, EmptyInput
from chainfold.features.encoder import Lexicon, Numberer, first_of
from chainfold.features.for_model import ModelInput
from chainfold.features.labels import Labels
from chainfold.features.numbers import fit, needs_fit
from chainfold.features.schema import Schema, check_roles, reader_of
from chainfold.features.spec import InputSpec
from chainfold.features.template import Template
from chainfold.inference.tagger import blocks_of
from chainfold.readers.columns import Stretch
from chainfold.readers.inputs import UTF8, Inputs
from chainfold.readers.progress import InputProgress
from chainfold.training.online.share import NOTHING

DEFAULT_HASH_BITS = 18
FITTED_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Arriving:
    """Blocks to train on."""

    blocks: Iterable[Block]
    vocabulary: Vocabulary  # without labels
    labels: list[str]  # labels so far
    again: bool  # whether the same rows can be read again
    waiting: Callable[[], Block] = lambda: NOTHING
    """Rows of a pipe that are in no block yet, because the template looks ahead; their block if no row follows."""


def arriving(
    inputs: list[str],
    *,
    piped: Vocabulary | None = None,
    progress: InputProgress | None = None,
    **options: Any,
) -> Arriving:
    """Blocks of the inputs; the options are the fields of `InputSpec`. Groups may occur again.

    piped: the vocabulary of earlier rows of a pipe, which standard input or a pipe continues.
    """
    spec, progress = InputSpec.of(**options), progress or InputProgress()
    if is_chain(inputs):
        return _of_chain(inputs[0], spec)
    spec = replace(spec, hash_bits=spec.hash_bits or DEFAULT_HASH_BITS, groups_return=spec.group is not None)
    files = Inputs(inputs, spec.encoding or UTF8, progress.read, live=True)
    again = files.total_bytes is not None
    if piped is not None and (not again or not any(source.regular for source in files)):
        return _continued(files, spec, options.get("hash_bits"), piped, progress)
    first, rows = first_of(reader_of(spec).rows(files, spec.encoding, progress))
    schema = Schema.of(spec, first)
    template, rows = _fitted(schema.template, rows)
    return _of_rows(rows, replace(schema, template=template), Labels(spec.unknown), again)


def _continued(
    files: Inputs, spec: InputSpec, hash_bits: int | None, before: Vocabulary, progress: InputProgress
) -> Arriving:
    """Rows that continue an earlier pipe; there may be none."""
    reading = spec.reading(groups_return=None, labels=True, one_sequence=spec.one_sequence or None)
    model_input = ModelInput(before, reading, progress)
    rows = model_input.stretches(files)
    try:
        first = next(rows)
    except EmptyInput:
        return Arriving((), replace(before, labels=()), list(before.labels), again=False)
    schema, kinds = model_input.schema(first), model_input.model.kinds
    schema = replace(
        schema,
        kinds=kinds,
        label=spec.label or schema.label,
        template=model_input.model.template,
        hash_bits=hash_bits or schema.hash_bits,
        groups_return=schema.group is not None,
    )
    given = spec.parsed_template
    if given is not None and not needs_fit(given := given.resolved(list(kinds))):
        schema = replace(schema, template=given)  # the run raises if it differs
    check_roles(kinds, first.source, label=schema.label, group=schema.group, weight=schema.weight)
    return _of_rows(chained([first], rows), schema, Labels(schema.unknown, before.labels), again=False)


def _of_rows(rows: Iterator[Stretch], schema: Schema, labels: Labels, again: bool) -> Arriving:
    assert schema.hash_bits is not None, "attributes are hashed"
    edges = [str(column) for feature in schema.template.features if feature.edge for column in feature.columns]
    if any(schema.kinds[column] != "bag" for column in edges):  # bags may be empty at all rows
        raise ChainfoldError("online training does not support edge attributes; leave them out of the template.")
    lexicon = Lexicon(labels, HashedNames(schema.hash_bits), HashedNames(schema.hash_bits))
    numberer = Numberer(schema, lexicon)
    vocabulary = uncounted(
        labels=(),
        hash_bits=schema.hash_bits,
        label=schema.label,
        template=schema.template.to_json(),
        columns=schema.columns_json(),
    )
    blocks = (numbered.block for numbered in numberer.numbered(rows, ahead=again))
    waiting = (lambda: NOTHING) if again else (lambda: numberer.foreseen().block)
    return Arriving(blocks, vocabulary, labels.names, again, waiting)


def uncounted(**meaning: Any) -> Vocabulary:
    """A vocabulary of hashed attributes that the trainer counts."""
    return Vocabulary(
        attributes=None,
        edge_attributes=pa.array([], pa.large_string()),
        counts=np.empty(0, np.int64),
        marks=np.empty((0, 1), np.uint64),
        **meaning,
    )


def _of_chain(path: str | Path, spec: InputSpec) -> Arriving:
    chain = open_chain(path)
    vocabulary = vocabulary_of(chain)
    if vocabulary is None or vocabulary.hash_bits is None:
        raise BadFile(path, "its attributes are not hashed, as online training requires; encode it with `hash_bits`.")
    if spec.hash_bits not in (None, vocabulary.hash_bits):
        raise BadFile(path, f"its attributes are hashed to {vocabulary.hash_bits} bits; leave `hash_bits` out.")
    return Arriving(blocks_of(chain), replace(vocabulary, labels=()), list(vocabulary.labels), again=True)


def _fitted(template: Template, rows: Iterator[Stretch]) -> tuple[Template, Iterator[Stretch]]:
    """The template with bins and scales fitted on the first rows, and all rows."""
    if not needs_fit(template):
        return template, rows
    held: list[Stretch] = []
    first: list[Stretch] = []
    left = FITTED_ROWS
    while left and (stretch := next(rows, None)) is not None:
        size = min(left, stretch.lines.size)
        held.append(stretch)
        first.append(
            stretch._replace(
                batch=stretch.batch.slice(0, size), starts=stretch.starts[:size], lines=stretch.lines[:size]
            )
        )
        left -= size
    return fit(template, iter(first)), chained(held, rows)
