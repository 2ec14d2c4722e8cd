"""`chainfold warm` compiles whatever reads input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chainfold.cli import warm_steps
from verbs import conll, failed, succeeded


def test_every_step_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(warm_steps, "STEPS", (folders.append, folders.append))
    monkeypatch.setenv("CHAINFOLD_CACHE", str(tmp_path / "new" / "kept"))
    facts = json.loads(succeeded("warm", "--json"))
    assert facts["folder"] == str(tmp_path / "new" / "kept")
    assert (facts["kernels"], facts["bytes"]) == (0, 0)
    assert len(set(folders)) == 2
    assert not any(folder.exists() for folder in folders)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CHAINFOLD_CACHE", str(tmp_path / "file"))
    assert "compiled kernels cannot be kept there: it is not a folder; set CHAINFOLD_CACHE" in failed("warm")


COUNT = """
import atexit, sys
from numba.core import event
from chainfold.__main__ import main
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
atexit.register(lambda: print("compiled:", len(recorder.buffer), file=sys.stderr))
main()
"""


@pytest.mark.slow
def test_after_warm_nothing_is_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "CHAINFOLD_CACHE": str(tmp_path / "kept")}

    def compiled(*arguments: object) -> int:
        command = [sys.executable, "-c", COUNT, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(done.stderr.rpartition("compiled: ")[2])

    rows, model = conll(tmp_path / "rows.txt"), tmp_path / "model"
    (tmp_path / "rows.crfsuite").write_text("".join(f"{k % 2}\tw={k % 5}:0.5\tp\n\n" for k in range(40)))
    (tmp_path / "rows.csv").write_text("word,label\n" + "".join(f'"{k % 5}",{"AB"[k % 2]}\n' for k in range(40)))
    assert compiled("warm") > 0
    before = sorted((tmp_path / "kept").rglob("*"))
    columns = ["--columns", "word,shape,label"]
    for options in ([], ["--min-count", 2], ["--attributes", "word[-1] word"], ["--hash-bits", 10]):
        assert compiled("train", rows, "-o", model, "--max-iterations", 2, "--fresh", *columns, *options) == 0
    for options in ([], ["--all-marginals"], ["--nbest", 2], ["--samples", 2], ["--sequences", tmp_path / "sequences"]):
        assert compiled("tag", model, rows, "-o", tmp_path / "tagged", *options) == 0
    assert compiled("eval", model, rows) == 0
    assert compiled("learn", rows, "-o", tmp_path / "learnt", "--hash-bits", 10) == 0
    for name in ("rows.crfsuite", "rows.csv"):
        assert compiled("train", tmp_path / name, "-o", model, "--max-iterations", 2, "--fresh") == 0
        assert compiled("tag", model, tmp_path / name, "--marginals", "-o", tmp_path / "tagged") == 0
    assert compiled("gradient", "--synthetic", "100:2:10:2") == 0
    assert sorted((tmp_path / "kept").rglob("*")) == before
