"""What a piece finds, as tables, bars, sentences and charts; and the file in which every finished piece is kept.

Bar      a figure that has to be reached, and what was measured
Table    columns and rows; a list of numbers in a cell is one number for each round
Chart    curves, for a picture
Found    all that a piece has to say
Ledger   results.json, whole at any time
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from chainfold import __version__
from chainfold.errors import ChainfoldError
from chainfold.files import written_whole
from experiments.bench.peers import PEERS
from experiments.bench.timing import median
from experiments.machine import machine

FORMAT = 1

Cell = str | float | list[float] | None
Json = dict[str, Any]


@dataclass(frozen=True)
class Bar:
    """`what` has to be at least, or at most, so much; judged by the median."""

    what: str
    values: list[float]
    bar: float
    sense: str = "at least"
    aim: float | None = None  # what we hope for beyond it

    @property
    def met(self) -> bool | None:
        """None where nothing was measured."""
        if not self.values:
            return None
        found = median(self.values)
        return found >= self.bar if self.sense == "at least" else found <= self.bar


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Curve:
    """Points of a chart; dashed where they are calculated and not measured."""

    name: str
    points: list[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A picture with logarithmic axes, in NAME.png."""

    name: str
    title: str
    x: str
    y: str
    curves: list[Curve]


@dataclass(frozen=True)
class Found:
    tables: list[Table]
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Found:
        """From the file."""
        charts = [
            Chart(**{**one, "curves": [Curve(**curve) for curve in one["curves"]]}) for one in kept.get("charts", [])
        ]
        return cls(
            [Table(**one) for one in kept["tables"]],
            [Bar(**one) for one in kept.get("bars", [])],
            list(kept.get("notes", [])),
            charts,
        )


class Unusable(ChainfoldError):
    """The file of results cannot be used; the text says why."""


class Ledger:
    """The finished pieces, in results.json; of an interrupted run, also which are left."""

    def __init__(self, path: Path, quick: bool, real: bool, fresh: bool) -> None:
        self._path = path
        self._about: Json = {"machine": machine(), "versions": versions(), "quick": quick, "real_data": real}
        self.pieces: dict[str, Json] = {}
        self.left: list[str] = []
        if path.exists() and not fresh:
            kept = read(path)
            if _identity(kept["about"]) != _identity(self._about):
                raise Unusable(
                    f"{path} was measured on another machine, with other versions or on other data; give another "
                    f"--out, or --fresh to measure everything anew."
                )
            self.pieces, self.left = kept["pieces"], kept["left"]

    def begin(self, names: list[str]) -> None:
        """These are to be measured now; what was known of them stays until they are."""
        self.left = names + [name for name in self.left if name not in names]
        self._save()

    def add(self, name: str, found: Found, rounds: int, seconds: float) -> None:
        about = {"date": date.today().isoformat(), "rounds": rounds, "seconds": round(seconds, 1)}
        self.pieces[name] = {**about, **asdict(found)}
        self.left = [other for other in self.left if other != name]
        self._save()

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"format": FORMAT, "about": self._about, "left": self.left, "pieces": self.pieces}
        with written_whole(self._path) as file:
            file.write(json.dumps(kept, indent=1, ensure_ascii=False, allow_nan=False).encode())


def read(path: Path) -> Json:
    """The file of results."""
    try:
        kept: Json = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Unusable(f"{path} cannot be read: {error}.") from None
    if kept.get("format") != FORMAT:
        raise Unusable(f"{path} has another format; give another --out, or --fresh to measure everything anew.")
    return kept


def _identity(about: Json) -> Json:
    """What has to be the same for results to stand side by side."""
    machine_ = {name: about["machine"].get(name) for name in ("processor", "cores", "python", "numpy", "numba")}
    return {**about, "machine": machine_}


def versions() -> dict[str, str | None]:
    """Of chainfold and of the programs beside it; None: not installed."""
    return {"chainfold": __version__} | {peer.package: _version(peer.package) for peer in PEERS}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
