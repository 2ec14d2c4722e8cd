"""CRF++: text models, as crf_learn -t writes them, and what text and binary models have in common.

    version: 100, cost-factor: C, maxid: M, xsize: K     and a blank line
    the labels, one a line                               and a blank line
    the patterns, one a line                             and a blank line
    ID KEY                                               for each attribute, and a blank line
    M weights, one a line

The weights of the attribute KEY are those from ID on: Y of them for Y labels if it begins with U, and Y · Y if it
begins with B, for the label before times Y plus the label. All are multiplied by the cost factor.

An attribute with B is an edge attribute, but that of a pattern without columns, such as `B`, occurs everywhere: its
weights are those of transitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from chainfold.errors import ChainfoldError
from chainfold.exchange.foreign import Ids, StateWeights, decoded, exported, model_of, no_pairs, written_weights
from chainfold.exchange.patterns import read_patterns, unused_name, written_patterns
from chainfold.features.template import Border, Factor
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.validate import need, spelt

PROGRAM, MAGIC = "CRF++", b"version:"
VERSIONS = range(100, 200)
_FIELD = re.compile(rb"(version|cost-factor|maxid|xsize):[ \t]+([0-9.eE+-]{1,40})")
_KEY = re.compile(rb"([0-9]{1,10})[ \t]+(.+)", re.DOTALL)
_NO_NUMBER = re.compile(rb"^(?![-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?$)", re.MULTILINE)
_FARTHEST = 8  # rows away
_LONGEST = 8000  # bytes of a line
_SEPARATORS = (b" ", b"\t", b"\n")


class Content(NamedTuple):
    """The content of a file."""

    cost_factor: float
    n_columns: int
    labels: Sequence[bytes]
    patterns: Sequence[bytes]
    keys: Sequence[bytes]
    ids: Ids
    weights: Floats


def read(content: bytes, encoding: str) -> Model:
    """The model that a text contains."""
    need(content.endswith(b"\n"), "it is cut short")
    at, sections = 0, []
    for what in ("head", "labels", "patterns", "attributes"):
        end = at if content.startswith(b"\n", at) else content.find(b"\n\n", at) + 1
        need(end >= at and content.startswith(b"\n", end), f"it ends within its {what}")
        sections.append(content[at:end].split(b"\n")[:-1])
        at = end + 1
    head, labels, patterns, keys = sections
    fields = {match[1]: match[2] for line in head if (match := _FIELD.fullmatch(line))}
    need(len(fields) == len(head) == 4, "its head is not version, cost-factor, maxid and xsize")
    version, factor, size, n_columns = (
        float(fields[name]) for name in (b"version", b"cost-factor", b"maxid", b"xsize")
    )
    need(version in VERSIONS, f"its version is {version:g}, and only 100 to 199 are known")
    weights = _numbers(content, at)
    need(size == weights.size, f"it should have {size:.0f} weights, and has {weights.size}")
    entries = [_KEY.fullmatch(line) for line in keys]
    need(all(entries), "one of its attributes is not ID KEY")
    return assembled(
        Content(
            factor,
            int(n_columns),
            labels,
            patterns,
            [entry[2] for entry in entries if entry],
            np.array([int(entry[1]) for entry in entries if entry], np.int64),
            weights,
        ),
        len(content),
        encoding,
    )


def _numbers(content: bytes, at: int) -> Floats:
    """The numbers from a byte on, one a line."""
    if at == len(content):
        return np.empty(0)
    need(_NO_NUMBER.search(content, at, len(content) - 1) is None, "one of its weights is no number")
    numbers: Floats = np.fromstring(content[at:], sep="\n")
    return numbers


def assembled(content: Content, size: int, encoding: str) -> Model:
    """The model of a file of this many bytes."""
    need(0.0 < content.cost_factor < np.inf, f"its cost-factor is {content.cost_factor:g}")
    order = np.argsort(content.ids, kind="stable")
    content = content._replace(keys=[content.keys[k] for k in order.tolist()], ids=content.ids[order])
    labels, keys = decoded(content.labels, "label", encoding), decoded(content.keys, "attribute", encoding)
    lines = [line.decode(encoding) for line in content.patterns]
    patterns = read_patterns(lines, Border.CRFPP, content.n_columns)
    of_pair = _are_pairs(content.keys)
    count = len(labels)
    _check_ids(content.ids, np.where(of_pair, count**2, count), content.weights.size)
    weights = content.weights * content.cost_factor
    meant = np.array([patterns.transitions[key] for key in keys], np.int64)
    state, edges = np.flatnonzero(~of_pair), np.flatnonzero(of_pair & (meant == 0))
    pairs = no_pairs(count, edges.size, size)
    for row, number in enumerate(edges.tolist(), start=1):
        pairs[row] = weights[content.ids[number] :][: count**2].reshape(count, count)
    for number in np.flatnonzero(of_pair & (meant > 0)).tolist():
        pairs[0] += meant[number] * weights[content.ids[number] :][: count**2].reshape(count, count)
    places = (content.ids[state][:, None] + np.arange(count)).ravel()
    attribute, label = np.divmod(np.arange(places.size), max(count, 1))
    return model_of(
        PROGRAM,
        labels,
        [keys[number] for number in state.tolist()],
        [keys[number] for number in edges.tolist()],
        StateWeights(attribute, label, weights[places]),
        pairs,
        patterns.template,
        patterns.n_columns,
    )


def _are_pairs(keys: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which attributes are of pairs of labels."""
    for number, key in enumerate(keys):
        if key[:1] not in (b"U", b"B"):
            raise ChainfoldError(f"attribute {number}, {spelt(key)!r}, begins with neither U nor B.")
    return np.array([key[:1] == b"B" for key in keys], np.bool_)


def _check_ids(ids: Ids, sizes: Ids, count: int) -> None:
    """Raise unless each attribute has weights of its own; IDs are ascending."""
    ends = ids + sizes
    apart = (ends[:-1] <= ids[1:]).all()
    need(
        apart and ids.min(initial=0) >= 0 and ends.max(initial=0) <= count,
        "its attributes have no weights of their own",
    )


def write(model: Model, encoding: str) -> Iterator[bytes]:
    """The text of a model, in parts; crf_learn --convert makes a binary model of it."""
    what = exported(model, PROGRAM, encoding)
    if what.vocabulary.template is None:
        raise ChainfoldError(f"the model cannot be written for {PROGRAM}, whose models need a template.")
    template, n_columns = written_patterns(model, PROGRAM, Border.CRFPP, _command)
    lines = [line.encode(encoding) for line in template]
    names = [*what.attributes, *what.edge_attributes]
    for name, letter in zip(names, b"U" * len(what.attributes) + b"B" * len(what.edge_attributes), strict=True):
        if name[:1] != bytes([letter]):
            raise ChainfoldError(
                f"the model cannot be written for {PROGRAM}, where {spelt(name)!r} would begin with {chr(letter)}; "
                f"train it with a template of {PROGRAM}."
            )
    dense = np.zeros((len(what.attributes), len(what.labels)))
    dense[what.state.attribute, what.state.label] = what.state.weight
    weights = [dense.ravel(), what.edges.ravel()]
    if written_weights(what.transitions).any():
        names.append(unused_name("B", names).encode())
        lines.append(names[-1])
        weights.append(what.transitions.ravel())
    _check_lines([*what.labels, *names])
    _check_lines(lines, separators=(b"\n",))
    sizes = [len(what.labels) ** (1 if name[:1] == b"U" else 2) for name in names]
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tolist()
    yield b"version: 100\ncost-factor: 1\nmaxid: %d\nxsize: %d\n\n" % (begins[-1], max(n_columns, 1))
    for group in (what.labels, lines, [b"%d %s" % entry for entry in zip(begins, names, strict=False)]):
        yield b"".join(line + b"\n" for line in group) + b"\n"
    yield "".join(f"{text}\n" for text in map(repr, np.concatenate(weights).tolist())).encode()


def _command(factor: Factor, column: int) -> str | None:
    """%x[row,column], the only command."""
    return None if factor.steps or abs(factor.offset) > _FARTHEST else f"x[{factor.offset},{column}]"


def _check_lines(lines: Sequence[bytes], separators: Sequence[bytes] = _SEPARATORS) -> None:
    """Raise for names that CRF++ would cut."""
    for line in lines:
        if not line or len(line) > _LONGEST or any(separator in line for separator in separators):
            raise ChainfoldError(
                f"the model cannot be written for {PROGRAM}: {spelt(line)!r} is empty, has a space, a tab or a "
                f"newline, or has more than {_LONGEST:,} bytes."
            )
