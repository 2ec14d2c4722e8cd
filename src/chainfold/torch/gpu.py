"""Log likelihoods of a batch and their gradients on CUDA; `chainfold.cuda` has the kernels.

Up to 32 labels, a warp works on a chunk of a sequence, and what surrounds the chunk is certified. A sequence for which
that fails, transitions that do not fit into the range of the type, more labels, and edges of positions' own are done in
order. The host waits for the card once, to learn whether all tags are labels.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import torch
from chainfold.cuda.launch import CHUNK_LABELS, WARPS, Batch, kernels_for
from chainfold.errors import ChainfoldError
from chainfold.torch.arguments import UNKNOWN, Arguments
from torch import Tensor

_CHUNK, _LONG_CHUNK = 128, 512  # positions
_LONG = 1 << 20  # positions of a batch whose chunks are long
_TABLES = 3168  # warps with tables of their own, whatever the card: 12 a multiprocessor of an H200, twice
_ORDERED_BLOCKS = 64
_ORDERED_BYTES = 64 << 20  # of the tables of blocks


class GpuBatch:
    """A batch as kernels take it. The tensors that it points into live as long as it does."""

    def __init__(self, inputs: Arguments, tags: Tensor | None = None) -> None:
        """tags: all of them known."""
        emissions = inputs.emissions
        self.inputs, self.device, self.dtype = inputs, emissions.device, inputs.result_type
        self.n_labels, self.sequences, self.positions = inputs.n_labels, inputs.n_sequences, inputs.positions
        self.kernels = kernels_for(self.device.index or 0, self.n_labels, self.dtype == torch.float64)
        self.stream = self.kernels.stream()
        self.in_chunks = self.n_labels <= CHUNK_LABELS and inputs.edges is None
        self._alive: list[Tensor] = []
        self.batch = batch = Batch()
        batch.emissions, batch.transitions = self._numbers(emissions), self._numbers(inputs.transitions)
        batch.start, batch.end = self._numbers(inputs.start), self._numbers(inputs.end)
        if inputs.edges is not None:
            batch.edges = self._numbers(inputs.edges)
        if inputs.allowed is not None:
            batch.allowed = self._keep(inputs.allowed.to(torch.uint8))
        if tags is not None:
            batch.tags = self._keep(tags.to(torch.int64))
        batch.sequences = self.sequences
        batch.chunk = _LONG_CHUNK if self.positions > _LONG else _CHUNK
        self._place()

    def _place(self) -> None:
        """Where the positions are."""
        inputs, batch = self.inputs, self.batch
        if inputs.cu_seqlens is not None:
            offsets = inputs.cu_seqlens.to(torch.int64)
            counts = (offsets.diff() + (batch.chunk - 1)) // batch.chunk
            batch.packed = self._keep(offsets)
            batch.chunks = self._keep(torch.cat([counts.new_zeros(1), counts.cumsum(0)]))
            batch.length = self.positions
            self.chunks = self.positions // batch.chunk + self.sequences  # at most
            return
        first, second = inputs.emissions.shape[:2]
        length = second if inputs.batch_first else first
        batch.length = length
        batch.row_sequence, batch.row_position = (length, 1) if inputs.batch_first else (1, self.sequences)
        self.chunks = self.sequences * (-(-length // batch.chunk))
        if inputs.mask is not None:
            mask = inputs.mask.bool() if inputs.batch_first else inputs.mask.bool().t()
            order = torch.argsort(mask, dim=1, descending=True, stable=True)
            rows = torch.arange(self.sequences, device=self.device)[:, None] * batch.row_sequence
            batch.index = self._keep(rows + order * batch.row_position)
            batch.lengths = self._keep(mask.sum(1))

    @property
    def empty(self) -> bool:
        return self.sequences == 0 or self.positions == 0

    @property
    def threads(self) -> int:
        """A thread for each label; more of them where the shares of many chunks are added."""
        shares: int = min(512, self.chunks // max(self.sequences, 1) // 4)
        return -(-max(self.n_labels, shares) // 32) * 32

    @property
    def ordered_blocks(self) -> int:
        table = 8 * (self.n_labels + 2) * self.n_labels
        return max(1, min(self.sequences, _ORDERED_BLOCKS, _ORDERED_BYTES // table))

    def launch(self, file: str, name: str, blocks: int, threads: int) -> None:
        self.kernels.launch(file, name, blocks, threads, self.stream, self.batch)

    def launch_chunks(self, name: str, warps: int) -> None:
        """A kernel of chunks, named as its file."""
        self.kernels.launch(name, name, -(-warps // WARPS), 32 * WARPS, self.stream, self.batch)

    def room(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor without values."""
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    def flags(self) -> Tensor:
        """[S + 2] zeros for sequences that are done in chunks, and the status of the tags."""
        flags = self.zeros(self.sequences + 2, dtype=torch.int32)
        if not self.in_chunks:
            flags[: self.sequences] = 1
        self.batch.flag = flags.data_ptr()
        self.batch.status = flags.data_ptr() + 4 * self.sequences
        return flags

    def _numbers(self, tensor: Tensor) -> int:
        return self._keep(tensor.detach() if tensor.dtype == self.dtype else tensor.detach().to(self.dtype))

    def _keep(self, tensor: Tensor) -> int:
        tensor = tensor.contiguous()
        self._alive.append(tensor)
        return int(tensor.data_ptr())


class Gradient(NamedTuple):
    """Derivatives by emissions [R, N], transitions [N, N], start [N], end [N] and edges, or an empty tensor."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    edges: Tensor


def log_likelihoods(inputs: Arguments, tags: Tensor | None, weights: Tensor | None) -> tuple[Tensor, Tensor, bool]:
    """[S] log likelihoods, or log Z without tags; the forward vectors; whether all tags are known."""
    if weights is not None:
        raise ChainfoldError(
            "weights of positions and labels are for CPU tensors: move the emissions and the CRF there with `.cpu()`."
        )
    if tags is None:
        return (*_forward(GpuBatch(inputs))[:2], True)
    values, vectors, status = _forward(GpuBatch(inputs._replace(allowed=None), tags))
    wrong, unknown = (0, 0) if status is None else status.tolist()
    if wrong:
        _raise_tag(inputs, tags)
    if not unknown and inputs.allowed is None:
        return values, vectors, True
    log_z, vectors, _ = _forward(GpuBatch(inputs._replace(allowed=None)))
    return _forward(GpuBatch(_allowing(inputs, tags)))[0] - log_z, vectors, False


def gradients(
    inputs: Arguments, tags: Tensor | None, known: bool, vectors: Tensor, factor: Tensor
) -> tuple[Tensor, ...]:
    """The gradient of Σ_s factor[s] · (log likelihood of sequence s, or its log Z without tags)."""
    if tags is None:
        parts = _backward(GpuBatch(inputs), vectors, factor, 1.0)
    elif known:
        parts = _backward(GpuBatch(inputs, tags), vectors, factor, -1.0)
    else:
        parts = _backward(GpuBatch(inputs._replace(allowed=None)), vectors, factor, -1.0)
        partial = GpuBatch(_allowing(inputs, tags))
        again = _backward(partial, _forward(partial)[1], factor, 1.0)
        parts = Gradient(*(one + other for one, other in zip(parts, again, strict=True)))
    like = inputs.emissions, inputs.transitions, inputs.start, inputs.end, inputs.edges
    return tuple(
        part if tensor is None else part.view(tensor.shape).to(tensor.dtype)
        for part, tensor in zip(parts, like, strict=True)
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
    """The same batch with the labels that agree with the tags."""
    labels = torch.arange(inputs.n_labels, device=tags.device)
    allowed = (labels == tags[..., None]) | (tags == UNKNOWN)[..., None]
    if inputs.allowed is not None:
        allowed &= inputs.allowed.bool()
    return inputs._replace(allowed=allowed)


def _forward(gpu: GpuBatch) -> tuple[Tensor, Tensor, Tensor | None]:
    """Values, forward vectors and the status of the tags: is one no label, is one unknown."""
    n, count, batch = gpu.n_labels, gpu.chunks, gpu.batch
    vectors = gpu.room(gpu.positions, n)
    if gpu.empty:
        return gpu.zeros(gpu.sequences), vectors, None
    values, flags, shares = gpu.room(gpu.sequences), gpu.flags(), gpu.room(2, count, dtype=torch.float64)
    batch.vectors, batch.values, batch.scale = vectors.data_ptr(), values.data_ptr(), shares.data_ptr()
    batch.score = batch.scale + 8 * count
    if gpu.in_chunks:
        entries = gpu.room(count, n)
        batch.entries = entries.data_ptr()
        gpu.launch_chunks("chunk_past", count)
        gpu.launch_chunks("chunk_forward", count)
    gpu.launch("ordered", "ordered_forward", min(gpu.sequences, 1 << 20), gpu.threads)
    return values, vectors, flags[gpu.sequences :]


def _backward(gpu: GpuBatch, vectors: Tensor, factor: Tensor, sign: float) -> Gradient:
    n, count, batch = gpu.n_labels, gpu.chunks, gpu.batch
    gradient = (gpu.room if gpu.inputs.mask is None else gpu.zeros)(gpu.positions, n)
    edges = gpu.zeros(gpu.positions if gpu.inputs.edges is not None else 0, n, n)
    if gpu.empty:
        return Gradient(gradient, gpu.zeros(n, n), gpu.zeros(n), gpu.zeros(n), edges)
    pairs, first, last, flags = gpu.room(n, n), gpu.room(n), gpu.room(n), gpu.flags()
    blocks = gpu.ordered_blocks
    batch.sign, batch.warps = sign, min(count, _TABLES) if gpu.in_chunks else 0
    batch.table_count = batch.warps + blocks
    tables = gpu.zeros(batch.table_count, n + 2, n, dtype=torch.float64)
    factor = factor.to(gpu.dtype).contiguous()
    batch.vectors, batch.factor, batch.tables = vectors.data_ptr(), factor.data_ptr(), tables.data_ptr()
    batch.gradient, batch.edge_gradient = gradient.data_ptr(), edges.data_ptr() if edges.numel() else None
    batch.pairs, batch.first, batch.last = pairs.data_ptr(), first.data_ptr(), last.data_ptr()
    if gpu.in_chunks:
        posteriors = gpu.room(count, n)
        batch.posteriors = posteriors.data_ptr()
        gpu.launch_chunks("chunk_future", count)
        gpu.launch_chunks("chunk_backward", batch.warps)
    gpu.launch("ordered", "ordered_backward", blocks, -(-n // 32) * 32)
    gpu.launch("sums", "sum_tables", min((n + 2) * n, 1 << 16), 128)
    del flags
    return Gradient(gradient, pairs, first, last, edges)
