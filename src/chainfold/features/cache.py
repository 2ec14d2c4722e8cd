"""Where a chain came from: it is encoded anew only when its inputs or the options have changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Unpack

from chainfold import __version__
from chainfold.chain.stored import StoredChain
from chainfold.errors import BadFile
from chainfold.features.encode import Options, are_files, encode, encoding_of
from chainfold.readers.inputs import Inputs
from chainfold.system.outputs import claimed


def encoded(inputs: Any, output: str | Path, **options: Unpack[Options]) -> StoredChain:
    """The chain at the output, if it was encoded from the same files with the same options; else it is encoded now.

    A file is taken for the same if its path, its size and the time of its last change are. Whatever else is at the
    output is replaced. What does not come from plain files is always encoded.
    """
    with claimed([output], []):  # what a killed process has left of it goes
        pass
    origin = fingerprint(inputs, options)
    found = None if origin is None else _found(output, origin)
    return encode(inputs, output, origin=origin, **options) if found is None else found


def fingerprint(inputs: Any, options: Options) -> str | None:
    """A digest of all that makes a chain what it is; None where an input is not a plain file."""
    encoding = encoding_of(options)
    if not are_files(inputs):
        return None
    files = inputs if isinstance(inputs, Inputs) else Inputs(inputs, options.get("encoding", "utf-8"))
    paths = [one.path for one in files]
    known = [_identity(path) for path in paths if path is not None]
    if len(known) < len(paths):
        return None
    settings = {
        **asdict(encoding),
        "template": None if encoding.template is None else encoding.template.to_json(),
        "symbols": sorted(encoding.symbols),
    }
    reading = options.get("format"), [*(options.get("columns") or ())], options.get("encoding") or "utf-8"
    about = json.dumps([__version__, known, settings, reading], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()


def _identity(path: Path) -> tuple[str, int, int]:
    try:
        about = path.stat()
        return str(path.resolve()), about.st_size, about.st_mtime_ns
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror or error}.") from None


def _found(output: str | Path, origin: str) -> StoredChain | None:
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
