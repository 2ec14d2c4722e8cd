"""`chainfold warm`: kernels compiled before they are needed, into a folder that is kept."""

from __future__ import annotations

import time
from typing import Any

from chainfold.cli import options, warm_steps
from chainfold.cli.console import report, rows_of
from chainfold.cli.progress import bar


def warm(as_json: options.Json = False) -> None:
    """Compile the kernels that read input, so that later runs need not: for a container image or a shared machine.

    They are stored in the folder that the environment variable CHAINFOLD_CACHE
    names, which other users can then use and nobody has to write to; without it,
    where this user's kernels are stored anyway.

    Example: chainfold warm
    """
    from chainfold.jit.decorator import kernel_store

    begin = time.perf_counter()
    store = kernel_store()
    with bar("compiling", len(warm_steps.STEPS)) as shown:
        for step in warm_steps.STEPS:
            warm_steps.run_step(step)
            shown.advance(1)
    files = store.kernels()
    facts: dict[str, Any] = {
        "folder": str(store.folder),
        "kernels": len(files),
        "bytes": sum(path.stat().st_size for path in files),
        "seconds": time.perf_counter() - begin,
    }
    report(facts, rows_of(facts), "compiled", as_json)
