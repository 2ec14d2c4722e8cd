"""The results of a run, in one JSON file that is complete at any time: a killed run loses the piece it was measuring.

    {"format": 1, "about": {…}, "left": [keys of pieces], "pieces": {key: result}}

`about` says what was measured, and with what; results with another `about` are refused. `left` are the pieces of an
interrupted run that are still to be measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chainfold.errors import BadFile
from chainfold.system.files import written_whole

FORMAT = 1

Result = dict[str, Any]  # JSON


class Ledger:
    """The finished pieces of a run.

    Parameters: `about` is stored with them; `comparable` returns the part of it that must be equal for stored results
    to be used; `fresh` discards stored results.

    Raises BadFile if the stored results are damaged, or were measured with another `about`.
    """

    def __init__(
        self, path: Path, about: Result, fresh: bool = False, comparable: Callable[[Result], object] = dict
    ) -> None:
        self.path, self._about = path, json.loads(json.dumps(about))
        self.pieces: dict[str, Result] = {}
        self.left: list[str] = []
        if path.exists() and not fresh:
            stored = read(path)
            if comparable(stored["about"]) != comparable(self._about):
                raise BadFile(
                    path,
                    "has results of another machine, of other sizes, data or versions; give another --out, or --fresh "
                    "to discard them.",
                )
            self.pieces, self.left = stored["pieces"], stored["left"]

    def begin(self, keys: Sequence[str]) -> None:
        """These pieces are to be measured; results that they have stay until then."""
        self.left = [*keys, *(key for key in self.left if key not in keys)]
        self._save()

    def add(self, key: str, result: Result) -> None:
        """Store the result of a piece."""
        self.pieces[key] = result
        self.left = [other for other in self.left if other != key]
        self._save()

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        stored = {"format": FORMAT, "about": self._about, "left": self.left, "pieces": self.pieces}
        write(self.path, json.dumps(stored, indent=1, ensure_ascii=False, allow_nan=False))


def read(path: Path) -> Result:
    """The contents of a ledger's file. Raises BadFile if it is none."""
    try:
        stored = json.loads(path.read_bytes())
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}.") from None
    except ValueError:
        stored = None
    if not is_ledger(stored):
        raise BadFile(path, "is damaged or has another format; discard it with --fresh.")
    result: Result = stored
    return result


def is_ledger(stored: object) -> bool:
    """Whether parsed JSON has the shape of a ledger."""
    kinds = {"about": dict, "left": list, "pieces": dict}
    return (
        isinstance(stored, dict)
        and stored.get("format") == FORMAT
        and all(isinstance(stored.get(name), kind) for name, kind in kinds.items())
    )


def write(path: Path, text: str) -> None:
    """Write a text file as a whole, or not at all."""
    with written_whole(path) as file:
        file.write(text.encode())
