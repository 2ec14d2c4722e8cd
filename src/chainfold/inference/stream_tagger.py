"""`StreamTagger`: rows of a stream in, labels that are final out; saved in the middle and continued elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from chainfold.chain.block import Block, Source
from chainfold.engines.problem import DEFAULT_TOLERANCE, cut, under
from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.rows import RowEncoder
from chainfold.inference.quantities import Quantities
from chainfold.inference.stream_window import Final, Window, joined
from chainfold.model.file import fingerprint, open_model
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.archive import damage, read_sealed, write_sealed
from chainfold.system.validate import MOST, Arrays, is_count, is_number, mapping, need

STREAM, VERSION = "saved stream", 3
_AT_ONCE = 65536  # positions of a chain that are read at once
_WINDOW, _ENCODER = "window", "encoder"  # parts of what is saved


@dataclass(frozen=True, eq=False)
class Labelled(Final):
    """The next rows of a stream, of which nothing will change any more; going through it gives their labels."""

    names: tuple[str, ...]  # of the labels

    def __iter__(self) -> Iterator[str]:
        return (self.names[label] for label in self.labels.tolist())

    @property
    def probabilities(self) -> Floats:
        """[B] the posterior of each row's label."""
        if self.posteriors is None:
            raise ChainfoldError("there are no probabilities: ask for marginals when the stream begins.")
        return self.posteriors[np.arange(len(self)), self.labels]


class StreamTagger:
    """Labels a stream as it comes: each row as soon as no later one can change it.

    Labels are those that Viterbi gives for the whole stream, marginals those of forward-backward to within the
    tolerance, however the rows are cut into pushes.

    marginals    the probability of every label of every row, too; rows wait until these are final as well
    quantities   keep the sums that `quantities` tells
    max_lag      rows that a row may wait for at most; what has waited so long is given as unproven
    memory       bytes that the rows that wait may take; the wait is bounded by it in any case
    """

    def __init__(
        self,
        model: Model | str | Path,
        *,
        marginals: bool = False,
        quantities: bool = False,
        max_lag: int | None = None,
        memory: int | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
    ) -> None:
        self.model = model if isinstance(model, Model) else open_model(model)
        self._window = Window(
            self.model,
            posteriors=bool(marginals),
            quantities=bool(quantities),
            max_lag=max_lag,
            memory=memory,
            tolerance=tolerance,
        )
        self._settings = {  # as JSON has them
            "marginals": bool(marginals),
            "quantities": bool(quantities),
            "max_lag": None if max_lag is None else int(max_lag),
            "memory": None if memory is None else int(memory),
            "tolerance": float(tolerance),
        }
        vocabulary = self.model.vocabulary
        self._encoder = None if vocabulary is None else RowEncoder(vocabulary)
        n_labels = self.model.layout.n_labels
        self.labels = tuple(map(str, range(n_labels))) if vocabulary is None else vocabulary.labels

    def push(self, rows: Any, *, start: bool = False, end: bool = False) -> Labelled:
        """Take one row or several; the rows that are final now, which may be earlier ones, or none.

        A row is an item as `CRF` takes it (a dict or a list of strings) where the model was made of such; where it was
        made of columns, a dict from their names, or the values in their order; several are a list of these, or a table.
        An empty list is no rows for a model of columns. For one of items it could be a row without attributes as well,
        and is refused: `{}` or `[[]]` is that row. A chain may have other numbers than the model (`Model.aligned`); a
        block has no names, and must have the model's.

        start, end   a sequence begins with the first of the rows, ends with the last
        """
        if isinstance(rows, Block) or callable(getattr(rows, "block", None)):
            blocks = self._blocks(rows)
            return self._named([*(self._ended() if start else []), *self._followed(blocks, end)])
        if self._encoder is None:
            raise ChainfoldError("the model knows attributes by number alone; push chains or blocks of such numbers.")
        held = self._encoder.held if start else 0
        block = self._encoder.push(rows, start, end)  # where a row is wrong, nothing is changed
        before = [self._window.push(block.part(0, held), ended=True)] if start else []
        return self._named([*before, *self._followed([block.part(held, block.labels.size)], end)])

    def flush(self) -> Labelled:
        """The sequence ends here: all rows that wait are final now."""
        return self._named(self._ended())

    def quantities(self) -> Quantities:
        """Exact sums over all rows so far: log likelihood, entropy, expected labels, transitions and segments."""
        return self._window.quantities()

    @property
    def right_context(self) -> int:
        """Rows that the model's template looks ahead: a row waits for so many before anything can be said of it."""
        return 0 if self._encoder is None else self._encoder.right_context

    @property
    def waiting(self) -> int:
        """Rows that are not final yet, those that wait for the template not counted."""
        return self._window.waiting

    @property
    def unproven(self) -> int:
        """Rows that had waited for too long, and were given as unproven."""
        return self._window.unproven

    def save(self, path: str | Path) -> None:
        """Keep all that is needed to go on elsewhere; the model itself is not in the file."""
        tensors = under(_WINDOW, self._window.state())
        if self._encoder is not None:
            tensors |= under(_ENCODER, self._encoder.state())
        write_sealed(path, STREAM, VERSION, tensors, {"settings": self._settings, "model": fingerprint(self.model)})

    @classmethod
    def load(cls, path: str | Path, model: Model | str | Path) -> Self:
        """Go on where a stream was saved, with the same model: the same output from there on."""
        tensors, about = read_sealed(path, STREAM, VERSION)
        opened = model if isinstance(model, Model) else open_model(model)
        with damage(path, STREAM):
            mapping("parts", about, ("settings", "model", "kind", "version"))
            if about["model"] != fingerprint(opened):
                raise BadFile(path, "was saved under another model; load it with the one that it was saved under.")
            tagger, given = cls(opened, **_settings(about["settings"])), Arrays(tensors)
            tagger._window.restore(given.under(_WINDOW))
            if tagger._encoder is not None:
                tagger._encoder.restore(given.under(_ENCODER))
            given.check_empty()
        return tagger

    def _blocks(self, rows: Block | Source) -> Iterable[Block]:
        if isinstance(rows, Block):
            return [rows]
        source = self.model.aligned(rows)
        return (source.block(low, high) for low, high in cut(0, source.positions, _AT_ONCE))

    def _followed(self, blocks: Iterable[Block], end: bool) -> list[Final]:
        found = [self._window.push(block) for block in blocks]
        return [*found, self._window.end()] if end else found

    def _ended(self) -> list[Final]:
        rest = [] if self._encoder is None else [self._window.push(self._encoder.finish())]
        return [*rest, self._window.end()]

    def _named(self, parts: list[Final]) -> Labelled:
        return Labelled(**vars(joined(parts)), names=self.labels)


def _settings(given: Any) -> dict[str, Any]:
    """Those of a stream that was saved, if they can be."""
    names = ("marginals", "quantities", "max_lag", "memory", "tolerance")
    settings = mapping("settings", given, names)
    need(all(type(settings[name]) is bool for name in names[:2]), "its settings are neither yes nor no")
    for name, least in (("max_lag", 0), ("memory", 1)):
        need(settings[name] is None or is_count(settings[name], least, MOST), f"its {name} is no count")
    need(is_number(settings["tolerance"]), "its tolerance is no number")
    return settings
