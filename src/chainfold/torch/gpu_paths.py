"""Labellings of a batch on CUDA."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from chainfold.cuda.launch import CHUNK_LABELS
from chainfold.errors import ChainfoldError
from chainfold.torch.arguments import Arguments
from chainfold.torch.gpu import log_likelihoods, on_its_card, posteriors_of
from chainfold.torch.gpu_batch import GpuBatch
from torch import Tensor

_FAULTS = {
    2: "has no possible labelling: constraints or scores of -inf forbid all; allow a label or a transition.",
    3: "has an emission or a transition that is NaN or +inf; labels need scores below +inf.",
}
_BLOCKS = 1024  # with lists of their own, at most
_IN_ORDER = 512  # positions of a sequence that is labelled in order
_CHUNKED = 1024  # sequences times labels up to which chunks are faster: they take a warp for each label before a chunk
_LEAST_CHUNK, _MOST_CHUNKS = 128, 256  # positions of a chunk; chunks of a sequence
DOUBLE = torch.float64


@on_its_card
def best(inputs: Arguments) -> tuple[list[list[int]], Tensor]:
    """The best labelling of each sequence and its score."""
    labels, scores = _best(inputs)
    flat = labels.to(torch.int16).tolist()  # a quarter of the bytes to move
    return [flat[first : first + length] for first, length in _lengths(inputs)], scores


@on_its_card
def best_labels(inputs: Arguments) -> tuple[Tensor, Tensor]:
    """The best labels in the shape of tags, and -1 where the mask is, with their scores: they stay on the card."""
    labels, scores = _best(inputs)
    if inputs.cu_seqlens is not None:
        return labels, scores
    length = inputs.emissions.shape[1 if inputs.batch_first else 0]
    labels = labels.view(inputs.n_sequences, length)
    if inputs.mask is not None:
        mask = inputs.mask.bool() if inputs.batch_first else inputs.mask.bool().t()
        within = torch.arange(mask.shape[1], device=mask.device) < mask.sum(1, keepdim=True)
        labels = torch.full_like(labels, -1).masked_scatter_(mask, labels[within])
    return labels if inputs.batch_first else labels.t().contiguous(), scores


def _best(inputs: Arguments) -> tuple[Tensor, Tensor]:
    """The best labels, a sequence after the other, and their scores; raises where there are none."""
    gpu = GpuBatch(inputs)
    scores = gpu.zeros(gpu.sequences, dtype=torch.float64)
    if gpu.empty:
        return gpu.room(0, dtype=torch.int64), scores.to(inputs.result_type)
    back = gpu.room(gpu.positions, gpu.n_labels, dtype=torch.uint8 if gpu.n_labels <= 256 else torch.int16)
    labels, flags = gpu.room(gpu.positions, dtype=torch.int64), gpu.room(gpu.sequences, dtype=torch.int32)
    gpu.batch.flag = flags.data_ptr()
    gpu.batch.back, gpu.batch.labels, gpu.batch.best = back.data_ptr(), labels.data_ptr(), scores.data_ptr()
    if gpu.length > _IN_ORDER and gpu.n_labels <= CHUNK_LABELS and gpu.sequences * gpu.n_labels <= _CHUNKED:
        _best_in_chunks(gpu)
    else:
        shares = 1 if gpu.n_labels <= CHUNK_LABELS else 1024 // gpu.label_threads
        gpu.launch("viterbi", min(gpu.sequences, 1 << 20), gpu.label_threads * shares)
    for s, fault in enumerate(flags.tolist()):
        if fault:
            raise ChainfoldError(f"sequence {s} {_FAULTS[fault]}")
    return labels, scores.to(inputs.result_type)


def _best_in_chunks(gpu: GpuBatch) -> None:
    """The best labellings of long sequences; see `best_chunks.cu`."""
    batch = gpu.batch
    batch.chunk = max(_LEAST_CHUNK, -(-gpu.length // _MOST_CHUNKS))
    chunks, n = gpu.parts(batch.chunk), gpu.n_labels
    batch.between, batch.borders = gpu.space(chunks, n, n, dtype=DOUBLE), gpu.space(chunks, n, dtype=DOUBLE)
    batch.scale, batch.faults = gpu.space(chunks, dtype=DOUBLE), gpu.space(chunks, dtype=torch.int32)
    batch.turns = gpu.space(chunks, n, dtype=torch.uint8)
    gpu.launch_warps("best_between", chunks * -(-n // (32 // n)))
    gpu.launch("best_entries", gpu.sequences, 32)
    gpu.launch_warps("best_pointers", chunks)
    gpu.launch_warps("best_labels", chunks)


def _lengths(inputs: Arguments) -> list[tuple[int, int]]:
    """First label and length of each sequence."""
    if inputs.cu_seqlens is not None:
        offsets = inputs.cu_seqlens.tolist()
        return [(low, high - low) for low, high in pairwise(offsets)]
    dimension = 1 if inputs.batch_first else 0
    length = inputs.emissions.shape[dimension]
    counts = [length] * inputs.n_sequences
    if inputs.mask is not None:
        counts = inputs.mask.bool().sum(dimension).tolist()
    return [(s * length, count) for s, count in enumerate(counts)]


@on_its_card
def ranked(inputs: Arguments, k: int) -> list[tuple[list[list[int]], Tensor]]:
    """The k best labellings of each sequence and their scores."""
    _, top = best(inputs)
    gpu, lengths = GpuBatch(inputs), _lengths(inputs)
    from chainfold.inference.emission_paths import most_labellings

    k = max((most_labellings(k, gpu.n_labels, length) for _, length in lengths), default=1)
    gaps = gpu.zeros(gpu.sequences, k, dtype=torch.float64)
    labels = gpu.room(gpu.positions, k, dtype=torch.int64)
    if not gpu.empty:
        blocks = min(gpu.sequences, _BLOCKS)
        lists = gpu.room(blocks, 2, gpu.n_labels, k, dtype=torch.float64)
        choices = gpu.room(gpu.positions, gpu.n_labels, k, dtype=torch.int32)
        batch = gpu.batch
        batch.ranked, batch.choices, batch.best = lists.data_ptr(), choices.data_ptr(), gaps.data_ptr()
        batch.labels, batch.draws = labels.data_ptr(), k
        gpu.launch("ranked", blocks, gpu.label_threads)
    results = []
    counts, paths = (gaps > -torch.inf).sum(1).tolist(), labels.T.tolist()
    for s, (first, length) in enumerate(lengths):
        count = counts[s] if length else 1
        results.append(([path[first : first + length] for path in paths[:count]], _scores(top[s], gaps[s, :count])))
    return results


def _scores(top: Tensor, gaps: Tensor) -> Tensor:
    return top + gaps.to(top.dtype)


@on_its_card
def drawn(inputs: Arguments, k: int, generator: torch.Generator | None) -> list[Tensor]:
    """k labellings of each sequence, drawn from their distribution; a generator of the host may be given."""
    gpu, vectors = _passed(inputs)
    device = gpu.device if generator is None else generator.device
    uniforms = torch.rand((gpu.positions, k), generator=generator, dtype=torch.float64, device=device).to(gpu.device)
    labels = gpu.room(gpu.positions, k, dtype=torch.int64)
    if not gpu.empty:
        gpu.batch.vectors, gpu.batch.uniforms = vectors.data_ptr(), uniforms.data_ptr()
        gpu.batch.labels, gpu.batch.draws = labels.data_ptr(), k
        gpu.launch_warps("drawn", gpu.sequences * k)
    return [labels[first : first + length].T.contiguous() for first, length in _lengths(inputs)]


@on_its_card
def entropies(inputs: Arguments) -> Tensor:
    """[S] the entropy of each sequence's labelling."""
    gpu, vectors = _passed(inputs)
    if gpu.empty:
        return gpu.zeros(gpu.sequences)
    posteriors = posteriors_of(inputs, vectors)
    gpu.batch.vectors, gpu.batch.gradient = vectors.data_ptr(), posteriors.data_ptr()
    values, shares = gpu.room(gpu.sequences), gpu.parts(gpu.batch.group)
    gpu.batch.scale, gpu.batch.values = gpu.space(shares, dtype=DOUBLE), values.data_ptr()
    gpu.launch_warps("entropy", shares)
    gpu.launch_warps("sum_shares", gpu.sequences)
    return values


def _passed(inputs: Arguments) -> tuple[GpuBatch, Tensor]:
    """A batch and its forward vectors; raises where a sequence has no labelling."""
    values, vectors, _ = log_likelihoods(inputs, None)
    for s, value in enumerate(values.tolist()):
        if not math.isfinite(value):
            raise ChainfoldError(f"sequence {s} {_FAULTS[2 if value == -math.inf else 3]}")
    return GpuBatch(inputs), vectors
