"""Wapiti's models: text with the patterns, the names and the weights that are not zero.

    #mdl#TYPE#COUNT                          TYPE is 2 for a CRF (0 in old files), and COUNT how many weights follow
    #rdr#PATTERNS/COLUMN/SINGLE              then the patterns as netstrings, LENGTH:TEXT,
    #qrk#LABELS                              then the labels as netstrings
    #qrk#OBSERVATIONS                        then the observations as netstrings, each beginning with u, b or *
    INDEX=WEIGHT                             COUNT lines, with weights as hexadecimal floats

Of Y labels an observation with u has Y weights, one with b has Y · Y, for the label before times Y plus the label, and
one with * has both, first those of u. Weights are numbered in the order of observations.

An observation is an attribute of the label, an edge attribute, or both. That of a pattern without columns, `b` for
instance, occurs everywhere: its weights are those of transitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chainfold.errors import ChainfoldError
from chainfold.exchange.foreign import Exported, StateWeights, decoded, exported, model_of, no_pairs, written_weights
from chainfold.exchange.patterns import (
    Patterns,
    has_expressions,
    of_wapiti,
    read_patterns,
    unused_name,
    with_ascii_capitals,
    written_patterns,
)
from chainfold.features.template import Border, Template
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.validate import need, spelt

PROGRAM, MAGIC = "Wapiti", b"#mdl#"
_MODEL = re.compile(rb"#mdl#(?:([0-9]{1,9})#)?([0-9]{1,19})\n")
_READER = re.compile(rb"#rdr#([0-9]{1,9})/[0-9]{1,9}(?:/([0-9]{1,9}))?\n")
_NAMES = re.compile(rb"#qrk#([0-9]{1,19})\n")
_LENGTH = re.compile(rb"\s*([0-9]{1,10}):")
_WEIGHT = re.compile(rb"([0-9]{1,19})=([-+]?)0[xX]([0-9a-fA-F.]+[pP][-+]?[0-9]{1,5})\n")
_MAXENT, _MEMM, _CRF = 0, 1, 2
_LABEL, _PAIR = 1, 2  # bits of what an observation is of
_KINDS = {b"u": _LABEL, b"b": _PAIR, b"*": _LABEL | _PAIR}


class _Text:
    """The file, and how far it has been read."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def line(self, form: re.Pattern[bytes], what: str) -> tuple[bytes | None, ...]:
        """The groups of a line of this form."""
        match = form.match(self.content, self.at)
        if match is None:
            raise ChainfoldError(f"{what} cannot be read at byte {self.at}.")
        self.at = match.end()
        return match.groups()

    def names(self, what: str) -> list[bytes]:
        """The names of one kind."""
        return self.texts(int(self.line(_NAMES, f"the number of {what}s")[0] or 0), what)

    def texts(self, count: int, what: str) -> list[bytes]:
        """`count` netstrings."""
        texts, content, at = [], self.content, self.at
        for number in range(count):
            match = _LENGTH.match(content, at)
            end = match.end() + int(match[1]) if match else len(content)
            if match is None or content[end : end + 1] != b",":
                raise ChainfoldError(f"{what} {number} cannot be read at byte {at}.")
            texts.append(content[match.end() : end])
            at = end + 2  # and its newline
        self.at = at
        return texts


class _Content(NamedTuple):
    """The content of a file."""

    patterns: Patterns | None
    labels: list[str]
    names: list[str]
    observations: _Observations
    numbers: NDArray[np.int64]  # of the weights
    weights: Floats


def read(content: bytes, encoding: str) -> Model:
    """The model that a file contains."""
    patterns, labels, names, observations, index, weight = _parsed(content, encoding)
    owner = np.searchsorted(observations.begins, index, side="right") - 1
    within = index - observations.begins[owner]
    of_pair = within >= observations.first_pair[owner]
    meant = np.array([0 if patterns is None else patterns.transitions[name] for name in names], np.int64)
    is_state, is_edge = observations.kinds & _LABEL > 0, (observations.kinds & _PAIR > 0) & (meant == 0)
    state_number, edge_number = np.cumsum(is_state) - 1, np.cumsum(is_edge) - 1
    pairs = no_pairs(len(labels), int(is_edge.sum()), len(content))
    tables = pairs.reshape(len(pairs), -1)
    pair, pair_owner, pair_weight = (within - observations.first_pair[owner])[of_pair], owner[of_pair], weight[of_pair]
    edges = meant[pair_owner] == 0
    tables[1 + edge_number[pair_owner[edges]], pair[edges]] = pair_weight[edges]
    np.add.at(tables[0], pair[~edges], (pair_weight * meant[pair_owner])[~edges])
    return model_of(
        PROGRAM,
        labels,
        [name for name, there in zip(names, is_state.tolist(), strict=True) if there],
        [name for name, there in zip(names, is_edge.tolist(), strict=True) if there],
        StateWeights(state_number[owner[~of_pair]], within[~of_pair], weight[~of_pair]),
        pairs,
        None if patterns is None else patterns.template,
        0 if patterns is None else patterns.n_columns,
    )


def _parsed(content: bytes, encoding: str) -> _Content:
    text = _Text(content)
    kind, count = text.line(_MODEL, "its first line")
    need(int(kind or 0) in (_MAXENT, _CRF), "it is no CRF; chainfold has no MEMMs")
    n_patterns, single = text.line(_READER, "its line #rdr#")
    need(int(single or 0) == 0, "its sequences have one position each (wapiti --me); chainfold has no such models")
    lines = [one.decode(encoding) for one in text.texts(int(n_patterns or 0), "pattern")]
    patterns = read_patterns(lines, Border.WAPITI, 0) if lines else None
    if patterns is not None:
        patterns = patterns._replace(template=with_ascii_capitals(patterns.template))
    labels = decoded(text.names("label"), "label", encoding)
    observed = text.names("observation")
    names = decoded(observed, "observation", encoding)
    if patterns is not None:
        _check_bytes(patterns.template, observed, names, "open it with `encoding` latin-1")
    observations = _Observations.of(observed, len(labels))
    index, weight = _weights(content[text.at :], int(count or 0))
    need(index.max(initial=-1) < observations.begins[-1], "it has weights of unknown observations")
    need(np.unique(index).size == index.size, "a weight occurs twice")
    return _Content(patterns, labels, names, observations, index, weight)


class _Observations(NamedTuple):
    """The places where the weights of each observation begin."""

    kinds: NDArray[np.int64]
    begins: NDArray[np.int64]  # one more than observations
    first_pair: NDArray[np.int64]  # of each: the first of its weights that is of a pair

    @classmethod
    def of(cls, names: list[bytes], n_labels: int) -> _Observations:
        for number, name in enumerate(names):
            if name[:1] not in _KINDS:
                raise ChainfoldError(f"observation {number}, {spelt(name)}, begins with neither u, b nor *.")
        kinds = np.array([_KINDS[name[:1]] for name in names], np.int64)
        first_pair = np.where(kinds & _LABEL, n_labels, 0)
        sizes = first_pair + np.where(kinds & _PAIR, n_labels**2, 0)
        return cls(kinds, np.concatenate([[0], np.cumsum(sizes)]), first_pair)


def _weights(content: bytes, count: int) -> tuple[NDArray[np.int64], Floats]:
    """The numbers of weights, and the weights."""
    found = _WEIGHT.findall(content)
    size = sum(len(index) + len(sign) + len(weight) + len("=0x\n") for index, sign, weight in found)
    need(len(found) == count and size == len(content), f"it should have {count} weights, each on a line INDEX=0x1.8p+1")
    index = np.array([int(index) for index, _, _ in found], np.int64)
    weight = np.array([float.fromhex(f"{sign.decode()}0x{digits.decode()}") for _, sign, digits in found], np.float64)
    return index, weight


def write(model: Model, encoding: str) -> Iterator[bytes]:
    """The file of a model, in parts."""
    what = exported(model, PROGRAM, encoding)
    lines: list[bytes] = []
    n_columns, transitions = 1, b"b"
    if what.vocabulary.template is not None:
        plain = all(name.isascii() for name in [*what.attributes, *what.edge_attributes])
        lower = ("lower", "lower_ascii") if plain else ("lower_ascii",)
        texts, n_columns = written_patterns(model, PROGRAM, Border.WAPITI, partial(of_wapiti, lower_case=lower))
        names = what.vocabulary.attributes.to_pylist()
        _check_bytes(Template.from_json(what.vocabulary.template), what.attributes, names, "it cannot be exported")
        lines = [line.encode(encoding) for line in texts]
        transitions = unused_name("b", what.edge_attributes).encode()
    with_transitions = bool(written_weights(what.transitions).any())
    if with_transitions and not lines:
        raise ChainfoldError(
            f"the model cannot be written for {PROGRAM}, which has transitions by a pattern only; train it with a "
            f"template."
        )
    names = _merged(what)
    if with_transitions:
        lines.append(transitions)
        names.append(transitions)
    if not names:
        raise ChainfoldError(f"the model cannot be written for {PROGRAM}: it has no attributes.")
    index, weight = _numbered(what, names, transitions)
    yield b"#mdl#%d#%d\n#rdr#%d/%d/0\n" % (_CRF, index.size, len(lines), max(n_columns - 1, 0))
    yield b"".join(b"%d:%s,\n" % (len(line), line) for line in lines)
    for group in (what.labels, names):
        yield b"#qrk#%d\n" % len(group) + b"".join(b"%d:%s,\n" % (len(name), name) for name in group)
    yield "".join(f"{k}={w.hex()}\n" for k, w in zip(index.tolist(), weight.tolist(), strict=True)).encode()


def _check_bytes(template: Template, names: Sequence[bytes], texts: Sequence[str], remedy: str) -> None:
    """Raise if expressions would see characters here that are several bytes there."""
    if has_expressions(template):
        several = next((text for name, text in zip(names, texts, strict=True) if len(name) != len(text)), None)
        if several is not None:
            raise ChainfoldError(
                f"the model's expressions match bytes in {PROGRAM} and characters in chainfold, and {spelt(several)!r} "
                f"has characters of several bytes; {remedy}."
            )


def _merged(what: Exported) -> list[bytes]:
    """The attributes of labels and those of pairs, both in their order, if all begin as Wapiti's do."""
    for kind, own, letter in (("attributes", what.attributes, "u"), ("edge attributes", what.edge_attributes, "b")):
        wrong = next((name for name in own if name[:1] not in (letter.encode(), b"*")), None)
        if wrong is not None:
            raise ChainfoldError(
                f"the model cannot be written for {PROGRAM}, whose {kind} begin with {letter} or *; this model has "
                f"{spelt(wrong)!r}, so train it with a template of {PROGRAM}."
            )
    place = {name: k for k, name in enumerate(what.attributes)}
    names: list[bytes] = []
    done = 0  # attributes of labels
    for name in what.edge_attributes:
        if name not in place:
            names.append(name)
        elif place[name] >= done:
            names += what.attributes[done : place[name] + 1]
            done = place[name] + 1
    return names + what.attributes[done:]


def _numbered(what: Exported, names: list[bytes], transitions: bytes) -> tuple[NDArray[np.int64], Floats]:
    """All weights that are written, with their numbers, ascending."""
    observations, place = _Observations.of(names, len(what.labels)), {name: k for k, name in enumerate(names)}
    of_state = np.array([place[name] for name in what.attributes], np.int64)
    index = [observations.begins[of_state[what.state.attribute]] + what.state.label]
    weight = [what.state.weight]
    tables = [(what.transitions, transitions), *zip(what.edges, what.edge_attributes, strict=True)]
    for table, name in tables:
        there = np.flatnonzero(written_weights(table.ravel()))
        if there.size:
            owner = place[name]
            index.append(observations.begins[owner] + observations.first_pair[owner] + there)
            weight.append(table.ravel()[there])
    numbers, weights = np.concatenate(index), np.concatenate(weight)
    order = np.argsort(numbers, kind="stable")
    return numbers[order], weights[order]
