"""Break the layer on purpose, and see its tests go red; `test_mutations` has the machinery."""

from __future__ import annotations

from pathlib import Path
from queue import Queue

import pytest

from core_copy import COMMANDS, copy_package
from test_mutations import FAILED, PASSED, Mutant, run

_ORACLE, _STREAM, _CRF, _CUTS = (
    ("torch/test_torch_oracle.py",),
    ("torch/test_torch_stream.py",),
    ("torch/test_torch_crf.py",),
    ("torch/test_torch_cuts.py",),
)
_CORE, _EMISSIONS, _PIECES = (
    "core/emissions.hpp",
    "chainfold/engines/emissions.py",
    "chainfold/torch/piecewise.py",
)
_ENTRY = "end_posterior(alpha + (t - 1) * width, false, n_labels, width, entry.data())"
MUTANTS = [
    Mutant("forward", _CORE, _ENTRY, "entry.data()[0] = 1.0", "long_seq", _CRF),
    Mutant("backward", _CORE, "row[j] += T(factor * gamma[j])", "row[j] += T(gamma[j])", "differences", _ORACLE),
    Mutant("backward", _CORE, "first[j] += factor * gamma[j]", "first[j] += 0.0", "differences", _ORACLE),
    Mutant("backward", _CORE, "ends[1][j] += factor[k]", "ends[0][j] += factor[k]", "differences", _ORACLE),
    Mutant("masks", _EMISSIONS, "(rows.T, mask.T) if by_position", "(rows.T, mask.T) if False", "holes", _ORACLE),
    Mutant("cuts", _EMISSIONS, "TOLERANCE = 1e-13", "TOLERANCE = 1e-3", "numbers", _CUTS),
    Mutant("cuts", _EMISSIONS, "np.delete(vectors, dropped - earlier", "np.delete(vectors, dropped", "", _CUTS),
    Mutant("pieces", _PIECES, "for label in rare:", "for label in rare[:0]:", "bring_back", _STREAM),
    Mutant("pieces", _PIECES, "tolerance * low)", "1e9 * low)", "", _STREAM),
    Mutant("pieces", _PIECES, "after, float(log_z)", "after.exp(), float(log_z)", "", _STREAM),
]
_CARD = ("torch/test_cuda_on_host.py",)
_CHUNKS, _MASKS, _OTHERS = "gradient and 60-3-True-8", "gradient and 60-3-True-8 and mask", "entropies and plain"
_LABELS = "gradient and 130-33-True-8 and plain"


def on_card(file: str, good: str, bad: str, tests: str = _CHUNKS) -> Mutant:
    return Mutant(file, f"chainfold/cuda/{file}", good, bad, tests, _CARD)


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
CONTROL = Mutant("nothing", _CORE, "#pragma once", "#pragma once", "differences", _ORACLE)
ORDERED = sorted([CONTROL, *MUTANTS], key=lambda mutant: mutant.is_core)  # a core that was broken is compiled again


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Queue[Path]:
    """A copy of the package, in which a line is broken and mended again."""
    folders: Queue[Path] = Queue()
    folders.put(tmp_path_factory.mktemp("mutant"))
    copy_package(folders.queue[0])
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ORDERED, ids=lambda mutant: f"{mutant.breaks}: {mutant.broken}")
def test_a_broken_layer_turns_the_tests_red(mutant: Mutant, folders: Queue[Path]) -> None:
    if mutant.is_core and not COMMANDS.exists():
        pytest.skip("the core was not built in build/dev; run make core")
    code, output = run(mutant, folders)
    assert code == (PASSED if mutant is CONTROL else FAILED), output
