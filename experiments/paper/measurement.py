"""One measurement in a fresh process: an engine on the first positions of a chain.

The chain is held in memory or read from disk; the kernels are loaded, or compiled, on two positions before the clock
starts. What is timed is one evaluation that counts no observed labels: the algorithm alone, which ends with ∇Z / Z.

Under a memory limit the same is done within a `Pager`, which keeps to it. The child prints its figures as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainfold.errors import ChainfoldError
from chainfold.system.machine import resident
from experiments import ROOT
from experiments.ledger import Result

if TYPE_CHECKING:
    from chainfold.chain.block import Source
    from chainfold.engines.log_likelihood import Evaluation
    from chainfold.model.model import Model
    from experiments.paper.paging import Pager, Traffic

FIGURES = (  # of a measured point, beside its seconds
    "peak_rss",
    "before_rss",
    "log_z",
    "gradient_sha256",
    "passes",
    "cpu_seconds",
    "disk_read",  # bytes, as the system counts them
    "disk_written",
    "dropped",  # bytes that left memory to keep to the limit
    "resident",  # bytes of the tables and the sequence, at most, under a limit
    "predicted_bytes",
)
SEED = 1  # of a synthetic chain


@dataclass(frozen=True)
class Point:
    """A measurement: an engine, and the first positions of a chain."""

    engine: str
    positions: int
    held: str  # "memory" or "disk"
    chain: str | None = None  # a stored chain, with a model
    model: str | None = None
    synthetic: tuple[int, int, int] | None = None  # labels, attributes, attributes a position, with the true weights


def measure(point: Point, limit: int | None = None, timeout: float | None = None) -> Result:
    """`outcome`, `reason`, `seconds` and FIGURES of a point, from a process of its own; no figures unless measured.

    `limit` is in bytes, for what grows with the chain.
    """
    asked = json.dumps({"point": asdict(point), "limit": limit})
    command = [sys.executable, "-m", "experiments.paper.measurement", asked]
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    how["env"] = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    if point.chain is not None:  # what is spilled or paged goes beside the chain: the usual place may be memory
        how["env"]["TMPDIR"] = str(Path(point.chain).parent)
    with subprocess.Popen(command, text=True, **how) as child:
        try:
            output, errors = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            return unmeasured("too long", f"it was stopped after {timeout:,.0f} seconds.")
        except BaseException:
            child.kill()
            raise
    return _outcome(point, child.returncode, output, errors)


def unmeasured(outcome: str, reason: str) -> Result:
    """The result of a point that has no figures."""
    return {"outcome": outcome, "reason": reason, "seconds": None, **dict.fromkeys(FIGURES)}


def predicted_bytes(point: Point) -> int:
    """Bytes that the engine will keep, with the sequence where it is held in memory; about, as nothing is read."""
    model, source = _opened(point)
    entry = 4 + 8 * bool(getattr(source, "valued", False))
    sequence = round(point.positions * (13 + source.active * entry))
    return _predicted(point, model, source, sequence)


def _outcome(point: Point, code: int, output: str, errors: str) -> Result:
    """Result of a child that has ended."""
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return unmeasured("killed", "it was killed by the system, which means that there was no memory left.")
    what = f"{point.engine} on {point.positions:,} positions"
    if code < 0:
        raise ChainfoldError(f"{what} was ended by signal {-code}, {signal.strsignal(-code)}.")
    if code:
        last = (errors.strip().splitlines() or [f"it ended with status {code}."])[-1]
        raise ChainfoldError(f"{what}: {last}")
    result: Result = json.loads(output)
    return result


def _child(text: str) -> Result:
    """The figures, in this process."""
    asked = json.loads(text)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        return {"outcome": "measured", "reason": None, **_measured(Point(**asked["point"]), asked["limit"])}
    except MemoryError:
        return unmeasured("killed", "it asked for more memory than the system gives.")


def _end_with_parent(parent: int) -> None:
    """A child whose parent was killed would only disturb whatever is measured next."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _measured(point: Point, limit: int | None) -> Result:
    from experiments.paper.paging import Pager, traffic

    warm_up(point)
    if point.held == "disk":
        _forget(str(point.chain))
    with nullcontext() if limit is None else Pager(limit) as pager:
        figures, before = _timed(point, pager)
    moved = traffic().since(before)  # when what was never written has been thrown away
    return {**figures, "disk_read": moved.read, "disk_written": moved.written}


def _timed(point: Point, pager: Pager | None) -> tuple[Result, Traffic]:
    """The figures of one evaluation, and what had been read and written before it."""
    import gc
    import hashlib

    from experiments.paper.paging import clocks, traffic

    model, source = _opened(point)
    used, sequence = _source(point, source, pager)
    predicted = _predicted(point, model, source, sequence)
    del source
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, moved = resident("VmRSS"), traffic()
    dropped = pager.dropped if pager else 0
    begin = clocks() - (pager.looking if pager else 0.0)
    found = _evaluated(point, model, used, pager)
    seconds, busy = clocks() - (pager.looking if pager else 0.0) - begin
    if pager:
        pager.check()
    figures: Result = {
        "seconds": float(seconds),
        "peak_rss": resident("VmHWM"),
        "before_rss": before,
        "log_z": found.log_z,
        "gradient_sha256": hashlib.sha256(found.expected.astype("<f8").tobytes()).hexdigest(),
        "passes": found.report.passes,
        "cpu_seconds": float(busy),
        "dropped": pager.dropped - dropped if pager else 0,
        "resident": pager.peak if pager else None,
        "predicted_bytes": predicted,
    }
    return figures, moved


def _source(point: Point, source: Source, pager: Pager | None) -> tuple[Source, int]:
    """The chain as it is held, and the bytes that it takes there."""
    from chainfold.chain.batches import StoredChain
    from experiments.paper.memory_limited import PagedChain, UncachedChain
    from experiments.paper.prefix import Prefix, hold

    if isinstance(source, StoredChain) and point.held == "disk":
        return (UncachedChain(source, point.positions, pager) if pager else Prefix(source, point.positions)), 0
    if pager:
        within = PagedChain(source, point.positions, pager)
        return within, within.nbytes
    held = hold(source, point.positions)
    return held, held.block(0, point.positions).nbytes


def _evaluated(point: Point, model: Model, source: Source, pager: Pager | None) -> Evaluation:
    from chainfold.engines.log_likelihood import log_likelihood
    from experiments.paper.memory_limited import evaluate_limited

    if pager is None:
        return log_likelihood(model, source, point.engine, observe=False)
    return evaluate_limited(pager, model, source, point.engine)


def _opened(point: Point) -> tuple[Model, Source]:
    from chainfold.chain.batches import StoredChain
    from chainfold.chain.synthetic import SyntheticChain
    from chainfold.model.file import open_model
    from chainfold.model.layout import Layout
    from chainfold.model.model import Model

    if point.synthetic is not None:
        source = SyntheticChain(point.positions, *point.synthetic, seed=SEED)
        return Model(Layout.full(source.n_labels, source.n_attributes), source.true_weights()), source
    return open_model(str(point.model)), StoredChain(str(point.chain))


def warm_up(point: Point) -> None:
    """Compile the kernels, or load them, as `chainfold gradient` does."""
    from chainfold.chain.chain import gather
    from chainfold.engines.log_likelihood import log_likelihood

    model, source = _opened(point)
    log_likelihood(model, gather(source, positions=2), point.engine, block=1, observe=False)


def _forget(path: str) -> None:
    """Drop the file from the page cache, so that it is really read."""
    if hasattr(os, "posix_fadvise"):
        with Path(path).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _predicted(point: Point, model: Model, source: Source, sequence: int) -> int:
    from chainfold.engines.registry import engine_named
    from chainfold.engines.settings import Settings, Shape

    layout = model.layout
    shape = Shape(point.positions, layout.n_labels, layout.size, source.active, source.n_edge_attributes)
    kept = engine_named(point.engine).memory(shape, Settings(observe=False))
    return round(kept) + (sequence if point.held == "memory" else 0)


if __name__ == "__main__":
    try:
        print(json.dumps(_child(sys.argv[1]), allow_nan=False))
    except ChainfoldError as problem:
        sys.exit(str(problem))
