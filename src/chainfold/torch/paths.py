"""The best, the k best and drawn labellings of a batch, and their entropy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from chainfold.torch.arguments import Arguments, check_arguments
from torch import Tensor

if TYPE_CHECKING:
    from types import ModuleType


class Paths(NamedTuple):
    """Labellings, and their scores: one of each sequence (`CRF.best`), or several of one (`CRF.nbest`).

    >>> import torch
    >>> from chainfold.torch import CRF
    >>> CRF(3, batch_first=True).best(torch.randn(2, 4, 3)).scores.shape
    torch.Size([2])
    """

    labels: list[list[int]]
    scores: Tensor  # one a labelling


def best_paths(inputs: Arguments) -> Paths:
    """The best labelling of each sequence."""
    labels, scores = _backend(inputs).best(inputs)
    return Paths(labels, scores)


def ranked_paths(inputs: Arguments, k: int) -> list[Paths]:
    """The k best labellings of each sequence."""
    return [Paths(labels, scores) for labels, scores in _backend(inputs).ranked(inputs, k)]


def drawn_paths(inputs: Arguments, k: int, generator: torch.Generator | None) -> list[Tensor]:
    """k drawn labellings of each sequence, [k, length]."""
    drawn: list[Tensor] = _backend(inputs).drawn(inputs, k, generator)
    return drawn


def path_entropies(inputs: Arguments) -> Tensor:
    """[S] in nats."""
    entropies: Tensor = _backend(inputs).entropies(inputs)
    return entropies


def _backend(inputs: Arguments) -> ModuleType:
    check_arguments(inputs)
    if inputs.emissions.device.type == "cuda":
        from chainfold.torch import gpu_paths

        return gpu_paths
    from chainfold.torch import cpu_paths

    return cpu_paths
