"""The layer and the functions of arrays have the same numbers."""

from __future__ import annotations

import numpy as np

import torch
from chainfold import arrays
from chainfold.torch import CRF
from chainfold.torch.arguments import UNKNOWN

LENGTHS = np.array([7, 1, 0, 12, 5])


def test_the_layer_for_torch_has_the_same_numbers() -> None:
    n = 5
    random = np.random.default_rng(n)
    scores = random.normal(size=(LENGTHS.size, LENGTHS.max(), n))
    others = random.normal(size=(n, n)), random.normal(size=n), random.normal(size=n)
    labels = random.integers(0, n, scores.shape[:2])
    labels[random.random(labels.shape) < 0.2] = -1
    mask = torch.from_numpy(np.arange(LENGTHS.max()) < LENGTHS[:, None])
    layer = CRF(n, batch_first=True).double()
    with torch.no_grad():
        for parameter, array in zip(
            (layer.transitions, layer.start_transitions, layer.end_transitions), others, strict=True
        ):
            parameter.copy_(torch.from_numpy(array))
    emissions = torch.from_numpy(scores.copy()).requires_grad_()
    tags = torch.from_numpy(np.where(labels < 0, UNKNOWN, labels))
    likelihood = layer(emissions, tags, mask, reduction="none")
    likelihood.sum().backward()
    result = arrays.log_likelihood(scores, labels, *others, LENGTHS)
    np.testing.assert_array_equal(likelihood.detach().numpy(), result.log_likelihood)
    found = (emissions, layer.transitions, layer.start_transitions, layer.end_transitions)
    for tensor, gradient in zip(found, result[1:], strict=True):
        assert tensor.grad is not None
        np.testing.assert_array_equal(tensor.grad.numpy(), gradient)
    found_labels = layer.labels(emissions, mask).numpy()
    np.testing.assert_array_equal(found_labels, arrays.viterbi(scores, *others, LENGTHS).labels)
