"""Blocks of a stream in, final rows out: labels and posteriors of a chain without an end.

The window holds the rows that are not final: their back-pointers and, where posteriors are wanted, their forward
vectors. After each push it returns all rows that no later row can change (`stream_viterbi`, `engines.certificate`).
Proven results do not depend on how the rows were cut into pushes: labels are those of Viterbi on the whole chain,
posteriors those of forward-backward to within the tolerance.

A chain may never forget. `max_lag` bounds how many rows a row may wait for, and the memory allowed bounds it in any
case: a row that has waited for too long is returned with its label and posterior as of now, marked as unproven. Rows of
one push do not wait for one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.chain.block import NO_LABEL, Block, check_block, frozen
from chainfold.chain.vocabulary import label_names
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief, widened
from chainfold.engines.certificate import Certificate
from chainfold.engines.forward_pass import lattice_of
from chainfold.engines.ranges import Ranges
from chainfold.engines.settings import DEFAULT_TOLERANCE, Settings
from chainfold.errors import BadSetting, ChainfoldError, ZeroProbability
from chainfold.inference.buffer import Buffer, Columns
from chainfold.inference.decoder import SCORERS, Decoder, Scored, Scorer, posteriors_of
from chainfold.inference.quantities import Quantities, Sums
from chainfold.inference.result import SequenceResults, Tagged, joined
from chainfold.inference.stream_viterbi import StreamViterbi
from chainfold.inference.tagger import DEFAULT_MEMORY
from chainfold.model.layout import Floats
from chainfold.model.model import Model
from chainfold.system.prefetch import made_ahead
from chainfold.system.validate import MOST, Arrays, below_infinity, finite, need, probabilities, under, vectors, within

_NO_SEQUENCES = SequenceResults()
_PIECE = 8192  # rows that are worked on at once
_PIECE_BYTES = 8 << 20  # of their transition matrices, where each row has its own
_ROUNDING = 1e-6  # by which a probability may exceed one
_AHEAD_OF_TIME = 8  # rows that have waited too long are settled together with 1/8 of those that may still wait


class StreamWindow:
    """A model that labels a stream."""

    def __init__(
        self,
        model: Model,
        *,
        posteriors: bool = False,
        quantities: bool = False,
        max_lag: int | None = None,
        memory: int | None = None,
        tolerance: float = DEFAULT_TOLERANCE,
        beside: int = 0,
    ) -> None:
        """posteriors, quantities: compute them; max_lag: rows; memory: bytes of waiting rows.

        beside: bytes that the caller keeps for each waiting row, included in `memory`.
        """
        settings = Settings(memory=memory, tolerance=tolerance)
        if max_lag is not None and (not isinstance(max_lag, (int, np.integer)) or max_lag < 0):
            raise BadSetting("max_lag", max_lag, "a whole number, at least 0")
        max_lag = None if max_lag is None else int(max_lag)
        self.model, self._posteriors = model, posteriors
        self._tolerance = settings.tolerance
        self._scorer = Scorer(model)
        self._potentials = p = self._scorer.potentials
        self._names = label_names(model.vocabulary, p.n_labels)
        self._decoder = Decoder(self._scorer, watch=quantities)
        self._sums = Sums(p) if quantities else None
        self._smooth = posteriors or quantities
        self._wide = False  # are the forward vectors in the buffer wide numbers?
        self._rows = Buffer(self._columns())
        self._entry = np.zeros(p.width)  # the forward vector of the row before them
        self._viterbi = StreamViterbi(self._decoder)
        self._certificate = self._new_certificate()  # of the oldest row without a final posterior
        self._low = 0  # the position of the first row that waits
        self._smoothed = 0  # rows in the buffer with their final posterior
        self._open = False  # has the sequence at the head not ended yet?
        self._failed = False  # a push has failed: the content of the buffer is undefined
        self.unproven = 0  # rows that were returned as unproven
        may_widen = p.watch or p.only_wide or quantities or model.layout.n_edge_attributes > 0
        row = sum(array[:1].nbytes for array in self._columns(may_widen).values())
        self._most = max((settings.memory or DEFAULT_MEMORY) // (2 * row + beside), 1)  # the buffer has twice its size
        self.limit = "memory" if max_lag is None or max_lag > self._most else "lag"  # what bounds the wait
        self._most = self._most if max_lag is None else min(self._most, max_lag)

    @property
    def positions(self) -> int:
        """Rows pushed so far."""
        return self._low + len(self._rows)

    @property
    def waiting(self) -> int:
        """Rows that are not final."""
        return len(self._rows)

    def push(self, block: Block, ended: bool = False, checked: bool = False) -> Tagged:
        """Add rows; returns the rows that are final now.

        ended: their sequence ends with the last of them; checked: the block was made for the model, and needs no check.
        """
        results = list(self.pushed(block, ended, checked))
        return joined(results) if results else self._take_out(0)

    def pushed(self, block: Block, ended: bool = False, checked: bool = False) -> Iterator[Tagged]:
        """Add rows, a few thousand at a time; gives the rows that are final after each."""
        size, layout = block.labels.size, self.model.layout
        if self._failed:
            raise ChainfoldError("this stream has failed before; start a new one, or load a saved state.")
        if size:
            if not (self._open or block.starts[0]):
                block = block._replace(starts=frozen(np.append(True, block.starts[1:]), np.bool_))
            edges = layout.n_edge_attributes if block.edge_offsets.size else 0
            if not checked:
                high = self.positions + size
                check_block(block, self.positions, high, layout.n_labels, layout.n_attributes, edges)
            self._failed = True
            for piece, scored in made_ahead(self._score, self._pieces(self.positions, block), SCORERS):
                self._step(piece, scored)
                size -= piece.labels.size
                if size or not ended:
                    self._force()
                yield self._take_out(self._final)
            self._failed = False
        if ended:
            yield self.end()

    def end(self) -> Tagged:
        """The sequence ends here: all rows are final."""
        if not self._open:
            return self._take_out(0)
        self._close()
        self._viterbi.finish(self._rows)
        if self._smooth:
            self._smooth_up_to(len(self._rows), self._decoder.belief.posterior())
        self._open = False
        return self._take_out(len(self._rows))

    def quantities(self) -> Quantities:
        """The sums over all rows so far."""
        if self._sums is None:
            raise BadSetting("quantities", False, "asked for when the stream begins")
        lattice = self._lattice(self._smoothed, len(self._rows))
        if not self._open:
            return self._sums.now(lattice, lattice.alpha, self.unproven)
        belief, log_kept = self._ended_belief()
        _, posteriors = posteriors_of(self._potentials, lattice, belief.posterior())
        return self._sums.now(lattice, posteriors, self.unproven, belief, log_kept)

    @property
    def _final(self) -> int:
        """Rows of the buffer whose label and posterior are final."""
        return min(self._viterbi.done, self._smoothed) if self._smooth else self._viterbi.done

    # Forward

    def _pieces(self, low: int, block: Block) -> Iterator[tuple[int, Block]]:
        """The parts of a block that begins at position `low`, each with its own position."""
        size = _PIECE
        if block.edge_offsets.size:
            size = min(max(_PIECE_BYTES // self._potentials.scores.nbytes, 64), size)
        for begin, end in Ranges(0, block.labels.size, size):
            yield low + begin, block.part(begin, end)

    def _score(self, placed: tuple[int, Block]) -> tuple[Block, Scored]:
        low, piece = placed
        return piece, self._scorer.score(low, piece, False)

    def _step(self, piece: Block, scored: Scored) -> None:
        if self._open and piece.starts[0]:
            self._close()
        self._open = True
        known, new = len(self._rows), piece.labels.size
        columns: Columns = {
            "start": piece.starts,
            "given": piece.labels,
            "label": np.zeros(new, np.int32),
            "proven": np.ones(new, np.bool_),
            "back": self._decoder.viterbi(self.positions, scored)[0],
        }
        if self._smooth:
            columns |= self._forward_vectors(piece, scored, known)
        self._rows.add(columns)
        self._viterbi.advance(self._rows, known)
        if self._smooth:
            self._find_posteriors(known)

    def _columns(self, wide: bool = False) -> Columns:
        """The columns of a row: arrays with one row each."""
        p = self._potentials
        columns: Columns = {
            "start": np.zeros(1, np.bool_),
            "given": np.zeros(1, np.int32),
            "label": np.zeros(1, np.int32),
            "proven": np.zeros(1, np.bool_),
            "back": np.zeros((1, p.n_labels), self._decoder.pointer),
        }
        if self._smooth:
            columns |= {name: np.zeros((1, (1 + wide) * p.width)) for name in ("alpha", "predicted")}
            if self.model.layout.n_edge_attributes:
                columns |= {"edge": np.zeros((1, p.scores.size)), "shift": np.zeros(1)}
        return columns

    def _forward_vectors(self, piece: Block, scored: Scored, known: int) -> Columns:
        """The forward vectors of new rows: wide numbers wherever those of the rows that wait are."""
        wide = self._wide and known > 0
        lattice, passed = self._decoder.forward(self.positions, piece, scored, wide)
        if self._sums is not None:
            self._sums.forward(lattice, passed.log_scale)
        if known == 0:
            if lattice.wide != self._wide:
                self._wide, self._rows = lattice.wide, Buffer(self._columns(lattice.wide))
            self._entry = lattice.entry
        elif lattice.wide and not self._wide:
            self._widen()
        lattice.alpha[-1] = self._decoder.belief.values  # as the next row will see it
        columns: Columns = {"alpha": lattice.alpha, "predicted": lattice.predicted}
        if self.model.layout.n_edge_attributes:
            columns |= {"edge": np.broadcast_to(lattice.edge, (piece.labels.size, lattice.edge.shape[1]))}
            columns |= {"shift": np.broadcast_to(passed.shift, piece.labels.size)}
        return columns

    def _widen(self) -> None:
        """The forward vectors of the rows that wait as wide numbers, as later ones need them."""
        rows, wait = self._rows, slice(self._smoothed, None)  # before them there are posteriors, which stay as they are
        own = self.model.layout.n_edge_attributes > 0
        shift = (rows["shift"][wait] if own else self._potentials.shift).reshape(-1, 1)
        predicted = np.zeros((len(rows), 2 * self._potentials.width))
        predicted[:, : self._potentials.width] = rows["predicted"]
        predicted[wait] = widened(rows["predicted"][wait], shift)
        self._entry = widened(self._entry)
        rows.recast({"alpha": widened(rows["alpha"]), "predicted": predicted})
        if own:
            with np.errstate(divide="ignore"):
                rows["edge"][wait] = np.log(rows["edge"][wait]) + shift
        self._wide = True

    def _close(self) -> None:
        """The sequence at the head has ended: labels that may not end one are not possible there."""
        if not self._open:
            return
        decoder, never = self._decoder, self._potentials.never_last
        if never.size:
            decoder.delta[never] = -np.inf
            if not decoder.heads.size:
                raise ZeroProbability(self.positions - 1)
        if self._smooth:
            decoder.belief, log_kept = self._ended_belief()
            if len(self._rows):
                self._rows["alpha"][-1] = decoder.belief.values
            if self._sums is not None:
                self._sums.close(decoder.belief, log_kept)

    def _ended_belief(self) -> tuple[Belief, float]:
        """The forward vector of the head, if its sequence ends there, and the logarithm of what that leaves of it."""
        belief, never = self._decoder.belief, self._potentials.never_last
        if not never.size:
            return belief, 0.0
        ended = belief._replace(values=belief.values.copy())
        ended.values.reshape(1 + belief.wide, -1)[:, never] = [[0.0], [-np.inf]][: 1 + belief.wide]
        ended, log_kept = ended.normalised()
        if log_kept == -np.inf:
            raise ZeroProbability(self.positions - 1)
        return ended, log_kept

    # What is final

    def _find_posteriors(self, known: int) -> None:
        """Posteriors that are final, likewise."""
        oldest, first = self._smoothed, known
        if oldest == known:
            self._certificate = self._new_certificate()
            first += 1
        if not self._certificate.extend(self._lattice(first, len(self._rows))):
            return
        last, gamma, following = self._certificate.search(self._lattice(oldest + 1, len(self._rows)))
        last += oldest + 1
        if last < oldest:  # rounding: the two do not agree yet, and will with the next rows
            return
        self._smooth_up_to(last + 1, gamma)
        self._certificate = following

    def _new_certificate(self) -> Certificate:
        return Certificate(self._potentials.width, self._tolerance)

    def _smooth_up_to(self, high: int, gamma: Floats) -> None:
        """The posteriors of the rows before `high`, given that of the last of them."""
        if high > self._smoothed:
            lattice = self._lattice(self._smoothed, high)
            _, posteriors = posteriors_of(self._potentials, lattice, gamma)
            if self._sums is not None:
                self._sums.settle(lattice, posteriors)
            settled = self._rows["predicted"][self._smoothed : high]
            settled[:, : posteriors.shape[1]] = posteriors  # in the place of what is not needed any more
            self._smoothed = high

    def _force(self) -> None:
        """Settle rows that have waited too long as they are now."""
        most, size = self._most, len(self._rows)
        if size - self._final <= most:
            return
        high = min(size - most + most // _AHEAD_OF_TIME, size)
        if self._viterbi.done < high:
            self._viterbi.force(self._rows, high)
        if self._smooth and self._smoothed < high:
            self._force_posteriors(high)

    def _force_posteriors(self, high: int) -> None:
        size = len(self._rows)
        gamma, _ = posteriors_of(self._potentials, self._lattice(high, size), self._decoder.belief.posterior())
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(gamma.sum())
        need(0.0 < total < np.inf, "the saved rows are inconsistent")
        self._rows["proven"][self._smoothed : high] = False
        self._smooth_up_to(high, gamma / total)
        if high < size:
            self._certificate = self._new_certificate()
            self._certificate.restart(self._lattice(high + 1, size))

    def _lattice(self, low: int, high: int) -> Lattice:
        """Rows low … high-1 of the buffer."""
        rows, p = self._rows, self._potentials
        entry = rows["alpha"][low - 1] if low else self._entry
        edge = p.scores if self._wide else p.edge
        if self.model.layout.n_edge_attributes:
            edge = rows["edge"][low:high]
        starts, given = frozen(rows["start"][low:high], np.bool_), frozen(rows["given"][low:high], np.int32)
        alpha, predicted = rows["alpha"][low:high], rows["predicted"][low:high]
        return lattice_of(starts, given, alpha, predicted, edge, Belief(entry, self._wide))

    # Out

    def _take_out(self, count: int) -> Tagged:
        """Remove the first rows from the buffer and return them."""
        rows, n = self._rows, self._potentials.n_labels
        low, head = self._low, self._low + len(rows) - 1
        proven = rows["proven"][:count].copy()
        final = Tagged(
            low=low,
            starts=rows["start"][:count].copy(),
            given=rows["given"][:count].copy(),
            labels=rows["label"][:count].copy(),
            posteriors=rows["predicted"][:count, :n].copy() if self._posteriors else None,
            names=self._names,
            proven=proven,
            lag=np.arange(head - low, head - low - count, -1),
            sequences=_NO_SEQUENCES,
        )
        if count:
            self.unproven += count - int(np.count_nonzero(proven))
            self._low += count
            self._viterbi.done -= count
            if self._smooth:
                self._entry = rows["alpha"][count - 1].copy()
                self._smoothed -= count
            rows.drop(count)
        return final

    # Saved and restored

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to continue elsewhere."""
        decoder = self._decoder
        state = {
            "counts": np.array([self._low, self._viterbi.done, self._smoothed, self.unproven], np.int64),
            "flags": np.array([self._wide, self._open], np.bool_),
            "delta": decoder.delta,
            "belief": decoder.belief.values,
            "entry": self._entry,
            "origin": self._viterbi.origin,
            "q": self._certificate.q,
        }
        state |= under("rows", self._rows.arrays)
        return state if self._sums is None else state | under("sums", self._sums.state())

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from a state, in a window of the same model and settings."""
        given, n, width = Arrays(state), self._potentials.n_labels, self._potentials.width
        wide, opened = given.flags("flags", 2)
        need(self._smooth or not wide, "it has wide numbers without posteriors")
        rows = self._checked_rows(Arrays(given.under("rows")), wide)
        size = len(rows["start"])
        need(opened or not size, "it has rows that wait for nothing")
        low, labelled, smoothed, unproven = given.counts("counts", MOST, size, size if self._smooth else 0, MOST)
        need(unproven <= low, "it has more rows that are unproven than it had")
        delta, origin = given.take("delta", np.float64, width), given.take("origin", np.int64, n)
        below_infinity("delta", delta)
        need(not opened or delta[:n].max() > -np.inf, "its last row can have no label")
        within("origin", origin, 0, n - 1)
        belief, entry = (given.take(name, np.float64, (1 + wide) * width) for name in ("belief", "entry"))
        if self._smooth and opened:
            probabilities("belief", belief, wide)
        vectors("belief", belief, wide)
        vectors("entry", entry, wide)
        q = given.take("q", np.float64, width, width)
        within("q", q, 0.0, 1.0 + _ROUNDING)
        if self._sums is not None:
            self._sums.restore(given.under("sums"), low + size)
        given.check_empty()
        self._low, self._viterbi.done, self._smoothed, self.unproven = low, labelled, smoothed, unproven
        self._wide, self._open = wide, opened
        self._decoder.delta[:] = delta
        self._decoder.belief = Belief(belief.copy(), wide)
        self._entry, self._viterbi.origin = entry.copy(), origin.copy()
        self._certificate = self._new_certificate()
        self._certificate.q[...] = q
        self._rows = Buffer(self._columns(wide))
        self._rows.add(rows)

    def _checked_rows(self, given: Arrays, wide: bool) -> Columns:
        """The rows that wait, if kernels may read them."""
        columns, n = self._columns(wide), self._potentials.n_labels
        size: int | None = None
        rows: Columns = {}
        for name, like in columns.items():
            rows[name] = given.take(name, like.dtype, size, *like.shape[1:])
            size = len(rows[name])
        given.check_empty()
        need(len(rows["start"]) <= self._most, f"more than {self._most} rows wait in it")
        for name, least in (("given", NO_LABEL), ("label", 0), ("back", 0)):
            within(name, rows[name], least, n - 1)
        for name in ("alpha", "predicted") if self._smooth else ():
            vectors(name, rows[name], wide)
        if "edge" in rows:
            below_infinity("edge", rows["edge"])
            need(wide or (rows["edge"] >= 0.0).all(), "its edge are not all zero or more")
            finite("shift", rows["shift"])
        return rows
