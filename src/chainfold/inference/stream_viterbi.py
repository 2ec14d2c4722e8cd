"""Viterbi for a stream: labels that no later row can change.

The label of a row is final when the best paths to all labels that are possible at the head of the stream go through it
(`viterbi.hpp`). `StreamWindow` holds the rows; here is how many of them have their final label.
"""

from __future__ import annotations

import numpy as np

from chainfold.core import coalesced, follow, origins, trace
from chainfold.core.faults import check_memory
from chainfold.inference.buffer import Buffer
from chainfold.inference.decoder import Decoder


class StreamViterbi:
    """The final labels of the waiting rows, columns `back` and `label` of a buffer.

    done     the first rows of the buffer, which have their final label
    origin   [N]  the label of the row after them, on the best path to each label at the head
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.done = 0
        self.origin = np.zeros(decoder.n_labels, np.int64)

    def advance(self, rows: Buffer, known: int) -> None:
        """Find the labels that are final, now that there are rows beyond the first `known`."""
        back, heads = rows["back"], self._decoder.heads
        first = known
        if self.done == known:  # the first new row is the oldest without a label
            self.origin = np.arange(self.origin.size)
            first += 1
        status, agree = follow(back[first:], heads, self.origin)
        check_memory(status)
        if agree:
            status, count = coalesced(back[self.done :], heads, self.origin, rows["label"][self.done :])
            check_memory(status)
            self.done += count

    def finish(self, rows: Buffer) -> None:
        """The sequence ends with the last row: all labels are final."""
        if len(rows) > self.done:
            trace(rows["back"][self.done :], self._decoder.best_head, rows["label"][self.done :])
        self.done = len(rows)

    def force(self, rows: Buffer, high: int) -> None:
        """Label the rows before `high` by the best path so far, as unproven."""
        best = np.empty(len(rows) - self.done, np.int32)
        trace(rows["back"][self.done :], self._decoder.best_head, best)
        rows["label"][self.done : high] = best[: high - self.done]
        rows["proven"][self.done : high] = False
        if high < len(rows):
            origins(rows["back"][high:], self._decoder.heads, self.origin)
        self.done = high
