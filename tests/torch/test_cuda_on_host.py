"""Every CUDA kernel, run on the host (`cuda_on_host`), against enumeration and against the numba kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import torch
from batch_oracle import Batch, enumerate_batch
from chainfold.torch import CRF, gpu, gpu_paths
from chainfold.torch.arguments import Arguments
from test_torch_oracle import KINDS, MASKS, batch_of, module_of, turned
from torch import Tensor

cuda_on_host = pytest.importorskip("cuda_on_host")
in_both_orders = cuda_on_host.in_both_orders

pytestmark = pytest.mark.skipif(cuda_on_host.GXX is None, reason="g++ is not installed, so CUDA kernels are not run")


def arguments_of(module: CRF, given: dict[str, Tensor | None]) -> Arguments:
    return module._inputs(
        given["emissions"], given.get("mask"), given.get("edges"), given.get("cu_seqlens"), given.get("allowed")
    )


def likelihood_on_card(
    module: CRF, given: dict[str, Tensor | None], tags: Tensor | None, weights: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """Values of the sequences, and the gradient of their sum."""
    with torch.no_grad():
        inputs = arguments_of(module, given)

        def compute() -> Any:
            values, vectors, known = gpu.log_likelihoods(inputs, tags, weights)
            factor = torch.ones_like(values)
            return values, list(gpu.gradients(inputs, tags, known, vectors, factor))

        values, gradient = in_both_orders(compute)
    return values, gradient


def likelihood_on_host(
    module: CRF, given: dict[str, Tensor | None], tags: Tensor | None, weights: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    inputs = arguments_of(module, given)
    leaves = [tensor.detach().double().requires_grad_() for tensor in inputs[:5] if tensor is not None]
    scores = [*leaves, None][:5]
    values, *_ = torch.ops.chainfold.crf(*scores, *inputs[5:], tags, weights)
    return values.detach(), list(torch.autograd.grad(values.sum(), leaves))


def assert_equal_to_host(
    module: CRF, given: dict[str, Tensor | None], tags: Tensor | None, tolerance: float, **options: Any
) -> None:
    values, gradient = likelihood_on_card(module, given, tags, **options)
    expected, gradient_on_host = likelihood_on_host(module, given, tags, **options)
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
    for card, host in zip(gradient, gradient_on_host, strict=False):
        np.testing.assert_allclose(card, host, rtol=tolerance, atol=tolerance * max(1.0, float(host.abs().max())))


@pytest.mark.parametrize(("mask", "kind"), list(itertools.product(MASKS, KINDS)))
@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 4, 1), (3, 4, 3)])
def test_small_batches_agree_with_enumeration(shape: tuple[int, int, int], mask: str, kind: str) -> None:
    batch = batch_of(shape, mask, kind)
    truth, batch_first = enumerate_batch(batch), kind != "plain"
    module = module_of(batch, batch_first)
    given = {
        name: None if array is None else turned(array, batch_first)
        for name, array in (
            ("emissions", batch.emissions),
            ("mask", batch.mask),
            ("edges", batch.edges),
            ("allowed", batch.allowed),
        )
    }
    values, _ = likelihood_on_card(module, given, turned(batch.tags, batch_first))
    np.testing.assert_allclose(values, truth.log_likelihood, rtol=1e-10, atol=1e-9)
    given["allowed"] = None
    values, gradient = likelihood_on_card(module, given, None)
    np.testing.assert_allclose(values, truth.log_z, rtol=1e-10, atol=1e-9)
    marginals = gradient[0] if batch_first else gradient[0].transpose(0, 1)
    np.testing.assert_allclose(marginals, truth.marginals, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        labels, scores = in_both_orders(lambda: gpu_paths.best(arguments_of(module, given)))
    assert labels == truth.best
    np.testing.assert_allclose(scores, [own[0] for own in truth.scores], rtol=1e-10, atol=1e-9)
