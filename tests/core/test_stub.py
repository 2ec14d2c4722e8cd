"""The types of the compiled core."""

from __future__ import annotations

import pytest

from core_stub import STUB, stub

pytestmark = pytest.mark.quick


def test_the_stub_is_current() -> None:
    assert STUB.read_text() == stub(), "run make stub"
