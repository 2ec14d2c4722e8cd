"""A pipe, a growing file or an encoded chain, labelled as it comes and written at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.any_chain import is_chain
from chainfold.chain.block import KnownBlock
from chainfold.engines.settings import DEFAULT_TOLERANCE
from chainfold.errors import EmptyInput
from chainfold.features.for_model import ChainBlocks, ModelBlocks, blocks_for_model
from chainfold.features.row_encoder import RowEncoder
from chainfold.features.streaming import live_rows
from chainfold.inference.result import Tagged, joined
from chainfold.inference.stream_window import StreamWindow
from chainfold.inference.tag_files import LabelWriter, RowWriter, new_columns, new_values
from chainfold.model.model import Model, vocabulary_of_model
from chainfold.readers.annotate import Annotator
from chainfold.readers.live import OnError

_TEXT_BYTES = 600  # that a row takes with its text while it waits, about
_FINAL, _YES_NO = "final", ("no", "yes")


@dataclass(frozen=True, eq=False)
class Followed:
    """Counts of a stream."""

    rows: int
    left: int  # rows that were read and not written, as they were not final when it was interrupted
    unproven: int
    limit: str  # what bounded the wait: lag or memory
    lags: NDArray[np.int64]  # how many rows waited for 0, 1, 2 … others; empty unless asked for

    def lag_at(self, share: float) -> int:
        """The lag that this share of the rows did not exceed."""
        return int(np.searchsorted(np.cumsum(self.lags), share * self.lags.sum()))


class Following:
    """Labels a stream; `followed` has its counts so far."""

    def __init__(
        self,
        sink: IO[bytes],
        model: Model,
        *,
        piped: bool = False,
        marginals: bool = False,
        all_marginals: bool = False,
        max_lag: int | None = None,
        memory: int | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
        lags: bool = False,
    ) -> None:
        """piped: the sink is standard output; lags: count for how many others each row has waited.

        To count what a row must wait for, and not what happens to be read at once, rows are then taken one by one.
        """
        self._sink, self._model, self._piped = sink, model, piped
        self._marginals, self._all_marginals = marginals, all_marginals
        wanted = marginals or all_marginals
        self._window = StreamWindow(
            model, posteriors=wanted, max_lag=max_lag, memory=memory, tolerance=tolerance, beside=_TEXT_BYTES
        )
        self._marked, self._one_by_one = max_lag is not None, lags
        self._lags = np.zeros(0, np.int64)
        self._held: Callable[[], int] = lambda: 0  # rows that wait for the template
        self._told = False
        self._stop: Callable[[], bool] = lambda: False
        self._waiting = False  # for rows: nothing is half done if it is left then

    def run(
        self,
        inputs: Any,
        *,
        on_error: OnError = OnError.STOP,
        notice: Callable[[str], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        """Write each row of the input, with its label, as soon as that is final.

        `stop` is asked before each block of rows whether to end, by KeyboardInterrupt; what is not final is left out.
        """
        self._stop = stop
        vocabulary = vocabulary_of_model(self._model)
        columns = new_columns(vocabulary.labels, self._marginals, self._all_marginals)
        if self._marked:
            columns[_FINAL] = _YES_NO
        options["labels"] = False
        rows: RowWriter | LabelWriter = RowWriter(Annotator(self._sink, columns, self._piped, live=True))
        with self._waiting_for_rows():
            if is_chain(inputs):
                known: ModelBlocks | ChainBlocks = blocks_for_model(inputs, vocabulary, **options)
            else:
                try:
                    known = live_rows(inputs, vocabulary, on_error=on_error, keep=rows.keep, notice=notice, **options)
                except EmptyInput:  # there is nothing to label
                    return
        if isinstance(known, ChainBlocks):
            rows = LabelWriter(self._sink, columns)
        self._held = known.held
        with rows as writer:
            for final in self._results(known):
                writer.add(final.starts, *self._values(final))
                self._sink.flush()
                if notice is not None:
                    self._tell_of_limits(notice)
        self._sink.flush()

    @property
    def right_context(self) -> int:
        """Rows that the model's template looks ahead."""
        return RowEncoder(vocabulary_of_model(self._model)).right_context

    @property
    def followed(self) -> Followed:
        window = self._window
        return Followed(window.positions, window.waiting + self._held(), window.unproven, window.limit, self._lags)

    def _results(self, known: Iterable[KnownBlock]) -> Iterator[Tagged]:
        blocks = iter(known)
        while True:
            with self._waiting_for_rows():
                known_block = next(blocks, None)
            if known_block is None:
                break
            yield from map(self._counted, self._pushed(known_block))
        yield self._counted(self._window.end())

    def leave_if_waiting(self) -> None:
        """Raise KeyboardInterrupt where it only waits for rows."""
        if self._waiting:
            raise KeyboardInterrupt

    @contextmanager
    def _waiting_for_rows(self) -> Iterator[None]:
        self._waiting = True
        try:
            if self._stop():
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False

    def _tell_of_limits(self, notice: Callable[[str], None]) -> None:
        """Once, as an endless stream has no end at which to say it."""
        if self._window.unproven and not self._told:
            self._told = True
            notice(
                f"from row {self._window.positions:,} on or so, some rows are written before their labels are final."
            )

    def _pushed(self, known_block: KnownBlock) -> Iterator[Tagged]:
        block, ended = known_block.block, known_block.ended
        size = block.labels.size
        if not self._one_by_one or size < 2:
            return self._window.pushed(block, ended)
        rows = [self._window.push(block.part(t, t + 1), ended and t + 1 == size) for t in range(size)]
        return iter([joined(rows)])

    def _counted(self, final: Tagged) -> Tagged:
        if self._one_by_one and len(final):
            more = np.bincount(final.lag, minlength=self._lags.size)
            more[: self._lags.size] += self._lags
            self._lags = more
        return final

    def _values(self, final: Tagged) -> list[NDArray[Any]]:
        values = new_values(final, self._marginals, self._all_marginals)
        return [*values, final.proven.astype(np.int32)] if self._marked else values
