"""Checks of `chainfold.torch.CRF` on a device against `gpu_reference`: what has to hold on a card, without numba."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import torch
from chainfold.torch import CRF
from experiments.bench.gpu_reference import Expected, best, chain_of, expected

SHAPES = [(2, 1, 1), (4, 7, 3), (8, 128, 9), (2, 700, 23), (3, 300, 32), (2, 60, 40), (2, 700, 40), (2, 30, 130)]
KINDS = ["plain", "time first", "mask", "packed", "forbidden", "strong", "cycle", "unknown", "edges", "weak", "nan"]


class Check(NamedTuple):
    """A number that should be small; NaN is never small."""

    name: str
    error: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.error <= self.limit


def cases() -> list[tuple[tuple[int, int, int], str, bool]]:
    """Shapes, kinds, and whether the type is float64."""
    return [case for case in itertools.product(SHAPES, KINDS, (True, False)) if case[0][2] <= 40 or case[1] != "edges"]


def batch_of(shape: tuple[int, int, int], kind: str) -> dict[str, Any]:
    """Arrays [B, T, ...] whose numbers are floats."""
    rng = np.random.default_rng([*shape, KINDS.index(kind)])
    size, length, n = shape
    scale = {"strong": 50.0, "weak": 0.1}.get(kind, 1.0)
    batch: dict[str, Any] = {
        "emissions": rng.normal(size=shape),
        "transitions": rng.normal(size=(n, n)) * scale,
        "start": rng.normal(size=n),
        "end": rng.normal(size=n),
    }
    if kind == "edges":
        batch["edges"] = rng.normal(size=(*shape, n))
    batch = {name: array.astype(np.float32).astype(np.float64) for name, array in batch.items()}
    follows = (np.arange(n)[:, None] + 1) % n == np.arange(n)
    if kind == "forbidden" and n > 2:
        batch["transitions"][follows] = -np.inf
    if kind == "cycle":
        batch["transitions"][~follows] = -np.inf
    batch["tags"] = rng.integers(n, size=(size, length))
    if kind == "cycle":
        batch["tags"] = (batch["tags"][:, :1] + np.arange(length)) % n
    batch["mask"] = rng.random((size, length)) < (0.6 if kind == "mask" else 2.0)
    if kind == "packed":
        batch["mask"] = np.arange(length) < rng.integers(0, length + 1, size)[:, None]
    if kind == "unknown":
        batch["tags"][rng.random((size, length)) < 0.4] = -100
    if kind == "nan":
        batch["emissions"][0, length // 2] = np.nan
    return batch


def module_of(batch: dict[str, Any], kind: str, dtype: torch.dtype, device: str) -> CRF:
    n = batch["start"].size
    forbid = [(int(i), int(j)) for i, j in np.argwhere(np.isneginf(batch["transitions"]))]
    module: CRF = CRF(n, batch_first=kind != "time first", forbid=forbid)
    with torch.no_grad():
        finite = np.where(np.isneginf(batch["transitions"]), 0.0, batch["transitions"])
        module.transitions.copy_(torch.from_numpy(finite))
        module.start_transitions.copy_(torch.from_numpy(batch["start"]))
        module.end_transitions.copy_(torch.from_numpy(batch["end"]))
    moved: CRF = module.to(device, dtype)
    return moved


def arguments_of(batch: dict[str, Any], kind: str, dtype: torch.dtype, device: str) -> dict[str, torch.Tensor]:
    """Arguments of the module's forward."""
    names = ["emissions", "tags", *(["mask"] if kind == "mask" else []), *(["edges"] if kind == "edges" else [])]
    given = {name: torch.from_numpy(batch[name]) for name in names}
    if kind == "packed":
        given = {name: torch.from_numpy(batch[name][batch["mask"]]) for name in names}
        given["cu_seqlens"] = torch.from_numpy(np.append(0, batch["mask"].sum(1).cumsum()))
    if kind == "time first":
        given = {name: tensor.transpose(0, 1).contiguous() for name, tensor in given.items()}
    return {name: tensor.to(device, dtype if tensor.is_floating_point() else None) for name, tensor in given.items()}


def difference(found: Any, truth: Any) -> float:
    """The largest, relative to the largest number of the truth or one; the same places have to be no numbers."""
    a, b = np.asarray(found, np.float64), np.asarray(truth, np.float64)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    both = np.isfinite(a)
    scale = max(1.0, float(np.abs(b[both]).max(initial=0.0)))
    return float(np.abs(a[both] - b[both]).max(initial=0.0)) / scale


def check(shape: tuple[int, int, int], kind: str, double: bool, device: str) -> Iterator[Check]:
    """All checks of one setting."""
    dtype = torch.float64 if double else torch.float32
    batch = batch_of(shape, kind)
    places = [np.flatnonzero(mask) for mask in batch["mask"]]
    chains = [chain_of(batch, s, place) for s, place in enumerate(places)]
    free = [expected(chain) for chain in chains]
    bound = [expected(chain_of(batch, s, place, tags=True)) for s, place in enumerate(places)]
    module, given = module_of(batch, kind, dtype, device), arguments_of(batch, kind, dtype, device)
    given["emissions"].requires_grad_()
    values = module(**given, reduction="none")
    truth = np.array([one.log_z - other.log_z for one, other in zip(bound, free, strict=True)])
    name = f"{kind} {'x'.join(map(str, shape))} {'double' if double else 'float'}"
    size = 1e-10 if double else 1e-6 * max(1.0, max(abs(one.log_z) for one in free if np.isfinite(one.log_z)) ** 0.5)
    yield Check(f"{name}: likelihood", difference(values.detach().cpu(), truth), size)
    values[torch.isfinite(values)].sum().backward()
    gradient = given["emissions"].grad
    assert gradient is not None
    limit = 1e-10 if double else 2e-6
    yield Check(f"{name}: gradient", difference(gradient.cpu(), _gradient(batch, kind, free, bound, truth)), limit)
    yield from _of_parameters(name, module, batch, free, bound, truth, limit)
    if kind == "nan":
        return
    yield from _of_labels(name, module, given, chains, free, limit)


def _gradient(
    batch: dict[str, Any], kind: str, free: list[Expected], bound: list[Expected], values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    out: np.ndarray[Any, Any] = np.zeros(batch["emissions"].shape)
    on: np.ndarray[Any, Any] = batch["mask"]
    for s, value in enumerate(values):
        if not np.isneginf(value):  # a forbidden tag is left out of the sum
            out[s, on[s]] = bound[s].states - free[s].states if np.isfinite(value) else np.nan
    if kind == "packed":
        out = out[on]
    return out.transpose(1, 0, 2) if kind == "time first" else out


def _of_parameters(
    name: str,
    module: CRF,
    batch: dict[str, Any],
    free: list[Expected],
    bound: list[Expected],
    values: np.ndarray[Any, Any],
    limit: float,
) -> Iterator[Check]:
    if not np.isfinite(values).all():
        return
    present = [s for s in range(len(values)) if len(free[s].states)]
    zero = np.zeros(module.num_tags)
    pairs = sum((bound[s].edges.sum(0) - free[s].edges.sum(0) for s in present), np.zeros_like(batch["transitions"]))
    first = sum((bound[s].states[0] - free[s].states[0] for s in present), zero)
    last = sum((bound[s].states[-1] - free[s].states[-1] for s in present), zero)
    pairs = np.where(np.isneginf(batch["transitions"]), 0.0, pairs)
    for parameter, truth in (
        (module.transitions, pairs),
        (module.start_transitions, first),
        (module.end_transitions, last),
    ):
        found = parameter.grad
        assert found is not None
        yield Check(f"{name}: parameters", difference(found.cpu(), truth), limit * 10)


def _of_labels(
    name: str, module: CRF, given: dict[str, torch.Tensor], chains: list[Any], free: list[Expected], limit: float
) -> Iterator[Check]:
    given = {key: value.detach() for key, value in given.items() if key != "tags"}
    paths, truth = module.best(**given), [best(chain) for chain in chains]
    yield Check(f"{name}: best labels", float(paths.labels != [labels for labels, _ in truth]), 0.0)
    yield Check(f"{name}: best scores", difference(paths.scores.cpu(), [score for _, score in truth]), limit)
    entropies = [one.entropy for one in free]
    yield Check(f"{name}: entropies", difference(module.entropy(**given).cpu(), entropies), limit)
    ranked = module.nbest(k=3, **given)
    yield Check(f"{name}: the first of the k best", float([own.labels[0] for own in ranked] != paths.labels), 0.0)
    again = [module.sample(k=2, generator=torch.Generator().manual_seed(0), **given) for _ in range(2)]
    same = all(torch.equal(a, b) for a, b in zip(*again, strict=True))
    lengths = all(own.shape == (2, len(labels)) for own, (labels, _) in zip(again[0], truth, strict=True))
    yield Check(f"{name}: drawn labellings", float(not (same and lengths)), 0.0)


def in_new_threads(device: str) -> Iterator[Check]:
    """Threads whose first call is one of the layer: a backward pass of torch's own, and two of Python's."""
    module = CRF(3, batch_first=True).to(device)
    emissions = torch.randn(2, 5, 3, device=device, requires_grad=True)
    module(emissions, torch.zeros(2, 5, dtype=torch.long, device=device)).backward()  # nothing else is in its graph
    expected, found = module.log_partition(emissions).detach(), []
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append(module.log_partition(emissions).detach()))
        thread.start()
        thread.join()
    same = len(found) == 2 and all(torch.equal(expected, value) for value in found)
    yield Check("in new threads", float(not same), 0.0)


def machinery(device: str) -> Iterator[Check]:
    """The layer in torch's own machinery: derivatives by differences, compiled, in half precision, in pieces."""
    yield from in_new_threads(device)
    torch.manual_seed(0)
    module = CRF(4, batch_first=True, forbid=[(0, 1)]).to(device, torch.float64)
    emissions = torch.randn(3, 9, 4, dtype=torch.float64, device=device, requires_grad=True)
    edges = torch.randn(3, 9, 4, 4, dtype=torch.float64, device=device, requires_grad=True)
    tags = torch.randint(1, 4, (3, 9), device=device)
    mask = torch.rand(3, 9, device=device) < 0.7
    holds = torch.autograd.gradcheck(lambda e, p: module(e, tags, mask, edges=p), (emissions, edges))
    yield Check("derivatives by differences", float(not holds), 0.0)
    leaves = [emissions, *module.parameters()]
    plain = torch.autograd.grad(module(emissions, tags, mask), leaves)
    whole = torch.compile(lambda e: module(e, tags, mask), fullgraph=True, backend="aot_eager")
    compiled = torch.autograd.grad(whole(emissions), leaves)
    yield Check("compiled", float(not all(torch.equal(a, b) for a, b in zip(plain, compiled, strict=True))), 0.0)
    single = module.float()
    half = emissions.detach().to(torch.bfloat16)
    given, exact = single(half, tags, mask), single(half.float(), tags, mask)
    yield Check("half precision", difference(given.detach().cpu(), exact.detach().cpu()), 0.0)
    yield from _in_pieces(device)


def _in_pieces(device: str) -> Iterator[Check]:
    torch.manual_seed(1)
    module = CRF(5).to(device, torch.float64)
    emissions = torch.randn(5000, 5, dtype=torch.float64, device=device)
    tags = torch.randint(5, (5000,), device=device)
    leaf = emissions.clone().requires_grad_()
    module(leaf[:, None], tags[:, None]).backward()
    whole = [leaf.grad, *(parameter.grad for parameter in module.parameters())]
    module.zero_grad()
    pieces = [piece.clone().requires_grad_() for piece in emissions.split(700)]
    total = sum(part.log_likelihood for part in module.stream(zip(pieces, tags.split(700), strict=True), scale=1.0))
    found = [torch.cat([piece.grad for piece in pieces]), *(parameter.grad for parameter in module.parameters())]
    exact = float(module(emissions[:, None], tags[:, None]).detach())
    yield Check("in pieces: likelihood", abs(float(total) / exact - 1.0), 1e-12)
    for a, b in zip(found, whole, strict=True):
        assert a is not None
        assert b is not None
        yield Check("in pieces: gradient", difference(a.cpu(), b.cpu()), 1e-10)
