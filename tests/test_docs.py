"""What the documents say is true: their snippets run, their commands work, the reference is fresh."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reference import reference
from verbs import run

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


NEED_TORCH = [
    page for page in PAGES if any("import torch" in t or "chainfold.torch" in t for t in fenced(page, "python"))
]
"""Pages whose snippets `make test-torch` runs."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if fenced(page, "python") and page not in NEED_TORCH],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_snippets_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for snippet in fenced(page, "python"):
        exec(compile(snippet, page.name, "exec"), names)


EXAMPLES = ROOT / "examples"


def printed_by(line: str, page: Path) -> str:
    """What a command prints. The README's are run by a shell; of the others those that need one, as pipes do."""
    words = shlex.split(line)
    if page.name != "README.md" and words[0] == "chainfold" and not set(line) & set("|<>*?$;&#`\\"):
        verb = run(*words[1:])
        assert verb.exit_code == 0, f"{line}: {verb.stderr or verb.exception}"
        return verb.stdout
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = ["bash", "-o", "pipefail", "-c", line]
    done = subprocess.run(shell, env=os.environ | path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize(
    "page", [page for page in PAGES if fenced(page, "sh")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_shell_commands_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of the folder of examples."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    for block in fenced(page, "sh"):
        for line in block.splitlines():
            assert printed_by(line, page) or " -o " in line


def test_compressed_examples_are_the_others() -> None:
    for path in EXAMPLES.glob("*.gz"):
        assert gzip.decompress(path.read_bytes()) == path.with_suffix("").read_bytes()
    rows, sentences = (
        [json.loads(line) for line in (EXAMPLES / f"{name}.jsonl").read_text().splitlines() if line]
        for name in ("rows", "sentences")
    )
    columns = [line.split() for line in (EXAMPLES / "train.txt").read_text().splitlines() if line]
    assert [list(row.values()) for row in rows] == columns
    lists = [list(row) for one in sentences for row in zip(one["word"], one["pos"], one["chunk"], strict=True)]
    assert lists == columns


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"`?make (\w+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test", "bench"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_reference_is_fresh() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference(), "python tests/reference.py > docs/cli.md"


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
