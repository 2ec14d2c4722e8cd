"""The whole run: one piece after another, each kept as soon as it is done, and in the end the results, the figures and
the page.

A run that was interrupted goes on with the piece at which it stopped; one that has been finished goes on from its
results alone, with what they do not have yet. What a run makes stands in its folder:

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
from chainfold.outputs import claimed
from experiments.formatting import size
from experiments.machine import machine
from experiments.paper import cases, entropy, lookahead, many_weights, numerics
from experiments.paper.corpus import Corpus
from experiments.paper.counting import counted_tables
from experiments.paper.figures import draw
from experiments.paper.paging import obstacle
from experiments.paper.report import page
from experiments.paper.sizes import Line, Piece, Plan, Result
from experiments.paper.verdicts import verdicts

FORMAT = 1
RESULTS, PAGE = "results.json", "index.html"
_PIECES, _CHAINS = "pieces.json", "chains"
_DRAWING = 12.0  # seconds, about
_OTHER = "has results of other sizes, other data or another version; give another --out, or --fresh."


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
    kept = {} if fresh or (folder / _PIECES).exists() else _kept(plan, folder, data)
    corpus = Corpus(plan, folder / _CHAINS, data)
    with claimed([folder / PAGE], []):
        return _run(plan, folder, corpus, kept, watch, fresh)


def _run(plan: Plan, folder: Path, corpus: Corpus, kept: dict[str, Result], watch: Watch, fresh: bool) -> Result:
    sizes = asdict(replace(plan, limited={}))  # limited points are judged by their own keys
    of = {"format": FORMAT, "chainfold": __version__, "plan": sizes, "data": corpus.identity}
    ledger = _Ledger(folder / _PIECES, of, fresh)
    ledger.take(kept)
    reason = obstacle(folder / _CHAINS)
    if reason:
        plan = replace(plan, limited={})
    work = list(_pieces(plan, corpus, reason))
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


def _pieces(plan: Plan, corpus: Corpus, reason: str | None) -> Iterator[Piece]:
    yield Piece("about", "this machine", 1.0, lambda done: _about(plan))
    yield Piece(f"limit/{'none' if reason else 'paged'}", "memory limits", 1.0, lambda done: _limits(plan, reason))
    yield from corpus.pieces()
    yield Piece("corpus", "the data", 1.0, lambda done: corpus.about())
    yield Piece("tables", "Tables 1 and 2: counting operations and registers", 1.0, lambda done: counted_tables())
    for module in (numerics, lookahead, entropy, many_weights, cases):
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


def _limits(plan: Plan, reason: str | None) -> Result:
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
            "tolerance": lookahead.TOLERANCE,
            "chains": under("certificate/lookahead/"),
            "bound": [row for result in under("certificate/bound/") for row in result["bound"]],
        },
        "entropy": done["entropy"],
        "weights": {"points": under("weights/"), "labels": under("labels/")},
        "scaling": {"points": under("scaling/", "limited/")},
    }
    return {**results, "verdicts": verdicts(results)}


def _kept(plan: Plan, folder: Path, data: Path | None) -> dict[str, Result]:
    """The pieces of a finished run of which there are results alone."""
    if not (folder / RESULTS).exists():
        return {}
    results = _read(folder / RESULTS)
    try:
        _same(results, plan, folder, data)
        return _taken_apart(results)
    except (LookupError, TypeError, AttributeError):
        raise _damaged(folder / RESULTS) from None


def _same(results: Result, plan: Plan, folder: Path, data: Path | None) -> None:
    """Raise unless these are results of this plan."""
    about, corpus = results["about"], results["corpus"]
    found = (results["format"], about["chainfold"], about["quick"], about["max_length"], about["memory_limit"])
    right = (FORMAT, __version__, plan.quick, plan.max_length, plan.memory_limit)
    if found != right or list(corpus["settings"]) != list(plan.lengths) or (corpus["file"] is None) != (data is None):
        raise BadFile(folder, _OTHER)


def _taken_apart(results: Result) -> dict[str, Result]:
    """The pieces of which results were made, but for what was said of memory limits."""
    about, corpus = results["about"], results["corpus"]
    certified = {f"{one['setting']}/{one['weights']}": one for one in results["certificate"]["chains"]}
    bounds: dict[str, Result] = {place: {"bound": []} for place in certified}
    for row in results["certificate"]["bound"]:
        bounds[f"{row['setting']}/{row['weights']}"]["bound"].append(row)
    weights = {
        f"{kind}/{one['labels']}/{one['weights']}/{one['engine']}": one
        for kind, name in (("weights", "points"), ("labels", "labels"))
        for one in results["weights"][name]
    }
    points = {
        cases.key(one["setting"], Line(one["engine"], one["held"]), one["positions"], one["limit"]): one
        for one in results["scaling"]["points"]
    }
    return {
        "about": {key: value for key, value in about.items() if key != "limit"},
        "corpus": {key: value for key, value in corpus.items() if key != "settings"},
        **{f"corpus/{name}": one for name, one in corpus["settings"].items()},
        "tables": results["tables"],
        **{f"numerics/{one['name']}": one for one in results["numerics"]["chains"]},
        **{f"certificate/lookahead/{place}": one for place, one in certified.items()},
        **{f"certificate/bound/{place}": one for place, one in bounds.items()},
        "entropy": results["entropy"],
        **weights,
        **points,
    }


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
                raise BadFile(path.parent, _OTHER)
            self.done = kept["done"] if kept.get("of") == self._of else {}
        self._save()

    def add(self, key: str, result: Result) -> None:
        self.take({key: result})

    def take(self, done: Mapping[str, Result]) -> None:
        self.done |= done
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
    if there and not (folder / _PIECES).exists() and not _results_of_ours(folder / RESULTS):
        raise BadFile(folder, "has other files in it; name a folder of its own with --out.")


def _results_of_ours(path: Path) -> bool:
    results = _read(path) if path.exists() else None
    return isinstance(results, dict) and {"format", "about", "scaling", "verdicts"} <= set(results)


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
