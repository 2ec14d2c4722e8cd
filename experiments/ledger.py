"""Results of a run in one JSON file, which is complete at any time: a killed run loses the piece it was measuring.

    {"format": 1, "about": {…}, "pieces": {key: result}}

`about` says what was measured, and with what; results with another `about` are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chainfold.cli.console import say
from chainfold.errors import BadFile
from chainfold.system.files import written_whole
from chainfold.system.outputs import claimed

FORMAT = 1

Result = dict[str, Any]  # JSON


class RunPiece(NamedTuple):
    """A part of an experiment that is measured at once."""

    key: str  # as "scaling/2-few/fb-log/memory/1000000"
    title: str  # displayed while it runs
    run: Callable[[Mapping[str, Result]], Result]  # from the results of earlier pieces, by key


class Ledger:
    """Finished pieces of a run.

    Parameters: `about` is stored with them; `comparable` returns the part of it that must be equal for stored results
    to be used; `fresh` discards stored results.

    Raises BadFile if the stored results are damaged, or were measured with another `about`.
    """

    def __init__(
        self, path: Path, about: Result, fresh: bool = False, comparable: Callable[[Result], object] = dict
    ) -> None:
        self.path, self._about = path, json.loads(json.dumps(about))
        self.pieces: dict[str, Result] = {}
        if path.exists() and not fresh:
            stored = read(path)
            if comparable(stored["about"]) != comparable(self._about):
                raise BadFile(
                    path,
                    "has results of another machine, of other sizes, data or versions; give another --out, or --fresh "
                    "to discard them.",
                )
            self.pieces = stored["pieces"]

    def add(self, key: str, result: Result) -> None:
        """Store the result of a piece."""
        self.pieces[key] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        stored = {"format": FORMAT, "about": self._about, "pieces": self.pieces}
        write(self.path, json.dumps(stored, indent=1, ensure_ascii=False, allow_nan=False))

    def run(self, pieces: Sequence[RunPiece]) -> None:
        """Run pieces and store each result; one process at a time does so."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with claimed([self.path], []):
            for number, piece in enumerate(pieces, 1):
                say(f"{number} of {len(pieces)}: {piece.title}")
                self.add(piece.key, piece.run(self.pieces))


def read(path: Path) -> Result:
    """The contents of a ledger's file. Raises BadFile if it is none."""
    try:
        stored = json.loads(path.read_bytes())
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}.") from None
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or not {"about", "pieces"} <= set(stored):
        raise BadFile(path, "is damaged or has another format; discard it with --fresh.")
    return stored


def write(path: Path, text: str) -> None:
    """Write a text file as a whole, or not at all."""
    with written_whole(path) as file:
        file.write(text.encode())
