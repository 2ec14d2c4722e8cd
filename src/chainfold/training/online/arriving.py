"""Rows as they arrive, in blocks with hashed attributes.

    arriving     files or a pipe, or a chain that was encoded with hashed attributes

Bins and scales of numbers are fitted on the first rows, which are held until there are enough of them. What follows on
the rows of a pipe is read as those were: its columns, attributes and labels are known, and there need not be more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain as chained
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain.block import Block, vocabulary_of
from chainfold.chain.builder import HashedNames
from chainfold.chain.stored import is_chain, open_chain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadFile, ChainfoldError, EmptyChain, EmptyInput
from chainfold.features.encode import Options, encoding_of, stretches
from chainfold.features.encoder import Lexicon, Numberer, Progress
from chainfold.features.for_model import KnownOptions, Plan
from chainfold.features.numbers import fit, needs_fit
from chainfold.features.schema import Encoding, Labels, Roles
from chainfold.features.template import Template
from chainfold.inference.tagger import blocks_of
from chainfold.readers.columns import Columns, Stretch, kinds_of
from chainfold.readers.inputs import Inputs
from chainfold.training.online.share import NOTHING

DEFAULT_HASH_BITS = 18
FITTED_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Arriving:
    """Blocks to learn from."""

    blocks: Iterable[Block]
    vocabulary: Vocabulary  # without the labels
    labels: list[str]  # those that have come so far
    again: bool  # would the same rows come once more, and not others?
    waiting: Callable[[], Block] = lambda: NOTHING
    """The rows that are in no block as yet, since the template looks ahead: as they are if nothing follows them."""


def arriving(inputs: list[str], options: Options, piped: Vocabulary | None = None) -> Arriving:
    """The rows of inputs; `piped` is what a pipe had given before, to which standard input or a pipe adds more."""
    if is_chain(inputs):
        return _of_chain(inputs[0], options)
    given = replace(encoding_of(options), hash_bits=options.get("hash_bits") or DEFAULT_HASH_BITS)
    given = replace(given, groups_return=given.group is not None)  # as they do in what arrives
    progress = options.get("progress") or Progress()
    files = Inputs(inputs, options.get("encoding", "utf-8"), progress.read, live=True)
    again = files.total_bytes is not None
    if piped is not None and (not again or not any(one.regular for one in files)):
        return _continued(files, options, given.template, piped)
    rows = stretches(files, options, given.texts)
    first = next(rows, None)
    if first is None:
        raise EmptyChain
    roles = Roles.of(kinds_of(first.batch), given, first.source)
    template, rows = _fitted(roles.template(given), chained([first], rows))
    return _of_rows(rows, template, roles, given, Labels(given.unknown), again)


def _continued(files: Inputs, options: Options, asked: Template | None, before: Vocabulary) -> Arriving:
    """What follows on rows that do not come again, perhaps nothing; `asked` is the template that was given with it."""
    assert before.template is not None, "it was made for rows of columns"
    assert before.columns is not None, "it was made for rows of columns"
    names = KnownOptions.__annotations__.keys() - {"weight"}
    told: Any = {name: value for name, value in options.items() if name in names}
    told |= {"labels": True, "one_sequence": options.get("one_sequence") or None}
    plan = Plan(before, told)
    rows = plan.stretches(files)
    try:
        first = next(rows)
    except EmptyInput:
        return Arriving((), replace(before, labels=()), list(before.labels), again=False)
    columns, given = Columns.from_json(before.columns), plan.encoding(first)
    given = replace(
        given,
        label=options.get("label") or given.label,
        hash_bits=options.get("hash_bits") or given.hash_bits,
        groups_return=given.group is not None,
        header=columns.header,
        comments=columns.comments,
    )
    template, labels = Template.from_json(before.template), Labels(given.unknown, before.labels)
    if asked is not None and not needs_fit(asked := asked.resolved(list(columns.kinds))):
        template = asked  # the run says if it is another
    roles = Roles.of(columns.kinds, given, first.source)
    return _of_rows(chained([first], rows), template, roles, given, labels, again=False)


def _of_rows(
    rows: Iterator[Stretch], template: Template, roles: Roles, given: Encoding, labels: Labels, again: bool
) -> Arriving:
    assert given.hash_bits is not None, "attributes are hashed"
    looked_at = [str(column) for feature in template.features if feature.edge for column in feature.columns]
    if any(roles.kinds[column] != "bag" for column in looked_at):  # bags may be empty at all rows
        raise ChainfoldError("edge attributes cannot be learnt online; leave them out of the template.")
    lexicon = Lexicon(labels, HashedNames(given.hash_bits), HashedNames(given.hash_bits))
    numberer = Numberer(template, roles, given.one_sequence, lexicon)
    vocabulary = Vocabulary(
        labels=(),
        attributes=None,
        edge_attributes=pa.array([], pa.large_string()),
        counts=np.empty(0, np.int64),
        marks=np.empty((0, 1), np.uint64),
        hash_bits=given.hash_bits,
        label=roles.label,
        template=template.to_json(),
        columns=roles.columns(given).to_json(),
    )
    blocks = (numbered.block for numbered in numberer.numbered(rows, ahead=again))
    return Arriving(blocks, vocabulary, labels.names, again, lambda: numberer.foreseen().block)


def _of_chain(path: str | Path, options: Options) -> Arriving:
    chain = open_chain(path)
    vocabulary, bits = vocabulary_of(chain), options.get("hash_bits")
    if vocabulary is None or vocabulary.hash_bits is None:
        raise BadFile(path, "its attributes are not hashed, as online learning needs them; encode with --hash-bits.")
    if bits not in (None, vocabulary.hash_bits):
        raise BadFile(path, f"its attributes are hashed to {vocabulary.hash_bits} bits; leave --hash-bits out.")
    return Arriving(blocks_of(chain), replace(vocabulary, labels=()), list(vocabulary.labels), again=True)


def _fitted(template: Template, rows: Iterator[Stretch]) -> tuple[Template, Iterator[Stretch]]:
    """The template with its numbers, and all rows; the first ones are held for so long."""
    if not needs_fit(template):
        return template, rows
    held: list[Stretch] = []
    count = 0
    while count < FITTED_ROWS and (stretch := next(rows, None)) is not None:
        held.append(stretch)
        count += stretch.lines.size
    return fit(template, _first_of(held, FITTED_ROWS)), chained(held, rows)


def _first_of(held: list[Stretch], count: int) -> Iterator[Any]:
    """The first rows, however they are cut into stretches."""
    for stretch in held:
        size = min(count, stretch.lines.size)
        yield stretch._replace(
            batch=stretch.batch.slice(0, size), starts=stretch.starts[:size], lines=stretch.lines[:size]
        )
        count -= size
