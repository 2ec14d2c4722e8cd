"""A model for all tests of verbs that use one."""

from __future__ import annotations

import pytest

from cli.trained import Trained


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return Trained(tmp_path_factory.mktemp("trained"))
