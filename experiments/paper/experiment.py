"""The whole run: measures what is missing in the ledger, and draws the figures and the page from it.

A run writes to its folder:

    results.json    the ledger: every number, by piece
    chains/         the data and the models, removed at the end
    NAME.svg, .png  the figures
    index.html      the page
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

from chainfold import __version__
from chainfold.errors import BadFile
from experiments.formatting import size
from experiments.ledger import Ledger, Result, is_ledger, read, write
from experiments.machine import machine
from experiments.paper import cases, entropy, lookahead, many_weights, numerics
from experiments.paper.corpus import Corpus
from experiments.paper.counting import counted_tables
from experiments.paper.figures import draw
from experiments.paper.paging import obstacle
from experiments.paper.report import page
from experiments.paper.run_plan import RunPlan
from experiments.paper.verdicts import verdicts
from experiments.runner import Display, RunPiece, run_pieces

RESULTS, PAGE = "results.json", "index.html"
_CHAINS = "chains"
_DRAWING = 12.0  # seconds, about


def run(plan: RunPlan, folder: Path, data: Path | None, display: Display, fresh: bool = False) -> Result:
    """Measure what is missing, write figures and page, and return the results as `assembled` does."""
    _check(folder)
    corpus = Corpus(plan, folder / _CHAINS, data)
    sizes = asdict(replace(plan, limited={}))  # points under a limit have it in their keys
    about = {"chainfold": __version__, "plan": sizes, "data": corpus.identity}
    ledger = Ledger(folder / RESULTS, about, fresh)
    reason = obstacle(folder / _CHAINS)
    if reason:
        plan = replace(plan, limited={})
    run_pieces([piece for piece in _pieces(plan, corpus, reason) if piece.key not in ledger.pieces], ledger, display)
    with display.doing("the figures and the page", _DRAWING):
        results = redraw(folder)
    shutil.rmtree(folder / _CHAINS, ignore_errors=True)
    return results


def redraw(folder: Path) -> Result:
    """Write the figures and the page from the ledger alone; returns the results."""
    results = _assembled_from(folder / RESULTS)
    pictures = {name: path.read_text() for name, path in draw(results, folder).items()}
    write(folder / PAGE, page(results, pictures))
    return results


def _pieces(plan: RunPlan, corpus: Corpus, reason: str | None) -> Iterator[RunPiece]:
    limits = "+".join(str(limit) for limit, lengths in plan.limited.items() if lengths)
    yield RunPiece("about", "this machine", 1.0, lambda done: _about(plan))
    yield RunPiece(f"limit/{limits or 'none'}", "memory limits", 1.0, lambda done: _limits(plan, reason))
    yield from corpus.pieces()
    yield RunPiece("corpus", "the data", 1.0, lambda done: corpus.about())
    yield RunPiece("tables", "Tables 1 and 2: counting operations and registers", 1.0, lambda done: counted_tables())
    for module in (numerics, lookahead, entropy, many_weights, cases):
        yield from module.pieces(plan, corpus)


def _about(plan: RunPlan) -> Result:
    return {
        "chainfold": __version__,
        "date": date.today().isoformat(),
        "quick": plan.quick,
        "memory_limit": plan.memory_limit,
        "max_length": plan.max_length,
        "machine": machine(),
    }


def _limits(plan: RunPlan, reason: str | None) -> Result:
    """What was run under a memory limit, in words."""
    if reason:
        return {"sentence": f"Nothing was run under a memory limit, because {reason}."}
    told = [size(limit) for limit, lengths in plan.limited.items() if lengths]
    if not told:
        return {"sentence": "Nothing was run under a memory limit: no sequence would have filled one."}
    named = " and ".join([part for part in (", ".join(told[:-1]), *told[-1:]) if part])
    sentence = (
        f"What grows with the sequence was also held to {named} of memory, by chainfold itself and not by the system: "
        "it stands in files, of which the chunks that were not used for the longest time are written back and dropped."
    )
    return {"sentence": sentence, "date": date.today().isoformat()}


def _assembled_from(path: Path) -> Result:
    try:
        return assembled(read(path)["pieces"])
    except (LookupError, TypeError, AttributeError):
        raise BadFile(path, "lacks results; run the experiments again.") from None


def assembled(pieces: Mapping[str, Result]) -> Result:
    """The results of the pieces by experiment, with the verdicts: what figures and page are made from."""

    def under(*prefixes: str) -> list[Result]:
        return [result for key, result in pieces.items() if key.startswith(prefixes)]

    settings = {key.removeprefix("corpus/"): result for key, result in pieces.items() if key.startswith("corpus/")}
    results: Result = {
        "about": {**pieces["about"], "limit": under("limit/")[-1]},
        "corpus": {**pieces["corpus"], "settings": settings},
        "tables": pieces["tables"],
        "numerics": {"digits": numerics.DIGITS, "chains": under("numerics/")},
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


def _check(folder: Path) -> None:
    """Raise unless the folder is new, empty, or of another run: a run replaces and removes files in it."""
    try:
        inside = list(folder.iterdir()) if folder.exists() else []
        there = [path for path in inside if path.name != _CHAINS or any(path.iterdir())]
    except OSError as error:
        raise BadFile(folder, f"cannot be listed: {error.strerror or error}; give another --out.") from None
    if there and not _holds_ledger(folder / RESULTS):
        raise BadFile(folder, "has other files in it; name a folder of its own with --out.")


def _holds_ledger(path: Path) -> bool:
    try:
        return is_ledger(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return False
