"""Faults that are known, and that the rebuilding steps mend: each test states what has to hold, and fails until then.

The reason of each names its step: 3, one path from input to ids and one store; 4, the cluster.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import chainfold as cf
from verbs import failed, succeeded

RIVER, CLUSTER = "step 3: one path from input to ids, one store", "step 4: the cluster"
TEXT = "the DT B\ncat NN I\n\nsat VB O\n\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of rows, a model of it, and a pickle."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "rows").write_text(TEXT)
    succeeded("train", folder / "rows", "--max-iterations", 2, "-o", folder / "weights", "--quiet")
    (folder / "pickled").write_bytes(pickle.dumps({"a": 1}))
    return folder


# Chains that were forged or damaged

TWICE = """
    import io, sys
    import chainfold as cf

    chain = cf.open_chain(io.BytesIO(sys.stdin.buffer.read()))
    for _ in range(2):
        try:
            chain.block(0, 4)
        except cf.ChainfoldError as error:
            print(error)
"""


@pytest.mark.xfail(reason=RIVER, raises=AssertionError, strict=True)
def test_a_forged_chain_from_a_pipe_is_refused_again_when_it_is_read_again() -> None:
    """A message of a negative size is refused; Arrow's reader then crashes when it is asked for the next one."""
    sink = io.BytesIO()
    cf.write_chain(sink, cf.SyntheticChain(10, 2, 6, 3))
    whole = sink.getvalue()
    batch = whole.index(b"\xff\xff\xff\xff", 4)
    body = whole.rindex(b"\xff\xff\xff\xff") - batch - 8 - int.from_bytes(whole[batch + 4 : batch + 8], "little")
    forged = whole[:batch] + whole[batch:].replace(struct.pack("<q", body), struct.pack("<q", -1), 1)
    assert forged != whole
    code = [sys.executable, "-c", textwrap.dedent(TWICE)]
    done = subprocess.run(code, input=forged, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stdout.count(b"standard input: ") == 2


@pytest.mark.parametrize("verb", ["data", "train", "append"])
@pytest.mark.xfail(reason=RIVER, raises=AssertionError, strict=True)
def test_a_chain_whose_first_message_says_that_it_is_the_last(folder: Path, tmp_path: Path, verb: str) -> None:
    """Two bytes of the file differ: the size of the first batch's message, which is 0 at the end of a stream."""
    path, out = tmp_path / "chain", tmp_path / "out"
    succeeded("encode", folder / "rows", "-o", path, "--quiet")
    content = bytearray(path.read_bytes())
    found = cf.open_chain(path)
    assert isinstance(found, cf.StoredChain)
    size = int(found._file.messages.batches[0]["offset"]) + 4
    assert sum(content[size : size + 4]) == sum(content[size : size + 2])
    content[size : size + 2] = b"\0\0"
    path.write_bytes(content)
    arguments: dict[str, list[Any]] = {
        "data": ["data", path],
        "train": ["train", path, "-o", out],
        "append": ["encode", folder / "rows", "-o", path, "--append"],
    }
    assert "damaged" in failed(*arguments[verb])


# Files that are something else


@pytest.mark.parametrize(
    ("verb", "name", "words"),
    [
        ("train", "weights", "is a model"),
        ("tag", "weights", "is a model"),
        ("data", "weights", "is a model"),
        ("train", "pickled", "is a pickle"),
        ("tag", "pickled", "is a pickle"),
        ("inspect", "pickled", "is a pickle"),
        ("inspect", "rows", "is text"),
    ],
)
@pytest.mark.xfail(reason=RIVER, raises=AssertionError, strict=True)
def test_a_file_of_another_kind_is_known_by_its_first_bytes(folder: Path, verb: str, name: str, words: str) -> None:
    before = [folder / "weights"] if verb == "tag" else []
    after = ["-o", folder / "out"] if verb == "train" else []
    assert words in failed(verb, *before, folder / name, *after)


# Sentences that name the place


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("rows.csv", "word,label\na,x\nb,\nc,y\n", "line 3"),
        ("rows.jsonl", '{"word": "a", "label": "x"}\n{"word": "b", "label": null}\n', "line 2"),
    ],
)
@pytest.mark.xfail(reason=RIVER, raises=AssertionError, strict=True)
def test_a_missing_label_is_named_by_file_and_line(tmp_path: Path, name: str, text: str, place: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    sentence = failed("train", path, "--label", "label", "-o", tmp_path / "model")
    assert str(path) in sentence
    assert place in sentence


@pytest.mark.xfail(reason=RIVER, raises=AssertionError, strict=True)
def test_a_missing_label_is_named_by_its_sequence() -> None:
    with pytest.raises(cf.ChainfoldError, match="label") as caught:
        cf.CRF().fit([[["a"]], [["b"], ["c"]]], [["x"], ["y", None]])
    assert "item 1 of sequence 1" in str(caught.value)


@pytest.mark.parametrize("columns", ["word,tag", "word,tag,label,more"])
@pytest.mark.xfail(reason=RIVER, raises=AssertionError, strict=True)
def test_columns_that_do_not_fit_blame_the_option(folder: Path, tmp_path: Path, columns: str) -> None:
    sentence = failed("train", folder / "rows", "--columns", columns, "-o", tmp_path / "model")
    assert "--columns" in sentence
    assert "correct the line" not in sentence


@pytest.mark.xfail(reason=RIVER, raises=cf.ChainfoldError, strict=True)
def test_sequences_may_be_data_frames() -> None:
    frames = [pd.DataFrame({"word": ["a", "b"], "n": [1.0, 2.0]})] * 2
    rows = [frame.to_dict("records") for frame in frames]
    labels = [["x", "y"]] * 2
    expected = cf.CRF().fit(rows, labels)
    assert cf.CRF().fit(frames, labels).predict(frames).tolist() == expected.predict(rows).tolist()


# The cluster

CONNECT = """
    import sys
    import chainfold as cf
    from chainfold.dask import connection

    connection._SECONDS = connection._SECONDS_FOR_WORKERS = 1.0
    try:
        with connection.connected(sys.argv[1]):
            pass
    except cf.ChainfoldError as error:
        print(error)
"""


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never says anything."""
    held = []

    def accept() -> None:
        while True:
            try:
                held.append(server.accept())
            except OSError:  # it was closed
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection, _ in held:
            connection.close()


@pytest.mark.slow
@pytest.mark.xfail(reason=CLUSTER, raises=subprocess.TimeoutExpired, strict=True)
def test_a_scheduler_that_accepts_and_stays_silent(silent: str) -> None:
    pytest.importorskip("distributed")
    code = [sys.executable, "-c", textwrap.dedent(CONNECT), silent]
    done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=12)
    assert "no scheduler answers at" in done.stdout
