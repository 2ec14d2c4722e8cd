"""Results of the paper's experiments, those in docs/paper and points that are made up by formulas; a small corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chainfold import Model, save_model, write_chain
from chainfold.chain.block import Source
from experiments.ledger import read
from experiments.paper.experiment import assembled
from experiments.paper.run_plan import MAIN

Result = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"
BASE, SEQUENCE = 200_000_000, 73.0  # bytes of a process, and bytes a position of a sequence
LINES = {  # (engine, held): seconds a position, bytes a position beside the sequence
    ("fb-log", "memory"): (1.2e-6, 64),
    ("emp", "memory"): (1.8e-6, 0),
    ("fb-log-recompute", "memory"): (1.3e-6, 16),
    ("fb-log-recompute", "disk"): (1.36e-6, 16),
    ("fb-log-spill", "disk"): (1.45e-6, 0),
    ("emp", "disk"): (1.82e-6, 0),
    ("checkpoint", "disk"): (0.22e-6, 0),
    ("stream", "disk"): (0.12e-6, 0),
    ("stream", "memory"): (0.1e-6, 0),
    ("fb", "memory"): (0.17e-6, 128),
}


def stored() -> Result:
    """Results of the run that docs/paper.md is about."""
    return assembled(read(DOCS / "paper" / "results.json")["pieces"])


def scaling(*points: Result) -> Result:
    """Results of nothing but these points."""
    return {"scaling": {"points": list(points)}}


def point(line: tuple[str, str], positions: int, limit: int | None = None) -> Result:
    """A point that was measured; where it exceeds the limit, it pages and takes longer."""
    (engine, held), (rate, kept) = line, LINES[line]
    predicted = int(positions * (kept + (SEQUENCE if held == "memory" else 0.0)))
    paged = 2 * max(predicted - limit, 0) if limit else 0
    passes = 1 if engine in ("emp", "stream") else 2
    return {
        "setting": MAIN,
        "engine": engine,
        "held": held,
        "positions": positions,
        "limit": limit,
        "outcome": "measured",
        "reason": None,
        "seconds": [(rate * positions + paged / 100e6) * factor for factor in (1.0, 1.04, 0.97)],
        "peak_rss": BASE + 8_000_000 + int(1.01 * predicted),
        "before_rss": BASE + (int(positions * SEQUENCE) if held == "memory" else 0),
        "passes": float(passes),
        "cpu_seconds": rate * positions,
        "disk_read": paged + (int(SEQUENCE * positions) * passes if held == "disk" else 0),
        "disk_written": paged // 2,
        "dropped": paged,
        "predicted_bytes": predicted,
    }


def unmeasured(line: tuple[str, str], positions: int, limit: int | None = None) -> Result:
    return point(line, positions, limit) | {"outcome": "too long", "seconds": [], "peak_rss": None, "before_rss": None}


class StubCorpus:
    """A corpus of one chain and one model."""

    def __init__(self, folder: Path, model: Model, source: Source) -> None:
        self._folder = folder
        write_chain(folder / "chain", source)
        save_model(folder / "model", model)

    def chain(self, setting: str, positions: int) -> Path:
        return self._folder / "chain"

    def model(self, setting: str) -> Path:
        return self._folder / "model"
