"""Answers of the PyTorch layer on the host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from freeze.answers import Answers
from freeze.samples import Sample

_SHAPES = {"one": (1, 1, 1), "few": (3, 9, 2), "batch": (16, 40, 9), "tags": (4, 300, 23), "many": (2, 60, 70)}
_SINGLE = 2e-6  # of the largest number: what emissions in float32 give


def answer(answers: Answers, samples: Mapping[str, Sample], folder: Path) -> None:
    """Add losses, gradients and labellings."""
    for name, shape in _SHAPES.items():
        for dtype, tolerance in (("float64", 1e-12), ("float32", _SINGLE)):
            _one(answers, f"layer/{name}/{dtype}", shape, dtype, tolerance)
    _one(answers, "layer/long/float64", (1, 20_000, 5), "float64", 1e-12)
    _stream(answers)


def _one(answers: Answers, name: str, shape: tuple[int, int, int], dtype: str, tolerance: float) -> None:
    import torch
    from chainfold.torch import CRF

    batch, length, n = shape
    random = np.random.default_rng([batch, length, n])
    kind = getattr(torch, dtype)
    model = CRF(n, batch_first=True).to(kind)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(random.normal(size=tuple(parameter.shape))))
    emissions = torch.from_numpy(random.normal(0.0, 2.0, shape)).to(kind).requires_grad_()
    tags = torch.from_numpy(random.integers(0, n, (batch, length)))
    lengths = random.integers(1, length + 1, batch)
    lengths[0] = length
    mask = torch.from_numpy(np.arange(length) < lengths[:, None])
    for reduction in ("sum", "mean", "token_mean", "none"):
        value = model(emissions, tags, mask, reduction=reduction)
        answers.close(f"{name}/{reduction}", value.detach().numpy(), tolerance)
    (-model(emissions, tags, mask)).backward()
    assert emissions.grad is not None
    answers.close(f"{name}/emissions.grad", emissions.grad.numpy(), tolerance)
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None
        answers.close(f"{name}/{key}.grad", parameter.grad.numpy(), tolerance)
    with torch.no_grad():
        answers.exact(f"{name}/decode", model.decode(emissions, mask))
        answers.close(f"{name}/marginals", model.marginals(emissions, mask).numpy(), tolerance)
        answers.close(f"{name}/log_partition", model.log_partition(emissions, mask).numpy(), tolerance)
        answers.close(f"{name}/entropy", model.entropy(emissions, mask).numpy(), max(tolerance, 1e-11))
        if length <= 100:
            ranked = model.nbest(emissions, 3, mask)
            answers.exact(f"{name}/nbest", [paths.labels for paths in ranked])
        generator = torch.Generator().manual_seed(5)
        drawn = model.sample(emissions, 2, mask, generator=generator)
        answers.exact(f"{name}/sample", [labels.tolist() for labels in drawn])


def _stream(answers: Answers) -> None:
    import torch
    from chainfold.torch import CRF

    random = np.random.default_rng(7)
    model = CRF(4).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(random.normal(size=tuple(parameter.shape))))
    pieces = [
        (torch.from_numpy(random.normal(size=(500, 4))).requires_grad_(), torch.from_numpy(random.integers(0, 4, 500)))
        for _ in range(4)
    ]
    parts = list(model.stream(iter(pieces)))
    answers.close("layer/stream/log_likelihood", [part.log_likelihood for part in parts], 1e-11)
    assert model.transitions.grad is not None
    answers.close("layer/stream/transitions.grad", model.transitions.grad.numpy(), 1e-11)
