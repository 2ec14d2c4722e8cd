"""Views of sources, and what chains and layouts need: NumPy alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from chainfold import SyntheticChain
from chainfold.chain.block import Source
from chainfold.chain.views import View, WeightedView

CHAIN = SyntheticChain(50, 3, 20, 2, n_edge_attributes=2)


@pytest.mark.parametrize("view", [View(CHAIN), WeightedView(CHAIN, np.ones(50))])
def test_a_view_has_the_sizes_and_attributes_of_its_source(view: Source) -> None:
    for name in ("positions", "n_labels", "n_attributes", "n_edge_attributes", "active", "labelled"):
        assert getattr(view, name) == getattr(CHAIN, name)
    for name in ("labels", "ids", "edge_ids"):
        np.testing.assert_array_equal(getattr(view.block(5, 9), name), getattr(CHAIN.block(5, 9), name))


def test_weights_and_starts_of_views() -> None:
    np.testing.assert_array_equal(WeightedView(CHAIN, np.arange(50.0)).block(5, 9).weights, [5, 6, 7, 8])


@pytest.mark.parametrize("module", ["chain.block", "chain.chain", "chain.views", "chain.vocabulary", "model.layout"])
def test_chains_and_layouts_need_numpy_alone(module: str) -> None:
    script = f"""
import sys
import chainfold.{module}
print([name for name in ("numba", "llvmlite", "pyarrow", "scipy", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
