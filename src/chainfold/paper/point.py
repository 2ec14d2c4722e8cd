"""One measurement in a fresh process: an engine on the first positions of a chain.

The chain is held in memory or read from disk; the kernels are loaded, or compiled, on two positions before the clock
starts. What is timed is one evaluation that counts no observed labels: the algorithm alone, which ends with ∇Z / Z.

The child prints its figures as JSON. It imports little before it has entered its memory limit.
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

from chainfold.errors import BadSetting, ChainfoldError
from chainfold.paper.limit import Entry, Limit, enter
from chainfold.paper.plan import Result
from chainfold.resident import resident

if TYPE_CHECKING:
    from chainfold.data.chain import Block, Chain, Source
    from chainfold.model import Model

FIGURES = (  # of a measured point, beside its seconds
    "peak_rss",
    "before_rss",
    "log_z",
    "gradient_sha256",
    "passes",
    "bytes_read",
    "major_faults",
    "swapped",
    "lookahead_mean",
    "lookahead_max",
    "carried_blocks",
    "predicted_bytes",
)
SEED = 1  # of a synthetic chain
_BLOCK = 65536  # positions that are copied at once


@dataclass(frozen=True)
class Point:
    """What to measure."""

    engine: str
    positions: int
    held: str  # "memory" or "disk"
    chain: str | None = None  # a stored chain, with a model
    model: str | None = None
    synthetic: tuple[int, int, int] | None = None  # labels, attributes, attributes a position, with the true weights

    def __post_init__(self) -> None:
        if (self.synthetic is None) != (self.chain is not None and self.model is not None):
            raise ChainfoldError("a point has a stored chain with a model, or a synthetic chain.")
        if self.held != "memory" and (self.held != "disk" or self.synthetic is not None):
            raise BadSetting("held", self.held, "memory, or disk where the chain is stored")


class Prefix:
    """The first positions of a source."""

    def __init__(self, source: Source, positions: int) -> None:
        if not 1 <= positions <= source.positions:
            raise BadSetting("positions", positions, f"from 1 to the {source.positions} of the chain")
        self._source = source
        self.positions = positions
        self.n_labels, self.n_attributes = source.n_labels, source.n_attributes
        self.n_edge_attributes, self.active, self.labelled = source.n_edge_attributes, source.active, source.labelled

    def block(self, low: int, high: int) -> Block:
        return self._source.block(low, high)


def measure(point: Point, limit: Limit | None = None, timeout: float | None = None) -> Result:
    """`outcome`, `reason`, `seconds` and FIGURES of a point, from a process of its own; no figures unless measured."""
    with limit.opened() if limit else nullcontext(Entry((), None)) as entry:
        asked = {"point": asdict(point), "limit": limit and limit.bytes, "group": entry.group}
        command = [*entry.prefix, sys.executable, "-m", "chainfold.paper.point", json.dumps(asked)]
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if point.chain is not None:  # what is spilled goes beside the chain: the usual place may be memory
            how["env"] = os.environ | {"TMPDIR": str(Path(point.chain).parent)}
        with subprocess.Popen(command, text=True, **how) as child:  # noqa: S603
            try:
                output, errors = child.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                return unmeasured("too long", f"it was stopped after {timeout:,.0f} seconds.")
            except BaseException:
                child.kill()
                raise
    return _outcome(point, limit, child.returncode, output, errors)


def unmeasured(outcome: str, reason: str) -> Result:
    """The result of a point that has no figures."""
    return {"outcome": outcome, "reason": reason, "seconds": None, **dict.fromkeys(FIGURES)}


def predicted_bytes(point: Point) -> int:
    """What the engine will keep, and the sequence where it is held in memory; about, as nothing is read."""
    model, source = _opened(point)
    entry = 4 + 8 * bool(getattr(source, "valued", False))
    sequence = round(point.positions * (13 + source.active * entry))
    return _predicted(point, model, source, sequence)


def hold(source: Source, positions: int) -> Chain:
    """The first positions in memory, filled block by block, so that nothing is held twice."""
    import numpy as np

    from chainfold.data.chain import Block, Chain, frozen
    from chainfold.engines.base import cut

    prefix, stretches = Prefix(source, positions), list(cut(0, positions, _BLOCK))
    entries = {"": 0, "edge_": 0}
    for low, high in stretches:
        block = prefix.block(low, high)
        for kind in entries:
            entries[kind] += _entries(block, kind)
    first = prefix.block(0, 1)
    sizes = {"labels": positions, "starts": positions, "weights": positions}
    for kind, size in entries.items():
        sizes |= {f"{kind}offsets": positions + 1, f"{kind}ids": size, f"{kind}values": size}
    arrays: dict[str, Any] = {
        name: np.empty(size if getattr(first, name).size or name.endswith("ids") else 0, getattr(first, name).dtype)
        for name, size in sizes.items()
    }
    filled = dict.fromkeys(entries, 0)
    for low, high in stretches:
        block = prefix.block(low, high)
        for name in ("labels", "starts", "weights"):
            if arrays[name].size:
                arrays[name][low:high] = getattr(block, name)
        for kind, begin in filled.items():
            offsets, end = getattr(block, f"{kind}offsets"), begin + _entries(block, kind)
            if not arrays[f"{kind}offsets"].size:
                continue
            arrays[f"{kind}offsets"][low : high + 1] = offsets - (offsets[0] - begin)
            for name in (f"{kind}ids", f"{kind}values"):
                if arrays[name].size:
                    arrays[name][begin:end] = getattr(block, name)[offsets[0] : offsets[-1]]
            filled[kind] = end
    return Chain(
        *Block(**{name: frozen(array, array.dtype) for name, array in arrays.items()}),
        n_labels=source.n_labels,
        n_attributes=source.n_attributes,
        n_edge_attributes=source.n_edge_attributes,
    )


def _entries(block: Block, kind: str) -> int:
    offsets = getattr(block, f"{kind}offsets")
    return int(offsets[-1] - offsets[0]) if offsets.size else 0


def _outcome(point: Point, limit: Limit | None, code: int, output: str, errors: str) -> Result:
    """What the child has said, or what has become of it."""
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        where = "there was no memory left" if limit is None else f"it needed more than the {limit.bytes / 1e9:.3g} GB"
        return unmeasured("killed", f"it was killed by the system, which means that {where}.")
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
    if asked["limit"] is not None:
        enter(asked["group"], asked["limit"])
    point = Point(**asked["point"])
    try:
        return {"outcome": "measured", "reason": None, **_measured(point)}
    except MemoryError:
        return unmeasured("killed", "it asked for more memory than the system gives.")


def _end_with_parent(parent: int) -> None:
    """A child whose parent was killed would only disturb whatever is measured next."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _measured(point: Point) -> Result:
    import gc
    import hashlib
    import resource

    from chainfold.evaluation import evaluate

    warm_up(point)
    if point.held == "disk":
        _forget(str(point.chain))
    model, source = _opened(point)
    held = hold(source, point.positions) if point.held == "memory" else None
    used = Prefix(source, point.positions) if held is None else held
    predicted = _predicted(point, model, source, 0 if held is None else held.block(0, point.positions).nbytes)
    if held is not None:
        del source
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, faults = resident("VmRSS"), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    begin = time.perf_counter()
    found = evaluate(model, used, point.engine, observe=False)
    seconds = time.perf_counter() - begin
    report = found.report
    return {
        "seconds": seconds,
        "peak_rss": resident("VmHWM"),
        "before_rss": before,
        "log_z": found.log_z,
        "gradient_sha256": hashlib.sha256(found.expected.astype("<f8").tobytes()).hexdigest(),
        "passes": report.passes,
        "bytes_read": report.bytes_read,
        "major_faults": resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults,
        "swapped": resident("VmSwap"),
        "lookahead_mean": report.lookahead_mean,
        "lookahead_max": report.lookahead_max,
        "carried_blocks": report.carried_blocks,
        "predicted_bytes": predicted,
    }


def _opened(point: Point) -> tuple[Model, Source]:
    from chainfold.data.store import StoredChain
    from chainfold.data.synthetic import SyntheticChain
    from chainfold.model import Layout, Model
    from chainfold.model_file import open_model

    if point.synthetic is not None:
        source = SyntheticChain(point.positions, *point.synthetic, seed=SEED)
        return Model(Layout.full(source.n_labels, source.n_attributes), source.true_weights()), source
    return open_model(str(point.model)), StoredChain(str(point.chain))


def warm_up(point: Point) -> None:
    """Compile the kernels, or load them, as `chainfold gradient` does."""
    from chainfold.data.chain import gather
    from chainfold.evaluation import evaluate

    model, source = _opened(point)
    evaluate(model, gather(source, positions=2), point.engine, block=1, observe=False)


def _forget(path: str) -> None:
    """Drop the file from the page cache, so that it is really read."""
    if hasattr(os, "posix_fadvise"):
        with Path(path).open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _predicted(point: Point, model: Model, source: Source, sequence: int) -> int:
    from chainfold.engines import ENGINES
    from chainfold.engines.base import Settings, Shape

    layout = model.layout
    shape = Shape(point.positions, layout.n_labels, layout.size, source.active, source.n_edge_attributes)
    kept = ENGINES[point.engine].cost(shape, Settings(observe=False)).memory
    return round(kept) + (sequence if point.held == "memory" else 0)


if __name__ == "__main__":
    try:
        print(json.dumps(_child(sys.argv[1]), allow_nan=False))
    except ChainfoldError as problem:
        sys.exit(str(problem))
