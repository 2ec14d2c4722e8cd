"""`Tagger`, with the methods of python-crfsuite's class of that name."""

from __future__ import annotations

import contextlib
import errno
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np

from chainfold.chain.block import KnownBlock
from chainfold.chain.vocabulary import characters, label_names
from chainfold.errors import BadSetting, NotOpened
from chainfold.exchange.any_model import open_any_model
from chainfold.features.item_blocks import blocks_of_items
from chainfold.inference.result import Tagged
from chainfold.inference.tagger import Tagger as ChainTagger
from chainfold.inference.tagger import Want
from chainfold.model.model import Model, vocabulary_of_model
from chainfold.pycrfsuite.model_dump import ParsedDump
from chainfold.system.files import written_whole


class Tagger:
    """Labels sequences by a model: open one, give a sequence, ask for its labels and their probabilities.

    All methods raise `NotOpened`, which is a ValueError and a RuntimeError, while no model is open.

    >>> from chainfold.pycrfsuite import Trainer
    >>> trainer = Trainer(params={"c2": 0.1}, verbose=False)
    >>> trainer.append([{"word": "the"}, {"word": "cat"}], ["D", "N"])
    >>> trainer.train("example.model")
    >>> with Tagger().open("example.model") as tagger:
    ...     tagger.tag([{"word": "the"}, {"word": "cat"}])
    ['D', 'N']
    """

    def __init__(self) -> None:
        self._model: Model | None = None
        self._chain_tagger: ChainTagger | None = None
        self._sequence: list[Any] = []
        self._posteriors: Any = None  # [T, N] of the sequence, once they were asked for

    @classmethod
    def of(cls, model: Model) -> Self:
        """A tagger for a model in memory."""
        tagger = cls()
        tagger._model = model
        return tagger

    # Models

    def open(self, name: str | Path) -> contextlib.closing[Self]:
        """Open a model file. The result is for `with`, which closes the tagger at its end.

        Raises FileNotFoundError where there is no such file, and `BadFile` where it is no model.
        """
        if not Path(name).exists():
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(name))
        return self._opened(open_any_model(name))

    def open_inmemory(self, value: bytes) -> contextlib.closing[Self]:
        """Open a model whose file has these bytes, as `CRF.dumps` returns them; as `open`."""
        return self._opened(open_any_model(value))

    def _opened(self, model: Model) -> contextlib.closing[Self]:
        self._model, self._chain_tagger = model, None
        self.set([])
        return contextlib.closing(self)

    def close(self) -> None:
        """Free the model."""
        self._model = self._chain_tagger = self._posteriors = None

    def _open_model(self) -> Model:
        if self._model is None:
            raise NotOpened
        return self._model

    def labels(self) -> list[str]:
        """The labels of the model."""
        model = self._open_model()
        return list(label_names(model.vocabulary, model.layout.n_labels))

    def info(self) -> ParsedDump:
        """The weights of the model by name."""
        return ParsedDump.of(self._open_model())

    def dump(self, filename: str | Path | None = None) -> None:
        """Write the weights as text to a file; to stdout unless one is given."""
        lines = self.info().lines()
        if filename is None:
            sys.stdout.writelines(lines)
            return
        with written_whole(filename) as file:
            file.writelines(line.encode(errors="surrogateescape") for line in lines)

    # Sequences

    def set(self, xseq: Iterable[Any]) -> None:
        """Choose the sequence whose labels and probabilities are asked for. Items are those of `ItemSequence`."""
        self._open_model()
        self._sequence = xseq if isinstance(xseq, str) else list(xseq)  # type: ignore[assignment]
        self._posteriors = None

    def tag(self, xseq: Iterable[Any] | None = None) -> list[str]:
        """The best labels of a sequence, which stays chosen; of the chosen one unless given."""
        if xseq is not None:
            self.set(xseq)
        numbers = self._ready_tagger().sentences.labels(self._sequence)
        if numbers is not None:
            names = self.labels()
            return [names[number] for number in numbers.tolist()]
        return [label for tagged in self._run(Want()) for label in tagged]

    def marginal(self, y: str, pos: int) -> float:
        """The probability of a label at a position of the chosen sequence. Raises `BadSetting` outside of both."""
        labels, y = self.labels(), characters(y)
        if y not in labels:
            raise BadSetting("y", y, f"one of {', '.join(labels)}")
        if not 0 <= pos < len(self._sequence):
            raise BadSetting("pos", pos, f"a position of the sequence, which has {len(self._sequence)}")
        if self._posteriors is None:
            self._posteriors = self._ready_tagger().sentences.posteriors(self._sequence)
        if self._posteriors is None:
            self._posteriors = np.concatenate([t.posteriors for t in self._run(Want(labels=False, posteriors=True))])
        return float(self._posteriors[pos, labels.index(y)])

    def probability(self, yseq: Iterable[str]) -> float:
        """The probability of these labels for the chosen sequence.

        Raises `BadSetting` for a label that the model does not have, and `BadChain` where the lengths differ.
        """
        labels, known = list(map(characters, yseq)), set(self.labels())
        for label in labels:
            if label not in known:
                raise BadSetting("yseq", label, f"labels of the model, {', '.join(self.labels())}")
        results = self._run(Want(labels=False, given=True), labels)
        return math.exp(sum(float(given) for tagged in results for given in _given(tagged)))

    def _ready_tagger(self) -> ChainTagger:
        """The tagger of the open model."""
        self._chain_tagger = self._chain_tagger or ChainTagger(self._open_model())
        return self._chain_tagger

    def _run(self, want: Want, labels: list[str] | None = None) -> list[Tagged]:
        model = self._open_model()
        known = None if labels is None else [labels]
        made: Iterable[KnownBlock] = ()
        if self._sequence or labels:
            made = blocks_of_items([self._sequence], known, vocabulary_of_model(model))
        return list(self._ready_tagger().run((known_block.block for known_block in made), want))


def _given(tagged: Tagged) -> Any:
    """The log probabilities of the sequences that end there."""
    assert tagged.sequences.given is not None, "it was asked for"
    return tagged.sequences.given
