"""Options that several verbs share, and what they mean."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from chainfold.errors import BadFile, BadSetting, BadSize, BadSyntheticSpec, ChainfoldError
from chainfold.system.outputs import claimed

if TYPE_CHECKING:
    from chainfold.chain.block import Source

Data = Annotated[
    Path | None,
    typer.Argument(help="A chain made by `chainfold encode`, or - for one from standard input.", show_default=False),
]
Synthetic = Annotated[
    str | None,
    typer.Option(
        metavar="T:N:V:A",
        help="A chain made on the fly: T positions, N labels, V attributes, A of them at each position.",
    ),
]
Sticky = Annotated[float, typer.Option(help="Probability that a synthetic label follows itself.")]
Informative = Annotated[float, typer.Option(help="How much synthetic attributes say of the label, 0 to 1.")]
MeanLength = Annotated[
    float | None, typer.Option(help="Mean length of the synthetic sequences; one sequence unless given.")
]
EdgeAttributes = Annotated[int, typer.Option(metavar="K", help="Number of synthetic edge attributes.")]
Seed = Annotated[int, typer.Option(help="Of the synthetic chain and of random weights.")]
EngineName = Annotated[
    str, typer.Option("--engine", metavar="E", help="One of `chainfold engines`, or auto: let the planner choose.")
]
Threads = Annotated[int, typer.Option(metavar="K", help="Threads, for the engine parallel.")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Working memory allowed beside the model, for instance 256MB.")
]
Tolerance = Annotated[float, typer.Option(help="Relative error that a certificate may leave.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_held: ContextVar[ExitStack] = ContextVar("held")

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


def parse_often(name: str, text: str, things: str) -> tuple[int | None, float | None]:
    """How often something is done: after so many things, or so many seconds; from for instance 10, 30s, 5m or 1h."""
    unit = _SECONDS.get(text[-1:].lower())
    try:
        number = float(text[:-1] if unit else text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf or (unit is None and number != int(number)):
        raise BadSetting(name, text, f"a number of {things}, or a time such as 30s, 5m or 1h")
    return (int(number), None) if unit is None else (None, number * unit)


@contextmanager
def holding() -> Iterator[None]:
    """For a verb: what it holds is let go of when it ends."""
    with ExitStack() as stack:
        before = _held.set(stack)
        try:
            yield
        finally:
            _held.reset(before)


def hold(outputs: Sequence[object], *inputs: object, in_place: bool = False) -> None:
    """Raise unless the outputs can be written, are no inputs, and nobody else writes them; hold them until the end.

    Whatever is neither a path, a glob nor - is no file; None, for instance.
    """
    _held.get().enter_context(claimed(outputs, inputs, in_place))


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise BadFile("standard input", "cannot be read: it is closed.")
    return sys.stdin.buffer


def open_source(
    data: Path | None,
    synthetic: str | None,
    sticky: float,
    informative: float,
    mean_length: float | None,
    edge_attributes: int,
    seed: int,
) -> Source:
    """The chain that the options ask for."""
    if (data is None) == (synthetic is None):
        raise ChainfoldError("give either a stored chain or --synthetic T:N:V:A.")
    if data is not None:
        from chainfold.chain.stored import open_chain

        return open_chain(standard_input() if str(data) == "-" else data)
    from chainfold.chain.synthetic import SyntheticChain

    assert synthetic is not None
    try:
        positions, n_labels, n_attributes, active = (int(part.replace("_", "")) for part in synthetic.split(":"))
    except ValueError:
        raise BadSyntheticSpec(synthetic) from None
    return SyntheticChain(
        positions,
        n_labels,
        n_attributes,
        active,
        sticky=sticky,
        informative=informative,
        mean_length=mean_length,
        n_edge_attributes=edge_attributes,
        seed=seed,
    )
