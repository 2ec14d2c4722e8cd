"""Log likelihoods of a batch and their gradients on CUDA; `chainfold.cuda` has the kernels.

Up to 32 labels, a warp works on a chunk of a sequence, and what surrounds the chunk is certified; short sequences are
one chunk. A sequence for which that fails, transitions that do not fit into the range of the type, more labels, and
edges of positions' own are done in order. The host waits for the card once, to learn whether all tags are labels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import numpy as np

import torch
from chainfold.cuda.launch import CHUNK_LABELS, SHARED_LABELS, WARPS, Batch, kernels_for
from chainfold.errors import BadSetting, ChainfoldError
from chainfold.torch.arguments import UNKNOWN, Arguments
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

_WHOLE = 512  # positions of a sequence that is one chunk
_CHUNK, _LONG_CHUNK = 128, 512  # positions of a chunk of longer ones
_LONG = 1 << 20  # positions of a batch whose chunks are long
_GROUP = 32  # positions of a warp in the kernels of entropies and weights
_TABLES = 3168  # warps with tables of their own, whatever the card: 12 a multiprocessor of an H200, twice
_ORDERED_BLOCKS = 128
_ORDERED_BYTES = 128 << 20  # of the tables of blocks

UNKNOWN_TAGS, KNOWN, IN_NUMBERS = 0, 1, 2
"""What is known after the forward pass: nothing of the tags; they are labels; and all vectors are numbers as well."""


class GpuBatch:
    """A batch as kernels take it. The tensors that it points into live as long as it does."""

    def __init__(self, inputs: Arguments, tags: Tensor | None = None, gradient: Tensor | None = None) -> None:
        """tags: all of them known. gradient: room for it; its masked rows are set to zero."""
        emissions = inputs.emissions
        self.inputs, self.device, self.dtype = inputs, emissions.device, inputs.result_type
        self.n_labels, self.sequences, self.positions = inputs.n_labels, inputs.n_sequences, inputs.positions
        self.kernels = kernels_for(self.device.index or 0, self.n_labels, self.dtype == torch.float64)
        self.stream = self.kernels.stream()
        self.in_chunks = self.n_labels <= CHUNK_LABELS and inputs.edges is None
        self._alive: list[Tensor] = []
        self.batch = batch = Batch()
        self._address = ctypes.c_void_p(ctypes.addressof(batch))
        self._argument = ctypes.addressof(self._address)
        batch.emissions, batch.transitions = self._numbers(emissions), self._numbers(inputs.transitions)
        batch.start, batch.end = self._numbers(inputs.start), self._numbers(inputs.end)
        if inputs.edges is not None:
            batch.edges = self._numbers(inputs.edges)
        if inputs.allowed is not None:
            batch.allowed = self._keep(inputs.allowed.bool())
        if tags is not None:
            batch.tags = self._keep(tags.long())
        if gradient is not None:
            batch.gradient = gradient.data_ptr()
        batch.sequences = self.sequences
        if not self.empty:
            self._place()

    def _place(self) -> None:
        """Where the positions are, and where chunks begin."""
        inputs, batch = self.inputs, self.batch
        if inputs.cu_seqlens is not None:
            longest = self._pack(inputs.cu_seqlens)
            batch.length = self.positions
        else:
            first, second = inputs.emissions.shape[:2]
            longest = batch.length = second if inputs.batch_first else first
            batch.row_sequence, batch.row_position = (longest, 1) if inputs.batch_first else (1, self.sequences)
        self.whole = longest <= _WHOLE
        batch.whole = self.whole
        batch.chunk = longest if self.whole else _LONG_CHUNK if self.positions > _LONG else _CHUNK
        self.chunks = self.sequences
        if not self.whole and batch.packed:
            self.chunks += self.positions // batch.chunk
        elif not self.whole:
            self.chunks *= -(-longest // batch.chunk)
        if inputs.mask is not None:
            batch.mask = self._keep(inputs.mask.bool())
            batch.index = self._keep(self.room(self.sequences, longest, dtype=torch.int64))
            batch.lengths = self._keep(self.room(self.sequences, dtype=torch.int64))
            self.launch_warps("unmasked_rows", self.sequences)

    def _pack(self, cu_seqlens: Tensor) -> int:
        """The length of the longest sequence; raises where the numbers do not fit."""
        offsets = cu_seqlens.cpu().numpy()
        lengths = np.diff(offsets)
        if offsets[0] != 0 or offsets[-1] != self.positions or (lengths < 0).any():
            raise BadSetting(
                "cu_seqlens", offsets, f"from 0 to {self.positions}, the number of rows, in ascending order"
            )
        self.batch.packed = self._keep(cu_seqlens.long())
        return int(lengths.max())

    @property
    def empty(self) -> bool:
        return self.sequences == 0 or self.positions == 0

    @property
    def label_threads(self) -> int:
        """A thread for each label."""
        return -(-self.n_labels // 32) * 32

    @property
    def threads(self) -> int:
        """A thread for each label; more of them where the shares of many chunks are added."""
        shares: int = min(512, self.chunks // max(self.sequences, 1) // 4)
        return max(self.label_threads, -(-shares // 32) * 32)

    @property
    def ordered_blocks(self) -> int:
        table = 8 * (self.n_labels + 2) * self.n_labels
        return max(1, min(self.sequences, _ORDERED_BLOCKS, _ORDERED_BYTES // table))

    def launch(self, name: str, blocks: int, threads: int) -> None:
        self.kernels.launch(name, blocks, threads, self.stream, self._argument)

    def launch_ordered(self, name: str, blocks: int, threads: int) -> None:
        """A kernel that does sequences in order."""
        if self.n_labels > SHARED_LABELS and not self.batch.matrix:
            self.batch.matrix = self._keep(self.room(2, self.n_labels, self.n_labels, dtype=torch.float64))
            self.launch("edge_matrix", min(32, -(-(self.n_labels**2) // 1024)), 256)
        self.launch(name, blocks, threads)

    def launch_warps(self, name: str, warps: int) -> None:
        """A kernel whose warps work on their own."""
        self.kernels.launch(name, -(-warps // WARPS), 32 * WARPS, self.stream, self._argument)

    def room(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor without values."""
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    def weigh(self, weights: Tensor) -> None:
        """Give the positions weights; then they are done in order."""
        self.batch.weights = self._keep(weights.detach().double())
        self.in_chunks = False

    def flags(self) -> Tensor | None:
        """[S] zeros where sequences have several chunks, room where they have one, None where all are done in order."""
        if not self.in_chunks:
            return None
        flags = (self.room if self.whole else self.zeros)(self.sequences, dtype=torch.int32)
        self.batch.flag = flags.data_ptr()
        return flags

    def _numbers(self, tensor: Tensor) -> int:
        return self._keep(tensor if tensor.dtype == self.dtype else tensor.to(self.dtype))

    def _keep(self, tensor: Tensor) -> int:
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        self._alive.append(tensor)
        return int(tensor.data_ptr())


class Gradient(NamedTuple):
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
def log_likelihoods(inputs: Arguments, tags: Tensor | None, weights: Tensor | None) -> tuple[Tensor, Tensor, int]:
    """[S] log likelihoods, or log Z without tags; the forward vectors; what is known of the tags and the vectors."""
    if tags is None:
        return (*_forward(GpuBatch(inputs))[:2], KNOWN)
    if weights is not None:
        return _weighted(inputs, tags, weights)
    values, vectors, (wrong, unknown, flagged) = _forward(GpuBatch(inputs._replace(allowed=None), tags))
    if wrong:
        _raise_tag(inputs, tags)
    if not unknown and inputs.allowed is None:
        return values, vectors, KNOWN if flagged else IN_NUMBERS
    log_z, vectors, _ = _forward(GpuBatch(inputs._replace(allowed=None)))
    return _forward(GpuBatch(_allowing(inputs, tags)))[0] - log_z, vectors, UNKNOWN_TAGS


@on_its_card
def gradients(
    inputs: Arguments, tags: Tensor | None, known: int, weights: Tensor | None, vectors: Tensor, factor: Tensor
) -> tuple[Tensor, ...]:
    """The gradient of Σ_s factor[s] · (log likelihood of sequence s, or its log Z without tags)."""
    if tags is None:
        parts = _backward(inputs, None, vectors, factor, 1.0)
    elif weights is not None:
        parts = _backward(inputs._replace(allowed=None), tags, vectors, factor, -1.0, weights=weights)
    elif known:
        parts = _backward(inputs, tags, vectors, factor, -1.0, known == KNOWN)
    else:
        parts = _backward(inputs._replace(allowed=None), None, vectors, factor, -1.0)
        partial = _allowing(inputs, tags)
        again = _backward(partial, None, _forward(GpuBatch(partial))[1], factor, 1.0)
        parts = Gradient(*(one + other for one, other in zip(parts, again, strict=True)))
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
    """The same batch with the labels that agree with the tags."""
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
    values, _flags, shares = gpu.room(count), gpu.flags(), None
    batch.vectors, batch.values = vectors.data_ptr(), values.data_ptr()
    status = gpu.kernels.status() if batch.tags else None
    if status is not None:
        status.numbers[:] = 0
        batch.status = status.pointer
    if gpu.in_chunks and not gpu.whole:
        shares, entries = gpu.room(2, gpu.chunks, dtype=torch.float64), gpu.room(gpu.chunks, n)
        batch.scale, batch.score = shares.data_ptr(), shares.data_ptr() + 8 * gpu.chunks
        batch.entries = entries.data_ptr()
        gpu.launch_warps("chunk_past", gpu.chunks)
    if gpu.in_chunks:
        gpu.launch_warps("chunk_forward", gpu.chunks)
    complete = gpu.in_chunks and gpu.whole and status is not None  # unless the status says otherwise
    if not complete:
        gpu.launch_ordered("ordered_forward", min(count, 1 << 20), gpu.threads)
    if status is None:
        return values, vectors, [0, 0, 0]
    gpu.kernels.wait(gpu.stream)
    numbers: list[int] = status.numbers.tolist()
    if complete and numbers[2]:
        gpu.launch_ordered("ordered_forward", min(count, 1 << 20), gpu.threads)
    return values, vectors, numbers if complete else [*numbers[:2], 1]


def posteriors_of(inputs: Arguments, vectors: Tensor) -> Tensor:
    """The posterior of every label at every position, in the shape of the emissions."""
    factor = torch.ones(1, dtype=inputs.result_type, device=inputs.emissions.device).expand(inputs.n_sequences)
    return _backward(inputs, None, vectors, factor, 1.0).emissions


def shares_of(gpu: GpuBatch, name: str) -> Tensor:
    """[S] the sums of a kernel's shares of groups of positions."""
    groups = -(-gpu.batch.length // _GROUP)
    shares = gpu.room(gpu.sequences, groups, dtype=torch.float64)
    gpu.batch.scale = shares.data_ptr()
    gpu.launch_warps(name, shares.numel())
    return shares.sum(1)


def _weighted(inputs: Arguments, tags: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, int]:
    """[S] Σ_t w_t log p(y_t | y_{t+1}, x up to t) of each sequence."""
    if not bool(((weights >= 0.0) & (weights < torch.inf)).all()):
        raise ChainfoldError("weights must be finite numbers from 0 up.")
    known, inputs = inputs.allowed is None, inputs._replace(allowed=None)
    log_z, vectors, _ = _forward(GpuBatch(inputs))
    gpu = GpuBatch(inputs, tags)
    if gpu.empty:
        return log_z, vectors, KNOWN
    status = gpu.kernels.status()
    status.numbers[:] = 0
    gpu.batch.status, gpu.batch.vectors = status.pointer, vectors.data_ptr()
    gpu.weigh(weights)
    values = shares_of(gpu, "weighted")
    gpu.kernels.wait(gpu.stream)
    wrong, unknown, _ = status.numbers.tolist()
    if wrong:
        _raise_tag(inputs, tags)
    if unknown or not known:
        raise ChainfoldError("weights require known tags: remove `weights`, or tags of -100 and `allowed`.")
    impossible = torch.where(log_z.isfinite(), 0.0, torch.nan)
    return (values + impossible).to(gpu.dtype), vectors, KNOWN


def _backward(
    inputs: Arguments,
    tags: Tensor | None,
    vectors: Tensor,
    factor: Tensor,
    sign: float,
    flagged: bool = True,
    weights: Tensor | None = None,
) -> Gradient:
    """flagged: may some sequence have a flag? With weights, all are done in order."""
    emissions, n, dtype = inputs.emissions, inputs.n_labels, inputs.result_type
    gradient = torch.empty(emissions.shape, dtype=dtype, device=emissions.device)
    gpu = GpuBatch(inputs, tags, gradient)
    if weights is not None:
        gpu.weigh(weights)
    edges = gpu.room(0) if inputs.edges is None else gpu.zeros(*inputs.edges.shape)
    if gpu.empty:
        return Gradient(gradient, gpu.zeros(n, n), gpu.zeros(n), gpu.zeros(n), edges)
    pairs, first, last, _flags, batch = (
        gpu.room(n, n),
        gpu.room(n),
        gpu.room(n),
        gpu.flags() if flagged else None,
        gpu.batch,
    )
    blocks = gpu.ordered_blocks if flagged else 0
    batch.sign, batch.warps = sign, min(gpu.chunks, _TABLES) if gpu.in_chunks else 0
    batch.table_count = batch.warps + blocks
    tables = gpu.room(batch.table_count, n + 2, n, dtype=torch.float64)
    if factor.dtype != dtype:
        factor = factor.to(dtype)
    batch.factor, batch.factor_step = factor.data_ptr(), factor.stride(0)
    batch.vectors, batch.tables = vectors.data_ptr(), tables.data_ptr()
    batch.edge_gradient = edges.data_ptr() if edges.numel() else None
    batch.pairs, batch.first, batch.last = pairs.data_ptr(), first.data_ptr(), last.data_ptr()
    if gpu.in_chunks and not gpu.whole:
        posteriors = gpu.room(gpu.chunks, n)
        batch.posteriors = posteriors.data_ptr()
        gpu.launch_warps("chunk_future", gpu.chunks)
    if gpu.in_chunks:
        gpu.launch_warps("chunk_backward", batch.warps)
    if blocks:
        gpu.launch_ordered("ordered_backward", blocks, gpu.label_threads)
    gpu.launch("sum_tables", -(-(n + 2) * n // 32), 32 * min(32, batch.table_count))
    return Gradient(gradient, pairs, first, last, edges)
