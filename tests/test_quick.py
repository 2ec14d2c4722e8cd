"""The quick subset has tests of every room."""

from __future__ import annotations

import re
from pathlib import Path

import chainfold

TESTS, PACKAGE = Path(__file__).parent, Path(chainfold.__file__).parent


def test_every_room_has_quick_tests() -> None:
    quick = [text for path in TESTS.rglob("test_*.py") if "pytest.mark.quick" in (text := path.read_text())]
    imported = {name for text in quick for name in re.findall(r"^from chainfold\.(\w+)", text, re.MULTILINE)}
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"torch", "cuda"}  # `make test-torch`
    assert rooms <= imported, rooms - imported
