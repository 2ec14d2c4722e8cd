"""Encoding in parts gives the chain of one encoding of all files, whoever does the jobs and in whatever order."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from chain.test_stored import contents, meaning
from chainfold import Layout, Model, log_likelihood
from chainfold.chain.any_chain import open_chain
from chainfold.chain.parts import ChainInParts
from chainfold.errors import BadFile, BadSetting, ChainfoldError
from chainfold.features.encode import encode
from chainfold.features.parts import (
    PartsEncoding,
    claimed_parts,
    encode_in_parts,
    finish,
    first_pass,
    fitted,
    merge,
    plan,
    second_pass,
    survey,
)
from chainfold.readers import pieces
from chainfold.system.storage import LocalStorage
from processes import PATIENCE, command, running
from verbs import failed, succeeded

WORDS: dict[str, Any] = {
    "columns": ["word", "pos", "tag"],
    "attributes": "word[-2] word[-1] word word[1] word[2] pos[-1]|pos pos[2]",
}
TEMPLATE = "U1:%x[-2,0]\nU2:%x[0,0]\nU3:%x[2,1]\nB1:%x[-1,1]/%x[0,1]\nB\n"


def conll(dice: random.Random, rows: int, blank: float = 0.15) -> str:
    lines = []
    for _ in range(rows):
        tag = dice.choice(["A", "B", "C", "D"])
        lines.append(f"w{dice.randrange(60)} p{dice.randrange(6)} {tag}\n" + "\n" * (dice.random() < blank))
    return "".join(lines)


def log(dice: random.Random, rows: int, quoted: bool = False, host: int = 0) -> str:
    lines = ["host,size,text,weight,label\n"]
    for _ in range(rows):
        host += dice.random() < 0.1
        text = '"a, ""b""\nc"' if quoted and dice.random() < 0.3 else f"t{dice.randrange(20)}"
        size = "" if dice.random() < 0.05 else f"{dice.lognormvariate(3, 2):.3f}"
        lines.append(f"h{host},{size},{text},{(0.5, 1, 2)[host % 3]},{dice.choice('XYZ')}\n")
    return "".join(lines)


def attribute_lines(dice: random.Random, rows: int) -> str:
    lines = []
    for _ in range(rows):
        names = "".join(f"\ta{dice.randrange(40)}:{dice.choice(['1', '0.5', '-2'])}" for _ in range(dice.randrange(4)))
        edges = "\t@edge\te1\te2" if dice.random() < 0.3 else ""
        lines.append(f"{dice.choice(['A', 'B', ''])}{names}{edges}\n" + "\n" * (dice.random() < 0.1))
    return "".join(lines)


def objects(dice: random.Random, rows: int) -> str:
    line = '{{"w": "w{}", "n": {}, "label": "L{}"}}\n'
    return "".join(line.format(dice.randrange(30), dice.randrange(99), k % 3) for k in range(rows))


class Files:
    """The inputs of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder, dice = folder, random.Random(7)
        texts = {
            "a.txt": conll(dice, 300),
            "b.txt": conll(dice, 120),
            "one.txt": conll(dice, 250, blank=0.0),
            "hash.txt": "# a comment\n" + conll(dice, 150) + "\n#1 p1 A\n" + conll(dice, 50),
            "log.csv": log(dice, 300),
            "more.csv": log(dice, 100, host=1000),
            "quoted.csv": log(dice, 300, quoted=True),
            "log.tsv": log(dice, 200).replace(",", "\t"),
            "items.crfsuite": attribute_lines(dice, 300),
            "rows.jsonl": objects(dice, 250),
            "template": TEMPLATE,
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
        (folder / "bom.csv").write_bytes(b"\xef\xbb\xbf" + texts["log.csv"].encode())
        (folder / "latin.txt").write_bytes(texts["a.txt"].replace("w1", "é").encode("latin-1"))
        (folder / "a.txt.gz").write_bytes(gzip.compress(texts["a.txt"].encode()))
        (folder / "more.csv.gz").write_bytes(gzip.compress(texts["more.csv"].encode()))
        table = pyarrow.csv.read_csv(folder / "log.csv")
        pq.write_table(table, folder / "log.parquet", row_group_size=37)

    def __call__(self, *names: str) -> list[str]:
        return [str(self.folder / name) for name in names]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("inputs"))


class Case(NamedTuple):
    inputs: tuple[str, ...]
    options: dict[str, Any]


CASES = {
    "sentences": Case(("a.txt", "b.txt"), WORDS),
    "one sequence in a file": Case(("one.txt",), WORDS),
    "one sequence in all files": Case(("a.txt", "b.txt", "one.txt"), WORDS | {"one_sequence": True}),
    "edges of a template": Case(("a.txt", "b.txt"), {"template": "template"}),
    "edges, one sequence": Case(("one.txt", "b.txt"), {"template": "template", "one_sequence": True}),
    "min_count": Case(("a.txt",), WORDS | {"min_count": 4}),
    "hash_bits": Case(("a.txt", "one.txt"), WORDS | {"hash_bits": 7}),
    "hashed edges": Case(("a.txt",), {"template": "template", "hash_bits": 7}),
    "bins": Case(("log.csv", "more.csv"), {"group": "host", "weight": "weight"}),
    "scales": Case(("log.csv",), {"group": "host", "numbers": "standard"}),
    "context of groups": Case(
        ("log.csv", "more.csv"),
        {"group": "host", "attributes": "text[-2] text[-1] quantile(size,5)[1] standard(size) text[2]"},
    ),
    "context of groups across compressed files": Case(
        ("log.csv", "more.csv.gz"), {"group": "host", "attributes": "text[-2] text text[2]"}
    ),
    "no labels": Case(("log.csv",), {"labels": False, "group": "host"}),
    "unknown labels": Case(("log.csv",), {"unknown": "Y"}),
    "quoted line ends": Case(("quoted.csv",), {"attributes": "text[-1] text[-2] text[1]", "group": "host"}),
    "quoted line ends, one sequence": Case(
        ("quoted.csv", "log.csv"), {"attributes": "text[-1] text[-2] text[1]", "one_sequence": True}
    ),
    "tabs": Case(("log.tsv",), {"attributes": "text[-1] text[1]"}),
    "a byte order mark": Case(("bom.csv",), {"attributes": "text[-1] text[1]"}),
    "attribute lines": Case(("items.crfsuite",), {}),
    "objects": Case(("rows.jsonl",), {"attributes": "w[-1] w real(n)"}),
    "row groups": Case(("log.parquet",), {"group": "host", "attributes": "text[-2] standard(size) text[2]"}),
    "row groups, one sequence": Case(
        ("log.parquet", "log.parquet"), {"attributes": "text[-2] text[2]", "one_sequence": True}
    ),
    "another encoding": Case(("latin.txt",), WORDS | {"encoding": "latin-1"}),
    "compressed": Case(("a.txt.gz", "b.txt"), WORDS),
    "lines that may be comments": Case(("hash.txt",), WORDS | {"comments": "# "}),
}


UNCUT = ("another encoding",)


def told(case: Case, files: Files) -> dict[str, Any]:
    options = dict(case.options)
    if "template" in options:
        (options["template"],) = files(options["template"])
    return options


@pytest.fixture(scope="module")
def singles(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """The single chain of each case, made once."""
    folder, made = tmp_path_factory.mktemp("singles"), {}

    def single(name: str) -> Any:
        if name not in made:
            case = CASES[name]
            made[name] = encode(files(*case.inputs), folder / name, **told(case, files))
        return made[name]

    return single


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what comes before a piece of a small file is not always the whole file."""
    monkeypatch.setattr(pieces, "_HEAD", 60)
    monkeypatch.setattr(pieces, "_FIRST_LOOK", 16)
    monkeypatch.setattr(pieces, "_LOOK", 50)


def check_same(chain: ChainInParts, single: Any) -> None:
    assert chain.header == single.header
    assert meaning(chain.vocabulary) == meaning(single.vocabulary)
    for low in range(0, single.positions, 61):
        high = min(low + 97, single.positions)
        assert contents(chain.block(low, high)) == contents(single.block(low, high))


@pytest.mark.parametrize("size", [10**9, 1700, 300])
@pytest.mark.parametrize("name", CASES)
def test_the_chain_is_that_of_one_encoding(
    name: str, size: int, files: Files, singles: Callable[[str], Any], tmp_path: Path
) -> None:
    case = CASES[name]
    chain = encode_in_parts(files(*case.inputs), tmp_path / "chain", part_size=size, **told(case, files))
    check_same(chain, singles(name))
    assert len(chain.parts) == 1 if size == 10**9 else len(chain.parts) > 1 or name in UNCUT
    assert not [path for path in (tmp_path / "chain").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("change", range(20, 50))
def test_weights_that_change_within_a_sequence_are_found_where_parts_meet(change: int, tmp_path: Path) -> None:
    rows = "".join(f"a,{1 + (row >= change)},X,g\n" for row in range(80))  # of 8 bytes: a part has about thirty
    (tmp_path / "log.csv").write_text("word,w,label,group\n" + rows)
    with pytest.raises(ChainfoldError, match=f"line {change + 2}, column 'w': the weight is 2"):
        encode_in_parts(tmp_path / "log.csv", tmp_path / "chain", part_size=250, group="group", weight="w")


@pytest.mark.parametrize("name", ["sentences", "edges, one sequence", "hash_bits", "row groups", "attribute lines"])
def test_the_gradient_has_the_same_bits(name: str, files: Files, singles: Callable[[str], Any], tmp_path: Path) -> None:
    case, single = CASES[name], singles(name)
    chain = encode_in_parts(files(*case.inputs), tmp_path / "chain", part_size=1000, **told(case, files))
    model = Model.random(Layout.observed(single))
    one, other = (log_likelihood(model, source, "parallel", threads=2) for source in (single, chain))
    assert one.log_z == other.log_z
    np.testing.assert_array_equal(one.expected, other.expected)


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def planned(case: Case, files: Files, folder: Path, size: int = 700) -> PartsEncoding:
    return plan(files(*case.inputs), folder, part_size=size, **told(case, files))


@pytest.mark.parametrize("name", ["sentences", "context of groups", "quoted line ends"])
def test_jobs_can_be_done_in_any_order_and_more_than_once(name: str, files: Files, tmp_path: Path) -> None:
    case, dice = CASES[name], random.Random(3)
    inputs, options = files(*case.inputs), told(case, files)
    encode_in_parts(inputs, tmp_path / "one", part_size=700, threads=1, **options)
    encode_in_parts(inputs, tmp_path / "three", part_size=700, threads=3, **options)
    assert bytes_in(tmp_path / "one") == bytes_in(tmp_path / "three")

    def sent(thing: Any) -> Any:
        return pickle.loads(pickle.dumps(thing))

    def shuffled() -> Iterator[int]:
        jobs = [*range(len(encoding.jobs))] * 2
        dice.shuffle(jobs)
        return iter(jobs)

    encoding = sent(planned(case, files, tmp_path / "shuffled"))
    if encoding.needs_survey:
        surveys = {job: sent(survey(sent(encoding), job)) for job in shuffled()}
        encoding = fitted(encoding, [surveys[job] for job in sorted(surveys)])
    for job in shuffled():
        first_pass(sent(encoding), job)
    merged = sent(merge(encoding))
    assert merge(encoding) == merged
    done = {job: sent(second_pass(encoding, merged, job)) for job in shuffled()}
    finish(encoding, merged, [done[job] for job in sorted(done)])
    assert bytes_in(tmp_path / "one") == bytes_in(tmp_path / "shuffled")


def test_small_files_are_put_together_and_large_ones_cut(files: Files, tmp_path: Path) -> None:
    names = files("b.txt", "b.txt", "b.txt", "one.txt")
    size = (files.folder / "b.txt").stat().st_size
    encoding = plan(names, tmp_path, part_size=2 * size + 5, **WORDS)
    assert [[piece.file for piece in job] for job in encoding.jobs][:2] == [[0, 1], [2]]
    assert encoding.size == 3 * size + (files.folder / "one.txt").stat().st_size
    again = plan(names, tmp_path, part_size=2 * size + 5, **WORDS)
    assert (again.jobs, again.template) == (encoding.jobs, encoding.template)
    assert again.run != encoding.run


def test_a_part_may_be_without_rows(tmp_path: Path) -> None:
    text = "a X\n" + "\n" * 3000 + "b Y\n"
    (tmp_path / "t.txt").write_text(text)
    single = encode(tmp_path / "t.txt", tmp_path / "single")
    chain = encode_in_parts(tmp_path / "t.txt", tmp_path / "chain", part_size=100)
    check_same(chain, single)
    assert len(chain.parts) == 2


# What is wrong with inputs


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("w A\nw A B\n", {}, "t: line 2 has 3 columns, but the "),
        ("w A\n" * 50 + "w A B\n" + "w A\n" * 50, {}, "t: line 51 has 3 columns, but the lines before it have 2"),
        ("w A\n" * 50 + "w A\xa0\n", {}, "column '1': the label 'A\\\\xa0' is 'A' but for white space; correct it"),
        (
            "g A\n" * 50 + "h A\n" * 50 + "g A\n",
            {"group": "0", "format": "conll", "attributes": "symbol(0)"},
            "column '0': one of its groups has begun before and comes again after another; sort the rows by group",
        ),
        ("w A\n\n# x y\n" + "w A\n" * 50 + "\n# B\n", {}, "some lines that begin with '#' may be rows or comments"),
        ("w A\n\n# B\n" + "w A\n" * 50 + "\n# B\n", {}, "some lines that begin with '#' may be rows or comments"),
    ],
)
def test_what_is_wrong_beyond_a_part_is_found(
    text: str, options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(ChainfoldError):
        encode(tmp_path / "t", tmp_path / "single", **options)
    with pytest.raises(BadFile, match=sentence):
        encode_in_parts(tmp_path / "t", tmp_path / "chain", part_size=60, **options)
    assert not list(tmp_path.glob("chain/*"))
    assert not list(tmp_path.glob("chain/.*"))


def test_a_number_that_is_none_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,label\n" + "1,A\n" * 400_000 + "x,A\n")
    with pytest.raises(BadFile, match=r"t\.csv: line 400002, column 'n': 'x' is not a number"):
        encode_in_parts(tmp_path / "t.csv", tmp_path / "chain", part_size=1 << 19)


@pytest.mark.parametrize(
    ("content", "sentence"), [(b"", "e.txt: is empty"), (b"\n\n\n", "e.txt: has only blank lines or comments")]
)
def test_a_file_without_rows_is_refused(content: bytes, sentence: str, files: Files, tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_bytes(content)
    with pytest.raises(BadFile, match=sentence):
        encode_in_parts([*files("a.txt"), tmp_path / "e.txt"], tmp_path / "chain", **WORDS)


def test_a_file_that_is_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a A\n" * 10)
    encoding = plan(tmp_path / "t", tmp_path / "chain")
    (tmp_path / "t").write_text("a A\n" * 11)
    with pytest.raises(BadFile, match="t: was changed since its encoding began; encode the files again"):
        first_pass(encoding, 0)


def test_inputs_and_outputs_have_names(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a A\n" * 10)
    with (
        (tmp_path / "t").open("rb") as file,
        pytest.raises(BadFile, match="is no file; a chain in parts is encoded from"),
    ):
        encode_in_parts(file, tmp_path / "chain")
    with pytest.raises(ChainfoldError, match="write the table to Parquet"):
        encode_in_parts({"a": [1]}, tmp_path / "chain")
    with pytest.raises(BadSetting, match="part_size is 0, but must be a number of bytes"):
        encode_in_parts(tmp_path / "t", tmp_path / "chain", part_size=0)
    with pytest.raises(BadSetting, match="threads is 0, but must be at least 1"):
        encode_in_parts(tmp_path / "t", tmp_path / "chain", threads=0)
    (tmp_path / "single").write_text("")
    with pytest.raises(BadFile, match="a chain in parts is a folder, and this is a file; remove it"):
        encode_in_parts(tmp_path / "t", tmp_path / "single")
    with pytest.raises(BadFile, match=r"it has other files, such as (t|single); name a new folder"):
        encode_in_parts(tmp_path / "t", tmp_path)
    encode_in_parts(tmp_path / "t", tmp_path / "chain")
    with pytest.raises(BadFile, match="only a whole chain in parts can be written there"):
        encode(tmp_path / "t", tmp_path / "chain", append=True)


# What is killed


class Killed(BaseException):
    """Nothing can be done about it, and nothing is done."""


class Death:
    """Kills at a moment: before and after each change to a file."""

    def __init__(self, at: int, patch: pytest.MonkeyPatch) -> None:
        self._left, self._lock = at, threading.Lock()
        for name in ("written", "digested"):
            patch.setattr(LocalStorage, name, self._around(getattr(LocalStorage, name)))
        remove = LocalStorage.remove

        def removed(storage: LocalStorage, name: str) -> None:
            self._moment()
            remove(storage, name)

        patch.setattr(LocalStorage, "remove", removed)

    def _moment(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                raise Killed

    def _around(self, opening: Any) -> Any:
        @contextmanager
        def opened(*given: Any, **how: Any) -> Iterator[Any]:
            self._moment()
            with opening(*given, **how) as file:
                yield file
            self._moment()

        return opened


@pytest.mark.parametrize("there", [False, True])
def test_what_is_killed_leaves_the_chain_that_was_there(
    there: bool, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nobody cuts the power
    folder, before, after = tmp_path / "chain", files("a.txt"), files("one.txt")
    new = encode_in_parts(after, tmp_path / "new", part_size=1200, **WORDS)
    old = encode_in_parts(before, tmp_path / "old", part_size=1800, **WORDS)
    for at in range(1, 1000):
        if there:
            encode_in_parts(before, folder, part_size=1800, **WORDS)
        with pytest.MonkeyPatch.context() as patch:
            Death(at, patch)
            try:
                encode_in_parts(after, folder, part_size=1200, threads=1, **WORDS)
                break
            except Killed:
                pass
        if (folder / "index.json").exists():
            chain = open_chain(folder)
            assert isinstance(chain, ChainInParts)
            expected = new if chain.digest == new.digest else old
            assert chain.digest == expected.digest
            assert contents(chain.block(0, chain.positions)) == contents(expected.block(0, expected.positions))
        else:
            with pytest.raises(BadFile):
                open_chain(folder)
        encode_in_parts(after, folder, part_size=1200, **WORDS)
        assert bytes_in(folder) == bytes_in(tmp_path / "new")
    assert 20 < at < 1000


def test_a_chain_whose_index_cannot_be_read_just_now_is_kept(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = encode_in_parts(files("a.txt"), tmp_path / "chain", **WORDS)

    def denied(storage: LocalStorage, file: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalStorage, "fetched", denied)
    with pytest.raises(BadFile, match=r"index\.json: cannot be read: Permission denied"):
        encode_in_parts(files("one.txt"), tmp_path / "chain", **WORDS)
    monkeypatch.undo()
    found = open_chain(tmp_path / "chain")
    assert contents(found.block(0, found.positions)) == contents(chain.block(0, chain.positions))


def test_an_output_belongs_to_one_process(files: Files, tmp_path: Path) -> None:
    with (
        claimed_parts(tmp_path / "chain", files("a.txt")),
        pytest.raises(BadFile, match="is being written by another process"),
    ):
        encode_in_parts(files("a.txt"), tmp_path / "chain", **WORDS)


def test_a_process_that_is_killed_leaves_nothing_that_opens(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(conll(random.Random(2), 40_000))
    line = command("encode", tmp_path / "t", "-o", tmp_path / "chain", "--part-size", "20kB", "--quiet")
    for moment in ("blocks-000003", "part-000002"):
        with running(line) as process:
            begin = time.monotonic()
            while not list(tmp_path.glob(f"chain/**/{moment}*")) and process.poll() is None:
                assert time.monotonic() - begin < PATIENCE
                time.sleep(0.01)
            process.kill()
        if not (tmp_path / "chain" / "index.json").exists():
            with pytest.raises(BadFile, match="is a folder without"):
                open_chain(tmp_path / "chain")
    chain = encode_in_parts(tmp_path / "t", tmp_path / "chain", part_size=20_000)
    assert chain.positions == 40_000
    names = {path.name for path in (tmp_path / "chain").iterdir()}
    assert names == {"index.json", chain._index.vocabulary.name, *(part.name for part in chain.parts)}


def test_the_command_line_describes_a_chain_in_parts(files: Files, tmp_path: Path) -> None:
    told = ("--columns", "word,pos,tag", "--part-size", "1kB", "--threads", 2, "--json")
    facts = json.loads(succeeded("encode", *files("a.txt"), "-o", tmp_path / "chain", *told))
    about = json.loads(succeeded("data", tmp_path / "chain", "--json"))
    assert facts["parts"] == len(about["parts"]) > 2
    assert sum(part["positions"] for part in about["parts"]) == about["positions"] == 300
    assert b"parts" in succeeded("data", tmp_path / "chain")
    assert failed("encode", *files("a.txt"), "-o", "x", "--threads", 2) == "--threads requires --part-size."
    assert "excludes --append" in failed("encode", *files("a.txt"), "-o", "x", "--part-size", "1MB", "--append")
