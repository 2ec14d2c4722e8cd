"""The whole run: one piece after another, each kept as soon as it is done, and in the end the results, the figures and
the page.

A run that was interrupted goes on with the piece at which it stopped. What a run makes stands in its folder:

    pieces.json     what has been measured so far, and of what
    chains/         the data and the models, for as long as they are needed
    results.json    all the numbers; the figures and the page are drawn from it alone
    NAME.svg, .png  the figures
    index.html      the page
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any, Protocol

from chainfold import __version__
from chainfold.errors import BadFile
from chainfold.files import written_whole
from chainfold.paper import certificate, entropy, limit, many_weights, numerics, scaling
from chainfold.paper.corpus import Corpus
from chainfold.paper.counting import counted_tables
from chainfold.paper.figures import draw
from chainfold.paper.machine import machine
from chainfold.paper.page import page
from chainfold.paper.plan import Piece, Plan, Result
from chainfold.paper.verdicts import verdicts

FORMAT = 1
RESULTS, PAGE = "results.json", "index.html"
_PIECES, _CHAINS = "pieces.json", "chains"
_DRAWING = 12.0  # seconds, about


class Watch(Protocol):
    """Who wants to know how far things are."""

    def total(self, seconds: float) -> None:
        """About how long everything that is left will take."""
        ...

    def doing(self, title: str, seconds: float) -> AbstractContextManager[object]:
        """Something that takes about so long."""
        ...


def run(plan: Plan, folder: Path, data: Path | None, watch: Watch, fresh: bool = False) -> Result:
    """Measure what has not been measured yet, write results, figures and page, and return the results."""
    _check(folder)
    if limit.available(plan.memory_group).kind is None:
        plan = replace(plan, limited_lengths=())
    corpus = Corpus(plan, folder / _CHAINS, data)
    sizes = asdict(replace(plan, limited_lengths=(), memory_group=None))  # limited points are judged by their own keys
    of = {"format": FORMAT, "chainfold": __version__, "plan": sizes, "data": corpus.identity}
    ledger = _Ledger(folder / _PIECES, of, fresh)
    work = list(_pieces(plan, corpus))
    left = [piece for piece in work if piece.key not in ledger.done]
    watch.total(sum(piece.seconds for piece in left) + _DRAWING)
    for piece in left:
        with watch.doing(piece.title, piece.seconds):
            ledger.add(piece.key, piece.run(ledger.done))
    results = _assembled(plan, ledger.done)
    _write(folder / RESULTS, json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False))
    with watch.doing("the figures and the page", _DRAWING):
        redraw(folder)
    shutil.rmtree(folder / _CHAINS, ignore_errors=True)
    return results


def redraw(folder: Path) -> None:
    """The figures and the page, from the file of results alone."""
    results = _read(folder / RESULTS)
    pictures = {name: path.read_text() for name, path in draw(results, folder).items()}
    _write(folder / PAGE, page(results, pictures))


def _pieces(plan: Plan, corpus: Corpus) -> Iterator[Piece]:
    yield Piece("about", "this machine", 1.0, lambda done: _about(plan))
    how = limit.Limit(plan.memory_limit, limit.available(plan.memory_group))
    yield Piece(f"limit/{how.how.kind}", "memory limits", 1.0, lambda done: limit.about(how))
    yield from corpus.pieces()
    yield Piece("corpus", "the data", 1.0, lambda done: corpus.about())
    yield Piece("tables", "Tables 1 and 2: counting operations and registers", 1.0, lambda done: counted_tables())
    for module in (numerics, certificate, entropy, many_weights, scaling):
        yield from module.pieces(plan, corpus)


def _about(plan: Plan) -> Result:
    return {
        "chainfold": __version__,
        "date": date.today().isoformat(),
        "quick": plan.quick,
        "memory_limit": plan.memory_limit,
        "max_length": plan.max_length,
        "machine": machine(),
    }


def _assembled(plan: Plan, done: Mapping[str, Result]) -> Result:
    """results.json, from the pieces."""

    def under(*prefixes: str) -> list[Result]:
        return [result for key, result in done.items() if key.startswith(prefixes)]

    results: Result = {
        "format": FORMAT,
        "about": {**done["about"], "limit": under("limit/")[-1]},
        "corpus": {**done["corpus"], "settings": {name: done[f"corpus/{name}"] for name in plan.lengths}},
        "tables": done["tables"],
        "numerics": {"digits": numerics.DIGITS, "chains": under("numerics/")},
        "certificate": {
            "tolerance": certificate.TOLERANCE,
            "chains": under("certificate/lookahead/"),
            "bound": [row for result in under("certificate/bound/") for row in result["bound"]],
        },
        "entropy": done["entropy"],
        "weights": {"points": under("weights/"), "labels": under("labels/")},
        "scaling": {"points": under("scaling/", "limited/")},
    }
    return {**results, "verdicts": verdicts(results)}


class _Ledger:
    """The pieces that are done, in a file that is whole at any time."""

    def __init__(self, path: Path, of: Result, fresh: bool) -> None:
        self._path, self._of = path, json.loads(json.dumps(of))
        self.done: dict[str, Result] = {}
        if path.exists() and not fresh:
            kept = _read(path)
            if not isinstance(kept, dict) or not isinstance(kept.get("done"), dict):
                raise _damaged(path)
            if kept.get("of") != self._of and any(key.startswith("corpus/") for key in kept["done"]):
                text = "has results of other sizes, other data or another version; give another --out, or --fresh."
                raise BadFile(path.parent, text)
            self.done = kept["done"] if kept.get("of") == self._of else {}
        self._save()

    def add(self, key: str, result: Result) -> None:
        self.done[key] = result
        self._save()

    def _save(self) -> None:
        _write(self._path, json.dumps({"of": self._of, "done": self.done}, ensure_ascii=False, allow_nan=False))


def _check(folder: Path) -> None:
    """Raise unless the folder is new, empty, or that of another run: what a run makes there is replaced and removed."""
    try:
        inside = list(folder.iterdir()) if folder.exists() else []
        there = [path for path in inside if path.name != _CHAINS or any(path.iterdir())]
    except OSError as error:
        raise BadFile(folder, f"cannot be looked into: {error.strerror or error}; give another --out.") from None
    if there and not (folder / _PIECES).exists():
        raise BadFile(folder, "has other files in it; name a folder of its own with --out.")


def _write(path: Path, text: str) -> None:
    with written_whole(path) as file:
        file.write(text.encode())


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}.") from None
    except ValueError:
        raise _damaged(path) from None


def _damaged(path: Path) -> BadFile:
    return BadFile(path, "is damaged; measure everything anew with --fresh.")
