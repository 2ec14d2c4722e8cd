"""CUDA tensors against CPU tensors; needs a card."""

from __future__ import annotations

import numpy as np
import pytest

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch import CRF

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA card here"),
]

SHAPES = [(2, 1, 1), (4, 7, 3), (32, 128, 9), (2, 700, 23), (3, 300, 32), (2, 60, 40)]
KINDS = ["plain", "mask", "forbidden", "strong", "cycle", "unknown", "edges", "nan"]


def setting(shape: tuple[int, int, int], kind: str) -> tuple[CRF, dict[str, torch.Tensor]]:
    torch.manual_seed(SHAPES.index(shape))
    size, length, n = shape
    forbid = [(i, (i + 1) % n) for i in range(n)] if kind == "forbidden" and n > 2 else []
    if kind == "cycle":
        forbid = [(i, j) for i in range(n) for j in range(n) if j != (i + 1) % n]
    module = CRF(n, batch_first=True, forbid=forbid).double()
    given = {"emissions": torch.randn(shape, dtype=torch.float64), "tags": torch.randint(n, (size, length))}
    if kind == "strong":
        module.transitions.data.mul_(500.0)
    if kind == "mask":
        given["mask"] = torch.rand(size, length) < 0.6
    if kind == "unknown":
        given["tags"][torch.rand(size, length) < 0.4] = -100
    if kind == "edges":
        given["edges"] = torch.randn(*shape, n, dtype=torch.float64)
    if kind == "nan":
        given["emissions"][0, length // 2] = torch.nan
    return module, given


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_likelihood_gradient_and_labels_are_those_of_the_host(shape: tuple[int, int, int], kind: str) -> None:
    module, given = setting(shape, kind)
    found = []
    for device in ("cpu", "cuda"):
        module.to(device).zero_grad()
        here = {name: tensor.to(device) for name, tensor in given.items()}
        here["emissions"].requires_grad_()
        values = module(**here, reduction="none")
        values[torch.isfinite(values)].sum().backward()
        gradients = [here["emissions"].grad, *(parameter.grad for parameter in module.parameters())]
        found.append([tensor.detach().cpu().numpy() for tensor in (values, *gradients) if tensor is not None])
        if kind != "nan":
            del here["tags"]
            found[-1].append(np.concatenate([np.array(x) for x in module.decode(**here)]))
    for host, card in zip(*found, strict=True):
        np.testing.assert_allclose(card, host, rtol=1e-9, atol=1e-9)


def test_bits_are_equal_from_run_to_run() -> None:
    module, given = setting((2, 700, 23), "plain")
    module.cuda()
    here = {name: tensor.cuda() for name, tensor in given.items()}
    here["emissions"].requires_grad_()
    found = []
    for _ in range(100):
        found.append(torch.autograd.grad(module(**here), [here["emissions"], module.transitions]))
    assert all(torch.equal(a, b) for run in found for a, b in zip(run, found[0], strict=True))


def test_what_is_for_the_host_says_so() -> None:
    module, given = setting((4, 7, 3), "plain")
    module.cuda()
    for method in (module.entropy, module.sample, lambda emissions: module.nbest(emissions, 2)):
        with pytest.raises(ChainfoldError, match="CPU tensors"):
            method(given["emissions"].cuda())
    with pytest.raises(ChainfoldError, match="the CRF is on cuda"):
        module(given["emissions"], given["tags"])
