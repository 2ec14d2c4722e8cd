"""Tag and evaluate on a cluster: a task for each file, or for each run of sequences of a stored chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainfold.chain.any_chain import is_chain, open_chain
from chainfold.chain.batches import StoredChain, absolute
from chainfold.chain.block import Source
from chainfold.chain.parts import ChainInParts
from chainfold.dask.chains import ChainPlace, opened
from chainfold.dask.connection import connected
from chainfold.dask.encoding import names_of
from chainfold.dask.failure import returned
from chainfold.dask.rounds import TIMEOUT, Round, Task
from chainfold.engines.ranges import Ranges
from chainfold.errors import BadFile, ChainfoldError
from chainfold.features.for_model import ChainBlocks, blocks_for_model
from chainfold.inference.tag_files import compared, tag_to
from chainfold.metrics.count import Scores, joined_scores
from chainfold.model.model import Model, vocabulary_of_model
from chainfold.readers.inputs import Inputs
from chainfold.system.files import written_whole

if TYPE_CHECKING:
    from distributed import Client

_RUN = 1 << 21  # positions of a chain in a task
_LOOKED_AT = 65536  # at once, for the next start of a sequence


def tag(
    client: Client | str | None,
    model: Model,
    files: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    done: Callable[[str], None] | None = None,
    timeout: float = TIMEOUT,
    **options: Any,
) -> list[Path]:
    """Tag files on a cluster: each is written to the folder `out` under its own name, as `tag_to` writes it.

    client    a client; None for the current one; a scheduler's address, or 'local:4'
    files     paths or globs that all workers can read
    out       an existing folder that all of them can write
    done      called with the name of each file that is written
    timeout   seconds in which something must be finished
    options   as for `tag_to`

    Returns the paths. Raises `ChainfoldError`, which names the file.
    """
    names = _files_of(files)
    targets = [Path(absolute(out)) / Path(name).name for name in names]
    _check_targets(names, targets)

    def report(task: int) -> None:
        if done is not None:
            done(names[task])

    with connected(client) as reached:
        tasks = [
            Task(_tag_file, (name, str(target), options), name) for name, target in zip(names, targets, strict=True)
        ]
        Round(reached, tasks, (model,), timeout, report).results()
    return targets


def evaluate(
    client: Client | str | None,
    model: Model,
    chains: Any,
    *,
    spans: bool | None = None,
    timeout: float = TIMEOUT,
    **options: Any,
) -> Scores:
    """How well a model labels files or a stored chain, on a cluster: `chainfold.evaluate`.

    chains    a stored chain or its path, or paths and globs of files, that all workers can read

    Returns `Scores`. Raises `ChainfoldError`, which names the file.
    """
    if is_chain(chains):
        chains = open_chain(chains[0] if isinstance(chains, (list, tuple)) else chains)
    if isinstance(chains, StoredChain | ChainInParts):
        place, path = ChainPlace.of(chains), chains.path
        tasks = [
            Task(_evaluate_positions, (place, low, high, spans), f"{path}, positions {low:,} to {high - 1:,}")
            for low, high in Ranges(0, chains.positions, _RUN)
        ]
    else:
        tasks = [Task(_evaluate_file, (name, spans, options), name) for name in _files_of(chains)]
    with connected(client) as reached:
        scores = joined_scores(Round(reached, tasks, (model,), timeout).results())
    if not scores.tokens:
        raise ChainfoldError("no position has a known label, so there is nothing to compare with.")
    return scores


def _files_of(files: str | Path | Iterable[str | Path]) -> list[str]:
    """The files that paths and globs stand for."""
    return [str(source.path) for source in Inputs(names_of(files))]


def _check_targets(names: list[str], targets: list[Path]) -> None:
    folder = targets[0].parent
    if not folder.is_dir():
        raise BadFile(folder, "is not a folder; make it, on a file system that all workers can write.")
    for target, count in Counter(targets).items():
        if count > 1:
            raise BadFile(target, f"would be written for {count} inputs of the same name; tag them one by one.")
        if str(target) in names:
            raise BadFile(target, "is an input; write to another folder.")


@returned
def _tag_file(model: Model, name: str, target: str, options: dict[str, Any]) -> None:
    with written_whole(target) as sink:
        tag_to(sink, model, [name], **options)


@returned
def _evaluate_file(model: Model, name: str, spans: bool | None, options: dict[str, Any]) -> Scores:
    known = blocks_for_model([name], vocabulary_of_model(model), **{**options, "labels": True})
    return compared(model, known, spans)


@returned
def _evaluate_positions(model: Model, place: ChainPlace, low: int, high: int, spans: bool | None) -> Scores:
    """The sequences that begin at positions low … high-1."""
    chain = opened(place).source
    known = ChainBlocks(chain, vocabulary_of_model(model), True)
    return compared(model, known.between(_next_start(chain, low), _next_start(chain, high)), spans)


def _next_start(chain: Source, position: int) -> int:
    """The first start of a sequence from a position on, or the end of the chain."""
    for low, high in Ranges(position, chain.positions, _LOOKED_AT):
        starts = chain.block(low, high).starts
        if starts.any():
            return low + int(np.argmax(starts))
    return chain.positions
