"""Arguments of every operation: a batch of emissions and the scores of transitions, checked once.

Emissions come padded, [B, T, N] or [T, B, N], with or without a mask, or packed, [P, N] with `cu_seqlens`. The chain of
a sequence is its unmasked positions, wherever they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from chainfold.errors import ChainfoldError
from torch import Tensor

UNKNOWN = -100
"""The tag of a position whose tag is unknown, as in torch's own losses."""


class Arguments(NamedTuple):
    """The arguments of every operation. Leading dimensions [...] are [B, T], [T, B] or, packed, [P]."""

    emissions: Tensor  # [..., N]
    transitions: Tensor  # [N, N]
    start: Tensor  # [N]
    end: Tensor  # [N]
    edges: Tensor | None  # [..., N, N] added to the transitions
    mask: Tensor | None  # [...]
    cu_seqlens: Tensor | None  # [S + 1] where the sequences of packed emissions begin and end
    allowed: Tensor | None  # [..., N] labels that a position may have
    batch_first: bool

    @property
    def n_labels(self) -> int:
        return int(self.emissions.shape[-1])

    @property
    def positions(self) -> int:
        """Rows of emissions, masked ones included."""
        return math.prod(self.emissions.shape[:-1])

    @property
    def n_sequences(self) -> int:
        if self.cu_seqlens is not None:
            count: int = self.cu_seqlens.shape[0] - 1
        else:
            count = self.emissions.shape[0 if self.batch_first else 1]
        return count

    @property
    def result_type(self) -> torch.dtype:
        """float64 for emissions in float64, else float32."""
        return torch.float64 if self.emissions.dtype == torch.float64 else torch.float32

    def place(self, row: int) -> str:
        """Place of a row of the flattened emissions, in words."""
        if self.cu_seqlens is not None:
            return f"row {row}"
        first, second = divmod(row, self.emissions.shape[1])
        sequence, position = (first, second) if self.batch_first else (second, first)
        return f"sequence {sequence}, position {position}"


def check_tensors(**given: object) -> None:
    """Raise `ChainfoldError` where something else than a tensor or None is given."""
    for name, value in given.items():
        if value is not None and not isinstance(value, Tensor):
            raise ChainfoldError(f"{name} must be a tensor, got {type(value).__name__}; use torch.as_tensor.")


def check_arguments(inputs: Arguments) -> None:
    """Raise `ChainfoldError` where shapes, types or devices do not fit."""
    emissions, cu_seqlens, n_labels = inputs.emissions, inputs.cu_seqlens, inputs.transitions.shape[0]
    dimensions, form = 3, "[batch, length, num_tags] or, time first, [length, batch, num_tags]"
    if cu_seqlens is not None:
        dimensions, form = 2, "packed, [positions, num_tags]"
    if emissions.dim() != dimensions:
        raise ChainfoldError(f"emissions must have dimension of {dimensions}, got {emissions.dim()}: give {form}.")
    if emissions.shape[-1] != n_labels:
        raise ChainfoldError(f"expected last dimension of emissions is {n_labels}, got {emissions.shape[-1]}.")
    if not emissions.dtype.is_floating_point:
        raise ChainfoldError(f"emissions have dtype {emissions.dtype}; give floating-point scores.")
    leading = emissions.shape[:-1]
    expected = {
        "mask": leading,
        "allowed": emissions.shape,
        "edges": (*leading, n_labels, n_labels),
        "cu_seqlens": None,
    }
    for name, shape in expected.items():
        tensor = getattr(inputs, name)
        if tensor is None:
            continue
        if shape is not None and tensor.shape != torch.Size(shape):
            raise ChainfoldError(
                f"the first two dimensions of emissions and {name} must match, got {tuple(leading)} and "
                f"{tuple(tensor.shape)}: {name} needs the shape {tuple(shape)}."
            )
        if tensor.device != emissions.device:
            raise ChainfoldError(f"{name} is on {tensor.device} and emissions are on {emissions.device}.")
    if inputs.transitions.device != emissions.device:
        raise ChainfoldError(
            f"the CRF is on {inputs.transitions.device} and emissions are on {emissions.device}; move one with `.to`."
        )
    if cu_seqlens is None:
        return
    if inputs.mask is not None:
        raise ChainfoldError("give either a mask or cu_seqlens, which says itself where sequences begin and end.")
    if cu_seqlens.dim() != 1 or cu_seqlens.shape[0] < 1 or cu_seqlens.dtype.is_floating_point:
        raise ChainfoldError(
            "cu_seqlens must be a vector of whole numbers, from 0 to the number of rows, got shape "
            f"{tuple(cu_seqlens.shape)} of {cu_seqlens.dtype}."
        )


def check_tags(inputs: Arguments, tags: Tensor | None) -> None:
    """Raise `ChainfoldError` where tags do not fit the emissions."""
    if tags is None:
        return
    leading = inputs.emissions.shape[:-1]
    if tags.shape != leading:
        raise ChainfoldError(
            f"the first two dimensions of emissions and tags must match, got {tuple(leading)} and {tuple(tags.shape)}."
        )
    if tags.dtype.is_floating_point or tags.dtype == torch.bool:
        raise ChainfoldError(f"tags have dtype {tags.dtype}; give label numbers.")
    if tags.device != inputs.emissions.device:
        raise ChainfoldError(f"tags are on {tags.device} and emissions are on {inputs.emissions.device}.")
