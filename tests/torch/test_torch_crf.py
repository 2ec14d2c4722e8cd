"""The module: what pytorch-crf's users rely on, torch's own machinery, and input that does not fit."""

from __future__ import annotations

import copy
import io
import math
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import chainfold as cf
import torch
from chainfold.errors import ChainfoldError
from chainfold.torch import CRF

LABELS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def setting(
    shape: tuple[int, int, int] = (3, 6, 5), seed: int = 0, **options: Any
) -> tuple[CRF, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    size, length, n = shape
    emissions = torch.randn(size, length, n, generator=generator, requires_grad=True)
    return CRF(n, batch_first=True, **options), emissions, torch.randint(n, (size, length), generator=generator)


def test_the_state_dict_is_that_of_pytorch_crf() -> None:
    module, _, _ = setting(forbid=[(0, 1)])
    assert list(module.state_dict()) == ["start_transitions", "end_transitions", "transitions"]
    assert repr(module) == "CRF(num_tags=5)"
    assert all(bool((p.abs() <= 0.1).all()) for p in module.parameters())


def test_reductions_of_the_log_likelihood() -> None:
    module, emissions, tags = setting()
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [0] * 6], dtype=torch.uint8)
    each = module(emissions, tags, mask, "none").detach()
    assert each.shape == (3,)
    assert each[2] == 0.0
    for reduction, expected in (("sum", each.sum()), ("mean", each.mean()), ("token_mean", each.sum() / 10)):
        assert torch.allclose(module(emissions, tags, mask, reduction), expected)
    assert torch.equal(module(emissions, tags, mask.bool(), "none"), each)


def test_masked_positions_do_not_matter() -> None:
    module, emissions, tags = setting((1, 6, 5))
    mask = torch.tensor([[False, True, True, False, True, False]])
    inside = mask[0]
    alone = module(emissions[:, inside], tags[:, inside])
    spoilt, wrong = emissions.detach().clone(), tags.clone()
    spoilt[~mask], wrong[~mask] = math.nan, -7
    assert torch.equal(module(spoilt, wrong, mask), alone)
    assert module.decode(spoilt, mask) == module.decode(emissions[:, inside])
    (gradient,) = torch.autograd.grad(module(emissions, tags, mask), emissions)
    assert bool((gradient[~mask] == 0.0).all())
    assert bool((gradient[mask] != 0.0).all())


def test_packed_input_is_padded_input_without_padding() -> None:
    module, emissions, tags = setting()
    lengths = torch.tensor([6, 0, 4])
    mask = torch.arange(6) < lengths[:, None]
    offsets = torch.tensor([0, 6, 6, 10], dtype=torch.int32)
    packed = module(emissions[mask], tags[mask], reduction="none", cu_seqlens=offsets)
    assert torch.equal(packed, module(emissions, tags, mask, "none"))
    assert module.decode(emissions[mask], cu_seqlens=offsets) == module.decode(emissions, mask)
    assert torch.allclose(
        module(emissions[mask], tags[mask], reduction="token_mean", cu_seqlens=offsets),
        module(emissions, tags, mask, "token_mean"),
    )
    for wrong in (torch.tensor([0, 3]), torch.tensor([0, 7, 6, 10]), torch.tensor([0.0, 10.0]), torch.tensor(10)):
        with pytest.raises(ChainfoldError, match="cu_seqlens"):
            module(emissions[mask], tags[mask], cu_seqlens=wrong)
    with pytest.raises(ChainfoldError, match="either a mask or cu_seqlens"):
        module(emissions[mask], tags[mask], tags[mask], cu_seqlens=offsets)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_half_precision_emissions_is_a_float32(dtype: torch.dtype) -> None:
    module, emissions, _ = setting()
    half = emissions.detach().to(dtype)
    for method in (
        module.marginals,
        module.log_partition,
        module.entropy,
        lambda given: module.best(given).scores,
        lambda given: torch.stack([paths.scores for paths in module.nbest(given, 3)]),
    ):
        found = method(half)
        assert found.dtype == torch.float32
        assert torch.equal(found, method(half.float()))
    assert torch.allclose(module.marginals(half).sum(-1), torch.ones(3, 6), atol=1e-6)


def test_copies_and_pickles_of_the_module() -> None:
    module, emissions, tags = setting(constraints=cf.Constraints.of(LABELS, "BIO"))
    tags = torch.zeros_like(tags)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(module), torch.load(buffer, weights_only=False), module.to(torch.float64).float()):
        assert torch.equal(other(emissions, tags), module(emissions, tags))


def test_constraints_are_respected_by_every_method() -> None:
    constraints = cf.Constraints.of(LABELS, "BIO")
    module, emissions, _ = setting((4, 8, 5), constraints=constraints)

    def fits(labels: list[int]) -> bool:
        moves = pairwise(labels)
        return bool(constraints.first[labels[0]]) and all(constraints.allowed[i, j] for i, j in moves)

    assert all(fits(labels) for labels in module.decode(emissions))
    assert all(fits(labels) for paths in module.nbest(emissions, 5) for labels in paths.labels)
    assert all(fits(labels.tolist()) for drawn in module.sample(emissions, 20) for labels in drawn)
    assert bool((module.marginals(emissions)[:, 0, [2, 4]] == 0.0).all())
    module.log_partition(emissions).sum().backward()
    assert module.transitions.grad is not None
    assert bool((module.transitions.grad[~torch.tensor(constraints.allowed)] == 0.0).all())
    wrong = torch.full((4, 8), 2)
    assert bool((module(emissions, wrong, reduction="none") == -torch.inf).all())
    by_hand = CRF(5, True, forbid=[(0, 2), (0, 4), (1, 4), (2, 4), (3, 2), (4, 2)], forbid_start=[2, 4])
    by_hand.load_state_dict(module.state_dict())
    assert torch.equal(by_hand.log_partition(emissions), module.log_partition(emissions))


def test_no_more_labellings_are_looked_for_than_there_are() -> None:
    module, emissions, _ = setting((3, 3, 3), forbid=[(0, 1)])
    mask = torch.tensor([[True, True, True], [True, False, False], [False] * 3])
    allowed = torch.ones(3, 3, 3, dtype=torch.bool)
    allowed[0, 2, 0] = False
    few = module.nbest(emissions, 27, mask, allowed=allowed)
    many = module.nbest(emissions, 10**9, mask, allowed=allowed)
    for paths, same, count in zip(few, many, (13, 3, 1), strict=True):
        assert len(paths.labels) == len(paths.scores) == count
        assert paths.labels == same.labels
        assert torch.equal(paths.scores, same.scores)
    (paths,) = CRF(1, batch_first=True).nbest(torch.zeros(1, 1000, 1), 10**9)
    assert paths.labels == [[0] * 1000]
    long = module.nbest(torch.randn(1, 5000, 3), 4)  # 3^5000 labellings
    assert len(long[0].labels) == 4


def test_torch_finds_nothing_wrong_with_the_operators() -> None:
    module, emissions, tags = setting()
    scores = tuple(score.detach().requires_grad_() for score in module.scores())
    arguments = (emissions, *scores, None, None, None, None, True, tags)
    torch.library.opcheck(torch.ops.chainfold.crf.default, arguments)


def test_a_second_derivative_is_an_error() -> None:
    module, emissions, tags = setting()
    (gradient,) = torch.autograd.grad(module(emissions, tags), emissions, create_graph=True)
    with pytest.raises(ChainfoldError, match="no second derivative"):
        gradient.square().sum().backward()


def test_the_bits_are_the_same_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    module, emissions, tags = setting((40, 150, 7))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for _ in range(20):
            module.zero_grad()
            (gradient,) = torch.autograd.grad(module(emissions, tags), emissions, retain_graph=False)
            module.zero_grad()
            value = module(emissions, tags)
            value.backward()
            assert module.transitions.grad is not None
            found.append((value.item(), gradient, module.transitions.grad.clone()))
    first = found[0]
    assert all(a == first[0] and torch.equal(b, first[1]) and torch.equal(c, first[2]) for a, b, c in found)


def test_transitions_that_are_not_numbers_have_no_best_labels() -> None:
    module, emissions, _ = setting()
    edges = torch.zeros(3, 6, 5, 5)
    edges[:, 0] = math.nan  # no transition leads to a first position
    assert module.decode(emissions, edges=edges) == module.decode(emissions)
    edges[1, 2, 3, 4] = math.nan
    with torch.no_grad():
        module.transitions[0, 1] = math.nan
    for method in (module.decode, module.labels, lambda *given, **options: module.nbest(given[0], 2, **options)):
        with pytest.raises(ChainfoldError, match=r"NaN or \+inf at sequence 0, position 1"):
            method(emissions)
    module.reset_parameters()
    with pytest.raises(ChainfoldError, match=r"NaN or \+inf at sequence 1, position 2"):
        module.decode(emissions, edges=edges)
    assert len(module.decode(emissions[:, :1])) == 3


def test_a_likelihood_needs_tags() -> None:
    module, emissions, _ = setting()
    with pytest.raises(ChainfoldError, match="log_partition"):
        module(emissions, None)


def test_nan_emissions_give_a_nan_likelihood_of_their_sequence_alone() -> None:
    module, emissions, tags = setting()
    spoilt = emissions.detach().clone()
    spoilt[1, 2, 3] = math.nan
    spoilt.requires_grad_()
    values = module(spoilt, tags, reduction="none")
    assert torch.isnan(values).tolist() == [False, True, False]
    (gradient,) = torch.autograd.grad(values.sum(), spoilt)
    assert torch.isnan(gradient).any(-1).any(-1).tolist() == [False, True, False]
    for method in (module.decode, module.sample, module.entropy, lambda emissions: module.nbest(emissions, 2)):
        with pytest.raises(ChainfoldError, match=r"NaN or \+inf at sequence 1, position 2"):
            method(spoilt)


def test_a_sequence_without_a_possible_labelling() -> None:
    module, emissions, tags = setting()
    impossible = emissions.detach().clone()
    impossible[0, 3] = -math.inf
    assert module.log_partition(impossible)[0] == -torch.inf
    assert torch.isnan(module(impossible, tags, reduction="none")).tolist() == [True, False, False]
    for method in (module.decode, module.sample, module.entropy, lambda emissions: module.nbest(emissions, 2)):
        with pytest.raises(ChainfoldError, match=r"no labelling is possible.* at sequence 0, position 3"):
            method(impossible)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"emissions": torch.zeros(3, 6)}, "emissions must have dimension of 3, got 2"),
        ({"emissions": torch.zeros(3, 6, 4)}, "expected last dimension of emissions is 5, got 4"),
        ({"emissions": torch.zeros(3, 6, 5, dtype=torch.int64)}, "floating-point"),
        ({"tags": torch.zeros(3, 5, dtype=torch.int64)}, "emissions and tags must match"),
        ({"tags": torch.zeros(3, 6)}, "label numbers"),
        ({"tags": torch.full((3, 6), 5)}, "sequence 0, position 0 is 5, but tags go from 0 to 4"),
        ({"tags": torch.full((3, 6), -1)}, "is -1"),
        ({"mask": torch.ones(6, 3)}, r"emissions and mask must match, got \(3, 6\) and \(6, 3\)"),
        ({"reduction": "median"}, "invalid reduction: median"),
        ({"edges": torch.ones(3, 6, 5)}, "edges needs the shape"),
        ({"emissions": np.zeros((3, 6, 5))}, "emissions must be a tensor, got ndarray"),
        ({"tags": [[0] * 6] * 3}, "tags must be a tensor, got list"),
        ({"mask": "mean"}, "mask must be a tensor, got str"),
        ({"cu_seqlens": torch.tensor([0, 6])}, "emissions must have dimension of 2, got 3"),
    ],
)
def test_input_that_does_not_fit_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    module, emissions, tags = setting()
    with pytest.raises(ChainfoldError, match=sentence) as caught:
        module(**({"emissions": emissions, "tags": tags} | change))
    assert str(caught.value).count(".") >= 1
    assert "\n" not in str(caught.value)


def test_numbers_of_tags_and_forbidden_places_are_checked() -> None:
    assert CRF(np.int64(3)).num_tags == 3  # type: ignore[arg-type]
    for wrong in (0, -1, 2.0):
        with pytest.raises(ValueError, match="num_tags"):
            CRF(wrong)  # type: ignore[arg-type]
    with pytest.raises(ChainfoldError, match="forbid_start"):
        CRF(3, forbid_start=[3])
    with pytest.raises(ChainfoldError, match="a chainfold"):
        CRF(3, constraints="BIO")  # type: ignore[arg-type]
    with pytest.raises(ChainfoldError, match="on 5 labels"):
        CRF(3, constraints=cf.Constraints.of(LABELS, "BIO"))


def test_neither_numba_nor_arrow_is_imported_before_a_cpu_tensor_comes() -> None:
    code = (
        "import sys, chainfold; assert 'torch' not in sys.modules; import chainfold.torch, chainfold.torch.gpu_paths; "
        "assert not {'numba', 'pyarrow'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env=dict(os.environ))


_STEP = """
import sys
import torch
from chainfold.torch import CRF

module, emissions = CRF(3, batch_first=True), torch.randn(2, 4, 3, requires_grad=True)
(-module(emissions, torch.zeros(2, 4, dtype=torch.long))).backward()
module.decode(emissions)
module.nbest(emissions, 2)
module.sample(emissions)
print(*sys.modules)
"""


def test_cpu_tensors_import_neither_engines_nor_tables_nor_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _STEP], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"pyarrow", "typer", "rich"} & loaded
    rooms = {name.split(".")[1] for name in loaded if name.startswith("chainfold.")}
    assert rooms <= {"chain", "core", "engines", "errors", "escape", "inference", "model", "system", "torch"}
    engines = {name.removeprefix("chainfold.engines.") for name in loaded if name.startswith("chainfold.engines.")}
    assert engines == {
        *("belief", "block_pass", "certificate", "emissions", "forward_pass", "halo", "pool", "scores", "transitions"),
    }


def test_long_sequences_agree_with_the_engines() -> None:
    positions, n = 100_000, 23
    rng = np.random.default_rng(3)
    emissions = rng.normal(size=(positions, n))
    transitions = rng.normal(size=(n, n))
    layout = cf.Layout.full(n, n)
    labels = rng.integers(n, size=positions).astype(np.int32)
    starts = np.zeros(positions, bool)
    starts[0] = True
    chain = cf.chain_from_matrix(emissions, labels)
    weights = np.concatenate([np.eye(n).ravel(), transitions.ravel()])
    expected = cf.log_likelihood(cf.Model(layout, weights), chain).log_likelihood
    assert expected is not None
    for dtype, of_z, of_gradient in ((torch.float64, 1e-10, 1e-10), (torch.float32, 1e-6, 2e-6)):
        module = CRF(n, batch_first=True).to(dtype)
        with torch.no_grad():
            module.transitions.copy_(torch.from_numpy(transitions))
            module.start_transitions.zero_()
            module.end_transitions.zero_()
        given = torch.from_numpy(emissions)[None].to(dtype)
        posterior = module.marginals(given)[0].double().numpy()
        reference = cf.marginals(cf.Model(layout, weights), chain)
        assert np.abs(posterior - reference).max() < of_gradient
        value = module(given, torch.from_numpy(labels).long()[None])
        assert abs(float(value.detach()) / expected - 1.0) < of_z
