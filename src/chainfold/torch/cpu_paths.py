"""Labellings of a batch on the host (`inference.emission_paths`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import torch
from chainfold.engines.emissions import EmissionBatch
from chainfold.errors import ChainfoldError, ScoreNotFinite, ZeroProbability
from chainfold.inference import emission_paths
from chainfold.model.layout import Floats
from chainfold.torch.arguments import Arguments
from chainfold.torch.cpu import batch_of
from torch import Tensor


def best(inputs: Arguments) -> tuple[list[list[int]], Tensor]:
    """The best labelling of each sequence and its score."""
    with _batch(inputs) as batch:
        labels, score = emission_paths.best(batch)
    return [part.tolist() for part in _split(batch, labels)], _tensor(inputs, score)


def ranked(inputs: Arguments, k: int) -> list[tuple[list[list[int]], Tensor]]:
    """The k best labellings of each sequence and their scores."""
    with _batch(inputs) as batch:
        found = emission_paths.ranked(batch, k)
    return [(labels.tolist(), _tensor(inputs, scores)) for labels, scores in found]


def drawn(inputs: Arguments, k: int, generator: torch.Generator | None) -> list[Tensor]:
    """k labellings of each sequence, drawn from their distribution."""
    with _batch(inputs) as batch:
        uniforms = torch.rand((batch.positions, k), generator=generator, dtype=torch.float64).numpy()
        labels = emission_paths.drawn(batch, uniforms) if batch.positions else np.zeros((0, k), np.int32)
    return [torch.from_numpy(part.copy()) for part in _split(batch, labels.T.astype(np.int64))]


def entropies(inputs: Arguments) -> Tensor:
    """[S] the entropy of each sequence's labelling."""
    with _batch(inputs) as batch:
        lengths = batch.layout.lengths
        return _tensor(inputs, emission_paths.entropies(batch) if batch.positions else np.zeros(lengths.size))


@contextmanager
def _batch(inputs: Arguments) -> Iterator[EmissionBatch]:
    """The arrays of a batch; positions in errors become places in its tensors."""
    batch = batch_of(inputs)
    try:
        yield batch
    except (ScoreNotFinite, ZeroProbability) as error:
        place = inputs.place(int(batch.layout.rows[error.position]))
        if isinstance(error, ScoreNotFinite):
            raise ChainfoldError(f"a score is NaN or +inf at {place}: labels need scores below +inf.") from error
        raise ChainfoldError(
            f"no labelling is possible: constraints or scores of -inf forbid every label at {place}; allow a label or "
            "a transition."
        ) from error


def _split(batch: EmissionBatch, values: NDArray[Any]) -> list[NDArray[Any]]:
    """[..., P] for each sequence."""
    return np.split(values, batch.layout.offsets[1:-1], axis=-1) if batch.layout.lengths.size else []


def _tensor(inputs: Arguments, values: Floats) -> Tensor:
    return torch.from_numpy(values).to(inputs.result_type)
