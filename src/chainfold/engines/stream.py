"""One pass: block EMP with certified collapse.

Sequences that begin and end within a block, as most sentences do, need no certificate: they are done forward and back,
a few at a time. Otherwise, forward over the blocks as they come. Behind the newest one, the oldest block still pending
waits for its certificate: the posterior of its last label given each label that the future might pin
(`certificate.hpp`). When these agree, the posterior is known, and the block is done by one ordinary pass back.
Where they do not agree within the lookahead allowed, the block is *carried*: one pass back for each end label f gives

    G[f] = E[counts up to here | y_end = f]        G'[f] = Σ_e Pr(e | f) G[e]  +  the block's own counts given f

until a later boundary certifies: then Σ_f γ(f) G[f] is added to the counts. Exact for every chain; the certificate only
says how soon.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from chainfold.chain.block import Block
from chainfold.core.slots import is_few
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import BlockPass
from chainfold.engines.certificate import Certificate
from chainfold.engines.engine import Engine, Report
from chainfold.engines.problem import Problem
from chainfold.engines.ranges import Ranges
from chainfold.engines.rounding import Promise
from chainfold.engines.settings import Settings, Shape
from chainfold.engines.short_sequences import ShortSequences
from chainfold.engines.tally import Tally
from chainfold.engines.weight_scores import WeightSource
from chainfold.model.layout import Floats

_BLOCK_OF_FEW = 65536  # positions of few labels, which take less time than what a block needs in Python
_COLUMNS = 65536  # of G that are mixed at once, so that no third copy of it is made


@dataclass
class StreamEvents:
    """Counts for the report."""

    blocks: int = 0
    wide_blocks: int = 0
    carried_blocks: int = 0
    certified: int = 0
    looked: int = 0
    lookahead_max: int = 0
    span: int = 0  # the most positions that were settled together, counting those looked at
    added: int = 0  # the most positions whose counts were added at once
    cuts: int = 0  # of `parallel` that hold by certificates
    in_order: int = 0  # that do not hold

    def add(self, other: StreamEvents) -> None:
        for name in ("blocks", "wide_blocks", "carried_blocks", "certified", "looked", "cuts", "in_order"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("lookahead_max", "span", "added"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def report(self, problem: Problem, tally: Tally, halo: int = 0) -> Report:
        """halo: the positions that the certificates of a cut looked at, at most."""
        span = problem.positions if self.carried_blocks else 2 * (self.span + halo)
        terms = self.added + self.carried_blocks * (problem.model.layout.n_labels + 2)
        certificates = 3 if self.cuts else 1 if self.certified else 0
        promise = Promise(span, terms, certificates, self.cuts)
        return Report.of(
            problem,
            tally,
            promise,
            blocks=self.blocks,
            wide_blocks=self.wide_blocks,
            carried_blocks=self.carried_blocks,
            lookahead_mean=self.looked / max(self.certified, 1),
            lookahead_max=self.lookahead_max,
            in_order=self.in_order,
        )


def block_size(problem: Problem) -> int:
    """Positions in a block, more of them where the chain is in memory and there are few labels."""
    settings, shape = problem.settings, problem.shape
    size = shape.block(settings)
    if problem.held and is_few(shape.n_labels) and settings.block is None and settings.memory is None:
        return max(size, min(_BLOCK_OF_FEW, shape.positions))
    return size


class StreamPass:
    """A pass over a stretch of the chain, from the belief before it to the posterior of its last position."""

    def __init__(self, source: WeightSource, tally: Tally) -> None:
        self.events = StreamEvents()
        self.position = 0  # where the next step begins
        self._belief: Belief | None = None  # before that position; None where a sequence begins there
        self._source, self._problem, self._tally = source, source.problem, tally
        problem = source.problem
        self._size, self._window = block_size(problem), problem.shape.window(problem.settings)
        self._pending: deque[BlockPass] = deque()
        self._idle: list[BlockPass] = []
        self._certificate: Certificate | None = None  # of the end of the oldest pending block
        self._carried: Floats | None = None  # [N, slots]  G
        self._sequences = ShortSequences(source) if ShortSequences.suit(source) else None

    def run(self, low: int, high: int, entry: Belief | None = None, posterior: Floats | None = None) -> None:
        """Positions low … high-1. Without an entry a sequence begins there, without a posterior one ends there."""
        self.position, self._belief = low, entry
        while self.position < high:
            if self._problem.stop.is_set():
                return
            self.step(high, closed=posterior is None)
        self.end(posterior)

    def ahead(self) -> int:
        """Positions that the next step depends on, beside whether a sequence starts right after them."""
        if self._sequences is None or not self._problem.source.block(self.position, self.position + 1).starts[0]:
            return self._size
        return max(self._size, self._sequences.most)

    def step(self, high: int, closed: bool) -> None:
        """The next block before `high`, or the sequences that begin and end there; `closed`: one ends at `high`."""
        problem, begin = self._problem, self.position
        block = problem.read(begin, min(begin + self._size, high))
        done = self._whole(begin, high, self._belief, closed) if block.starts[0] else 0
        if done:
            self._belief = None
            problem.put_back(block)
        else:
            done = self._until_a_start(block)
            problem.put_back(block.part(done, block.labels.size))
            self._belief = self._forward(begin, block.part(0, done), self._belief)
            self._settle(self._window)
        self.position += done
        problem.settings.progress(done)

    def end(self, posterior: Floats | None = None) -> None:
        """Settle what is pending by the posterior of the last position; without one a sequence ends there."""
        if self._belief is not None:
            if posterior is None:
                posterior = self._belief.posterior()
            self._finish(posterior)
        for block_pass in self._idle:
            block_pass.release()
        if self._sequences is not None:
            self._sequences.release()

    def _new_certificate(self) -> Certificate:
        return Certificate(self._source.transitions.width, self._source.tolerance)

    def _until_a_start(self, block: Block) -> int:
        """Positions to the next start mark, from which whole sequences continue, or all of the block."""
        marks = np.flatnonzero(block.starts[1:]) + 1
        if self._sequences is None or not marks.size:
            return block.labels.size
        return int(marks[-1] if block.starts[0] else marks[0])

    def _forward(self, begin: int, block: Block, belief: Belief | None) -> Belief:
        block_pass = self._idle.pop() if self._idle else BlockPass(self._source)
        belief = block_pass.forward(begin, block, belief)
        self._tally.scale(block_pass.passed.log_scale)
        self._tally.observe(begin, block)
        self.events.blocks += 1
        self.events.wide_blocks += block_pass.passed.wide
        self._pending.append(block_pass)
        return belief

    def _whole(self, begin: int, high: int, belief: Belief | None, closed: bool) -> int:
        """Do the sequences that begin here and end before `high`, or at it if a sequence ends there; returns how far.

        What is pending before them is settled by the end of its sequence.
        """
        if self._sequences is None:
            return 0
        ahead = min(begin + self._sequences.most, high)
        end = self._sequences.reach(begin, ahead, closed and ahead == high)
        if end == 0:
            return 0
        block = self._problem.read(begin, begin + end)
        if self._problem.may_overflow(block):
            self._problem.put_back(block)
            return 0
        done, log_scale = self._sequences.forward_and_back(begin, block, self._tally.expected.slots)
        if done == 0:
            return 0
        if belief is not None:
            self._finish(belief.posterior())
        self._tally.scale(log_scale)
        self._tally.observe(begin, block.part(0, done))
        self._tally.expected.added(done)
        self.events.blocks += 1
        self.events.span = max(self.events.span, min(done, self._sequences.rows))
        self.events.added = max(self.events.added, done)
        return done

    def _settle(self, window: int) -> None:
        """Do the pending blocks whose end is certified; carry one if there are too many."""
        while len(self._pending) > 1:
            certificate = self._certificate = self._certificate or self._new_certificate()
            while not certificate.certified and certificate.blocks + 1 < len(self._pending):
                certificate.extend(self._pending[certificate.blocks + 1].lattice())
            if not certificate.certified and len(self._pending) <= window:
                return
            block_pass = self._pending.popleft()
            if certificate.certified:
                self._collect(self._backward(block_pass, certificate.gamma))
                self.events.certified += 1
                self.events.looked += certificate.positions
                self.events.lookahead_max = max(self.events.lookahead_max, certificate.positions)
                self.events.span = max(self.events.span, block_pass.size + certificate.positions)
            else:
                self._carry(block_pass)
            self._idle.append(block_pass)
            self._certificate = None

    def _finish(self, gamma: Floats) -> None:
        """The end of a sequence settles all pending blocks."""
        self.events.span = max(self.events.span, sum(block_pass.size for block_pass in self._pending))
        while self._pending:
            self._idle.append(self._pending.pop())
            gamma = self._backward(self._idle[-1], gamma)
        self._collect(gamma)
        self._certificate = None

    def _backward(self, block_pass: BlockPass, gamma: Floats) -> Floats:
        expected = self._tally.expected
        before = block_pass.backward(gamma, expected.slots)
        self.events.added = max(self.events.added, block_pass.size)
        expected.added(block_pass.size)
        return before

    def _collect(self, gamma: Floats) -> None:
        """Σ_f γ(f) G[f]: what was carried up to the position whose posterior is now known."""
        if self._carried is not None:
            self._tally.expected.add(np.einsum("f,fm->m", gamma[: self._carried.shape[0]], self._carried))
            self._carried = None

    def _carry(self, block_pass: BlockPass) -> None:
        """Block EMP: the expected counts up to the end of this block, given each of its end labels."""
        layout = self._problem.model.layout
        carried = np.zeros((layout.n_labels, layout.slots))
        before = np.zeros((layout.n_labels, layout.n_labels))  # [f, e]  Pr(e | f)
        for f in np.flatnonzero(block_pass.passed.exit.possible()):
            pinned = np.zeros(layout.width)
            pinned[f] = 1.0
            before[f] = block_pass.backward(pinned, layout.view(carried[f]), keep=True)[: layout.n_labels]
        if self._carried is not None:
            for low, high in Ranges(0, layout.slots, _COLUMNS):  # not by BLAS, whose sums depend on its threads
                carried[:, low:high] += np.einsum("fe,em->fm", before, self._carried[:, low:high])
        self._carried = carried
        self.events.carried_blocks += 1


def run(problem: Problem) -> tuple[Tally, Report]:
    tally = Tally(problem)
    stream = StreamPass(WeightSource(problem), tally)
    stream.run(0, problem.positions)
    return tally, stream.events.report(problem, tally)


def memory(shape: Shape, settings: Settings) -> float:
    return (shape.window(settings) + 1) * shape.block(settings) * shape.pending_bytes + shape.certificate_bytes


ENGINES = {"stream": Engine(run, memory)}
