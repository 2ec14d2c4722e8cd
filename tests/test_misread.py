"""Inputs that could be misread: JSON, comments, groups that come again. Each is read rightly, or refused and named."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chainfold as cf
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features import labels
from chainfold.features.for_model import blocks_for_model
from chainfold.features.streaming import live_rows
from chainfold.model.file import open_model
from chainfold.readers.conll import ConllReader
from chainfold.readers.formats import Format, InputReader, format_of
from chainfold.readers.inputs import Inputs
from verbs import conll, failed, run, succeeded

# JSON

LINES = '{"tokens": ["EU", "rejects"], "labels": ["B-ORG", "O"]}\n{"tokens": ["call"], "labels": ["B-X"]}\n'
JSON = "looks like one JSON value, which is not read; give JSON lines (.jsonl, an object a line), CoNLL, "


@pytest.mark.parametrize(
    "text",
    ['["EU", "B-ORG"]\n["rejects", "O"]\n', "[1, 2]\n", '[["EU", "B-ORG"]]\n', '["' + "a b " * 40_000 + '"]\n'],
)
def test_arrays_of_json_are_refused(text: str, tmp_path: Path) -> None:
    for name in ("train", "train.txt", "train.csv", "train.conll"):
        path = tmp_path / name
        path.write_text(text)
        assert failed("train", path, "-o", tmp_path / "m").startswith(f"{path}: {JSON}")
    assert failed("encode", "-", "-o", tmp_path / "c", given=text.encode()).startswith(f"standard input: {JSON}")
    assert failed("learn", "-", "-o", tmp_path / "m", given=text.encode()).startswith("standard input: looks")
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("text", [LINES, "\n\n  " + LINES, '{"a": 1}', '{"text": "' + "a b " * 40_000 + '"}\n'])
def test_json_lines_are_refused_where_a_name_says_otherwise(text: str, tmp_path: Path) -> None:
    for name in ("train.csv", "train.conll"):
        path = tmp_path / name
        path.write_text(text)
        sentence = failed("encode", path, "-o", tmp_path / "c")
        assert sentence == f"{path}: looks like JSON lines; call it .jsonl, or set --format to jsonl."


def test_names_of_json_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "a.JSON", "a.json.gz"):
        (tmp_path / name).write_text("[\n1\n]\n")
        assert JSON in failed("encode", tmp_path / name, "-o", tmp_path / "c")
    (tmp_path / "a.json").write_text("a x B\nb y I\n")
    succeeded("encode", tmp_path / "a.json", "-o", tmp_path / "c", "--format", "conll")


WORDS = ["{}", "[]", "[1]", "[2.5]", "{", "[", "[x]", "{ ( O", "[ ( O", "{} X O", "[1] X O"]


@pytest.mark.parametrize("words", WORDS)
def test_words_that_look_like_json_are_words(words: str) -> None:
    text = f"{words}\n{words}\n".encode()
    assert sum(stretch.lines.size for stretch in InputReader().read(Inputs(io.BytesIO(text)))) == 2


def test_json_is_read_as_text_where_the_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('{"a": B}\n{"c": D}\n')
    succeeded("encode", tmp_path / "t", "-o", tmp_path / "c", "--format", "conll")


def test_json_is_refused_where_there_is_a_model(tmp_path: Path) -> None:
    succeeded("train", conll(tmp_path / "train.txt"), "-o", tmp_path / "m", "--max-iterations", "3")
    for verb in (("tag",), ("eval",), ("tag", "--follow"), ("watch",)):
        for text, problem in (('["a", "b"]\n', JSON), (LINES, "line 1 has no field that the model uses")):
            done = run(verb[0], tmp_path / "m", "-", *verb[1:], given=text.encode())
            assert (done.exit_code, done.stdout) == (2, "")
            assert problem in done.stderr


# Comments

WIDE = "# id 1 of 2\nEU N B\nsays V O\n\n# id 2 of 2\nno D B\n"  # comments cannot be rows
ALIKE = "# id 1\nEU N B\nsays V O\n\n# id 2\nno D B\n"  # they can
PLAIN = "EU N B\nsays V O\n\nno D B\n"


def rows(text: str | bytes, **options: Any) -> tuple[list[tuple[str, ...]], list[bool]]:
    raw = text.encode() if isinstance(text, str) else text
    found = list(InputReader(**options).read(Inputs(io.BytesIO(raw))))
    fields = [row for stretch in found for row in zip(*stretch.batch.to_pydict().values(), strict=True)]
    return fields, [bool(start) for stretch in found for start in stretch.starts]


def problem(text: str, **options: Any) -> str:
    with pytest.raises(ChainfoldError) as caught:
        rows(text, **options)
    return str(caught.value).removeprefix("the open file: ")


@pytest.mark.parametrize("form", [None, Format.CONLL])
@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        WIDE.replace("\n", "\r\n"),
        WIDE.replace("# id", "#\n#\n# id"),
        WIDE.replace("# id 1", "\n\n-DOCSTART- -X- O\n# id 1"),
        ALIKE.replace(" ", "\t").replace("#\tid\t", "# id "),  # fields with tabs: it is one field
        "#begin document (x); part 0\n" + PLAIN + "\n#end document\n",
    ],
)
def test_comments_that_cannot_be_rows_are_comments(text: str, form: Format | None) -> None:
    assert rows(text, format=form) == rows(PLAIN)


def test_comments_wait_for_the_line_that_tells_the_width() -> None:
    for chunk in (1, 7, 30):
        stream = next(iter(Inputs(io.BytesIO(WIDE.encode())))).open()
        assert sum(stretch.lines.size for stretch in ConllReader(chunk=chunk).read(stream)) == 3


def test_comments_that_may_be_rows_are_refused() -> None:
    assert problem(ALIKE) == (
        "line 1, '# id 1', may be a row or a comment; set `comments` to '# ' if such lines are comments, or "
        "to '' if all lines are rows."
    )
    assert problem("#word pos tag\n" + PLAIN).startswith("line 1, '#word pos tag', may be a row or a comment; set `com")
    assert "`comments` to '#' if" in problem("#word pos tag\n" + PLAIN)
    assert problem(PLAIN + "\n# id 2\nx N B\n\n# id 3\nx N B\n").startswith("line 9, '# id 3', may be a row")
    assert problem(WIDE + "\n# id 3\nx N B\n").startswith("line 8, '# id 3', may be a row or a comment")
    assert problem("# id 1\n# id 2\n", format=Format.CONLL).startswith("line 1, '# id 1', may be a row or a comment")
    assert problem("# id 1\nA\tx\n\nB\ty\tz\n", format=Format.CRFSUITE).startswith("line 1, '# id 1', may be")


def test_comments_are_what_is_said() -> None:
    for comments in ("#", "# ", "# id"):
        assert rows(ALIKE, comments=comments) == rows(PLAIN)
    assert len(rows(ALIKE, comments="")[0]) == 5
    assert rows("EU N B\n% here\nsays V O\n\n% there\nno D B\n", comments="%") == rows(PLAIN)
    assert problem(WIDE, comments="") == "line 2 has 3 columns, but the lines before it have 5; correct the line."
    assert problem("# id 1\n", comments="#") == "has only blank lines or comments."
    lines = "# id 1\nA\tx\n\nB\ty\tz\n"
    assert len(rows(lines, format=Format.CRFSUITE, comments="#")[0]) == 2
    assert len(rows(lines, format=Format.CRFSUITE, comments="")[0]) == 3


def test_comments_are_refused_where_there_are_none() -> None:
    for text, form in (('{"a": 1}\n', "jsonl"),):
        expected = f"comments is '#', but must be left out, as {form} has none."
        assert problem(text, format=Format(form), comments="#") == expected
    with pytest.raises(BadSetting, match="left out or '#', as CoNLL-U has it"):
        rows("1\n", format=Format.CONLLU, comments="%")


def test_words_that_begin_with_a_hash_are_words() -> None:
    text = "a N B\n# # B\n1 CD I\n\n# # B\n\nx N B\n\n#tag N B\n\n#tag N B\n"
    assert [row[0] for row in rows(text)[0]] == ["a", "#", "1", "#", "x", "#tag", "#tag"]
    mixed = "# tweet 7 of 9\n#tag O\nx O\n\n# tweet 8 of 9\n#tag O\n"  # of two kinds
    assert problem(mixed).startswith("line 2, '#tag O', may be")
    assert [row[0] for row in rows("x O\n\n" + mixed)[0]] == ["x", "#tag", "x", "#tag"]


def test_a_comment_within_a_sequence_is_named() -> None:
    assert problem("a N B\n# some words here\nb N B\n") == (
        "line 2 has 4 columns, but the lines before it have 3; if it is a comment, set `comments` to '# '."
    )


def test_comments_do_not_make_another_format_of_a_file() -> None:
    tabs = "# id 1\nEU\tN\tB\nsays\tV\tO\n"
    assert format_of(tabs.split("\n")) == Format.CONLL
    assert format_of(("#\tw=1\tx=2\n" + "A\tw=1\n").split("\n")) == Format.CRFSUITE
    assert format_of(["# id 1\tdomain=en", "EU _ _ B", "says _ _ O", ""]) == Format.CONLL


def test_a_model_remembers_what_its_comments_began_with(tmp_path: Path) -> None:
    train, model = tmp_path / "t", tmp_path / "m"
    train.write_text(ALIKE)
    assert "may be a row or a comment" in failed("train", train, "-o", model)
    succeeded("train", train, "-o", model, "--comments", "# ", "--max-iterations", "3")
    assert open_model(model).vocabulary.labels == ("B", "O")  # type: ignore[union-attr]
    tagged = succeeded("tag", model, train).decode().splitlines()
    assert [line for line in tagged if line.startswith("#")] == ["# id 1", "# id 2"]
    assert [len(line.split()) for line in tagged] == [3, 4, 4, 0, 3, 4]
    assert succeeded("tag", model, "-", given=ALIKE.encode()).decode().splitlines() == tagged
    assert succeeded("tag", model, "-", "--follow", given=ALIKE.encode()).decode().splitlines() == tagged
    assert b"3 positions" in succeeded("eval", model, train)
    assert b"5 positions" in succeeded("eval", model, train, "--comments", "")
    (tmp_path / "t.csv").write_text("0,1\nEU,N\n")
    succeeded("tag", model, tmp_path / "t.csv", "--header")  # a format without comments is no less readable
    succeeded("train", train, "-o", model, "--comments", "", "--fresh", "--max-iterations", "3")
    assert open_model(model).vocabulary.labels == ("1", "B", "O", "2")  # type: ignore[union-attr]


def test_comments_are_kept_where_they_are(tmp_path: Path) -> None:
    model = tmp_path / "m"
    (tmp_path / "t").write_text(PLAIN)
    succeeded("train", tmp_path / "t", "-o", model, "--max-iterations", "3")
    for text in (WIDE, WIDE.rstrip("\n"), WIDE.replace("\n", "\r\n")):
        for way in ((), ("--follow",)):
            tagged = succeeded("tag", model, "-", *way, given=text.encode()).decode()
            assert len(tagged.split("\n")) == len(text.split("\n"))
            for before, after in zip(text.split("\n"), tagged.split("\n"), strict=True):
                assert after == before if before.startswith("#") or not before.strip() else after.startswith(before[:5])
    best = succeeded("tag", model, "-", "--nbest", "2", given=WIDE.encode()).decode()
    assert best.startswith("# id 1 of 2\n# 0 ")
    assert "may be a row" in failed("tag", model, "-", given=ALIKE.encode())


def test_comments_in_a_stream(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(PLAIN)
    vocabulary = cf.encode(tmp_path / "t", tmp_path / "c").vocabulary
    assert vocabulary is not None
    for size in (1, 5, 1000):

        class Drops(io.BytesIO):
            def read1(self, size: int | None = -1, step: int = size) -> bytes:
                return super().read1(step)

        def taken(text: str, drops: Any = Drops, **options: Any) -> list[int]:
            blocks = live_rows(drops(text.encode()), vocabulary, **options)
            return [label for one in blocks for label in one.gold.tolist()]

        assert taken(WIDE) == [0, 1, 0]
        assert taken(ALIKE, comments="#") == [0, 1, 0]
        assert taken(WIDE + "x N\ny N O\n", on_error="skip") == [0, 1, 0, 1]
        assert taken("# of the second half nothing is known\nEU N B\nx N\ny N O\n", on_error="skip") == [0, 1]
        with pytest.raises(BadFile, match="line 1, '# id 1', may be a row or a comment"):
            taken(ALIKE)
        with pytest.raises(BadFile, match="has only blank lines or comments"):
            taken("# id 1\n")
        with pytest.raises(BadFile, match="looks like one JSON value"):
            taken('["a", "b"]\n')


def test_comments_of_a_pipe_that_is_learnt_from(tmp_path: Path) -> None:
    how = ("-", "--hash-bits", "8")
    for name, text in (("plain", PLAIN), ("wide", WIDE)):
        succeeded("learn", *how, "-o", tmp_path / name, given=text.encode())
    assert (tmp_path / "wide").read_bytes() == (tmp_path / "plain").read_bytes()


def test_comments_change_what_is_encoded(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(PLAIN + "\n#tag N O\n")
    for comments, positions in ((None, 4), ("#", 3), (None, 4)):
        said = () if comments is None else ("--comments", comments)
        succeeded("train", tmp_path / "t", "-o", tmp_path / "m", "--max-iterations", "1", *said)
        assert open_model(tmp_path / "m").training["positions"] == positions, (
            "what is kept beside the model is not this"
        )


# Groups

LOG = "user,word,label\n1,a,X\n1,b,Y\n2,c,X\n1,d,Y\n"
SORTED = "user,word,label\n1,a,X\n1,b,Y\n1,d,Y\n2,c,X\n"
AGAIN = (
    "line 5, column 'user': group '1' comes again after another; sort the rows by group, or set --groups-return if "
    "each of its runs is a sequence."
)


def test_groups_that_come_again_are_refused(tmp_path: Path) -> None:
    log, grouped = tmp_path / "log.csv", ("--group", "user")
    log.write_text(LOG)
    assert failed("encode", log, "-o", tmp_path / "c", *grouped) == f"{log}: {AGAIN}"
    assert failed("train", log, "-o", tmp_path / "m", *grouped) == f"{log}: {AGAIN}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv"]
    succeeded("encode", log, "-o", tmp_path / "c", *grouped, "--groups-return")
    assert cf.open_chain(tmp_path / "c").block(0, 4).starts.tolist() == [True, False, True, True]
    succeeded("train", log, "-o", tmp_path / "m", *grouped, "--groups-return", "--max-iterations", "2")
    succeeded("tag", tmp_path / "m", log)  # as the model was made
    (tmp_path / "sorted.csv").write_text(SORTED)
    succeeded("train", tmp_path / "sorted.csv", "-o", tmp_path / "n", *grouped, "--max-iterations", "2")
    for verb in ("tag", "eval"):
        assert failed(verb, tmp_path / "n", log) == f"{log}: {AGAIN}"
        succeeded(verb, tmp_path / "n", log, "--groups-return")
    assert "comes again" in failed("train", tmp_path / "sorted.csv", "--dev", log, "-o", tmp_path / "o", *grouped)


def test_groups_of_streams_may_come_again(tmp_path: Path) -> None:
    (tmp_path / "sorted.csv").write_text(SORTED)
    succeeded("train", tmp_path / "sorted.csv", "-o", tmp_path / "m", "--group", "user", "--max-iterations", "2")
    assert succeeded("tag", tmp_path / "m", "-", "--follow", given=LOG.encode()).count(b"\n") == 5
    how = ("--group", "user", "--hash-bits", "8", "--format", "csv")
    succeeded("learn", "-", *how, "-o", tmp_path / "o", given=LOG.encode())
    (tmp_path / "log.csv").write_text(LOG)
    succeeded("eval", tmp_path / "o", tmp_path / "log.csv")  # as the model was made


def test_groups_of_tables_and_across_files(tmp_path: Path) -> None:
    table = pa.table({"user": [1, 1, 2, 1], "word": list("abcd"), "label": list("XYXY")})
    for given in (table, table.to_pandas()):
        with pytest.raises(BadFile, match="row 4, column 'user': group '1' comes again"):
            cf.chain_from_table(given, group="user")
        chain = cf.chain_from_table(given, group="user", groups_return=True)
        assert chain.starts.tolist() == [True, False, True, True]
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadFile, match=r"t\.parquet: row 4, column 'user'"):
        cf.encode(tmp_path / "t.parquet", tmp_path / "c", group="user")
    frame = pd.DataFrame({"user": ["a", "a", "b"], "word": list("xyz"), "label": list("XYX")})
    chain = cf.chain_from_table(frame, group="user")
    assert chain.vocabulary is not None
    with pytest.raises(BadFile, match="group 'a' comes again"):
        list(blocks_for_model(pd.concat([frame, frame]), chain.vocabulary))
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text(SORTED)
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    with pytest.raises(BadFile, match=r"2\.csv: line 2, column 'user': group '1' comes again"):
        cf.encode(files, tmp_path / "c", group="user")
    encoded = cf.encode(files[0], tmp_path / "c", group="user")
    assert cf.encode(files[1], tmp_path / "c", group="user", append=True).sequences == 2 * encoded.sequences


def test_missing_groups_come_again_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,word,label\n,a,X\n1,b,Y\n,c,X\n")
    with pytest.raises(BadFile, match="line 4, column 'user': the missing group comes again"):
        cf.encode(tmp_path / "t.csv", tmp_path / "c", group="user")


def test_every_group_that_comes_again_is_found() -> None:
    random = np.random.default_rng(0)
    for count in (3, 400, 5000):
        order = np.repeat(random.permutation(count), random.integers(1, 4, count))
        table = pa.table({"user": order.astype(str), "word": order.astype(str), "label": order % 3})
        assert cf.chain_from_table(table, group="user").starts.sum() == count
        last = pa.concat_tables([table, table.slice(int(random.integers(0, np.argmax(order == order[-1]))), 1)])
        with pytest.raises(BadFile, match=f"row {order.size + 1}, column 'user': group "):
            cf.chain_from_table(last, group="user")


def test_a_group_that_goes_on_in_the_next_piece_has_not_come_again(tmp_path: Path) -> None:
    text = "user,word,label\n" + "".join(f"{row // 90_000},w{row % 7},{row % 2}\n" for row in range(200_000))
    (tmp_path / "t.csv").write_text(text)
    assert cf.encode(tmp_path / "t.csv", tmp_path / "c", group="user").sequences == 3


def test_more_groups_than_can_be_held_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_MOST_GROUPS", 10)
    table = pa.table({"user": list("abcdefghijk"), "word": ["x"] * 11, "label": ["X", *"Y" * 10]})
    with pytest.raises(BadFile, match="more than 10 groups, too many to check that none occurs again"):
        cf.chain_from_table(table, group="user")
    assert cf.chain_from_table(table, group="user", groups_return=True).starts.all()
    assert cf.chain_from_table(table.slice(1), group="user").starts.all()


# A single label


def test_a_single_label_of_what_arrives_is_named(tmp_path: Path) -> None:
    done = run("learn", "-", "--hash-bits", "8", "-o", tmp_path / "m", given=b"a x O\nb y O\n")
    assert done.exit_code == 0
    assert done.stderr == "chainfold: every position has the same label, 'O': the model can give no other.\n"
