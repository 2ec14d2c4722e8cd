"""A section of the benchmarks, and what it is given to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from chainfold import encode, open_chain
from experiments.bench.datasets import Dataset, Datasets
from experiments.bench.findings import SectionResults


class Context(NamedTuple):
    """The sizes of a run, its data, a temporary folder, and a function that displays what is being done."""

    rounds: int
    quick: bool
    corpora: Datasets
    folder: Path
    say: Callable[[str], None]

    def sized(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def fewer(self, rounds: int) -> int:
        """Rounds of something slow."""
        return min(self.rounds, rounds)

    def encoded(self, corpus: Dataset) -> Any:
        """The chain of a corpus' training file."""
        target = self.folder / f"{corpus.name.replace('/', '-')}.chain"
        if not target.exists():
            self.say(f"{corpus.name}: encoding")
            encode(corpus.train, target, **corpus.options)
        return open_chain(target)


class Section(NamedTuple):
    """One section of the page."""

    name: str
    title: str
    words: str  # what is measured, and how
    run: Callable[[Context], SectionResults]
