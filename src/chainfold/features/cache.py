"""Chains as a cache: an input is encoded again only if its files or the options have changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from chainfold import __version__
from chainfold.chain.batches import StoredChain
from chainfold.errors import BadFile
from chainfold.features.encode import encode
from chainfold.features.spec import InputSpec
from chainfold.readers.formats import are_files
from chainfold.readers.inputs import UTF8, Inputs
from chainfold.readers.progress import InputProgress
from chainfold.system.outputs import claimed


def encoded(inputs: Any, output: str | Path, *, progress: InputProgress | None = None, **options: Any) -> StoredChain:
    """The chain at the output, if it was encoded from the same files with the same options; else it is encoded now.

    A file is the same if its path, its size and the time of its last change are. Any other file at the output is
    replaced. Inputs that are not plain files are always encoded.
    """
    with claimed([output], []):  # removes what a killed process has left of it
        pass
    origin = fingerprint(inputs, InputSpec.of(**options))
    chain = None if origin is None else _chain_of(output, origin)
    return encode(inputs, output, origin=origin, progress=progress, **options) if chain is None else chain


def fingerprint(inputs: Any, spec: InputSpec) -> str | None:
    """A digest of the files and options that a chain is made from; None if an input is not a plain file."""
    if not are_files(inputs):
        return None
    files = inputs if isinstance(inputs, Inputs) else Inputs(inputs, spec.encoding or UTF8)
    paths = [source.path for source in files]
    identities = [_identity(path) for path in paths if path is not None]
    if len(identities) < len(paths):
        return None
    same = replace(  # however it is written
        spec,
        template=spec.parsed_template,
        attributes=None,
        border=None,
        encoding=spec.encoding or UTF8,
        symbols=sorted(spec.symbols or ()),
        min_count=spec.min_count or 1,
    )
    about = json.dumps([__version__, identities, same.to_json()])
    return hashlib.sha256(about.encode()).hexdigest()


def _identity(path: Path) -> tuple[str, int, int]:
    try:
        about = path.stat()
        return str(path.resolve()), about.st_size, about.st_mtime_ns
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}.") from None


def _chain_of(output: str | Path, origin: str) -> StoredChain | None:
    """The chain that is there, if it has this origin and every checksum is right."""
    try:
        chain = StoredChain(output)
        if chain.header.origin == origin and chain.vocabulary is not None:
            for low in range(0, chain.positions, chain.batch):
                chain.block(low, min(low + chain.batch, chain.positions))
            return chain
    except BadFile:
        pass
    return None
