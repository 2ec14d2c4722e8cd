"""Models of CRFsuite, Wapiti and CRF++ mean what they mean there: an enumeration and python-crfsuite agree."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainfold as cf
import pycrfsuite
from chainfold.chain.block import join_blocks
from chainfold.exchange.any_model import FORMATS
from chainfold.exchange.cqdb import database_of, lookup3
from chainfold.features.for_model import blocks_for_model
from chainfold.model.file import fingerprint
from chainfold.model.model import vocabulary_of_model
from foreign_files import cqdb, crfpp_binary, crfpp_text, crfsuite_file, wapiti_file
from foreign_files import lookup3 as plain_lookup3
from verbs import failed, run, succeeded

pytestmark = pytest.mark.quick

LABELS = ["N", "V", "O"]
ROWS = [("Ab", "x"), ("cd", "y"), ("Ab", "y"), ("eF", "x"), ("Ea", "x")]
EXACT = 1e-12
SINGLE = 1e-6  # weights in single precision


def weights(dice: random.Random, count: int) -> list[float]:
    return [dice.uniform(-2, 2) for _ in range(count)]


def at(t: int, column: int, mark: Callable[[int], str]) -> str:
    """A cell, or the mark of a row beyond the sequence: mark(-1) is right before the first, mark(1) after the last."""
    if t < 0:
        return mark(t)
    return ROWS[t][column] if t < len(ROWS) else mark(t - len(ROWS) + 1)


def of_crfpp(distance: int) -> str:
    return f"_B{distance:+d}"


def of_wapiti(distance: int) -> str:
    return f"_x{distance:+d}" if abs(distance) < 5 else f"_x{'+' if distance > 0 else '-'}#"


def enumerated(found: Sequence[tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]]) -> tuple[list[str], Any]:
    """The best labels and the marginals, over all labellings; a position has rows of weights of labels, and pairs."""
    n = len(LABELS)
    totals = np.zeros((len(found), n))
    best: tuple[float, tuple[int, ...]] = (-math.inf, ())
    for path in itertools.product(range(n), repeat=len(found)):
        score = 0.0
        for t, (state, pairs) in enumerate(found):
            score += sum(row[path[t]] for row in state)
            if t:
                score += sum(row[path[t - 1] * n + path[t]] for row in pairs)
        totals[range(len(found)), path] += math.exp(score)
        best = max(best, (score, path))
    return [LABELS[label] for label in best[1]], totals / totals[0].sum()


def check(path: Path, folder: Path, expected: tuple[list[str], Any], tolerance: float, separator: str = " ") -> None:
    """The model of the file, opened as it is, imported, and exported and opened, labels rows as expected."""
    rows = folder / "rows.txt"
    rows.write_text("".join(f"{separator.join(row)}\n" for row in ROWS))
    labelled = folder / "labelled.txt"
    labelled.write_text(
        "".join(f"{separator.join(row)} {label}\n" for row, label in zip(ROWS, LABELS * 2, strict=False))
    )
    succeeded("import", path, "-o", folder / "imported.model")
    for model_path in (path, folder / "imported.model"):
        model = cf.open_any_model(model_path)
        for file in (rows, labelled):
            chain = chain_of(file, model)
            assert np.abs(cf.marginals(model, chain) - expected[1]).max() < tolerance
            tagged = succeeded("tag", model_path, file).decode().split("\n")
            assert [line.split()[-1] for line in tagged if line] == expected[0]
    assert b"5 positions" in succeeded("eval", path, labelled)


def chain_of(path: Path, model: cf.Model) -> cf.Chain:
    """The rows of a file with the numbers of a model."""
    vocabulary, layout = vocabulary_of_model(model), model.layout
    parts = join_blocks([known.block for known in blocks_for_model([str(path)], vocabulary)])
    return cf.Chain(*parts, layout.n_labels, layout.n_attributes, layout.n_edge_attributes, vocabulary)


# CRF++


CRFPP_PATTERNS = ["U0:%x[0,0]", "U1:%x[-1,0]/%x[0,1]", "U2:%x[-6,1]", "U", "U0:%x[0,0]", "B", "B1:%x[1,1]", "B"]


def crfpp_keys() -> dict[str, list[float]]:
    """Weights for all keys of the rows but one, and for some others."""
    dice, n = random.Random(3), len(LABELS)
    keys: dict[str, list[float]] = {}
    for t in range(len(ROWS)):
        for key in crfpp_at(t):
            keys.setdefault(key, weights(dice, n if key[0] == "U" else n * n))
    del keys["U0:cd"]
    return {"B1:other": weights(dice, n * n), **keys, "U0:other": weights(dice, n)}


def crfpp_at(t: int) -> list[str]:
    word = f"U0:{at(t, 0, of_crfpp)}"
    pair = f"U1:{at(t - 1, 0, of_crfpp)}/{at(t, 1, of_crfpp)}"
    return [word, pair, f"U2:{at(t - 6, 1, of_crfpp)}", "U", word, "B", f"B1:{at(t + 1, 1, of_crfpp)}", "B"]


def scored(keys: dict[str, list[float]], at_position: Callable[[int], list[str]], factor: float = 1.0) -> Any:
    found = []
    for t in range(len(ROWS)):
        rows = [(key, [factor * w for w in keys[key]]) for key in at_position(t) if key in keys]
        found.append(([row for key, row in rows if key[0] == "U"], [row for key, row in rows if key[0] == "B"]))
    return found


@pytest.mark.parametrize("factor", ["1", "0.5"])
def test_crfpp_text(tmp_path: Path, factor: str) -> None:
    path, keys = tmp_path / "crfpp.txt", crfpp_keys()
    path.write_bytes(crfpp_text(LABELS, CRFPP_PATTERNS, keys, factor=factor))
    check(path, tmp_path, enumerated(scored(keys, crfpp_at, float(factor))), EXACT)


def test_crfpp_binary(tmp_path: Path) -> None:
    path, keys = tmp_path / "crfpp.model", crfpp_keys()
    path.write_bytes(crfpp_binary(LABELS, CRFPP_PATTERNS, keys))
    check(path, tmp_path, enumerated(scored(keys, crfpp_at)), SINGLE)
    model = cf.open_any_model(path)
    assert model.training == {"imported": "CRF++"}
    vocabulary = vocabulary_of_model(model)
    assert {*vocabulary.attributes.to_pylist(), *vocabulary.edge_attributes.to_pylist(), "B"} == set(keys)


# Wapiti


WAPITI_PATTERNS = [
    "*",
    "u0:%x[0,0]",
    "u1:%X[-1,0]/%x[0,1]",
    "u2:%x[-6,1]%x[4,1]",
    'u3:%t[ 0,0,"^\\u"]%m[0,0,".$"]%M[-1,0,"^.?.?"]',
    "*4:%x[0,1]",
    "b5:%x[1,1]",
    "b",
]


def wapiti_at(t: int) -> list[str]:
    word, tag, before = at(t, 0, of_wapiti), at(t, 1, of_wapiti), at(t - 1, 0, of_wapiti)
    low = before.lower()
    test = "true" if word[0].isupper() else "false"
    return [
        "*",
        f"u0:{word}",
        f"u1:{low}/{tag}",
        f"u2:{at(t - 6, 1, of_wapiti)}{at(t + 4, 1, of_wapiti)}",
        f"u3:{test}{word[-1]}{low[:2]}",
        f"*4:{tag}",
        f"b5:{at(t + 1, 1, of_wapiti)}",
        "b",
    ]


def wapiti_observations() -> dict[str, list[float]]:
    dice, n = random.Random(4), len(LABELS)
    sizes = {"u": n, "b": n * n, "*": n + n * n}
    found: dict[str, list[float]] = {"b5:other": [0.0] * (n * n)}
    for t in range(len(ROWS)):
        for name in wapiti_at(t):
            found.setdefault(name, [dice.choice([w, w, 0.0]) for w in weights(dice, sizes[name[0]])])
    del found["u0:cd"]
    return found


@pytest.mark.parametrize("head", ["#mdl#2#", "#mdl#"])
def test_wapiti(tmp_path: Path, head: str) -> None:
    path, observations = tmp_path / "wapiti.model", wapiti_observations()
    path.write_bytes(wapiti_file(LABELS, WAPITI_PATTERNS, observations, head))
    n, found = len(LABELS), []
    for t in range(len(ROWS)):
        names = [name for name in wapiti_at(t) if name in observations]
        state = [observations[name][:n] for name in names if name[0] != "b"]
        found.append((state, [observations[name][-n * n :] for name in names if name[0] != "u"]))
    check(path, tmp_path, enumerated(found), EXACT)


def test_names_that_are_cut_bytes_are_read_as_latin_1(tmp_path: Path) -> None:
    path, rows = tmp_path / "wapiti.model", tmp_path / "rows.txt"
    observation = 'u:%m[0,0,".$"]'
    text = wapiti_file(["Y", "N"], [observation], {"u:#": [0.0, 1.0], "u:a": [1.0, 0.0]})
    path.write_bytes(text.replace(b"3:u:#,", b"3:u:\x89,"))  # the last byte of É
    assert "observation 0 is not utf-8, u:\\x89; open it with another --encoding" in failed("tag", path, path)
    succeeded("import", path, "-o", tmp_path / "model", "--encoding", "latin-1")
    rows.write_text("É\na\n")
    tagged = succeeded("tag", tmp_path / "model", rows, "--encoding", "latin-1").decode()
    assert tagged.encode("latin-1").decode() == "É N\na Y\n"


def test_expressions_that_match_bytes_are_not_run_on_characters(tmp_path: Path) -> None:
    path = tmp_path / "wapiti.model"
    path.write_bytes(wapiti_file(["Y", "N"], ['u:%m[0,0,"^.?.?"]'], {"u:É": [0.0, 1.0], "u:Éa": [1.0, 0.0]}))
    assert "match bytes in Wapiti and characters in chainfold" in failed("tag", path, path)
    own = cf.open_any_model(path, "latin-1")
    cf.export_model(own, tmp_path / "back", "wapiti", "latin-1")
    assert (tmp_path / "back").read_bytes() == path.read_bytes().replace(b"#rdr#1/3", b"#rdr#1/0")
    with pytest.raises(cf.ChainfoldError, match="it cannot be exported"):
        cf.export_model(own, tmp_path / "back", "wapiti")


def test_lower_case_in_wapiti_is_that_of_ascii(tmp_path: Path) -> None:
    path, rows = tmp_path / "wapiti.model", tmp_path / "rows"
    path.write_bytes(wapiti_file(["Y", "N"], ["u:%X[0,0]"], {"u:Éa": [1.0, 0.0], "u:éa": [0.0, 1.0]}))
    rows.write_text("ÉA\néA\n")
    assert succeeded("tag", path, rows).decode() == "ÉA Y\néA N\n"
    cf.export_model(cf.open_any_model(path), tmp_path / "back", "wapiti")
    assert succeeded("tag", tmp_path / "back", rows).decode() == "ÉA Y\néA N\n"
    (tmp_path / "train").write_text("ÉA Y\néA N\n")
    succeeded("train", tmp_path / "train", "--template", template(tmp_path, ["u:%X[0,0]"]), "-o", tmp_path / "own")
    assert "nothing like the attribute" in failed("export", tmp_path / "own", "-o", path, "--format", "wapiti")


def test_wapiti_without_patterns_has_attributes_as_such(tmp_path: Path) -> None:
    path = tmp_path / "wapiti.model"
    path.write_bytes(wapiti_file(["Y", "N"], [], {"ua": [1.0, 0.0], "b": [0.0, 2.0, 0.0, 0.0], "ub": [0.0, 0.25]}))
    vocabulary = vocabulary_of_model(cf.open_any_model(path))
    assert vocabulary.template is None
    assert vocabulary.edge_attributes.to_pylist() == ["b"]
    (tmp_path / "rows").write_text("Y\tua\nN\tub\nN\tua\t@edge\tb\n")
    assert succeeded("tag", path, tmp_path / "rows", "--format", "crfsuite").split(b"\n")[0].split(b"\t")[-1] == b"Y"


# CRFsuite


ATTRIBUTES = ["bias", "w=a", "w=b", "näme", "unused", *(f"long{'x' * k}" for k in range(30))]


def by_hand(dice: random.Random) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    state = {(a, y): dice.uniform(-2, 2) for a in ATTRIBUTES if a != "unused" for y in LABELS if dice.random() < 0.7}
    state["bias", "N"] = 0.0
    return state, {(a, b): dice.uniform(-2, 2) for a in LABELS for b in LABELS if dice.random() < 0.7}


def items(dice: random.Random) -> list[list[str]]:
    return [dice.sample([*ATTRIBUTES, "unseen"], dice.randint(0, 4)) for _ in range(dice.randint(1, 6))]


def agree(path: Path, model: cf.Model, sequences: list[list[list[str]]]) -> None:
    """python-crfsuite and chainfold make the same of some sequences."""
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    cf.save_model(path.with_suffix(".ours"), model)
    crf = cf.CRF.load(path.with_suffix(".ours"))
    marginals = crf.predict_marginals(sequences)
    assert list(map(list, crf.predict(sequences))) == [list(tagger.tag(sequence)) for sequence in sequences]
    for sequence, expected in zip(sequences, marginals, strict=True):
        tagger.set(sequence)
        for t, row in enumerate(expected):
            assert max(abs(tagger.marginal(label, t) - row[label]) for label in row) < EXACT


def test_crfsuite_by_hand(tmp_path: Path) -> None:
    dice, path = random.Random(5), tmp_path / "crfsuite.model"
    state, transitions = by_hand(dice)
    path.write_bytes(crfsuite_file(LABELS, ATTRIBUTES, state, transitions))
    model = cf.open_any_model(path)
    assert model.layout.n_state == len(state)
    agree(path, model, [items(dice) for _ in range(20)])
    crf = cf.CRF.load(path)
    assert crf.state_features_ == {key: weight for key, weight in state.items() if weight}
    assert crf.transition_features_ == transitions


def test_crfsuite_as_python_crfsuite_trains_it(tmp_path: Path) -> None:
    dice, path = random.Random(6), tmp_path / "crfsuite.model"
    sequences = [items(dice) for _ in range(30)]
    trainer = pycrfsuite.Trainer(verbose=False, params={"c2": 0.1, "max_iterations": 20})
    for sequence in sequences:
        trainer.append(sequence, [LABELS[len(item) % 3] for item in sequence])
    trainer.train(str(path))
    model = cf.open_any_model(path)
    agree(path, model, sequences)
    cf.export_model(model, tmp_path / "back.model", "crfsuite")
    agree(tmp_path / "back.model", model, sequences)
    assert fingerprint(cf.open_any_model(tmp_path / "back.model")) == fingerprint(model)
    lines = tmp_path / "lines"
    text = ["\t".join(["?", *item]) for item in sequences[0]]
    lines.write_text("\n".join(text) + "\n")
    tagged = succeeded("tag", path, lines, "--format", "crfsuite").decode().splitlines()
    assert [line.split("\t")[-1] for line in tagged if line] == list(cf.CRF.load(path).predict(sequences[:1])[0])


def test_crfsuite_opens_what_chainfold_trained(tmp_path: Path) -> None:
    X = [[{"word": "the", "n": 2.0}, {"word": "cat"}], [{"word": "a"}, {"word": "dog", "n": -0.5}]]  # noqa: N806
    crf = cf.CRF(max_iterations=10).fit(X, [["D", "N"], ["D", "N"]])
    cf.export_model(crf.model_, tmp_path / "model", "crfsuite")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    assert [list(tagger.tag(pycrfsuite.ItemSequence(x))) for x in X] == list(map(list, crf.predict(X)))
    assert tagger.info().transitions == pytest.approx(crf.transition_features_, abs=1e-6)


def test_names_are_found_by_the_same_hash() -> None:
    names = [*ATTRIBUTES, "", "x" * 11, "x" * 12, "x" * 1000]
    assert lookup3([name.encode() + b"\0" for name in names]).tolist() == [
        plain_lookup3(name.encode() + b"\0") for name in names
    ]
    assert plain_lookup3(b"Four score and seven years ago") == 0x17770551  # of the hash's own description
    assert database_of([name.encode() for name in names]) == cqdb(names)


# Export


def trained(folder: Path, *options: object) -> Path:
    """A small model of rows with a template."""
    rows = folder / "train.txt"
    rows.write_text(
        "\n".join("".join(f"{w} {p} {y}\n" for (w, p), y in zip(ROWS, LABELS * 2, strict=False)) for _ in "12")
    )
    succeeded("train", rows, "-o", folder / "own.model", "--max-iterations", 3, *options)
    return folder / "own.model"


def template(folder: Path, lines: Sequence[str]) -> Path:
    (folder / "template").write_text("".join(f"{line}\n" for line in lines))
    return folder / "template"


@pytest.mark.parametrize(("name", "lines"), [("wapiti", WAPITI_PATTERNS), ("crf++", CRFPP_PATTERNS)])
def test_a_model_comes_back_as_it_was(name: str, lines: list[str], tmp_path: Path) -> None:
    own, back = trained(tmp_path, "--template", template(tmp_path, lines)), tmp_path / "back"
    for _ in range(2):  # of chainfold's own, then of one that was imported
        succeeded("export", own, "-o", back, "--format", name)
        models = [cf.open_any_model(own), cf.open_any_model(back)]
        before, after = map(vocabulary_of_model, models)
        assert after.labels == before.labels
        assert after.attributes.equals(before.attributes)
        assert after.edge_attributes.equals(before.edge_attributes)
        if name == "wapiti":
            assert models[0].weights.tobytes() == models[1].weights.tobytes()
        rows = tmp_path / "train.txt"
        assert succeeded("tag", back, rows, "--all-marginals") == succeeded("tag", own, rows, "--all-marginals")
        succeeded("import", back, "-o", own)
    again = tmp_path / "again"
    succeeded("export", own, "-o", again, "--format", name)
    assert again.read_bytes() == back.read_bytes()


def test_what_a_program_cannot_express_is_refused(tmp_path: Path) -> None:
    def refused(name: str, *options: object) -> str:
        return failed("export", trained(tmp_path, *options), "-o", tmp_path / "out", "--format", name)

    wapiti, crfpp = (["--template", template(tmp_path, lines)] for lines in (WAPITI_PATTERNS, CRFPP_PATTERNS))
    assert "template" in refused("wapiti", *crfpp)
    assert refused("crfsuite", *crfpp).startswith(
        "the model cannot be written for CRFsuite, which has no attributes of pairs"
    )
    for name in FORMATS:
        assert "cannot forbid labels or transitions" in refused(name, "--forbid", "O>V")
        assert "its attributes are hashed" in refused(name, "--hash-bits", 8)
    template(tmp_path, WAPITI_PATTERNS)
    assert "nothing like the attribute" in refused("wapiti", "--attributes", "suffix(0,3)", "--border", "wapiti")
    assert "begin with u or *; this model has '0=" in refused("wapiti", "--attributes", "0", "--border", "wapiti")
    template(tmp_path, ["U:%x[-9,0]"])
    assert "nothing like the attribute" in refused("crf++", *wapiti)
    assert "format is 'x', but must be one of crfsuite, wapiti, crf++" in refused("x").replace("--", "")
    unnamed = cf.Model.random(cf.Layout.full(2, 3))
    with pytest.raises(cf.ChainfoldError, match="its attributes have no names"):
        cf.export_model(unnamed, tmp_path / "out", "crfsuite")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["inspect", "watch", "stream"])
def test_other_verbs_open_foreign_files(verb: str, tmp_path: Path) -> None:
    path, rows = tmp_path / "crfpp.txt", tmp_path / "rows"
    path.write_bytes(crfpp_text(LABELS, CRFPP_PATTERNS, crfpp_keys()))
    rows.write_text("".join(f"{' '.join(row)}\n" for row in ROWS))
    if verb == "inspect":
        assert b"B1:other" in succeeded("inspect", path, "--attribute", "other")
    elif verb == "watch":
        assert run("watch", path, rows).exit_code == 0
    else:
        assert cf.StreamTagger(path).model.layout.n_labels == len(LABELS)


# What is wrong with a file


GOOD = {
    "crfsuite": crfsuite_file(["A", "B"], ["x", "y"], {("x", "A"): 1.0, ("y", "B"): 2.0}, {("A", "B"): 1.0}),
    "wapiti": wapiti_file(["A", "B"], ["u:%x[0,0]", "b"], {"u:x": [1.0, 0.0], "b": [0.0, 1.0, 0.0, 0.0]}),
    "text": crfpp_text(["A", "B"], ["U:%x[0,0]", "B"], {"U:x": [1.0, 0.0], "B": [0.0, 1.0, 0.0, 0.0]}),
    "binary": crfpp_binary(["A", "B"], ["U:%x[0,0]", "B"], {"U:x": [1.0, 0.0], "B": [0.0, 1.0, 0.0, 0.0]}),
}
WRONG: list[tuple[str, bytes, bytes, str]] = [
    ("crfsuite", b"FOMC", b"XXXX", "it is no first-order model"),
    ("crfsuite", b"FOMC\x64", b"FOMC\x65", "its version is 101"),
    ("crfsuite", b"FEAT", b"XXXX", "its weights are missing"),
    ("crfsuite", b"CQDB", b"XXXX", "its labels are no little-endian CQDB"),
    ("crfsuite", b"AFRF", b"XXXX", "its table AFRF is missing"),
    ("crfsuite", b"y\0", b"x\0", "attribute 'x' occurs twice"),
    ("wapiti", b"#mdl#2", b"#mdl#1", "it is no CRF"),
    ("wapiti", b"/3/0\n", b"/3/1\n", "wapiti --me"),
    ("wapiti", b"9:u:%x[0,0]", b"10:u:%x[@0,0]", "is absolute"),
    ("wapiti", b"0=0x1", b"9=0x1", "unknown observations"),
    ("wapiti", b"0=0x1", b"0=0q1", "it should have 2 weights"),
    ("wapiti", b"0=0x1", b"3=0x1", "a weight occurs twice"),
    ("wapiti", b"0=0x1.0000000000000p+0", b"0=0x1.0000000000000p+9999", "it is damaged"),
    ("wapiti", b"3:u:x", b"3:q:x", "begins with neither u, b nor *"),
    ("wapiti", b"1:A,\n1:B", b"1:A,\n1:A", "label 'A' occurs twice"),
    ("wapiti", b"#qrk#2\n1:A", b"#qrk#99999999\n1:A", "label 2 cannot be read"),
    ("wapiti", b"[0,0]", b"[0,9]", ""),
    ("wapiti", b"9:u:%x[0,0]", b'13:b%m[0,0,"a*"]', "makes the same attribute as 'b…' can make"),
    ("text", b"]\nB\n", b"]\nB%x[0,0]\nB\n", ""),
    ("text", b"]\nB\n", b"]\nBx\nB%x[0,0]\n", "makes the same attribute as 'B…' can make"),
    ("wapiti", b"9:u:%x[0,0]", b"14:u:%x[0,999999]", "it uses 1000000 columns"),
    ("text", b"version: 100", b"version: 200", "its version is 200"),
    ("text", b"maxid: 6", b"maxid: 7", "it should have 7 weights, and has 6"),
    ("text", b"cost-factor: 1", b"cost-factor: 0", "its cost-factor is 0"),
    ("text", b"\n2 B", b"\n1 B", "no weights of their own"),
    ("text", b"0 U:x", b"0 V:x", "begins with neither U nor B"),
    ("text", b"\n1.0", b"\nnan", "one of its weights is no number"),
    ("text", b"xsize: 2", b"xsize: 99999999", "it uses 99999999 columns"),
    ("binary", b"A\0B\0", b"A\0A\0", "label 'A' occurs twice"),
]


@pytest.mark.parametrize(("kind", "before", "after", "sentence"), WRONG)
def test_what_is_wrong_is_said(kind: str, before: bytes, after: bytes, sentence: str, tmp_path: Path) -> None:
    assert before in GOOD[kind]
    (tmp_path / "foreign").write_bytes(GOOD[kind].replace(before, after, 1))
    if not sentence:
        cf.open_any_model(tmp_path / "foreign")
        return
    with pytest.raises(cf.ChainfoldError) as caught:
        cf.open_any_model(tmp_path / "foreign")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("kind", GOOD)
def test_a_file_that_is_cut_anywhere_is_refused(kind: str, tmp_path: Path) -> None:
    path, content = tmp_path / "foreign", GOOD[kind]
    path.write_bytes(content)
    cf.open_any_model(path)
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(cf.ChainfoldError):
            cf.open_any_model(path)


def test_memory_is_limited_by_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(wapiti_file([f"L{k}" for k in range(20_000)], [], {"ux": [1.0]}))
    with pytest.raises(cf.ChainfoldError, match="20000 labels and 0 edge attributes make 400,000,000 weights"):
        cf.open_any_model(path)
    path.write_bytes(wapiti_file(["A"], [], {f"u{k}": [1.0] for k in range(3)}).replace(b"\n0=", b"\n0=", 1))
    assert cf.open_any_model(path).layout.n_attributes == 3


def test_an_encoding_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(GOOD["wapiti"])
    assert "encoding is 'rot13'" in failed("import", path, "-o", tmp_path / "m", "--encoding", "rot13").replace(
        "--", ""
    )
