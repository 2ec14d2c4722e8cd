"""Exact training in pieces: the gradient of the whole sequence, and at most two graphs alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch import CRF

LENGTH, LABELS = 600, 4


def setting(seed: int = 0) -> tuple[torch.nn.Linear, CRF, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    encoder, module = torch.nn.Linear(3, LABELS).double(), CRF(LABELS).double()
    with torch.no_grad():
        module.transitions.mul_(10.0)
    return encoder, module, torch.randn(LENGTH, 3, dtype=torch.float64), torch.randint(LABELS, (LENGTH,))


def gradients(*modules: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.grad.clone() for module in modules for parameter in module.parameters()]


@pytest.mark.parametrize(
    ("size", "dtype"), [(7, torch.int64), (64, torch.uint8), (200, torch.int32), (600, torch.int8)]
)
def test_pieces_have_the_gradient_of_the_whole(size: int, dtype: torch.dtype) -> None:
    encoder, module, x, y = setting()
    loss = -module(encoder(x)[:, None], y[:, None])
    loss.backward()
    expected = gradients(encoder, module)
    encoder.zero_grad()
    module.zero_grad()
    pieces = ((encoder(x[at : at + size]), y[at : at + size].to(dtype)) for at in range(0, LENGTH, size))
    parts = list(module.stream(pieces))
    assert sum(part.positions for part in parts) == LENGTH
    assert abs(sum(part.log_likelihood for part in parts) + float(loss.detach())) < 1e-9
    for found, wanted in zip(gradients(encoder, module), expected, strict=True):
        assert (found - wanted).abs().max() < 1e-10 * max(1.0, float(wanted.abs().max()))


def test_a_chain_that_never_forgets_waits_for_its_end_and_is_exact() -> None:
    encoder, module, x, y = setting()
    module = CRF(LABELS, forbid=[(i, j) for i in range(LABELS) for j in range(LABELS) if i != j]).double()
    y[:] = 2
    (-module(encoder(x)[:, None], y[:, None])).backward()
    expected = gradients(encoder, module)
    encoder.zero_grad()
    module.zero_grad()
    list(module.stream((encoder(x[at : at + 150]), y[at : at + 150]) for at in range(0, LENGTH, 150)))
    for found, wanted in zip(gradients(encoder, module), expected, strict=True):
        assert (found - wanted).abs().max() < 1e-9 * max(1.0, float(wanted.abs().max()))


def test_what_the_past_makes_improbable_the_future_may_bring_back() -> None:
    module = CRF(3, forbid=[(i, j) for i in range(3) for j in range(3) if i != j]).double()
    x, y = torch.randn(300, 3, dtype=torch.float64), torch.full((300,), 1)
    x[:100, 0] += 10.0  # e^1000 for label 0
    x[100:, 1] += 8.0  # e^1600 for label 1
    x.requires_grad_()
    value = module(x[:, None], y[:, None])
    (-value).backward()
    expected = [x.grad.clone(), *gradients(module)]
    x.grad = None
    module.zero_grad()
    parts = list(module.stream((x[at : at + 100], y[at : at + 100]) for at in range(0, 300, 100)))
    assert abs(sum(part.log_likelihood for part in parts) - float(value.detach())) < 1e-9
    for found, wanted in zip([x.grad, *gradients(module)], expected, strict=True):
        assert (found - wanted).abs().max() < 1e-9


def test_the_graphs_of_two_pieces_are_alive_at_most() -> None:
    encoder, module, x, y = setting()
    made: list[weakref.ref[torch.Tensor]] = []

    def pieces() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for at in range(0, LENGTH, 100):
            emissions = encoder(x[at : at + 100])
            made.append(weakref.ref(emissions))
            yield emissions, y[at : at + 100]
            del emissions
            gc.collect()
            assert sum(kept() is not None for kept in made) <= 2

    assert len(list(module.stream(pieces()))) == LENGTH // 100


def test_scores_that_are_not_numbers_and_unknown_tags_are_errors() -> None:
    encoder, module, x, y = setting()
    with pytest.raises(ChainfoldError, match="not numbers"):
        list(module.stream([(encoder(x * torch.nan), y)]))
    with pytest.raises(ChainfoldError, match="all tags must be known"):
        list(module.stream([(encoder(x), y - 100)]))
