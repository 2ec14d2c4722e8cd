"""The engines by name: the memory that they say they need, and their table in the documents."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainfold.engines.registry import ENGINES, MODULES, engine_named
from chainfold.engines.settings import Settings, Shape
from chainfold.errors import UnknownEngine

LONG = Shape(positions=10**7, n_labels=23, weights=115_529, active=41.0, n_edge_attributes=0)
PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_an_engine_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(UnknownEngine, match=r"there is no engine 'auto'; choose one of stream, parallel, .*\."):
        engine_named("auto")


def test_the_table_of_engines_is_complete() -> None:
    table = PAGE.read_text().partition("| engine |")[2].partition("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert {len(row) for row in rows} == {5}
    assert [re.findall("`(.*?)`", row[0])[0] for row in rows] == list(ENGINES)


def test_an_engine_imports_no_other() -> None:
    code = "import sys, chainfold.engines.stream; print(*[name for name in sys.modules if '.engines.' in name])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {f"chainfold.engines.{module}" for module in MODULES.values()} - {"chainfold.engines.stream"} & {*loaded}


def test_memory_grows_with_the_length_as_the_table_says() -> None:
    twice = LONG._replace(positions=2 * LONG.positions)
    for name in ENGINES:
        growth = engine_named(name).memory(twice, Settings()) / engine_named(name).memory(LONG, Settings())
        longer = dict.fromkeys(("fb", "fb-log", "fb-recompute", "fb-log-recompute"), 2.0)
        expected = {**longer, "checkpoint": np.sqrt(2.0)}.get(name, 1.0)
        assert growth == pytest.approx(expected, rel=0.01), name


@pytest.mark.parametrize("engine", ["stream", "parallel"])
def test_the_memory_given_is_kept_to(engine: str) -> None:
    for memory in (10_000, 10**5, 10**6, 10**7):
        for shape in (LONG._replace(n_labels=5), LONG, LONG._replace(n_edge_attributes=2)):
            for threads in (1, 2, 16):
                if memory >= shape.certificate_bytes + 4 * 256 * shape.pass_bytes:
                    settings = Settings(threads=threads, memory=memory)
                    assert engine_named(engine).memory(shape, settings) <= memory
