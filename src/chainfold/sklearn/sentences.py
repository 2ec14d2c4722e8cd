"""Sentences of tokens as input: lists of texts, or rows with a list for each column, as Hugging Face's data sets have.

A sentence is a list of tokens, ["the", "cat"], or a mapping of columns, {"tokens": ["the", "cat"], "tags": [1, 0]}.
Tokens become the column `tokens` of a table, so that templates apply to them, as in
`encoding={"attributes": "tokens[-1] tokens tokens[1]"}`; without a template the token itself is the only attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from chainfold.chain.chain import Chain, gather
from chainfold.errors import BadChain, ChainfoldError
from chainfold.features.encoder import spooled
from chainfold.features.item_blocks import lists_of_columns
from chainfold.features.row_columns import symbols
from chainfold.features.schema import Schema
from chainfold.features.spec import InputSpec
from chainfold.readers.columns import LABEL, Stretch
from chainfold.sklearn.arrays import is_list

TOKENS, TAGS = "tokens", "tags"
_OPTIONS = {"label", "attributes", "template", "border", "min_count", "hash_bits", "unknown"}
_ROWS = 65536  # in a stretch, but for the last sentence


def are_sentences(inputs: Any) -> bool:
    """Whether this is a list of sentences of tokens."""
    for sentence in inputs if is_list(inputs) else ():
        if isinstance(sentence, Mapping):
            return any(isinstance(values, (list, tuple, np.ndarray)) for values in sentence.values())
        if not isinstance(sentence, (list, tuple, np.ndarray)):
            return False
        if len(sentence):
            return isinstance(sentence[0], str)
    return False


def labels_of(sentences: Any, label: str | None) -> list[Any]:
    """The labels of sentences that are mappings, from the column `label`; by default `_label_column` finds it.

    Raises `ChainfoldError` where there is none.
    """
    column = _label_column(sentences, label)
    labels = []
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, Mapping) or column not in sentence:
            raise ChainfoldError(
                f"sequence {number} has no column of labels; name the column as encoding={{'label': …}}, or give the "
                f"labels as y."
            )
        labels.append(sentence[column])
    return labels


def _label_column(sentences: Any, label: str | None) -> str:
    """The given one, `tags`, or the only column that ends in `_tags`; `label` where there is none of these."""
    if label is not None:
        return label
    first = next(iter(sentences), None)
    columns = list(first) if isinstance(first, Mapping) else []
    names = [name for name in columns if name.endswith(f"_{TAGS}")]
    return TAGS if TAGS in columns else names[0] if len(names) == 1 else LABEL


def chain_of_sentences(sentences: Iterable[Any], labels: Iterable[Any], options: Mapping[str, Any]) -> Chain:
    """Labelled sentences as a chain.

    labels    a list of labels for each sentence
    options   fields of `InputSpec` that apply to sentences
    """
    for name in options.keys() - _OPTIONS:
        raise ChainfoldError(f"`{name}` does not apply to sentences; it says how files and tables are read.")
    label = _label_column(sentences, options.get("label"))
    spec = InputSpec.of(**{**options, "label": label, "labels": True})
    every = spec.parsed_template is not None
    with spooled(_stretches(sentences, labels, label, every), partial(Schema.of, spec)) as source:
        return gather(source)


def _stretches(sentences: Iterable[Any], labels: Iterable[Any], label: str, every: bool) -> Iterator[Stretch]:
    """The sentences as columns: all of them, or the tokens alone, and the labels."""
    columns: dict[str, list[Any]] = {}
    starts: list[bool] = []
    before, given = 0, iter(labels)
    for number, sentence in enumerate(sentences):
        theirs, mine = next(given, None), _columns(sentence, number, label, every)
        size = len(mine[TOKENS])
        if theirs is None:
            raise BadChain(f"there are only {number} sequences of labels, but sequence {number} has tokens.")
        mine[label] = list(theirs)
        if len(mine[label]) != size:
            raise BadChain(f"sequence {number} has {size} tokens, but {len(mine[label])} labels.")
        if number and mine.keys() != columns.keys():
            raise BadChain(
                f"sequence {number} has the columns {', '.join(mine)}, but others have {', '.join(columns)}."
            )
        for name, values in mine.items():
            columns.setdefault(name, []).extend(values)
        starts += [place == 0 for place in range(size)]
        if len(starts) >= _ROWS:
            yield _stretch(columns, starts, before)
            before += len(starts)
            columns, starts = {name: [] for name in columns}, []
    if next(given, None) is not None:
        raise BadChain("there are more sequences of labels than sequences of tokens.")
    if starts:
        yield _stretch(columns, starts, before)


def _columns(sentence: Any, number: int, label: str, every: bool) -> dict[str, list[Any]]:
    """The columns of one sentence, the tokens first."""
    if isinstance(sentence, Mapping):
        if not isinstance(sentence.get(TOKENS), (list, tuple, np.ndarray)):
            raise BadChain(f"sequence {number} has no list {TOKENS!r}; its columns are {', '.join(sentence)}.")
        lists = lists_of_columns(sentence, number)
        return {TOKENS: lists[TOKENS]} | {name: lists[name] for name in lists if every and name != label}
    if isinstance(sentence, str) or not isinstance(sentence, Iterable):
        raise BadChain(f"sequence {number} is {sentence!r}; give a list of tokens.")
    tokens = list(sentence)
    for place, token in enumerate(tokens):
        if not isinstance(token, str):
            raise BadChain(f"item {place} of sequence {number} is {token!r}, but tokens are texts.")
    return {TOKENS: tokens}


def _stretch(columns: Mapping[str, list[Any]], starts: list[bool], before: int) -> Stretch:
    batch = pa.RecordBatch.from_pydict({name: symbols(values) for name, values in columns.items()})
    lines = np.arange(before, before + len(starts))
    return Stretch(batch, np.array(starts, np.bool_), lines, "the sentences", "item")
