"""Labellings of a batch on the host: its sequences as one chain with start marks, as `inference` has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.engines.belief import Belief
from chainfold.engines.block_pass import forward_pass, lattice_of
from chainfold.errors import ChainfoldError, ScoreNotFinite, ZeroProbability
from chainfold.kernels import posteriors, viterbi
from chainfold.kernels.faults import NOT_FINITE, OK
from chainfold.kernels.lattice import Lattice
from chainfold.model.layout import Floats
from chainfold.torch.arguments import Arguments
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
        """What is wrong at a position of the chain."""
        place = self.inputs.place(int(self.rows[position]))
        if not_finite:
            return ChainfoldError(f"a score is NaN or +inf at {place}: labels need scores below +inf.")
        return ChainfoldError(
            f"no labelling is possible: constraints or scores of -inf forbid every label at {place}; allow a label or "
            "a transition."
        )

    def split(self, values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
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
    labels, score = np.empty(flat.rows.size, np.int64), np.zeros(flat.lengths.size)
    pointer = np.uint8 if batch.n_labels <= 256 else np.uint16

    def work(low: int, high: int) -> None:
        first, last = layout.offsets[low], layout.offsets[high]
        if first == last:
            return
        here = slice(first, last)
        states = batch.states(first, last)
        edges = batch.edge_scores(first, last)
        scores = batch.transitions.scores if edges is None else edges
        wrong = np.flatnonzero(np.isnan(scores).any(1) & ~flat.starts[here])
        if wrong.size:
            raise flat.error(True, first + wrong[0])
        present = np.flatnonzero(flat.lengths[low:high]) + low
        back = np.empty((last - first, batch.n_labels), pointer)
        finals, reached = np.zeros(present.size, np.int64), np.zeros(present.size)
        status, fault = viterbi.viterbi(
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
        if status != OK:
            raise flat.error(status == NOT_FINITE, first + fault)
        viterbi.trace(back, finals[-1], labels[here])
        score[present] = reached

    run(work, layout.whole.tasks)
    return [part.tolist() for part in flat.split(labels)], torch.from_numpy(score).to(flat.result_type)


def ranked(inputs: Arguments, k: int) -> list[tuple[list[list[int]], Tensor]]:
    """The k best labellings of each sequence and their scores."""
    flat = Flat(inputs)
    _, top = best(inputs)
    batch, size, present = flat.batch, flat.rows.size, np.count_nonzero(flat.lengths)
    labels, gaps = np.empty((k, size), np.int64), np.empty((present, k))
    if size:
        states, edges = flat.states(), flat.edges()
        back = np.empty((size, batch.n_labels, k), np.uint32)
        finals = np.empty((present, k), np.int64)
        start = np.full((batch.n_labels, k), -np.inf)
        scores = batch.transitions.scores if edges is None else edges
        viterbi.rank(flat.starts, flat.ends, states, scores, start, back, finals, gaps)
        viterbi.trace_ranked(flat.ends, back, finals, np.full(k, -1, np.int64), labels)
    results, sequence = [], 0
    for s, part in enumerate(flat.split(labels)):
        own = np.zeros(1)
        if flat.lengths[s]:
            own = gaps[sequence, gaps[sequence] > -np.inf]
            sequence += 1
        results.append((part[: own.size].tolist(), top[s] + torch.from_numpy(own).to(flat.result_type)))
    return results


def drawn(inputs: Arguments, k: int, generator: torch.Generator | None) -> list[Tensor]:
    """k labellings of each sequence, drawn from their distribution."""
    flat = Flat(inputs)
    size = flat.rows.size
    labels = np.zeros((size + 1, k), np.int32)
    uniforms = torch.rand((size, k), generator=generator, dtype=torch.float64).numpy()
    if size:
        lattice, gamma = flat.lattice()
        out = np.empty((size, flat.batch.width))
        posteriors.posteriors(lattice, np.empty((0, 0)), gamma, out)
        posteriors.draw(lattice, out, uniforms, labels)
    return [torch.from_numpy(part.copy()) for part in flat.split(labels[1:].T.astype(np.int64))]


def entropies(inputs: Arguments) -> Tensor:
    """[S] the entropy of each sequence's labelling."""
    flat = Flat(inputs)
    width, out = flat.batch.width, np.zeros(np.count_nonzero(flat.lengths))
    if flat.rows.size:
        lattice, _ = flat.lattice()
        shared = not lattice.wide and lattice.edge is flat.batch.transitions.edge
        log_edge = flat.batch.transitions.log_edge if shared else np.empty(0)
        posteriors.entropy(lattice, flat.ends, log_edge, np.zeros(width), np.zeros(2), out)
    return flat.scattered(out)
