"""The engines by name. A module is imported when its engine is asked for."""

from __future__ import annotations

from importlib import import_module

from chainfold.engines.engine import Engine
from chainfold.errors import UnknownEngine

_ENGINES_OF = {
    "stream": ("stream",),
    "parallel": ("parallel",),
    "memory_cases": ("checkpoint", "fb", "fb-recompute", "fb-spill"),
    "published.algorithm_2": ("emp", "forward-only"),
    "published.algorithm_1": ("fb-log", "fb-log-recompute", "fb-log-spill"),
}
MODULES = {name: module for module, names in _ENGINES_OF.items() for name in names}
"""The module of each engine, whose `ENGINES` has it."""

ENGINES = tuple(MODULES)

PUBLISHED = tuple(name for name, module in MODULES.items() if module.startswith("published"))
"""The paper's algorithms as they stand, without weights of sequences and masks."""


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise UnknownEngine(name, ENGINES)
    engine: Engine = import_module(f"chainfold.engines.{MODULES[name]}").ENGINES[name]
    return engine
