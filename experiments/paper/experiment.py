"""The whole run: measures what is missing in the ledger, and draws the figures and the page from it.

A run writes to its folder:

    results.json    the ledger: every number, by piece
    NAME.png        the figures
    page.md         the page
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from chainfold import __version__
from chainfold.errors import BadFile
from experiments.formatting import size
from experiments.ledger import Ledger, Result, RunPiece, read, write
from experiments.machine import machine
from experiments.paper import cases, entropy, lookahead, many_weights, numerics
from experiments.paper.corpus import Corpus
from experiments.paper.figures import draw
from experiments.paper.paging import obstacle
from experiments.paper.report import page
from experiments.paper.run_plan import RunPlan
from experiments.paper.verdicts import verdicts

RESULTS, PAGE = "results.json", "page.md"


def run(plan: RunPlan, folder: Path, data: Path | None, fresh: bool = False) -> Result:
    """Measure what is missing, write figures and page, and return the results as `assembled` does."""
    about = {"chainfold": __version__, "plan": asdict(plan), "data": None if data is None else _identity(data)}
    ledger = Ledger(folder / RESULTS, about, fresh)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="chains-", dir=folder) as chains:
        reason = obstacle(Path(chains))
        if reason:
            plan = replace(plan, limited={})
        pieces = _pieces(plan, Corpus(plan, Path(chains), data), reason)
        ledger.run([piece for piece in pieces if piece.key not in ledger.pieces])
    return draw_again(folder)


def draw_again(folder: Path) -> Result:
    """Write the figures and the page from the ledger alone; returns the results."""
    try:
        results = assembled(read(folder / RESULTS)["pieces"])
    except (LookupError, TypeError, AttributeError):
        raise BadFile(folder / RESULTS, "lacks results; run the experiments again.") from None
    write(folder / PAGE, page(results, draw(results, folder)))
    return results


def _identity(data: Path) -> list[object]:
    try:
        return [data.name, data.stat().st_size]
    except OSError as error:
        raise BadFile(data, f"cannot be read: {error.strerror or error}.") from None


def _pieces(plan: RunPlan, corpus: Corpus, reason: str | None) -> Iterator[RunPiece]:
    yield RunPiece("about", "this machine", lambda done: _about(plan, reason))
    yield from corpus.pieces()
    for module in (numerics, lookahead, entropy, many_weights, cases):
        yield from module.pieces(plan, corpus)


def _about(plan: RunPlan, reason: str | None) -> Result:
    limits = ", ".join(size(limit) for limit in plan.limited)
    return {
        "chainfold": __version__,
        "date": date.today().isoformat(),
        "quick": plan.quick,
        "machine": machine(),
        "limit": f"Nothing was run under a memory limit, because {reason}."
        if reason
        else f"What grows with the sequence was also held to {limits} of memory, by chainfold itself and not by the "
        "system: it stands in files, of which the chunks that were not used for the longest time are written back and "
        "dropped.",
    }


def assembled(pieces: Mapping[str, Result]) -> Result:
    """The results of the pieces by experiment, with the verdicts: what figures and page are made from."""

    def under(*prefixes: str) -> list[Result]:
        return [result for key, result in pieces.items() if key.startswith(prefixes)]

    settings = {key.removeprefix("corpus/"): result for key, result in pieces.items() if key.startswith("corpus/")}
    results: Result = {
        "about": pieces["about"],
        "corpus": {**pieces["corpus"], "settings": settings},
        "numerics": {"chains": under("numerics/")},
        "certificate": {
            "tolerance": lookahead.TOLERANCE,
            "chains": under("certificate/lookahead/"),
            "bound": [row for result in under("certificate/bound/") for row in result["bound"]],
        },
        "entropy": pieces["entropy"],
        "weights": {"points": under("weights/"), "labels": under("labels/")},
        "scaling": {"points": under("scaling/", "limited/")},
    }
    return {**results, "verdicts": verdicts(results)}
