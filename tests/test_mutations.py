"""Break each algorithm on purpose, once, and see the suite go red.

Each mutant is a copy of the package with one line changed, in Python or in C++; the tests against the oracle run on it
in a process of their own and must fail. The copy without a change must pass, or a failure would prove nothing. One
mutant of each algorithm belongs to the quick tests; the others are slow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple

import pytest

from chainfold.engines.registry import ENGINES
from core_copy import COMMANDS, LEVEL, PACKAGE, compile_core, copy_package

TESTS = Path(__file__).parent
PASSED, FAILED = 0, 1


class Mutant(NamedTuple):
    """One line changed, and the tests that must notice."""

    breaks: str
    file: str
    line: str
    broken: str
    tests: str
    files: tuple[str, ...]

    @property
    def is_core(self) -> bool:
        return self.file.startswith("core/")


def source_of(file: str) -> str:
    """A file in `src`: of the core where it is C++, else of the package."""
    return file if file.endswith((".hpp", ".cpp")) else f"chainfold/{file}.py"


_CHANGES: dict[tuple[str, ...], list[tuple[str, ...]]] = {
    ("engines/test_engines_oracle", "engines/test_never_forget"): [
        ("fb", "engines/memory_cases", "block_pass = self._passes.pop()", "block_pass = self._passes.pop(0)", "fb"),
        ("fb-recompute", "engines/memory_cases", "passed.alpha.copy()", "passed.alpha", "recompute"),
        ("fb-spill", "system/spill", "file.seek(begin)", "file.seek(begin + 8)", "fb-spill"),
        ("checkpoint", "engines/memory_cases", "self._entries.pop()", "self._entries.pop(0)", "checkpoint"),
        ("fb-log", "engines/published/algorithm_1", "beta[positions] = 0.0", "beta[positions] = 1.0", "pairs and log"),
        ("fb-log", "core/logarithms.hpp", "u(t, i)[j] + beta[t + 1][j];", "u(t, i)[j];", "pairs and log"),
        ("fb-log", "core/logarithms.hpp", "u(t, i)[j] + beta[t + 1][j]);", "u(t, i)[j]);", "pairs and log"),
        ("fb-log-recompute", "engines/published/algorithm_1", "_kept.pop()", "_kept.pop(0)", "log-recompute"),
        ("fb-log-spill", "engines/published/algorithm_1", "beta[size] = beta[0]", "beta[size] = 0.0", "log-spill"),
        ("emp", "engines/published/algorithm_2", "log_total(z), h", "log_total(z[:1]), h", "emp"),
        ("emp", "core/logarithms.hpp", "gamma = u[i * n + j] + z[i];", "gamma = u[i * n + j];", "emp"),
        ("emp", "core/logarithms.hpp", "{a.log + log1p(-exp(b.log - a.log)), a.sign}", "a", "emp"),
        ("emp", "core/logarithms.hpp", "if (block.starts[t]) return;", "", "emp and marks"),
        ("emp", "core/logarithms.hpp", "int8_t(f < 0.0 ? -1 : 1)", "int8_t(1)", "emp and values"),
        ("emp", "core/logarithms.hpp", "take_pairs(1 + id, ", "take_pairs(1, ", "emp and edge"),
        ("forward-only", "engines/published/algorithm_2", "z), h, sign)", "z), h[:, :1], sign[:, :1])", "forward"),
        ("forward-only", "core/logarithms.hpp", "h(0, row), sign(0, row)", "h(0, 0), sign(0, 0)", "forward"),
        ("stream", "engines/stream", "            self._carry(block_pass)\n", "            pass\n", "stream"),
        ("stream", "engines/stream", 'einsum("fe,em->fm"', 'einsum("ef,em->fm"', "stream"),
        ("stream", "engines/stream", "self._collect(self._backward(block_pass", "(self._backward(block_pass", "forget"),
        ("parallel", "engines/parallel", "if not past.known or past.value", "if past.value", "parallel"),
        ("parallel", "engines/parallel", "if future.known else None", "if True else None", "cut"),
        ("parallel", "engines/certificate", "np.where(start.possible(), 0.0, np.inf)", "None", "past"),
        ("forward", "core/forward.hpp", "ahead = one;  // predicted", "ahead = one + one;  // predicted", "fb"),
        ("forward", "core/forward.hpp", "if (!start) {\n        const", "if (t > 0) {\n        const", "fb"),
        ("forward", "core/forward.hpp", "  scale.add(peak);\n", "", "fb"),
        ("forward", "core/lattice.hpp", "sum.add(totals[lane]);", "", "fb"),
        ("forward", "core/forward.hpp", "top = maximum(top, swapped<1>(top));", "", "fb"),
        ("forward", "core/forward.hpp", "sums[i % 2] = fma(lane<i, C>", "sums[i % 2] = fma(lane<(i + 1) % C, C>", "fb"),
        ("forward", "core/forward.hpp", "      scales.add(top);\n", "", "fb"),
        ("forward", "core/forward.hpp", "else ++moves;", "", "fb"),
        ("forward", "core/forward.hpp", "current = current / splat<C>(sum_);", "", "parallel"),
        ("forward", "core/forward.hpp", "if (watch && (least(", "if (false && (least(", "reversal"),
        ("backward", "core/backward.hpp", "held = held * inverse;", "held = held / inverse;", "fb"),
        ("backward", "core/backward.hpp", "(high - t == TILE || t == 1)", "high - t == TILE", "fb"),
        ("backward", "core/backward.hpp", "fma(splat<C>(lattice.entry[i])", "fma(splat<C>(0.0)", "stream"),
        (
            "backward",
            "core/backward.hpp",
            "joint[i * width + j] *= gamma[j]",
            "joint[i * width + j] *= gamma[i]",
            "edge",
        ),
        ("backward", "core/sinks.hpp", "fma(splat<C>(block.value[k])", "fma(splat<C>(1.0)", "fb"),
        ("backward", "core/sinks.hpp", "gamma[rows.label[block.row[k]]], sum);", "0.0, sum);", "sparse"),
        ("scores", "core/scores.hpp", "score = score + load<", "score = load<", "fb"),
        (
            "scores",
            "core/scores.hpp",
            "fma(splat<Shape::columns>(block.value[k])",
            "fma(splat<Shape::columns>(1.0)",
            "fb",
        ),
        ("scores", "core/scores.hpp", "block.edge_ids[k] * size + c), score)", "c), score)", "edge"),
        ("scores", "core/scores.hpp", "return low < end && rows", "return -1 + 0 * rows", "sparse"),
        ("certificate", "core/certificate.hpp", "high - low <= tolerance * low", "high - low <= 1e-3 * low", "stream"),
        (
            "certificate",
            "core/certificate.hpp",
            "if (alpha[f] > 0.0)",
            "if (real(alpha, f, true, width) > 0.0)",
            "stream",
        ),
        ("certificate", "core/certificate.hpp", "mix(q, lattice.alpha[t],", "mix(q, previous,", "stream"),
        ("certificate", "core/certificate.hpp", "multiply(q, joint, n", "multiply(joint, q, n", "stream"),
    ],
    ("test_reference",): [
        ("reference", "reference/log_fb", "_log_sum(u[k] + beta[k + 1], axis", "_log_sum(u[k], axis", "all_paths"),
        ("reference", "reference/log_fb", "+ u[k - 1] + beta[k])  # 19", "+ u[k - 1])  # 19", "general"),
        ("reference", "reference/log_emp", "gamma = psi + z[:, None]", "gamma = psi", "all_paths"),
        ("reference", "reference/log_emp", "h[:, None]))  # 11-13", "h[None]))  # 11-13", "general"),
        ("reference", "reference/log_forward_only", "tau[j, i, j, m] = _", "tau[j, 0, j, m] = _", "general"),
        ("reference", "reference/features", "if not start:", "if True:", "all_paths and marks"),
        ("reference", "reference/features", "first = layout.n_state + edge * n * n", "first = layout.n_state", "edge"),
        ("reference", "reference/features", " if entry[3] != 0.0]", "]", "zero"),
        ("reference", "reference/features", "if not (u < np.inf).all():", "if False:", "number"),
        ("reference", "reference/semirings", "a[..., 1] * b[..., 1] * np.exp(a", "np.exp(a", "all_paths"),
    ],
    ("test_semiring",): [
        ("reference", "reference/semirings", "(a == -np.inf) | (b == -np.inf)", "(a == -np.inf)", "wins_back"),
        ("reference", "reference/semirings", "np.exp(log - shift)", "np.exp(log)", "leave_the_range"),
        ("reference", "reference/semirings", "plus(times(z1, h2), times(z2, h1))", "times(z1, h2)", "lemma"),
        ("reference", "reference/forward_backward", "[t - 1], beta[t])", "[t - 1], beta[-1])", "backward"),
        ("reference", "reference/forward_backward", "one(u_t.shape[:1])", "zero(u_t.shape[:1])", "path"),
        ("reference", "reference/entropies", "total[0, 0] - semiring", "total[0, 0] + semiring", "entropy"),
    ],
    ("core/test_paths",): [
        ("paths", "core/viterbi.hpp", "+ t * width + c) - taken)", "+ t * width + c))", "viterbi_is"),
        ("paths", "core/viterbi.hpp", "if (start) taken = splat<K>(0.0);", "", "viterbi_is"),
        ("paths", "core/viterbi.hpp", "if (there) return c + __builtin", "if (there) return __builtin", "viterbi_is"),
        (
            "paths",
            "core/viterbi.hpp",
            "labels[t] = int32_t(label);",
            "labels[t] = int32_t(back[t][label]);",
            "viterbi_is",
        ),
        ("paths", "core/viterbi.hpp", "same = same && path[k] == path[0]", "same = same && true", "final"),
        (
            "paths",
            "core/viterbi.hpp",
            "agree = agree && origin[heads[k]]",
            "agree = agree || origin[heads[k]]",
            "final",
        ),
        (
            "paths",
            "core/posteriors.hpp",
            "exp(log_gamma) * (given[j] - log_gamma)",
            "exp(log_gamma) * given[j]",
            "entropy",
        ),
        (
            "paths",
            "core/posteriors.hpp",
            "const auto term = share * (splat<C>(own[i])",
            "const auto term = share * (splat<C>(0.0)",
            "entropy",
        ),
        ("paths", "core/posteriors.hpp", "lattice.starts[t] ? splat<C>(0.0) :", "false ? splat<C>(0.0) :", "pairs"),
    ],
    ("core/test_vectors",): [
        (
            "vectors",
            "core/vectors.hpp",
            "at.put(gs, fma(twice, here, at.get(gs) - count))",
            "at.put(gs, fma(twice, here, at.get(gs)))",
            "penalty",
        ),
        (
            "vectors",
            "core/vectors.hpp",
            "const Lanes there = above - below;",
            "const Lanes there = above + below;",
            "orthant",
        ),
    ],
    ("features/test_parts",): [
        ("parts", "features/part_encoder", "max(numberer.left, 1)", "1", "one_encoding and sentences"),
        ("parts", "features/part_encoder", "pieces[-1], numberer.right", "pieces[-1], 0", "one_encoding and sentences"),
        ("parts", "features/part_merge", "codes if ids is None else ids[codes]", "codes", "one_encoding and sentences"),
        ("parts", "chain/builder", "[ids] += counts", "[ids] = counts", "one_encoding and min_count"),
        ("parts", "readers/pieces", "while across and file and", "while False and", "one_encoding and files"),
    ],
    ("features/test_numbers",): [
        ("scales", "features/numbers", "total(a * b, 55)", "total(a * b, 54)", "exact"),
    ],
    ("exchange/test_foreign_models",): [
        ("exchange", "exchange/cqdb", "return c, a, b", "return a, b, c", "hash"),
        ("exchange", "exchange/cqdb", "slot = (value >> 8) % size", "slot = (value >> 9) % size", "crfsuite"),
        ("exchange", "exchange/crfsuite_binary", "first + np.arange(", "np.arange(", "crfsuite"),
        ("exchange", "exchange/wapiti_text", "& _LABEL, n_labels, 0)", "& _PAIR, n_labels, 0)", "wapiti"),
        ("exchange", "exchange/wapiti_text", "done = place[name] + 1", "done = place[name]", "comes_back"),
        ("exchange", "exchange/patterns", "transitions[line] += 1", "transitions[line] = 1", "crfpp"),
        ("exchange", "exchange/patterns", "lower = bool(steps) and", "lower = bool(steps) or", "comes_back"),
        ("exchange", "exchange/crfpp_binary", "_BYTES[c - 1]", "_BYTES[c - 2]", "crfpp"),
        ("exchange", "exchange/crfpp", "content.weights * content.cost_factor", "content.weights * 1.0", "crfpp"),
    ],
    ("engines/test_short_sequences",): [
        ("stream", "engines/stream", "self._finish(belief.posterior())\n", "self._pending.clear()\n", "pending"),
        (
            "stream",
            "engines/stream",
            "        self._collect(gamma)\n        self._certificate = None\n",
            "        self._collect(gamma)\n",
            "pending",
        ),
        ("forward", "core/forward.hpp", "room_.data() + c * n_labels_", "room_.data() + c", "tile"),
        ("sequences", "core/sequences.hpp", "gamma, pairs, nullptr, sink, low)", "gamma, pairs, nullptr, sink, 0)", ""),
        ("sequences", "core/sequences.hpp", "!starts[high]) --high", "!starts[high]) break", ""),
    ],
    ("engines/test_weights",): [
        ("every engine", "engines/block_pass", "gamma *= self.block.weights[-1]", "pass", "enumeration and 3"),
        ("every engine", "engines/block_pass", "gamma = self.passed.entry.doubles()", "pass", "length and 2-"),
        ("every engine", "engines/potentials", "(ends, self.never_last)", "(ends, self.never_last[:0])", "masks"),
        (
            "backward",
            "core/backward.hpp",
            "weighted && t > 0 ? lattice.weights[t - 1] : 1.0;\n      c",
            "1.0;\n      c",
            "9",
        ),
        (
            "backward",
            "core/backward.hpp",
            "width, weighted && t > 0 ? lattice.weights[t - 1] : 1.0)",
            "width, 1.0)",
            "9",
        ),
        ("backward", "core/backward.hpp", "gamma[i] *= weight", "gamma[i] *= 1.0", "enumeration and edge"),
        ("sequences", "core/sequences.hpp", "scale.add(weight * own.total)", "scale.add(own.total)", "length and 9"),
        ("sequences", "core/sequences.hpp", "weight * (last[j] / total)", "last[j] / total", "length and 9"),
        ("sequences", "core/sequences.hpp", "&& weights[end] == weights[low]", "", "length and 9"),
    ],
    ("engines/test_rounding",): [
        ("every engine", "engines/rounding", "    if wrong.any():\n", "    if False:\n", "overflow"),
        ("every engine", "engines/rounding", " + promise.certificates *", " + 0 *", "tolerance"),
        ("every engine", "engines/rounding", "self.n_labels + _LOCAL + scores", "0.01", "made_of"),
        ("every engine", "engines/log_likelihood", "min(likelihood, 0.0)", "likelihood", "positive"),
        ("wide", "core/forward.hpp", "row[width + j] -= top", "row[width + j] -= 0.5 * top", "veto"),
        ("wide", "core/forward.hpp", " * power(k - top);", ";", "digits"),
        ("wide", "core/wide.hpp", "(x - k * LN2_HIGH) - k * LN2_LOW", "x - k * LN2_HIGH", "veto"),
        ("scores", "core/scores.hpp", "    store(counts.dense.data + k, splat<4>(0.0));\n", "", "digits"),
        ("scores", "core/scores.hpp", "k < counts.hot.size", "k < 0", "the_same_way"),
    ],
    ("inference/test_stream_window",): [
        ("windows", "inference/stream_window", "= following\n", "= self._new_certificate()\n", "soon"),
        ("windows", "inference/stream_window", "decoder.delta[never] = -np.inf", "pass", "masks"),
        ("windows", "inference/stream_window", "lattice.alpha[-1] = self._decoder.belief.values", "pass", "three"),
        (
            "certificate",
            "core/certificate.hpp",
            "gamma);\n      return t - 1;\n    }\n    f",
            "gamma);\n      return t;\n    }\n    f",
        ),
    ],
    ("readers/test_items",): [
        ("items", "readers/sequences", "or not (kept and listed):", ":", "again_and_again"),
        ("items", "jit/item_kernels", "1.0 if thing == types[_TRUE] else 0.0", "1.0", "definition"),
        ("items", "jit/item_kernels", "holder, place, given =", "holder, place, _ =", "definition"),
        ("items", "readers/sequences", "(texts.ends + self.attributes)", "texts.ends", "both_ways"),
    ],
    ("sklearn/test_predictions",): [
        ("items", "jit/marginal_kernels", "marginals[t, j]):", "marginals[t, 0]):", "dicts"),
    ],
    ("inference/test_sentence",): [
        ("items", "jit/item_id_kernels", "kept += ids[k] >= 0", "kept += ids[k] > 0", "rows_pushed"),
        ("items", "core/sentence.hpp", "] = -INFINITE;\n  return", "] = 0.0;\n  return", "results_are"),
    ],
    ("inference/test_explanation",): [
        ("explanations", "inference/explanation", "self._before[t] + self._after[t]", "self._before[t].copy()"),
        ("explanations", "inference/explanation", "paths = edges + (states + best[t])", "paths = edges + states"),
        ("explanations", "inference/explanation", "(s, s + 1) if s == t else", "(s,) if s == t else"),
    ],
    ("readers/test_jsonl",): [
        ("JSON lines", "readers/jsonl", "(lines.objects, prepend=-1) > 1", "(lines.objects, prepend=-1) > 2"),
        ("JSON lines", "readers/jsonl", "if table.num_rows != lines.objects.size:", "if False:"),
    ],
    ("engines/test_sums",): [
        ("sum tree", "engines/sums", "adjacent and self.first % (2 * self.leaves) == 0", "adjacent"),
        ("sum tree", "engines/parallel", "cut(first + len(cuts))", "Cut(places[first + len(cuts)])", "division"),
    ],
    ("test_array_functions",): [
        ("arrays", "arrays", "np.where(constraints.last, last, -np.inf)", "last", "constraints_forbid"),
        ("arrays", "arrays", "allowed[given < 0] = True", "allowed[given < 0] = False", "unknown_labels"),
        ("arrays", "arrays", "add_gradients(known, again, ones, total)", "", "finite_differences"),
        ("arrays", "inference/emission_paths", "top[s] + own", "own", "k_best"),
    ],
}
"""By the files whose tests must notice: what breaks, the file, the line, the broken line, and which of the tests."""
MUTANTS = [
    Mutant(breaks, source_of(file), line, broken, "".join(tests), tuple(f"{name}.py" for name in names))
    for names, changes in _CHANGES.items()
    for breaks, file, line, broken, *tests in changes
]
QUICK = {mutant.breaks: mutant for mutant in reversed(MUTANTS)}.values()  # the first of each algorithm
CONTROLS = [
    MUTANTS[0]._replace(breaks="nothing", file=file, line=line, broken=line, tests="three or stream")
    for file, line in (("chainfold/engines/problem.py", "class Problem:"), ("core/forward.hpp", "#pragma once"))
]


def run(mutant: Mutant, folders: Queue[Path]) -> tuple[int, str]:
    """The exit code of the tests on the mutant, and what they printed."""
    folder = folders.get()
    path = folder / mutant.file
    text = path.read_text()
    try:
        assert text.count(mutant.line) == 1, f"{mutant.line!r} stands {text.count(mutant.line)} times in {mutant.file}"
        path.write_text(text.replace(mutant.line, mutant.broken))
        if mutant.is_core:
            compile_core(folder)
        files = [str(TESTS / name) for name in mutant.files]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        command += ["-k", mutant.tests] if mutant.tests else []
        environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{TESTS}", "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"CHAINFOLD_CORE": LEVEL} if mutant.is_core else {}
        done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
    finally:
        path.write_text(text)
        folders.put(folder)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def no_process_is_left() -> None:
    """While one mutant is looked at, others run."""


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Mutant, Future[tuple[int, str]]]]:
    """The chosen mutants, two at a time, each in a copy; those of kernels and of the core last: they are compiled anew.

    The kernels that were compiled before are copied too: they are used where no source of a kernel is changed.
    """
    items: list[Any] = [item for item in request.session.items if is_of_a_mutant(item)]
    chosen = [item.callspec.params["mutant"] for item in items]
    folders: Queue[Path] = Queue()
    first, second = (tmp_path_factory.mktemp("mutant") for _ in range(2))
    copy_package(first)
    if COMMANDS.exists() and any(mutant.is_core for mutant in chosen):
        compile_core(first)
    shutil.copytree(first, second, dirs_exist_ok=True)
    folders.put(first)
    folders.put(second)
    in_order = sorted((*CONTROLS, *chosen), key=lambda mutant: (mutant.is_core, "kernels" in mutant.file))
    with ThreadPoolExecutor(2) as pool:
        yield {mutant: pool.submit(run, mutant, folders) for mutant in in_order}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.file)
def test_the_package_unchanged_passes(control: Mutant, outcomes: dict[Mutant, Future[tuple[int, str]]]) -> None:
    code, output = outcomes[control].result()
    assert code == PASSED, output


def is_of_a_mutant(item: Any) -> bool:
    return getattr(item, "originalname", "") == "test_a_broken_engine_turns_the_suite_red"


@pytest.mark.parametrize(
    "mutant",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in MUTANTS],
    ids=lambda mutant: f"{mutant.breaks}: {mutant.broken.strip() or 'not ' + mutant.line.strip()}",
)
def test_a_broken_engine_turns_the_suite_red(mutant: Mutant, outcomes: dict[Mutant, Future[tuple[int, str]]]) -> None:
    if mutant.is_core and not COMMANDS.exists():
        pytest.skip("the core was not built in build/dev; run make core")
    code, output = outcomes[mutant].result()
    assert code == FAILED, f"the tests did not notice:\n{output}"


def test_every_mutant_has_its_line() -> None:
    sources = PACKAGE.parent
    counts = {(mutant.file, mutant.line): (sources / mutant.file).read_text().count(mutant.line) for mutant in MUTANTS}
    assert {place for place, count in counts.items() if count != 1} == set()


def test_every_engine_has_a_mutant() -> None:
    others = {
        "every engine",
        "sum tree",
        "windows",
        "items",
        "exchange",
        "explanations",
        "JSON lines",
        "parts",
        "scales",
        "forward",
        "backward",
        "scores",
        "certificate",
        "sequences",
        "wide",
        "reference",
        "paths",
        "vectors",
        "arrays",
    }
    assert {mutant.breaks for mutant in MUTANTS} - others == set(ENGINES)
