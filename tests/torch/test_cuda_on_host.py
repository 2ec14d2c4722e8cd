"""Every CUDA kernel, run on the host (`cuda_on_host`), against enumeration and against the core."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import torch
from batch_oracle import Batch, enumerate_batch
from chainfold.errors import ChainfoldError
from chainfold.torch import CRF, gpu, gpu_batch, gpu_paths
from chainfold.torch.arguments import Arguments
from experiments.bench.gpu_checks import cases, check
from experiments.bench.gpu_reference import Chain, expected
from torch import Tensor

cuda_on_host, small = pytest.importorskip("cuda_on_host"), pytest.importorskip("test_torch_oracle")
in_both_orders = cuda_on_host.in_both_orders

pytestmark = pytest.mark.skipif(cuda_on_host.GXX is None, reason="g++ is not installed, so CUDA kernels are not run")


def arguments_of(module: CRF, given: dict[str, Tensor | None]) -> Arguments:
    return module._inputs(
        given["emissions"], given.get("mask"), given.get("edges"), given.get("cu_seqlens"), given.get("allowed")
    )


def likelihood_on_card(
    module: CRF, given: dict[str, Tensor | None], tags: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """Values of the sequences, and the gradient of their sum."""
    with torch.no_grad():
        inputs = arguments_of(module, given)

        def compute() -> Any:
            values, vectors, known = gpu.log_likelihoods(inputs, tags)
            factor = torch.ones_like(values)
            return values, list(gpu.gradients(inputs, tags, known, vectors, factor))

        values, gradient = in_both_orders(compute)
    return values, gradient


def likelihood_on_host(
    module: CRF, given: dict[str, Tensor | None], tags: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    inputs = arguments_of(module, given)
    leaves = [tensor.detach().double().requires_grad_() for tensor in inputs[:5] if tensor is not None]
    scores = [*leaves, None][:5]
    values, *_ = torch.ops.chainfold.crf(*scores, *inputs[5:], tags)
    return values.detach(), list(torch.autograd.grad(values.sum(), leaves))


def assert_equal_to_host(module: CRF, given: dict[str, Tensor | None], tags: Tensor | None, tolerance: float) -> None:
    values, gradient = likelihood_on_card(module, given, tags)
    expected, gradient_on_host = likelihood_on_host(module, given, tags)
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
    for card, host in zip(gradient, gradient_on_host, strict=False):
        np.testing.assert_allclose(card, host, rtol=tolerance, atol=tolerance * max(1.0, float(host.abs().max())))


@pytest.mark.parametrize(("mask", "kind"), list(itertools.product(small.MASKS, small.KINDS)))
@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 4, 1), (3, 4, 3)])
def test_small_batches_agree_with_enumeration(shape: tuple[int, int, int], mask: str, kind: str) -> None:
    batch: Batch = small.batch_of(shape, mask, kind)
    truth, batch_first = enumerate_batch(batch), kind != "plain"
    module = small.module_of(batch, batch_first)
    given = {
        name: None if array is None else small.turned(array, batch_first)
        for name, array in (
            ("emissions", batch.emissions),
            ("mask", batch.mask),
            ("edges", batch.edges),
            ("allowed", batch.allowed),
        )
    }
    values, _ = likelihood_on_card(module, given, small.turned(batch.tags, batch_first))
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


LONG = [  # sequences, positions, labels; float64; most positions of one chunk; positions of a chunk
    (2, 60, 3, True, 512, 128),
    (2, 60, 3, True, 8, 16),
    (4, 150, 2, True, 8, 16),
    (3, 70, 23, True, 8, 32),
    (2, 40, 32, False, 8, 16),
    (2, 90, 5, False, 8, 16),
    (1, 700, 9, False, 512, 128),
    (2, 20, 33, True, 512, 128),
    (1, 130, 33, True, 8, 16),
    (2, 70, 66, False, 8, 32),
    (2, 14, 70, False, 512, 128),
    (1, 3, 300, False, 512, 128),
    (2, 5, 1, False, 512, 128),
]
SETTINGS = [
    *("plain", "time first", "mask", "packed", "forbidden", "strong", "cycle", "unknown", "edges", "nan", "none"),
    *("strong and packed", "allowed", "walls", "walls of edges"),
]


def setting(shape: tuple[int, int, int], double: bool, kind: str) -> tuple[CRF, dict[str, Tensor], Tensor]:
    """A module, what is given to it beside tags, and the tags."""
    torch.manual_seed(SETTINGS.index(kind))
    size, length, n = shape
    dtype = torch.float64 if double else torch.float32
    forbid = [(i, (i + 1) % n) for i in range(n)] if kind == "forbidden" and n > 2 else []
    if kind == "cycle":
        forbid = [(i, j) for i in range(n) for j in range(n) if j != (i + 1) % n]
    module: CRF = CRF(n, batch_first=kind != "time first", forbid=forbid).to(dtype)
    module.transitions.data.mul_(20.0)
    given, tags = {"emissions": torch.randn(shape, dtype=dtype)}, torch.randint(n, (size, length))
    if "strong" in kind:
        module.transitions.data.mul_(50.0)
    if kind == "mask":
        given["mask"] = torch.rand(size, length) < 0.6
    if "packed" in kind:
        given = {"emissions": given["emissions"].reshape(-1, n)}
        given["cu_seqlens"] = torch.tensor([0, 0, size * length // 3, size * length // 3 + 1, size * length])
        tags = tags.reshape(-1)
    if kind == "unknown":
        tags[torch.rand(size, length) < 0.4] = -100
    if kind == "allowed":
        given["allowed"] = (torch.rand(shape) < 0.5) | (torch.arange(n) == tags[..., None])
        tags[:] = -100
    if kind == "walls":  # what other libraries write for forbidden transitions
        module.transitions.data[torch.rand(n, n) < 0.3] = -1e4
    if "edges" in kind:
        given["edges"] = torch.randn(*shape, n, dtype=dtype)
    if kind == "walls of edges":
        given["edges"][torch.rand(*shape, n) < 0.2] = -1e9
        given["edges"][torch.rand(*shape, n) < 0.2] = -torch.inf
        given["edges"][..., torch.arange(n), torch.arange(n)] = 0.0
    if kind == "nan":
        given["emissions"][0, length // 2] = torch.nan
    if kind == "none":
        given["emissions"][-1, length // 2] = -torch.inf
    if kind == "time first":
        given = {name: tensor.transpose(0, 1).contiguous() for name, tensor in given.items()}
        tags = tags.T.contiguous()
    return module, given, tags


def cut(monkeypatch: pytest.MonkeyPatch, whole: int, chunk: int) -> None:
    """Sequences of more than `whole` positions have chunks of `chunk`."""
    for name, value in (("_WHOLE", whole), ("_WHOLE_WITH_EDGES", whole), ("_CHUNK", chunk), ("_HALO", chunk // 2)):
        monkeypatch.setattr(gpu_batch, name, value)


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, kind) for case in LONG for kind in (SETTINGS if case[2] < 300 else ["plain"])],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_likelihood_gradient_and_labels_are_those_of_the_host(
    case: tuple[Any, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *shape, double, whole, chunk = case
    cut(monkeypatch, whole, chunk)
    module, given, tags = setting(tuple(shape), double, kind)
    tolerance = 1e-10 if double else 2e-6
    assert_equal_to_host(module, given, tags, tolerance)
    assert_equal_to_host(module, given, None, tolerance)
    if kind in ("nan", "none"):
        return
    for name, value in (("_IN_ORDER", whole), ("_LEAST_CHUNK", chunk), ("_MOST_CHUNKS", 5)):
        monkeypatch.setattr(gpu_paths, name, value)
    with torch.no_grad():
        labels, scores = in_both_orders(lambda: gpu_paths.best(arguments_of(module, given)))
    best = module.best(**given)
    np.testing.assert_allclose(scores, best.scores, rtol=tolerance)
    assert labels == best.labels
    np.testing.assert_array_equal(in_both_orders(lambda: module.labels(**given)), module.labels(**given))


@pytest.mark.parametrize(("n", "double"), [(2, False), (3, False), (5, False), (3, True), (34, False)])
@pytest.mark.parametrize("kind", ["plain", "forbidden", "edges", "walls of edges"])
@pytest.mark.parametrize("chunk", [12, 4])
def test_steep_scores_keep_their_digits(
    n: int, double: bool, kind: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that leave the range of a type, on the way or in the kept vectors, are noticed."""
    cut(monkeypatch, chunk, chunk)
    torch.manual_seed(n)
    dtype = torch.float64 if double else torch.float32
    for slope in (5.0, 30.0, 60.0, 200.0) if n < 30 else (30.0, 60.0):
        module: CRF = CRF(n, batch_first=True, forbid=[(0, n - 1)] if kind == "forbidden" else []).to(dtype)
        emissions = torch.randn(60, 12, n).sign() * slope * (1.0 + 0.02 * torch.rand(60, 12, n))
        given = {"emissions": emissions.to(dtype)}
        shape = (60, 12, n, n) if "edges" in kind else (n, n)
        steep = (249.0 if double else 29.9) * torch.randn(shape).sign() * (1.0 - 0.02 * torch.rand(shape))
        if "walls" in kind:
            steep[(torch.rand(shape) < 0.4) & ~torch.eye(n, dtype=torch.bool)] = -torch.inf
        if "edges" in kind:
            given["edges"] = steep.to(dtype)
        else:
            module.transitions.data = steep.to(dtype)
        assert_equal_to_host(module, given, None, 1e-9 if double else 2e-5)


@pytest.mark.parametrize("n", [3, 34])
@pytest.mark.parametrize("kind", ["plain", "edges"])
@pytest.mark.parametrize("whole", [64, 4])
def test_vanishing_transitions_are_not_forbidden(
    n: int, kind: str, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """exp(-1e4) is zero in numbers, but where all else is forbidden, such a transition is certain."""
    cut(monkeypatch, whole, 8)
    module, given, _ = setting((2, 30, n), False, kind)
    with torch.no_grad():
        scores = given["edges"] if kind == "edges" else module.transitions
        scores[..., 1] = -1e4  # into label 1
    given["emissions"][:, 17] = -torch.inf
    given["emissions"][:, 17, 1] = 0.0
    assert_equal_to_host(module, given, None, 2e-6)


@pytest.mark.parametrize("kind", ["plain", "edges"])
@pytest.mark.parametrize("whole", [64, 4])
def test_large_scores_keep_their_digits(kind: str, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that all labels of a position share does not round their differences away."""
    cut(monkeypatch, whole, 8)
    module, given, _ = setting((2, 30, 3), False, kind)
    scores = given["edges" if kind == "edges" else "emissions"]
    scores += 1e4 * torch.randn(2, 30, *(1,) * (scores.dim() - 2))
    values, gradient = likelihood_on_card(module, given, None)
    expected, on_host = likelihood_on_host(module, given, None)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    for card, host in zip(gradient, on_host, strict=False):
        np.testing.assert_allclose(card, host, rtol=2e-6, atol=2e-6 * max(1.0, float(host.abs().max())))


@pytest.mark.parametrize(("n", "score", "slope"), [(3, -130.0, -10.0), (34, -1000.0, -40.0)])
@pytest.mark.parametrize("kind", ["plain", "edges"])
@pytest.mark.parametrize("whole", [64, 4])
def test_vanishing_transitions_may_decide_later(
    n: int, score: float, slope: float, kind: str, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Label 2 is reached by way of one transition whose exp is zero in numbers, and wins in the end."""
    cut(monkeypatch, whole, 8)
    scores = torch.full((n, n), -torch.inf)
    scores[0, 0] = scores[1, 2] = scores[2, 2] = 0.0
    scores[0, 1] = score
    forbidden = [] if kind == "edges" else [(int(i), int(j)) for i, j in torch.isinf(scores).nonzero()]
    module: CRF = CRF(n, batch_first=True, forbid=forbidden, forbid_start=range(1, n))
    emissions = torch.full((1, 40, n), -torch.inf)
    emissions[..., :3] = 0.0
    emissions[:, 5:, 0] = slope
    given: dict[str, Tensor | None] = {"emissions": emissions}
    with torch.no_grad():
        if kind == "edges":
            given["edges"] = scores.expand(1, 40, n, n).contiguous()
        else:
            module.transitions.copy_(scores.clamp(min=score))
    assert_equal_to_host(module, given, None, 1e-4)  # logarithms in the hundreds are kept as floats


def labels_in_chunks(module: CRF, given: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    for name, value in (("_IN_ORDER", 8), ("_LEAST_CHUNK", 16)):
        monkeypatch.setattr(gpu_paths, name, value)
    with cuda_on_host.card_on_host():
        labels = module.decode(**given)
        assert "best_between" in cuda_on_host.HostKernels.launches[-4:]
    return labels


@pytest.mark.parametrize("kind", ["plain", "mask", "packed", "forbidden"])
def test_of_equal_labellings_chunks_choose_the_one_of_the_host(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, given, _ = setting((3, 90, 4), False, kind)
    with torch.no_grad():
        for scores in (module.transitions, module.start_transitions, module.end_transitions, given["emissions"]):
            scores.copy_(torch.randint(0, 2, scores.shape))  # sums of whole numbers are exact
    assert labels_in_chunks(module, given, monkeypatch) == module.decode(**given)


@pytest.mark.parametrize(("position", "value", "says"), [(70, torch.nan, "is NaN"), (33, -torch.inf, "no possible")])
def test_chunks_name_what_cannot_be_labelled(
    position: int, value: float, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, given, _ = setting((3, 90, 4), False, "plain")
    given["emissions"][1, position] = value
    given["emissions"][1, 80] = -torch.inf
    with pytest.raises(ChainfoldError, match=f"sequence 1 .*{says}"):
        labels_in_chunks(module, given, monkeypatch)


def test_transitions_that_cannot_be_counted_are_zero() -> None:
    """alpha v may leave the range of a float where exp(transition) is zero: nothing is counted there."""
    module: CRF = CRF(32, batch_first=True)
    others = torch.arange(32) != 1
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module.transitions[1, others] = module.transitions[others, 1] = -1e4
    for first, then in itertools.product((66.0, 68.0, 69.0, 69.5, 70.0), ((9.0, 12.0), (10.0, 12.0), (9.0, 24.0))):
        emissions = torch.zeros(1, 28, 32)
        emissions[0, 1, 1] = -first
        emissions[0, 7] = -then[1] * others
        emissions[0, 8:28] = -then[0] * others
        with cuda_on_host.card_on_host():
            value = module(emissions, torch.ones(1, 28, dtype=torch.long))
            (gradient,) = torch.autograd.grad(value, [module.transitions])
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("length", [12, 60])
def test_labels_of_scores_beyond_the_range_of_a_float(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_IN_ORDER", 16), ("_LEAST_CHUNK", 16)):
        monkeypatch.setattr(gpu_paths, name, value)
    module, given, _ = setting((2, length, 3), True, "plain")
    for scale in (1e39, -1e39):
        large = {"emissions": scale * given["emissions"].abs()}
        with cuda_on_host.card_on_host():
            labels = module.decode(**large)
        assert labels == module.decode(**large)


def test_flagged_sequences_with_unknown_tags_are_not_done_twice() -> None:
    """Nobody would wait for what they write into the host's memory."""
    module, given, tags = setting((2, 30, 3), False, "strong")
    tags[0, 0] = -100
    with cuda_on_host.card_on_host():
        cuda_on_host.HostKernels.launches.clear()
        module(given["emissions"], tags)
    assert cuda_on_host.HostKernels.launches[:2] == ["chunk_forward", "chunk_forward"]


@pytest.mark.parametrize(
    ("offsets", "rows"), [([0], 4), ([0, 5], 0), (torch.tensor([0, 3, 1, 4], dtype=torch.uint8), 4)], ids=str
)
def test_offsets_that_do_not_fit_are_refused(offsets: Any, rows: int) -> None:
    module, _, _ = setting((2, 5, 3), False, "plain")
    with cuda_on_host.card_on_host(), pytest.raises(ChainfoldError, match="cu_seqlens"):
        module.log_partition(torch.randn(rows, 3), cu_seqlens=torch.as_tensor(offsets))


def flags_of(
    case: tuple[int, int, int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
    """Forward vectors, the flags after each pass, and what is given to the module."""
    module, given, tags = setting(case, True, kind)
    kept: list[Tensor | None] = []
    flags = gpu_batch.GpuBatch.flags

    def watched(self: gpu_batch.GpuBatch) -> Tensor | None:
        kept.append(flags(self))
        return kept[-1]

    monkeypatch.setattr(gpu_batch.GpuBatch, "flags", watched)
    with torch.no_grad(), cuda_on_host.card_on_host():
        inputs = arguments_of(module, given)
        values, vectors, known = gpu.log_likelihoods(inputs, tags)
        gpu.gradients(inputs, tags, known, vectors, torch.ones_like(values))
        return vectors, [flags.clone() for flags in kept if flags is not None], given


@pytest.mark.parametrize(
    ("case", "whole"),
    [((2, 60, 3), 512), ((2, 45, 3), 8), ((2, 30, 33), 512), ((2, 60, 33), 8), ((2, 14, 70), 512), ((2, 40, 70), 8)],
)
@pytest.mark.parametrize("kind", ["plain", "mask", "packed", "forbidden", "edges", "walls"])
def test_ordinary_batches_are_done_in_numbers_and_in_chunks(
    case: tuple[int, int, int], whole: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fallback would be right as well, but slow."""
    cut(monkeypatch, whole, 16)
    vectors, kept, given = flags_of(case, kind, monkeypatch)
    in_chunks = whole == 8 or case[2] <= 32
    assert bool(kept) == in_chunks
    assert not any(bool(flags.any()) for flags in kept)
    used = case[0] * case[1] if "mask" not in given else int(given["mask"][0].sum())
    assert bool((vectors[:used] > 0.0).any(1).all())
    assert bool((vectors[:used] >= 0.0).all())


@pytest.mark.parametrize("n", [33, 40])
def test_chunks_of_blocks_that_do_not_agree_are_repaired(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halos that are too short: without rounds of repair, the sequences would be done in order."""
    cut(monkeypatch, 8, 16)
    for rounds in (2, 6):
        monkeypatch.setattr(gpu_batch, "_ROUNDS", rounds)
        _, kept, _ = flags_of((2, 45, n), "edges", monkeypatch)
        assert [flags.tolist() for flags in kept] == [[int(rounds == 2)] * 2] * 2


OTHERS = ["plain", "time first", "mask", "packed", "forbidden", "strong", "edges"]


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("case", [(2, 12, 3, True), (2, 40, 33, True), (3, 30, 5, False)], ids=str)
def test_entropies_and_ranked_labellings_are_those_of_the_host(case: tuple[Any, ...], kind: str) -> None:
    *shape, double = case
    module, given, _ = setting(tuple(shape), double, kind)
    tolerance = 1e-10 if double else 2e-6
    entropy = in_both_orders(lambda: module.entropy(**given))
    np.testing.assert_allclose(entropy, module.entropy(**given), rtol=tolerance, atol=tolerance)
    ranked = in_both_orders(lambda: module.nbest(k=7, **given))
    for card, host in zip(ranked, module.nbest(k=7, **given), strict=True):
        assert card.labels == host.labels
        np.testing.assert_allclose(card.scores, host.scores, rtol=tolerance)


def test_no_more_labellings_are_ranked_than_there_are() -> None:
    module, given, _ = setting((2, 3, 3), True, "packed")
    with cuda_on_host.card_on_host():
        card = module.nbest(k=10**9, **given)
    for found, host in zip(card, module.nbest(k=10**9, **given), strict=True):
        assert found.labels == host.labels


def test_half_precision_gives_float32() -> None:
    module, given, _ = setting((2, 5, 3), False, "plain")
    half = given["emissions"].half()
    for method in (module.marginals, module.entropy, lambda emissions: module.nbest(emissions, 2)[0].scores):
        with cuda_on_host.card_on_host():
            card = method(half)
        assert card.dtype == torch.float32
        np.testing.assert_allclose(card, method(half), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("n", [3, 40])
def test_drawn_labellings_follow_their_numbers(n: int) -> None:
    """The label of a position is the first whose cumulative share is above the number drawn for it."""
    module, given, _ = setting((2, 6, n), True, "mask")
    found = in_both_orders(lambda: module.sample(k=20, generator=torch.Generator().manual_seed(1), **given))
    uniforms = torch.rand((12, 20), generator=torch.Generator().manual_seed(1), dtype=torch.float64).numpy()
    transitions = module.transitions.detach().numpy()
    for s, drawn in enumerate(found):
        states = given["emissions"][s][given["mask"][s]].detach().numpy().copy()
        states[0] += module.start_transitions.detach().numpy()
        states[-1] += module.end_transitions.detach().numpy()
        for k, labels in enumerate(drawn.tolist()):
            for t in range(len(labels)):
                alpha = expected(Chain(states[: t + 1], transitions)).states[-1]
                following = transitions[:, labels[t + 1]] if t + 1 < len(labels) else 0.0
                shares = np.cumsum(alpha * np.exp(following))
                assert labels[t] == int(np.searchsorted(shares, uniforms[6 * s + t, k] * shares[-1], side="right"))


BAD = ["a tag", "offsets", "no labelling", "not a number"]


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gets_the_sentence_of_the_host(kind: str) -> None:
    module, given, tags = setting((2, 5, 3), True, "packed" if kind == "offsets" else "plain")
    in_data = kind in ("no labelling", "not a number")
    if kind == "a tag":
        tags[1, 3] = 7
    elif kind == "offsets":
        given["cu_seqlens"][1] = 9
    else:
        given["emissions"][1, 2] = -torch.inf if kind == "no labelling" else torch.nan

    def call() -> Tensor:
        return module.entropy(**given) if in_data else module(tags=tags, **given)

    with pytest.raises(ChainfoldError) as host:
        call()
    with cuda_on_host.card_on_host(), pytest.raises(ChainfoldError) as card:
        call()
    if in_data:
        assert str(card.value).startswith("sequence 1 has ")  # the card says which one
    else:
        assert str(card.value) == str(host.value)


@pytest.mark.parametrize(("shape", "kind", "double"), [case for case in cases() if case[0] in ((4, 7, 3), (2, 60, 40))])
def test_the_checks_of_a_card_hold_on_the_host(shape: tuple[int, int, int], kind: str, double: bool) -> None:
    with cuda_on_host.card_on_host():
        wrong = [result for result in check(shape, kind, double, "cpu") if not result.holds]
        assert cuda_on_host.HostKernels.launches
    assert not wrong
