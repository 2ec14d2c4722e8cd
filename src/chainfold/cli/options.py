"""Options that several verbs share, besides those of inputs and of training."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar

import typer

from chainfold.cli.parameters import Group
from chainfold.errors import BadFile, BadSetting, BadSize
from chainfold.system.machine import give_back_memory
from chainfold.system.outputs import STANDARD, claimed

if TYPE_CHECKING:
    from chainfold.chain.vocabulary import Vocabulary
    from chainfold.model.constraints import Constraints
    from chainfold.model.model import Model
    from chainfold.readers.live import OnError

STREAMS, _CONSTRAINTS = "Streams", "Constraints"

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Working memory allowed besides the model, for instance 256MB.")
]
OnErrorText = Annotated[
    str | None,
    typer.Option(
        "--on-error",
        metavar="WAY",
        help="For a line that cannot be read: stop (the default), skip it, or unknown: a row without attributes.",
        rich_help_panel=STREAMS,
    ),
]

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Write only the output and errors: no progress, notice or report.")
]

Entered = TypeVar("Entered")

_POWERS = " KMGT"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_size(text: str | None) -> int | None:
    """Bytes, from for instance 256MB, 256MiB, 1.5GB or 4096."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise BadSize(text)
    number, prefix, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS.index(prefix.upper() or " "))


def parse_interval(name: str, text: str, things: str) -> tuple[int | None, float | None]:
    """A number of things, or of seconds; from for instance 10, 30s, 5m or 1h."""
    unit = _SECONDS.get(text[-1:].lower())
    try:
        number = float(text if unit is None else text[:-1])
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf or (unit is None and number != int(number)):
        raise BadSetting(name, text, f"a number of {things}, or a time such as 30s, 5m or 1h")
    return (int(number), None) if unit is None else (None, number * unit)


def parse_on_error(text: str | None) -> OnError:
    from chainfold.readers.live import OnError

    if text is not None and text not in list(OnError):
        raise BadSetting("on_error", text, f"one of {', '.join(OnError)}")
    return OnError(text or OnError.STOP)


# Files

_held: ContextVar[ExitStack] = ContextVar("held")


@contextmanager
def holding() -> Iterator[None]:
    """While a verb runs: the outputs that it holds are released at its end."""
    with ExitStack() as stack:
        before = _held.set(stack)
        try:
            yield
        finally:
            _held.reset(before)


def hold(outputs: Sequence[object], *inputs: object, in_place: bool = False) -> None:
    """Raise unless the outputs can be written, are no inputs, and no other process writes them; hold them to the end.

    Standard output is always one of them. None, and anything else that is neither a path, a glob nor `-`, is ignored.
    """
    _held.get().enter_context(claimed(with_standard(outputs), inputs, in_place))


def entered(context: AbstractContextManager[Entered]) -> Entered:
    """Enter a context that lasts to the end of the verb."""
    return _held.get().enter_context(context)


def with_standard(outputs: Sequence[object]) -> list[object]:
    """The outputs, and standard output, if it is none of them."""
    return [*outputs, *([] if STANDARD in map(str, outputs) else [STANDARD])]


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise BadFile("standard input", "cannot be read: it is closed.")
    return sys.stdin.buffer


def standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise BadFile("standard output", "cannot be written: it is closed.")
    return sys.stdout.buffer


# Constraints


@dataclass(frozen=True)
class ConstraintOptions:
    """Transitions between labels that are allowed or forbidden."""

    scheme: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="The labels are tags of BIO, IOB1, IOBES or BILOU; transitions that it excludes are forbidden.",
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None
    forbid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM>TO",
            help="Forbid a transition; * is any label, ^ the start and $ the end of a sequence. May be repeated.",
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM>TO",
            help="Allow a transition that --scheme or --forbid excludes. May be repeated.",
            rich_help_panel=_CONSTRAINTS,
        ),
    ] = None

    def check(self) -> None:
        """Raise for rules that are wrong whatever the labels are."""
        from chainfold.model.constraints import check_rules

        check_rules(self.scheme, self.forbid or [], self.allow or [])

    def of(self, vocabulary: Vocabulary) -> Constraints | None:
        from chainfold.model.constraints import Constraints

        if self.scheme is None and not self.forbid and not self.allow:
            return None
        return Constraints.of(vocabulary.labels, self.scheme, self.forbid or [], self.allow or [])

    def opened(self, path: Path) -> Model:
        """A model with these constraints besides its own."""
        from chainfold.exchange.any_model import open_any_model
        from chainfold.model.constraints import constrained

        model = constrained(open_any_model(path), self.scheme, self.forbid or [], self.allow or [])
        give_back_memory()  # that loading libraries and reading the file took
        return model


CONSTRAINTS = Group.of(ConstraintOptions)
