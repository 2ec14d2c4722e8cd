"""Long sequences on the host: cut into stretches or not, the numbers are the same, for any number of threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import torch
from chainfold.engines import emissions
from chainfold.torch import CRF
from chainfold.torch.cpu import batch_of
from tolerances import AT_LENGTH

LENGTH = 40_000
KINDS = ["plain", "forbidden", "cycle", "never", "sharp", "holes", "packed", "allowed", "unknown", "wide", "nan"]
HOLD = {"plain", "forbidden", "holes", "allowed"}
FAIL = {"cycle", "never", "sharp"}


def setting(kind: str, n: int) -> tuple[CRF, dict[str, torch.Tensor]]:
    torch.manual_seed(KINDS.index(kind))
    forbid = {
        "forbidden": [(i, (i + 1) % n) for i in range(n)],
        "cycle": [(i, j) for i in range(n) for j in range(n) if j != (i + 1) % n],
        "never": [(i, j) for i in range(n) for j in range(n) if i != j],
    }
    module = CRF(n, batch_first=True, forbid=forbid.get(kind, [])).double()
    size = (2, LENGTH)
    given = {"emissions": torch.randn(*size, n, dtype=torch.float64), "tags": torch.randint(n, size)}
    with torch.no_grad():
        module.transitions.mul_(10.0)
    if kind == "sharp":  # it forgets, but more slowly than the halo allows
        module.transitions.data.add_(12.0 * torch.eye(n, dtype=torch.float64))
    elif kind == "holes":
        given["mask"] = torch.rand(size) < 0.7
    elif kind == "packed":
        given = {"emissions": given["emissions"].flatten(0, 1), "tags": given["tags"].flatten()}
        given["cu_seqlens"] = torch.tensor([0, 7, 7, 60_000, 60_010, 80_000])
    elif kind == "allowed":
        given["tags"][:] = -100
        given["allowed"] = torch.rand(*size, n) < 0.6
        given["allowed"][..., 0] = True
    elif kind == "unknown":
        given["tags"][torch.rand(size) < 0.5] = -100
    elif kind == "wide":
        given["emissions"][0, 30_000:30_020] *= 1e4
        module.transitions.data[0, 1] = -math.inf  # so that the range of forward vectors matters
    elif kind == "nan":
        given["emissions"][0, LENGTH // 2, 1] = math.nan
    return module, given


def results(module: CRF, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    module.zero_grad()
    emissions = given["emissions"].clone().requires_grad_()
    values = module(**given | {"emissions": emissions}, reduction="none")
    values.sum().backward()
    return [values.detach(), emissions.grad, *(parameter.grad.clone() for parameter in module.parameters())]


@pytest.mark.parametrize("n", [2, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_cut_or_not_the_numbers_are_the_same(kind: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module, given = setting(kind, n)
    cut = results(module, given)
    monkeypatch.setattr(emissions, "_MOST_PARTS", 1)
    whole = results(module, given)
    for found, expected in zip(cut, whole, strict=True):
        largest = float(expected.nan_to_num(0.0, 0.0, 0.0).abs().max())
        np.testing.assert_allclose(found, expected, rtol=AT_LENGTH, atol=AT_LENGTH * max(1.0, largest))


@pytest.mark.parametrize("kind", sorted(HOLD | FAIL))
def test_which_cuts_hold(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[int, list[tuple[int, int]]] = {0: [], 1: []}  # on the way forward, and back
    inner = emissions._cut

    def watched(batch: emissions.EmissionBatch, find: object, earlier: int) -> tuple[emissions.Parts, np.ndarray]:
        parts, vectors = inner(batch, find, earlier)  # type: ignore[arg-type]
        held[earlier].append((parts.inner.size, batch.layout.parts.inner.size))
        return parts, vectors

    monkeypatch.setattr(emissions, "_cut", watched)
    results(*setting(kind, 4))
    for counts in held.values():
        assert counts
        for count, tried in counts:
            assert tried >= 6
            assert count == tried if kind in HOLD else count < tried


def test_the_bits_of_long_sequences_are_the_same_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    module, given = setting("plain", 5)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(results(module, given))
    assert all(torch.equal(a, b) for run in found for a, b in zip(run, found[0], strict=True))


def test_cuts_lie_where_lengths_say() -> None:
    emissions = torch.zeros(3, 70_000, 2)
    module, mask = CRF(2, batch_first=True), torch.ones(3, 70_000, dtype=torch.bool)
    mask[1, 100:], mask[2, 9000:] = False, False
    parts = batch_of(module._inputs(emissions, mask)).layout.parts
    assert parts.sequence is not None
    assert np.bincount(parts.sequence).tolist() == [16, 1, 2]
    assert np.diff(parts.cuts).tolist() == [4375] * 16 + [100, 4500, 4500]
    assert parts.without(np.array([1, 18])).cuts.tolist() == np.delete(parts.cuts, [1, 18]).tolist()
