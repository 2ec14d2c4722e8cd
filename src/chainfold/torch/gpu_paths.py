"""Labellings of a batch on CUDA."""

from __future__ import annotations

from itertools import pairwise
from typing import NoReturn

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch.arguments import Arguments
from chainfold.torch.gpu import GpuBatch
from torch import Tensor

_FAULTS = {
    2: "has no possible labelling: constraints or scores of -inf forbid all; allow a label or a transition.",
    3: "has an emission or a transition that is NaN or +inf; labels need scores below +inf.",
}


def best(inputs: Arguments) -> tuple[list[list[int]], Tensor]:
    """The best labelling of each sequence and its score."""
    gpu = GpuBatch(inputs)
    scores = gpu.zeros(gpu.sequences, dtype=torch.float64)
    if gpu.empty:
        return [[] for _ in range(gpu.sequences)], scores.to(inputs.result_type)
    back = gpu.room(gpu.positions, gpu.n_labels, dtype=torch.uint8 if gpu.n_labels <= 256 else torch.int16)
    labels, flags = gpu.room(gpu.positions, dtype=torch.int64), gpu.room(gpu.sequences, dtype=torch.int32)
    gpu.batch.flag = flags.data_ptr()
    gpu.batch.back, gpu.batch.labels, gpu.batch.best = back.data_ptr(), labels.data_ptr(), scores.data_ptr()
    gpu.launch("viterbi", min(gpu.sequences, 1 << 20), -(-gpu.n_labels // 32) * 32)
    lengths = _lengths(inputs)
    flat = labels.tolist()
    for s, fault in enumerate(flags.tolist()):
        if fault:
            raise ChainfoldError(f"sequence {s} {_FAULTS[fault]}")
    paths = [flat[first : first + length] for first, length in lengths]
    return paths, scores.to(inputs.result_type)


def _lengths(inputs: Arguments) -> list[tuple[int, int]]:
    """Where each sequence begins among the labels, and its length."""
    if inputs.cu_seqlens is not None:
        offsets = inputs.cu_seqlens.tolist()
        return [(low, high - low) for low, high in pairwise(offsets)]
    dimension = 1 if inputs.batch_first else 0
    length = inputs.emissions.shape[dimension]
    counts = [length] * inputs.n_sequences
    if inputs.mask is not None:
        counts = inputs.mask.bool().sum(dimension).tolist()
    return [(s * length, count) for s, count in enumerate(counts)]


def ranked(inputs: Arguments, k: int) -> NoReturn:
    """Not on CUDA."""
    raise _on_host("nbest")


def drawn(inputs: Arguments, k: int, generator: torch.Generator | None) -> NoReturn:
    """Not on CUDA."""
    raise _on_host("sample")


def entropies(inputs: Arguments) -> NoReturn:
    """Not on CUDA."""
    raise _on_host("entropy")


def _on_host(name: str) -> ChainfoldError:
    return ChainfoldError(f"`{name}` is for CPU tensors: move the emissions and the CRF there with `.cpu()`.")
