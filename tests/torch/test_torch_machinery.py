"""The layer in torch's own machinery: compilers, several processes, types, repeated backward passes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import torch
from chainfold.errors import ChainfoldError
from chainfold.torch import CRF

FEATURES, LABELS = 3, 4


class Tagger(torch.nn.Module):  # type: ignore[misc]
    """An encoder with a CRF, whose result is its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(FEATURES, LABELS)
        self.crf = CRF(LABELS, batch_first=True, forbid=[(0, 1)], forbid_start=[2])

    def forward(self, x: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return -self.crf(self.encoder(x), tags, mask, "mean")


def setting(size: int = 4, length: int = 9) -> tuple[Tagger, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    tags = torch.randint(3, (size, length)) + 1
    tags[:, 0] = 3
    mask = torch.arange(length) < torch.arange(length - size + 1, length + 1)[:, None]
    return Tagger(), torch.randn(size, length, FEATURES), tags, mask


def gradients(model: torch.nn.Module) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.parameters()]


def share_of_a_process(rank: int, folder: str) -> None:
    """One of two processes with half of the batch each."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    model, *batch = setting()
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    parallel(*(tensor[2 * rank : 2 * rank + 2] for tensor in batch)).backward()
    torch.save(gradients(model), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this build of torch has no gloo")
def test_two_processes_have_the_gradient_of_the_joint_batch(tmp_path: Path) -> None:
    model, *batch = setting()
    model(*batch).backward()
    torch.multiprocessing.spawn(share_of_a_process, (str(tmp_path),), nprocs=2)
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for here, there, expected in zip(*shares, gradients(model), strict=True):
        assert torch.equal(here, there)
        assert torch.allclose(here, expected, rtol=1e-5, atol=1e-6)


def test_one_graph_serves_batches_of_any_size() -> None:
    model, *_ = setting()
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for size, length in ((4, 9), (3, 11), (6, 8)):
        _, *batch = setting(size, length)
        assert torch.equal(compiled(*batch), model(*batch))
    assert len(graphs) == 1


def test_labels_can_be_exported() -> None:
    model, x, _, mask = setting()

    class Labels(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            labels: torch.Tensor = self.model.crf.labels(self.model.encoder(x), mask)
            return labels

    exported = torch.export.export(Labels(), (x, mask)).module()
    labels = exported(x, mask)
    assert [row[row >= 0].tolist() for row in labels] == model.crf.decode(model.encoder(x), mask)
    assert bool((labels[~mask] == -1).all())


def test_a_second_backward_pass_is_the_same_or_torch_s_own_error() -> None:
    model, *batch = setting()
    loss = model(*batch)
    loss.backward(retain_graph=True)
    once = gradients(model)
    loss.backward()
    assert all(torch.equal(2 * one, two) for one, two in zip(once, gradients(model), strict=True))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_module_in_any_type(dtype: torch.dtype) -> None:
    model, x, tags, mask = setting()
    crf = model.crf
    emissions = model.encoder(x).detach().to(dtype)
    moved = CRF(LABELS, batch_first=True, forbid=[(0, 1)], forbid_start=[2])
    moved.load_state_dict(crf.state_dict())
    moved.to(dtype)
    value = moved(emissions, tags, mask)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    value.backward()
    assert moved.transitions.grad is not None
    assert moved.transitions.grad.dtype == dtype
    assert torch.allclose(value.float(), crf(emissions.float(), tags, mask), rtol=0.02)
    assert moved.decode(emissions, mask) == moved.float().decode(emissions.float(), mask)


def test_a_module_on_another_device_is_an_error() -> None:
    model, x, tags, mask = setting()
    emissions = model.encoder(x)
    with pytest.raises(ChainfoldError, match="the CRF is on meta and emissions are on cpu"):
        model.crf.to("meta")(emissions, tags, mask)


def test_autocast_takes_gradients_to_the_parameters_of_the_encoder() -> None:
    model, *batch = setting()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(*batch)
    loss.backward()
    assert loss.dtype == torch.float32
    rough = gradients(model)
    model.zero_grad()
    model(*batch).backward()
    for found, expected in zip(rough, gradients(model), strict=True):
        assert found.dtype == torch.float32
        assert torch.allclose(found, expected, atol=0.05 * float(expected.abs().max()) + 1e-3)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    assert float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)) > 1e-3
    optimiser.step()
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
