"""Encode files on a cluster: the jobs of `features.parts` on any workers, with the same bytes as on one machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainfold.chain.batches import absolute
from chainfold.chain.parts import ChainInParts
from chainfold.dask.connection import connected
from chainfold.dask.failure import returned
from chainfold.dask.rounds import TIMEOUT, Round, Task
from chainfold.errors import ChainfoldError
from chainfold.features.part_encoder import first_pass, second_pass, survey
from chainfold.features.part_merge import merge
from chainfold.features.part_plan import PART_SIZE, PartsEncoding, plan
from chainfold.features.parts import claimed_parts, finish, fitted
from chainfold.readers.progress import InputProgress

if TYPE_CHECKING:
    from distributed import Client


def encode(
    client: Client | str | None,
    files: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    part_size: int = PART_SIZE,
    progress: InputProgress | None = None,
    timeout: float = TIMEOUT,
    **options: Any,
) -> ChainInParts:
    """Encode files into a chain in parts on a cluster; the files are the same as `encode_in_parts` writes.

    client     a client; None for the current one; a scheduler's address, or 'local:4'
    files      paths, globs or URIs that all workers can read
    out        a folder or URI that all of them can write
    part_size  bytes of input for each part, or so
    timeout    seconds in which something must be finished
    options    as for `encode`

    Returns a `ChainInParts`. Raises `ChainfoldError`, which names the file or the part.
    """
    inputs, output = names_of(files), absolute(out)
    with connected(client) as reached, claimed_parts(output, [inputs, options.get("template")]):
        encoding = plan(inputs, output, part_size=part_size, **options)
        return _encoded(reached, encoding, progress or InputProgress(), timeout)


def names_of(files: str | Path | Iterable[str | Path]) -> list[str]:
    """Absolute names: workers run in other folders."""
    names = [files] if isinstance(files, str | Path) or not isinstance(files, Iterable) else list(files)
    if not all(isinstance(name, str | Path) for name in names) or "-" in names:
        raise ChainfoldError("a cluster reads files by their names; give paths, globs or URIs.")
    return [absolute(name) for name in names]


def _encoded(client: Client, encoding: PartsEncoding, progress: InputProgress, timeout: float) -> ChainInParts:
    jobs = range(len(encoding.jobs))
    each = encoding.size // max(len(jobs), 1)

    def run(work: Callable[..., Any], *shared: Any) -> list[Any]:
        tasks = [Task(work, (job,), encoding.source(job)) for job in jobs]
        return Round(client, tasks, shared, timeout, lambda job: progress.read(each)).results()

    if encoding.needs_survey:
        progress.phase("looking at numbers", None)
        encoding = fitted(encoding, run(_survey, encoding))
    progress.phase("encoding", None)
    progress.total(encoding.size)
    progress.positions(sum(run(_first_pass, encoding)))
    (merged,) = Round(client, [Task(_merge, (), "the vocabulary")], (encoding,), timeout).results()
    progress.phase("writing", None)
    return finish(encoding, merged, run(_second_pass, encoding, merged))


@returned
def _survey(encoding: PartsEncoding, job: int) -> Any:
    return survey(encoding, job)


@returned
def _first_pass(encoding: PartsEncoding, job: int) -> int:
    return first_pass(encoding, job)


@returned
def _merge(encoding: PartsEncoding) -> Any:
    return merge(encoding)


@returned
def _second_pass(encoding: PartsEncoding, merged: Any, job: int) -> Any:
    return second_pass(encoding, merged, job)
