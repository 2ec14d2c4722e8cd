"""Break each algorithm on purpose, once, and see the suite go red.

Each mutant is a copy of the package with one line changed; the tests against the oracle run on it in a process of
their own and must fail. The copy without a change must pass, or a failure would prove nothing. One mutant of each
engine belongs to the quick tests; the others are slow.
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

import chainfold
from chainfold.engines.registry import ENGINES

TESTS = Path(__file__).parent
PASSED, FAILED = 0, 1


class Mutant(NamedTuple):
    """One line changed, and the tests that must notice."""

    breaks: str
    file: str
    line: str
    broken: str
    tests: str = ""
    files: tuple[str, ...] = ("engines/test_engines_oracle.py", "engines/test_never_forget.py")


_SHORT = ("engines/test_short_sequences.py",)
_WEIGHTS, _WINDOW, _ROUNDING = (
    ("engines/test_weights.py",),
    ("inference/test_stream_window.py",),
    ("engines/test_rounding.py",),
)
_EXCHANGE = ("exchange/test_foreign_models.py",)
_PARTS = ("features/test_parts.py",)
MUTANTS = [
    *(
        Mutant("parts", f"{file}.py", line, broken, tests, _PARTS)
        for file, line, broken, tests in (
            ("features/part_encoder", "max(numberer.left, 1)", "1", "one_encoding and sentences"),
            ("features/part_encoder", "pieces[-1], numberer.right", "pieces[-1], 0", "one_encoding and sentences"),
            ("features/part_merge", "codes if ids is None else ids[codes]", "codes", "one_encoding and sentences"),
            (
                "chain/builder",
                "self._counts[ids] += counts",
                "self._counts[ids] = counts",
                "one_encoding and min_count",
            ),
            ("readers/pieces", "while across and file and", "while False and", "one_encoding and files"),
        )
    ),
    Mutant(
        "scales", "features/numbers.py", "total(a * b, 55)", "total(a * b, 54)", "exact", ("features/test_numbers.py",)
    ),
    *(
        Mutant("exchange", f"exchange/{file}.py", line, broken, tests, _EXCHANGE)
        for file, line, broken, tests in (
            ("cqdb", "return c, a, b", "return a, b, c", "hash"),
            ("cqdb", "slot = (value >> 8) % size", "slot = (value >> 9) % size", "crfsuite"),
            ("crfsuite_binary", "first + np.arange(", "np.arange(", "crfsuite"),
            ("wapiti_text", "& _LABEL, n_labels, 0)", "& _PAIR, n_labels, 0)", "wapiti"),
            ("wapiti_text", "done = place[name] + 1", "done = place[name]", "comes_back"),
            ("patterns", "transitions[line] += 1", "transitions[line] = 1", "crfpp"),
            ("patterns", "lower = bool(steps) and", "lower = bool(steps) or", "comes_back"),
            ("crfpp_binary", "_BYTES[c - 1]", "_BYTES[c - 2]", "crfpp"),
            ("crfpp", "content.weights * content.cost_factor", "content.weights * 1.0", "crfpp"),
        )
    ),
    Mutant("fb", "engines/fb.py", "block_pass = self._passes.pop()", "block_pass = self._passes.pop(0)", "fb"),
    Mutant("fb-recompute", "engines/fb_recompute.py", "passed.alpha.copy()", "passed.alpha", "recompute"),
    Mutant("fb-spill", "system/spill.py", "file.seek(begin)", "file.seek(begin + 8)", "fb-spill"),
    Mutant("checkpoint", "engines/checkpoint.py", "self._entries.pop()", "self._entries.pop(0)", "checkpoint"),
    Mutant("fb-log", "engines/published/fb_log.py", "beta[positions] = 0.0", "beta[positions] = 1.0", "pairs and log"),
    Mutant("fb-log", "kernels/expectation.py", "+ u[t, i, j] + beta[t + 1, j]", "+ u[t, i, j]", "pairs and log"),
    Mutant(
        "fb-log-recompute",
        "engines/published/fb_log_recompute.py",
        "self._kept.pop()",
        "self._kept.pop(0)",
        "log-recompute",
    ),
    Mutant("fb-log-spill", "engines/published/log_domain.py", "beta[size] = beta[0]", "beta[size] = 0.0", "log-spill"),
    Mutant(
        "emp",
        "engines/published/log_domain.py",
        "signed_total(z, np.ones(z.size, np.int8))",
        "signed_total(z[:1], np.ones(1, np.int8))",
        "emp",
    ),
    Mutant("emp", "kernels/expectation.py", "u[i, j] + z[i] + ln_f", "u[i, j] + ln_f", "emp"),
    Mutant(
        "emp", "kernels/expectation.py", "return a + math.log1p(-math.exp(b - a)), sign_a", "return a, sign_a", "emp"
    ),
    Mutant(
        "forward-only",
        "engines/published/log_domain.py",
        "close(tally, log_z, h, sign, layout.size)",
        "close(tally, log_z, h[:, :1], sign[:, :1], layout.size)",
        "forward",
    ),
    Mutant(
        "forward-only", "kernels/expectation.py", "= h[m, place], sign[m, place]", "= h[m, 0], sign[m, 0]", "forward"
    ),
    Mutant("stream", "engines/stream.py", "            self._carry(block_pass)\n", "            pass\n", "stream"),
    Mutant(
        "stream",
        "engines/stream.py",
        "            self._finish(belief.posterior())\n",
        "            self._pending.clear()\n",
        "pending",
        ("engines/test_short_sequences.py",),
    ),
    Mutant(
        "stream",
        "engines/stream.py",
        "        self._collect(gamma)\n        self._certificate = None\n",
        "        self._collect(gamma)\n",
        "pending",
        ("engines/test_short_sequences.py",),
    ),
    Mutant("stream", "engines/stream.py", 'einsum("fe,em->fm"', 'einsum("ef,em->fm"', "stream"),
    Mutant(
        "stream",
        "engines/stream.py",
        "self._collect(self._backward(block_pass, certificate.gamma))",
        "self._backward(block_pass, certificate.gamma)",
        "forget",
    ),
    Mutant("stream", "kernels/certificate.py", "high - low <= tolerance * low", "high - low <= 1e-3 * low", "stream"),
    Mutant(
        "stream",
        "kernels/certificate.py",
        "if number(alpha, f) > 0.0:",
        "if number(alpha, f) > 0.0 and number(alpha, n_labels + -n_labels % WIDTH + f) > -1074.0:",
        "stream",
    ),
    Mutant("parallel", "engines/parallel.py", "if not past.known or past.value", "if past.value", "parallel"),
    Mutant("parallel", "engines/parallel.py", "if future.known else None", "if True else None", "cut"),
    Mutant("parallel", "engines/certificate.py", "np.where(start.possible(), 0.0, np.inf)", "None", "past"),
    Mutant("every engine", "kernels/forward.py", "if watch and (min_lanes", "if False and (min_lanes", "reversal"),
    Mutant("every engine", "kernels/few.py", "if watch and (min_lanes", "if False and (min_lanes", "reversal"),
    Mutant("every engine", "kernels/few.py", "ahead = product(previous, square)", "ahead = one"),
    Mutant("every engine", "kernels/few.py", "            if not number(starts, t):", "            if t > 0:"),
    Mutant("every engine", "kernels/few.py", "current = current / spread_few(scale, few)", "pass", "parallel"),
    Mutant("every engine", "kernels/few.py", "lane(peak, k * len(few))", "0.0", "fb"),
    Mutant("every engine", "kernels/few.py", "lane(peaks, k))", "0.0)", "fb"),
    Mutant("every engine", "kernels/few.py", "(high - t == TILE or t == 1)", "high - t == TILE", "fb"),
    Mutant("every engine", "kernels/few.py", "fma(spread_few(entry[i], few), ", "fma(zero, ", "stream"),
    Mutant("every engine", "kernels/few.py", "spread_few(number(block_rows.value, k), few)", "spread_few(1.0, few)"),
    Mutant("every engine", "kernels/few.py", "number(counts.sparse, entry) + share", "share", "sparse"),
    Mutant("stream", "kernels/rows_of_few.py", "builder.fmul(tolerance, low))", "builder.fmul(low.type(1e-3), low))"),
    Mutant("stream", "kernels/few.py", "certified, looked = True, t + 1", "certified, looked = True, t", "stream"),
    Mutant("every engine", "kernels/forward.py", "c * n_labels + i * columns", "i * width + c", "tile", _SHORT),
    Mutant("every engine", "kernels/forward.py", "            ahead = one\n", "            ahead = zero\n"),
    Mutant(
        "every engine",
        "kernels/backward.py",
        "held = held * inverse",
        "held = held / inverse",
        "fb",
    ),
    Mutant("every engine", "kernels/forward.py", "current = current / splat(scale)", "pass", "parallel"),
    Mutant("every engine", "kernels/forward.py", "shape[0] + _AHEAD)", "shape[0])", "fb"),
    Mutant("every engine", "kernels/forward.py", "set_number(predicted, row, peak)", "pass", "fb"),
    Mutant(
        "every engine", "kernels/simd.py", "rows.type(i), rows), more, done)", "rows.type(i + 1), rows), more, done)"
    ),
    Mutant(
        "every engine",
        "kernels/backward.py",
        "number(lattice.weights, t - 1) if weighted and t > 0 else 1.0",
        "1.0",
        "length and 9",
        _WEIGHTS,
    ),
    Mutant("every engine", "kernels/backward.py", "(high - t == TILE or t == 1)", "high - t == TILE", "fb"),
    Mutant("every engine", "kernels/backward.py", "value = splat(number(block_rows.value, k))", "value = splat(1.0)"),
    Mutant("every engine", "kernels/backward.py", "fma(splat(entry[i]), ", "fma(splat(0.0), ", "stream"),
    Mutant("every engine", "kernels/scores.py", "block.edge_ids[k] * size + c), score)", "c), score)", "edge"),
    Mutant("every engine", "kernels/scores.py", "return low if low < end", "return -1 if low < end", "sparse"),
    Mutant(
        "every engine",
        "kernels/backward.py",
        "number(counts.sparse, entry) + share",
        "number(counts.sparse, entry) + 0.0 * share",
        "sparse",
    ),
    *(
        Mutant("every engine", file, line, broken, tests, _WEIGHTS)
        for file, line, broken, tests in (
            ("engines/block_pass.py", "gamma *= self.block.weights[-1]", "pass", "enumeration and 3"),
            ("engines/block_pass.py", "gamma = self.passed.entry.doubles()", "pass", "length and 2-"),
            ("kernels/backward.py", "weigh(gamma, number(lattice.weights, t - 1), rows.tiles)", "pass", "length and 9"),
            ("kernels/backward.py", "gamma[i] *= lattice.weights[t - 1]", "pass", "enumeration and edge"),
            ("kernels/few.py", "spread_few(weight, few) * (previous", "(previous", "length and 2-"),
            ("kernels/few.py", "held = spread_few(number(weights, t - 1), few) * held", "pass", "length and 2-"),
            ("kernels/whole_sequences.py", "weight * scale[0]", "scale[0]", "length and 9"),
        )
    ),
    Mutant(
        "every engine",
        "engines/potentials.py",
        "(ends, self.never_last)",
        "(ends, self.never_last[:0])",
        "masks",
        _WEIGHTS,
    ),
    Mutant(
        "every engine", "kernels/forward.py", "row[width + j] -= top", "row[width + j] -= 0.5 * top", "veto", _ROUNDING
    ),
    Mutant("every engine", "kernels/forward.py", "* power(k - top)\n", "\n", "digits", _ROUNDING),
    Mutant(
        "every engine", "kernels/scores.py", "        store(counts.dense, k, splat(0.0))\n", "", "digits", _ROUNDING
    ),
    Mutant(
        "every engine", "kernels/scores.py", "range(0, counts.hot.size, WIDTH)", "range(0)", "the_same_way", _ROUNDING
    ),
    Mutant("every engine", "kernels/wide.py", "- k * LN2_LOW, -1.0)", ", -1.0)", "veto", _ROUNDING),
    Mutant("every engine", "engines/rounding.py", "    if wrong.any():\n", "    if False:\n", "overflow", _ROUNDING),
    Mutant(
        "every engine",
        "engines/rounding.py",
        "sums + promise.certificates * math.log1p(tolerance)",
        "sums",
        "tolerance",
        _ROUNDING,
    ),
    Mutant("every engine", "engines/rounding.py", "self.n_labels + _LOCAL + scores", "0.01", "made_of", _ROUNDING),
    Mutant("every engine", "engines/log_likelihood.py", "min(likelihood, 0.0)", "likelihood", "positive", _ROUNDING),
    Mutant(
        "windows",
        "inference/stream_window.py",
        "self._certificate = following\n",
        "self._certificate = self._new_certificate()\n",
        "soon",
        _WINDOW,
    ),
    Mutant("windows", "inference/stream_window.py", "decoder.delta[never] = -np.inf", "pass", "masks", _WINDOW),
    Mutant(
        "windows",
        "inference/stream_window.py",
        "lattice.alpha[-1] = self._decoder.belief.values",
        "pass",
        "three",
        _WINDOW,
    ),
    Mutant("windows", "kernels/viterbi.py", "            return t + 1\n", "            return t\n", "soon", _WINDOW),
    Mutant(
        "items",
        "readers/sequences.py",
        "elif batch.items >= _ITEMS or not (kept and listed):",
        "elif batch.items >= _ITEMS:",
        "again_and_again",
        ("readers/test_items.py",),
    ),
    Mutant(
        "items",
        "readers/item_kernels.py",
        "1.0 if thing == types[_TRUE] else 0.0",
        "1.0",
        "definition",
        ("readers/test_items.py",),
    ),
    Mutant(
        "items",
        "readers/item_kernels.py",
        "holder, place, given = levels[depth, 0], levels[depth, 1], levels[depth, 2]",
        "holder, place = levels[depth, 0], levels[depth, 1]",
        "definition",
        ("readers/test_items.py",),
    ),
    Mutant(
        "items",
        "readers/sequences.py",
        "self._ends += (texts.ends + self.attributes).tolist()",
        "self._ends += texts.ends.tolist()",
        "both_ways",
        ("readers/test_items.py",),
    ),
    Mutant(
        "items",
        "sklearn/marginal_kernels.py",
        "marginals[t, j]):",
        "marginals[t, 0]):",
        "dicts",
        ("sklearn/test_predictions.py",),
    ),
    Mutant(
        "items",
        "features/item_id_kernels.py",
        "kept += ids[k] >= 0",
        "kept += ids[k] > 0",
        "results_are",
        ("inference/test_sentence.py",),
    ),
    Mutant(
        "items",
        "inference/sentence.py",
        "p.never_first, p.never_last)",
        "p.never_last, p.never_first)",
        "results_are",
        ("inference/test_sentence.py",),
    ),
    Mutant(
        "explanations",
        "inference/explanation.py",
        "through = self._before[t] + self._after[t]",
        "through = self._before[t].copy()",
        "",
        ("inference/test_explanation.py",),
    ),
    Mutant(
        "explanations",
        "inference/explanation.py",
        "paths = edges + (states + best[t])",
        "paths = edges + states",
        "",
        ("inference/test_explanation.py",),
    ),
    Mutant(
        "explanations",
        "inference/explanation.py",
        "(s, s + 1) if s == t else",
        "(s,) if s == t else",
        "",
        ("inference/test_explanation.py",),
    ),
    Mutant(
        "JSON lines",
        "readers/jsonl.py",
        "starts = np.diff(lines.objects, prepend=-1) > 1",
        "starts = np.diff(lines.objects, prepend=-1) > 2",
        "",
        ("readers/test_jsonl.py",),
    ),
    Mutant(
        "JSON lines",
        "readers/jsonl.py",
        "if table.num_rows != lines.objects.size:",
        "if False:",
        "",
        ("readers/test_jsonl.py",),
    ),
    Mutant(
        "sum tree",
        "engines/sums.py",
        "adjacent and self.first % (2 * self.leaves) == 0",
        "adjacent",
        "",
        ("engines/test_sums.py",),
    ),
    Mutant(
        "sum tree",
        "engines/parallel.py",
        "cuts.append(cut(first + len(cuts)))",
        "cuts.append(Cut(places[first + len(cuts)]))",
        "division",
        ("engines/test_sums.py",),
    ),
]
QUICK = {mutant.breaks: mutant for mutant in reversed(MUTANTS)}.values()  # the first of each engine
CONTROL = Mutant("nothing", "engines/problem.py", "class Problem:", "class Problem:", "three or stream")


def run(mutant: Mutant, folders: Queue[Path]) -> tuple[int, str]:
    """The exit code of the tests on the mutant, and what they printed."""
    folder = folders.get()
    path = folder / "chainfold" / mutant.file
    text = path.read_text()
    try:
        assert text.count(mutant.line) == 1, f"{mutant.line!r} stands {text.count(mutant.line)} times in {mutant.file}"
        path.write_text(text.replace(mutant.line, mutant.broken))
        files = [str(TESTS / name) for name in mutant.files]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        command += ["-k", mutant.tests] if mutant.tests else []
        environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{TESTS}", "PYTHONDONTWRITEBYTECODE": "1"}
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
    """The chosen mutants, two at a time, each in a copy; those of kernels last, since they are compiled anew.

    The kernels that were compiled before are copied too: they are used where no source of a kernel is changed.
    """
    items: list[Any] = [item for item in request.session.items if is_of_a_mutant(item)]
    chosen = [item.callspec.params["mutant"] for item in items]
    folders: Queue[Path] = Queue()
    for _ in range(2):
        folders.put(tmp_path_factory.mktemp("mutant"))
        package = Path(chainfold.__file__).parent
        shutil.copytree(package, folders.queue[-1] / "chainfold", ignore=shutil.ignore_patterns("*.pyc"))
    in_order = sorted((CONTROL, *chosen), key=lambda mutant: "kernels" in mutant.file)
    with ThreadPoolExecutor(2) as pool:
        yield {mutant: pool.submit(run, mutant, folders) for mutant in in_order}


def test_the_package_unchanged_passes(outcomes: dict[Mutant, Future[tuple[int, str]]]) -> None:
    code, output = outcomes[CONTROL].result()
    assert code == PASSED, output


def is_of_a_mutant(item: Any) -> bool:
    return getattr(item, "originalname", "") == "test_a_broken_engine_turns_the_suite_red"


@pytest.mark.parametrize(
    "mutant",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in MUTANTS],
    ids=lambda mutant: f"{mutant.breaks}: {mutant.broken.strip()}",
)
def test_a_broken_engine_turns_the_suite_red(mutant: Mutant, outcomes: dict[Mutant, Future[tuple[int, str]]]) -> None:
    code, output = outcomes[mutant].result()
    assert code == FAILED, f"the tests did not notice:\n{output}"


def test_every_mutant_has_its_line() -> None:
    package = Path(chainfold.__file__).parent
    counts = {(mutant.file, mutant.line): (package / mutant.file).read_text().count(mutant.line) for mutant in MUTANTS}
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
    }
    assert {mutant.breaks for mutant in MUTANTS} - others == set(ENGINES)
