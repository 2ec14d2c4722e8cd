"""Inputs that are still being written, for a model: a pipe or a growing file, in blocks with the model's numbers.

A row waits for the rows that the template looks ahead to, unless its sequence is known to have ended. `readers.live`
reads the rows.
"""

from __future__ import annotations

import io
import threading
from dataclasses import replace
from itertools import chain as chained
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.arrow_messages import STREAM
from chainfold.chain.batches import PipedChain
from chainfold.chain.vocabulary import Vocabulary
from chainfold.errors import BadSetting
from chainfold.features.for_model import BlockMaker, ChainBlocks, ModelBlocks, ModelInput
from chainfold.features.spec import InputSpec
from chainfold.readers.columns import Stretch
from chainfold.readers.growing import GrowingFile, PieceFile, PipeReader
from chainfold.readers.inputs import CHUNK, Inputs, Keep
from chainfold.readers.live import LiveRows, Notice, OnError
from chainfold.readers.progress import InputProgress
from chainfold.readers.skipped_lines import blank_rows
from chainfold.readers.whole_lines import whole_lines


def live_rows(
    source: Any,
    vocabulary: Vocabulary,
    *,
    follow: bool = True,
    on_error: OnError | str = OnError.STOP,
    keep: Keep | None = None,
    notice: Notice | None = None,
    poll: float = 0.2,
    progress: InputProgress | None = None,
    **options: Any,
) -> ModelBlocks | ChainBlocks:
    """Rows of one pipe, open binary file or growing file, as blocks with a model's numbers, as soon as they are there.

    source       a path, an open binary file, a file descriptor, or "-" for standard input
    vocabulary   of the model
    follow       whether a regular file is read on beyond its end, for as long as it grows
    on_error     what happens to a line that cannot be read: stop, skip or unknown
    keep         called with what is read, as it is, in another thread
    notice       called with a sentence about a line that cannot be read, in another thread
    poll         seconds between two looks at a growing file
    options      the fields of `InputSpec` named in `spec.FOR_MODEL`; default: as for the model

    A followed file has no end until the iterator is closed; when the file is replaced, cut or removed, an error is
    raised after the rows before. A pipe may hold a chain as well. A group may occur again: each of its runs is a
    sequence.
    """
    spec = replace(InputSpec.for_model(**options), groups_return=True)
    if on_error not in list(OnError):
        raise BadSetting("on_error", on_error, f"one of {', '.join(OnError)}")
    if not poll > 0:
        raise BadSetting("poll", poll, "a number of seconds above 0")
    model_input = ModelInput(vocabulary, spec, progress)
    opened = open(source, "rb", buffering=0, closefd=False) if isinstance(source, int) else source  # noqa: SIM115
    inputs = Inputs(opened, model_input.encoding, model_input.progress.read, keep)
    if len(inputs) != 1:
        raise BadSetting("source", str(source), "one file or pipe")
    stopped = threading.Event()
    [opened_input] = inputs
    if opened_input.regular and follow:
        pieces = iter(GrowingFile(opened_input, poll, stopped))
    else:
        piped = iter(PipeReader(opened_input, poll, stopped))
        first = next(piped, b"")
        pieces = chained([first], piped)
        if first.startswith(STREAM):
            chain = PipedChain(io.BufferedReader(PieceFile(pieces), CHUNK), opened_input.name)
            return ChainBlocks(chain, vocabulary, bool(spec.labels))
    model_input.progress.total(None)
    model_input.progress.phase("reading", None)
    lines, reader = whole_lines(pieces, opened_input, stopped), model_input.reader(live=True)
    rows = LiveRows(opened_input, lines, reader, _ModelChecker(model_input), OnError(on_error), notice)
    try:
        return ModelBlocks(model_input, iter(rows), stop=stopped.set)
    except BaseException:
        stopped.set()
        raise


class _ModelChecker:
    """Checks rows for a model."""

    def __init__(self, model_input: ModelInput) -> None:
        self._input, self.kinds = model_input, model_input.kinds
        self._maker: BlockMaker | None = None  # once there is a row

    @property
    def marked(self) -> bool:
        return self._maker is not None and self._maker.numberer.marked

    def check(self, stretch: Stretch, unknown: NDArray[np.int64], last: Stretch | None) -> Stretch:
        stretch = self._input.renamed(stretch)
        if unknown.size and self._maker is not None and last is not None:
            schema = self._maker.schema
            stretch = blank_rows(stretch, np.isin(stretch.lines, unknown), last, schema.group, schema.weight)
        maker = self._maker or BlockMaker(self._input, stretch)
        maker.numberer.check(stretch)
        self._maker = maker
        return stretch
