"""Log likelihoods of a batch and their gradients on CUDA; `chainfold.cuda` has the kernels.

A long sequence is cut into chunks, and what surrounds a chunk is certified: warps work on chunks of up to 32 labels,
blocks on those of more. A short sequence is one chunk of a warp, or done in order by a block. So are sequences that
cannot be certified, and scores that do not fit into the range of the type. The host waits for the card once, to learn
whether all tags are labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch.arguments import UNKNOWN, Arguments
from chainfold.torch.gpu_batch import TABLES, GpuBatch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

UNKNOWN_TAGS, KNOWN, IN_NUMBERS = 0, 1, 2
"""Results of the forward pass: some tags are unknown; all are labels; and all vectors are numbers as well."""


class CardGradient(NamedTuple):
    """Derivatives by emissions, transitions [N, N], start [N], end [N] and edges, or an empty tensor."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    edges: Tensor


def on_its_card(function: Function) -> Function:
    """Call with the card of the emissions as the current one."""

    @wraps(function)
    def called(inputs: Arguments, *arguments: Any) -> Any:
        with torch.cuda.device_of(inputs.emissions):
            return function(inputs, *arguments)

    return cast("Function", called)


@on_its_card
def log_likelihoods(inputs: Arguments, tags: Tensor | None) -> tuple[Tensor, Tensor, int]:
    """[S] log likelihoods, or log Z without tags; the forward vectors; what is known of the tags and the vectors."""
    if tags is None:
        return (*_forward(GpuBatch(inputs))[:2], KNOWN)
    values, vectors, (wrong, unknown, flagged) = _forward(GpuBatch(inputs._replace(allowed=None), tags))
    if wrong:
        _raise_tag(inputs, tags)
    if not unknown and inputs.allowed is None:
        return values, vectors, KNOWN if flagged else IN_NUMBERS
    log_z, vectors, _ = _forward(GpuBatch(inputs._replace(allowed=None)))
    return _forward(GpuBatch(_allowing(inputs, tags)))[0] - log_z, vectors, UNKNOWN_TAGS


@on_its_card
def gradients(
    inputs: Arguments, tags: Tensor | None, known: int, vectors: Tensor, factor: Tensor
) -> tuple[Tensor, ...]:
    """The gradient of Σ_s factor[s] · (log likelihood of sequence s, or its log Z without tags)."""
    if tags is None:
        parts = _backward(inputs, None, vectors, factor, 1.0)
    elif known:
        parts = _backward(inputs, tags, vectors, factor, -1.0, known == KNOWN)
    else:
        parts = _backward(inputs._replace(allowed=None), None, vectors, factor, -1.0)
        partial = _allowing(inputs, tags)
        again = _backward(partial, None, _forward(GpuBatch(partial))[1], factor, 1.0)
        parts = CardGradient(*(one + other for one, other in zip(parts, again, strict=True)))
    return tuple(
        part if tensor is None or part.dtype == tensor.dtype else part.to(tensor.dtype)
        for part, tensor in zip(parts, inputs[:5], strict=True)
    )


def _raise_tag(inputs: Arguments, tags: Tensor) -> NoReturn:
    """Name the first tag that is no label."""
    wrong = (tags >= inputs.n_labels) | ((tags < 0) & (tags != UNKNOWN))
    if inputs.mask is not None:
        wrong &= inputs.mask.bool()
    row = int(wrong.reshape(-1).nonzero()[0])
    raise ChainfoldError(
        f"the tag at {inputs.place(row)} is {int(tags.reshape(-1)[row])}, but tags go from 0 to {inputs.n_labels - 1} "
        f"({UNKNOWN} for an unknown one)."
    )


def _allowing(inputs: Arguments, tags: Tensor) -> Arguments:
    """A copy of the batch that allows only labels that agree with the tags."""
    labels = torch.arange(inputs.n_labels, device=tags.device)
    allowed = (labels == tags[..., None]) | (tags == UNKNOWN)[..., None]
    if inputs.allowed is not None:
        allowed &= inputs.allowed.bool()
    return inputs._replace(allowed=allowed)


def _forward(gpu: GpuBatch) -> tuple[Tensor, Tensor, list[int]]:
    """Values, forward vectors and, with tags, the status: is one no label, is one unknown, has a sequence a flag."""
    n, count, batch = gpu.n_labels, gpu.sequences, gpu.batch
    vectors = gpu.room(gpu.positions, n)
    if gpu.empty:
        return gpu.zeros(count), vectors, [0, 0, 0]
    gpu.prepare()
    values = gpu.room(count)
    gpu.flags()
    batch.vectors, batch.values = vectors.data_ptr(), values.data_ptr()
    status = gpu.kernels.status() if batch.tags else None
    if status is not None:
        status.numbers[:] = 0
        batch.status = status.pointer
    if gpu.in_chunks and not batch.whole:
        batch.scale = gpu.space(2, gpu.chunks, dtype=torch.float64)
        batch.score = batch.scale + 8 * gpu.chunks
    if gpu.by_warps:
        if not batch.whole:
            batch.entries = gpu.space(gpu.chunks, n)
            gpu.launch_warps("chunk_past", gpu.chunks)
        gpu.launch_warps("chunk_forward", gpu.chunks)
    elif gpu.in_chunks:
        gpu.launch_rounds("block_forward")
    complete = gpu.by_warps and batch.whole and status is not None  # unless the status says otherwise
    if not complete:
        gpu.launch_labels("ordered_forward", count, gpu.threads)
    if status is None:
        return values, vectors, [0, 0, 0]
    gpu.kernels.wait(gpu.stream)
    numbers: list[int] = status.numbers.tolist()
    if complete and numbers == [0, 0, 1]:  # otherwise the values are not needed
        gpu.launch_labels("ordered_forward", count, gpu.threads)
    return values, vectors, numbers if complete else [*numbers[:2], 1]


def posteriors_of(inputs: Arguments, vectors: Tensor) -> Tensor:
    """The posterior of every label at every position, in the shape of the emissions."""
    factor = torch.ones(1, dtype=inputs.result_type, device=inputs.emissions.device).expand(inputs.n_sequences)
    return _backward(inputs, None, vectors, factor, 1.0).emissions


def _backward(
    inputs: Arguments,
    tags: Tensor | None,
    vectors: Tensor,
    factor: Tensor,
    sign: float,
    flagged: bool = True,
) -> CardGradient:
    """flagged: whether some sequence may have a flag"""
    emissions, n, dtype = inputs.emissions, inputs.n_labels, inputs.result_type
    gradient = emissions.new_empty(emissions.shape, dtype=dtype)
    gpu = GpuBatch(inputs, tags, gradient)
    batch = gpu.batch
    edges = gpu.room(0) if inputs.edges is None else gpu.zeros(*inputs.edges.shape)
    if gpu.empty:
        return CardGradient(gradient, gpu.zeros(n, n), gpu.zeros(n), gpu.zeros(n), edges)
    in_order = flagged or not gpu.by_warps  # some of the sequences
    pairs, first, last = gpu.room(n, n), gpu.room(n), gpu.room(n)
    if in_order:
        gpu.flags()
    blocks = gpu.count_blocks if in_order else 0
    batch.sign, batch.warps = sign, min(gpu.chunks, TABLES) if gpu.by_warps else 0
    batch.table_count = batch.warps + blocks
    if factor.dtype != dtype:
        factor = factor.to(dtype)
    batch.factor, batch.factor_step = factor.data_ptr(), factor.stride(0)
    batch.vectors, batch.tables = vectors.data_ptr(), gpu.space(batch.table_count, n + 2, n, dtype=torch.float64)
    batch.edge_gradient = edges.data_ptr() if edges.numel() else None
    batch.pairs, batch.first, batch.last = pairs.data_ptr(), first.data_ptr(), last.data_ptr()
    if gpu.by_warps:
        if not batch.whole:
            batch.posteriors = gpu.space(gpu.chunks, n)
            gpu.launch_warps("chunk_future", gpu.chunks)
        gpu.launch_warps("chunk_backward", batch.warps)
    elif gpu.in_chunks:
        gpu.launch_rounds("block_backward")
    if in_order:
        gpu.launch_labels("ordered_backward", gpu.sequences)
        if not gpu.by_warps:
            batch.flag = None  # the counts of all
        gpu.launch_labels("counts", blocks)
    gpu.launch("sum_tables", -(-(n + 2) * n // 32), 32 * min(32, batch.table_count))
    return CardGradient(gradient, pairs, first, last, edges)
