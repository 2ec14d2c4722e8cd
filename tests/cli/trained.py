"""A model, a test set, and what the library makes of it by way of an encoded chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chainfold.chain.any_chain import open_chain
from chainfold.chain.renumbered import Renumbered
from chainfold.inference import whole_chain
from chainfold.model.file import open_model
from verbs import conll, sentences, succeeded

COLUMNS = ("--columns", "word,shape,tag", "--attributes", "word word[-1] shape")
ROWS = sentences(30, seed=7, noise=0.4)


class Trained:
    """All of it, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path, self.text, self.chain = folder / "m", folder / "test.txt", folder / "test.chain"
        conll(self.text, 30, seed=7, noise=0.4)
        succeeded("train", conll(folder / "train.txt", 60), "-o", self.path, *COLUMNS)
        succeeded("encode", self.text, "-o", self.chain, *COLUMNS)
        self.model = open_model(self.path)
        assert self.model.vocabulary is not None
        self.names = self.model.vocabulary.labels
        self.source = Renumbered(open_chain(self.chain), self.model.vocabulary)
        self.labels = [self.names[label] for label in whole_chain.tag(self.model, self.source)]
        self.posteriors: Any = whole_chain.marginals(self.model, self.source)
        self.log_likelihood = float(whole_chain.log_probabilities(self.model, self.source).sum())
        self.gold = [tag for rows in ROWS for _, _, tag in rows]

    def by_sentence(self) -> list[list[str]]:
        found = iter(self.labels)
        return [[next(found) for _ in rows] for rows in ROWS]

    def tagged(self) -> bytes:
        """The lines of the test set with their labels."""
        pairs = zip(ROWS, self.by_sentence(), strict=True)
        parts = ["".join(f"{' '.join((*row, y))}\n" for row, y in zip(rows, ys, strict=True)) for rows, ys in pairs]
        return "\n".join(parts).encode()
