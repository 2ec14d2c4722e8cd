"""Write the types of the compiled core to `src/chainfold/core/__init__.pyi`: `make stub`."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from nanobind.stubgen import StubGen

from chainfold import core

STUB = Path(core.__file__).with_suffix(".pyi")
_HEAD = '''\
"""Types of the compiled core; `make stub` writes them."""

from typing import overload

import numpy as np
from numpy.typing import NDArray

{imports}

LEVEL: str
"""The level that was taken."""

def levels() -> list[str]:
    """Levels that this machine can run, the best first."""

'''
_SHORT = {"numpy.typing.NDArray": "NDArray", "numpy.": "np."}


def stub() -> str:
    """The stub of the level that was imported: those of all levels are equal."""
    generator = StubGen(import_module(f"chainfold.core._math_{core.LEVEL.removeprefix('x86-64-')}"))
    generator.put(generator.module)
    text = generator.get()
    text = re.split(r"^(?=def |[A-Z])", text, maxsplit=1, flags=re.MULTILINE)[1]
    text = re.sub(r'"""\n    (.*)\n    """', r'"""\1"""', text)
    for long, short in _SHORT.items():
        text = text.replace(long, short)
    text = re.sub(r"@overload\n(def .*): \.\.\.\n\n@overload\n\1:", r"\1:", text)  # records of several types
    modules: dict[str, set[str]] = {}
    for module, name in re.findall(r"\b(chainfold(?:\.\w+)*)\.([A-Z]\w*)", text):
        modules.setdefault(module, set()).add(name)
        text = text.replace(f"{module}.{name}", name)
    imports = "\n".join(f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    text = _HEAD.format(imports=imports) + text
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    STUB.write_text(stub())
