"""What goes wrong outside of chainfold: memory, libraries, the operating system; one sentence, and exit code 2."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import tempfile
import warnings
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner, Result

from chainfold import CRF, Layout, Model, SyntheticChain, log_likelihood
from chainfold.cli.failures import guarded
from chainfold.errors import BadFile, ChainfoldError, ChainfoldWarning
from chainfold.features.row_spool import RowSpool
from chainfold.readers.inputs import Inputs
from chainfold.readers.tables import one_sentence
from chainfold.system.spill import ArrayStore
from processes import chainfold
from verbs import conll


def ended(error: Exception | None, name: str = "verb", *said: str) -> Result:
    """A verb that ends in an error."""

    def verb() -> None:
        for sentence in said:
            warnings.warn(sentence, ChainfoldWarning, stacklevel=1)
        typer.echo("some output")
        if error is not None:
            raise error

    verb.__name__ = name
    app = typer.Typer()
    app.command()(guarded(verb))
    return CliRunner().invoke(app, [])


def system(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), path) if path else OSError(number, os.strerror(number))


LLVM = "Could not find/load shared object file 'libllvmlite.so' from resource location: 'llvmlite.binding'."
MAPPED = "libarrow.so.2600: failed to map segment from shared object"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "not enough memory; use a smaller input or model, or a machine with more memory."),
        (MemoryError("Unable to allocate 2 TiB"), "not enough memory: Unable to allocate 2 TiB; use a smaller input"),
        (
            ImportError(f"a page of advice.\n\n{MAPPED}\n"),
            f"a library cannot be loaded: {MAPPED}; install chainfold again",
        ),
        (OSError(LLVM), "a library cannot be loaded: Could not find/load shared object file 'libllvmlite.so'"),
        (
            RuntimeError("can't start new thread"),
            "the operating system refuses another thread; raise the limit (ulimit -u)",
        ),
        (system(errno.EMFILE), "Too many open files; close some, or raise the limit (ulimit -n)."),
        (system(errno.ENOMEM), "not enough memory: Cannot allocate memory."),
        (system(errno.EACCES, "/there/x"), "/there/x: Permission denied."),
        (system(errno.EPERM), "the operating system refuses a request: Operation not permitted."),
        (system(errno.ENOSPC), "cannot write to standard output: No space left on device."),
    ],
)
def test_each_has_its_sentence(error: Exception, sentence: str) -> None:
    done = ended(error)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"chainfold: {sentence}")
    assert done.stderr.endswith(".\n")
    assert done.stderr.count("\n") == 1
    assert done.stdout == "some output\n"


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), ImportError("cannot import name 'x'"), KeyError("x")])
def test_mistakes_of_chainfold_are_not_hidden(error: Exception) -> None:
    assert ended(error).exception is error


def test_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere/at/all"])
    rows = conll(tmp_path / "rows.txt")
    chain = SyntheticChain(100, 2, 6, 1)
    model = Model.random(Layout.full(chain.n_labels, chain.n_attributes))
    for use in (
        lambda: log_likelihood(model, chain, "fb-spill"),
        lambda: ArrayStore(0),
        lambda: RowSpool(None),
        lambda: CRF(max_iterations=1).fit(rows),
    ):
        with pytest.raises(
            ChainfoldError, match="no folder for temporary files can be written; set TMPDIR to one that can"
        ):
            use()


def test_a_temporary_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for use in (lambda: RowSpool(None), lambda: CRF(max_iterations=1).fit(conll(tmp_path / "rows.txt"))):
        with pytest.raises(BadFile, match="gone: cannot hold temporary files: No such file or directory"):
            use()


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_table_that_the_system_cannot_read_is_not_damaged(number: int) -> None:
    with pytest.raises(BadFile, match=f"^table: cannot be read: {os.strerror(number)}"):  # noqa: SIM117
        with one_sentence("table", "cannot be read as Parquet"):
            raise system(number)
    with pytest.raises(MemoryError), one_sentence("table", "cannot be read as Parquet"):
        raise pa.ArrowMemoryError("malloc of size 4 failed")


def test_memory_that_runs_out_while_unpacking_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> bytes:
        raise pa.ArrowMemoryError("malloc of size 4 failed")

    (tmp_path / "rows.txt.gz").write_bytes(gzip.compress(b"a b\n"))
    (one,) = Inputs(tmp_path / "rows.txt.gz")
    with closing(one.open()) as stream:
        monkeypatch.setattr(stream, "_next", none_left)
        with pytest.raises(MemoryError):
            stream.read(1 << 20)


def test_warnings_are_sentences() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = ended(None, "verb", "one thing.", "another.")
    assert (done.exit_code, done.stderr) == (0, "chainfold: one thing.\nchainfold: another.\n")


@pytest.mark.parametrize("limit", [150, 300])
def test_a_verb_under_a_limit_on_memory(limit: int, tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20))

    done = chainfold("train", conll(tmp_path / "rows.txt"), "-o", tmp_path / "model", preexec_fn=limited)
    assert done.returncode == 2
    assert done.stderr.startswith("chainfold: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rows.txt"]
