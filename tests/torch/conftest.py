"""Tests of `chainfold.torch`, run by `make test-torch`; without torch they are ignored, and pytest's header says so."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

_spec = find_spec("torch")
HAS_TORCH = _spec is not None and _spec.origin is not None  # this folder by itself would be a package without a file

collect_ignore_glob = [] if HAS_TORCH else ["test_*.py"]


def pytest_report_header() -> str:
    return "" if HAS_TORCH else "tests/torch is ignored: torch is not installed; `make test-torch` installs it"


if HAS_TORCH:  # what torch itself warns of, at import, on machines without some hardware
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch  # noqa: F401
