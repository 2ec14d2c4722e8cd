"""The layer against the enumeration of all labellings, on small shapes with every kind of mask and constraint."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import torch
from batch_oracle import Batch, enumerate_batch
from chainfold.torch import CRF
from tolerances import ORACLE

SHAPES = [(1, 1, 1), (2, 1, 3), (2, 4, 1), (3, 3, 2), (2, 4, 3), (4, 5, 2)]
MASKS = ["none", "right", "left", "holes", "empty", "all masked"]
KINDS = ["plain", "forbidden", "wide", "edges", "unknown", "allowed"]


def batch_of(shape: tuple[int, int, int], mask: str, kind: str) -> Batch:
    rng = np.random.default_rng([*shape, MASKS.index(mask), KINDS.index(kind)])
    size, length, n = shape
    on = np.ones((size, length), bool)
    lengths = rng.integers(1, length + 1, size)
    if mask == "right":
        on = np.arange(length) < lengths[:, None]
    elif mask == "left":
        on = np.arange(length) >= length - lengths[:, None]
    elif mask == "holes":
        on = rng.random((size, length)) < 0.6
    elif mask == "empty":
        on[0] = False
    elif mask == "all masked":
        on[:] = False
    scale = 100.0 if kind == "wide" else 1.0
    batch = Batch(
        rng.normal(size=shape) * scale,
        rng.normal(size=(n, n)) * scale,
        rng.normal(size=n),
        rng.normal(size=n),
        on,
        rng.integers(n, size=(size, length)),
    )
    if kind == "forbidden" and n > 1:
        batch.transitions[0, 1] = batch.start[1] = -np.inf
    if kind == "edges":
        batch.edges = rng.normal(size=(*shape, n))
    if kind in ("unknown", "allowed"):
        batch.tags[rng.random((size, length)) < 0.5] = -100
    if kind == "allowed":
        batch.allowed = rng.random(shape) < 0.7
        known = batch.tags >= 0
        batch.allowed[known] |= np.arange(n) == batch.tags[known][:, None]
        batch.allowed[..., 0] |= ~batch.allowed.any(-1)
    return batch


def module_of(batch: Batch, batch_first: bool) -> CRF:
    module: CRF = CRF(batch.start.size, batch_first=batch_first).double()
    with torch.no_grad():
        module.transitions.copy_(torch.from_numpy(batch.transitions))
        module.start_transitions.copy_(torch.from_numpy(batch.start))
        module.end_transitions.copy_(torch.from_numpy(batch.end))
    return module


def turned(array: np.ndarray, batch_first: bool) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor if batch_first else tensor.transpose(0, 1).contiguous()


@pytest.mark.parametrize(("shape", "mask", "kind"), list(itertools.product(SHAPES, MASKS, KINDS)))
@pytest.mark.parametrize("batch_first", [True, False])
def test_everything_agrees_with_enumeration(
    shape: tuple[int, int, int], mask: str, kind: str, batch_first: bool
) -> None:
    batch = batch_of(shape, mask, kind)
    truth, module = enumerate_batch(batch), module_of(batch, batch_first)
    emissions, on = turned(batch.emissions, batch_first), turned(batch.mask, batch_first)
    edges = None if batch.edges is None else turned(batch.edges, batch_first)
    allowed = None if batch.allowed is None else turned(batch.allowed, batch_first)
    tags = turned(batch.tags, batch_first)

    def close(found: torch.Tensor, expected: list[float]) -> None:
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=ORACLE, atol=ORACLE * 100)

    close(module.log_partition(emissions, on, edges=edges), truth.log_z)
    likelihoods = module(emissions, tags, on, "none", edges=edges, allowed=allowed)
    close(likelihoods, truth.log_likelihood)
    if not np.isnan(truth.log_likelihood).any():
        close(module(emissions, tags, on, edges=edges, allowed=allowed), np.sum(truth.log_likelihood))
    marginals = module.marginals(emissions, on, edges=edges)
    marginals = marginals if batch_first else marginals.transpose(0, 1)
    np.testing.assert_allclose(marginals.numpy(), truth.marginals, rtol=ORACLE, atol=ORACLE)
    best = module.best(emissions, on, edges=edges)
    close(best.scores, [scores[0] for scores in truth.scores])
    assert [len(labels) for labels in best.labels] == batch.mask.sum(1).tolist()
    assert best.labels == truth.best  # scores are drawn from a continuum: there are no ties
    close(module.entropy(emissions, on, edges=edges), truth.entropy)
    for paths, scores in zip(module.nbest(emissions, 4, on, edges=edges), truth.scores, strict=True):
        close(paths.scores, scores[:4])
        assert len(paths.labels) == len(set(map(tuple, paths.labels))) == len(paths.scores)


@pytest.mark.parametrize("mask", ["none", "left", "holes", "empty"])
@pytest.mark.parametrize("shape", [(2, 1, 3), (3, 3, 2), (2, 4, 3)])
def test_what_is_not_allowed_has_no_probability_in_any_method(shape: tuple[int, int, int], mask: str) -> None:
    batch = batch_of(shape, mask, "allowed")
    assert batch.allowed is not None
    module, allowed = module_of(batch, True), torch.from_numpy(batch.allowed)
    emissions, on = torch.from_numpy(batch.emissions.copy()), torch.from_numpy(batch.mask)
    batch.emissions[~batch.allowed] = -np.inf
    truth = enumerate_batch(batch)
    for found, expected in (
        (module.log_partition(emissions, on, allowed=allowed), truth.log_z),
        (module.entropy(emissions, on, allowed=allowed), truth.entropy),
        (module.marginals(emissions, on, allowed=allowed), truth.marginals),
        (module.best(emissions, on, allowed=allowed).scores, [scores[0] for scores in truth.scores]),
    ):
        np.testing.assert_allclose(found.detach(), expected, rtol=ORACLE, atol=ORACLE)
    assert module.decode(emissions, on, allowed=allowed) == truth.best
    for paths, scores in zip(module.nbest(emissions, 3, on, allowed=allowed), truth.scores, strict=True):
        np.testing.assert_allclose(paths.scores, scores[:3], rtol=ORACLE, atol=ORACLE)
    labels = module.labels(emissions, on, allowed=allowed)
    assert [row[row >= 0].tolist() for row in labels] == truth.best
    assert bool((labels[~on] == -1).all())
    for s, drawn in enumerate(module.sample(emissions, 50, on, allowed=allowed)):
        assert bool(allowed[s, on[s]].expand(50, -1, -1).gather(2, drawn[..., None]).all())


@pytest.mark.parametrize("kind", ["plain", "forbidden", "edges", "wide"])
def test_drawn_labellings_have_the_frequencies_of_enumeration(kind: str) -> None:
    batch = batch_of((2, 4, 3), "holes", kind)
    truth, module = enumerate_batch(batch), module_of(batch, True)
    edges = None if batch.edges is None else torch.from_numpy(batch.edges)
    generator, count = torch.Generator().manual_seed(1), 20_000
    emissions, on = torch.from_numpy(batch.emissions), torch.from_numpy(batch.mask)
    for s, drawn in enumerate(module.sample(emissions, count, on, generator=generator, edges=edges)):
        places = np.flatnonzero(batch.mask[s])
        assert drawn.shape == (count, places.size)
        for k, place in enumerate(places):
            frequency = np.bincount(drawn[:, k], minlength=3) / count
            np.testing.assert_allclose(frequency, truth.marginals[s, place], atol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_agrees_with_enumeration_to_its_digits(kind: str) -> None:
    batch = batch_of((4, 5, 2), "holes", kind)
    for array in (batch.emissions, batch.transitions, batch.start, batch.end):
        array[:] = array.astype(np.float32)
    edges = None
    if batch.edges is not None:
        batch.edges = batch.edges.astype(np.float32).astype(np.float64)
        edges = torch.from_numpy(batch.edges).float()
    truth, module = enumerate_batch(batch), module_of(batch, True).float()
    emissions, on = torch.from_numpy(batch.emissions).float(), torch.from_numpy(batch.mask)
    np.testing.assert_allclose(module.log_partition(emissions, on, edges=edges).detach(), truth.log_z, rtol=1e-6)
    np.testing.assert_allclose(module.marginals(emissions, on, edges=edges), truth.marginals, atol=2e-6)
    assert module.decode(emissions, on, edges=edges) == truth.best


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_differences(kind: str) -> None:
    batch = batch_of((3, 4, 3), "holes", "edges" if kind == "edges" else kind)
    if kind == "wide":
        batch.emissions /= 30.0
        batch.transitions /= 30.0
    if kind == "forbidden":
        batch.transitions[0, 1], batch.start[1] = -0.5, 0.5  # differences need finite scores
    module = module_of(batch, True)
    mask, tags = torch.from_numpy(batch.mask), torch.from_numpy(batch.tags)
    allowed = None if batch.allowed is None else torch.from_numpy(batch.allowed)
    edges = None if batch.edges is None else torch.from_numpy(batch.edges).requires_grad_()
    leaves = [torch.from_numpy(batch.emissions).requires_grad_(), *module.scores(), edges]

    given = [leaf for leaf in leaves if leaf is not None]
    if edges is not None:
        assert torch.autograd.gradcheck(
            lambda *s: torch.ops.chainfold.crf(*s, mask, None, allowed, True, tags)[0], given
        )
    else:
        assert torch.autograd.gradcheck(
            lambda *s: torch.ops.chainfold.crf(*s, None, mask, None, allowed, True, tags)[0], given
        )
