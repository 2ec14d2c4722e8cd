"""The PyTorch layer on the host beside pytorch-crf: a step of training, and decoding.

    python -m experiments.bench.torch_layer times THREADS ROUNDS BATCH LENGTH LABELS PEER
    python -m experiments.bench.torch_layer memory BATCH LENGTH LABELS

measure in a process of their own and say in JSON what was found; PEER is 1 where pytorch-crf is measured, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from chainfold.system.machine import resident
from experiments.bench import timing
from experiments.bench.findings import Cell, ResultTable, SectionResults, Target
from experiments.bench.section import Context, Section
from experiments.bench.timing import Times, each, interleaved, ratios

OURS, PEER = "chainfold.torch", "pytorch-crf"
STEP, DECODE = "forward and backward", "decode"
_MODULE = "experiments.bench.torch_layer"
_PEAK = Path("/proc/self/clear_refs")  # writing 5 to it lets the largest resident set begin anew
_MOST_FOR_PEER = 1_000_000  # emissions: beyond it, a step of pytorch-crf takes many seconds
_LEAST_SECONDS = 0.1  # what is shorter is repeated within a round


class Shape(NamedTuple):
    batch: int
    length: int
    labels: int

    @property
    def size(self) -> int:
        return self.batch * self.length * self.labels

    def __str__(self) -> str:
        return f"{self.batch} × {self.length:,} × {self.labels}"


SMALL, LONG = Shape(32, 128, 9), Shape(1, 10_000, 23)
SHAPES = [SMALL, Shape(32, 512, 23), Shape(8, 4096, 23), LONG, Shape(1, 100_000, 23), Shape(1, 1_000_000, 5)]
_BARS = {SMALL: 20.0, LONG: 100.0}


def run(context: Context) -> SectionResults:
    missing = [package for package, module in (("torch", "torch"), (PEER, "torchcrf")) if not _has(module)]
    if "torch" in missing:
        return SectionResults([], notes=["torch is not installed: nothing was measured."])
    shapes = [Shape(2, 16, 3)] if context.quick else SHAPES
    rows, memory, bars = list[list[Cell]](), list[list[Cell]](), list[Target]()
    for shape in shapes:
        beside = not missing and shape.size <= _MOST_FOR_PEER
        for threads in (1, 2):
            context.say(f"{shape}, {threads} threads")
            times = _told("times", threads, context.rounds, *shape, int(beside))
            for work in (STEP, DECODE):
                ours, theirs = times[f"{OURS}, {work}"], times.get(f"{PEER}, {work}")
                ratio = ratios(times, f"{PEER}, {work}", f"{OURS}, {work}")
                cells: list[Cell] = [each(ours, 1e3), each(theirs, 1e3) if theirs else None, ratio]
                rows.append([str(shape), threads, work, *cells])
                if shape in _BARS:
                    what = f"{PEER} / {OURS}, {shape}, {work}, threads: {threads}"
                    bars.append(Target(what, ratio, _BARS[shape]))
        if _PEAK.exists():
            beyond = _told("memory", *shape)["bytes_a_position"]
            memory.append([str(shape), beyond, 8.0 * (shape.labels + -shape.labels % 8)])
    columns = ["batch × length × labels", "threads", "what", f"{OURS}, ms", f"{PEER}, ms", "times as fast"]
    tables = [ResultTable("Time, float32", columns, rows)]
    if memory:
        columns = ["batch × length × labels", "bytes a position", "of a forward vector"]
        tables.append(ResultTable("Peak memory of a step beyond emissions and their gradient", columns, memory))
    return SectionResults(tables, bars, [f"{package} is not installed, and is left out." for package in missing])


def _has(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.origin is not None  # a folder of that name is no package


def _told(*arguments: object) -> dict[str, Any]:
    facts: dict[str, Any] = timing.told(_MODULE, *map(str, arguments))
    return facts


def _problem(shape: Shape) -> tuple[Any, Any, Any]:
    """A CRF, emissions that want a gradient, and tags."""
    import torch
    from chainfold.torch import CRF

    torch.manual_seed(0)
    emissions = torch.randn(*shape, requires_grad=True)
    return CRF(shape.labels, batch_first=True), emissions, torch.randint(shape.labels, shape[:2])


def _step(module: Any, emissions: Any, tags: Any) -> None:
    emissions.grad = None
    module.zero_grad()
    (-module(emissions, tags)).backward()


def _repeated(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def times(threads: int, rounds: int, shape: Shape, beside: bool) -> Times:
    """Seconds of each side, round by round."""
    import torch

    torch.set_num_threads(threads)
    ours, emissions, tags = _problem(shape)
    modules = {OURS: ours}
    if beside:
        from torchcrf import CRF

        modules[PEER] = CRF(shape.labels, batch_first=True)
        modules[PEER].load_state_dict(ours.state_dict())
    work = {
        f"{name}, {what}": call
        for name, module in modules.items()
        for what, call in (
            (STEP, lambda module=module: _step(module, emissions, tags)),
            (DECODE, lambda module=module: module.decode(emissions.detach())),
        )
    }
    often = {}
    for name, call in work.items():
        call()  # compiles
        often[name] = max(1, int(_LEAST_SECONDS / max(timing.timed(call), 1e-6)))
    runs = {name: lambda name=name, call=call: _repeated(call, often[name]) for name, call in work.items()}
    found = interleaved(runs, rounds)
    return {name: each(seconds, 1.0 / often[name]) for name, seconds in found.items()}


def bytes_a_position(shape: Shape) -> float:
    """Peak memory of a step beyond what there is before it and the gradient by the emissions."""
    _step(*_problem(Shape(2, 16, shape.labels)))  # compiles
    module, emissions, tags = _problem(shape)
    _PEAK.write_text("5")
    before = resident("VmRSS")
    _step(module, emissions, tags)
    beyond = resident() - before - int(emissions.nbytes)
    return beyond / (shape.batch * shape.length)


def main() -> None:
    what, *rest = sys.argv[1:]
    numbers = [int(text) for text in rest if text.isdigit()]
    facts: dict[str, Any]
    if what == "memory":
        facts = {"bytes_a_position": bytes_a_position(Shape(*numbers))}
    else:
        threads, rounds, *sizes, beside = numbers
        facts = dict(times(threads, rounds, Shape(*sizes), bool(beside)))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()


SECTION = Section(
    "torch",
    "The PyTorch layer",
    "`chainfold.torch.CRF` beside pytorch-crf on the CPU, in one process with as many threads for both: the log "
    "likelihood of a batch with its gradient, and decoding. A dash stands where a step of pytorch-crf takes many "
    "seconds. Memory is measured in a process of its own.",
    run,
)
