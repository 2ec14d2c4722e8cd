"""A batch as the kernels of `chainfold.cuda` take it, and how it is cut into chunks and launched."""

from __future__ import annotations

import ctypes

import numpy as np

import torch
from chainfold.cuda.launch import CHUNK_LABELS, SHARED_LABELS, WARPS, CardBatch, kernels_for
from chainfold.errors import BadSetting
from chainfold.torch.arguments import Arguments
from torch import Tensor

_WHOLE, _WHOLE_WITH_EDGES = 512, 128  # positions of a sequence that is one chunk
_CHUNK, _LONG_CHUNK = 128, 1024  # positions of a chunk of longer ones; at most, in a long batch
_HALO = 64  # positions that a block begins early
_ROUNDS = 6  # of blocks: all chunks, repairs, and the last check
_LONG = 1 << 20  # positions of a batch whose chunks are long
_GROUP, _LONG_GROUP = 32, 512  # positions of a group whose counts or shares are added in order
TABLES = 3168  # warps with tables of their own, whatever the card: 12 a multiprocessor of an H200, twice
_COUNT_BLOCKS = 512  # blocks with tables of their own, at most
_COUNT_BYTES = 128 << 20  # of their tables

_SHORT = ("sums", "chunk_forward", "chunk_backward")  # files of kernels
_BORDERS = ("chunk_past", "chunk_future")
_IN_ORDER = ("sums", "ordered", "counts")


class GpuBatch:
    """A batch as kernels take it. The tensors that it points into live as long as it does."""

    def __init__(self, inputs: Arguments, tags: Tensor | None = None, gradient: Tensor | None = None) -> None:
        """tags: all of them known. gradient: room for it; its masked rows are set to zero."""
        emissions = inputs.emissions
        self.inputs, self.device, self.dtype = inputs, emissions.device, inputs.result_type
        self.n_labels, self.sequences, self.positions = inputs.n_labels, inputs.n_sequences, inputs.positions
        edges = inputs.edges is not None
        self.kernels = kernels_for(self.device.index or 0, self.n_labels, self.dtype == torch.float64, edges)
        self.stream = self.kernels.stream()
        self.length = 0  # of the longest sequence
        self.by_warps = self.n_labels <= CHUNK_LABELS
        self._alive: list[Tensor] = []
        self.batch = batch = CardBatch()
        self._address = ctypes.c_void_p(ctypes.addressof(batch))
        self._argument = ctypes.addressof(self._address)
        if inputs.allowed is not None:
            emissions = emissions.masked_fill(~inputs.allowed.bool(), -torch.inf)
        batch.emissions, batch.transitions = self._numbers(emissions), self._numbers(inputs.transitions)
        batch.start, batch.end = self._numbers(inputs.start), self._numbers(inputs.end)
        if inputs.edges is not None:
            batch.edges = self._numbers(inputs.edges)
        if tags is not None:
            batch.tags = self._keep(tags.long())
        if gradient is not None:
            batch.gradient = gradient.data_ptr()
        batch.sequences = self.sequences
        longest = 0 if inputs.cu_seqlens is None else self._pack(inputs.cu_seqlens)
        if not self.empty:
            self._place(longest)

    def _place(self, longest: int) -> None:
        """Set the places of positions and of chunks. longest: positions of the longest packed sequence."""
        inputs, batch = self.inputs, self.batch
        if inputs.cu_seqlens is None:
            first, second = inputs.emissions.shape[:2]
            longest = second if inputs.batch_first else first
            batch.row_sequence, batch.row_position = (longest, 1) if inputs.batch_first else (1, self.sequences)
        self.length = longest
        batch.length, batch.whole = longest, longest <= (_WHOLE if inputs.edges is None else _WHOLE_WITH_EDGES)
        long_batch = self.positions > _LONG
        batch.group = _LONG_GROUP if long_batch else _GROUP
        batch.chunk = longest if batch.whole else self._long_chunk() if long_batch else _CHUNK
        batch.halo, batch.rounds = _HALO, _ROUNDS
        self.chunks = self.sequences if batch.whole else self.parts(batch.chunk)
        if inputs.mask is not None:
            batch.mask = self._keep(inputs.mask.bool())
            batch.index = self.space(self.sequences, longest, dtype=torch.int64)
            batch.lengths = self.space(self.sequences, dtype=torch.int64)
            self.launch_warps("unmasked_rows", self.sequences)

    def _long_chunk(self) -> int:
        """Positions of a chunk, so that all warps with tables have equally many."""
        rounds = -(-self.positions // (TABLES * _LONG_CHUNK))
        return -(-self.positions // (TABLES * rounds))

    def parts(self, most: int) -> int:
        """The number of parts of at most `most` positions; `all_parts` of batch.cuh."""
        if self.batch.packed:
            return self.sequences + self.positions // most
        return self.sequences * -(-int(self.batch.length) // most)

    def _pack(self, cu_seqlens: Tensor) -> int:
        """The length of the longest sequence; raises where the numbers do not fit."""
        offsets = cu_seqlens.cpu().numpy().astype(np.int64)
        lengths = np.diff(offsets)
        if offsets[0] != 0 or offsets[-1] != self.positions or (lengths < 0).any():
            raise BadSetting(
                "cu_seqlens", offsets, f"from 0 to {self.positions}, the number of rows, in ascending order"
            )
        self.batch.packed = self._keep(cu_seqlens.long())
        return int(lengths.max(initial=0))

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
    def in_chunks(self) -> bool:
        """Whether long sequences are cut into chunks, or short ones done by warps"""
        return self.by_warps or not self.batch.whole

    @property
    def count_blocks(self) -> int:
        """Blocks with tables of their own."""
        table = 8 * (self.n_labels + 2) * self.n_labels
        return max(1, min(self.parts(self.batch.group), _COUNT_BLOCKS, _COUNT_BYTES // table))

    def prepare(self) -> None:
        """Begin to compile what a likelihood and its gradient take."""
        if not self.by_warps:
            self.kernels.prepare((*_IN_ORDER, "blocks") if self.in_chunks else _IN_ORDER)
        else:
            self.kernels.prepare(_SHORT if self.batch.whole else (*_SHORT, *_IN_ORDER, *_BORDERS))

    def launch(self, name: str, blocks: int, threads: int) -> None:
        self.kernels.launch(name, blocks, threads, self.stream, self._argument)

    def launch_labels(self, name: str, blocks: int, threads: int = 0) -> None:
        """A kernel with a thread for each label, which may need the matrix of transitions."""
        if self.n_labels > SHARED_LABELS and not self.batch.matrix and not self.batch.edges:
            self.batch.matrix = self.space(2, self.n_labels, self.n_labels, dtype=torch.float64)
            self.launch("edge_matrix", min(32, -(-(self.n_labels**2) // 1024)), 256)
        self.launch(name, blocks, threads or self.label_threads)

    def launch_rounds(self, name: str) -> None:
        """A kernel that goes through all chunks by blocks, and again where they do not agree."""
        self.batch.borders = self.space(3, self.chunks, self.n_labels, dtype=torch.float64)
        for number in range(_ROUNDS):
            self.batch.round = number
            self.launch_labels(name, self.chunks)

    def launch_warps(self, name: str, warps: int) -> None:
        """A kernel whose warps work on their own."""
        self.kernels.launch(name, -(-warps // WARPS), 32 * WARPS, self.stream, self._argument)

    def room(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor without values."""
        return self.inputs.emissions.new_empty(shape, dtype=dtype or self.dtype)

    def space(self, *shape: int, dtype: torch.dtype | None = None) -> int:
        """The address of a tensor without values that lives as long as the batch."""
        return self._keep(self.room(*shape, dtype=dtype))

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)

    def flags(self) -> Tensor | None:
        """[S] zeros where sequences have several chunks, room where they have one, None where all are done in order."""
        if not self.in_chunks:
            return None
        flags = (self.room if self.batch.whole else self.zeros)(self.sequences, dtype=torch.int32)
        self.batch.flag = self._keep(flags)
        return flags

    def _numbers(self, tensor: Tensor) -> int:
        return self._keep(tensor if tensor.dtype == self.dtype else tensor.to(self.dtype))

    def _keep(self, tensor: Tensor) -> int:
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        self._alive.append(tensor)
        return int(tensor.data_ptr())
