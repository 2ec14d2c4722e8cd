"""Break the layer on purpose, and see its tests go red; `test_mutations` has the machinery."""

from __future__ import annotations

import shutil
from pathlib import Path
from queue import Queue

import pytest

import chainfold
from test_mutations import FAILED, PASSED, Mutant, run

_ORACLE, _STREAM, _CRF = (
    ("torch/test_torch_oracle.py",),
    ("torch/test_torch_stream.py",),
    ("torch/test_torch_crf.py",),
)
_KERNELS = "torch/batch_kernels.py"
MUTANTS = [
    Mutant("forward", _KERNELS, "entry[j] = alpha[t - 1, j] / sum_", "entry[j] = alpha[t - 1, j]", "long_seq", _CRF),
    Mutant("backward", _KERNELS, "out[k, j] *= factor[s]", "out[k, j] *= 1.0", "differences", _ORACLE),
    Mutant("backward", _KERNELS, "ends[0, j] += out[0, j]", "ends[0, j] += 0.0", "differences", _ORACLE),
    Mutant("masks", "torch/cpu_batch.py", "mask.sum(axis=0)", "0 * mask.sum(axis=0) + len(mask)", "holes", _ORACLE),
    Mutant("weights", "torch/cpu.py", "np.where(starts, earlier, weights - earlier)", "weights", "weights", _ORACLE),
    Mutant("pieces", "torch/piecewise.py", "tolerance * low)", "1e9 * low)", "", _STREAM),
    Mutant("pieces", "torch/piecewise.py", "posterior.log(), float(log_z)", "posterior, float(log_z)", "", _STREAM),
]
CONTROL = Mutant("nothing", _KERNELS, "BLOCK = 1024", "BLOCK = 1024", "differences or weights", _ORACLE)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [CONTROL, *MUTANTS], ids=lambda mutant: f"{mutant.breaks}: {mutant.broken}")
def test_a_broken_layer_turns_the_tests_red(mutant: Mutant, tmp_path: Path) -> None:
    package = Path(chainfold.__file__).parent
    shutil.copytree(package, tmp_path / "chainfold", ignore=shutil.ignore_patterns("*.pyc"))
    folders: Queue[Path] = Queue()
    folders.put(tmp_path)
    code, output = run(mutant, folders)
    assert code == (PASSED if mutant is CONTROL else FAILED), output
