"""`StreamTagger`: rows of a stream in, final labels out; saved in the middle and continued elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from chainfold.chain.block import Block, Source
from chainfold.chain.vocabulary import label_names
from chainfold.engines.settings import DEFAULT_TOLERANCE
from chainfold.errors import BadFile, ChainfoldError
from chainfold.exchange.any_model import open_any_model
from chainfold.features.encoder import ids_fit
from chainfold.features.row_encoder import RowEncoder
from chainfold.inference.quantities import Quantities
from chainfold.inference.result import Tagged, joined
from chainfold.inference.stream_window import StreamWindow
from chainfold.inference.tagger import blocks_of
from chainfold.model.file import fingerprint
from chainfold.model.model import Model
from chainfold.system.archive import damage, read_sealed, write_sealed
from chainfold.system.validate import MOST, Arrays, is_count, is_number, mapping, need, under

STREAM, VERSION = "saved stream", 3
_WINDOW, _ENCODER = "window", "encoder"  # parts of what is saved


class StreamTagger:
    """Labels a stream as it comes: each row as soon as no later one can change it.

    Labels are those that Viterbi gives for the whole stream, marginals those of forward-backward to within the
    tolerance, however the rows are cut into pushes.

    model        a `Model`, or the path of one
    marginals    compute the probability of every label of every row, too; rows wait until these are final as well
    quantities   keep the sums that `quantities` returns
    max_lag      rows that a row may wait for at most; after that its label is returned as unproven
    memory       bytes that waiting rows may take; it bounds the wait in any case
    tolerance    relative error of marginals

    >>> import chainfold as cf
    >>> chain = cf.SyntheticChain(1000, 3, 10, 2)
    >>> tagger = cf.StreamTagger(cf.Model(cf.Layout.full(3, 10), chain.true_weights()))
    >>> done = tagger.push(chain.block(0, 900))
    >>> len(done) + tagger.waiting
    900
    >>> len(tagger.flush()) == 900 - len(done)
    True
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
        self.model = model if isinstance(model, Model) else open_any_model(model)
        self._window = StreamWindow(
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
        vocabulary, layout = self.model.vocabulary, self.model.layout
        self._fits = vocabulary is None or ids_fit(vocabulary, layout.n_attributes, layout.n_edge_attributes)
        self._encoder = None if vocabulary is None else RowEncoder(vocabulary)
        self.labels = label_names(vocabulary, layout.n_labels)

    def push(self, rows: Any, *, start: bool = False, end: bool = False) -> Tagged:
        """Add one row or several; returns the rows that are final now, which may be earlier ones, or none.

        rows         a row, or several: a list of rows or a table. A row is an item as `CRF` takes it (a dict or a list
                     of strings) where the model was trained on items; where it was trained on columns, a dict by
                     their names, or the values in their order. Also a chain, whose numbers may differ from the model's
                     (`Model.aligned`), or a block, which must have the model's. An empty list is no rows for a model
                     of columns; for a model of items it is an error: `{}` or `[[]]` is a row without attributes.
        start, end   a sequence begins with the first of the rows, ends with the last
        """
        if isinstance(rows, Block) or callable(getattr(rows, "block", None)):
            blocks = self._blocks(rows)
            return joined([*(self._ended() if start else []), *self._followed(blocks, end, False)])
        if self._encoder is None:
            raise ChainfoldError("the model knows attributes by number alone; push chains or blocks of such numbers.")
        held = self._encoder.held if start else 0
        block = self._encoder.push(rows, start, end)  # where a row is wrong, nothing is changed
        before = [self._window.push(block.part(0, held), ended=True, checked=self._fits)] if start else []
        rest = block.part(held, block.labels.size) if held else block
        return joined([*before, *self._followed([rest], end, self._fits)])

    def flush(self) -> Tagged:
        """End the sequence: all waiting rows are final now."""
        return joined(self._ended())

    def quantities(self) -> Quantities:
        """Exact sums over all rows so far: log likelihood, entropy, expected labels, transitions and segments."""
        return self._window.quantities()

    @property
    def right_context(self) -> int:
        """Rows that the model's template looks ahead; a row waits for this many before it is scored."""
        return 0 if self._encoder is None else self._encoder.right_context

    @property
    def waiting(self) -> int:
        """Rows that are not final yet, those that wait for the template not counted."""
        return self._window.waiting

    @property
    def unproven(self) -> int:
        """Rows that had waited for too long, and were returned as unproven."""
        return self._window.unproven

    def save(self, path: str | Path) -> None:
        """Write the state of the stream to a file; the model is not in it."""
        tensors = under(_WINDOW, self._window.state())
        if self._encoder is not None:
            tensors |= under(_ENCODER, self._encoder.state())
        write_sealed(path, STREAM, VERSION, tensors, {"settings": self._settings, "model": fingerprint(self.model)})

    @classmethod
    def load(cls, path: str | Path, model: Model | str | Path) -> Self:
        """Continue a saved stream with the same model: the same output from there on."""
        tensors, about = read_sealed(path, STREAM, VERSION)
        opened = model if isinstance(model, Model) else open_any_model(model)
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
        return blocks_of(self.model.aligned(rows))

    def _followed(self, blocks: Iterable[Block], end: bool, checked: bool) -> list[Tagged]:
        results = [self._window.push(block, checked=checked) for block in blocks]
        return [*results, self._window.end()] if end else results

    def _ended(self) -> list[Tagged]:
        rest = [] if self._encoder is None else [self._window.push(self._encoder.finish())]
        return [*rest, self._window.end()]


def _settings(given: Any) -> dict[str, Any]:
    """The settings of a saved stream, checked."""
    names = ("marginals", "quantities", "max_lag", "memory", "tolerance")
    settings = mapping("settings", given, names)
    need(all(type(settings[name]) is bool for name in names[:2]), "its settings are not booleans")
    for name, least in (("max_lag", 0), ("memory", 1)):
        need(settings[name] is None or is_count(settings[name], least, MOST), f"its {name} is no count")
    need(is_number(settings["tolerance"]), "its tolerance is no number")
    return settings
