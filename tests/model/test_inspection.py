"""What a model says of itself: the same as a plain look at each weight, and pages in which names are only text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chainfold import Layout, Model, Vocabulary
from chainfold.features.encode import chain_from_sequences
from chainfold.model.file import save_model
from chainfold.model.inspection import inspect, matching, strongest
from verbs import run


def named(n_labels: int = 3, n_attributes: int = 12, seed: int = 0, edges: int = 2) -> Model:
    """Random weights with equals, zeros and forbidden ones among them; rows of different lengths."""
    rng = np.random.default_rng(seed)
    there = rng.random((n_attributes, n_labels)) < 0.7
    offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64)
    layout = Layout(n_labels, n_attributes, edges, offsets, np.nonzero(there)[1].astype(np.int32))
    weights = np.round(rng.normal(0.0, 1.0, layout.size), 1)
    weights[rng.random(layout.size) < 0.1] = -np.inf
    vocabulary = Vocabulary(
        labels=tuple(f"L{j}" for j in range(n_labels)),
        attributes=pa.array([f"w={a % 7}/{a}" for a in range(n_attributes)], pa.large_string()),
        edge_attributes=pa.array([f"e={b}" for b in range(edges)], pa.large_string()),
        counts=np.arange(n_attributes, 0, -1),
        marks=np.zeros((n_attributes, 1), np.uint64),
    )
    first = np.arange(n_labels) != 1
    return Model(layout, weights, vocabulary=vocabulary, first=first, training={"c2": 0.5, "stopped": "done"})


@pytest.mark.parametrize("entry", [["a", "b", "c", "d"], [0.5, None, [1], "d"], [10**400] * 4, [True] * 4])
def test_a_long_list_in_the_training_record_is_shown(entry: list[Any], tmp_path: Path) -> None:
    save_model(tmp_path / "m", replace(named(), training={"record": entry}))
    for how in ((), ("--html", tmp_path / "page.html")):
        done = run("inspect", tmp_path / "m", *how)
        assert done.exit_code == 0, done.exception
    assert json.dumps(entry)[:20] in run("inspect", tmp_path / "m").output.replace("\n", "")


def plain_state(model: Model) -> list[tuple[str, str, float, int]]:
    """(attribute, label, weight, count) of each weight of an attribute, by a plain loop."""
    assert model.vocabulary is not None
    assert model.layout.row_offsets is not None
    assert model.layout.row_labels is not None
    rows = []
    for a, name in enumerate(model.vocabulary.attributes.to_pylist()):
        for m in range(model.layout.row_offsets[a], model.layout.row_offsets[a + 1]):
            label = model.vocabulary.labels[model.layout.row_labels[m]]
            rows.append((name, label, float(model.weights[m]), int(model.vocabulary.counts[a])))
    return rows


def as_rows(found: list[dict[str, Any]]) -> list[tuple[str, str, float, int]]:
    return [
        (row["attribute"], row["label"], -np.inf if row["weight"] is None else row["weight"], row["count"])
        for row in found
    ]


@pytest.mark.parametrize("top", [0, 1, 3, 100])
@pytest.mark.parametrize("seed", range(3))
def test_the_strongest_attributes_of_each_label_are_those_of_a_plain_loop(top: int, seed: int) -> None:
    model = named(seed=seed)
    found = inspect(model, top)["strongest_attributes"]
    assert [of_label["label"] for of_label in found] == ["L0", "L1", "L2"]
    for of_label in found:
        rows = [row for row in plain_state(model) if row[1] == of_label["label"]]
        best = sorted((row for row in rows if row[2] > 0), key=lambda row: -row[2])[:top]
        worst = sorted((row for row in rows if row[2] < 0), key=lambda row: row[2])[:top]
        assert as_rows(of_label["for"]) == best
        assert as_rows(of_label["against"]) == worst


@pytest.mark.parametrize("most", [0, 1, 5, 1000])
def test_the_strongest_of_all_are_those_of_a_plain_loop(most: int) -> None:
    model = named(seed=4)
    rows = sorted((row for row in plain_state(model) if row[2]), key=lambda row: -abs(row[2]))
    assert as_rows(strongest(model, most)) == rows[:most]


def test_transitions_constraints_and_sizes() -> None:
    model = named(seed=5)
    weights = model.weights.copy()
    n_state = model.layout.n_state
    weights[n_state : n_state + 9] = [0.5, -np.inf, 2.0, -1.0, 0.0, 0.5, -np.inf, -3.0, 1.0]
    facts = inspect(replace(model, weights=weights), 3)
    assert facts["transitions"] == [[0.5, None, 2.0], [-1.0, 0.0, 0.5], [None, -3.0, 1.0]]
    assert [(row["from"], row["to"]) for row in facts["forbidden_transitions"]] == [("L0", "L1"), ("L2", "L0")]
    best = [(row["from"], row["to"], row["weight"]) for row in facts["strongest_transitions"]["for"]]
    assert best == [("L0", "L2", 2.0), ("L2", "L2", 1.0), ("L0", "L0", 0.5)]
    worst = [(row["from"], row["to"], row["weight"]) for row in facts["strongest_transitions"]["against"]]
    assert worst == [("L2", "L1", -3.0), ("L1", "L0", -1.0)]
    assert (facts["first"], facts["last"], facts["training"]) == (["L0", "L2"], None, model.training)
    assert facts["sizes"] == {
        "labels": 3,
        "attributes": 12,
        "edge_attributes": 2,
        "weights": weights.size,
        "attribute_weights": n_state,
        "nonzero_weights": sum(weight != 0.0 for weight in weights),
        "forbidding_weights": sum(weight == -np.inf for weight in weights),
    }
    json.dumps(facts, allow_nan=False)


def test_edge_attributes_are_ranked_with_their_transitions() -> None:
    model = named(seed=6)
    assert model.vocabulary is not None
    edges = model.weights[model.layout.n_state + 9 :].reshape(2, 3, 3)
    rows = [(f"e={b}", f"L{i}", f"L{j}", float(edges[b, i, j])) for b in range(2) for i in range(3) for j in range(3)]
    best = sorted((row for row in rows if row[3] > 0), key=lambda row: -row[3])[:4]
    found = inspect(model, 4)["strongest_edge_attributes"]["for"]
    assert [(row["edge_attribute"], row["from"], row["to"], row["weight"]) for row in found] == best


def test_matching_finds_all_weights_by_part_of_a_name() -> None:
    model = named(seed=7)
    state = [row for row in matching(model, "w=3/") if "attribute" in row]
    assert as_rows(state) == [row for row in plain_state(model) if row[0] in ("w=3/3", "w=3/10")]
    edge = matching(model, "e=1")
    assert [(row["edge_attribute"], row["from"], row["to"]) for row in edge] == [
        ("e=1", f"L{i}", f"L{j}") for i in range(3) for j in range(3)
    ]
    assert matching(model, "nothing") == []
    assert matching(model, "W=3") == []


def test_models_without_names_say_numbers() -> None:
    model = replace(named(seed=8), vocabulary=None)
    facts = inspect(model, 2)
    assert facts["labels"] == ["0", "1", "2"]
    assert (facts["template"], facts["hash_bits"], facts["min_count"]) == (None, None, None)
    row = facts["strongest_attributes"][0]["for"][0]
    assert re.fullmatch(r"attribute \d+", row["attribute"])
    assert row["count"] is None
    assert {row.get("attribute", row.get("edge_attribute")) for row in matching(model, "1")} == {
        "attribute 1",
        "edge attribute 1",
    }
    assert matching(model, "9" * 5000) == matching(model, "x") == []


def test_a_template_is_shown_as_outlines() -> None:
    chain = chain_from_sequences([[{"w": "a"}, {"w": "b"}]], [["x", "y"]])
    model = replace(Model.random(Layout.full(2, chain.n_attributes)), vocabulary=chain.vocabulary)
    facts = inspect(model)
    assert facts["template"] == ["…"]
    assert facts["min_count"] == 1


# The verb


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_model(tmp_path / "a.model", named())
    return tmp_path / "a.model"


def test_tables(path: Path) -> None:
    result = run("inspect", path, "--top", 2)
    assert result.exit_code == 0
    for text in ("attributes", "may begin a sequence", "L0, L2", "training: c2", "from, to", "label L1", "forbidden"):
        assert text in result.stdout
    assert result.stdout.count("edge attribute") >= 2
    few = run("inspect", path, "--label", "L1", "--label", "L2").stdout
    assert "label L0" not in few
    assert "label L1" in few
    assert "label L2" in few


def test_many_labels_are_shown_as_pairs(tmp_path: Path) -> None:
    save_model(tmp_path / "many", named(n_labels=13, edges=0))
    text = run("inspect", tmp_path / "many", "--top", 3).stdout
    assert "strongest transitions" in text
    assert "from, to" not in text
    save_model(tmp_path / "blank", Model(Layout.full(13, 0), np.zeros(169)))
    assert "none" in run("inspect", tmp_path / "blank").stdout


def test_weights_of_an_attribute(path: Path) -> None:
    text = run("inspect", path, "--attribute", "w=3/").stdout
    assert "w=3/10" in text
    assert "w=4/4" not in text
    assert "L0 → L2" in run("inspect", path, "--attribute", "e=1").stdout
    result = run("inspect", path, "--attribute", "nothing")
    assert result.exit_code == 2
    assert "no attribute with a weight has a name that contains 'nothing'" in result.stderr


def test_json_is_what_inspection_finds(path: Path) -> None:
    result = run("inspect", path, "--top", 4, "--json", "--attribute", "w=3/", "--label", "L2")
    facts = json.loads(result.stdout)
    found = facts.pop("matching")
    assert found == matching(named(), "w=3/")
    assert facts.pop("model") == str(path)
    assert facts.pop("bytes") == path.stat().st_size
    assert facts == json.loads(json.dumps(inspect(named(), 4, ["L2"])))


# The page


class Reader(HTMLParser):
    """The elements, texts and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.values: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.titles: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.values += [value or "" for name, value in attrs if name in ("src", "href")]
        self.titles += [value or "" for name, value in attrs if name == "title"]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self._open and self._open[-1] == "script" else self.texts).append(data)


EVIL = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "\"&quot;'",
    "]]>&lt;",
    "\u2028{policy}",
    "<b>",
    "%s{0}",
]


def evil() -> Model:
    model = named(n_labels=3, n_attributes=8)
    assert model.vocabulary is not None
    vocabulary = replace(
        model.vocabulary,
        labels=tuple(EVIL[:3]),
        attributes=pa.array(EVIL, pa.large_string()),
        edge_attributes=pa.array(EVIL[:2], pa.large_string()),
    )
    return replace(model, vocabulary=vocabulary, training={EVIL[0]: EVIL[1], "more": {EVIL[2]: EVIL}})


def page_of(model: Model, folder: Path, *arguments: object) -> str:
    save_model(folder / "page.model", model)
    result = run("inspect", folder / "page.model", "--html", folder / "page.html", *arguments)
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    return (folder / "page.html").read_text("utf-8")


def embedded(page: Reader) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(page.scripts[0])
    return data


def test_names_are_only_ever_text(tmp_path: Path) -> None:
    text = page_of(evil(), tmp_path)
    page, plain = Reader(text), Reader(page_of(named(n_labels=3, n_attributes=8), tmp_path))
    assert set(page.elements) == set(plain.elements)
    assert page.elements.count("script") == 2
    assert page.scripts[1] == plain.scripts[1]
    assert embedded(page)["labels"] == EVIL[:3]
    assert set(embedded(page)["attributes"]) <= set(EVIL)
    for name in EVIL[:3]:
        assert any(name in text for text in page.texts)
        assert any(name in title for title in page.titles)
    for mark in "<>&":
        assert mark not in re.findall(r'id="weights">(.*?)</script>', text)[0]


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    text = page_of(named(), tmp_path)
    page = Reader(text)
    assert page.values == []
    assert not re.search(r"https?:|//|url\(|@import", text)
    assert "default-src &#x27;none&#x27;" in text
    assert text == page_of(named(), tmp_path)


def test_the_policy_lets_the_one_script_run(tmp_path: Path) -> None:
    text = page_of(named(), tmp_path)
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in text


def test_the_map_shows_every_transition(tmp_path: Path) -> None:
    model = named(seed=9, edges=0)
    page = Reader(page_of(model, tmp_path))
    for row, i in zip(inspect(model)["transitions"], range(3), strict=True):
        for weight, j in zip(row, range(3), strict=True):
            said = "forbidden" if weight is None else f"{weight:+.4f}"
            assert f"L{i} → L{j}: {said}" in page.titles
    assert "Edge attributes" not in page.texts
    many = named(n_labels=70, n_attributes=5, edges=0)
    text = page_of(many, tmp_path)
    assert "The 64 of 70 labels with the strongest ones are shown." in text
    assert sum(" → " in title for title in Reader(text).titles) == 64**2


def test_the_strongest_weights_are_embedded_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = named()
    monkeypatch.setattr(sys.modules["chainfold.cli.inspect"], "_MOST_EMBEDDED", 7)
    page = Reader(page_of(model, tmp_path))
    data = embedded(page)
    found = [(data["attributes"][a], data["labels"][j], weight, data["counts"][a]) for a, j, weight in data["weights"]]
    assert found == [(row["attribute"], row["label"], row["weight"], row["count"]) for row in strongest(model, 7)]
    assert f"The 7 strongest of {model.layout.n_state} weights of attributes are in this page." in page.texts


def test_a_page_of_a_model_that_knows_nothing(tmp_path: Path) -> None:
    page = Reader(page_of(Model(Layout.full(1, 0), np.zeros(1)), tmp_path))
    assert embedded(page)["weights"] == []
    assert "none" in page.texts
