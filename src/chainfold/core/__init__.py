"""The compiled core: the arithmetic of chains, in C++ (`src/core`), compiled once for each level of processor.

    slots     weights in padded slots, rows of labels and blocks after the forward pass, as the core takes them
    faults    status codes, and their errors
    _level    the levels that this machine can run
    _math_*   the arithmetic for one level: x86-64-v4 (AVX-512), x86-64-v3 (AVX2), aarch64, portable

The import takes the best level, or the one that `CHAINFOLD_CORE` names. The names of all levels are the same, and so
are their results, but for the portable one, which has no fused multiply-add and may differ in the last bits.

Functions take arrays as they are, contiguous and of the exact type; nothing is converted, and no bound is checked. They
release the interpreter's lock. One that can fail returns a status, from which `faults.check` makes the error.
"""

from __future__ import annotations

import atexit
import os
from importlib import import_module

from chainfold.core._level import levels
from chainfold.errors import BadSetting

_asked = os.environ.get("CHAINFOLD_CORE", "")
if _asked and _asked not in levels():
    raise BadSetting("CHAINFOLD_CORE", _asked, f"a level that this machine can run: {', '.join(levels())}")

LEVEL: str = _asked or levels()[0]
"""The level that was taken."""

_math = import_module(f"chainfold.core._math_{LEVEL.removeprefix('x86-64-')}")
globals().update({name: value for name, value in vars(_math).items() if not name.startswith("_")})
atexit.register(_math._wait_for_kernels)
os.register_at_fork(after_in_child=_math._forget_kernels)
