"""`chainfold.torch` on a CUDA card: first that it is right, then how long it takes beside pytorch-crf and torch-struct.

    python -m experiments.bench.gpu_layer --out FOLDER [--peers FOLDER] [--seconds 440]

Needs torch, NumPy and a card; numba and Arrow are not imported. Peers are imported from where they are installed, or
from the folders of --peers. Results are written line by line to FOLDER/results.jsonl; a table is printed at the end.
What does not fit into the time is left out and named.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import torch
from chainfold.cuda.compiler import compiled
from chainfold.cuda.launch import CHUNK_FILES, CHUNK_LABELS
from chainfold.torch import CRF
from experiments.bench.gpu_checks import (
    SHAPES,
    Check,
    arguments_of,
    batch_of,
    cases,
    check,
    difference,
    machinery,
    module_of,
)
from experiments.bench.gpu_reference import chain_of, expected

Shape = tuple[int, int, int]
TABLE: tuple[Shape, ...] = (
    *((32, 128, 9), (32, 512, 23), (8, 4096, 23), (1, 100_000, 23), (64, 65_536, 5), (1, 10_000_000, 23)),
    *((8, 512, 64), (8, 512, 128), (4, 128, 512), (1, 100_000, 64), (1, 20_000, 256)),
)
ROUNDS = 40
MOST_BYTES = 1 << 30
"""Size of edges of positions' own that are measured"""
PEER_ROUNDS, PEER_SECONDS = 3, 5.0
"""Runs of pytorch-crf, which takes 0.7 ms for each position; only one where that takes longer."""
FILES = ("ordered", "counts", "sums", "rows", "viterbi", "ranked", "drawn", "entropy")


class Session:
    """The file of results, and the time that is left."""

    def __init__(self, folder: Path, seconds: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "results.jsonl").open("w")
        self._until = time.monotonic() + seconds
        self.left_out: list[str] = []

    def write(self, **result: Any) -> None:
        self._file.write(json.dumps(result) + "\n")
        self._file.flush()

    def has_time(self, name: str, seconds: float = 10.0) -> bool:
        if time.monotonic() + seconds < self._until:
            return True
        self.left_out.append(name)
        return False


def compile_all(session: Session) -> None:
    """The kernels of all shapes, several at a time: a compilation takes about a second."""
    major, minor = torch.cuda.get_device_capability()
    tasks = []
    for n in sorted({shape[2] for shape in (*SHAPES, *TABLE)}):
        for double in (("-DREAL_IS_DOUBLE",), ()):
            options = (f"-DN={n}", *double)
            if n <= CHUNK_LABELS:
                tasks += [(file, (*options, *edges)) for file in CHUNK_FILES for edges in ((), ("-DEDGES",))]
            tasks += [(file, options) for file in (*FILES, "best_chunks" if n <= CHUNK_LABELS else "blocks")]
    begin = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(compiled, file, 10 * major + minor, options) for file, options in tasks]:
            done.result()
    session.write(kind="compiled", files=len(tasks), seconds=time.monotonic() - begin)


def checks(session: Session) -> list[Check]:
    """The checks that do not hold."""
    wrong = []
    for result in machinery("cuda"):
        session.write(kind="check", name=result.name, error=result.error, limit=result.limit, holds=result.holds)
        if not result.holds:
            wrong.append(result)
    for case in cases():
        if not session.has_time(f"check {case}"):
            break
        for result in check(*case, "cuda"):
            session.write(kind="check", name=result.name, error=result.error, limit=result.limit, holds=result.holds)
            if not result.holds:
                wrong.append(result)
    for kind, length in (("plain", 100_000), ("cycle", 10_000), ("weak", 10_000)):
        if session.has_time(f"long {kind}", 40.0):
            for result in long_checks(kind, length):
                session.write(kind="check", name=result.name, error=result.error, limit=result.limit)
                if not result.holds:
                    wrong.append(result)
    return wrong


def long_checks(kind: str, length: int) -> Iterator[Check]:
    """One sequence in float32 against doubles."""
    batch = batch_of((1, length, 23), kind)
    places = np.arange(length)
    free, bound = (expected(chain_of(batch, 0, places, tags), keep_edges=False) for tags in (False, True))
    module = module_of(batch, kind, torch.float32, "cuda")
    given = arguments_of(batch, kind, torch.float32, "cuda")
    given["emissions"].requires_grad_()
    value = module.log_partition(given["emissions"])
    yield Check(f"log Z {kind} {length}", difference(value.detach().cpu().double() / free.log_z, np.ones(1)), 1e-6)
    module(**given).backward()
    gradient = given["emissions"].grad
    assert gradient is not None
    yield Check(f"gradient {kind} {length}", difference(gradient[0].cpu(), bound.states - free.states), 2e-6)


def bits(session: Session) -> bool:
    """Whether gradients are equal over 100 runs"""
    equal = True
    for shape in ((32, 128, 9), (2, 700, 23), (64, 2048, 5), (2, 60, 40)):
        batch = batch_of(shape, "plain")
        module = module_of(batch, "plain", torch.float32, "cuda")
        given = arguments_of(batch, "plain", torch.float32, "cuda")
        leaves = [given["emissions"].requires_grad_(), *module.parameters()]
        runs = [torch.autograd.grad(module(**given), leaves) for _ in range(100)]
        same = all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0], strict=True))
        session.write(kind="bits", shape=shape, equal=same)
        equal &= same
    return equal


def milliseconds(run: Callable[[], object]) -> float:
    """Until the card is done."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin)


def backward(value: torch.Tensor, leaf: torch.Tensor, *modules: torch.nn.Module) -> None:
    """A step's backward pass, after `zero_grad`."""
    leaf.grad = None
    for module in modules:
        module.zero_grad()
    value.backward()


def runs_of(shape: Shape) -> dict[str, Callable[[], object]]:
    """Runs to measure on a shape, by name; peers where they can be imported and have the time and the memory."""
    size, length, n = shape
    emissions = torch.randn(shape, device="cuda", requires_grad=True)
    tags = torch.randint(n, (size, length), device="cuda")
    module = CRF(n, batch_first=True).cuda()
    runs: dict[str, Callable[[], object]] = {
        "likelihood": lambda: backward(-module(emissions, tags), emissions, module),
        "log Z": lambda: backward(module.log_partition(emissions).sum(), emissions, module),
        "labels": lambda: module.labels(emissions),
    }
    if size * length <= 1 << 20:
        runs["decode"] = lambda: module.decode(emissions)
    struct = _torch_struct()
    if 4 * size * length * n * n <= MOST_BYTES:
        edges = torch.randn(*shape, n, device="cuda", requires_grad=True)
        runs["edges"] = lambda: backward(module.log_partition(emissions, edges=edges).sum(), edges, module)
        if struct is not None:
            turned = edges.detach()[:, 1:].transpose(2, 3).contiguous().requires_grad_()
            runs["torch-struct edges"] = lambda: backward(struct.LinearChainCRF(turned).partition.sum(), turned)
            runs["torch-struct labels"] = lambda: struct.LinearChainCRF(_potentials(module, emissions)).argmax
            runs["torch-struct"] = lambda: backward(
                struct.LinearChainCRF(_potentials(module, emissions)).partition.sum(), emissions, module
            )
    peer = _pytorch_crf(module)
    if peer is not None and length <= 100_000 and size * length * n <= 1 << 22:
        runs["pytorch-crf"] = lambda: backward(-peer(emissions, tags), emissions, peer)
        runs["pytorch-crf decode"] = lambda: peer.decode(emissions)
    return runs


def _pytorch_crf(module: CRF) -> Any:
    try:
        from torchcrf import CRF as Peer  # noqa: N811
    except ImportError:
        return None
    peer = Peer(module.num_tags, batch_first=True).cuda()
    peer.load_state_dict(module.state_dict())
    return peer


def _torch_struct() -> Any:
    try:
        import torch_struct
    except ImportError:
        return None
    return torch_struct


def _potentials(module: CRF, emissions: torch.Tensor) -> torch.Tensor:
    """Potentials for torch-struct: the next label before the previous one, the first scores in the first potential."""
    potentials = emissions[:, 1:, :, None] + module.transitions.T
    first = torch.zeros_like(potentials)
    first[:, 0] = emissions[:, 0, None, :]
    return potentials + first


def table(session: Session) -> list[dict[str, Any]]:
    """Milliseconds and megabytes of every run of every shape, peers in the same rounds."""
    rows = []
    for shape in TABLE:
        if not session.has_time(f"times {shape}", 25.0):
            continue
        torch.cuda.empty_cache()
        row: dict[str, Any] = {"shape": shape}
        for name, run in runs_of(shape).items():
            loops = name.startswith("pytorch-crf")
            if not session.has_time(f"{name} {shape}", 2e-3 * shape[1] if loops else 10.0):
                continue
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
            try:
                times = [milliseconds(run)]
            except torch.cuda.OutOfMemoryError:
                row[name] = None
                continue
            if times[0] < 1e3 * PEER_SECONDS or not loops:  # otherwise the first run counts
                times = [milliseconds(run) for _ in range(PEER_ROUNDS if loops else ROUNDS)]
            row[name], row[f"{name}, least"] = median(times), min(times)
            row[f"{name} MB"] = (torch.cuda.max_memory_allocated() - held) / 1e6
        session.write(kind="times", **row)
        rows.append(row)
    return rows


def overhead(session: Session) -> None:
    """Milliseconds of the host alone: calls are queued and not waited for."""
    for shape in ((32, 128, 9), (8, 4096, 23)):
        runs = runs_of(shape)
        for name in ("likelihood", "log Z"):
            for _ in range(20):
                runs[name]()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(50):
                runs[name]()
            queued = (time.perf_counter() - begin) / 50
            torch.cuda.synchronize()
            session.write(kind="overhead", shape=shape, run=name, milliseconds=1e3 * queued)


def kernels(session: Session) -> None:
    """Microseconds of each kernel, by torch's profiler."""
    from torch.profiler import ProfilerActivity, profile

    for shape in ((32, 128, 9), (32, 512, 23), (8, 4096, 23), (1, 10_000_000, 23), (8, 512, 64), (1, 100_000, 64)):
        if not session.has_time(f"profile {shape}", 15.0):
            continue
        run = runs_of(shape)["likelihood"]
        for _ in range(3):
            run()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(5):
                run()
            torch.cuda.synchronize()
        times = {event.key: event.device_time_total / 5 for event in profiler.key_averages()}
        session.write(kind="kernels", shape=shape, microseconds=times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peers", type=Path, nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=440.0)
    options = parser.parse_args()
    sys.path[:0] = [str(folder) for folder in options.peers]
    session = Session(options.out, options.seconds)
    session.write(kind="machine", card=torch.cuda.get_device_name(), torch=torch.__version__)
    compile_all(session)
    wrong, equal = checks(session), bits(session)
    print(f"checks that do not hold: {[result.name for result in wrong]}; equal bits: {equal}", flush=True)
    overhead(session)  # before the table: the host is warm then
    rows = table(session)
    kernels(session)
    for row in rows:
        shown = {name: round(value, 3) for name, value in row.items() if isinstance(value, float)}
        print("x".join(map(str, row["shape"])), json.dumps(shown))
    print(f"left out for want of time: {session.left_out}")
    return 1 if wrong or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
