"""Labellings of a batch on the host: its sequences as one chain with start marks, as `inference` has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.core import draw, entropy, posteriors, rank, trace, trace_ranked, viterbi
from chainfold.core.faults import NOT_FINITE, OK, check_memory
from chainfold.core.slots import Lattice
from chainfold.engines.belief import Belief
from chainfold.engines.forward_pass import forward_pass, lattice_of
from chainfold.errors import ChainfoldError, ScoreNotFinite, ZeroProbability
from chainfold.model.layout import Floats
from chainfold.torch.arguments import Arguments, most_labellings
from chainfold.torch.cpu_batch import CpuBatch
from chainfold.torch.cpu_threads import run
from torch import Tensor


class Flat:
    """All sequences of a batch that have positions, as one chain."""

    def __init__(self, inputs: Arguments) -> None:
        self.batch = batch = CpuBatch(inputs)
        self.inputs, self.rows, self.starts = inputs, batch.layout.rows, batch.layout.starts
        self.lengths = np.diff(batch.layout.offsets)
        self.ends = np.append(self.starts[1:], self.rows.size > 0)[: self.rows.size]
        self.result_type = inputs.result_type

    def states(self) -> Floats:
        """[P, width]"""
        return self.batch.states(0, self.rows.size)

    def edges(self) -> Floats | None:
        """[P, N · width], or None"""
        return self.batch.edge_scores(0, self.rows.size)

    def lattice(self) -> tuple[Lattice, Floats]:
        """After the forward pass, and the posterior of the last position."""
        batch, states, edges = self.batch, self.states(), self.edges()

        def score_again() -> None:
            states[:] = self.states()
            if edges is not None:
                edges[:] = self.edges()

        try:
            passed = forward_pass(
                batch.transitions, 0, self.starts, states, edges, Belief(np.zeros(batch.width)), score_again, watch=True
            )
        except (ScoreNotFinite, ZeroProbability) as error:
            raise self.error(isinstance(error, ScoreNotFinite), error.position) from error
        labels = np.zeros(self.rows.size, np.int32)
        lattice = lattice_of(self.starts, labels, passed.alpha, passed.predicted, passed.edge, passed.entry)
        return lattice, passed.exit.posterior()

    def error(self, not_finite: bool, position: int) -> ChainfoldError:
        """The error for a score that is not finite, or for no possible label, at a position of the chain."""
        place = self.inputs.place(int(self.rows[position]))
        if not_finite:
            return ChainfoldError(f"a score is NaN or +inf at {place}: labels need scores below +inf.")
        return ChainfoldError(
            f"no labelling is possible: constraints or scores of -inf forbid every label at {place}; allow a label or "
            "a transition."
        )

    def split(self, values: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """[..., P] for each sequence."""
        return np.split(values, self.batch.layout.offsets[1:-1], axis=-1) if self.lengths.size else []

    def scattered(self, values: Floats) -> Tensor:
        """[S] from the numbers of the sequences that have positions; 0 for others."""
        out = np.zeros(self.lengths.size)
        out[self.lengths > 0] = values
        return torch.from_numpy(out).to(self.result_type)


def best(inputs: Arguments) -> tuple[list[list[int]], Tensor]:
    """The best labelling of each sequence and its score."""
    flat = Flat(inputs)
    batch, layout = flat.batch, flat.batch.layout
    labels, score = np.empty(flat.rows.size, np.int32), np.zeros(flat.lengths.size)
    pointer = np.uint8 if batch.n_labels <= 256 else np.uint16

    def work(low: int, high: int) -> None:
        first, last = layout.offsets[low], layout.offsets[high]
        if first == last:
            return
        here = slice(first, last)
        states = batch.states(first, last)
        edges = batch.edge_scores(first, last)
        scores = batch.transitions.scores if edges is None else edges
        wrong = np.flatnonzero(~(scores < np.inf).all(1) & ~flat.starts[here])
        if wrong.size:
            raise flat.error(True, first + wrong[0])
        present = np.flatnonzero(flat.lengths[low:high]) + low
        back = np.empty((last - first, batch.n_labels), pointer)
        finals, reached = np.zeros(present.size, np.int64), np.zeros(present.size)
        status, fault = viterbi(
            flat.starts[here],
            flat.ends[here],
            states,
            scores,
            np.zeros(batch.width),
            np.zeros(2),
            back,
            finals,
            reached,
        )
        check_memory(status)
        if status != OK:
            raise flat.error(status == NOT_FINITE, first + fault)
        trace(back, int(finals[-1]), labels[here])
        score[present] = reached

    run(work, layout.whole.tasks)
    return [part.tolist() for part in flat.split(labels)], torch.from_numpy(score).to(flat.result_type)


def ranked(inputs: Arguments, k: int) -> list[tuple[list[list[int]], Tensor]]:
    """The k best labellings of each sequence and their scores."""
    flat = Flat(inputs)
    batch, offsets = flat.batch, flat.batch.layout.offsets
    n, (_, top) = batch.n_labels, best(inputs)

    def work(s: int) -> tuple[list[list[int]], Tensor]:
        first, last = offsets[s : s + 2].tolist()
        here, size = slice(first, last), last - first
        most = most_labellings(k, n, size)
        labels, gaps = np.empty((most, size), np.int32), np.zeros((1, most))
        if size:
            states, edges = batch.states(first, last), batch.edge_scores(first, last)
            scores = batch.transitions.scores if edges is None else edges
            back, finals = np.empty((size, n, most), np.uint32), np.empty((1, most), np.int64)
            begin = np.full((n, most), -np.inf)
            check_memory(rank(flat.starts[here], flat.ends[here], states, scores, begin, back, finals, gaps))
            trace_ranked(flat.ends[here], back, finals, np.full(most, -1, np.int64), labels)
        own = gaps[0, gaps[0] > -np.inf]
        return labels[: own.size].tolist(), top[s] + torch.from_numpy(own).to(flat.result_type)

    return run(work, [(s,) for s in range(flat.lengths.size)])


def drawn(inputs: Arguments, k: int, generator: torch.Generator | None) -> list[Tensor]:
    """k labellings of each sequence, drawn from their distribution."""
    flat = Flat(inputs)
    size = flat.rows.size
    labels = np.zeros((size + 1, k), np.int32)
    uniforms = torch.rand((size, k), generator=generator, dtype=torch.float64).numpy()
    if size:
        lattice, gamma = flat.lattice()
        out = np.empty((size, flat.batch.width))
        check_memory(posteriors(lattice, np.empty((0, 0)), gamma, out))
        check_memory(draw(lattice, out, uniforms, labels))
    return [torch.from_numpy(part.astype(np.int64, order="C")) for part in flat.split(labels[1:].T)]


def entropies(inputs: Arguments) -> Tensor:
    """[S] the entropy of each sequence's labelling."""
    flat = Flat(inputs)
    width, out = flat.batch.width, np.zeros(np.count_nonzero(flat.lengths))
    if flat.rows.size:
        lattice, _ = flat.lattice()
        shared = not lattice.wide and lattice.edge is flat.batch.transitions.edge
        log_edge = flat.batch.transitions.log_edge if shared else np.empty(0)
        check_memory(entropy(lattice, flat.ends, log_edge, np.zeros(width), np.zeros(2), out))
    return flat.scattered(out)
