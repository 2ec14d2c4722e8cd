"""CUDA tensors against a reference in NumPy; needs a card. The same checks run on CPU tensors everywhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

import torch
from chainfold.errors import ChainfoldError
from experiments.bench.gpu_checks import arguments_of, batch_of, cases, check, machinery, module_of

on_card = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA card here"),
]
ON_HOST = [case for case in cases() if case[0] in ((4, 7, 3), (2, 60, 40))]


@pytest.mark.parametrize(
    ("shape", "kind", "double", "device"),
    [*((*case, "cpu") for case in ON_HOST), *(pytest.param(*case, "cuda", marks=on_card) for case in cases())],
)
def test_a_device_agrees_with_the_reference(shape: tuple[int, int, int], kind: str, double: bool, device: str) -> None:
    wrong = [result for result in check(shape, kind, double, device) if not result.holds]
    assert not wrong


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA card here")
def test_bits_are_equal_from_run_to_run_and_devices_are_not_mixed() -> None:
    batch = batch_of((2, 700, 23), "plain")
    module = module_of(batch, "plain", torch.float32, "cuda")
    given = arguments_of(batch, "plain", torch.float32, "cuda")
    given["emissions"].requires_grad_()
    runs = [torch.autograd.grad(module(**given), [given["emissions"], module.transitions]) for _ in range(100)]
    assert all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0], strict=True))
    with pytest.raises(ChainfoldError, match="the CRF is on cuda"):
        module(given["emissions"].cpu(), given["tags"].cpu())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_card)])
def test_torchs_machinery_on_a_device(device: str) -> None:
    wrong = [result for result in machinery(device) if not result.holds]
    assert not wrong


def test_the_script_for_a_card_needs_torch_and_numpy_only() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['numba', 'llvmlite', 'pyarrow', 'typer', 'pytest']));"
        "import experiments.bench.gpu_layer"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
