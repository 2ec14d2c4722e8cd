"""Blocks of a stream in, final rows out: the core of everything that follows a chain without an end.

The window holds the rows that are not final: their back-pointers and, where posteriors are wanted, their forward
vectors. After each push it gives all rows that no future can change any more (`kernels.live`). What is proven does not
depend on how the rows were cut into pushes: labels are those of Viterbi on the whole chain, posteriors those of
forward-backward to within the tolerance.

A chain may never forget. `max_lag` bounds how many rows a row may wait for, and the memory allowed bounds it in any
case: what has waited for too long is given as the rows so far have it, and marked as unproven. Rows that are pushed at
once come at once: none of them has to wait for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainfold.data.ahead import made_ahead
from chainfold.data.chain import Block, check_block, frozen
from chainfold.engines.base import DEFAULT_TOLERANCE, Settings, cut, under
from chainfold.engines.sweep import Belief, Horizon, widened
from chainfold.errors import BadSetting, ChainfoldError, ZeroProbability
from chainfold.forward import SCORERS, Forward, Labels, Scored, Scorer, lattice_of
from chainfold.kernels import decode, live, messages
from chainfold.kernels.collapse import look_ahead
from chainfold.kernels.scores import NO_LABEL
from chainfold.live.buffer import Buffer, Columns
from chainfold.live.quantities import Quantities, Sums
from chainfold.model import Floats, Model
from chainfold.restored import MOST, Arrays, below_infinity, finite, need, probabilities, vectors, within

DEFAULT_MEMORY = 256 << 20

_PIECE = 8192  # rows that are worked on at once
_PIECE_BYTES = 8 << 20  # of their transition matrices, where each row has its own
_ROUNDING = 1e-6  # what a probability may be above one
_AHEAD_OF_TIME = 8  # what has waited too long goes with so large a share, 1/8, of what has waited nearly as long


@dataclass(frozen=True, eq=False)
class Final:
    """The next rows of a stream, of which nothing will change any more."""

    low: int  # the first position
    starts: NDArray[np.bool_]  # [B]
    given: Labels  # [B] the labels that they came with, -1 where unknown
    labels: Labels  # [B] the best labelling
    posteriors: Floats | None  # [B, N] of every label, where they are wanted
    proven: NDArray[np.bool_]  # [B] False: the row has waited too long, and later rows might have changed it
    lag: NDArray[np.int64]  # [B] how many rows had come after it

    def __len__(self) -> int:
        return self.labels.size


class Window:
    """A model that follows a stream."""

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
        """posteriors, quantities: are they wanted? max_lag: rows; memory: bytes of rows that wait.

        beside: bytes that others keep of each such row, counted in.
        """
        settings = Settings(memory=memory, tolerance=tolerance)
        if max_lag is not None and (not isinstance(max_lag, (int, np.integer)) or max_lag < 0):
            raise BadSetting("max_lag", max_lag, "a whole number, at least 0")
        max_lag = None if max_lag is None else int(max_lag)
        self.model, self._posteriors = model, posteriors
        self._tolerance = settings.tolerance
        self._scorer = scorer = Scorer(model)
        self._forward = Forward(scorer, watch=quantities)
        self._sums = Sums(scorer) if quantities else None
        self._smooth = posteriors or quantities
        self._wide = False  # are the forward vectors in the buffer wide numbers?
        self._rows = Buffer(self._columns())
        self._entry = np.zeros(scorer.width)  # the forward vector of the row before them
        self._origin = np.zeros(scorer.n_labels, np.int64)
        self._horizon = Horizon(scorer.width)
        self._low = 0  # the position of the first row that waits
        self._labelled = self._smoothed = 0  # rows in the buffer with their final label, with their final posterior
        self._open = False  # has the sequence at the head not ended?
        self._failed = False  # is it not known what is in the buffer?
        self.unproven = 0  # rows that were given so
        may_widen = scorer.watch or scorer.only_wide or quantities or model.layout.n_edge_attributes > 0
        row = sum(array[:1].nbytes for array in self._columns(may_widen).values())
        self._most = max((settings.memory or DEFAULT_MEMORY) // (2 * row + beside), 1)  # the buffer has twice its size
        self.limit = "memory" if max_lag is None or max_lag > self._most else "lag"  # what bounds the wait
        self._most = self._most if max_lag is None else min(self._most, max_lag)

    @property
    def positions(self) -> int:
        """Rows that have come."""
        return self._low + len(self._rows)

    @property
    def waiting(self) -> int:
        """Rows that are not final."""
        return len(self._rows)

    def push(self, block: Block, ended: bool = False) -> Final:
        """Take further rows; the rows that are final now. `ended`: their sequence ends with the last of them."""
        found = list(self.pushed(block, ended))
        return joined(found) if found else self._given_out(0)

    def pushed(self, block: Block, ended: bool = False) -> Iterator[Final]:
        """The same a few thousand rows at a time, as they become final."""
        size, layout = block.labels.size, self.model.layout
        if self._failed:
            raise ChainfoldError("this stream has failed before; begin anew, or go on from a state that was saved.")
        if size:
            if not (self._open or block.starts[0]):
                block = block._replace(starts=frozen(np.append(True, block.starts[1:]), np.bool_))
            edges = layout.n_edge_attributes if block.edge_offsets.size else 0
            check_block(block, self.positions, self.positions + size, layout.n_labels, layout.n_attributes, edges)
            self._failed = True
            for piece, scored in made_ahead(self._score, self._pieces(self.positions, block), SCORERS):
                self._step(piece, scored)
                size -= piece.labels.size
                if size or not ended:
                    self._force()
                yield self._given_out(self._final)
            self._failed = False
        if ended:
            yield self.end()

    def end(self) -> Final:
        """The sequence ends here: all rows are final."""
        if not self._open:
            return self._given_out(0)
        self._close()
        if len(self._rows) > self._labelled:
            rows = slice(self._labelled, None)
            label = int(np.argmax(self._forward.delta[: self._scorer.n_labels]))
            decode.trace(self._rows["back"][rows], label, self._rows["label"][rows])
        self._labelled = len(self._rows)
        if self._smooth:
            self._smooth_up_to(len(self._rows), self._forward.belief.posterior())
        self._open = False
        return self._given_out(len(self._rows))

    def quantities(self) -> Quantities:
        """The sums over all rows so far."""
        if self._sums is None:
            raise BadSetting("quantities", False, "asked for when the stream begins")
        lattice = self._lattice(self._smoothed, len(self._rows))
        if not self._open:
            return self._sums.now(lattice, lattice.alpha, self.unproven)
        belief, log_kept = self._ended_belief()
        _, posteriors = self._backward(lattice, belief.posterior())
        return self._sums.now(lattice, posteriors, self.unproven, belief, log_kept)

    @property
    def _final(self) -> int:
        """The rows of the buffer of which all is final."""
        return min(self._labelled, self._smoothed) if self._smooth else self._labelled

    # Forward

    def _pieces(self, low: int, block: Block) -> Iterator[tuple[int, Block]]:
        """The parts of a block that begins at position `low`, each with its own position."""
        size = _PIECE
        if block.edge_offsets.size:
            size = min(max(_PIECE_BYTES // self._scorer.scores.nbytes, 64), size)
        for begin, end in cut(0, block.labels.size, size):
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
            "back": self._forward.viterbi(self.positions, scored)[0],
        }
        if self._smooth:
            columns |= self._forward_vectors(piece, scored, known)
        self._rows.add(columns)
        self._find_labels(known)
        if self._smooth:
            self._find_posteriors(known)

    def _columns(self, wide: bool = False) -> Columns:
        """What is kept of a row: arrays with one of it."""
        scorer = self._scorer
        columns: Columns = {
            "start": np.zeros(1, np.bool_),
            "given": np.zeros(1, np.int32),
            "label": np.zeros(1, np.int32),
            "proven": np.zeros(1, np.bool_),
            "back": np.zeros((1, scorer.n_labels), np.uint8 if scorer.n_labels <= 256 else np.uint16),
        }
        if self._smooth:
            columns |= {name: np.zeros((1, (1 + wide) * scorer.width)) for name in ("alpha", "predicted")}
            if self.model.layout.n_edge_attributes:
                columns |= {"edge": np.zeros((1, scorer.scores.size)), "shift": np.zeros(1)}
        return columns

    def _forward_vectors(self, piece: Block, scored: Scored, known: int) -> Columns:
        """The forward vectors of new rows: wide numbers wherever those of the rows that wait are."""
        scorer, wide = self._scorer, self._wide and known > 0
        lattice, log_scale, shift = self._forward.lattice(self.positions, piece, scored, wide)
        if self._sums is not None:
            self._sums.forward(lattice, log_scale)
        if known == 0:
            if lattice.wide != self._wide:
                self._wide, self._rows = lattice.wide, Buffer(self._columns(lattice.wide))
            self._entry = lattice.entry
        elif lattice.wide and not self._wide:
            self._widen()
        lattice.alpha[-1] = self._forward.belief.values  # as the next row will see it
        columns: Columns = {"alpha": lattice.alpha, "predicted": lattice.predicted}
        if self.model.layout.n_edge_attributes:
            columns |= {"edge": np.broadcast_to(lattice.edge, (piece.labels.size, scorer.scores.size))}
            columns |= {"shift": np.broadcast_to(shift, piece.labels.size)}
        return columns

    def _widen(self) -> None:
        """The forward vectors of the rows that wait as wide numbers, as later ones need them."""
        rows, wait = self._rows, slice(self._smoothed, None)  # before them there are posteriors, which stay as they are
        own = self.model.layout.n_edge_attributes > 0
        shift = (rows["shift"][wait] if own else self._scorer.shift).reshape(-1, 1)
        predicted = np.zeros((len(rows), 2 * self._scorer.width))
        predicted[:, : self._scorer.width] = rows["predicted"]
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
        forward, never = self._forward, self._scorer.never_last
        if never.size:
            forward.delta[never] = -np.inf
            if not forward.heads.size:
                raise ZeroProbability(self.positions - 1)
        if self._smooth:
            forward.belief, log_kept = self._ended_belief()
            if len(self._rows):
                self._rows["alpha"][-1] = forward.belief.values
            if self._sums is not None:
                self._sums.close(forward.belief, log_kept)

    def _ended_belief(self) -> tuple[Belief, float]:
        """The forward vector of the head, if its sequence ends there, and the logarithm of what that leaves of it."""
        belief, never = self._forward.belief, self._scorer.never_last
        if not never.size:
            return belief, 0.0
        ended = belief._replace(values=belief.values.copy())
        ended.values.reshape(1 + belief.wide, -1)[:, never] = [[0.0], [-np.inf]][: 1 + belief.wide]
        ended, log_kept = ended.normalised()
        if log_kept == -np.inf:
            raise ZeroProbability(self.positions - 1)
        return ended, log_kept

    # What is final

    def _find_labels(self, known: int) -> None:
        """Labels that are final, now that there are rows beyond the first `known`."""
        back, heads = self._rows["back"], self._forward.heads
        first = known
        if self._labelled == known:  # the first new row is the oldest without a label
            self._origin = np.arange(self._origin.size)
            first += 1
        if live.follow(back[first:], heads, self._origin):
            rows = slice(self._labelled, None)
            self._labelled += live.coalesced(back[rows], heads, self._origin, self._rows["label"][rows])

    def _find_posteriors(self, known: int) -> None:
        """The same of posteriors."""
        guard, oldest = self._horizon, self._smoothed
        first = known
        if oldest == known:
            guard = self._horizon = Horizon(self._scorer.width)
            first += 1
        new = self._lattice(first, len(self._rows))
        how = (self._tolerance, guard.ignore)
        certified, _ = look_ahead(new, *how, guard.q, guard.scratch, guard.gamma)
        if not certified:
            return
        q, gamma = np.zeros_like(guard.q), np.zeros_like(guard.gamma)
        after = self._lattice(oldest + 1, len(self._rows))
        last = oldest + 1 + live.last_certified(after, *how, q, guard.scratch, gamma)
        if last < oldest:  # rounding: the two do not agree yet, and will with the next rows
            return
        self._smooth_up_to(last + 1, gamma)
        self._horizon = Horizon(self._scorer.width)
        self._horizon.q[:] = q

    def _smooth_up_to(self, high: int, gamma: Floats) -> None:
        """The posteriors of the rows before `high`, given that of the last of them."""
        if high > self._smoothed:
            lattice = self._lattice(self._smoothed, high)
            _, posteriors = self._backward(lattice, gamma)
            if self._sums is not None:
                self._sums.settle(lattice, posteriors)
            settled = self._rows["predicted"][self._smoothed : high]
            settled[:, : posteriors.shape[1]] = posteriors  # in the place of what is not needed any more
            self._smoothed = high

    def _force(self) -> None:
        """Rows that have waited too long: what they are as of now."""
        most, size = self._most, len(self._rows)
        if size - self._final <= most:
            return
        high = min(size - most + most // _AHEAD_OF_TIME, size)
        if self._labelled < high:
            self._force_labels(high)
        if self._smooth and self._smoothed < high:
            self._force_posteriors(high)

    def _force_labels(self, high: int) -> None:
        forward, rows = self._forward, slice(self._labelled, None)
        best = np.empty(len(self._rows) - self._labelled, np.int32)
        decode.trace(self._rows["back"][rows], int(np.argmax(forward.delta[: self._scorer.n_labels])), best)
        self._rows["label"][self._labelled : high] = best[: high - self._labelled]
        self._rows["proven"][self._labelled : high] = False
        if high < len(self._rows):
            live.origins(self._rows["back"][high:], forward.heads, self._origin)
        self._labelled = high

    def _force_posteriors(self, high: int) -> None:
        size = len(self._rows)
        gamma, _ = self._backward(self._lattice(high, size), self._forward.belief.posterior())
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(gamma.sum())
        need(0.0 < total < np.inf, "the rows of this stream that wait contradict one another: no stream saved them")
        self._rows["proven"][self._smoothed : high] = False
        self._smooth_up_to(high, gamma / total)
        if high < size:
            self._horizon = guard = Horizon(self._scorer.width)
            live.last_certified(
                self._lattice(high + 1, size), 0.0, guard.ignore, guard.q, guard.scratch, np.zeros_like(gamma)
            )

    def _lattice(self, low: int, high: int) -> messages.Lattice:
        """Rows low … high-1 of the buffer."""
        rows, scorer = self._rows, self._scorer
        entry = rows["alpha"][low - 1] if low else self._entry
        edge = scorer.scores if self._wide else scorer.edge
        if self.model.layout.n_edge_attributes:
            edge = rows["edge"][low:high]
        starts, given = frozen(rows["start"][low:high], np.bool_), frozen(rows["given"][low:high], np.int32)
        alpha, predicted = rows["alpha"][low:high], rows["predicted"][low:high]
        return lattice_of(starts, given, alpha, predicted, edge, Belief(entry, self._wide))

    def _backward(self, lattice: messages.Lattice, gamma: Floats) -> tuple[Floats, Floats]:
        """The posterior of the row before the lattice, and those in it."""
        gamma, out = gamma.copy(), np.empty((lattice.starts.size, self._scorer.width))
        fast = lattice.edge is self._scorer.edge
        decode.posteriors(lattice, self._scorer.edge_t if fast else np.empty((0, 0)), gamma, out)
        return gamma, out

    # Out

    def _given_out(self, count: int) -> Final:
        """The first rows of the buffer, which lets go of them."""
        rows, n = self._rows, self._scorer.n_labels
        low, head = self._low, self._low + len(rows) - 1
        proven = rows["proven"][:count].copy()
        found = Final(
            low=low,
            starts=rows["start"][:count].copy(),
            given=rows["given"][:count].copy(),
            labels=rows["label"][:count].copy(),
            posteriors=rows["predicted"][:count, :n].copy() if self._posteriors else None,
            proven=proven,
            lag=head - np.arange(low, low + count),
        )
        if count:
            self.unproven += count - int(np.count_nonzero(proven))
            self._low += count
            self._labelled -= count
            if self._smooth:
                self._entry = rows["alpha"][count - 1].copy()
                self._smoothed -= count
            rows.drop(count)
        return found

    # Saved and restored

    def state(self) -> dict[str, NDArray[Any]]:
        """All that is needed to go on elsewhere."""
        forward, belief = self._forward, self._forward.belief
        state = {
            "counts": np.array([self._low, self._labelled, self._smoothed, self.unproven], np.int64),
            "flags": np.array([self._wide, self._open], np.bool_),
            "delta": forward.delta,
            "belief": belief.values,
            "entry": self._entry,
            "origin": self._origin,
            "q": self._horizon.q,
        }
        state |= under("rows", self._rows.arrays)
        return state if self._sums is None else state | under("sums", self._sums.state())

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state, in a window of the same model and settings."""
        given, n, width = Arrays(state), self._scorer.n_labels, self._scorer.width
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
        self._low, self._labelled, self._smoothed, self.unproven = low, labelled, smoothed, unproven
        self._wide, self._open = wide, opened
        self._forward.delta[:] = delta
        self._forward.belief = Belief(belief.copy(), wide)
        self._entry, self._origin = entry.copy(), origin.copy()
        self._horizon = Horizon(width)
        self._horizon.q[...] = q
        self._rows = Buffer(self._columns(wide))
        self._rows.add(rows)

    def _checked_rows(self, given: Arrays, wide: bool) -> Columns:
        """The rows that wait, if kernels may read them."""
        columns, n = self._columns(wide), self._scorer.n_labels
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


def joined(parts: Sequence[Final]) -> Final:
    """Rows that follow one another as one."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        one.name: np.concatenate([getattr(part, one.name) for part in parts])
        for one in fields(Final)
        if one.name != "low" and getattr(parts[0], one.name) is not None
    }
    return Final(**{"low": parts[0].low, "posteriors": None, **columns})
