"""The engines by name. A module is imported when its engine is asked for."""

from __future__ import annotations

from importlib import import_module

from chainfold.engines.engine import Engine
from chainfold.errors import UnknownEngine

PUBLISHED = ("emp", "forward-only", "fb-log", "fb-log-recompute", "fb-log-spill")
"""The paper's algorithms as they stand, without weights of sequences and masks."""

ENGINES = ("stream", "parallel", "checkpoint", "fb", "fb-recompute", "fb-spill", *PUBLISHED)


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise UnknownEngine(name, ENGINES)
    room = "chainfold.engines.published" if name in PUBLISHED else "chainfold.engines"
    module = import_module(f"{room}.{name.replace('-', '_')}")
    return Engine(module.run, module.memory)
