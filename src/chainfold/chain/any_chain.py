"""A stored chain, whatever holds it: a file, a folder of parts, a pipe."""

from __future__ import annotations

import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from chainfold.chain.arrow_messages import FILE, STREAM, MessageFile, MessageStream, begins_with
from chainfold.chain.batches import NO_CHAIN, PipedChain, StoredChain, damage
from chainfold.chain.header import ABOUT
from chainfold.chain.part_index import INDEX
from chainfold.chain.parts import ChainInParts
from chainfold.errors import BadFile
from chainfold.system.storage import has_wildcards, is_uri, storage_of


def open_chain(
    source: str | Path | BinaryIO, cache: str | Path | None = None
) -> StoredChain | ChainInParts | PipedChain:
    """Open a chain that `write_chain` or `encode` wrote; only its header is read at first.

    source   a path, a named pipe, an open binary file, or the folder of a chain in parts, which may be a URI
    cache    where parts behind a URI are kept; default: the folder that CHAINFOLD_CACHE names, or
             ~/.cache/chainfold/parts

    Returns a `StoredChain`, a `ChainInParts` for a folder, or a chain that can be read once for pipes and open files.
    Raises `ChainfoldError` (`BadFile`) where it is no chain.

    >>> from chainfold import SyntheticChain, write_chain
    >>> write_chain("example.chain", SyntheticChain(1000, 2, 6, 3))
    >>> open_chain("example.chain").n_labels
    2
    """
    if not isinstance(source, str | Path):
        return PipedChain(source)
    if is_uri(source):
        return ChainInParts(source, cache)
    with damage(source, NO_CHAIN):
        if Path(source).is_dir():
            return _of_folder(Path(source))
        if Path(source).is_fifo() or begins_with(Path(source), STREAM):
            return _piped(Path(source))
    return StoredChain(source)


def _of_folder(folder: Path) -> ChainInParts:
    if not (folder / INDEX).exists():
        raise BadFile(folder, f"is a folder without {INDEX}, so there is no chain in it, or encoding it has not ended.")
    return ChainInParts(folder)


def is_chain(inputs: Any) -> bool:
    """Whether the input is the name of one stored chain."""
    if isinstance(inputs, (list, tuple)) and len(inputs) == 1:
        inputs = inputs[0]
    if not isinstance(inputs, (str, Path)):
        return False
    if is_uri(inputs):
        return not has_wildcards(str(inputs)) and storage_of(inputs).has(INDEX)
    if Path(inputs).is_dir():
        return (Path(inputs) / INDEX).exists()
    if not Path(inputs).is_file():
        return False
    with suppress(OSError, ValueError, pa.ArrowException), Path(inputs).open("rb") as file:
        if begins_with(Path(inputs), FILE):
            return ABOUT in (pa.ipc.read_schema(pa.py_buffer(MessageFile(file).schema())).metadata or {})
        if begins_with(Path(inputs), STREAM):
            return ABOUT in (pa.ipc.open_stream(pa.PythonFile(MessageStream(file), "r")).schema.metadata or {})
    return False


def _piped(path: Path) -> PipedChain:
    file = path.open("rb")
    try:
        chain = PipedChain(file, path)
    except BaseException:
        file.close()
        raise
    weakref.finalize(chain, file.close)
    return chain
