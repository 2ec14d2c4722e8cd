"""Which labels may follow which, start a sequence and end one: by a scheme of chunk tags, by hand, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import frozen
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.model.model import Model, vocabulary_of_model

Bools = NDArray[np.bool_]

SCHEMES = {
    "BIO": "BIO",
    "IOB2": "BIO",
    "IOB1": "BIO",
    "IOBES": "BIOES",
    "BIOES": "BIOES",
    "BILOU": "BIOLU",
}  # name, tags
_ANY, _START, _END = "*", "^", "$"
_CONTINUE = tuple("IEL")  # tags inside a span that has begun
_IOB1 = "IOB1"  # where B begins a span only after another of its type, and I any other
_LEAVE_OPEN = tuple("BI")  # tags after which a span may go on
_CLOSERS = tuple("EL")  # a scheme with one of these ends every span expressly


@dataclass(frozen=True, eq=False)
class Constraints:
    """Which labels may follow one another, start and end a sequence; everything else has probability zero.

    `Constraints.of` makes them from a scheme of chunk tags and from single transitions.

    >>> constraints = Constraints.of(["O", "B-X", "I-X"], "BIO", forbid=["B-X>B-X"])
    >>> constraints.allowed.astype(int).tolist(), constraints.first.tolist()
    ([[1, 1, 0], [1, 0, 1], [1, 1, 1]], [True, True, False])
    """

    allowed: Bools  # [N, N] may label j follow label i?
    first: Bools  # [N] may it start a sequence?
    last: Bools  # [N] may it end one?

    def __post_init__(self) -> None:
        for name in ("allowed", "first", "last"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.bool_))
        size = self.first.size
        shapes = self.allowed.shape, self.first.shape, self.last.shape
        if shapes != ((size, size), (size,), (size,)):
            raise ChainfoldError(
                f"allowed, first and last have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}; N labels need (N, N), "
                f"(N,) and (N,)."
            )

    @classmethod
    def of(
        cls, labels: Sequence[str], scheme: str | None = None, forbid: Sequence[str] = (), allow: Sequence[str] = ()
    ) -> Constraints:
        """Constraints on labels by name.

        scheme    what their tags mean: BIO (or IOB2), IOB1, IOBES (or BIOES), BILOU; None: all is allowed
        forbid    transitions to forbid as well, each as FROM>TO: two labels, or * for any label, ^ for the start of a
                  sequence (FROM), $ for its end (TO); a label that is itself called *, ^ or $ is written with a
                  backslash before it
        allow     transitions to allow in spite of scheme and forbid, written likewise
        """
        check_rules(scheme, forbid, allow)
        moves = np.ones((len(labels) + 1, len(labels) + 1), bool) if scheme is None else _by_scheme(labels, scheme)
        for may, entries in ((False, forbid), (True, allow)):
            for entry in entries:
                moves[_transition(entry, labels)] = may
        return cls(moves[:-1, :-1], moves[-1, :-1], moves[:-1, -1])

    @property
    def forbidden(self) -> bool:
        """Whether anything is forbidden."""
        return not bool(self.allowed.all() and self.first.all() and self.last.all())


def constrained(model: Model, scheme: str | None, forbid: Sequence[str] = (), allow: Sequence[str] = ()) -> Model:
    """The model with further constraints on its labels; see `Constraints.of`. What it forbids stays forbidden."""
    if scheme is None and not forbid and not allow:
        return model
    layout, constraints = model.layout, Constraints.of(vocabulary_of_model(model).labels, scheme, forbid, allow)
    weights = model.weights.copy()
    weights[layout.n_state : layout.n_state + layout.n_labels**2][~constraints.allowed.ravel()] = -np.inf
    first, last = both_allow(constraints.first, model.first), both_allow(constraints.last, model.last)
    return replace(model, weights=weights, first=first, last=last)


def check_rules(scheme: str | None, forbid: Sequence[str] = (), allow: Sequence[str] = ()) -> None:
    """Raise for rules that are wrong whatever the labels are."""
    if scheme is not None:
        _check_scheme(scheme)
    for name, entries in (("forbid", forbid), ("allow", allow)):
        if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, str) for entry in entries):
            raise BadSetting(name, entries, "a list of transitions, each a text FROM>TO")
        for entry in entries:
            _cuts(entry)


def both_allow(mask: Bools, other: Bools | None) -> Bools:
    """The labels that two masks allow; the second may have fewer labels, or be None where it allows all."""
    mask = mask.copy()
    if other is not None:
        mask[: other.size] &= other
    return mask


def _by_scheme(labels: Sequence[str], scheme: str) -> Bools:
    """[N + 1, N + 1] moves between labels; the last row is the start of a sequence, the last column its end.

    A tag that continues follows one of its type that leaves its span open. All others may follow anything or, where
    the scheme ends spans expressly, anything that leaves none open. In IOB1 it is B that continues: it begins a span
    directly after another one of its type. The start and the end are tags that do neither.
    """
    _check_scheme(scheme)
    letters = SCHEMES[scheme.upper()]
    tagged = [_tag_and_type(label, letters, scheme) for label in labels] + [("O", "")]
    types = {kind: number for number, (_, kind) in enumerate(tagged)}
    type_of = np.array([types[kind] for _, kind in tagged])
    continuing = ("B",) if scheme.upper() == _IOB1 else _CONTINUE
    continues = np.array([tag in continuing for tag, _ in tagged])
    leaves_open = np.array([tag in _LEAVE_OPEN for tag, _ in tagged])
    goes_on = leaves_open[:, None] & (type_of[:, None] == type_of[None, :])
    begins = ~leaves_open[:, None] | (not set(letters) & set(_CLOSERS))
    moves: Bools = np.where(continues[None, :], goes_on, begins)
    return moves


def _check_scheme(scheme: str) -> None:
    if not isinstance(scheme, str) or scheme.upper() not in SCHEMES:
        raise BadSetting("scheme", scheme, f"one of {', '.join(SCHEMES)}")


def _tag_and_type(label: str, letters: str, scheme: str) -> tuple[str, str]:
    tag, _, kind = label.partition("-")
    if tag not in tuple(letters) or (tag == "O" and label != "O"):
        tags = ", ".join(f"{letter}-TYPE" for letter in letters if letter != "O")
        raise ChainfoldError(f"label {label!r} is no tag of the scheme {scheme}, which knows O, {tags}.")
    return tag, kind


def _transition(entry: str, labels: Sequence[str]) -> tuple[Any, Any]:
    """Row and column, or all of them, in the moves that an entry FROM>TO means.

    Labels may contain the sign > themselves: of all ways to cut the entry there, one alone must leave a name on both
    sides.
    """
    size = len(labels)
    names: dict[str, Any] = {_written(label): number for number, label in enumerate(labels)} | {_ANY: slice(size)}
    sources, targets = names | {_START: size}, names | {_END: size}
    cuts = _cuts(entry)
    if (_START, _END) in cuts:
        raise ChainfoldError(f"cannot use {entry!r}: a sequence has a label at least between its start and its end.")
    found = [(source, target) for source, target in cuts if source in sources and target in targets]
    if len(found) > 1:
        ways = " or ".join(f"{source!r} before {target!r}" for source, target in found)
        raise ChainfoldError(f"{entry!r} can mean {ways}; rename one of these labels.")
    if not found:
        raise ChainfoldError(f"cannot use {entry!r}: {_missing(cuts, sources, targets)}.")
    source, target = found[0]
    return sources[source], targets[target]


def _cuts(entry: str) -> list[tuple[str, str]]:
    """The texts before and after each sign >."""
    cuts = [(entry[:at], entry[at + 1 :]) for at, sign in enumerate(entry) if sign == ">"]
    if not cuts:
        raise ChainfoldError(f"cannot read {entry!r} as a transition; write FROM>TO, for instance O>I-NP.")
    return cuts


def _written(label: str) -> str:
    """The name of a label in entries, with a backslash where it would read as one of the signs."""
    return f"\\{label}" if label.lstrip("\\") in (_ANY, _START, _END) else label


def _missing(cuts: Sequence[tuple[str, str]], sources: dict[str, Any], targets: dict[str, Any]) -> str:
    """Which names of an entry are no labels."""
    if len(cuts) > 1:
        return "no cut at a '>' leaves a label on both sides"
    source, target = cuts[0]
    unknown = [name for name, known in ((source, sources), (target, targets)) if name not in known]
    if target == _START or source == _END:
        return f"{_START} can only stand before the '>' and {_END} only after it"
    return " and ".join(f"there is no label {name!r}" for name in dict.fromkeys(unknown))
