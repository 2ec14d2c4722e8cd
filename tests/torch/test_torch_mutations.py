"""Break the layer on purpose, and see its tests go red; `test_mutations` has the machinery."""

from __future__ import annotations

import shutil
from pathlib import Path
from queue import Queue

import pytest

import chainfold
from test_mutations import FAILED, PASSED, Mutant, run

_ORACLE, _STREAM, _CRF, _CUTS = (
    ("torch/test_torch_oracle.py",),
    ("torch/test_torch_stream.py",),
    ("torch/test_torch_crf.py",),
    ("torch/test_torch_cuts.py",),
)
_KERNELS = "torch/batch_kernels.py"
_ENTRY = "end_posterior(alpha[t - 1], False, n_labels, entry)"
MUTANTS = [
    Mutant("forward", _KERNELS, _ENTRY, "entry[:] = alpha[t - 1]", "long_seq", _CRF),
    Mutant("backward", _KERNELS, "gradient[row, j] += factor[k] *", "gradient[row, j] +=", "differences", _ORACLE),
    Mutant("backward", _KERNELS, "ends[0, j] += factor[k] *", "ends[0, j] += 0.0 *", "differences", _ORACLE),
    Mutant("backward", _KERNELS, "if slot == 0:", "if slot == 1:", "differences", _ORACLE),
    Mutant("masks", _KERNELS, "if batch_first else t * size + s", "if batch_first else t + s", "holes", _ORACLE),
    Mutant("cuts", "torch/cpu_cuts.py", "TOLERANCE = 1e-13", "TOLERANCE = 1e-3", "numbers", _CUTS),
    Mutant(
        "cuts", "torch/cpu_cuts.py", "np.delete(vectors, dropped - earlier", "np.delete(vectors, dropped", "", _CUTS
    ),
    Mutant("pieces", "torch/piecewise.py", "for label in rare:", "for label in rare[:0]:", "bring_back", _STREAM),
    Mutant("pieces", "torch/piecewise.py", "tolerance * low)", "1e9 * low)", "", _STREAM),
    Mutant("pieces", "torch/piecewise.py", "after, float(log_z)", "after.exp(), float(log_z)", "", _STREAM),
]
_CARD = ("torch/test_cuda_on_host.py",)
_CHUNKS, _MASKS, _OTHERS = "gradient and 60-3-True-8", "gradient and 60-3-True-8 and mask", "entropies and plain"
_LABELS = "gradient and 130-33-True-8 and plain"


def on_card(file: str, good: str, bad: str, tests: str = _CHUNKS) -> Mutant:
    return Mutant(file, f"cuda/{file}", good, bad, tests, _CARD)


MUTANTS += [
    on_card("chunk_backward.cu", "v;\n                __syncwarp();", "v;"),
    on_card("chunk_backward.cu", "flows[k % 2][lane] = v;", "flows[0][lane] = v;"),
    on_card("chunk_backward.cu", "put(m + AHEAD);", "put(m);"),
    on_card(
        "chunk_backward.cu", "gamma = sum_for_lane(joint);", "gamma = joint[0];", "gradient and 60-3-True-8 and edges"
    ),
    on_card("chunk_forward.cu", "row + k % 2 * 32", "row + 0 * 32"),
    on_card("chunk_forward.cu", "powers += on ? power : 0;", ";"),
    on_card("chunk_forward.cu", "power < edges.lowest + GROWTH", "power < -100", "steep"),
    on_card("chunk_forward.cu", "column.zero && least < needed", "false", "steep"),
    on_card("chunk.cuh", "__any_sync(FULL, vanish) ? (REAL)-1 : (REAL)0", "(REAL)0", "vanishing"),
    on_card("numbers.cuh", "__syncthreads_or(vanish) ? -1.0 : 0.0", "0.0", "vanishing"),
    on_card("chunk_past.cu", "high - low <= TOLERANCE * high", "high - low <= 1e-3 * high"),
    on_card("chunk_future.cu", "high - low <= TOLERANCE * high", "high - low <= 1e-3 * high"),
    on_card("sums.cu", "w += warps", "w += 2 * warps", "gradient and 150-2"),
    on_card("rows.cu", "index[on[k] ? rank :", "index[on[k] ? t :", _MASKS),
    on_card("rows.cu", "if (b.gradient && !on[k])", "if (false)", _MASKS),
    on_card("numbers.cuh", "exponents += power;", ";", _LABELS),
    on_card(
        "numbers.cuh",
        "alphas[j] = alpha = (double)own[(t - 1) * N + j];\n        __syncthreads();",
        "alphas[j] = alpha = (double)own[(t - 1) * N + j];",
        _LABELS,
    ),
    on_card("numbers.cuh", "pool + (t + 1) % 2 * N, *now", "pool + t % 2 * N, *now", "numbers"),
    on_card("blocks.cu", "high <= low * (1.0 + BORDER)", "high <= low * 2.0", _LABELS),
    on_card("blocks.cu", "(1 + (b.round + 1) % 2) * size", "(1 + b.round % 2) * size", "ordinary"),
    on_card("blocks.cu", "*turn.exit = earlier[number * N + j]", "", "ordinary"),
    on_card("blocks.cu", "b.flag[part_at(b, number, b.chunk).s] = 1", ";", "gradient and 130-33-True-8 and cycle"),
    on_card("blocks.cu", "if (!known) b.flag[chunk.s] = 1;", "", "gradient and 70-66-False-8 and strong and packed"),
    on_card("ordered.cu", "own += b.score[first + c]", "own += b.score[c]", "gradient and 70-66-False-8 and plain"),
    on_card("counts.cu", "table[own[k].last * N + j] += share", "table[j] += share", _LABELS),
    on_card("counts.cu", "b.flag[group.s] == 0", "false", "gradient and 60-3-True-8 and cycle"),
    on_card("counts.cu", "joint(i) * v", "joint(i)", "gradient and edges"),
    on_card("sums.cu", "first_part(b, s, b.group)", "first_part(b, 0, b.group)", _OTHERS),
    on_card("logarithms.cuh", "alpha[j] = now - peak;", "alpha[j] = now;", "gradient and 90-5-False and strong"),
    on_card("entropy.cu", "if (t == part.length - 1) here", "if (t == part.length) here", _OTHERS),
    on_card("ranked.cu", "list[p - 1] < x", "list[p - 1] > x", _OTHERS),
    on_card("drawn.cu", "own[i] = before + share", "own[i] = share", "follow"),
    on_card("viterbi.cuh", "delta -= peak;", ";", _CHUNKS),
    on_card(
        "viterbi.cuh",
        "const bool later = most[i + width] > most[i];",
        "const bool later = most[i + width] >= most[i];",
        "equal",
    ),
    on_card("best_chunks.cu", "total = b.scale[number];", ";", _CHUNKS),
    on_card("best_chunks.cu", "b.turns[(c - k > number", "b.turns[(c - k - 1 > number", _CHUNKS),
    on_card("best_chunks.cu", "b.flag[chunk.s] = fault;", "b.flag[chunk.s] = 0;", "cannot"),
]
CONTROL = Mutant("nothing", _KERNELS, "BLOCK = 1024", "BLOCK = 1024", "differences", _ORACLE)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [CONTROL, *MUTANTS], ids=lambda mutant: f"{mutant.breaks}: {mutant.broken}")
def test_a_broken_layer_turns_the_tests_red(mutant: Mutant, tmp_path: Path) -> None:
    package = Path(chainfold.__file__).parent
    shutil.copytree(package, tmp_path / "chainfold", ignore=shutil.ignore_patterns("*.pyc"))
    folders: Queue[Path] = Queue()
    folders.put(tmp_path)
    code, output = run(mutant, folders)
    assert code == (PASSED if mutant is CONTROL else FAILED), output
