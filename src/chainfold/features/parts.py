"""A chain in parts from files: the steps, which a scheduler can do anywhere, and all of them on this machine.

    encoding = plan(inputs, output, part_size=64 << 20, **options)
    if encoding.needs_survey:
        encoding = fitted(encoding, [survey(encoding, job) for job in range(len(encoding.jobs))])
    for job in range(len(encoding.jobs)):
        first_pass(encoding, job)
    merged = merge(encoding)
    parts = [second_pass(encoding, merged, job) for job in range(len(encoding.jobs))]
    chain = finish(encoding, merged, parts)

The jobs of a step are independent: each may be done in any order, by any process that reaches the inputs and the
output, and again; the files are the same. The chain is there once `finish` has written its index. Working files lie in
a folder of the output; `claimed_parts` removes them after a failure, and those of whoever was killed there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from chainfold.chain.part_index import INDEX, Part, index_of, is_ours, packed_index
from chainfold.chain.parts import ChainInParts
from chainfold.errors import BadFile, BadSetting
from chainfold.features.numbers import NumberStatistics
from chainfold.features.part_encoder import Merged, first_pass, second_pass, survey
from chainfold.features.part_merge import merge
from chainfold.features.part_plan import PART_SIZE, WORKING, PartsEncoding, plan
from chainfold.readers.progress import InputProgress
from chainfold.system.machine import cores
from chainfold.system.outputs import claimed
from chainfold.system.prefetch import made_ahead
from chainfold.system.storage import is_uri, storage_of

T = TypeVar("T")


def fitted(encoding: PartsEncoding, surveys: Sequence[NumberStatistics]) -> PartsEncoding:
    """The encoding with the scales and bins that the surveys of all its jobs give."""
    statistics = NumberStatistics(encoding.template)
    for one in surveys:
        statistics.merge(one)
    return replace(encoding, template=statistics.fitted(encoding.template))


def finish(encoding: PartsEncoding, merged: Merged, parts: Sequence[Part | None]) -> ChainInParts:
    """Write the index, remove what else is in the folder, and open the chain; parts: of all jobs in their order."""
    storage = storage_of(encoding.output)
    whole = tuple(part for part in parts if part is not None)
    with storage.written(INDEX) as file:
        file.write(packed_index(merged.vocabulary, whole))
    _remove(encoding.output, {INDEX, merged.vocabulary.name, *(part.name for part in whole)})
    return ChainInParts(encoding.output)


@contextmanager
def claimed_parts(output: str | Path, inputs: Any) -> Iterator[None]:
    """Hold the output meanwhile; what killed runs have left in it is removed, and what this one leaves if it fails.

    Raises if another process holds it. An output behind a URI cannot be held: see to it that one process writes it.
    """
    with nullcontext() if is_uri(output) else claimed([output], [inputs], folder=True):
        if not is_uri(output):
            _check_folder(Path(output))
        _discard(str(output))
        try:
            yield
        except BaseException:
            with suppress(BadFile):  # what has failed is told
                _discard(str(output))
            raise


def encode_in_parts(
    inputs: Any,
    output: str | Path,
    *,
    part_size: int = PART_SIZE,
    threads: int | None = None,
    progress: InputProgress | None = None,
    **options: Any,
) -> ChainInParts:
    """Encode files into a chain in parts on this machine, and open it.

    inputs      paths, globs and URIs of files
    output      the folder to write, a path or a URI
    part_size   bytes of input for each part, or so
    threads     default: the cores of this machine; the files are the same for any number
    progress    callbacks
    options     the fields of `InputSpec`

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/log.csv", "w") as file:
    ...         _ = file.write("port,label\\nhttp,ok\\nftp,bad\\n")
    ...     chain = encode_in_parts(f"{folder}/log.csv", f"{folder}/log.chain", part_size=15)
    ...     len(chain.parts), chain.positions
    (2, 2)
    """
    if threads is not None and threads < 1:
        raise BadSetting("threads", threads, "at least 1")
    progress, threads = progress or InputProgress(), threads or cores()
    with claimed_parts(output, [inputs, options.get("template")]):
        encoding = plan(inputs, output, part_size=part_size, **options)
        progress.total(encoding.size)
        return _encoded(encoding, threads, progress)


def _encoded(encoding: PartsEncoding, threads: int, progress: InputProgress) -> ChainInParts:
    jobs = range(len(encoding.jobs))

    def done(step: Callable[[int], T], positions: Callable[[T], int]) -> list[T]:
        results = []
        for result in made_ahead(step, jobs, threads):
            progress.positions(positions(result))
            results.append(result)
        return results

    if encoding.needs_survey:
        progress.phase("looking at numbers", None)
        before = encoding
        encoding = fitted(encoding, done(lambda job: survey(before, job, progress.read), lambda _: 0))
    progress.phase("encoding", None)
    total = sum(done(lambda job: first_pass(encoding, job, progress.read), lambda positions: positions))
    progress.phase("merging names", None)
    merged = merge(encoding)
    progress.phase("writing", total)
    parts = done(lambda job: second_pass(encoding, merged, job), lambda part: part.positions if part else 0)
    return finish(encoding, merged, parts)


def _discard(output: str) -> None:
    """Remove working files, and parts of no chain."""
    _remove(output, _in_use(output))


def _in_use(output: str) -> set[str]:
    """The files of the chain that is there, if one is; raises where that cannot be known."""
    storage = storage_of(output)
    if not storage.has(INDEX):
        return set()
    try:
        with storage.fetched(INDEX) as path:
            data = path.read_bytes()
    except OSError as error:
        raise BadFile(storage.called(INDEX), f"cannot be read: {error.strerror or error}.") from None
    try:
        index = index_of(data)
        return {INDEX, index.vocabulary.name, *index.parts["name"]}
    except (ValueError, LookupError, TypeError, AttributeError):  # it is damaged
        return set()


def _remove(output: str, kept: set[str]) -> None:
    """Remove all files of chains and encodings but some."""
    storage = storage_of(output)
    for name in storage.names():
        if name not in kept and (is_ours(name) or name.startswith(WORKING)):
            storage.remove(name)
    storage.remove_empty(WORKING)


def _check_folder(folder: Path) -> None:
    """Raise if the folder has files that are not ours."""
    if folder.is_dir():
        for path in folder.iterdir():
            if not (is_ours(path.name) or path.name.startswith((WORKING, "."))):
                problem = f"cannot be written: it has other files, such as {path.name}; name a new folder."
                raise BadFile(folder, problem)
