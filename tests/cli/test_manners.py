"""What comes from outside is shown as text: no markup, no control characters, whatever the verb and the terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chainfold import ChainfoldError, encode_sequences, open_model
from chainfold.cli import main
from chainfold.cli.watch_screen import view
from chainfold.features import labels as label_module
from chainfold.features.for_model import blocks_for_model
from chainfold.inference.monitor import Monitor
from chainfold.model.model import vocabulary_of_model
from chainfold.system import signals
from verbs import failed, run, succeeded

NASTY = [
    "[/bold]",
    "B-\x1b[31mred",
    "\u009b31m",
    "a\rb",
    ":smile:",
    "[link=http://x]y[/link]",
    "$x_{",
    "\u202egnp",
    "I-\x07\x7f",
]
HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STYLE = re.compile(r"\x1b\[(\d+(;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[\d*[AGJK]|\r")  # what rich itself writes to a terminal


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a chain, a model and rows, in which labels and attributes are named as badly as can be."""
    folder = tmp_path_factory.mktemp("nasty") / "[red]fo\x1b[31mld\ner"
    folder.mkdir()
    size = len(NASTY)
    items = [[{f"{NASTY[(k + j) % size]}={j}": 1.0 for j in range(3)} for k in range(2 * size)]] * 2
    labels = [[NASTY[k % size] for k in range(2 * size)]] * 2
    with pytest.MonkeyPatch.context() as patch:  # we refuse control characters in labels; strangers' files have them
        patch.setattr(label_module, "ord", lambda letter: 99, raising=False)
        encode_sequences(items, labels, folder / "chain")
        wrong = [labels[0], [NASTY[(k * k) % size] for k in range(2 * size - 1)] + ["[/never] \x1b seen"]]
        encode_sequences(items, wrong, folder / "test")
    (folder / "rows").write_text("".join(f"[/b]{k} :smile:{k % 3}\x9b\n" for k in range(20)))
    succeeded("train", folder / "chain", "-o", folder / "model", "--max-iterations", 3)
    return folder


VERBS: dict[str, Callable[[Path], list[object]]] = {
    "train": lambda at: ["train", at / "chain", "-o", at / "again", "--max-iterations", 2, "--fresh"],
    "train -v": lambda at: ["train", at / "chain", "-o", at / "again", "--max-iterations", 2, "--fresh", "-v"],
    "train --dev": lambda at: ["train", at / "chain", "-o", at / "again", "--dev", at / "chain", "--max-iterations", 2],
    "online": lambda at: ["learn", at / "rows", "--hash-bits", 8, "-o", at / "on", "--fresh", "-v"],
    "eval": lambda at: ["eval", at / "model", at / "test"],
    "eval --confusion": lambda at: ["eval", at / "model", at / "test", "--confusion"],
    "inspect": lambda at: ["inspect", at / "model"],
    "inspect --label": lambda at: ["inspect", at / "model", "--label", NASTY[1]],
    "inspect --attribute": lambda at: ["inspect", at / "model", "--attribute", "\x1b"],
    "inspect --html": lambda at: ["inspect", at / "model", "--html", "-"],
    "data": lambda at: ["data", at / "chain"],
    "gradient": lambda at: ["gradient", at / "chain", "--model", at / "model"],
    "watch": lambda at: ["watch", at / "model", at / "test", "--window", 3, "--alarm", f"{NASTY[1]}>0.2"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shows_a_control_character(verb: str, nasty: Path) -> None:
    done = run(*VERBS[verb](nasty))
    assert done.exit_code == 0, done.stderr or done.exception
    text = done.stdout + done.stderr
    assert not HIDDEN.findall(text)
    if verb in ("eval", "inspect", "data", "watch"):
        for name in ("[/bold]", r"B-\x1b[31mred", r"\x9b31m", r"a\rb", ":smile:", "[link=http://x]y[/link]", "$x_{"):
            assert name in text


def test_sentences_are_one_line_whatever_they_name(nasty: Path) -> None:
    for sentence in (
        failed("eval", nasty / "no\nmodel\x1b", nasty / "test"),
        failed("inspect", nasty / "model", "--label", "\x1b[2J"),
        failed("watch", nasty / "model", nasty / "test", "--alarm", "\u202e>2\r"),
        failed("data", nasty / "chain\udcff"),
    ):
        assert not HIDDEN.findall(sentence)
    assert str(ChainfoldError("a\nb \x1b[31m \x9b \u2028 \u200b \udcff é [/bold] \\")) == (
        r"a\nb \x1b[31m \x9b \u2028 \u200b \udcff é [/bold] " + "\\"
    )


def test_what_machines_read_stays_as_it_is(nasty: Path) -> None:
    names = {row["label"] for row in json.loads(succeeded("data", nasty / "chain", "--json"))["labels"]}
    assert names == set(NASTY)
    assert json.loads(succeeded("inspect", nasty / "model", "--json"))["labels"] == NASTY
    tagged = succeeded("tag", nasty / "model", nasty / "chain").decode()
    assert {"\x9b31m", "B-\x1b[31mred", "a\rb"} <= set(tagged.split("\n")) <= {*NASTY, ""}


@pytest.mark.parametrize("verb", ["train", "eval --confusion", "inspect", "data"])
def test_on_a_terminal_only_our_own_styles_are_escapes(verb: str, nasty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = run(*VERBS[verb](nasty))
    text = done.stdout + done.stderr
    assert "\x1b[1m" in text
    assert not HIDDEN.findall(STYLE.sub("", text))
    assert not re.search("\x1b\\[3[0-7]m|\x1b\\]8", done.stdout), "no colour and no link comes from a name"


def test_the_picture_of_a_stream_shows_names_as_text(nasty: Path) -> None:
    from rich.console import Console

    monitor = Monitor(open_model(nasty / "model"), window=3, alarms=[f"{NASTY[1]}>0.2", "[/bold]<0.9"])
    for some in blocks_for_model([str(nasty / "test")], vocabulary_of_model(open_model(nasty / "model"))):
        monitor.push(some.block, some.ended)
    for width, height in ((30, 20), (80, 40)):
        screen = Console(file=io.StringIO(), width=width, height=height, markup=False, emoji=False)
        screen.print(view(monitor.status(), monitor.labels, "[/red]\x1b on a\nb", 1.0, width, height))
        text = screen.file.getvalue()  # type: ignore[attr-defined]
        assert not HIDDEN.findall(text)
        assert r"[/red]\x1b on a\nb" in text
        assert max(map(len, text.split("\n"))) <= width


# Encodings


def ended(arguments: list[object], encoding: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, bytes, bytes]:
    """The exit code of the command, and the bytes that it writes where streams have an encoding."""
    written = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(stream, encoding=encoding) for stream in written]
    with monkeypatch.context() as patch:
        patch.setattr(signals, "listen", lambda: None)
        patch.setattr(sys, "meta_path", [*sys.meta_path])
        patch.setattr(sys, "excepthook", sys.excepthook)
        patch.setenv("ARROW_DEFAULT_MEMORY_POOL", "system")
        patch.setattr(sys, "argv", ["chainfold", *map(str, arguments)])
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as left:
            main()
        streams[1].flush()
    return left.value.code, written[0].getvalue(), written[1].getvalue()


MORE: dict[str, Callable[[Path], list[object]]] = {
    "help": lambda at: ["train", "--help"],
    "usage": lambda at: ["train", "--ümläut→"],
    "sentence": lambda at: ["eval", at / "→ö\udcff", "x"],
}


@pytest.mark.parametrize(
    ("verb", "encoding"),
    [*((verb, "ascii") for verb in {**VERBS, **MORE}), *((verb, "latin-1") for verb in MORE), ("eval", "cp1252")],
)
def test_every_verb_ends_well_in_every_encoding(
    verb: str, encoding: str, nasty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = ended((VERBS | MORE)[verb](nasty), encoding, monkeypatch)
    assert code == (2 if verb in ("usage", "sentence") else 0)
    assert b"Traceback" not in err
    if verb != "inspect --html":
        assert out.decode(encoding) + err.decode(encoding)
        assert not HIDDEN.findall(out.decode(encoding) + err.decode(encoding))


def test_what_an_encoding_does_not_have_is_written_in_ascii(nasty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = ended(["eval", nasty / "model", nasty / "test"], "ascii", monkeypatch)
    assert b"most frequent mistakes: gold > predicted" in out
    _, out, _ = ended(["gradient", nasty / "chain"], "latin-1", monkeypatch)
    assert re.search(rb"gradient sha256 +\| +[0-9a-f]{16,}\.", out)
    _, _, err = ended(["eval", nasty / "→ö", "x"], "latin-1", monkeypatch)
    assert err.endswith(b"/>\xf6: there is no such file.\n")
    _, _, err = ended(["eval", nasty / "日", "x"], "ascii", monkeypatch)
    assert err.endswith(b"/\\u65e5: there is no such file.\n")


def test_tagged_rows_are_utf8_in_every_encoding(nasty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = ["tag", nasty / "model", nasty / "chain"]
    assert ended(asked, "ascii", monkeypatch) == (0, succeeded(*asked), b"")
