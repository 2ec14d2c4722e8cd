"""Beside pytorch-crf and torch-struct, where they are installed: the same numbers, state and conventions."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import torch
from chainfold.torch import CRF


def peer(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peer itself
        return pytest.importorskip(name)


@pytest.mark.parametrize("batch_first", [True, False])
def test_pytorch_crf_has_the_same_state_and_results(batch_first: bool) -> None:
    torch.manual_seed(0)
    theirs = peer("torchcrf").CRF(5, batch_first=batch_first)
    ours = CRF(5, batch_first=batch_first)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    mask = torch.arange(7) < torch.tensor([7, 1, 4])[:, None]
    given = [torch.randn(3, 7, 5), torch.randint(5, (3, 7)), mask]
    emissions, tags, mask = (tensor if batch_first else tensor.transpose(0, 1) for tensor in given)
    emissions.requires_grad_()
    for reduction in ("sum", "mean", "token_mean", "none"):
        found, expected = (module(emissions, tags, mask, reduction) for module in (ours, theirs))
        assert torch.allclose(found, expected, rtol=1e-5)
        leaves = [emissions, *ours.parameters()], [emissions, *theirs.parameters()]
        both = (torch.autograd.grad(value.sum(), own) for value, own in zip((found, expected), leaves, strict=True))
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*both, strict=True))
    assert ours.decode(emissions, mask) == theirs.decode(emissions, mask)


@pytest.mark.filterwarnings("ignore")  # of the peer itself
def test_torch_struct_has_the_same_numbers_from_edges() -> None:
    torch.manual_seed(0)
    potentials = torch.randn(2, 5, 3, 3, requires_grad=True)  # [b, t, next, previous]
    dist = peer("torch_struct").LinearChainCRF(potentials)
    crf = CRF(3, batch_first=True)
    for parameter in crf.parameters():
        torch.nn.init.zeros_(parameter)
    edges = torch.zeros(2, 6, 3, 3)
    edges[:, 1:] = potentials.detach().transpose(2, 3)
    edges.requires_grad_()
    emissions = torch.zeros(2, 6, 3)
    log_z = crf.log_partition(emissions, edges=edges)
    assert torch.allclose(log_z, dist.partition, rtol=1e-5)
    (marginals,) = torch.autograd.grad(log_z.sum(), edges)
    assert torch.allclose(marginals[:, 1:].transpose(2, 3), dist.marginals, atol=1e-5)
    assert torch.allclose(crf.entropy(emissions, edges=edges), dist.entropy, rtol=1e-4)
    best = dist.argmax.nonzero()  # b, t, next, previous
    labels = torch.tensor(crf.decode(emissions, edges=edges))
    for sequence, t, after, before in best.tolist():
        assert labels[sequence, t : t + 2].tolist() == [before, after]
